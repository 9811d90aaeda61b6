#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What test/nightly.py makes of its jobs' ends, and is each in the table of docs/testing.md?"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import nightly  # noqa: E402 # pylint: disable=wrong-import-position


def job(script, budget_s=60):
    return nightly.Job('job', ['/bin/sh', '-c', script], budget_s)


def run__each_end__said():
    for script, failed, said in (('echo a; echo "3 passed"', False, '3 passed'), ('echo "no guest"; exit 77', False, 'skipped: no guest'),
                                 ('echo bad; exit 1', True, 'FAILED: exit code 1; bad')):
        got, row = nightly.run(job(script))
        assert got == failed and row.result == said, (script, got, row)


def run__longer_than_its_budget__ended():
    failed, row = nightly.run(job('echo begun; sleep 1000 & sleep 1000', 1))
    assert failed and row.result.startswith('FAILED: not at an end after 1 s; begun'), row


def merge__table__row_of_the_job_replaced():
    table = nightly.merge('', [nightly.Row('d1', 'c1', 'soak: x', 'good', '1 min'), nightly.Row('d1', 'c1', 'worlds: x', 'good', '1 min')])
    table = nightly.merge(table, [nightly.Row('d2', 'c2', 'soak: x', 'bad', '2 min')])
    assert table.splitlines()[2:] == ['| d2 | c2 | soak: x | bad | 2 min |', '| d1 | c1 | worlds: x | good | 1 min |'], table


def commit__changes__told_but_for_pages():
    with tempfile.TemporaryDirectory() as top:
        git = ['git', '-C', top, '-c', 'user.name=x', '-c', 'user.email=x@localhost']
        files = [os.path.join(top, name) for name in ('page.md', 'code.c')]
        told, old = [], nightly.TOP
        nightly.TOP = top
        subprocess.run([*git, 'init', '-q'], check=True)
        for i, path in enumerate(('', *files)):
            for name in files if not i else [path]:
                with open(name, 'a', encoding='utf-8') as f:
                    f.write('x')
            if not i:
                subprocess.run([*git, 'add', '.'], check=True)
                subprocess.run([*git, 'commit', '-qm', 'x'], check=True)
            told.append(nightly.commit()[7:])
        nightly.TOP = old
    assert told == ['', '', '+'], told


def docs__table__has_each_job():
    rows = nightly.doctable.rows(nightly.doctable.read(nightly.DOCUMENT, nightly.PART))
    want = {j.name for j in nightly.jobs(argparse.Namespace(build='build', minutes=1, seed=1, cover=False))}
    assert {row[2].split(':')[0] for row in rows} == want, rows
    assert not any('FAILED' in row[3] for row in rows), rows


if __name__ == '__main__':
    for name, test in list(globals().items()):
        if '__' in name[1:-1]:
            test()
            print(f'ok {name}')
