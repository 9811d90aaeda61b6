#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares two build directories of rocemu on loopback: perftest's latencies and bandwidths before and after a change.

Each round measures a figure with both builds, in changing order; the median ratio over the rounds and its range are
printed. A ratio above 1 is better, for latencies too (before by after). Exit code 0: every median is at least
--least, 1: some are not, 2: something could not be measured.
"""
import argparse
import fnmatch
import json
import multiprocessing
import os
import statistics
import sys

import perftest
from perftest import MIB, harness

BEFORE, AFTER = 'before', 'after'
LATENCY_ITERS = 20000
BYTES = 512 * MIB                     # that a bandwidth figure moves, at most ...
MESSAGES = 200000                     # ... or so many messages
MODERATION = 100


class Figure:
    """A perftest program with its options; the number that counts, and whether more of it is better."""

    def __init__(self, program, size, qps=1, options=()):
        self.name = ' '.join([program, *options, str(size)]) + (f' x{qps}' if qps > 1 else '')
        self.options = options
        self.program = program
        self.size = size
        self.qps = qps
        self.more_is_better = program.endswith('_bw')
        self.unit = 'Gbit/s' if self.more_is_better else 'us'

    def measure(self, bench, scale):
        if not self.more_is_better:
            return bench.typical_us(self.program, '-s', self.size, '-n', max(1000, int(LATENCY_ITERS * scale)), *self.options)
        # A multiple of perftest's completion moderation: with several QPs it waits forever for the
        # rest.
        messages = max(2, round(min(MESSAGES, BYTES // self.size) * scale / self.qps / MODERATION)) * MODERATION
        depth = min(128, max(1, 16 * MIB // self.size // self.qps))
        return bench.gbit(self.program, '-s', self.size, '-q', self.qps, '-t', depth, '-N', '-n', messages)

    def ratio(self, before, after):
        return after / before if self.more_is_better else before / after


def all_figures():
    for kind in ('write', 'send', 'read'):
        yield from (Figure(f'ib_{kind}_lat', size) for size in (2, 64, 8192))
    yield Figure('ib_send_lat', 64, options=('-e',))
    for kind in ('write', 'send', 'read'):
        yield from (Figure(f'ib_{kind}_bw', size) for size in (64, 512, 4096, 65536, MIB))
        yield Figure(f'ib_{kind}_bw', 4096, 16)


class Side:
    """A build directory with a process, and so a network namespace and an agent, of its own."""

    def __init__(self, build, args):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self.work, args=(theirs, build, args), daemon=True)
        self.process.start()

    @staticmethod
    def work(pipe, build, args):
        harness.own_loopback()
        agent = os.path.join(os.path.abspath(build), 'src', 'agent', 'rocemu-agent')
        os.environ['ROCEMU_AGENT_BIN'] = agent
        bench = perftest.Perftest(build, args.timeout, ('--wire', args.wire))
        while True:
            figure, scale = pipe.recv()
            try:
                pipe.send(figure.measure(bench, scale))
            except (harness.Failure, OSError) as e:
                pipe.send(str(e))

    def measure(self, figure, scale):
        self.pipe.send((figure, scale))
        result = self.pipe.recv()
        if isinstance(result, str):
            raise harness.Failure(result)
        return result


def measure(sides, figures, args, show):
    rows = {f.name: {'name': f.name, 'unit': f.unit, BEFORE: [], AFTER: [], 'ratios': []} for f in figures}
    for number in range(args.rounds):
        order = (BEFORE, AFTER) if number % 2 == 0 else (AFTER, BEFORE)
        for f in figures:
            row = rows[f.name]
            for name in order:
                row[name].append(sides[name].measure(f, args.scale))
            row['ratios'].append(f.ratio(row[BEFORE][-1], row[AFTER][-1]))
        show(f'round {number + 1} of {args.rounds} done')
    for row in rows.values():
        row['ratio'] = statistics.median(row['ratios'])
        row['holds'] = row['ratio'] >= args.least
    return list(rows.values())


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('before', help='build directory')
    p.add_argument('after', help='build directory')
    p.add_argument('--rounds', type=int, default=7, help='(default: %(default)s)')
    p.add_argument('--scale', type=float, default=1.0, help='of the number of messages of each figure (default: 1)')
    p.add_argument('--only', metavar='PATTERN', action='append', default=[],
                   help='figures whose name matches, for instance "ib_write_lat*"; may be repeated')
    p.add_argument('--least', type=float, default=0.97, help='median ratio that is good enough (default: %(default)s)')
    p.add_argument('--timeout', type=int, default=perftest.PATIENCE, help='of the QPs (default: %(default)s)')
    p.add_argument('--wire', choices=('udp', 'shm'), default='udp', help='(default: %(default)s)')
    p.add_argument('--beside', metavar='COMMAND', help='shell command that runs all the time, for instance a compilation in a loop')
    p.add_argument('--list', action='store_true', help='print the names of the figures and stop')
    p.add_argument('--json', action='store_true', help='print the result as JSON, and nothing else on stdout')
    args = p.parse_args()
    figures = [f for f in all_figures()
               if not args.only or any(fnmatch.fnmatchcase(f.name, f'*{o}*') for o in args.only)]
    if args.list:
        print('\n'.join(f.name for f in figures))
        return 0
    if not figures:
        print('compare.py: no figure matches (see --list)', file=sys.stderr)
        return 2
    show = perftest.silent if args.json else perftest.out
    sides = {BEFORE: Side(args.before, args), AFTER: Side(args.after, args)}
    beside = args.beside and harness.Proc(['sh', '-c', args.beside], name='the command beside')
    try:
        rows = measure(sides, figures, args, show)
    except (harness.Failure, EOFError, OSError) as e:
        print(f'compare.py: {e}', file=sys.stderr)
        return 2
    finally:
        if beside:
            beside.kill()
        for side in sides.values():
            side.process.kill()
    for row in rows:
        show(f'{row["name"]:22} before {statistics.median(row[BEFORE]):8.3f}  after {statistics.median(row[AFTER]):8.3f} '
             f'{row["unit"]:6}  ratio {row["ratio"]:5.2f} ({min(row["ratios"]):.2f}-{max(row["ratios"]):.2f})'
             f'{"" if row["holds"] else "  LOWER"}')
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0 if all(row['holds'] for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
