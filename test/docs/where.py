#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks docs/where.md: each row's file exists and has the name beside it.

usage: where.py
"""
import re
import sys

import pages

LEAST = 15
ROW = re.compile(r'^\| (?!What changes)(.+) \| `([^`]+)` \| `([^`]+)` \|$')


def main():
    text = (pages.TOP / 'docs/where.md').read_text(encoding='utf-8')
    table = [
        line
        for line in text.splitlines()
        if line.startswith('|') and not re.match(r'\|(-|\s*What)', line)
    ]
    wrong = []
    for line in table:
        m = ROW.match(line)
        if not m:
            wrong.append(f'a row is not "| what | `file` | `name` |": {line}')
            continue
        path = pages.TOP / m[2]
        if not path.is_file():
            wrong.append(f'{m[1]}: no file {m[2]}')
        elif not re.search(rf'\b{re.escape(m[3])}\b', path.read_text(encoding='utf-8')):
            wrong.append(f'{m[1]}: {m[2]} has no {m[3]}')
    for row in wrong:
        print(f'docs/where.md: {row}', file=sys.stderr)
    print(f'{len(table)} rows, {len(wrong)} wrong')
    return 1 if wrong or len(table) < LEAST else 0


if __name__ == '__main__':
    sys.exit(main())
