# SPDX-License-Identifier: BSD-2-Clause
"""Thallium (Margo's RPCs for C++): its examples of a client and a server, and those of its unit tests that take a device.

Built somewhere under PATH by CMake with -DENABLE_EXAMPLES=ON -DENABLE_TESTS=ON, by a Mercury that has its plugin for libfabric.
Its programs have their protocol, "tcp", in the source: "ofi+verbs;ofi_rxm" has to take its place in examples and tests/unit.
"""
import os
import re

from harness import Skip, expect
from program import Program, Run, describe_cmake, finished

VERBS = 'ofi+verbs;ofi_rxm'
# Those that send something. The others take no device, or look up addresses only.
UNITS = ('async_operations', 'bulk_transfers', 'edge_cases', 'engine', 'error_handling', 'provider', 'rpc_advanced', 'rpc_basic',
         'serialization_context', 'serialization_custom', 'serialization_primitives', 'serialization_stl')
GUARD_S = 600
PROVIDER = '22'                       # of the example with one, as its server has it
# (server, client, arguments of the client beside the address, what the client prints, what the server prints).
EXAMPLES = (
    ('01_hello/01_hello_server', '01_hello/01_hello_client', (), '', 'Hello World!'),
    ('02_sum/02_sum_server', '02_sum/02_sum_client', (), 'Server answered 105', r'Computing 42\+63'),
    ('03_lambda/03_lambda_server', '03_lambda/03_lambda_client', (), r'\(sum\)105\n.*\(mult\)2646', ''),
    ('04_stop/04_stop_server', '04_stop/04_stop_client', (), 'Server answered 105', 'Finalization was called'),
    ('05_stl/05_stl_server', '05_stl/05_stl_client', (), '', 'Hello Matthieu'),
    ('06_custom/06_custom_server', '06_custom/06_custom_client', (), r'Dot product : 21\b', ''),
    ('07_rdma/07_rdma_server', '07_rdma/07_rdma_client', (), '', 'Server received bulk: Matthi'),
    ('09_provider/09_sum_provider', '09_provider/09_sum_client', (PROVIDER,), r'\(prod\) Server answered 2646', 'Printing Matthieu'),
    ('15_rpc_pool/15_sum_server', '15_rpc_pool/15_sum_client', (), 'Server answered 105', ''),
    ('22_timed_rdma/22_timed_rdma_server', '22_timed_rdma/22_timed_rdma_client', (),
     r'timed_pull: ok\ntimed_push: ok\nreceived: Hello!\nasync_timed_pull: ok', 'received 8 bytes: Thallium'),
)


def build(path):
    last = EXAMPLES[-1][0]
    for directory, _, _ in os.walk(path):
        if directory.endswith('/examples') and os.access(os.path.join(directory, last), os.X_OK):
            return os.path.dirname(directory)
    raise Skip(f'no examples/{last} under {path}: build it')


def example(world, directory, server, client, arguments, of_client, of_server):
    first = world.start(world.server, [os.path.join(directory, server)], server)
    pattern = re.compile(r'running at address (\S+://\S+)')
    first.wait_until(lambda: pattern.search(first.output), 'it had an address')
    address = pattern.search(first.output).group(1)
    expect(address.startswith(VERBS), f'{server} is at {address}: its source has another protocol than {VERBS}', first)
    second = world.start(world.client, [os.path.join(directory, client), address, *arguments], client)
    finished(second, '', guard_s=GUARD_S)
    expect(re.search(of_client, second.stdout), f'{client} did not print "{of_client}"', second, first)
    # A request without an answer may arrive after its client's end. Most servers end by a signal only.
    first.wait_until(lambda: re.search(of_server, first.stdout), f'it printed "{of_server}"')
    first.kill()


def examples(world):
    directory = os.path.join(build(world.source), 'examples')
    for one in EXAMPLES:
        example(world, directory, *one)
    return f'{len(EXAMPLES)} examples'


def units(world):
    passed = 0
    for unit in UNITS:
        p = world.start(world.server, [os.path.join(build(world.source), 'tests', f'test_{unit}')], unit)
        p.wait(GUARD_S)
        expect(p.popen.returncode == 0, f'{unit}: exit code {p.popen.returncode}', p)
        ended = re.search(r'test cases: +(\d+) \| +(\d+) passed \| +0 failed \| +0 skipped', p.stdout)
        expect(ended and int(ended.group(1)), f'{unit}: not all tests passed, or it has none', p)
        passed += int(ended.group(2))
    return f'{passed} tests'


# libfabric leaves out the loopback interface.
PROGRAMS = [Program('Thallium', [
    Run('examples with a client and a server: RPCs, bulk transfers, over libfabric', examples, ('veth',)),
    Run('its unit tests of RPCs and bulk transfers, over libfabric', units, ('veth',)),
], needs='its protocol changed in the source; an interface with an address of its own', source='thallium',
    version=lambda path: describe_cmake(build(path)))]
