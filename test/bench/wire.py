#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Shared memory beside UDP as a wire (`rocemu run --wire`): perftest on loopback, two processes on two cores.

Each round measures a figure by either wire, one after the other, so that a machine that changes its speed meanwhile does
so for both. The ratio is that of the medians. Exit code 0: all bars hold, 1: some do not, 2: something could not be measured.
"""
import argparse
import json
import statistics
import subprocess
import sys

import bench
import perftest
from perftest import MIB, harness

LATENCY, BANDWIDTH, RATE = 4, 3, 4    # columns of perftest's rows: typical us, MiB/s, million messages/s
WIRES = ('udp', 'shm')
# name: unit, program and options, column, and the bar of shm / udp
FIGURES = {
    'SEND 8 B': ('us', ('ib_send_lat', '-s', 8, '-n', 20000), LATENCY, ('most', 0.35)),
    'WRITE 8 B': ('us', ('ib_write_lat', '-s', 8, '-n', 20000), LATENCY, ('most', 0.35)),
    'READ 8 B': ('us', ('ib_read_lat', '-s', 8, '-n', 10000), LATENCY, ('most', 0.35)),
    'WRITE 64 B': ('M msg/s', ('ib_write_bw', '-s', 64, '-n', 200000), RATE, ('least', 1.2)),
    'WRITE 64 KiB': ('MiB/s', ('ib_write_bw', '-s', 65536, '-n', 20000), BANDWIDTH, ('least', 1.2)),
    'WRITE 1 MiB': ('MiB/s', ('ib_write_bw', '-s', MIB, '-n', 2000), BANDWIDTH, ('least', 1.2)),
    'READ 1 MiB': ('MiB/s', ('ib_read_bw', '-s', MIB, '-n', 2000), BANDWIDTH, ('least', 1.0)),
    'SEND 1 MiB': ('MiB/s', ('ib_send_bw', '-s', MIB, '-n', 2000), BANDWIDTH, ('least', 1.2)),
}
RAW = 'SEND 8 B'
RAW_BAR = 0.25                        # of a raw UDP ping-pong


def verdict(ratio, bar):
    kind, value = bar
    return ratio <= value if kind == 'most' else ratio >= value


def row(name, unit, figures, other, bar):
    mine, theirs = statistics.median(figures['shm']), statistics.median(figures[other])
    return {'name': name, 'unit': unit, 'shm': mine, 'against': other, 'reference': theirs, 'ratio': mine / theirs,
            'bar': f'at {bar[0]} {bar[1]}', 'holds': verdict(mine / theirs, bar), 'rounds': figures}


def measure(args, show):
    pair, raw = perftest.Perftest(args.build), bench.Bench(args.build, False)
    rows = []
    for name in args.only or FIGURES:
        unit, (program, *options), column, bar = FIGURES[name]
        figures = {wire: [] for wire in WIRES}
        if name == RAW:
            figures['raw UDP'] = []
        for _ in range(args.rounds):
            for wire in WIRES:
                figures[wire].append(pair.row(program, *options, run_options=('--wire', wire))[column])
            if name == RAW:
                figures['raw UDP'].append(raw.raw_lat('udp-pingpong', 'send'))
        rows.append(row(name, unit, figures, 'udp', bar))
        if name == RAW:
            rows.append(row(name, unit, figures, 'raw UDP', ('most', RAW_BAR)))
    for r in rows:
        show(f'{r["name"]:13} {r["shm"]:9.2f} {r["unit"]:8} {r["against"]:8} {r["reference"]:9.2f}   ratio {r["ratio"]:5.2f}  '
             f'({r["bar"]}: {"holds" if r["holds"] else "MISSED"})')
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--rounds', type=int, default=5, help='of each figure (default: %(default)s)')
    p.add_argument('--only', action='append', choices=FIGURES, help='this figure; may be repeated')
    p.add_argument('--json', action='store_true', help='print the result as JSON, and nothing else on stdout')
    args = p.parse_args()
    harness.own_loopback()
    try:
        rows = measure(args, perftest.silent if args.json else perftest.out)
    except (harness.Failure, subprocess.SubprocessError, OSError) as e:
        print(f'wire.py: {e}', file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0 if all(r['holds'] for r in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
