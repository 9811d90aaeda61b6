#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Counts the system calls of a program and rocemu for 1,000 messages.

The client of a perftest pair runs under strace, twice, with few messages and with many. The difference of the two counts is
that of the messages alone. Only the calls that are counted stop the process (--seccomp-bpf), so the others take their usual
time. Exit code 0: all bars hold, 1: some do not, 2: something could not be measured.
"""
import os
import re
import shutil
import statistics
import sys
import tempfile

import perftest
from perftest import harness

FEW, MORE = 20000, 200000
# A table of strace: time, seconds, usecs/call, calls, errors (may be missing), the call.
TOTAL = re.compile(r'^ *[\d.]+ +[\d.]+ +[\d.]+ +(\d+) .*total$', re.M)
# What is counted, of which program, by which wire: calls for 1,000 messages at most (None: no bar).
FIGURES = {
    'futex, WRITE 64 B, UDP': ('futex', ('ib_write_bw', '-s', 64), 'udp', 10),
    'futex, SEND 64 B, UDP': ('futex', ('ib_send_bw', '-s', 64), 'udp', 10),
    'futex, WRITE 64 B, shm': ('futex', ('ib_write_bw', '-s', 64), 'shm', 10),
    'all, SEND 8 B and back, UDP': ('all', ('ib_send_lat', '-s', 8), 'udp', None),
    'all, SEND 8 B and back, shm': ('all', ('ib_send_lat', '-s', 8), 'shm', 10),
}


def count(pair, calls, argv, wire, messages):
    """How many such calls the client of so many messages makes."""
    with tempfile.TemporaryDirectory() as scratch:
        table = os.path.join(scratch, 'calls')
        pair.row(*argv, '-n', messages, run_options=('--wire', wire),
                 client_prefix=('strace', '-f', '-c', '--seccomp-bpf', '-e', f'trace={calls}', '-o', table))
        with open(table, encoding='utf-8') as f:
            text = f.read()
    total = TOTAL.search(text)
    if not total:
        raise harness.Failure(f'strace counted nothing:\n{text}')
    return int(total[1])


def measure(args, show):
    if not shutil.which('strace'):
        raise harness.Failure('strace is not installed')
    pair, rows = perftest.Perftest(args.build), []
    for name in args.only or FIGURES:
        calls, argv, wire, bar = FIGURES[name]
        rounds = [(count(pair, calls, argv, wire, FEW + MORE) - count(pair, calls, argv, wire, FEW)) * 1000 / MORE
                  for _ in range(args.rounds)]
        value = statistics.median(rounds)
        holds = bar is None or value <= bar
        rows.append({'name': name, 'calls_per_1000': value, 'bar': bar, 'holds': holds, 'rounds': rounds})
        verdict = '' if bar is None else f'  (at most {bar}: {"holds" if holds else "MISSED"})'
        show(f'{name:30} {value:8.1f} calls for 1,000 messages{verdict}')
    return rows


def main():
    p = perftest.parser(__doc__, FIGURES, rounds=3)
    code, rows = perftest.run(p, measure)
    return code or not all(row['holds'] for row in rows)


if __name__ == '__main__':
    sys.exit(main())
