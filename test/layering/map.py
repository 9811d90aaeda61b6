#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hold the map (src/README.md, lab/README.md) against the tree and against its own tables of includes.

usage: map.py SOURCE_ROOT

- Each folder of src has a row in the table of folders; the line of layers on top has them in the order of who includes whom.
- Each folder of src, tools and lab with .c files has a section "Inside X", lab's in lab/README.md. The first columns of its
  tables have each .c file of that folder, once, and only files that are there.
- No dict of the layering tests has a key twice, of which Python would drop one.
"""
import ast
import collections
import pathlib
import re
import sys

import includes

FOLDER_OF = {"connection manager": "cm"}
TOPS = ("src", "tools", "lab")


def table_rows(text):
    """The first columns of the tables."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield re.findall(r"`([^`]+)`", line.split("|")[1])


def check_folders(root, top):
    rows = {name for names in table_rows(top) for name in names if not name.startswith("../")}
    there = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    for name in sorted(there - rows):
        yield f"src/README.md: no row for {name}"
    for name in sorted(rows - there):
        yield f"src/README.md: a row for {name}, which is not there"


def check_order(top, rules):
    order = re.search(r"^ +(\w+(?: → \w+)+)", top, re.M)[1].split(" → ")
    for at, layer in enumerate(order):
        for other in sorted(rules[layer] & set(order[at + 1 :])):
            yield f"src/README.md has {other} to the right of {layer}, and lets {layer} include it"


def check_files(root, sections):
    folders = {path.parent for top in TOPS for path in (root / top).rglob("*.c")}
    listed = {folder: collections.Counter() for folder in folders}
    for title, body in sections:
        name = re.match(r"Inside (?:the )?([\w/ ]+)", title)[1]
        folder = root / ("" if name.split("/")[0] in TOPS else "src") / FOLDER_OF.get(name, name)
        listed.setdefault(folder, collections.Counter()).update(n for names in table_rows(body) for n in names)
    for folder, names in sorted(listed.items()):
        name = folder.relative_to(root)
        page = includes.map_of(str(name))
        if not names:
            yield f"{page}: no table for {name}"
            continue
        for missing in sorted(n for n in names if not (folder / n).exists()):
            yield f"{page}: {name} has no {missing}"
        for path in sorted(folder.glob("*.c")):
            if names[path.name] != 1:
                yield f"{page}: {name}/{path.name} is listed {names[path.name]} times"


def check_keys(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            keys = collections.Counter(k.value for k in node.keys if isinstance(k, ast.Constant))
            for key, n in keys.items():
                if n > 1:
                    yield f"{path.name}, line {node.lineno}: {key!r} is a key {n} times"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = [root / name for name in includes.MAPS if (root / name).exists()]
    top, *rest = [part for page in pages for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M)]
    sections = [s.split("\n", 1) for s in rest if s.startswith("Inside ")]
    errors = [*check_folders(root, top), *check_order(top, includes.read_rules(root)), *check_files(root, sections)]
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        errors += check_keys(path)
    for text in errors:
        print(text, file=sys.stderr)
    print(f"{len(sections)} sections, {len(errors)} errors")
    return 1 if errors or not sections else 0


if __name__ == "__main__":
    sys.exit(main())
