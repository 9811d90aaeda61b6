# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios of two queue pairs (docs/scenarios.md), by verbs: over both wires and both IP versions, and while packets are lost."""
import os
import re

from harness import NORMAL, QUICK, Case, expect, gid_index, run

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, '..', 'scenario')


def scenarios(file, where, options=()):
    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        side = topo.server
        argv = [config.program('scenario', 'scenario-verbs'), '--device', side.name, '--gid', gid_index(config, side),
                os.path.join(FILES, f'{file}.scenario')]
        p = run(config, side, argv, options=options)
        found = re.search(r'^(\d+) cases in (\d+) rounds, 0 failed$', p.stdout, re.M)
        expect(found and int(found[1]) > 0, 'cases failed', p)
        return f'{found[1]} cases, {found[2]} rounds'

    return check


def cases():
    shm = ('--wire', 'shm')
    return [
        Case('scenarios/pair/lo/udp', scenarios('pair', 'lo'), QUICK),
        Case('scenarios/pair/lo6/udp', scenarios('pair', 'lo6'), NORMAL),
        Case('scenarios/pair/lo/shm', scenarios('pair', 'lo', shm), NORMAL),
        Case('scenarios/pair/lo/udp.loss', scenarios('pair', 'lo', ('--impair', 'loss=1%,seed=1')), NORMAL),
        Case('scenarios/pair-uc/lo/udp', scenarios('pair-uc', 'lo'), NORMAL),
        Case('scenarios/pair-uc/lo/shm', scenarios('pair-uc', 'lo', shm), NORMAL),
    ]
