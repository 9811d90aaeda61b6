#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the tests exist that the tables "claim | shown by" name?

usage: claims.py BUILD

A name in the second column is a test of meson, a case of test/prog/run.py (`*` allowed), or a
file of the tree.
"""
import fnmatch
import json
import os
import re
import subprocess
import sys

import pages

PAGES = ('README.md',)
HEAD = re.compile(r'^\|.*\| shown by \|$')


def rows(name):
    inside = False
    for number, line in enumerate((pages.TOP / name).read_text(encoding='utf-8').splitlines(), 1):
        if HEAD.match(line):
            inside = True
        elif not line.startswith('|'):
            inside = False
        elif inside and not line.startswith('|--'):
            yield number, line.rstrip('| ').rsplit('|', 1)[1]


def main():
    build = os.path.abspath(sys.argv[1])
    with open(os.path.join(build, 'meson-info', 'intro-tests.json'), encoding='utf-8') as f:
        tests = {t['name'] for t in json.load(f)}
    argv = [
        sys.executable,
        str(pages.TOP / 'test/prog/run.py'),
        '--build',
        build,
        '--list',
        '--full',
    ]
    cases = [
        line.split()[0]
        for line in subprocess.run(
            argv, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        if line
    ]
    wrong, count = [], 0
    for name in PAGES:
        for number, shown in rows(name):
            names = re.findall(r'`([^`]+)`', shown)
            count += len(names)
            if not names:
                wrong.append(f'{name}:{number}: a claim that no test shows')
            for test in names:
                if (
                    test not in tests
                    and not fnmatch.filter(cases, test)
                    and not (pages.TOP / test).is_file()
                ):
                    wrong.append(f'{name}:{number}: no test {test}')
    for text in wrong:
        print(text, file=sys.stderr)
    print(f'{count} tests named, {len(wrong)} errors')
    return 1 if wrong or not count else 0


if __name__ == '__main__':
    sys.exit(main())
