# SPDX-License-Identifier: BSD-2-Clause
"""The packets of test/scenario, sent to rxe inside the guest: what it answers.

The peer that writes them is on the rocemu side of parity's network. Each difference from a case has an explanation in
scenarios-rxe.txt, or the test fails; so does an explanation of what is no longer seen.
"""
import collections
import fnmatch
import glob
import os
import re
import shutil

import harness
import parity

GROUP = 'Packets'          # no table of docs/interop.md: the differences are a list there
PART = 'packets'
HERE = os.path.dirname(os.path.abspath(__file__))
KNOWN_FILE = os.path.join(HERE, 'scenarios-rxe.txt')
SCENARIOS = os.path.join(HERE, '..', 'scenario')
PATTERNS = ('cnp.scenario', 'resp*.scenario')
COPY = 'interop-scenarios'  # in the build directory, which is all that the guest sees
GID_V4 = 1
GUARD_S = 300

Known = collections.namedtuple('Known', 'case came why')
FAILED = re.compile(r'^[^\s:]+:\d+(?::\d+)?: (?P<what>.*)\n(?:  expected: (?P<want>.*)\n  came:     (?P<came>.*)\n)?'
                    r'  case: (?P<case>.*)$', re.M)
TOTALS = re.compile(r'^(\d+) cases in \d+ rounds, (\d+) failed, (\d+) not possible here$', re.M)
WITHOUT = 'without '


def read_known(path=KNOWN_FILE):
    with open(path, encoding='utf-8') as f:
        return [Known(*(field.strip() for field in line.split('|', 2)))
                for line in f if line.strip() and not line.startswith('#')]


def document():
    """The part of docs/interop.md: each explanation once."""
    return '\n'.join(f'- {why}' for why in dict.fromkeys(k.why for k in read_known()))


def differences(output):
    """(case, what was expected, what came instead) of each case that failed."""
    return [(m['case'], m['want'] or '', m['came'] or m['what']) for m in FAILED.finditer(output)]


def explains(known, case, want, came):
    if not fnmatch.fnmatchcase(case, known.case):
        return False
    if not known.came.startswith(WITHOUT):
        return fnmatch.fnmatchcase(came, known.came)
    effects = want.split('; ')
    left = [e for e in effects if not fnmatch.fnmatchcase(e, known.came[len(WITHOUT):])]
    return len(left) < len(effects) and came == ('; '.join(left) or 'nothing')


def judge(found, known):
    """What is wrong: differences without an explanation, and explanations without a difference."""
    seen, wrong = set(), []
    for case, want, came in found:
        fits = [k for k in known if explains(k, case, want, came)]
        seen.update(fits)
        if not fits:
            wrong.append(f'not explained: {case} | {came}')
    return wrong + [f'explained, but not seen: {k.case} | {k.came}' for k in known if k not in seen]


def run(wire):
    parity.prepare(wire)
    where = os.path.join(wire.rocemu.config.build, COPY)
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    files = sorted(f for pattern in PATTERNS for f in glob.glob(os.path.join(SCENARIOS, pattern)))
    for file in files:
        shutil.copy(file, where)
    peer = parity.ADDRESSES[parity.OUR_SIDE][0].split('/')[0]
    p = wire.guest.start(['ip', 'netns', 'exec', parity.NETNS, '/build/test/scenario/scenario-verbs', '--device', parity.RXE,
                          '--gid', GID_V4, '--from', peer, '--skip', *(f'/build/{COPY}/{os.path.basename(f)}' for f in files)],
                         'scenario-verbs')
    p.wait(GUARD_S)
    totals = TOTALS.search(p.stdout)
    found = differences(p.stderr)
    if not totals or len(found) != int(totals[2]):
        raise harness.Failure(p.report())
    wrong = judge(found, read_known())
    if wrong:
        raise harness.Failure('\n'.join(wrong))
    cases, failed, left_out = map(int, totals.groups())
    return f'{cases - left_out} cases: {cases - left_out - failed} as rocemu, {failed} with known differences'
