# SPDX-License-Identifier: BSD-2-Clause
"""The files of the tree that a check is about."""
import shutil
import subprocess


def listed(root, *endings):
    """Names, relative to root, of the files that git tracks; where there is no git: of all that were not built."""
    tracked = ""
    if shutil.which("git"):
        tracked = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False).stdout
    if tracked:
        names = [n for n in tracked.split("\0") if n and (root / n).is_file()]
    else:
        built = {f.parent for f in root.rglob("build.ninja")} | {root / ".git"}
        names = [str(f.relative_to(root)) for f in root.rglob("*") if f.is_file() and not built & set(f.parents)]
    return sorted(n for n in names if n.endswith(endings))
