#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""test-train.py SOURCE WORK: train.py on a build directory of its own, and on one that there is not."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE, WORK = map(os.path.abspath, sys.argv[1:])
TRAIN = os.path.join(SOURCE, 'test', 'bench', 'train.py')
HOT = 'lane-progress', 'req-one', 'resp-exec', 'icrc'    # files that each message goes through


def run(*argv, expect=0):
    p = subprocess.run(argv, capture_output=True, text=True, check=False)
    if p.returncode != expect:
        sys.exit(f'{" ".join(argv)}: exit code {p.returncode}, not {expect}\n{p.stdout}{p.stderr}')
    return p.stdout + p.stderr


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    said = run(TRAIN, '--build', WORK, expect=2)
    assert WORK in said and 'meson' in said, said

    run('meson', 'setup', WORK, SOURCE, '-Dtests=false')
    said = run(TRAIN, '--build', WORK)
    assert 'is trained' in said.splitlines()[-1], said
    library = Path(WORK, 'src', 'verbs', 'libibverbs.so.1')
    assert b'__gcov_' not in library.read_bytes(), 'the library still counts'
    counted = {p.name for p in Path(WORK).rglob('*.gcda')}
    for name in HOT:
        assert any(name in c for c in counted), f'no counts of {name}.c: {sorted(counted)}'
    shutil.rmtree(WORK)


if __name__ == '__main__':
    main()
