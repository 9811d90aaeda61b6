# SPDX-License-Identifier: BSD-2-Clause
"""The errors table (test/errors) inside the guest: its rows between rocemu and rxe, in both roles, and rxe with itself.

The network is parity's. Each difference from a row's expectation has an explanation in
errors-rxe.txt, or the case fails; so does an explanation of what is no longer seen.
"""
import collections
import fnmatch
import os
import re

import harness
import parity

GROUP = 'Errors table'      # no table of operations: docs/interop.md has one of its own for it
PART = 'errors'
KNOWN_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'errors-rxe.txt')
RUN = '/build/test/errors/errors-run'
ROCEMU, RXE = 'rocemu', 'rxe'
# (requester, responder)
PAIRS = ((ROCEMU, ROCEMU), (ROCEMU, RXE), (RXE, ROCEMU), (RXE, RXE))
JOBS = 12                   # they wait, mostly
SETTLE_MS = 100             # for events after the expected ones
PATIENCE_MS = 10000         # for completions: longer than a requester tries
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


class Rows:
    """What one pair of devices made of the rows."""

    def __init__(self, pair, output, known):
        self.pair = name_of(pair)
        self.known = [k for k in known if fnmatch.fnmatchcase(self.pair, k.pair)]
        self.cells = {}             # row: what the table has for it
        self.unexplained = []
        self.seen = set()           # entries
        found = collections.defaultdict(set)
        for line in output.splitlines():
            difference = re.fullmatch(r'verbs, (\S+): (.*)', line)
            end = re.fullmatch(r'(ok|differs|skipped) ([^\s:]+)(?:: .*)?', line)
            if difference:
                found[difference.group(1)] |= self.explain(*difference.groups())
            elif end:
                word, row = end.groups()
                self.cells[row] = 'simulator only' if word == 'skipped' else self.cell(row, found[row])

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
        left_out = sum(cell == 'simulator only' for cell in self.cells.values())
        return f'{len(self.cells)} rows: {same} the same, {len(self.cells) - same - left_out} with known differences'


def argv(pair):
    options = ('--jobs', JOBS, '--settle', SETTLE_MS, '--patience', PATIENCE_MS, '--events', EVENTS_MS)
    if pair == (RXE, RXE):
        return [RUN, '--req', parity.RXE, '--rsp', parity.RXE, *options]
    devices = {ROCEMU: parity.EMULATED, RXE: parity.RXE}
    there = ('--device', f'{parity.EMULATED}={parity.OUR_SIDE}')
    req, rsp = devices[pair[0]], devices[pair[1]]
    if pair == (ROCEMU, ROCEMU):
        req, rsp, there = 'a', 'b', ('--device', 'a=127.0.0.1', '--device', 'b=127.0.0.2')
    return ['ip', 'netns', 'exec', parity.NETNS, '/build/tools/rocemu', 'run', *there, '--', RUN, '--req', req, '--rsp', rsp,
            *options]


def run(wire, pair):
    """The rows between these two; what they made of them goes into wire.errors."""
    parity.prepare(wire)
    p = wire.guest.start(argv(pair), 'errors-run')
    if p.wait(GUARD_S) not in (0, 1):
        raise harness.Failure(p.report())
    rows = wire.errors[name_of(pair)] = Rows(pair, p.stdout, read_known())
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
