#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hold the text of pages (*.md) and manual pages to 100 columns.

usage: columns.py [--fix] SOURCE_ROOT [FILE ...]

A paragraph is as long as its longest line; one that is too long is wrapped anew, as a whole, by --fix, and is an error
without it. What cannot be broken is left alone: tables, headings, code, macros of manual pages, and words, links and code
spans that are longer than a line.
"""
import pathlib
import re
import sys

import sources

COLUMNS = 100
MAN = tuple(f".{n}" for n in range(1, 9))
MARKER = re.compile(r"(\s*)([-*+] |\d+\. )")  # of a list's item
STARTS_SOMETHING = re.compile(r"[-*+>#|]|\d+[.)]|<")  # what a line of a paragraph must not begin with
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1|!?\[[^\]`\s]*\]\([^)]*\)")


def words(text, glue):
    """The words of a paragraph: a code span is one, and what means something at a line's begin stays behind its neighbour."""
    spans = []
    text = CODE.sub(lambda m: spans.append(m[0]) or f"\0{len(spans) - 1}\1", text)
    for word in re.split(r" +(?!" + glue + ")", text.strip()):
        yield re.sub("\0(\\d+)\1", lambda m: spans[int(m[1])], word)


def wrap(text, first, rest, glue):
    """Lines of at most COLUMNS, the first begun with `first`, the others with `rest`."""
    lines, line = [], first
    for word in words(text, glue):
        if line.strip() and line != first and len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line = rest
        line += word if line in (first, rest) else f" {word}"
    return [*lines, line]


def wrap_paragraph(lines):
    """A paragraph of a page, an item of a list among them, when it has a line that is too long."""
    if all(len(line) <= COLUMNS for line in lines):
        return lines
    head = MARKER.match(lines[0])
    first = head[0] if head else re.match(r"\s*", lines[0])[0]
    rest = " " * len(first)
    if len(lines) > 1 and not MARKER.match(lines[1]):
        rest = re.match(r"\s*", lines[1])[0]
    return wrap(" ".join([lines[0][len(first) :], *(line.strip() for line in lines[1:])]), first, rest,
                STARTS_SOMETHING.pattern)


def wrap_page(text):
    """Markdown."""
    out, paragraph, fence, in_list = [], [], False, False

    def end():
        out.extend(wrap_paragraph(paragraph) if paragraph else [])
        paragraph.clear()

    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            end()
            fence = not fence
            out.append(line)
            continue
        item = MARKER.match(line)
        code = line.startswith(("    ", "\t")) and not paragraph and not in_list
        if fence or code or not line.strip() or line.lstrip().startswith(("|", "#", "<", ">")) or line.endswith("  "):
            end()
            out.append(line)
            in_list = in_list and not (line.strip() and not line.startswith(" "))
            continue
        if item:
            end()
            in_list = True
        elif not line.startswith(" ") and not paragraph:
            in_list = False
        paragraph.append(line)
    end()
    return "\n".join(out)


def wrap_man(text):
    """roff: lines of text between requests; what is not filled stays as it is."""
    out, paragraph, filled = [], [], True

    def end():
        plain = not any(line.startswith((" ", "\t")) or line.endswith("\\") or line.endswith("\\c") for line in paragraph)
        if plain and any(len(line) > COLUMNS for line in paragraph):
            out.extend(wrap(" ".join(paragraph), "", "", r"[.']"))
        else:
            out.extend(paragraph)
        paragraph.clear()

    for line in text.split("\n"):
        if line.startswith((".", "'")) or not line or not filled:
            end()
            out.append(line)
            filled = not re.match(r"\.(nf|EX)\b", line) and (filled or bool(re.match(r"\.(fi|EE)\b", line)))
        else:
            paragraph.append(line)
    end()
    return "\n".join(out)


def check(root, name, fix):
    """Yield what is wrong with a file, or mend it."""
    path = root / name
    text = path.read_text(encoding="utf-8")
    good = (wrap_man if name.endswith(MAN) else wrap_page)(text)
    if good == text:
        return
    if fix:
        path.write_text(good, encoding="utf-8")
        return
    bad = sum(len(line) > COLUMNS for line in set(text.split("\n")) - set(good.split("\n")))
    yield f"{name}: {bad} lines of text are longer than {COLUMNS} columns"


def main():
    args = [a for a in sys.argv[1:] if a != "--fix"]
    fix = len(args) < len(sys.argv) - 1
    root = pathlib.Path(args[0]).resolve()
    files = args[1:] or sources.listed(root, ".md", *MAN)
    errors = [text for name in files for text in check(root, name, fix)]
    for text in errors:
        print(text, file=sys.stderr)
    if errors:
        print(f"to wrap them: {sys.argv[0]} --fix {args[0]}", file=sys.stderr)
    print(f"{len(files)} files, {len(errors)} with lines that are too long")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main())
