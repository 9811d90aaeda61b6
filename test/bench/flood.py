#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures the goodput of a connection while its receiver is flooded with foreign packets, and the
memory that this costs. As root: the flood comes from another user, on loopback, and for fragments
over a veth pair. CNPs go to the sender, from the receiver's host: from another address, from another
port of the receiver's address, and from the receiver's own port; and for comparison garbage.

A row is the median of some rounds. The share is of the goodput of the same interface without a
flood, measured before and after. Exit code 0: the connection survived all, 2: something could not
be measured.
"""
import argparse
import json
import os
import select
import statistics
import subprocess
import sys

import perftest
from perftest import MIB, PATIENCE, harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'prog'))
from cases_forged import NOBODY, Stream, Wire, sources  # pylint: disable=wrong-import-position

SERVER, CLIENT = '127.0.0.50', '127.0.0.51'
SAMPLE_S = 0.2                        # between two looks at the memory
NO_SLOT = 0xffc123                    # a QPN of an unused slot
# What is sent, and towards which QPN, given the server's.
KINDS = {
    'unknown': ('write', lambda qpn: qpn ^ 0x1555),   # of the same slot: the lane's socket gets it
    'no-slot': ('write', lambda qpn: NO_SLOT),        # the agent's
    'garbage': ('garbage', lambda qpn: qpn),
    'sweep': ('write', lambda qpn: qpn),
    'fragments': ('fragments', lambda qpn: qpn),
}
# To the sender: what, and from where.
BACK = {'back-garbage': ('garbage', 'port'), 'cnp-address': ('cnp', 'address'), 'cnp-port': ('cnp', 'port'), 'cnp-own': ('cnp', 'own')}


def memory(pid, field):
    """KiB of a process."""
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field + ':'))


def agents(netns_of):
    """Processes of the agent in the network namespace of a process."""
    inode = os.stat(f'/proc/{netns_of}/ns/net').st_ino
    found = []
    for entry in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{entry}/comm', encoding='ascii') as f:
                name = f.read().strip()
            if name == 'rocemu-agent' and os.stat(f'/proc/{entry}/ns/net').st_ino == inode:
                found.append(int(entry))
        except OSError:
            pass
    return found


class Bench:
    """A pair of ib_write_bw, and a flood beside it."""

    def __init__(self, args):
        self.args = args
        self.config = harness.Config(args.build)
        self.lab = harness.Lab(self.config)
        lo = [harness.Side(f'flood0={address}', address, name='flood0') for address in (SERVER, CLIENT)]
        self.lo = harness.Topology('lo', *lo)

    def topology(self, kind):
        return self.lab.get('veth1500-v4') if kind == 'fragments' else self.lo

    def start_pair(self, topo):
        port = harness.new_port()
        argv = ['ib_write_bw', '-d', topo.client.name, '-x', harness.gid_index(self.config, topo.client), '-p', port, '-F',
                '-u', PATIENCE, '-s', MIB, '-t', 16, '-D', self.args.seconds]
        server = harness.start(self.config, topo.server, argv, 'server')
        server.wait_listening(port)
        return server, harness.start(self.config, topo.client, argv + [topo.server.tcp], 'client')

    def start_flood(self, topo, kind, rate, qpn):
        what, towards = KINDS[kind]
        count = (rate or 10_000_000) * (self.args.seconds + 60)
        return harness.Proc([self.config.program('prog', 'roce-forge'), what, topo.client.address, topo.server.address,
                             towards(qpn), 0, count, rate], netns=topo.client.netns, user=NOBODY, name='flood')

    def server_qpn(self, topo):
        """From the wire; fragments need none, and are in another namespace."""
        if topo is not self.lo:
            return 0
        wire = Wire()
        try:
            return wire.packet(topo.client.address, topo.server.address)[0]
        finally:
            wire.socket.close()

    def measure(self, kind, rate, topo):
        """Gbit/s, and KiB of server and agent: before, most during."""
        flood, ended = None, []
        server, client = self.start_pair(topo)
        try:
            ended += [os.pidfd_open(p.pid) for p in (client, server)]
            qpn = self.server_qpn(topo)
            before = memory(server.pid, 'VmRSS')
            if kind:
                flood = self.start_flood(topo, kind, rate, qpn)
            most = before
            agent = 0
            while not select.select(ended, [], [], SAMPLE_S)[0]:
                try:
                    most = max(most, memory(server.pid, 'VmRSS'))
                    agent = max([agent] + [memory(pid, 'VmRSS') for pid in agents(server.pid)])
                except (OSError, StopIteration):
                    pass
            harness.expect(client.wait() == 0 == server.wait(), f'{kind}: the connection ended', client, server)
            harness.expect(not flood or flood.running(), f'{kind}: the flood ended first', *filter(None, [flood]))
            rows = [line.split() for line in client.stdout.splitlines() if line.split()[:1] == [str(MIB)]]
            return float(rows[-1][3]) * MIB * 8 / 1e9, before, most, agent
        finally:
            for fd in ended:
                os.close(fd)
            for p in filter(None, (flood, client, server)):
                p.kill()

    def measure_back(self, kind, rate):
        """As measure(), without the memory."""
        topo = self.lab.get('veth1500-v4')
        topo.check()
        with Stream(self.config, topo, self.args.seconds) as s:
            flood, seen = None, s.answer()
            if kind:
                what, where = BACK[kind]
                flood = s.flood(what, sources(topo, seen)[where], (rate or 10_000_000) * (self.args.seconds + 60), rate, seen.qpn)
                s.procs.append(flood)
            gbit = s.ended()[0]
            harness.expect(not flood or flood.running(), f'{kind}: the flood ended first', *filter(None, [flood]))
            return gbit, 0, 0, 0

    def row(self, kind, rate):
        topo = self.topology(kind)
        topo.check()
        calm, flooded = [], []
        for _ in range(self.args.rounds):
            for rounds, what in ((calm, None), (flooded, kind)):
                rounds.append(self.measure_back(what, rate) if kind in BACK else self.measure(what, rate, topo))
        base, gbit = (statistics.median(r[0] for r in rounds) for rounds in (calm, flooded))
        return {'flood': kind, 'packets_per_second': rate or 'unlimited', 'gbit_per_s_without': round(base, 2),
                'gbit_per_s': round(gbit, 2), 'share': round(gbit / base, 3),
                'server_kib_before': max(r[1] for r in flooded), 'server_kib_most': max(r[2] for r in flooded),
                'agent_kib_most': max(r[3] for r in flooded)}


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--rounds', type=int, default=3, help='of each figure (default: %(default)s)')
    p.add_argument('--seconds', type=int, default=3, help='that a figure takes (default: %(default)s)')
    p.add_argument('--rate', type=int, action='append', help='packets per second, 0: all that go; may be repeated '
                                                             '(default: 100000 and 0)')
    p.add_argument('--only', action='append', choices=[*KINDS, *BACK], help='this flood; may be repeated')
    p.add_argument('--json', action='store_true', help='print the result as JSON, and nothing else on stdout')
    args = p.parse_args()
    show = perftest.silent if args.json else perftest.out
    harness.own_loopback()
    bench = Bench(args)
    rows = []
    try:
        for kind in args.only or [*KINDS, *BACK]:
            for rate in args.rate or (100_000, 0):
                rows.append(bench.row(kind, rate))
                show('  '.join(f'{k} {v}' for k, v in rows[-1].items()))
    except (harness.Failure, harness.Skip, subprocess.SubprocessError, OSError) as e:
        print(f'flood.py: {e}', file=sys.stderr)
        return 2
    finally:
        bench.lab.close()
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0


if __name__ == '__main__':
    sys.exit(main())
