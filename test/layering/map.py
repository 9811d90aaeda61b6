#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hold the map (src/README.md) against the tree and against its own table of includes.

usage: map.py SOURCE_ROOT

- Each folder of src has a row in the table of folders; the line of layers on top has them in the order of who includes whom.
- A section "Inside X" has each .c file of that folder in the first columns of its tables, once, and only files that are there.
- No dict of the layering tests has a key twice, of which Python would drop one.
"""
import ast
import collections
import pathlib
import re
import sys

import includes

FOLDER_OF = {"connection manager": "cm"}


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
    listed = collections.defaultdict(collections.Counter)
    for title, body in sections:
        name = re.match(r"Inside (?:the )?([\w ]+)", title)[1]
        for names in table_rows(body):
            listed[FOLDER_OF.get(name, name)].update(names)
    for folder, names in listed.items():
        there = {p.name for p in (root / "src" / folder).glob("*.[ch]")}
        for name in sorted(set(names) - there):
            yield f"src/README.md: {folder} has no {name}"
        for name in sorted(n for n in there if n.endswith(".c") and names[n] != 1):
            yield f"src/README.md: {folder}/{name} is listed {names[name]} times"


def check_keys(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            keys = collections.Counter(k.value for k in node.keys if isinstance(k, ast.Constant))
            for key, n in keys.items():
                if n > 1:
                    yield f"{path.name}, line {node.lineno}: {key!r} is a key {n} times"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    top, *rest = re.split(r"^## ", (root / "src/README.md").read_text(encoding="utf-8"), flags=re.M)
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
