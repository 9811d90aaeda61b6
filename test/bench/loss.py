#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Goodput under packet loss on loopback: real sockets, 1 MiB messages, two processes on two cores.

Each round measures every operation without loss and at each loss rate, one after the other, so that a machine that
changes its speed meanwhile does so for all of them. The share is the median at a loss rate by the median without loss.
Exit code 0: all bars hold, 1: some do not, 2: something could not be measured.
"""
import statistics
import sys

import perftest
from perftest import MIB

PROGRAMS = {'WRITE': 'ib_write_bw', 'READ': 'ib_read_bw', 'SEND': 'ib_send_bw'}
LOSSES = (0, 1, 5)
BARS = {1: 0.50, 5: 0.15}             # least share of the goodput without loss
DEPTH = 16                            # messages in flight


def impair(percent, seed):
    return ('--impair', f'loss={percent}%,seed={seed}') if percent else ()


def measure(bench, args, show):
    """Goodput in Gbit/s by operation and loss, a figure a round."""
    figures = {op: {loss: [] for loss in LOSSES} for op in args.only or PROGRAMS}
    for number in range(args.rounds):
        for op, by_loss in figures.items():
            for loss, rounds in by_loss.items():
                rounds.append(bench.gbit(PROGRAMS[op], '-s', MIB, '-t', DEPTH, '-D', args.seconds,
                                         run_options=impair(loss, args.seed + number)))
            show(f'round {number + 1} {op:5} ' + '  '.join(f'{loss} %: {r[-1]:7.3f}' for loss, r in by_loss.items()))
    return figures


def judge(figures):
    rows = []
    for op, by_loss in figures.items():
        lossless = statistics.median(by_loss[0])
        for loss, rounds in by_loss.items():
            share = statistics.median(rounds) / lossless
            bar = BARS.get(loss)
            rows.append({'operation': op, 'loss_percent': loss, 'gbit_per_s': statistics.median(rounds), 'share': share,
                         'bar': bar, 'holds': bar is None or share >= bar, 'rounds': rounds})
    return rows


def measure_all(args, show):
    rows = judge(measure(perftest.Perftest(args.build, args.timeout), args, show))
    for row in rows:
        verdict = f'(at least {row["bar"]:.0%}: {"holds" if row["holds"] else "MISSED"})' if row['bar'] else ''
        show(f'{row["operation"]:5} {row["loss_percent"]} % loss {row["gbit_per_s"]:8.3f} Gbit/s  '
             f'{row["share"]:6.1%} of lossless  {verdict}')
    return rows


def main():
    p = perftest.parser(__doc__, PROGRAMS, rounds=5)
    p.add_argument('--seconds', type=int, default=2, help='that a figure takes (default: %(default)s)')
    p.add_argument('--seed', type=int, default=1, help='of the first round, the next has one more (default: %(default)s)')
    p.add_argument('--timeout', type=int, default=14, help='of the QPs, as ibv_qp_attr has it (default: %(default)s)')
    code, rows = perftest.run(p, measure_all)
    return code or not all(row['holds'] for row in rows)


if __name__ == '__main__':
    sys.exit(main())
