# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/interop.md from the results of a run."""
from peers import FAMILIES, MTUS, ROLES

GROUPS = ('Operations', 'Order and notification', 'Errors', 'Bad networks', 'Stock programs', 'Not run to their end')
NOT_YET = ('Connection management (REQ, REP, RTU, DREQ, REJ)', 'SIDR', 'Multicast')

HEAD = '''# Interoperation with the kernel's Soft-RoCE

Written by `test/interop/run.sh --write-docs`; edit that, not this.

rocemu against the kernel driver rdma_rxe of Linux {release}, in a QEMU guest of Debian packages: two hosts on one wire,
which is a tap in a network namespace of its own. The same programs run at both ends, on rxe0 and under `rocemu run`:
`verbs-check` (`test/prog`, plain libibverbs; it compares every byte, and the guard zones around every buffer, at both
ends), perftest and rdma-core's pingpongs. QEMU records every packet; the ICRC of each is recomputed by a program that shares
nothing with rocemu (`test/prog/icrc_check.py`){verify}.

The columns say what rocemu was, and the interface's MTU (path MTU {paths}). The client begins most
operations; each is also run in the other direction. Every connection starts at PSN 0xfffff0, so every run wraps.
Sizes are 0 to 1 MiB on RC, to 64 KiB on UC, to one packet on UD.

`ok`: as the specification has it. `[n]`: a known difference of rxe, explained below. `.`: not in this run (`--full` runs everything).
'''

TAIL = '''
## Not there yet

These join the table with the layer that builds them:

| | |
|---|---|
{not_yet}

## Differences of rxe

{known}

{notes}

## Running it

    test/interop/run.sh                # the short cover that test/run.sh includes
    test/interop/run.sh --full         # everything, with a soak of 60 s in each role
    test/interop/run.sh --only 'verbs/rc.ops' --captures /some/where

It needs root, qemu-system-x86, mmdebstrap and Debian's archive as this machine's apt knows it. The guest is made in about a
minute and kept in `$XDG_CACHE_HOME/rocemu-interop` (or `~/.cache`). It uses KVM where KVM boots it, and emulates where not.
'''


def cell(row):
    if row is None:
        return '.'
    return {'pass': 'ok', 'known': f'[{row.known}]', 'fail': 'FAIL'}[row.outcome]


def group_table(run, group, places):
    labels = sorted(label for g, label in run.cells if g == group)
    if not labels:
        return []
    lines = ['', f'## {group}', '', '| | ' + ' | '.join(f'{r} {f} {m}' for r, f, m in places) + ' |',
             '|---' * (len(places) + 1) + '|']
    for label in labels:
        row = run.cells[group, label]
        lines.append(f'| {label} | ' + ' | '.join(cell(row.get(place)) for place in places) + ' |')
    return lines


def write(path, run, release, known, notes):
    places = [(r, f, m) for r in ROLES for f in FAMILIES for m in MTUS]
    head = HEAD.format(release=release, verify=', and\n`rocemu verify` finds no error in any capture but those of packets corrupted on purpose' if run.verify else '',
                       paths=', '.join(f'{p} at {m}' for m, p in MTUS.items()))
    lines = [head + f'\nThis run: {run.count("pass")} cases passed, {run.count("fail")} failed; {run.packets} packets.']
    for group in GROUPS:
        lines += group_table(run, group, places)
    lines.append(TAIL.format(not_yet='\n'.join(f'| {what} | not built |' for what in NOT_YET),
                             known='\n'.join(f'- [{n}] {text}' for n, _, _, text in known),
                             notes='\n'.join(f'- {text}' for text in notes)))
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join(lines))
