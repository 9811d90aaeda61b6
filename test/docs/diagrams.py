#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Are the diagrams what their texts give, and is the picture of the layers what the includes allow?

usage: diagrams.py

docs/diagrams/layers.txt has a box for each folder of src. What a layer may include
(src/README.md, as test/layering/includes.py reads it) stands below it. docs/first-minute.svg has
the commands of README.md; console.py shows how it is made.
"""
import html
import subprocess
import sys

import console
import pages

sys.path[:0] = [str(pages.TOP / 'tools'), str(pages.TOP / 'test/layering')]
sys.dont_write_bytecode = True
import draw  # noqa: E402
import includes  # noqa: E402


def check_layers():
    source = pages.TOP / 'docs/diagrams/layers.txt'
    boxes = draw.layout(draw.read(source)[1:])[1]
    folders = {p.name for p in (pages.TOP / 'src').iterdir() if p.is_dir()}
    for name in sorted(folders ^ (set(boxes) - {'tools'})):
        yield f'{source.name}: {name} is a box or a folder of src, not both'
    allowed = includes.read_rules(pages.TOP)
    for name in sorted(set(boxes) & set(allowed)):
        for other in sorted((allowed[name] & set(boxes)) - {name}):
            if boxes[other].y <= boxes[name].y:
                yield f'{source.name}: {name} may include {other}, which is not below it'


def check_recording():
    path = pages.TOP / 'docs/first-minute.svg'
    shown = html.unescape(path.read_text(encoding='utf-8')).replace('\xa0', ' ')
    for block in pages.blocks('README.md'):
        for number, command, _ in console.transcript(block) if block.runs else []:
            if command not in shown:
                yield f'{path.name} does not show line {number} of README.md: {command}'


def main():
    wrong = [*check_layers(), *check_recording()]
    for text in wrong:
        print(text, file=sys.stderr)
    current = subprocess.run([sys.executable, pages.TOP / 'tools/draw.py', '--check'], check=False)
    return 1 if wrong or current.returncode else 0


if __name__ == '__main__':
    sys.exit(main())
