#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The table of programs in docs/interop.md, from the results of a run. As a program: has it a row for each run, and no other?"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(TOP, 'test', 'prog')]

import cases_world  # noqa: E402 # pylint: disable=wrong-import-position
import doctable  # noqa: E402 # pylint: disable=wrong-import-position
from program import PLACES, SOURCES  # noqa: E402 # pylint: disable=wrong-import-position

DOCUMENT = os.path.join(TOP, 'docs', 'interop.md')
PART = 'programs'
HEAD = ('program', 'version', 'what ran', 'lo', 'veth', 'what it needs')


def rows_now():
    """{(program, what): [version, cells by place ..., needs]} as they stand in the document."""
    return {(row[0], row[2]): [row[1], *row[3:]] for row in doctable.rows(doctable.read(DOCUMENT, PART)) if len(row) == len(HEAD)}


def cell(job):
    seconds = f'{max(1, round(job.seconds))} s'
    return {'passed': f'ok, {seconds}', 'failed': 'FAIL', 'skipped': 'not run'}[job.outcome]


def write(jobs):
    """Rows of what ran are replaced, those of what did not stay. A run that was skipped is none."""
    rows = rows_now()
    for job in jobs:
        key = (job.program.name, job.what.what.replace('|', '/'))
        if job.outcome == 'skipped' and key in rows:
            continue
        version = job.program.version(SOURCES.get(job.program.source))
        row = rows.setdefault(key, [version] + ['.'] * len(PLACES) + [''])
        row[0], row[-1] = version, job.program.needs if job.what.needs is None else job.what.needs
        row[1 + list(PLACES).index(job.place)] = cell(job)
    lines = [f'| {" | ".join(HEAD)} |', '|---' * len(HEAD) + '|']
    lines += [f'| {name} | {row[0]} | {what} | {" | ".join(row[1:])} |' for (name, what), row in
              sorted(rows.items(), key=lambda item: item[0][0].lower())]
    doctable.write(DOCUMENT, PART, '\n'.join(lines))


def check():
    """Rows that the document lacks, and rows of what is no more. A program from a source tree need not have been run."""
    runs = [(p, (p.name, run.what.replace('|', '/'))) for p in cases_world.programs() for run in p.runs]
    have = set(rows_now())
    lacks, beyond = {row for p, row in runs if not p.source} - have, have - {row for _, row in runs}
    for what, rows in (('lacks', lacks), ('has no longer to have', beyond)):
        for name, run in sorted(rows):
            print(f'docs/interop.md {what} the row "{name}, {run}" (test/world/run.sh --only ... --write-docs)')
    return 1 if lacks or beyond else 0


if __name__ == '__main__':
    sys.exit(check())
