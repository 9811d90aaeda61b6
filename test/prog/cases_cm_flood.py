# SPDX-License-Identifier: BSD-2-Clause
"""A hostile host that sends requests for connections without end, each well-formed and another one: others still
connect, and nobody's memory grows without bound."""
import multiprocessing
import os
import random
import socket
import struct
import zlib

import icrc_check
from cases_cm import agent_status
from cases_cm_end import Actor
from harness import NORMAL, Case, expect, new_port

HOSTILE = '127.0.0.77'
ROCE_PORT = 4791
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2   # then the kernel sends identification 0
MAD = 20                                  # where it begins, behind BTH and DETH
TID, COMM_ID, SERVICE_ID, QPN = MAD + 12, MAD + 24, MAD + 32, MAD + 56
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'golden', 'cm_rping.pcap')
GROWTH_MAX_KB = 64 * 1024


class Requests:
    """REQs to a port of an address: rping's, with other addresses, IDs and QP each time, and the ICRC right."""

    def __init__(self, to, port):
        with open(GOLDEN, 'rb') as f:
            golden = next(icrc_check.packets(f.read()))
        src, dst = socket.inet_aton(HOSTILE), socket.inet_aton(to)
        self.body = bytearray(golden.bth_on[:-4].replace(golden.src, b'from').replace(golden.dst, dst).replace(b'from', src))
        struct.pack_into('>Q', self.body, SERVICE_ID, 0x01060000 | port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOSTILE, 0))
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.to = (to, ROCE_PORT)
        udp = 8 + len(self.body) + 4
        self.before = zlib.crc32(b'\xff' * 8 + struct.pack(
            '>BBHHHBBH4s4sHHHH', 0x45, 0xff, 20 + udp, 0, 0x4000, 0xff, socket.IPPROTO_UDP, 0xffff, src, dst,
            self.socket.getsockname()[1], ROCE_PORT, udp, 0xffff))
        self.serial = random.Random(4791).randrange(1 << 22)

    def send(self):
        self.serial += 1
        struct.pack_into('>I', self.body, TID, self.serial)
        struct.pack_into('>I', self.body, COMM_ID, self.serial)
        self.body[QPN:QPN + 3] = (self.serial & 0xffffff).to_bytes(3, 'big')
        masked = bytearray(self.body)
        masked[4] = 0xff
        try:
            self.socket.sendto(bytes(self.body) + struct.pack('<I', zlib.crc32(masked, self.before)), self.to)
        except OSError:
            pass    # what came back of an earlier one


def flood(to, port, stop, count):
    requests = Requests(to, port)
    while not stop.is_set():
        for _ in range(100):
            requests.send()
        count.value += 100


def resident_kb(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return int(next(line for line in f if line.startswith('VmHWM')).split()[1])


def flooded(config, lab):
    topo = lab.get('lo')
    topo.check()
    at, ports = topo.server.address, (new_port(), new_port())
    with Actor(config, topo.server, 'victim') as victim, Actor(config, topo.server, 'other') as other, \
            Actor(config, topo.client, 'client') as client:
        for actor, port in ((victim, ports[0]), (other, ports[1])):
            actor.do(f'listen {at} {port} 16', r'ok \d+')
        agent = agent_status(config, topo.server)['pid']
        watched = {victim.proc.pid: 'victim', agent: 'agent'}
        before = {pid: resident_kb(pid) for pid in watched}
        stop, count = multiprocessing.Event(), multiprocessing.Value('q', 0)
        sender = multiprocessing.Process(target=flood, args=(at, ports[0], stop, count))
        sender.start()
        try:
            # The victim has as many as it takes, and reads none.
            while agent_counter(config, topo, 'rx') < 20000:
                expect(sender.is_alive(), 'the sender ended')
            client.do(f'resolve {at} {ports[1]}', r'ok \d+')
            client.do('qp 0')
            client.do('connect 0')
            # A message that is lost in the flood comes again, 6 s later.
            other.event('CONNECT_REQUEST 0 1', 60000)
            other.do('qp 1')
            other.do('accept 1')
            client.event('ESTABLISHED 0', 60000)
            other.event('ESTABLISHED 0', 60000)
        finally:
            stop.set()
            sender.join()
        for pid, name in watched.items():
            grown = resident_kb(pid) - before[pid]
            expect(grown < GROWTH_MAX_KB, f'{name} grew by {grown} KB')
        victim.event('CONNECT_REQUEST 0 1')
        return f'{count.value} requests'


def agent_counter(config, topo, name):
    return agent_status(config, topo.server)['cm']['counters'][name]


def cases():
    return [Case('cm/flood/lo', flooded, NORMAL, alone=True)]
