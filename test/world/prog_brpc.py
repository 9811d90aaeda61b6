# SPDX-License-Identifier: BSD-2-Clause
"""Apache brpc: its example rdma_performance, built (library with RDMA, then the example) somewhere under the path.

By default each process prepares 1024 QPs when it starts, with a completion channel each.
"""
import os
import signal

from harness import Skip, expect, new_port
from program import Program, Run, finished

EXAMPLE = 'rdma_performance'
RUNS = 5                              # connections, one after the other, to one server


def built(path):
    """Directory of the example's client and server."""
    for directory, _, _ in os.walk(path):
        if EXAMPLE in directory and all(os.access(os.path.join(directory, name), os.X_OK) for name in ('client', 'server')):
            return directory
    raise Skip(f'no client and server of {EXAMPLE} under {path}: build them')


def performance(*options, connections=1):
    def run(world):
        directory = built(world.source)
        port = new_port()
        server = world.start(world.server, [os.path.join(directory, 'server'), f'-port={port}'], 'server')
        # It listens once its QPs are made.
        server.wait_listening(port)
        for _ in range(connections):
            client = world.start(world.client, [os.path.join(directory, 'client'), f'-servers={world.server.tcp}:{port}',
                                                f'-dummy_port={new_port()}', *options], 'client')
            finished(client, r'^Throughput: [\d.]+MB/s$')
            expect('tcp' not in client.stderr + server.stderr, 'a connection fell back to TCP', client, server)
        server.signal(signal.SIGINT)
        server.wait()
        expect(server.popen.returncode == 0, f'server: exit code {server.popen.returncode}', server)
        return f'{connections} connections'
    return run


NEEDS = 'more than 1024 open files, or `-rdma_prepared_qp_cnt` smaller than its default'
PROGRAMS = [Program('brpc', [
    Run(f'rdma_performance: {RUNS} clients, one after the other', performance('-thread_num=1', '-attachment_size=1024', '-test_iterations=200',
                                                                            connections=RUNS)),
    Run('rdma_performance: 4 threads, 16 requests each, attachments of 64 KiB echoed',
        performance('-thread_num=4', '-queue_depth=16', '-attachment_size=65536', '-echo_attachment=true', '-test_iterations=1000')),
], source='brpc', needs=NEEDS)]
