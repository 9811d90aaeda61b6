# SPDX-License-Identifier: BSD-2-Clause
"""DiSNI (verbs and rdma_cm for Java), from its source tree: its examples, and its benchmark of READs.

Somewhere under PATH are its classes, those of its tests among them (`javac --add-exports java.base/sun.nio.ch=ALL-UNNAMED -d DIRECTORY`
with the jars below as the class path), and libdisni.so (autotools, in `libdisni`).
"""
import os
import re

from harness import Skip, expect, new_port
from program import Program, Run, finished

PACKAGE = 'com.ibm.disni'
JARS = [f'/usr/share/java/{name}.jar' for name in ('commons-cli', 'slf4j-api', 'slf4j-nop')]
READ = 'ReadClient::read memory from server: '


def above(path, name):
    """The directory under path that holds a file of this (relative) name."""
    for directory, _, _ in os.walk(path):
        if os.path.exists(os.path.join(directory, name)):
            return directory
    raise Skip(f'no {name} under {path}: build it')


def java(world, name, port, options):
    classes = above(world.source, f'{PACKAGE.replace(".", "/")}/examples/ReadServer.class')
    library = above(world.source, 'libdisni.so')
    for jar in JARS:
        if not os.path.exists(jar):
            raise Skip(f'no {jar}')
    # It takes the addresses of direct buffers from a class that newer releases of Java do not show. The heap is small: the
    # machine may be, too.
    return ['java', '-Xmx128m', '--add-exports', 'java.base/sun.nio.ch=ALL-UNNAMED', f'-Djava.library.path={library}',
            '-cp', ':'.join([classes, *JARS]), f'{PACKAGE}.{name}', '-a', world.server.address, '-p', port, *options]


def pair(world, name, server_ends, client_ends, *options):
    """Server and client of an example; their last lines have to match."""
    port = new_port()
    server = world.start(world.server, java(world, f'{name}Server', port, options), f'{name}Server')
    server.wait_until(lambda: world.is_listened(port), 'it listened')
    client = world.start(world.client, java(world, f'{name}Client', port, options), f'{name}Client')
    finished(client, client_ends)
    finished(server, server_ends)
    # It prints what it catches.
    expect('Exception' not in server.stdout + server.stderr + client.stdout + client.stderr, f'{name}: an exception', server, client)
    return server, client


def read(world):
    """One READ after the other, each 10 bytes longer, of a text in UTF-16 that ends with the number of its key."""
    server, client = pair(world, 'examples.Read', '^ReadServer::final message$', '^closing endpoint, done$')
    key = re.search(r', key (\d+)$', client.stdout, re.M)
    expect(key, 'no key', client, server)
    whole = f'This is a RDMA/read on stag {key.group(1)} !'
    texts = [line.removeprefix(READ).rstrip('\0') for line in client.stdout.split('\n') if line.startswith(READ)]
    expect(texts == [whole[:5 * (i + 1)] for i in range(10)], 'other texts were read', client, server)
    return f'{len(texts)} READs'


def send(world):
    server, client = pair(world, 'examples.SendRecv', '^group closed$', '^group closed$')
    for p, other in ((server, 'client'), (client, 'server')):
        expect(f'Message from the {other}: Hello from the {other}\0' in p.stdout, 'no message', p)


def verbs(world):
    server, client = pair(world, 'examples.Verbs', '^VerbsServer::done$', '')
    expect(re.search('^VerbsClient::read memory from server: .*RDMA', client.stdout, re.M), 'no text was read', client, server)


def benchmark_read(world):
    pair(world, 'benchmarks.Read', '^ReadServer, final message$', r'^ReadClient, latency \d+$', '-s', 65536, '-k', 500)


PROGRAMS = [Program('DiSNI', [
    Run('ReadServer, ReadClient: READs, by endpoints that wait for events', read),
    Run('SendRecvServer, SendRecvClient: messages', send),
    Run('VerbsServer, VerbsClient: a READ, by plain verbs', verbs),
    Run('benchmark: 500 READs of 64 KiB, client polls', benchmark_read),
], source='disni', packages=('default-jre-headless', 'libcommons-cli-java', 'libslf4j-java'), commands=('java',))]
