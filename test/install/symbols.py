#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare debian/librocemu0.symbols with the built library: a symbol that is gone breaks programs, and one that is new
has to be listed with the version that brought it.

usage: symbols.py NM LIBRARY SYMBOLS_FILE
"""
import re
import subprocess
import sys


def exported(nm, library):
    out = subprocess.run([nm, '--dynamic', '--defined-only', '--format=posix', library], check=True, capture_output=True,
                         text=True).stdout
    # In a sanitizer's build the library has its runtime's as well.
    return {line.split()[0].split('@')[0] for line in out.splitlines() if line.startswith('rocemu_')}


def listed(path):
    """{symbol: version}; the first line names the library, SONAME and package."""
    with open(path, encoding='utf-8') as f:
        rows = f.read().splitlines()
    if not rows or not rows[0].startswith('librocemu.so.0 librocemu0 '):
        sys.exit(f'{path}: the first line is not that of librocemu.so.0')
    symbols = {}
    for row in rows[1:]:
        m = re.fullmatch(r' (\w+)@Base (\d+(?:\.\d+)+)', row)
        if not m or m[1] in symbols:
            sys.exit(f'{path}: "{row}" is not " SYMBOL@Base VERSION", or is there twice')
        symbols[m[1]] = m[2]
    return symbols


def main():
    nm, library, path = sys.argv[1:]
    have, want = exported(nm, library), set(listed(path))
    for name in sorted(want - have):
        print(f'{name}: listed, but not exported: programs that use it break, so the SONAME has to change')
    for name in sorted(have - want):
        print(f'{name}: exported, but not listed: add it, with the version that is to be released')
    print(f'{len(have)} exported, {len(want)} listed')
    return 1 if have != want or not have else 0


if __name__ == '__main__':
    sys.exit(main())
