# SPDX-License-Identifier: BSD-2-Clause
"""The errors table (test/scenario/errors*.scenario) inside the guest: its rows between rocemu and rxe, in both roles, and rxe with itself.

The network is parity's. Each end is a process of its own. Each difference from a row's expectation has an explanation in
errors-rxe.txt, or the case fails; so does an explanation of what is no longer seen.
"""
import collections
import fnmatch
import os
import re
import shutil
import sys

import harness
import parity

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'scenario'))

import error_rows  # noqa: E402 # pylint: disable=wrong-import-position

GROUP = 'Errors table'      # no table of operations: docs/interop.md has one of its own for it
PART = 'errors'
KNOWN_FILE = os.path.join(HERE, 'errors-rxe.txt')
COPY = 'interop-errors'     # in the build directory, which is all that the guest sees
RUN = '/build/test/scenario/scenario-verbs'
ROCEMU, RXE = 'rocemu', 'rxe'
# (requester, responder)
PAIRS = ((ROCEMU, ROCEMU), (ROCEMU, RXE), (RXE, ROCEMU), (RXE, RXE))
PORT = 7300
LISTENS = f'until case "$(ss -ltn)" in *:{PORT}*) true;; *) false;; esac; do sleep 0.1; done'
GID_V4 = 1                  # of rxe
WAIT_MS = 10000             # for completions: longer than a requester tries
EVENTS_MS = 1000            # for events, after the completions
SOMETIMES = 'sometimes: '   # begins the explanation of what is not seen each time
GUARD_S = 600

Known = collections.namedtuple('Known', 'number pair row text why')


def name_of(pair):
    return f'{pair[0]} > {pair[1]}'


def read_known(path=KNOWN_FILE):
    """The file's entries; those of one explanation have one number."""
    entries, numbers = [], {}
    with open(path, encoding='utf-8') as f:
        for line in f:
            if not line.strip() or line.startswith('#'):
                continue
            pair, row, text, why = (field.strip() for field in line.split('|'))
            entries.append(Known(numbers.setdefault(why, len(numbers) + 1), pair, row, text, why))
    return entries


def command(line):
    """A line's end and first word: "a: send_cq"."""
    words = line.split()
    return f'{words[0]} {words[1]}' if words[0] in ('a:', 'b:') else f'a: {words[0]}'


def difference(text, line):
    """A difference that --rounds prints, of this line of a scenario."""
    found = re.fullmatch(r'what came is not what is expected;  expected: (.*);  came: *(.*)', text)
    rest = re.fullmatch(r'the case ends, and this was not expected: (.*)', text)
    return f'at the end: {rest[1]}' if rest else f'{command(line)}: ' + (f'{found[2]}, not {found[1]}' if found else text)


def results(output, lines):
    """(row, 'ok', 'not ok' or 'skipped', differences) of what --rounds printed. lines: {number: text}, of the file."""
    found = []
    for line in output.splitlines():
        differs = re.fullmatch(r'differs (\d+): (.*)', line)
        end = re.match(rf'(ok|not ok|skipped) (?:.*\(ROW=)?({error_rows.NAME})\b', line)
        if differs:
            found.append(difference(differs[2], lines[int(differs[1])]))
        elif end:
            # The rows of a case that loses packets are in another case as well.
            if end[1] != 'skipped' or 'ROW=' not in line:
                yield end[2], end[1], found
            found = []


class Rows:
    """What one pair of devices made of the rows."""

    def __init__(self, pair, rows, known):
        self.pair = name_of(pair)
        self.known = [k for k in known if fnmatch.fnmatchcase(self.pair, k.pair)]
        self.cells = {}             # row: what the table has for it
        self.unexplained = []
        self.seen = set()           # entries
        for row, word, differences in rows:
            found = set().union(*(self.explain(row, text) for text in differences))
            self.cells[row] = 'in memory only' if word == 'skipped' else self.cell(row, found)

    def explain(self, row, text):
        """The number of the first explanation that fits, as a set; of 0 without one."""
        for k in self.known:
            if fnmatch.fnmatchcase(row, k.row) and fnmatch.fnmatchcase(text, k.text):
                self.seen.add(k)
                return {k.number}
        self.unexplained.append(f'{row}: {text}')
        return {0}

    def cell(self, row, found):
        """What is seen sometimes is in the table always: it is not to change with the run."""
        maybe = {k.number for k in self.known if k.why.startswith(SOMETIMES) and fnmatch.fnmatchcase(row, k.row)}
        if 0 in found:
            return 'DIFFERS'
        numbers = ', '.join(f'[e{n}]' for n in sorted(found | maybe))
        return ('same' if not numbers else numbers if found - maybe else f'same, or {numbers}')

    def gone(self):
        return [k for k in self.known if k not in self.seen and not k.why.startswith(SOMETIMES)]

    def summary(self):
        same = sum(cell.startswith('same') for cell in self.cells.values())
        left_out = sum(cell == 'in memory only' for cell in self.cells.values())
        return f'{len(self.cells)} rows: {same} the same, {len(self.cells) - same - left_out} with known differences'


def under_rocemu(wire, name, interface, *words):
    """A command of a device of rocemu, which it has --gid of."""
    there = ['ip', 'netns', 'exec', parity.NETNS, '/build/tools/rocemu', 'run', '--device', f'{name}={interface}', '--']
    v4 = re.search(r'GID\[\s*(\d+)\]:\s*::ffff:', wire.guest.run(*there, 'ibv_devinfo', '-v', '-d', name))
    return [*there, RUN, '--device', name, '--gid', v4[1], '--vendor-err', *words]


def argv(wire, pair, end, *words):
    if pair[end] == RXE:
        return ['ip', 'netns', 'exec', parity.NETNS, RUN, '--device', parity.RXE, '--gid', GID_V4, *words]
    if pair == (ROCEMU, ROCEMU):
        return under_rocemu(wire, 'ab'[end], f'127.0.0.{end + 1}', *words)
    return under_rocemu(wire, parity.EMULATED, parity.OUR_SIDE, *words)


def run_file(wire, pair, file):
    """The rows of a file."""
    waits = ('--wait', WAIT_MS, '--event-wait', EVENTS_MS)
    server = wire.guest.start(argv(wire, pair, 1, *waits, '--listen', PORT), 'end b')
    wire.guest.run('ip', 'netns', 'exec', parity.NETNS, 'sh', '-c', LISTENS)
    p = wire.guest.start(argv(wire, pair, 0, *waits, '--peer', f'127.0.0.1:{PORT}', '--skip', '--rounds', '--with', 'LOST=0', '--with',
                              'GONE=0', f'/build/{COPY}/{os.path.basename(file)}'), 'end a')
    if p.wait(GUARD_S) not in (0, 1) or server.wait() not in (0, 1):
        raise harness.Failure(f'{p.report()}\n{server.report()}')
    with open(file, encoding='utf-8') as f:
        return results(p.stdout, dict(enumerate(f, 1)))


def run(wire, pair):
    """The rows between these two; what they made of them goes into wire.errors."""
    parity.prepare(wire)
    where = os.path.join(wire.rocemu.config.build, COPY)
    os.makedirs(where, exist_ok=True)
    for file in error_rows.FILES:
        shutil.copy(file, where)
    rows = Rows(pair, [row for file in error_rows.FILES for row in run_file(wire, pair, file)], read_known())
    wire.errors[rows.pair] = rows
    wrong = [f'not explained: {text}' for text in rows.unexplained]
    wrong += [f'explained, but not seen: {k.row} | {k.text}' for k in rows.gone()]
    if wrong:
        raise harness.Failure('\n'.join(wrong))
    return rows.summary()


def table(results):
    """A line for each row, a column for each pair: for people, and for docs/interop.md."""
    pairs = [name_of(pair) for pair in PAIRS if name_of(pair) in results]
    rows = list(results[pairs[0]].cells)
    lines = ['| row | ' + ' | '.join(pairs) + ' |', '|---' * (len(pairs) + 1) + '|']
    lines += [f'| {row} | ' + ' | '.join(results[pair].cells.get(row, 'not run') for pair in pairs) + ' |' for row in rows]
    return lines


def document(results):
    """The part of docs/interop.md, of a run of all pairs."""
    why = {k.number: k.why for k in read_known()}
    return '\n'.join([*table(results), '', *(f'- [e{n}] {text}' for n, text in sorted(why.items()))])
