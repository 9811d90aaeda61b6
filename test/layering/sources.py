# SPDX-License-Identifier: BSD-2-Clause
"""The files of the tree that a check is about."""
import subprocess

NOT_OURS = ("build", ".git", "debian", "subprojects")


def listed(root, *endings):
    """Names, relative to root, of the files that git tracks; of all files where root is not a git checkout."""
    p = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if p.returncode == 0 and p.stdout:
        names = [n for n in p.stdout.split("\0") if n and (root / n).is_file()]
    else:
        names = [str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()]
        names = [n for n in names if not n.startswith(NOT_OURS)]
    return sorted(n for n in names if n.endswith(endings))
