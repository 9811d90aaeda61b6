#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws the diagrams of the documentation: docs/diagrams/NAME.txt becomes docs/NAME.svg.

usage: tools/draw.py [--check]

--check writes nothing; the exit code is 1 when an SVG is not what its text gives. A text is a
tree of boxes, or the messages between actors. `#` begins a comment line.

    boxes TITLE               the first line
    gap ACROSS DOWN           pixels between neighbours, for all that follows
    row | column [: HEADING]  children beside or below each other; a heading draws a frame
    box NAME [CLASS]: TEXT | MORE TEXT      a leaf; the first text is bold
    arrow NAME [<]-> NAME[: LABEL]          after the tree; `..` in place of `-` is dashed

    sequence TITLE            the first line
    actor NAME: TEXT | MORE TEXT            from the left to the right
    NAME -> NAME: LABEL                     a message, in the order of time; `..>` is dashed
    NAME: TEXT | MORE TEXT                  what an actor does, in a box

Children are indented deeper than their row or column. Classes: plain, ours, kernel, net. An SVG
has light and dark colours, chosen by the reader's system, and loads nothing. A text that is wider
than the place it has is an error, so that nothing overlaps.
"""
import argparse
import pathlib
import re
import sys
from xml.sax.saxutils import escape

DOCS = pathlib.Path(__file__).resolve().parents[1] / 'docs'
LINE, PAD, FRAME_HEAD = 17, 12, 26
CLASSES = ('plain', 'ours', 'kernel', 'net')
STYLE = """
.bg { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, sans-serif }
.b { font-weight: bold } .label { font-size: 12px; fill: #57606a }
.plain { fill: #f6f8fa; stroke: #8c959f } .ours { fill: #ddf4ff; stroke: #0969da }
.kernel { fill: #fff8c5; stroke: #9a6700 } .net { fill: #dafbe1; stroke: #1a7f37 }
.frame { fill: none; stroke: #8c959f; stroke-dasharray: 3 3 } .life { stroke: #afb8c1 }
.arrow { stroke: #57606a; stroke-width: 1.5; fill: none } .head { fill: #57606a }
.dashed { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
.bg { fill: #0d1117 } text { fill: #e6edf3 } .label { fill: #9ea7b3 }
.plain { fill: #161b22; stroke: #6e7681 } .ours { fill: #0c2d4f; stroke: #58a6ff }
.kernel { fill: #3b2e05; stroke: #d29922 } .net { fill: #0f2f1a; stroke: #3fb950 }
.frame { stroke: #6e7681 } .life { stroke: #484f58 }
.arrow { stroke: #9ea7b3 } .head { fill: #9ea7b3 }
}
"""


class Mistake(Exception):
    """A text that cannot be drawn."""


def width(text, bold=False, size=13):
    """Pixels, a little more than usual sans-serif fonts take."""
    narrow, wide = "iljtfrI.,:;'|!()[] ", 'mwMWGOQ@%'
    ems = sum(
        0.36 if c in narrow else 0.92 if c in wide else 0.66 if c.isupper() else 0.6 for c in text
    )
    return ems * size * (1.08 if bold else 1)


def label_of(text):
    return [part.strip() for part in text.split('|')]


class Box:
    """A leaf, or a row or column of others."""

    def __init__(self, kind, name='', style='plain', texts=(), gap=0):
        self.kind, self.name, self.style, self.texts, self.gap = kind, name, style, list(texts), gap
        self.children = []
        self.x = self.y = self.w = self.h = 0

    @property
    def framed(self):
        return self.kind != 'box' and bool(self.texts)

    def measure(self):
        """The least size."""
        for child in self.children:
            child.measure()
        if self.kind == 'box':
            self.w = max(width(t, i == 0) for i, t in enumerate(self.texts)) + 2 * PAD
            self.h = len(self.texts) * LINE + PAD
            return
        along, across = ('w', 'h') if self.kind == 'row' else ('h', 'w')
        setattr(
            self,
            along,
            sum(getattr(c, along) for c in self.children) + self.gap * (len(self.children) - 1),
        )
        setattr(self, across, max(getattr(c, across) for c in self.children))
        if self.framed:
            self.w = max(self.w, width(self.texts[0], True)) + 2 * PAD
            self.h += FRAME_HEAD + PAD

    def place(self, x, y, w, h):
        """At (x, y), children stretched to the size given."""
        self.x, self.y, self.w, self.h = x, y, w, h
        if not self.children:
            return
        if self.framed:
            x, y, w, h = x + PAD, y + FRAME_HEAD, w - 2 * PAD, h - FRAME_HEAD - PAD
        sizes = [c.w if self.kind == 'row' else c.h for c in self.children]
        spare = (w if self.kind == 'row' else h) - sum(sizes) - self.gap * (len(sizes) - 1)
        for child, size in zip(self.children, sizes):
            size += spare / len(sizes)
            if self.kind == 'row':
                child.place(x, y, size, h)
                x += size + self.gap
            else:
                child.place(x, y, w, size)
                y += size + self.gap

    def all(self):
        yield self
        for child in self.children:
            yield from child.all()

    def draw(self):
        if self.framed:
            size = f'width="{self.w:.0f}" height="{self.h:.0f}"'
            yield f'<rect class="frame" x="{self.x:.0f}" y="{self.y:.0f}" {size} rx="6"/>'
            yield text(self.x + PAD, self.y + 17, self.texts[0], 'b', 'start')
        elif self.kind == 'box':
            yield from filled(self.x, self.y, self.w, self.h, self.style, self.texts)
        for child in self.children:
            yield from child.draw()


def text(x, y, words, style='', anchor='middle'):
    style = f' class="{style}"' if style else ''
    return f'<text{style} x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'


def filled(x, y, w, h, style, texts, bold=True):
    yield f'<rect class="{style}" x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" rx="4"/>'
    top = y + (h - len(texts) * LINE) / 2 + 13
    for i, words in enumerate(texts):
        yield text(x + w / 2, top + i * LINE, words, 'b' if bold and i == 0 else '')


def head(x, y, dx, dy):
    """An arrow's head at (x, y), pointing along (dx, dy), one of which is 0."""
    ax, ay = x - 8 * dx, y - 8 * dy
    return (
        f'<path class="head" d="M{x:.0f} {y:.0f} L{ax - 4 * dy:.0f} {ay - 4 * dx:.0f} '
        f'L{ax + 4 * dy:.0f} {ay + 4 * dx:.0f} Z"/>'
    )


def line(x1, y1, x2, y2, style, both=False):
    """A horizontal or vertical arrow."""
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    begin = 7 if both else 0    # a line ends where its head begins
    yield (
        f'<line class="{style}" x1="{x1 + begin * dx:.0f}" y1="{y1 + begin * dy:.0f}" '
        f'x2="{x2 - 7 * dx:.0f}" y2="{y2 - 7 * dy:.0f}"/>'
    )
    yield head(x2, y2, dx, dy)
    if both:
        yield head(x1, y1, -dx, -dy)


def middle(low1, high1, low2, high2):
    """The middle of what two intervals share, or None."""
    low, high = max(low1, low2), min(high1, high2)
    return (low + high) / 2 if high - low >= 20 else None


def arrow(a, b, words, style, both):
    """Between the edges of two boxes that face each other."""
    x, y = middle(a.x, a.x + a.w, b.x, b.x + b.w), middle(a.y, a.y + a.h, b.y, b.y + b.h)
    if x is not None:
        ends = (a.y + a.h, b.y) if b.y > a.y else (a.y, b.y + b.h)
        yield from line(x, ends[0], x, ends[1], style, both)
        for i, words_of_line in enumerate(words):
            yield text(
                x + 10,
                sum(ends) / 2 + 4 + (i - (len(words) - 1) / 2) * 14,
                words_of_line,
                'label',
                'start',
            )
        room, need = min(a.x + a.w, b.x + b.w) - x - 10, max(width(t, size=12) for t in words)
    elif y is not None:
        ends = (a.x + a.w, b.x) if b.x > a.x else (a.x, b.x + b.w)
        yield from line(ends[0], y, ends[1], y, style, both)
        yield text(sum(ends) / 2, y - 6, words[0], 'label')
        room, need = abs(ends[1] - ends[0]), width(words[0], size=12)
    else:
        raise Mistake(f'{a.name} and {b.name} do not face each other')
    if need > room:
        raise Mistake(f'"{" ".join(words)}" takes {need:.0f} of {room:.0f} pixels')


ARROW = re.compile(r'arrow (\w+) (<?)(-|\.\.)> (\w+)(?:: (.+))?')


def layout(lines):
    """The tree of boxes, placed; the leaves by name; the arrows."""
    gaps = {'row': 24, 'column': 44}
    top = Box('column', gap=gaps['column'])
    open_groups, names, arrows = [(-1, top)], {}, []
    for number, words in lines:
        depth = len(words) - len(words.lstrip())
        words = words.strip()
        m = ARROW.fullmatch(words)
        if m:
            arrows.append(m.groups())
            continue
        while open_groups[-1][0] >= depth:
            open_groups.pop()
        group = re.fullmatch(r'(row|column)(?:: (.+))?', words)
        gap = re.fullmatch(r'gap (\d+) (\d+)', words)
        leaf = re.fullmatch(r'box (\w+)(?: (\w+))?: (.+)', words)
        if gap:
            gaps['row'], gaps['column'] = int(gap[1]), int(gap[2])
            top.gap = gaps['column']
        elif group:
            new = Box(group[1], texts=[group[2]] if group[2] else [], gap=gaps[group[1]])
            open_groups[-1][1].children.append(new)
            open_groups.append((depth, new))
        elif leaf and leaf[1] not in names and (leaf[2] or 'plain') in CLASSES:
            new = Box('box', leaf[1], leaf[2] or 'plain', label_of(leaf[3]))
            names[new.name] = new
            open_groups[-1][1].children.append(new)
        else:
            raise Mistake(f'line {number}: {words}')
    top.measure()
    top.place(16, 16, top.w, top.h)
    return top, names, arrows


def boxes(lines):
    """The parts and the size of a diagram of boxes."""
    top, names, arrows = layout(lines)
    parts = list(top.draw())
    for a, both, dash, b, label in arrows:
        if a not in names or b not in names:
            raise Mistake(f'no box {a} or no box {b}')
        style = 'arrow dashed' if dash == '..' else 'arrow'
        parts += arrow(names[a], names[b], label_of(label or ''), style, bool(both))
    return parts, top.w + 32, top.h + 32


def sequence(lines):
    """The parts and the size of a diagram of messages."""
    actors, steps = {}, []
    for number, words in lines:
        actor = re.fullmatch(r'actor (\w+): (.+)', words)
        message = re.fullmatch(r'(\w+) (-|\.\.)> (\w+): (.+)', words)
        note = re.fullmatch(r'(\w+): (.+)', words)
        if actor:
            actors[actor[1]] = label_of(actor[2])
        elif message and message[1] in actors and message[3] in actors:
            steps.append((message[1], message[3], message[2], message[4]))
        elif note and note[1] in actors:
            steps.append((note[1], None, '', label_of(note[2])))
        else:
            raise Mistake(f'line {number}: {words}')
    order = list(actors)
    boxes_w = (
        max(width(t, i == 0) for texts in actors.values() for i, t in enumerate(texts)) + 2 * PAD
    )
    pitch = boxes_w + 20
    for a, b, _, what in steps:
        if b:
            pitch = max(pitch, (width(what, size=12) + 24) / abs(order.index(a) - order.index(b)))
        else:
            pitch = max(pitch, max(width(t) for t in what) + 2 * PAD + 8)
    at = {name: 16 + pitch / 2 + i * pitch for i, name in enumerate(order)}
    head_h = max(len(texts) for texts in actors.values()) * LINE + PAD
    y, parts = 16 + head_h + 14, []
    for a, b, dash, what in steps:
        if b:
            y += 22
            parts.append(text((at[a] + at[b]) / 2, y - 5, what, 'label'))
            parts += line(at[a], y, at[b], y, 'arrow dashed' if dash == '..' else 'arrow')
            y += 14
        else:
            h, w = len(what) * LINE + 8, max(width(t) for t in what) + 2 * PAD
            parts += filled(at[a] - w / 2, y, w, h, 'plain', what, bold=False)
            y += h + 8
    y += 8
    lives = [
        f'<line class="life" x1="{x:.0f}" y1="{16 + head_h:.0f}" x2="{x:.0f}" y2="{y:.0f}"/>'
        for x in at.values()
    ]
    tops = [
        part
        for name, texts in actors.items()
        for part in filled(at[name] - boxes_w / 2, 16, boxes_w, head_h, 'ours', texts)
    ]
    return lives + tops + parts, pitch * len(order) + 32, y + 16


def read(path):
    """(number, line) of a text, without comments and empty lines."""
    rows = [
        (i, row.rstrip()) for i, row in enumerate(path.read_text(encoding='utf-8').splitlines(), 1)
    ]
    return [(i, row) for i, row in rows if row and not row.startswith('#')]


def draw(path):
    """The SVG of a text."""
    rows = read(path)
    kind, _, title = rows[0][1].partition(' ')
    kinds = {'boxes': boxes, 'sequence': sequence}
    if kind not in kinds or not title:
        raise Mistake('the first line is neither "boxes TITLE" nor "sequence TITLE"')
    parts, w, h = kinds[kind](rows[1:])
    return '\n'.join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h:.0f}" '
            f'width="{w:.0f}" height="{h:.0f}">',
            f'<title>{escape(title)}</title>',
            f'<style>{STYLE}</style>',
            f'<rect class="bg" width="{w:.0f}" height="{h:.0f}"/>',
            *parts,
            '</svg>',
            '',
        ]
    )


def main():
    p = argparse.ArgumentParser(description='Draws docs/diagrams/*.txt as docs/*.svg.')
    p.add_argument(
        '--check', action='store_true', help='write nothing; is each SVG what its text gives?'
    )
    args = p.parse_args()
    stale = 0
    sources = sorted((DOCS / 'diagrams').glob('*.txt'))
    for source in sources:
        target = DOCS / f'{source.stem}.svg'
        try:
            new = draw(source)
        except Mistake as e:
            sys.exit(f'{source}: {e}')
        old = target.read_text(encoding='utf-8') if target.exists() else ''
        if old == new:
            continue
        stale += 1
        if args.check:
            print(f'{target} is not what {source.name} gives: run tools/draw.py', file=sys.stderr)
        else:
            target.write_text(new, encoding='utf-8')
            print(target)
    print(f'{len(sources)} diagrams, {stale} {"out of date" if args.check else "written"}')
    return 1 if not sources or (args.check and stale) else 0


if __name__ == '__main__':
    sys.exit(main())
