#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `rocemu run --trace` and `--pcap` cost: perftest on loopback without, and with either, in turns.

The ratio is that of the medians; above 1 the program is slower.
"""
import os
import statistics
import sys
import tempfile

import perftest
from perftest import MIB

LATENCY, BANDWIDTH, RATE = 4, 3, 4    # columns of perftest's rows
FIGURES = {
    'SEND 8 B': ('us', ('ib_send_lat', '-s', 8, '-n', 10000), LATENCY),
    'WRITE 64 B': ('M msg/s', ('ib_write_bw', '-s', 64, '-n', 100000), RATE),
    'WRITE 1 MiB': ('MiB/s', ('ib_write_bw', '-s', MIB, '-n', 1000), BANDWIDTH),
}
WAYS = ('', '--trace', '--pcap')


def measure(args, show):
    pair, rows = perftest.Perftest(args.build), []
    for name in args.only or FIGURES:
        unit, (program, *options), column = FIGURES[name]
        figures = {way: [] for way in WAYS}
        for _ in range(args.rounds):
            for way in WAYS:
                with tempfile.TemporaryDirectory(prefix='rocemu-trace-', dir=args.dir) as d:
                    run_options = (way, os.path.join(d, 'out-%p')) if way else ()
                    figures[way].append(pair.row(program, *options, run_options=run_options)[column])
        plain = statistics.median(figures[''])
        for way in WAYS[1:]:
            value = statistics.median(figures[way])
            ratio = value / plain if unit == 'us' else plain / value
            rows.append({'name': name, 'unit': unit, 'option': way, 'without': plain, 'with': value, 'ratio': ratio})
            show(f'{name:12} {way:8} {plain:9.2f} {unit:8} with {value:9.2f}   {ratio:5.2f} times slower')
    return rows


def main():
    p = perftest.parser(__doc__, FIGURES, rounds=3)
    p.add_argument('--dir', help='where the files go for the time being (default: the temporary directory)')
    code, _ = perftest.run(p, measure)
    return code


if __name__ == '__main__':
    sys.exit(main())
