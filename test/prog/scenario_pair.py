# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios (docs/scenarios.md) by verbs, with an end in each of two processes."""
import os
import re

from harness import expect, gid_index, pair

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'scenario')
TYPES = {'rc': 'RC', 'xrc': 'XRC_SEND', 'uc': 'UC', 'ud': 'UD'}
AREA = 1049600                        # room for 1 MiB


def file(name):
    return os.path.join(FILES, f'{name}.scenario')


def path_mtu(topo):
    return 4096 if topo.name.startswith(('lo', 'veth9000')) else 1024


def text_options(topo, transport, mtu=None, timeout=None, area=AREA):
    """What is carried out, and with which attributes."""
    sets = {'path_mtu': mtu or path_mtu(topo), 'area': area, **({'timeout': timeout} if timeout else {})}
    return ['--with', f'TYPE={TYPES[transport]}', *(x for name, value in sets.items() for x in ('--set', f'{name}={value}'))]


def argv(config, topo, files, ways=(), options=()):
    """Of the process of end b, then of that of end a, which carries the files out."""
    def of(side):
        return [config.program('scenario', 'scenario-verbs'), '--device', side.name, '--gid', gid_index(config, side), *ways]

    return ([*of(topo.server), '--listen', '{port}'],
            [*of(topo.client), '--peer', '{server}:{port}', *options, *map(file, files)])


def passed(p):
    """Did all pass? What did."""
    found = re.search(r'^(\d+) cases in (\d+) rounds, 0 failed$', p.stdout, re.M)
    expect(found and int(found[1]) > 0, 'cases failed', p)
    return f'{found[1]} cases, {found[2]} rounds'


def carry_out(config, topo, files, ways=(), options=(), **more):
    server, client = argv(config, topo, files, ways, options)
    return passed(pair(config, topo, server, client, **more)[1])
