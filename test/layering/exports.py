#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare librocemu's exports with its headers.

usage: exports.py NM librocemu.so librocemu.a HEADER...

Every ROCEMU_PUBLIC function is there, in the shared and in the static library, and nothing else is:
no internal name that could collide with one of the user's, and no public one that no header
declares.
"""
import pathlib
import re
import subprocess
import sys


def declared(headers):
    names = set()
    for header in headers:
        text = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(encoding="utf-8"), flags=re.S)
        names.update(re.findall(r"^ROCEMU_PUBLIC\s[^;{(]*?\**(\w+)\(", text, re.M))
    return names


def defined(nm, *args):
    out = subprocess.run([nm, "--defined-only", *args], check=True, capture_output=True, text=True).stdout
    return {f[2] for f in (line.split() for line in out.splitlines()) if len(f) == 3 and f[1] in "TDBRVWuGS"}


def main():
    nm, shared, static, headers = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    want = declared(headers)
    errors = 0 if want else 1
    for what, have in (("shared", defined(nm, "-D", shared)), ("static", defined(nm, "-g", static))):
        for name in sorted(want - have):
            print(f"{what}: {name} is declared and not there", file=sys.stderr)
        for name in sorted(have - want):
            print(f"{what}: {name} is there and not declared", file=sys.stderr)
        errors += len(want ^ have)
    print(f"{len(want)} public functions, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
