# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/interop.md from the results of a run."""
import re
import textwrap

import doctable
import errors
import scenarios
from peers import FAMILIES, MTUS, ROLES

UNFINISHED = 'Not run to their end'
GROUPS = ('Operations', 'Order and notification', 'Errors', 'Bad networks', 'Stock programs', 'Connection management',
          UNFINISHED)

HEAD = '''# Interoperation with the kernel's Soft-RoCE

`test/interop/run.sh --write-docs` writes this page; edit `test/interop/table.py` instead.

rocemu runs against the kernel driver rdma_rxe of Linux {release}, in a QEMU guest of Debian
packages: two hosts on one wire, a tap in a network namespace of its own. The same programs run at
both ends, on rxe0 and under `rocemu run`: scenarios (`scenario-verbs`, plain libibverbs; each byte is
compared, and those around it, at both ends), perftest, rdma-core's pingpongs
and its examples of rdma_cm. QEMU records every packet. `test/prog/icrc_check.py`, which shares no
code with rocemu, computes each ICRC again. `rocemu verify` finds no error in any capture, except
for packets corrupted on purpose.

The columns show the role of rocemu and the interface's MTU (path MTU {paths}).
The client begins most operations; each is also run in the other direction. Every connection starts
at PSN 0xfffffe, so PSNs wrap in every run. Sizes are 0 to 1 MiB on RC, to 64 KiB on UC, to one
packet on UD.

`ok`: as in the specification. `[n]`: a known difference of rxe, explained below. `.`: not tried.
'''

ERRORS = '''
## The errors table

The rows of [errors.md](errors.md), unchanged: `scenario-verbs`, a program on plain libibverbs, runs
them in the guest. Its requester is on the device before the `>`, its responder on the one after it.
`same`: statuses, flushes, states, events and, if the requester is rocemu, the NAK are those of the
row. rxe with itself runs without rocemu.

<!-- errors: -->
{errors}
<!-- end of errors -->
'''

PACKETS = '''
## Packets

What a responder does with each packet: the [scenarios](scenarios.md) `test/scenario/cnp.scenario`
and `resp*.scenario`, which state what rocemu does, are carried out with a queue pair of rxe, in the
guest. Their packets come from a UDP socket in another network namespace (`scenario-verbs --from`).
rxe does otherwise in these ways; [scenarios-rxe.txt](../test/interop/scenarios-rxe.txt) has the
cases:

<!-- packets: -->
{packets}
<!-- end of packets -->
'''

TAIL = '''
## Differences of rxe

{known}

{notes}
{programs}
## Running it

```sh not run: needs a virtual machine
test/interop/run.sh                # the short cover that test/run.sh includes
test/interop/run.sh --full         # everything, with a soak of 60 s in each role
test/interop/run.sh --only 'verbs/rc.ops' --captures /some/where
test/interop/run.sh --only 'cm/' --full --write-docs       # these, into the tables of this page
```

It needs root, qemu-system-x86, mmdebstrap and the Debian archive of this machine's apt. The guest is
made in about a minute and kept in `$XDG_CACHE_HOME/rocemu-interop` (or `~/.cache`). It uses KVM if
KVM can boot it, and emulation otherwise.
'''


# That section is test/world's to write.
PROGRAMS = re.compile(r'^$\n^## Programs\n.*?^<!-- end of programs -->$\n', re.M | re.S)
ALL_OF_IT = re.compile(r'^The last run of all of them[:,] .*$', re.M)


def cell(row):
    return {'pass': 'ok', 'known': f'[{row.known}]', 'fail': 'FAIL'}[row.outcome]


def all_places():
    return [(r, f, m) for r in ROLES for f in FAMILIES for m in MTUS]


def cells_of(text):
    """What a document's tables have: {group: {label: {place: cell}}}."""
    groups = {}
    for part in re.split(r'^## ', text, flags=re.M)[1:]:
        group, _, body = part.partition('\n')
        if group in GROUPS:
            groups[group] = {row[0]: {place: c for place, c in zip(all_places(), row[1:]) if c != '.'}
                             for row in doctable.rows(body)}
    return groups


def group_table(group, rows):
    places = all_places()
    lines = ['', f'## {group}', '', '| | ' + ' | '.join(' '.join(map(str, place)) for place in places) + ' |', '|---' * (len(places) + 1) + '|']
    for label in sorted(rows):
        lines.append(f'| {label} | ' + ' | '.join(rows[label].get(place, '.') for place in places) + ' |')
    return lines


def wrapped(line):
    """An item of a list, in lines as those of other pages."""
    if not line.startswith('- '):
        return line
    return textwrap.fill(line, 100, subsequent_indent='  ', break_long_words=False, break_on_hyphens=False)


def write(path, run, release, known, notes, everything):
    """everything: every case ran. Else what did not run stays as it stands there."""
    with open(path, encoding='utf-8') as f:
        old = f.read()
    groups = {} if everything else cells_of(old)
    groups.pop(UNFINISHED, None)
    for (group, label), row in run.cells.items():
        if group in GROUPS:
            groups.setdefault(group, {}).setdefault(label, {}).update({place: cell(r) for place, r in row.items()})
    ran = f'The last run of all of them: {run.on_wire["pass"]} cases passed, {run.on_wire["fail"]} failed; {run.packets} packets.'
    before = ALL_OF_IT.search(old)
    lines = [HEAD.format(release=release, paths=', '.join(f'{p} at {m}' for m, p in MTUS.items())),
             ran if everything or not before else before.group(0)]
    for group in GROUPS:
        if groups.get(group):
            lines += group_table(group, groups[group])
    if set(run.wire.errors) == {errors.name_of(pair) for pair in errors.PAIRS}:
        part = errors.document(run.wire.errors)
    else:
        part = doctable.read(path, errors.PART).rstrip('\n')
    lines.append(ERRORS.format(errors=part).rstrip('\n'))
    lines.append(PACKETS.format(packets=scenarios.document()).rstrip('\n'))
    lines.append(TAIL.format(known='\n'.join(f'- [{n}] {text}' for n, _, _, text in known),
                             notes='\n'.join(f'- {text}' for text in notes), programs=PROGRAMS.search(old).group(0)))
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join(wrapped(line) for line in '\n'.join(lines).split('\n')))
