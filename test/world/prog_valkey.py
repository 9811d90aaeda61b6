# SPDX-License-Identifier: BSD-2-Clause
"""Valkey over RDMA, from its source tree: `make BUILD_RDMA=module && make -C tests/rdma` in PATH.

The server has the transport as a module. Its clients for the command line have none in this version, but its test suite brings one.
"""
import importlib.util
import os
import re

import harness
from harness import Skip, expect
from program import Program, Run, finished

THREADS = 4
OK = r'^Valkey Over RDMA test \[OK\]$'


def path(world, *parts):
    found = os.path.join(world.source, *parts)
    if not os.path.exists(found):
        raise Skip(f'no {found}: build it')
    return found


def serve(world):
    """A server, which listens with rdma_cm and nothing else. Without I/O threads, with which its module loses requests."""
    port = harness.new_port()
    argv = [path(world, 'src', 'valkey-server'), '--port', 0, '--protected-mode', 'no', '--dir', world.scratch, '--save', '',
            '--appendonly', 'no', '--loadmodule', path(world, 'src', 'valkey-rdma.so'), f'port={port}', f'bind={world.server.address}']
    server = world.start(world.server, argv, 'valkey-server')
    server.wait_until(lambda: world.is_listened(port), 'it listened')
    return server, port


def client(world):
    """PING, thousands of SET and GET of 1 KiB, and a BGSAVE, for which the server forks."""
    server, port = serve(world)
    argv = [path(world, 'tests', 'rdma', 'rdma-test'), '-h', world.server.address, '-p', port, '-t', THREADS]
    p = world.start(world.client, argv, 'rdma-test')
    finished(p, OK)
    expect(server.running(), 'the server ended', server, p)
    expect(len(re.findall(r'GET \d+ KVs \[OK\]', p.stdout)) == THREADS, 'not every thread got its values', p, server)
    keys = sum(int(n) for n in re.findall(r'GET (\d+) KVs', p.stdout))
    return f'{keys} keys'


def suite(world):
    """Its own runner. It finds the interface by /sys/class/infiniband, and has one port and exit code for all."""
    if not importlib.util.find_spec('netifaces'):
        raise Skip('it wants python3-netifaces')
    path(world, 'tests', 'rdma', 'rdma-test')
    p = world.start(world.server, ['env', '-C', world.source, path(world, 'runtest-rdma')], 'runtest-rdma')
    finished(p, r'^Valkey Over RDMA test over %s \[OK\]$' % re.escape(world.server.address))


PROGRAMS = [Program('Valkey', [
    Run('server and client of its tests: PING, SET, GET, BGSAVE', client),
    Run('runtest-rdma', suite),
], source='valkey', needs='its RDMA module; `protected-mode no` for clients on other hosts')]
