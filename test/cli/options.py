#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The texts about options agree: --help of each command, its manual page, README.md and docs.

usage: options.py ROCEMU SOURCE_ROOT

- --help is ASCII in at most 80 columns. Each command has a manual page, listed in that of rocemu.
- The section OPTIONS of a page has the options of the table in its order, with the same letters
  and names of values. A page names all values of an option that has a choice. Environment
  variables of options are in a section ENVIRONMENT.
- Each choice is accepted. An unknown option is refused, by one line with it and the remedy.
- Each option that README, a document or a page gives to a command of rocemu is one of its own.
"""
import pathlib
import re
import sys

import helptext

# Values that are tried, by option: the rest of a command line that does nothing with them.
TRIED = {"run": ["--", "true"], "devices": [], "stat": [], "verify": ["--list"], "conform": ["--list"]}
WRONG_USAGE = 2


def plain(roff):
    """A line of a page without its markup."""
    macro = re.match(r"\.([BIR]{1,2}) (.*)", roff)
    if macro:
        words = [a or b for a, b in re.findall(r'"((?:[^"]|"")*)"|(\S+)', macro[2])]
        roff = (" " if len(macro[1]) == 1 else "").join(words)
    roff = re.sub(r"\\f[BIRP]", "", roff)
    return roff.replace("\\-", "-").replace("\\~", " ").replace("\\(dq", '"').replace("\\&", "")


def section(page, name):
    found = re.search(rf'^\.SH "?{name}"?\n(.*?)(?=^\.SH|\Z)', page, re.M | re.S)
    return found[1] if found else ""


def page_options(page):
    """head: text, of the section OPTIONS, lists within an option's text aside."""
    out, depth, head = {}, 0, None
    lines = iter(section(page, "OPTIONS").splitlines())
    for line in lines:
        depth += (line == ".RS") - (line == ".RE")
        if line == ".TP" and depth == 0:
            head = plain(next(lines))
            out[head] = ""
        elif head:
            out[head] += plain(line) + "\n"
    return out


def check_page(root, name, options):
    files = (root / "man" / f"rocemu-{name}.1", root / "man" / "rocemu.1")
    pages = [f.read_text(encoding="ascii") for f in files]
    there = page_options(pages[0])
    heads = [o.head for o in options]
    for head in [h for h in heads if h not in there]:
        yield f"no {head!r}"
    for head in [h for h in there if h not in heads]:
        yield f"{head!r} is no option"
    if not set(heads) ^ set(there) and heads != list(there):
        yield f"order {list(there)}, and --help has {heads}"
    variables = "".join(section(p, "ENVIRONMENT") for p in pages)
    for o in options:
        missing = [c for c in o.choices if not re.search(rf"\b{c}\b", there.get(o.head, c))]
        if missing:
            yield f"--{o.name} without {missing}"
        if o.variable and o.variable not in variables:
            yield f"no {o.variable} in ENVIRONMENT"


def check_help(text):
    if not text.isascii():
        yield "not ASCII"
    for line in text.splitlines():
        if len(line) > 80 or line != line.rstrip():
            yield f"longer than 80 columns, or ends with blanks: {line!r}"


def check_parser(rocemu, name, options):
    p = helptext.run(rocemu, name, "--frobnicate=3")
    me = f"rocemu {name}"
    line = f'{me}: unknown option "--frobnicate"; "{me} --help" lists the options\n'
    if p.returncode != WRONG_USAGE or p.stderr != line:
        yield f"--frobnicate: exit code {p.returncode}, {p.stderr!r}"
    for o in options:
        for choice in o.choices:
            p = helptext.run(rocemu, name, f"--{o.name}", choice, *TRIED[name])
            if p.returncode == WRONG_USAGE:
                yield f"--{o.name} {choice} is refused: {p.stderr}"
        if o.choices:
            p = helptext.run(rocemu, name, f"--{o.name}", "frobnicate", *TRIED[name])
            if p.returncode != WRONG_USAGE or "frobnicate" not in p.stderr:
                yield f"--{o.name} frobnicate: exit code {p.returncode}, {p.stderr!r}"


def used_in(text, name, table):
    """Options that a text gives to the command: (option, its line)."""
    with_value = {w for o in table if o.arg for w in (f"--{o.name}", f"-{o.letter}")}
    for m in re.finditer(rf"\brocemu {name}\b([^`|;<>&\n]*)", text):
        words = iter(m[1].split())
        for word in words:
            if word == "--":
                break
            if re.match("--?[a-z]", word):
                option = re.match(r"--?[\w-]*", word)[0]
                yield option, m[0]
                if option in with_value and "=" not in word:
                    next(words, None)
            elif name == "run":
                break


def check_documents(root, tables):
    files = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    texts = {p: p.read_text(encoding="utf-8").replace("\\\n", "") for p in files}
    for p in sorted((root / "man").glob("*.1")):
        texts[p] = "\n".join(plain(line) for line in p.read_text(encoding="ascii").splitlines())
    checked = 0
    for path, text in texts.items():
        for name, table in tables.items():
            known = {f"--{o.name}" for o in table} | {f"-{o.letter}" for o in table}
            for option, line in used_in(text, name, table):
                checked += 1
                if option not in known:
                    yield f"{path.relative_to(root)}: {option} is no option of {name}: {line}"
    print(f"{checked} options in {len(texts)} files")
    if checked < 100:
        yield "README.md, docs and man have next to no options: is the pattern right?"


def main():
    rocemu, root = sys.argv[1], pathlib.Path(sys.argv[2])
    names, tables, errors = helptext.commands(rocemu), {}, []
    index = section((root / "man/rocemu.1").read_text(encoding="ascii"), "COMMANDS")
    for name, brief in names.items():
        text = helptext.run(rocemu, name, "--help").stdout
        tables[name] = helptext.options(text)
        found = [*check_help(text), *check_page(root, name, tables[name]),
                 *check_parser(rocemu, name, tables[name])]
        if f".BR rocemu-{name} (1)\n{brief}\n" not in index:
            found.append(f"rocemu(1) does not list it as: {brief}")
        errors += [f"{name}: {e}" for e in found]
    errors += check_documents(root, tables)
    for e in errors:
        print(e, file=sys.stderr)
    print(f"{len(names)} commands, {sum(map(len, tables.values()))} options, {len(errors)} errors")
    return 1 if errors or not names else 0


if __name__ == "__main__":
    sys.exit(main())
