# SPDX-License-Identifier: BSD-2-Clause
"""Mercury (RPCs and bulk transfers): its tests of clients and servers by its plugins for libfabric and for UCX.

Built somewhere under PATH by CMake with -DBUILD_TESTING=ON -DBUILD_TESTING_PERF=ON -DBUILD_TESTING_UNIT=ON -DNA_USE_OFI=ON
-DNA_USE_UCX=ON.
"""
import os
import re

from harness import Skip, expect
from program import Program, Run, describe_cmake, ended_together

SERVER = 'hg_test_server'
PERF_SERVER = 'hg_perf_server'
READY = '# Waiting for client'
GUARD_S = 600
LARGEST = 1 << 20                     # bytes of an RPC or a bulk transfer
TESTS = ('hg_test_rpc', 'hg_test_bulk')
RATES = ('hg_rate', 'hg_bw_write', 'hg_bw_read')
# A host for UCX's plugin has its device before the address: by the address alone it finds the interface, which is TCP's.
OFI = {'options': ('-c', 'ofi', '-p', 'verbs'), 'host': lambda side: side.tcp}
UCX = {'options': ('-c', 'ucx', '-p', 'ib'), 'host': lambda side: f'{side.name}:1/{side.tcp}'}


def programs(path):
    for directory, _, files in os.walk(path):
        if SERVER in files and os.access(os.path.join(directory, SERVER), os.X_OK):
            return directory
    raise Skip(f'no {SERVER} under {path}: build it')


def version(path):
    return describe_cmake(os.path.dirname(programs(path)))


def pair(world, plugin, server, client, *options):
    """They end together: the client's last request is the server's end. The server writes its address for the client."""
    directory = programs(world.source)
    address = world.path('address')
    if os.path.exists(address):
        os.remove(address)

    def start(side, name):
        return world.start(side, [os.path.join(directory, name), *plugin['options'], '-H', plugin['host'](side), '-f', address, *options], name)

    first = start(world.server, server)
    first.wait_until(lambda: READY in first.stdout, 'it waited for its client')
    second = start(world.client, client)
    ended_together((first, second), '', guard_s=GUARD_S)
    return second


def tests(plugin):
    def run(world):
        passed = 0
        for test in TESTS:
            for busy in ((), ('--busy',)):
                p = pair(world, plugin, SERVER, test, *busy)
                # Warnings come between the name of a test and its result.
                expect('FAILED' not in p.output, f'{test}: a test failed', p)
                passed += len(re.findall('PASSED$', p.stdout, re.M))
        expect(passed, 'no test passed')
        return f'{passed} tests'
    return run


def rates(plugin):
    def run(world):
        for rate in RATES:
            p = pair(world, plugin, PERF_SERVER, rate, '-z', LARGEST)
            expect(re.search(rf'^{LARGEST} +[\d.]+', p.stdout, re.M), f'{rate} did not measure {LARGEST} bytes', p)
    return run


OWN_ADDRESS = 'an interface with an address of its own'
OWN_DEVICE = 'the device in the host\'s name (`DEVICE:1/ADDRESS`)'
# libfabric leaves out the loopback interface.
PROGRAMS = [Program('Mercury', [
    Run('its tests of RPCs and bulk transfers over libfabric', tests(OFI), ('veth',), needs=OWN_ADDRESS),
    Run('its tests of RPCs and bulk transfers over UCX', tests(UCX), needs=OWN_DEVICE),
    Run('hg_rate, hg_bw_write, hg_bw_read over libfabric', rates(OFI), ('veth',), needs=OWN_ADDRESS),
    Run('hg_rate, hg_bw_write, hg_bw_read over UCX', rates(UCX), needs=OWN_DEVICE),
], source='mercury', version=version)]
