# SPDX-License-Identifier: BSD-2-Clause
"""gloo: the cases of its test program that use its ibverbs transport, built somewhere under the path.

One process has all ranks, as threads with a device each, so that there is nothing to run on two hosts. Left out, because
gloo fails them itself (docs/interop.md): collectives of the older kind, as classes, destroy buffers while their sends are
under way; receives from any of several ranks are not implemented.
"""
import os
import re

from harness import Skip, expect
from program import Program, Run, describe_cmake, last_line

PROGRAM = 'gloo_test'
GUARD_S = 600
# The tests do not set the index of the GID: it is what the thread's stack held. A stack that was not used before has zeros.
ENVIRONMENT = {'GLIBC_TUNABLES': 'glibc.pthread.stack_cache_size=0'}
RDMA_ONLY = 'RemoteKeyTest.Get'       # has no other transport
COLLECTIVES = ('AllgatherNewTest.Default', 'AllgathervTest.Default', 'AllreduceNewTest.Default', 'AlltoallTest.Default',
               'AlltoallvTest.Default', 'BarrierNewTest.Default', 'BroadcastNewTest.Default', 'GatherTest.Default',
               'GathervTest.Default', 'ReduceTest.Default')
POINT_TO_POINT = ('RemoteKeyTest.Get', 'RemoteKeyTest.Put', 'SendRecvTest.AllToAll', 'SendRecvTest.AllToAllOffset',
                  'SendRecvTest.AllToAllEmptyThenNonEmpty')


def built(path):
    for directory, _, files in os.walk(path):
        if PROGRAM in files and os.access(os.path.join(directory, PROGRAM), os.X_OK):
            return os.path.join(directory, PROGRAM)
    raise Skip(f'no {PROGRAM} under {path}: build it (USE_IBVERBS)')


def cases(world, program):
    """{'Suite.Test': [full names]} of the ibverbs transport."""
    p = world.plain(world.server, [program, '--gtest_list_tests'], 'list of cases')
    p.wait()
    found = []
    suite = ''
    for line in p.stdout.splitlines():
        case = re.match(r'  (\w+)/(\d+)  # GetParam\(\) = \((\d+),', line)
        if case:
            found.append((f'{suite.rpartition("/")[2]}.{case.group(1)}', f'{suite}.{case.group(1)}/{case.group(2)}', case.group(3)))
        else:
            suite = line.strip().rstrip('.')
    transports = {transport for test, _, transport in found if test == RDMA_ONLY}
    expect(len(transports) == 1, f'no {RDMA_ONLY}: was it built with its ibverbs transport?', p)
    chosen = {}
    for test, name, transport in found:
        if transport in transports:
            chosen.setdefault(test, []).append(name)
    return chosen


def tests(wanted):
    def run(world):
        program = built(world.source)
        known = cases(world, program)
        count = 0
        for test in wanted:
            names = known.get(test, [])
            expect(names, f'there is no {test}')
            p = world.start(world.server, [program, '--gtest_filter=' + ':'.join(names)], test, ENVIRONMENT)
            p.wait(GUARD_S)
            passed = re.search(r'^\[  PASSED  \] (\d+) tests?\.$', last_line(p.stdout))
            expect(p.popen.returncode == 0 and passed and int(passed.group(1)) == len(names), f'{test} failed', p)
            count += len(names)
        return f'{count} cases'
    return run


PROGRAMS = [Program('gloo', [
    Run('its tests of collectives', tests(COLLECTIVES), ('lo',)),
    Run('its tests of sends, receives and remote keys', tests(POINT_TO_POINT), ('lo',)),
], source='gloo', version=describe_cmake, needs='`GLIBC_TUNABLES=glibc.pthread.stack_cache_size=0`')]
