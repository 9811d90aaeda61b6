#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do all relative links of the documentation lead somewhere, anchors too, and does the index have
each page?

usage: links.py

Pages are README.md, CONTRIBUTING.md, src/README.md, docs/ and man/. docs/README.md has a link to
each page of docs, rocemu(1) names each manual page, and manual pages refer to manual pages that
exist.
"""
import re
import sys

import pages

LINK = re.compile(
    r'(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)'
    r'|<(?:img|source)[^>]* (?:src|srcset)="([^"]+)"'
)
REFERENCE = re.compile(r'\b(rocemu(?:\\?-[a-z]+)?) \((\d)\)')


def prose(text):
    """Without code, whose brackets are no links."""
    text = re.sub(
        r'^( *)```.*?^\1```$', lambda m: '\n' * m[0].count('\n'), text, flags=re.M | re.S
    )
    return re.sub(r'(`+)[^`\n]+?\1', lambda m: 'x' * len(m[0]), text)


def anchors(path):
    """As GitHub makes them of headings."""
    seen, found = {}, set()
    text = re.sub(r'^```.*?^```$', '', path.read_text(encoding='utf-8'), flags=re.M | re.S)
    for heading in re.findall(r'^#+ +(.+?) *#*$', text, re.M):
        heading = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading).replace('`', '')
        name = re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
        n = seen.get(name, 0)
        seen[name] = n + 1
        found.add(f'{name}-{n}' if n else name)
    return found | set(re.findall(r'<a (?:name|id)="([^"]+)"', text))


def check_links(name):
    path = pages.TOP / name
    text = prose(path.read_text(encoding='utf-8'))
    for m in LINK.finditer(text):
        target = m[1] or m[2]
        where = f'{name}:{text.count(chr(10), 0, m.start()) + 1}'
        if re.match(r'[a-z]+:', target):
            continue
        file, _, anchor = target.partition('#')
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or pages.TOP not in [to, *to.parents]:
            yield f'{where}: no {target}'
        elif anchor and to.suffix == '.md' and anchor not in anchors(to):
            yield f'{where}: {to.name} has no heading for #{anchor}'


def check_man(name):
    text = re.sub(r'^\.BR? ', '', (pages.TOP / name).read_text(encoding='utf-8'), flags=re.M)
    for page, section in REFERENCE.findall(text.replace('\\-', '-').replace('" "', ' ')):
        if not (pages.TOP / 'man' / f'{page}.{section}').exists():
            yield f'{name}: no {page}({section})'


def check_index():
    index = pages.TOP / 'docs/README.md'
    linked = {
        (index.parent / m[1].partition('#')[0]).resolve()
        for m in LINK.finditer(index.read_text(encoding='utf-8'))
        if m[1]
    }
    for path in sorted((pages.TOP / 'docs').glob('*.md')):
        if path != index and path.resolve() not in linked:
            yield f'docs/README.md has no link to {path.name}'
    for folder in sorted(
        {p.parent for p in (pages.TOP / 'docs').rglob('*.md')} - {pages.TOP / 'docs'}
    ):
        if not any(
            folder in to.parents or to.parent == folder or to.stem == folder.name for to in linked
        ):
            yield f'docs/README.md has no link into {folder.name}/'
    names = {
        f'{page}.{n}'
        for page, n in REFERENCE.findall(
            (pages.TOP / 'man/rocemu.1').read_text(encoding='utf-8').replace('\\-', '-')
        )
    }
    for path in sorted((pages.TOP / 'man').glob('rocemu-*.1')):
        if path.name not in names:
            yield f'rocemu.1 does not name {path.name}'


def main():
    wrong, checked = list(check_index()), 0
    for name in pages.names():
        checked += 1
        wrong += check_man(name) if name.endswith('.1') else check_links(name)
    for text in wrong:
        print(text, file=sys.stderr)
    print(f'{checked} pages, {len(wrong)} errors')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
