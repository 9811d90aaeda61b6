#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Shared memory as a wire (`rocemu run --wire shm`) beside UDP, other libraries' shared memory, and what the memory itself
costs: perftest on loopback, two processes on two cores.

Each round measures a figure and all that it is compared with, one after the other, so that a machine that changes its
speed meanwhile does so for all. The ratio is that of the medians. Programs that are not installed are left out. Exit
code 0: all bars hold, 1: some do not, 2: something could not be measured.
"""
import re
import shutil
import statistics
import subprocess
import sys

import bench
import perftest
from perftest import MIB

LATENCY, BANDWIDTH, RATE = 4, 3, 4    # columns of perftest's rows: typical us, MiB/s, million messages/s


class Wires:
    """A figure each; the unit is in the name."""

    def __init__(self, build):
        self.pair, self.peers = perftest.Perftest(build), bench.Bench(build, False)

    def stock(self, wire, program, size, count, column):
        return self.pair.row(program, '-s', size, '-n', count, run_options=('--wire', wire))[column]

    def raw_us(self):
        return self.peers.raw_lat('udp-pingpong', 'send')

    def memory(self):
        """Nanoseconds to pass a cache line, Gbit/s of memcpy(), and of a copy out of another process's memory."""
        p = subprocess.run([self.pair.config.program('bench', 'memory-cost')], check=True, capture_output=True, text=True)
        return [float(n) for n in re.match(r'line_ns (\d+) copy_gbit_s ([\d.]+) read_gbit_s ([\d.]+)', p.stdout).groups()]

    def line_us(self):
        return self.memory()[0] / 1e3

    def copy_mib(self):
        return self.memory()[1] * 1e9 / 8 / MIB

    def remote_mib(self):
        return self.memory()[2] * 1e9 / 8 / MIB

    def iperf3_mib(self):
        return self.peers.iperf3() * 1e9 / 8 / MIB

    def ucx_us(self, kind='posix'):
        return self.peers.ucx('tag_lat', 8, 100000, f'{kind},self')[1]

    def send_and_back_us(self):
        return 2 * self.stock('shm', 'ib_send_lat', 8, 20000, LATENCY)

    def ucx_rate(self):
        return self.peers.ucx('ucp_put_bw', 64, 1000000, 'posix,self')[7] / 1e6

    def ucx_mib(self):
        return self.peers.ucx('tag_bw', MIB, 5000, 'posix,self')[5]

    def libfabric_us(self):
        return self.peers.libfabric_lat('shm')


def stock(program, size, count, column):
    return lambda w, wire: w.stock(wire, program, size, count, column)


def bulk(program, size, count, udp=1.2, *more):
    """udp: the least ratio to the same by UDP."""
    return ('MiB/s', stock(program, size, count, BANDWIDTH), [
        (UDP, None, ('least', udp)), ('iperf3 TCP', Wires.iperf3_mib, ('least', 2.5), 'iperf3'), *more])


UDP = 'the same by UDP'
# name: unit, how it is measured, and beside it: name, how (None: the same by UDP), most or least of its figure (None: no
# bar), with what added, the program that it takes
FIGURES = {
    'SEND 8 B': ('us', stock('ib_send_lat', 8, 20000, LATENCY), [
        (UDP, None, ('most', 0.35)),
        ('raw UDP ping-pong', Wires.raw_us, ('most', 0.25)),
        ('UCX posix, tag_lat', Wires.ucx_us, None, 'ucx_perftest'),
        ('UCX sysv, tag_lat', lambda w: w.ucx_us('sysv'), None, 'ucx_perftest'),
        ('libfabric shm, fi_pingpong', Wires.libfabric_us, None, 'fi_pingpong')]),
    'WRITE 8 B': ('us', stock('ib_write_lat', 8, 20000, LATENCY), [
        (UDP, None, ('most', 0.35)),
        ('a cache line, one way', Wires.line_us, ('most', 1.5, 0.3))]),
    'READ 8 B': ('us', stock('ib_read_lat', 8, 10000, LATENCY), [
        (UDP, None, ('most', 0.35)),
        ('SEND there and back', Wires.send_and_back_us, ('most', 1.2))]),
    'WRITE 64 B': ('M msg/s', stock('ib_write_bw', 64, 200000, RATE), [
        (UDP, None, ('least', 1.2)),
        ('three million', lambda _: 3.0, ('least', 1.0)),
        ('UCX posix, put_bw', Wires.ucx_rate, None, 'ucx_perftest')]),
    'WRITE 64 KiB': bulk('ib_write_bw', 65536, 20000),
    'READ 64 KiB': bulk('ib_read_bw', 65536, 20000, 1.0),
    'SEND 64 KiB': bulk('ib_send_bw', 65536, 20000),
    'WRITE 1 MiB': bulk('ib_write_bw', MIB, 2000, 1.2, ('memcpy()', Wires.copy_mib, None),
                        ('process_vm_readv()', Wires.remote_mib, ('least', 0.6))),
    # Beyond the caches.
    'WRITE 16 MiB': ('MiB/s', stock('ib_write_bw', 16 * MIB, 300, BANDWIDTH), [
        (UDP, None, ('least', 1.0)), ('memcpy()', Wires.copy_mib, None), ('process_vm_readv()', Wires.remote_mib, ('least', 0.6))]),
    'READ 1 MiB': bulk('ib_read_bw', MIB, 2000, 1.0),
    'SEND 1 MiB': bulk('ib_send_bw', MIB, 2000, 1.2, ('UCX posix, tag_bw', Wires.ucx_mib, None, 'ucx_perftest')),
    'idle, 1000 connected QPs by rings': ('% of a core', lambda w, wire: w.peers.idle_cpu(wire), [
        ('a thousandth', lambda _: bench.IDLE_BAR_PERCENT, ('most', 1.0))]),
}


def limit(bar, reference):
    """What the figure has to be: at most or at least so many times the reference, and with so much added."""
    return reference * bar[1] + (bar[2] if len(bar) > 2 else 0)


def row(name, unit, mine, against, theirs, bar):
    ours, reference = statistics.median(mine), statistics.median(theirs)
    r = {'name': name, 'unit': unit, 'shm': ours, 'against': against, 'reference': reference, 'ratio': ours / reference,
         'bar': None, 'holds': True, 'rounds': {'shm': mine, against: theirs}}
    if bar:
        r['bar'] = f'at {bar[0]} {bar[1]}' + (f' + {bar[2]} {unit}' if len(bar) > 2 else '')
        r['holds'] = ours <= limit(bar, reference) if bar[0] == 'most' else ours >= limit(bar, reference)
    return r


def measure_one(wires, name, rounds):
    """The rows of a figure."""
    unit, how, beside = FIGURES[name]
    beside = [b for b in beside if len(b) < 4 or shutil.which(b[3])]
    mine, theirs = [], [[] for _ in beside]
    for _ in range(rounds):
        mine.append(how(wires, 'shm'))
        for figures, (_, other, *_) in zip(theirs, beside):
            figures.append(other(wires) if other else how(wires, 'udp'))
    # 0: it is not permitted to this process.
    return [row(name, unit, mine, b[0], figures, b[2]) for figures, b in zip(theirs, beside) if all(figures)]


def measure(args, show):
    wires, rows = Wires(args.build), []
    for name in args.only or FIGURES:
        for r in measure_one(wires, name, args.rounds):
            bar = f'({r["bar"]}: {"holds" if r["holds"] else "MISSED"})' if r['bar'] else ''
            show(f'{r["name"]:13} {r["shm"]:9.3f} {r["unit"]:8} {r["against"]:27} {r["reference"]:9.2f}   ratio {r["ratio"]:5.2f}  {bar}')
            rows.append(r)
    return rows


def main():
    code, rows = perftest.run(perftest.parser(__doc__, FIGURES, rounds=5), measure)
    return code or not all(r['holds'] for r in rows)


if __name__ == '__main__':
    sys.exit(main())
