# SPDX-License-Identifier: BSD-2-Clause
"""GPI-2 (an implementation of GASPI), from its source tree: its test suite by its device for verbs.

Built and installed somewhere under PATH by `configure --with-infiniband --prefix=...`, `make` and `make install`. Its launcher
starts the ranks by ssh, and its script of tests ends processes by name; so the ranks are started here, with the environment
that the launcher gives them. As there, the exit code of rank 0 decides: a rank that a test has killed has another.
"""
import os
import re

import harness
from harness import Failure, Skip, expect
from program import Program, Run

RANKS = 2
GUARD_S = 1200                        # of one test; as in its script
FIRST = 'hello_world.bin'             # by which the directory of the programs is known
# What its script takes for a quick check.
QUICK = ('allreduce', 'compare_swap', 'fetch_add', 'g_coll_del_coll', 'notify_all', 'passive', 'seg_create_all', 'write_all_nsizes_mtt')
# Of 4 KiB 1.5 million WRITEs; each rank fills 4 GiB of memory, and compares one of them, six times.
PRESSURE = ('z4k_pressure', 'z4k_pressure_mtt')
QUEUES = 'QPs of queues made beside the default ones are not destroyed, so that their protection domain is busy (EBUSY) at the end'
DEVIATIONS = {
    'q_create_delete_wait': QUEUES,
    'q_create_use_queue': QUEUES,
    'queue_full': 'posts as many WRITEs with a notification as the queue has room for requests: each takes two, and the library refuses',
}


def programs(path):
    """The directory of the installed test programs; those of a build directory are scripts."""
    for directory, _, files in os.walk(path):
        if FIRST in files and directory.endswith('/tests/bin'):
            with open(os.path.join(directory, FIRST), 'rb') as f:
                if f.read(4) == b'\x7fELF':
                    return directory
    raise Skip(f'no installed tests/bin/{FIRST} under {path}: build and install it')


def arguments(path, test):
    """Those that its definitions have for a test."""
    for directory, _, files in os.walk(path):
        if directory.endswith('/tests/defs') and f'{test}.def' in files:
            with open(os.path.join(directory, f'{test}.def'), encoding='utf-8') as f:
                found = re.search(r'^ARGS=(.*)$', f.read(), re.M)
            return found.group(1).split() if found else []
    return []


def start(world, directory, test):
    sides = (world.server, world.client)
    machines = world.path('machines')
    with open(machines, 'w', encoding='ascii') as f:
        f.writelines(f'{side.tcp}\n' for side in sides)
    ranks = []
    for rank, side in enumerate(sides):
        # Ranks of one host are numbered.
        local = sum(other.netns == side.netns for other in sides[:rank])
        env = {'GASPI_MASTER': world.server.tcp, 'GASPI_MFILE': machines, 'GASPI_RANK': str(rank), 'GASPI_SOCKET': str(local),
               'GASPI_NRANKS': str(RANKS)}
        ranks.append(world.start(side, [os.path.join(directory, f'{test}.bin'), *arguments(world.source, test)], f'{test}, rank {rank}', env))
    return ranks


def passes(world, directory, test):
    """Does it? Raises Failure when it does not end."""
    ranks = start(world, directory, test)
    while any(p.running() for p in ranks):
        for p in ranks:
            harness.wait_gone(p, 0.1)
        if ranks[0].age() > GUARD_S:
            raise Failure('\n'.join([f'{test} did not end within {GUARD_S} s'] + [p.where() for p in ranks] + [p.report() for p in ranks]))
        if not ranks[0].running() and ranks[0].popen.returncode:
            for p in ranks:
                p.kill()
    return ranks[0].popen.returncode == 0, ranks


def suite(world, chosen):
    directory = programs(world.source)
    tests = chosen(sorted(name.removesuffix('.bin') for name in os.listdir(directory) if name.endswith('.bin')))
    failed = set()
    for test in tests:
        good, ranks = passes(world, directory, test)
        expect(good or test in DEVIATIONS, f'{test}: exit code {ranks[0].popen.returncode}', *ranks)
        if not good:
            failed.add(test)
    return f'{len(tests) - len(failed)} of {len(tests)} tests pass' + (f', {len(failed)} known to fail' if failed else '')


PROGRAMS = [Program('GPI-2', [
    Run('its tests, 2 ranks', lambda world: suite(world, lambda tests: [t for t in tests if t not in PRESSURE]), ('lo',)),
    Run('its tests of a quick check (`-f`), 2 ranks', lambda world: suite(world, lambda tests: [t for t in tests if t in QUICK])),
    Run('its tests of pressure, 2 ranks', lambda world: suite(world, lambda tests: [t for t in tests if t in PRESSURE]), ('lo',),
        needs='4 GiB of memory a rank'),
], source='gpi2')]
