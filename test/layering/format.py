#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hold the C files to .clang-format.

usage: format.py SOURCE_ROOT [FILE ...]

Without files: all *.c and *.h that git tracks; all there are where there is no git. Versions of clang-format differ in what
they make of the same rules, so it takes the one that the tree is formatted with; where it is not, the check is skipped.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import sources

VERSION = 14
SKIPPED = 77
JOBS = min(2, os.cpu_count() or 1)


def find_program():
    """clang-format of that version. @return its path, and why there is none."""
    why = "no clang-format"
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            found = re.search(r"version (\d+)", text)
            if found and int(found[1]) == VERSION:
                return path, ""
            why = f"{path} is {text.strip()}"
    return None, f"{why}: clang-format {VERSION} is what the tree is formatted with"


def check(program, root, files):
    """clang-format's findings; empty: none."""
    p = subprocess.run([program, "--dry-run", "-Werror", *files], cwd=root, capture_output=True, text=True, check=False)
    return p.stderr or ("" if p.returncode == 0 else f"{program}: exit code {p.returncode}\n")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    program, why = find_program()
    if not program:
        print(why)
        return SKIPPED
    files = sys.argv[2:] or sources.listed(root, ".c", ".h")
    with ThreadPoolExecutor(JOBS) as pool:
        said = "".join(pool.map(lambda k: check(program, root, files[k :: 4 * JOBS]), range(4 * JOBS)))
    wrong = sorted(set(re.findall(r"^(.+?):\d+:\d+: error:", said, re.M)))
    if said:
        sys.stderr.write(said)
        print(f"to format them: {program} -i {' '.join(wrong)}", file=sys.stderr)
    print(f"{len(files)} files, {len(wrong)} not as .clang-format has it")
    return 1 if said or not files else 0


if __name__ == "__main__":
    sys.exit(main())
