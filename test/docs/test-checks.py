#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the checks of the documentation find what they are for? Each is given a small tree with one
mistake.

usage: test-checks.py
"""
import contextlib
import io
import pathlib
import sys
import tempfile

import commands
import console
import links
import pages
import where

sys.path.insert(0, str(pages.TOP / 'tools'))
sys.dont_write_bytecode = True
import draw  # noqa: E402

GOOD = {
    'README.md': '# A\n\n[b](docs/b.md#a-heading)\n',
    'docs/README.md': '[b](b.md) [where](where.md)\n',
    'docs/b.md': '# B\n\n## A heading\n\n```sh not run: no reason\ntools/x --y\n```\n',
    'docs/where.md': '| What changes | file | look for |\n|---|---|---|\n'
    + '| it | `tools/x` | `word` |\n' * where.LEAST,
    'man/rocemu.1': '.BR rocemu (1)\n',
    'test/recipes/a.py': "PAGE = 'docs/recipe.md'\n",
    'tools/x': 'word\n',
    'tools/x.py': "'--y'\n",
}
# What is no mistake.
RIGHT = [
    ('docs/b.md', '<!-- not run: no reason -->\n\n    tools/x --y\n'),
    ('docs/recipe.md', '    tools/x --y\n'),
    ('docs/b.md', '10. A step:\n\n    ```sh not run: no reason\n    tools/x --y\n    ```\n'),
    ('docs/b.md', '```console\n$ tools/x --y\n```\n'),
]
# What is changed, and the check that has to see it.
MISTAKES = [
    ('links', 'README.md', '[b](docs/c.md)\n'),
    ('links', 'README.md', '[b](docs/b.md#another)\n'),
    ('links', 'README.md', '[b](../../etc/passwd)\n'),
    ('links', 'docs/README.md', 'nothing\n'),
    ('links', 'man/rocemu.1', '.BR rocemu (1),\n.BR rocemu-nothing (1)\n'),
    ('where', 'tools/x', 'words\n'),
    ('where', 'docs/where.md', '| it | `tools/x` | `word` |\n'),
    ('commands', 'docs/b.md', '    tools/x --y\n'),
    ('commands', 'docs/b.md', '```sh not run: no reason\ntools/x --z\n```\n'),
    ('commands', 'docs/b.md', '```sh\ntools/x --y\n```\n'),
    ('commands', 'docs/b.md', '```console\n$ tools/z\n```\n'),
]
OUTPUTS = [  # what a page has, what is printed, whether that is the same
    (['a ... c'], 'a b c\n', True),
    (['a ... c'], 'a b d\n', False),
    (['...', 'c'], 'a\nb\nc\n', True),
    (['...', 'c'], 'c\n', True),
    (['a', '...'], 'a\n', True),
    (['a', '...'], 'b\n', False),
    (['a'], 'a\nb\n', False),
]


def errors_of(check):
    if check == 'commands':
        return [w for name in pages.names() for w in commands.check_page('/nonexistent', name)[0]]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        return {'links': links, 'where': where}[check].main()


def check_tree(check, changes):
    """A check's output for the small tree."""
    with tempfile.TemporaryDirectory(prefix='rocemu-docs-') as top:
        pages.TOP = pathlib.Path(top)
        commands.sources_beside.cache_clear()
        for name, text in {**GOOD, **changes}.items():
            path = pages.TOP / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding='utf-8')
        return errors_of(check)


def check_diagrams():
    wide = [(1, 'box a: A'), (2, 'box b: B'), (3, 'arrow a -> b: ' + 'much too wide ' * 9)]
    for lines in (wide, wide[:1] + [(2, 'arrow a -> c: x')], [(1, 'nonsense')]):
        try:
            draw.boxes(lines)
        except draw.Mistake:
            continue
        yield f'draw.py takes {lines}'


def main():
    wrong = [
        f'{check} finds mistakes in the good tree'
        for check in ('links', 'where', 'commands')
        if check_tree(check, {})
    ]
    wrong += [
        f'{check} does not see {text!r} in {name}'
        for check, name, text in MISTAKES
        if not check_tree(check, {name: text})
    ]
    wrong += [
        f'commands finds a mistake in {text!r} in {name}'
        for name, text in RIGHT
        if check_tree('commands', {name: text})
    ]
    wrong += [
        f'{expected} and {text!r}: {not same}'
        for expected, text, same in OUTPUTS
        if bool(console.pattern_of(expected).fullmatch(text)) != same
    ]
    wrong += check_diagrams()
    for text in wrong:
        print(text, file=sys.stderr)
    print(f'{len(MISTAKES) + len(RIGHT) + len(OUTPUTS) + 3} trees and texts, {len(wrong)} wrong')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
