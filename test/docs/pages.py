# SPDX-License-Identifier: BSD-2-Clause
"""The pages of the documentation, their blocks, and the commands in them.

Commands stand in fenced blocks. A block ```console is run by console.py: lines that begin with `$
` are commands, the lines below a command are what it prints. A command that ends in `# exits with
N` does that. Any other block that has commands of rocemu says in its first line why nothing runs
it:

    ```sh not run: needs an adapter

or stands below a line `<!-- not run: REASON -->`, or in a page that another test runs (RUN_BY, or
a test in test/recipes that names the page). In a man page a block (.nf, .EX) with `$ ` is a
console block, unless the comment `.\\" not run: REASON` stands before it.
"""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]
# Pages of which another test runs the blocks that are not console's: that test's source.
RUN_BY = {
    'docs/ci.md': 'test/recipes/ci.py',
    'docs/containers.md': 'test/recipes/containers.py',
    'docs/faults.md': 'test/prog/cases_faults.py',
    'docs/tutorial/*.md': 'test/prog/cases_lessons.py',
}
FENCE = re.compile(r'^( *)```(.*)$')
COMMENT = re.compile(r'<!-- (not run: .*?) -->$')
# What a command of ours begins with, behind a prompt and settings of the environment.
OURS = re.compile(
    r'^(?:\$ )?(?:[A-Z_]+=\S* )*'
    r'((?:build/tools/)?rocemu(?:-parity)?(?= )|(?:tools|test|build/test|\.ci)/[\w./-]+)(.*)$'
)


class Block:
    """Lines of a page that are shown as they are."""

    def __init__(self, page, line, info, lines):
        self.page, self.line, self.info, self.lines = page, line, info.strip(), lines

    @property
    def where(self):
        return f'{self.page}:{self.line}'

    @property
    def runs(self):
        return self.info.split(' ')[0] == 'console'

    @property
    def reason(self):
        """Why nothing runs it, or None."""
        m = re.search(r'\bnot run: (\S.*)', self.info)
        return m[1] if m else None

    def commands(self):
        """(line number, command) of each command of ours."""
        joined = ''
        for number, line in enumerate(self.lines, self.line + 1):
            line = joined + line.strip()
            joined = line[:-1] if line.endswith('\\') else ''
            if not joined and OURS.match(line):
                yield number, line


def man_words(line):
    return (
        re.sub(r'\\f[BIRP]|\\&', '', line)
        .replace('\\-', '-')
        .replace('\\e', '\\')
        .replace('\\(aq', "'")
        .replace('\\(dq', '"')
    )


def man_blocks(name, lines):
    info = ''
    start = None
    for number, line in enumerate(lines, 1):
        if re.match(r'\.(nf|EX)$', line):
            start = number
        elif re.match(r'\.(fi|EE)$', line) and start:
            inside = [man_words(x) for x in lines[start : number - 1]]
            runs = any(x.startswith('$ ') for x in inside)
            yield Block(name, start, info if 'not run:' in info or not runs else 'console', inside)
            start = None
        elif start is None:
            info = line[3:] if line.startswith('.\\"') else ''


def markdown_blocks(name, lines):
    fence, comment = None, ''
    indented = []
    for number, line in enumerate([*lines, ''], 1):
        m = FENCE.match(line)
        if fence:
            if m and not m[2].strip():
                yield Block(name, fence[0], fence[1] + comment, lines[fence[0] : number - 1])
                fence = None
        elif m:
            fence = (number, m[2])
        elif line.startswith('    ') and (indented or number == 1 or not lines[number - 2].strip()):
            indented.append(line)
        elif indented:
            yield Block(name, number - 1 - len(indented), comment, indented)
            indented = []
        elif COMMENT.match(line):
            comment = ' ' + COMMENT.match(line)[1]


def blocks(name):
    """The blocks of a page, by its path in the tree."""
    lines = (TOP / name).read_text(encoding='utf-8').splitlines()
    return list(man_blocks(name, lines) if name.endswith('.1') else markdown_blocks(name, lines))


def names():
    """All pages."""
    found = [TOP / 'README.md', TOP / 'CONTRIBUTING.md', TOP / 'src/README.md']
    found += sorted((TOP / 'docs').rglob('*.md')) + sorted((TOP / 'man').glob('*.1'))
    return [str(p.relative_to(TOP)) for p in found if p.exists()]


def run_by(name):
    """The test that runs the commands of a page, if it is another one than console.py."""
    path = pathlib.PurePath(name)
    return next(
        (test for pattern, test in RUN_BY.items() if path.match(pattern)), None
    ) or recipe_of(name)


def recipe_of(name):
    """The test in test/recipes that names a page or its folder."""
    wanted = [name] + ([str(pathlib.PurePath(name).parent)] if name.count('/') > 1 else [])
    for path in sorted((TOP / 'test/recipes').glob('*.py')):
        text = path.read_text(encoding='utf-8')
        if any(re.search(rf'{re.escape(w)}\b', text) for w in wanted):
            return str(path.relative_to(TOP))
    return None
