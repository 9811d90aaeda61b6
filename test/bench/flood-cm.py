#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Floods of connection management on loopback, from a plain UDP socket of another address (or many): does a connection that
was there stay, do new ones come about, how long do they take, and what memory do agent and server take.

The server takes requests of the client's address and rejects others. Each row is a kind of flood for so many seconds; the
client connects and disconnects one connection after another all the time. The first row is without a flood.
Exit code 0: all connections came about and the first one stayed, 1: not so.
"""
import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import statistics
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'prog'))
import harness  # pylint: disable=wrong-import-position
import qp1  # pylint: disable=wrong-import-position
from cases_cm import agent_status  # pylint: disable=wrong-import-position
from cases_cm_end import Actor  # pylint: disable=wrong-import-position

SERVER, CLIENT = '127.0.0.1', '127.0.0.2'
PORT, MUTE, EARLY, UDP, NOWHERE = 7471, 7472, 7473, 7474, 7475
PACKETS = 20000             # different ones, sent round and round
GUARD_MS = 150000           # longer than all tries of a REQ


def sources(n):
    return [f'127.0.{1 + i // 250}.{1 + i % 250}' for i in range(n)]


def requests(port):
    def make(source, n, _):
        maker = qp1.Requests(source, SERVER, port)
        # Others than those of the floods before: the agent remembers who got which.
        maker.serial += random.randrange(1 << 32) << 16
        return maker.sender, [maker.sender.packet(maker.next()) for _ in range(n)]
    return make


def sidr_requests(source, n, _):
    sender, mads = qp1.Sender(source, SERVER), []
    for i in range(n):
        mad = qp1.message(qp1.SIDR_REQ, 1 << 40 | i, i + 1, 0xffff0000)
        struct.pack_into('>Q', mad, qp1.BODY + 8, 0x01110000 | UDP)
        # Annex A11's header: version, IP version, source port, addresses.
        cma = struct.pack('>BBH12x4s12x4s', 0, 0x40, 1, qp1.socket.inet_aton(source), qp1.socket.inet_aton(SERVER))
        mad[qp1.BODY + 16:qp1.BODY + 16 + len(cma)] = cma
        mads.append(sender.packet(mad))
    return sender, mads


def unknown(source, n, prefixes):
    """Messages for connections that do not exist, of processes that do."""
    sender, rng = qp1.Sender(source, SERVER), random.Random(1)
    attrs = (qp1.MRA, qp1.REJ, qp1.REP, qp1.RTU, qp1.DREQ, qp1.DREP, qp1.LAP, qp1.APR)
    return sender, [sender.packet(qp1.message(rng.choice(attrs), rng.getrandbits(64), rng.getrandbits(32),
                                              rng.choice(prefixes) << 22 | rng.getrandbits(22))) for _ in range(n)]


def garbage(source, n, _):
    sender, rng = qp1.Sender(source, SERVER), random.Random(1)
    return sender, [sender.headers + rng.randbytes(qp1.MAD_LEN + 4) for _ in range(n)]


FLOODS = {
    'no flood': (None, 0),
    'REQ': (requests(PORT), 1),
    'REQ, 250 addresses': (requests(PORT), 250),
    'REQ, 5000 addresses': (requests(PORT), 5000),
    'REQ, program does not read': (requests(MUTE), 1),
    'REQ, port is bound only': (requests(EARLY), 1),
    'REQ, nobody listens': (requests(NOWHERE), 1),
    'SIDR_REQ': (sidr_requests, 1),
    'unknown IDs': (unknown, 1),
    'no MADs': (garbage, 1),
}


def flood(make, addresses, prefixes, gap_s, stop, count, begun):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    per_source = max(1, PACKETS // len(addresses))
    made = [make(a, per_source, prefixes) for a in addresses]
    rounds = [(sender, packets[i]) for i in range(per_source) for sender, packets in made]
    sent, due = 0, time.monotonic()
    while True:
        for sender, packet in rounds:
            sender.send_packet(packet)
            sent += 1
            if sent % 64:
                continue
            count.value = sent
            if sent == 64:
                begun.send(True)
            if stop.is_set():
                return
            due += 64 * gap_s
            if gap_s and due > time.monotonic():
                time.sleep(due - time.monotonic())


def resident_kb(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return int(next(line for line in f if line.startswith('VmRSS')).split()[1])


class Machine:
    """Agent, server and client, with a connection that is there."""

    def __init__(self, config):
        side = {name: harness.Side(f'{name}={addr}', addr, name=name) for name, addr in (('hosta', SERVER), ('hostb', CLIENT))}
        self.config, self.side, self.client_side = config, side['hosta'], side['hostb']
        self.server = Actor(config, side['hosta'], 'server')
        self.mute = Actor(config, side['hosta'], 'mute')
        self.server.do(f'listen {SERVER} {PORT} 0', r'ok \d+')
        self.server.do(f'listen {SERVER} {UDP} 0 udp', r'ok \d+')
        self.server.do(f'serve {CLIENT}')
        self.mute.do(f'listen {SERVER} {MUTE} 0', r'ok \d+')
        self.mute.do(f'bind {SERVER} {EARLY}', r'ok \d+')
        self.client = self.ids = None
        self.renew_client()
        # A connection that stays while those of other clients come and go.
        self.witness, self.old = self.client, self.connect()[0]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for actor in {self.client, self.witness, self.server, self.mute}:
            actor.kill()

    def renew_client(self):
        """Another process: one has so many IDs."""
        self.client, self.ids = Actor(self.config, self.client_side, 'client'), 0

    def connect(self):
        """A new connection: its number (None: it did not come about) and how long that took."""
        n, self.ids = self.ids, self.ids + 1
        self.client.said.clear()
        self.client.do(f'resolve {SERVER} {PORT}', r'ok \d+')
        self.client.do(f'qp {n}')
        begin = time.monotonic()
        self.client.do(f'connect {n}')
        got = self.client.ask(f'event {GUARD_MS}', GUARD_MS)
        took = time.monotonic() - begin
        if got == f'ESTABLISHED 0 {n}':
            return n, took
        return None, got

    def close(self, n):
        self.client.do(f'disconnect {n}')
        got = self.client.ask(f'event {GUARD_MS}', GUARD_MS)
        self.client.do(f'destroy {n}')
        return got == f'DISCONNECTED 0 {n}' or got

    def agent(self):
        return agent_status(self.config, self.side)

    def memory(self):
        agent = self.agent()
        return {'agent': resident_kb(agent['pid']), 'server': resident_kb(self.server.proc.pid),
                'mute': resident_kb(self.mute.proc.pid)}


def measure(machine, name, seconds, rate):
    make, addresses = FLOODS[name]
    if machine.client is not machine.witness:
        machine.client.kill()
    machine.renew_client()
    prefixes = [c['number'] for c in machine.agent()['cm']['clients']]
    before, rx = machine.memory(), machine.agent()['cm']['counters']
    stop, count = multiprocessing.Event(), multiprocessing.Value('q', 0, lock=False)
    sender = None
    if make:
        ready, begun = multiprocessing.Pipe(False)
        sender = multiprocessing.Process(target=flood, args=(make, sources(addresses), prefixes, 1 / rate if rate else 0,
                                                             stop, count, begun), daemon=True)
        sender.start()
        multiprocessing.connection.wait([ready, sender.sentinel], GUARD_MS / 1000)
        harness.expect(ready.poll(), f'{name}: the flood did not begin')
    begin, sent0, times, failed = time.monotonic(), count.value, [], []
    while time.monotonic() < begin + seconds:
        n, took = machine.connect()
        if n is None:
            failed.append(took)
            continue
        times.append(took)
        closed = machine.close(n)
        if closed is not True:
            failed.append(closed)
    lasted, sent = time.monotonic() - begin, count.value - sent0
    after = machine.memory()
    stop.set()
    if sender:
        sender.join()
    now = machine.agent()['cm']['counters']
    return {'flood': name, 'seconds': lasted, 'sent_per_s': sent / lasted, 'read_per_s': (now['rx'] - rx['rx']) / lasted,
            'connections': len(times), 'failed': failed, 'median_ms': statistics.median(times) * 1e3 if times else None,
            'max_ms': max(times) * 1e3 if times else None, 'memory_kb_before': before, 'memory_kb_after': after,
            'dropped_in_queue_per_s': (now['queue_full'] - rx['queue_full']) / lasted}


def show(r):
    grown = {who: (r['memory_kb_after'][who] - kb) / 1024 for who, kb in r['memory_kb_before'].items()}
    median, most = (f'{v:9.1f}' if v is not None else '        -' for v in (r['median_ms'], r['max_ms']))
    print(f'{r["flood"]:27} {r["sent_per_s"]:8.0f} {r["read_per_s"]:8.0f} {r["dropped_in_queue_per_s"]:8.0f}   {r["connections"]:6} {len(r["failed"]):6} '
          f'{median} {most}   {grown["agent"]:+6.1f} {grown["server"]:+6.1f} {grown["mute"]:+6.1f}', flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--seconds', type=float, default=10, help='of each flood (default: %(default)s)')
    p.add_argument('--rate', type=int, default=0, help='messages a second; 0: as many as go (default)')
    p.add_argument('--only', action='append', choices=FLOODS, help='this flood; may be repeated')
    p.add_argument('--json', metavar='FILE', help='write the results there, too')
    args = p.parse_args()
    if not harness.own_loopback():
        sys.exit('flood-cm: needs root, for a network namespace of its own')
    os.environ['ROCEMU_AGENT_NAME'] = f'flood-{os.getpid()}'
    results = []
    with Machine(harness.Config(args.build)) as machine:
        print('                                 messages/s                    new connections                  memory, MB\n'
              'flood                           sent     read  dropped     made failed median ms    max ms    agent server   mute',
              flush=True)
        for name in args.only or FLOODS:
            results.append(measure(machine, name, args.seconds, args.rate))
            show(results[-1])
        machine.client, last = machine.witness, machine.client
        last.kill()
        stayed = machine.client.ask('event 200') == 'none' and machine.close(machine.old) is True
    print(f'the connection from before {"stayed" if stayed else "ended"}')
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump({'stayed': stayed, 'floods': results}, f, indent=1)
    return 0 if stayed and not any(r['failed'] for r in results) else 1


if __name__ == '__main__':
    sys.exit(main())
