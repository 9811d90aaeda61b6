#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One version everywhere.

usage: release.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# Where the version stands, newest first.
VERSIONS = {
    'meson.build': r"version : '([\d.]+)'",
    'CHANGELOG.md': r'^## (\S+)$',
    'debian/changelog': r'^rocemu \((\S+)\)',
    'packaging/rocemu.spec': r'^Version: +(\S+)$',
}


def versions(root):
    found = {}
    for name, pattern in VERSIONS.items():
        m = re.search(pattern, (root / name).read_text(encoding='utf-8'), re.M)
        if not m:
            yield f'{name} has no version'
        else:
            found[name] = m[1]
    if len(set(found.values())) > 1:
        yield f'versions differ: {found}'
    spec = (root / 'packaging/rocemu.spec').read_text(encoding='utf-8')
    first = re.search(r'^%changelog\n\* .* - (\S+)-\d+$', spec, re.M)
    if not first or first[1] != found.get('packaging/rocemu.spec'):
        yield 'packaging/rocemu.spec: the first row of its changelog has another version'


def main():
    bad = list(versions(pathlib.Path(sys.argv[1])))
    print('\n'.join(bad))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
