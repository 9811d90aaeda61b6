#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the errors table, and docs/errors.md, whose tables of rows and of reasons are made of them.

usage: error_rows.py SOURCE_ROOT [--write]

Without --write: is the page up to date, and has each status and event of verbs a row, or a reason why it has none?
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = [os.path.join(HERE, name) for name in ('errors.scenario', 'errors-states.scenario')]
NAME = r'(?:rc|uc|ud)/[a-z/-]+'
HEAD = '| service | what | local | behind | NAK | receive | peer behind | states | event |\n|---|---|---|---|---|---|---|---|---|\n'
SECTIONS = ('A request that fails', 'States, queues, events')
ABSENT = {'wc_status': ('Statuses that have no row', 'IBV_WC_', 'TM_RNDV_INCOMPLETE'),
          'event_type': ('Asynchronous events that have no row', 'IBV_EVENT_', 'WQ_FATAL')}


class Row:
    """A row, and what the lines of its case expect of it."""

    def __init__(self, name, what, lines, of_table):
        self.name, self.what, self.lines, self.of_table = name, what, lines, of_table
        self.service, self.nak = '', '-'
        self.completions = {}       # (end, queue, number): status
        self.states, self.events = {}, []
        for line in lines:
            self.read(*line)

    def read(self, end, command, *words):
        text = ' '.join(words)
        if command in ('pair', 'qp'):
            self.service, self.states = words[0], {'a': 'RTS', 'b': 'RTS' if command == 'pair' else '-'}
        elif command in ('send_cq', 'recv_cq', 'expect'):
            for queue, number, status in re.findall(r'(\w+|\*) (\d+)[ *]?([A-Z_]{4,})?', text):
                self.completions[end, 'recv' if queue == 'recv' else 'send', int(number)] = status or 'SUCCESS'
            if words[-1] == 'ERR':
                self.states[end] = 'ERR'
        elif command in ('state', 'modify') and 'errno' not in words:
            self.states[end] = words[0]
        elif command == 'destroy_qp':
            self.states[end] = 'destroyed'
        elif command == 'events':
            self.events += [word.rstrip(';') + ' (local)' * (end == 'a') for word in words]
        elif command == 'vendor_err' and end == 'a' and '..' not in text:
            self.nak = text

    def statuses(self):
        return set(self.completions.values())

    def cells(self):
        def status(*key):
            return self.completions.get(key, '-')

        # The request behind it may or may not have come, and nothing is expected of it.
        passes = ' or SUCCESS' if ('b', 'ignore', 'rest') in self.lines and ('b', 'post_recv', 'id', '2', 'len', '8') in self.lines else ''
        return [status('a', 'send', 1), status('a', 'send', 2), self.nak, status('b', 'recv', 1), status('b', 'recv', 2) + passes,
                f'{self.states["a"]} / {self.states["b"]}', ', '.join(self.events) or '-']

    def line(self):
        if self.of_table and any(words[1] == 'post_send' and words[-1] == 'EINVAL' for words in self.lines):
            return f'| {self.service} | {self.what} | refused: EINVAL | | | | | | |'
        return f'| {self.service} | {self.what} | ' + ' | '.join(self.cells()) + ' |'


def substitute(lines, values):
    """Lines with the values of a row: (end, command, word...)."""
    for line in lines:
        words = [values.get(word[1:], word) if word[0] == '$' else word for word in line.split()]
        words = [re.sub(r'\$([A-Z_]+)', lambda m: values.get(m[1], m[0]), word) for word in words if word != '-']
        end = words.pop(0)[0] if words[0] in ('a:', 'b:') else 'a'
        yield (end, *words)


def rows_of(path):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    tables = {}
    for name, names, rows in re.findall(r'^table (\S+) (.*):\n((?:  \|.*\n)+)', text, re.M):
        tables[name] = [(dict(zip(names.split(), row.split('#')[0].split()[1:])), row.partition('# ')[2]) for row in rows.splitlines()]
    for name, body in re.findall(r'^case (.*)\n((?:  .*\n)+)', text, re.M):
        lines = [line.split(' #')[0].strip() for line in body.splitlines()]
        withs = [line.split()[1] for line in lines if line.startswith('with ')]
        lines = [line for line in lines if not line.startswith('with ')]
        single = re.fullmatch(f'({NAME}): (.*)', name)
        if single:
            yield Row(*single.groups(), list(substitute(lines, {})), False)
        elif not any('lose nak' in line for line in lines):
            for values, what in tables[withs[0]]:
                yield Row(values['ROW'], what, list(substitute(lines, values)), True)


def read_rows():
    """The rows of each file."""
    return [list(rows_of(path)) for path in FILES]


def reasons(root):
    """The table of the codes of include/rocemu/why.h."""
    with open(os.path.join(root, 'include', 'rocemu', 'why.h'), encoding='utf-8') as f:
        text = f.read()
    string = r'\s*((?:"(?:[^"\\]|\\.)*"[\s\\]*)+)'
    lines = ['| code | what is printed | rule | remedy |', '|---|---|---|---|']
    for number, *texts in re.findall(rf'X\((0x\w+), \w+,[\s\\]*{string},[\s\\]*{string},[\s\\]*{string}\)', text):
        cells = [''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', t)).replace('|', '\\|') for t in texts]
        lines.append(f'| {number} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n'


def put(page, title, table):
    """The page with another table in a section."""
    return re.sub(rf'(^## {title}\n(?:(?!\|).*\n)*)(?:\|.*\n)+', lambda m: m[1] + table, page, count=1, flags=re.M)


def without_rows(page, rows):
    """Each status and event has a row or a reason, not both: what is wrong."""
    where = subprocess.run(['pkg-config', '--cflags', 'libibverbs'], capture_output=True, text=True, check=True).stdout.split()
    p = subprocess.run(['cc', '-E', *where, '-include', 'infiniband/verbs.h', '-x', 'c', '/dev/null'], capture_output=True, text=True,
                       check=True)
    seen = {'wc_status': {s for row in rows for s in row.statuses()},
            'event_type': {e.split()[0] for row in rows for e in row.events}}
    for enum, (title, prefix, last) in ABSENT.items():
        members = re.findall(rf'\b{prefix}(\w+)', re.search(rf'enum ibv_{enum} {{(.*?)}}', p.stdout, re.S)[1])
        reason = set(re.findall(rf'^\| {prefix}(\w+) \| \S', page[page.index(f'## {title}'):], re.M))
        for name in members[:members.index(last) + 1]:
            if (name in seen[enum]) == (name in reason):
                yield f'{prefix}{name}: it has a row and a reason why it has none' if name in reason else \
                    f'{prefix}{name}: neither a row, nor a reason under "{title}"'


def main():
    root = sys.argv[1]
    path = os.path.join(root, 'docs', 'errors.md')
    with open(path, encoding='utf-8') as f:
        have = f.read()
    parts = read_rows()
    page = have
    for title, rows in zip(SECTIONS, parts):
        page = put(page, title, HEAD + ''.join(row.line() + '\n' for row in rows))
    page = put(page, 'Reasons, and vendor_err', reasons(root))
    wrong = list(without_rows(page, [row for rows in parts for row in rows]))
    if '--write' in sys.argv:
        with open(path, 'w', encoding='utf-8') as f:
            f.write(page)
    elif page != have:
        wrong.append(f'{path} differs from the rows: write it with "{sys.argv[0]} {root} --write"')
    print('\n'.join(wrong) if wrong else f'{sum(len(rows) for rows in parts)} rows')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
