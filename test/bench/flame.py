#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws where a program's time goes: perf's samples with their call chains, as an SVG.

    perf record -e cpu-clock -F 4999 --call-graph fp -o perf.data PROGRAM
    perf script -i perf.data | test/bench/flame.py --title "ib_send_lat" > flame.svg

A box is a function, its width its share of the samples, what it called stands above it. Boxes of less than --least
percent are left out. The colour is that of the place: kernel, rocemu, other libraries, the program.
"""
import argparse
import re
import sys
from xml.sax.saxutils import escape

WIDTH, ROW, MARGIN, CHARACTER = 1200, 17, 10, 6.7
COLOURS = {'kernel': ('#e8a33d', 'kernel'), 'rocemu': ('#5b9bd5', 'rocemu'), 'library': ('#9bbf6b', 'libraries'),
           'program': ('#c9a0dc', 'program')}
FRAME = re.compile(r'^\s+[0-9a-f]+ (.+?)(?:\+0x[0-9a-f]+)? \((.*)\)$')


class Node:
    """A function under its caller."""

    def __init__(self, name, place):
        self.name, self.place = name, place
        self.samples = 0
        self.callees = {}

    def callee(self, name, place):
        return self.callees.setdefault((name, place), Node(name, place))

    def depth(self, least):
        return 1 + max((c.depth(least) for c in self.callees.values() if c.samples >= least), default=0)


def place_of(dso):
    if 'kernel' in dso or dso.startswith('['):
        return 'library' if 'vdso' in dso else 'kernel'
    if re.search(r'libibverbs|librdmacm|rocemu', dso):
        return 'rocemu'
    return 'library' if '.so' in dso else 'program'


def read(lines):
    """The tree of all samples; a sample is a block of lines, the innermost function first."""
    root, chain = Node('all', 'program'), []

    def end():
        if not chain:
            return
        node = root
        root.samples += 1
        for name, place in reversed(chain):
            node = node.callee(name, place)
            node.samples += 1
        chain.clear()

    for line in lines:
        m = FRAME.match(line)
        if m:
            name = m.group(1)
            chain.append(('?' if name == '[unknown]' else name.split('@@')[0], place_of(m.group(2))))
        elif not line.strip():
            end()
    end()
    return root


def boxes(node, x, y, scale, total, least):
    """SVG of a node and all above it."""
    width = node.samples * scale
    percent = 100 * node.samples / total
    room = int((width - 4) / CHARACTER)
    label = node.name if len(node.name) <= room else node.name[:max(room - 1, 0)] + '…' if room > 3 else ''
    yield (f'<g><title>{escape(node.name)}: {percent:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.5):.1f}" '
           f'height="{ROW - 1}" rx="2" fill="{COLOURS[node.place][0]}"/>'
           + (f'<text x="{x + 3:.1f}" y="{y + ROW - 5}">{escape(label)}</text>' if label else '') + '</g>')
    for callee in sorted(node.callees.values(), key=lambda c: (c.place, c.name)):
        if callee.samples >= least:
            yield from boxes(callee, x, y - ROW, scale, total, least)
            x += callee.samples * scale


def draw(root, title, least_percent):
    least = max(1, root.samples * least_percent / 100)
    height = root.depth(least) * ROW + 60
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">',
           '<style>text{fill:#111} .h{font-size:13px} @media(prefers-color-scheme:dark){.h{fill:#ddd}}</style>',
           f'<text class="h" x="{MARGIN}" y="18">{escape(title)}</text>']
    for i, (colour, text) in enumerate(COLOURS.values()):
        x = WIDTH - 520 + 130 * i
        out.append(f'<rect x="{x}" y="8" width="11" height="11" fill="{colour}"/><text class="h" x="{x + 15}" y="18">{text}</text>')
    out.extend(boxes(root, MARGIN, height - ROW - 8, (WIDTH - 2 * MARGIN) / root.samples, root.samples, least))
    return '\n'.join([*out, '</svg>', ''])


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--title', default='', help='above the drawing')
    p.add_argument('--least', type=float, default=0.4, metavar='PERCENT', help='of a box (default: %(default)s)')
    args = p.parse_args()
    root = read(sys.stdin)
    if not root.samples:
        print('flame.py: no samples with call chains on stdin (perf script of perf record --call-graph)', file=sys.stderr)
        return 2
    sys.stdout.write(draw(root, args.title, args.least))
    return 0


if __name__ == '__main__':
    sys.exit(main())
