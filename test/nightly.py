#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs what is too long for each change, or needs a guest whose timing is not to be relied on: simulated worlds, soak, signals,
three users at random, mutants, and rocemu against the kernel's Soft-RoCE. Each has a time budget, after which it is ended and has
failed.

Prints a row of a table for each: date, commit, what, result, time. Exit code 0: nothing failed, 1: something failed, 2: usage.
The rows of the last runs are in docs/testing.md (--write-docs).
"""
import argparse
import collections
import os
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, 'test', 'prog'))

import doctable  # noqa: E402 # pylint: disable=wrong-import-position

DOCUMENT = os.path.join(TOP, 'docs', 'testing.md')
PART = 'nightly'
SKIPPED = 77
SPARE_S = 300   # of the budget of what has an end of its own

Job = collections.namedtuple('Job', 'name argv budget_s')
Row = collections.namedtuple('Row', 'date commit what result time')


def jobs(args):
    build = ['--build', args.build]
    seconds = round(60 * args.minutes)
    return [
        Job('worlds', ['test/sim/night.py', *build, '--minutes', str(args.minutes), '--start', str(args.seed)], seconds + SPARE_S),
        Job('soak', ['test/soak/soak.py', *build, '--seconds', str(seconds)], seconds + SPARE_S),
        Job('signals', ['test/soak/signals.py', *build, '--rounds', '200'], 1800),
        Job('users', [f'{args.build}/test/agent/fuzz-users', '--seconds', str(seconds // 2), '--seed', str(args.seed)], seconds // 2 + SPARE_S),
        Job('mutants', ['test/mutants/mutants.py', *build, '--budget', str(args.minutes), '--seed', str(args.seed)], seconds + 3 * SPARE_S),
        Job('interop', ['test/interop/run.sh', *build, *([] if args.cover else ['--full'])], 3 * 3600),
    ]


def commit():
    """Of the tree that is tested; "+": with changes, but for pages, which this one writes to."""
    short = subprocess.run(['git', 'rev-parse', '--short=7', 'HEAD'], cwd=TOP, capture_output=True, text=True, check=False)
    changed = subprocess.run(['git', 'status', '--porcelain', '-uno', '--', '.', ':!*.md'], cwd=TOP, capture_output=True, text=True, check=False)
    return short.stdout.strip() + ('+' if changed.stdout else '')


def run(job):
    """@return did it fail, and its row. What it prints goes on to stderr."""
    begin = time.monotonic()
    last = ''
    with subprocess.Popen(job.argv, cwd=TOP, stdout=subprocess.PIPE, text=True, start_new_session=True) as p:
        old = signal.signal(signal.SIGALRM, lambda *_: os.killpg(p.pid, signal.SIGKILL))
        signal.alarm(job.budget_s)
        for line in p.stdout:
            sys.stderr.write(line)
            last = line.strip() or last
        code = p.wait()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
    seconds = time.monotonic() - begin
    result = last
    if code == SKIPPED:
        result = f'skipped: {last}'
    elif code == -signal.SIGKILL:
        result = f'FAILED: not at an end after {job.budget_s} s; {last}'
    elif code != 0:
        result = f'FAILED: exit code {code}; {last}'
    program = job.argv[0] if job.argv[0].startswith('test/') else os.path.basename(job.argv[0])
    name = ' '.join([program] + [a for a in job.argv[1:] if a != '--build' and a != job_build(job)])
    when = time.strftime('%Y-%m-%d', time.gmtime())
    return code not in (0, SKIPPED), Row(when, commit(), f'{job.name}: `{name}`', result.replace('|', '/'), f'{seconds / 60:.0f} min')


def job_build(job):
    """The build directory is private."""
    return job.argv[job.argv.index('--build') + 1] if '--build' in job.argv else None


def cells(row):
    return '| ' + ' | '.join(row) + ' |'


def merge(text, rows):
    """The table of docs/testing.md with the row of each of these jobs replaced."""
    have = {row[2].split(':')[0]: Row(*row) for row in doctable.rows(text)}
    have.update((row.what.split(':')[0], row) for row in rows)
    head = [cells(Row(*Row._fields)), '|---' * len(Row._fields) + '|']
    return '\n'.join(head + [cells(row) for row in have.values()])


def arguments():
    p = argparse.ArgumentParser(prog='test/nightly.py', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default='build', help='build directory; it must be there (default: %(default)s)')
    p.add_argument('--minutes', type=float, default=120, help='of worlds, soak and mutants, each; users has half of it (default: %(default)s)')
    p.add_argument('--seed', type=int, default=int(time.time()), help='the first of the worlds (default: the time)')
    p.add_argument('--only', action='append', default=[], metavar='NAME', help='worlds, soak, signals, users, mutants or interop; may be repeated')
    p.add_argument('--cover', action='store_true', help='interop without --full: a part of its cases that covers each kind')
    p.add_argument('--write-docs', action='store_true', help='put the rows into docs/testing.md')
    return p.parse_args()


def main():
    args = arguments()
    chosen = [job for job in jobs(args) if not args.only or job.name in args.only]
    if not chosen or set(args.only) - {job.name for job in chosen}:
        print('nightly: --only: expected worlds, soak, signals, users, mutants or interop', file=sys.stderr)
        return 2
    rows, bad = [], False
    for job in chosen:
        failed, row = run(job)
        rows.append(row)
        bad |= failed
        print(cells(row), flush=True)
    if args.write_docs:
        doctable.write(DOCUMENT, PART, merge(doctable.read(DOCUMENT, PART), rows))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
