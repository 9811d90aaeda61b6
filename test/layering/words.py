#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hold comments, docstrings, pages and manual pages to plain words.

usage: words.py SOURCE_ROOT [FILE ...]

Things do not speak, know, believe, ask or tell, and a thread or a process is not a person. WORDS has
the words that are not used, with better ones. Code spans, quoted text, code blocks and names of
functions are not checked. ALLOWED has phrases that are right where they are: about people, or terms
of a standard.
"""
import ast
import io
import pathlib
import re
import sys
import tokenize

import sources

WORDS = (
    (r"who(?:m)?ever|no ?body|somebody|anybody|everybody", "a process, a thread, any user; none"),
    (r"tells?|told|telling", "reports, shows, notifies, sends"),
    (r"knows?|knew|knowing", "has, uses, contains; is known"),
    (r"believes?|believed|believing", "accepts, treats as"),
    (r"speaks?|spoke|spoken|speaking", "uses the protocol, sends"),
    (r"says?|said|saying", "states, prints, reports, contains, according to"),
    (r"hears?|heard|hearing", "receives, gets"),
    (r"asks?|asked|asking", "requests, queries, requires"),
    (r"wish(?:es)?|hopes?", "requests, requires"),
    (r"news", "event"),
    (r"wills", "exit MADs"),
    (r"desk", "dispatch"),
    (r"company", "further packets"),
    (r"neither", "not A and not B; none of them"),
    (r"for good", "permanently"),
    (r"for ever", "forever, without a limit"),
    (r"lies? there", "is there"),
    (r"becom(?:es?|ing) of|became of", "the action on, the end of"),
)
# file: phrases that have such a word and are right.
ALLOWED = {}
MAN = tuple(f".{n}" for n in range(1, 9))
KINDS = (".c", ".h", ".py", ".md", *MAN)
FORBIDDEN = re.compile(
    r"(?<![\w.$_`-])(?:" + "|".join(f"(?P<w{n}>{w})" for n, (w, _) in enumerate(WORDS)) + r")(?![\w_(`-])",
    re.I)
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NOT_TEXT = re.compile(r'`[^`]*`|"[^"\n]{1,120}"')


def c_text(text):
    for m in C_TOKEN.finditer(text):
        if m[0][0] == "/":
            yield text.count("\n", 0, m.start()) + 1, m[0]


def python_text(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node, clean=False)


def page_text(text):
    fence = False
    for number, line in enumerate(text.split("\n"), 1):
        fence ^= line.lstrip().startswith("```")
        if not fence and not line.startswith(("    ", "\t")):
            yield number, line


def man_text(text):
    filled = True
    for number, line in enumerate(text.split("\n"), 1):
        filled = not re.match(r"\.(nf|EX)\b", line) and (filled or bool(re.match(r"\.(fi|EE)\b", line)))
        if filled and not line.startswith('.\\"'):
            yield number, line


def text_of(name, text):
    if name.endswith((".c", ".h")):
        return c_text(text)
    if name.endswith(".py"):
        return python_text(text)
    return page_text(text) if name.endswith(".md") else man_text(text)


def check(root, name):
    """Yield each word that is not plain, and each entry of ALLOWED that is not needed."""
    unused = set(ALLOWED.get(name, ()))
    for line, text in text_of(name, (root / name).read_text(encoding="utf-8")):
        plain = re.sub(r"\s*\n[ \t]*(?:\*(?!/)|//|#)?[ \t]*", " ", text)
        for phrase in ALLOWED.get(name, ()):
            if phrase in plain:
                unused.discard(phrase)
                plain = plain.replace(phrase, "")
        for m in FORBIDDEN.finditer(NOT_TEXT.sub(" ", plain)):
            instead = WORDS[int(m.lastgroup[1:])][1]
            yield f'{name}:{line}: "{m[0]}": {instead}'
    for phrase in sorted(unused):
        yield f"words.py: ALLOWED has a phrase that {name} has not: {phrase}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = sys.argv[2:] or sources.listed(root, *KINDS)
    files = [name for name in files if name != "test/layering/words.py"]
    errors = [text for name in files for text in check(root, name)]
    for text in errors:
        print(text, file=sys.stderr)
    print(f"{len(files)} files, {len(errors)} words that are not plain")
    return 1 if errors or not (files or sys.argv[2:]) else 0


if __name__ == "__main__":
    sys.exit(main())
