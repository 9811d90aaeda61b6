# SPDX-License-Identifier: BSD-2-Clause
"""Tests packets that another user of the machine, or of the peer's, sends to a foreign connection."""
import collections
import ctypes
import re
import socket
import struct
import subprocess
import threading
import time

from cases_robust import Traffic
from harness import (CLONE_NEWNET, NOBODY, NORMAL, Case, Failure, Proc, Side, Skip, Topology, VethPair, expect, gid_index, need_user,
                     new_port, sanitizer_env, start)

ROCE_PORT = 4791
RC, RC_SENDS, RC_ACKS = range(0x20), range(5), (0x11,)      # opcodes
ANSWERS = ('nak', 'sequence', 'rnr', 'ack')
ETH_P_IP = 0x0800
CAPTURE_GUARD_S = 60
PSNS = 1 << 24
# Those that are tried: all that will be due meanwhile. Not as fast as it goes: that would lose the peer's packets, too.
BEFORE, TRIED, PER_SECOND = 20_000, 400_000, 200_000
CNPS, CNPS_PER_SECOND = 4_000, 20_000       # one in an interval
KEEPER, HOSTILE = '127.0.0.42', '127.0.0.43'
QPS, GAPS_PER_SECOND, SLAB_KIB_MAX = 4096, 100_000, 6 * 1024
BUSY_QPS, BUSY_KIB_MAX = 1000, 4096
PATIENCE = 18                               # 1 s for an answer
SERVER, CLIENT = '127.0.0.40', '127.0.0.41'


Packet = collections.namedtuple('Packet', 'qpn psn sport')


def in_netns(netns, make):
    """What make() returns, called in a network namespace (None: in this one): sockets stay there."""
    made = []

    def call():
        if netns:
            with open(f'/run/netns/{netns}', 'rb') as f:
                if ctypes.CDLL(None).setns(f.fileno(), CLONE_NEWNET):
                    return
        made.append(make())

    # The namespace is the thread's.
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if not made:
        raise Failure(f'no socket in {netns or "this namespace"}')
    return made[0]


def packet_socket(interface):
    """A socket that gets what an interface receives; None: not allowed here."""
    try:
        s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    except PermissionError:
        return None
    s.bind((interface, ETH_P_IP))
    return s


class Wire:
    """What comes in by an interface: whose QPN, and which PSN is due."""

    def __init__(self, interface='lo', netns=None):
        self.socket = in_netns(netns, lambda: packet_socket(interface))
        if not self.socket:
            raise Skip('no packet sockets here')
        self.socket.settimeout(CAPTURE_GUARD_S)

    def packet(self, source, destination, opcodes=RC):
        """The next RC packet from one address to another."""
        end = time.monotonic() + CAPTURE_GUARD_S
        while time.monotonic() < end:
            try:
                ip = self.socket.recv(2048)
            except TimeoutError:
                break
            udp = ip[(ip[0] & 15) * 4:]
            if ip[9] != socket.IPPROTO_UDP or struct.unpack('!H', udp[2:4])[0] != ROCE_PORT:
                continue
            if (socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20])) != (source, destination):
                continue
            bth = udp[8:20]
            if bth[0] in opcodes:
                return Packet(int.from_bytes(bth[5:8], 'big'), int.from_bytes(bth[9:12], 'big'), struct.unpack('!H', udp[:2])[0])
        raise Failure(f'no RC packet from {source} to {destination}')


def sweep(config, kind, source, destination, qpn, first, tried=TRIED):
    """One PSN after another, as another user, from the peer's address."""
    p = Proc([config.program('prog', 'roce-forge'), kind, source, destination, qpn, (first - BEFORE) % PSNS, tried,
              PER_SECOND], env=sanitizer_env(config), name=f'{kind} sweep', user=NOBODY)
    expect(p.wait() == 0, 'the sweep failed', p)
    return float(re.search(r'in ([\d.]+) s', p.stdout).group(1))


def swept(config, _):
    """A connection under traffic lives through a sweep over PSNs towards each of its QPs."""
    need_user(NOBODY, config.rocemu)
    sides = [Side(f'forged0={address}', address, name='forged0') for address in (SERVER, CLIENT)]
    took = 0
    with Traffic(config, Topology('forged', *sides), '-e') as t:
        wire = Wire()
        for source, destination in ((SERVER, CLIENT), (CLIENT, SERVER)):
            seen = wire.packet(source, destination, RC_SENDS)
            took += sweep(config, 'write', source, destination, seen.qpn, seen.psn)
        for kind in ANSWERS:
            seen = wire.packet(SERVER, CLIENT, RC_ACKS)
            took += sweep(config, kind, SERVER, CLIENT, seen.qpn, seen.psn, TRIED // 8)
        wire.socket.close()
        wire = Wire()
        for source, destination in ((SERVER, CLIENT), (CLIENT, SERVER)):
            wire.packet(source, destination, RC_SENDS)      # still going on
        expect(t.server.running() and t.client.running(), 'a side has ended', t.server, t.client)
    return f'{2 * TRIED + len(ANSWERS) * TRIED // 8} packets in {took:.0f} s'


class Stream:
    """ib_write_bw from one host to another, whose requester is to be attacked from the responder's host. Each prints what its
    port has counted."""

    COUNTERS = ('rp_cnp_handled', 'np_cnp_sent', 'rx_port_dropped')

    def __init__(self, config, topo, seconds, *options):
        self.config, self.topo, self.procs = config, topo, []
        port = new_port()
        argv = ['ib_write_bw', '-d', topo.client.name, '-x', gid_index(config, topo.client), '-p', port, '-F', '-s', 1 << 20,
                '-t', 16, '-D', seconds, '-u', PATIENCE, '-W', ','.join(f'hw_counters/{name}' for name in self.COUNTERS), *options]
        self.server = self.start(topo.server, argv, 'server')
        self.server.wait_listening(port)
        self.client = self.start(topo.client, argv + [topo.server.tcp], 'client')

    def start(self, side, argv, name):
        self.procs.append(start(self.config, side, argv, name))
        return self.procs[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.procs:
            p.kill()

    def answer(self):
        """One of the responder's packets."""
        wire = Wire('veth0', self.topo.client.netns)
        try:
            return wire.packet(self.topo.server.address, self.topo.client.address)
        finally:
            wire.socket.close()

    def flood(self, kind, source, count, rate, qpn, psn=0):
        """From the responder's host to the requester. A source with a port takes a raw socket, which only root has."""
        return Proc([self.config.program('prog', 'roce-forge'), kind, source, self.topo.client.address, qpn, psn, count, rate],
                    env=sanitizer_env(self.config), netns=self.topo.server.netns, user=None if ':' in source else NOBODY, name=kind)

    def ended(self):
        """Gbit/s, and the counters of server and client."""
        expect(self.client.wait() == 0 == self.server.wait(), 'the connection ended', self.client, self.server)
        rows = [line.split() for line in self.client.stdout.splitlines() if line.split()[:1] == [str(1 << 20)]]
        counted = [{name: int(re.search(rf'hw_counters/{name}=(\d+)', p.stdout)[1]) for name in self.COUNTERS}
                   for p in (self.server, self.client)]
        return float(rows[-1][3]) * (1 << 20) * 8 / 1e9, *counted


def stranger(topo, side, last=77):
    """Another address of a host; removed with the namespace."""
    address = f"{topo.server.address.rsplit('.', 1)[0]}.{last + (side is topo.client)}"
    shown = VethPair.ip('-n', side.netns, 'address', 'show', 'dev', 'veth0')
    if address not in shown:
        VethPair.ip('-n', side.netns, 'address', 'add', address + '/24', 'dev', 'veth0')
    return address


def sources(topo, seen):
    """Where packets are forged: another address, another port of the peer's, and the peer's own, which takes privilege."""
    return {'address': stranger(topo, topo.server), 'port': topo.server.address, 'own': f'{topo.server.address}:{seen.sport}'}


def cnps(config, lab):
    """Only CNPs from the peer's own port are heeded; others are as if they had not come."""
    topo = lab.get('veth1500-v4')
    topo.check()
    need_user(NOBODY, config.rocemu)
    heeded = {}
    for names in (('address', 'port'), ('own',)):
        with Stream(config, topo, 1) as s:
            seen = s.answer()
            for name in names:
                p = s.flood('cnp', sources(topo, seen)[name], CNPS, CNPS_PER_SECOND, seen.qpn)
                expect(p.wait() == 0, 'the flood failed', p)
            _, server, client = s.ended()
        heeded[names[-1]] = client['rp_cnp_handled'] - server['np_cnp_sent']
        if 'port' in names:
            expect(client['rx_port_dropped'] > CNPS / 2, f'only {client["rx_port_dropped"]} of {CNPS} CNPs came', s.client)
    expect(heeded['port'] <= 0, f'{heeded["port"]} CNPs of strangers were heeded')
    expect(heeded['own'] > CNPS / 2, f'only {heeded["own"]} of {CNPS} CNPs from the peer\'s port came: this shows nothing')


class KeepVictim:
    """keep-victim.c: QPs of an address from which packets are forged, and a pair beside them."""

    def __init__(self, config, qps, *more, impair='loss=1%,seed=3'):
        side = Side(f'forged1={KEEPER}', KEEPER, name='forged1')
        self.config = config
        self.proc = start(config, side, [config.program('prog', 'keep-victim'), side.name, HOSTILE, qps, *more], 'victim',
                          options=('--impair', impair), stdin=subprocess.PIPE)
        self.lines = 0
        low, high = self.line()
        self.qpn, self.qpns = int(low), int(high) - int(low) + 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.popen.stdin.close()
        self.proc.kill()

    def line(self):
        self.lines += 1
        self.proc.wait_until(lambda: self.proc.stdout.count('\n') >= self.lines, 'it printed a line')
        return self.proc.stdout.splitlines()[self.lines - 1].split()

    def stream(self, ms):
        """MB that the pair moved, the process's memory in KiB, packets before their turn, RNR NAKs."""
        self.proc.popen.stdin.write(f'{ms}\n'.encode())
        self.proc.popen.stdin.flush()
        mb, kib, early, _, rnr = self.line()
        return float(mb), int(kib), int(early), int(rnr)

    def flood(self, kind):
        return Proc([self.config.program('prog', 'roce-forge'), kind, HOSTILE, KEEPER, self.qpn, 0, 1_000_000 * self.qpns,
                     GAPS_PER_SECOND, self.qpns], env=sanitizer_env(self.config), name=kind, user=NOBODY)


def gaps(config, _):
    """A peer that leaves gaps on thousands of QPs takes no more than the slab of one lane, and others go on."""
    need_user(NOBODY, config.rocemu)
    with KeepVictim(config, QPS) as v:
        _, before, early, _ = v.stream(200)
        p = v.flood('gaps')
        try:
            mb, after, now, _ = v.stream(1000)
            expect(p.running(), 'the flood ended', p)
        finally:
            p.kill()
    expect(now - early > QPS, f'only {now - early} packets before their turn', v.proc)
    expect(after - before < SLAB_KIB_MAX, f'{after - before} KiB more memory', v.proc)
    expect(mb > 0, 'the other connection stands still', v.proc)
    return f'{v.qpns} QPs, {after - before} KiB more'


def busy(config, _):
    """A peer that is never ready to receive, for the shortest time, on a thousand QPs: others go on."""
    need_user(NOBODY, config.rocemu)
    p = Proc([config.program('prog', 'roce-forge'), 'busy', HOSTILE, KEEPER, 0, 0, 1_000_000_000], env=sanitizer_env(config),
             name='busy', user=NOBODY)
    try:
        with KeepVictim(config, BUSY_QPS, 'send', impair='loss=0') as v:
            _, before, _, first = v.stream(200)
            mb, after, _, last = v.stream(1000)
            expect(p.running(), 'the peer ended', p)
    finally:
        p.kill()
    expect(last - first > BUSY_QPS, f'only {last - first} RNR NAKs: this shows nothing', v.proc, p)
    expect(after - before < BUSY_KIB_MAX, f'{after - before} KiB more memory', v.proc)
    expect(mb > 0, 'the other connection stands still', v.proc)
    return f'{last - first} RNR NAKs, {mb:.0f} MB by another connection, {after - before} KiB more'


def cases():
    yield Case('forged/busy', busy, NORMAL, alone=True)
    yield Case('forged/sweep', swept, NORMAL, alone=True)
    yield Case('forged/gaps', gaps, NORMAL, alone=True)
    yield Case('forged/cnp', cnps, NORMAL, alone=True, needs=('ib_write_bw',))
