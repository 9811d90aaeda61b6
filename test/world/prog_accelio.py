# SPDX-License-Identifier: BSD-2-Clause
"""Accelio (messages and RPCs over RDMA), from its source tree: its tests, its regression test and an example.

Built in PATH by autogen.sh, `configure --disable-raio-build CFLAGS="-g -O2 -Wno-error -fcommon"` and make. The tests move 4 GB
three times, whatever the size of a message. Not run: those that move millions of small messages, one after the other (the other
examples, hello_test_lat).
"""
import os
import re

from harness import Skip, expect, new_port
from program import Program, Run, ended_together

GUARD_S = 600
SIZE = 1 << 20                        # of a message
ROUNDS = 2                            # of the regression test, with random numbers of threads and sizes
MESSAGES = ('-r', 'rdma', '-n', '0', '-w', str(SIZE))
# Directory below tests/usr, server, client, options of the server and of the client.
TESTS = {
    'hello_test': ('hello_test', 'xio_server', 'xio_client', (), ('-f', '1')),
    'hello_test_bidi': ('hello_test_bidi', 'xio_bidi_server', 'xio_bidi_client', ('-f', '1'), ('-f', '1')),
    'hello_test_mt': ('hello_test_mt', 'xio_mt_server', 'xio_mt_client', ('-f', '1'), ('-t', '0', '-f', '1')),
    'hello_test_oneway': ('hello_test_oneway', 'xio_oneway_server', 'xio_oneway_client', (), ('-f', '1')),
    'hello_test_ow': ('hello_test_ow', 'xio_ow_server', 'xio_ow_client', ('-f', '1'), ('-f', '1')),
}


def built(world, *parts):
    path = os.path.join(world.source, *parts)
    if not os.access(path, os.X_OK):
        raise Skip(f'no {path}: build it')
    return path


def pair(world, server, client, port):
    first = world.start(world.server, server, 'server')
    first.wait_until(lambda: world.is_listened(port), 'it listened')
    second = world.start(world.client, client, 'client')
    ended_together((first, second), '', guard_s=GUARD_S)
    # They end with 0 after a session that was refused, too.
    expect('connection established' in second.stdout or 'session established' in second.stdout, 'no session', first, second)
    return first, second


def test(name):
    directory, server, client, server_options, client_options = TESTS[name]

    def run(world):
        port = new_port()
        common = ('-p', port, *MESSAGES)
        _, second = pair(world, [built(world, 'tests/usr', directory, server), *common, *server_options, world.server.address],
                         [built(world, 'tests/usr', directory, client), *common, *client_options, world.server.address], port)
        sent = re.search(r'^nsent:(\d+), n(?:recv|comp):(\d+), delta:0$', second.stdout, re.M)
        return f'{sent.group(1)} messages' if sent else None
    return run


def direct(world):
    """READs and WRITEs of the peer's memory."""
    port = new_port()
    where = ('-p', port, world.server.address)
    pair(world, [built(world, 'tests/usr/direct_rdma_test/xio_rdma_server'), *where],
         [built(world, 'tests/usr/direct_rdma_test/xio_rdma_client'), *where], port)


def vectors(world):
    """The client compares nothing: the number of the last response is what shows that all came."""
    port = new_port()
    where = (world.server.address, port, 'rdma', '1')
    _, second = pair(world, [built(world, 'examples/usr/hello_world_iov/xio_server'), *where],
                     [built(world, 'examples/usr/hello_world_iov/xio_client'), *where], port)
    last = re.findall(r'^message data: \[(\d+)\]', second.stdout, re.M)
    expect(last and int(last[-1]) == 20000, 'not all responses came', second)
    return f'{last[-1]} requests'


def regression(world):
    """Client and server are threads of one process."""
    p = world.start(world.server, [built(world, 'regression/usr/reg_basic_mt/reg_basic_mt'), world.server.address, new_port(), ROUNDS],
                    'reg_basic_mt')
    p.wait(GUARD_S)
    expect(p.popen.returncode == 0, f'exit code {p.popen.returncode}', p)
    passed = len(re.findall(r'\[pass\]$', p.output, re.M))
    expect(passed == ROUNDS, f'{passed} of {ROUNDS} rounds passed', p)


PROGRAMS = [Program('Accelio', [
    *[Run(f'{name}: messages of 1 MiB', test(name)) for name in TESTS],
    Run('direct_rdma_test', direct),
    Run('example hello_world_iov: 20,000 requests with vectors', vectors),
    Run('regression test reg_basic_mt', regression, ('lo',)),
], source='accelio')]
