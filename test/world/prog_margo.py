# SPDX-License-Identifier: BSD-2-Clause
"""Margo (RPCs of Mercury in threads of Argobots): its example, and those of its unit tests that take a protocol.

Built somewhere under PATH by CMake with -DENABLE_EXAMPLES=ON -DENABLE_TESTS=ON, by a Mercury that has its plugin for libfabric.
"""
import os
import re

from harness import Skip, expect
from program import Program, Run, describe_cmake, ended_together

VERBS = 'ofi+verbs;ofi_rxm'
SERVER = 'margo-example-server'
GUARD_S = 600
# Client and server are two processes of a test: it forks. Not margo-comm-error, whose unreachable address is one of shared memory.
UNITS = ('margo-addr', 'margo-bulk', 'margo-comm-finalize', 'margo-forward')


def build(path):
    for directory, _, files in os.walk(path):
        if directory.endswith('/examples') and SERVER in files and os.access(os.path.join(directory, SERVER), os.X_OK):
            return os.path.dirname(directory)
    raise Skip(f'no examples/{SERVER} under {path}: build it')


def example(world):
    """Four RPCs from as many threads, each with a bulk transfer; the last request is the server's end."""
    directory = os.path.join(build(world.source), 'examples')
    first = world.start(world.server, [os.path.join(directory, SERVER), f'{VERBS}://{world.server.tcp}'], 'server')
    pattern = re.compile(f'on address "({re.escape(VERBS)}://[^"]+)"')
    first.wait_until(lambda: pattern.search(first.output), 'it had an address')
    second = world.start(world.client, [os.path.join(directory, 'margo-example-client'), pattern.search(first.output).group(1)], 'client')
    ended_together((first, second), '', guard_s=GUARD_S)
    got = second.stdout.count('Got response ret: 0')
    expect(got == 4, f'{got} of 4 responses', first, second)


def units(world):
    passed = 0
    for unit in UNITS:
        p = world.start(world.server, [os.path.join(build(world.source), 'tests/unit-tests', unit), '--param', 'protocol', VERBS], unit)
        p.wait(GUARD_S)
        expect(p.popen.returncode == 0, f'{unit}: exit code {p.popen.returncode}', p)
        ended = re.search(r'^(\d+) of (\d+) \(100%\) tests successful', p.output, re.M)
        expect(ended and int(ended.group(1)), f'{unit}: not all tests passed, or it has none', p)
        passed += int(ended.group(1))
    return f'{passed} tests'


# libfabric leaves out the loopback interface.
PROGRAMS = [Program('Margo', [
    Run('example: 4 RPCs with bulk transfers, over libfabric', example, ('veth',)),
    Run('its unit tests of addresses, RPCs and bulk transfers, over libfabric', units, ('veth',)),
], needs='an interface with an address of its own', source='margo', version=lambda path: describe_cmake(build(path)))]
