# SPDX-License-Identifier: BSD-2-Clause
"""InfiniStore (a key-value store for inference), built somewhere under the path by `meson setup build src` and `ninja -C build`.

The client is infinistore_client.py: its own tests and benchmark want GPUs or PyTorch. The server is its own, but for one thing: it
does not change its oom_score_adj, for which it has to be root. It waits for POLLOUT of completion channels as well, which is always
there (docs/verbs.md, "Event descriptors"), so its loop does not sleep while a client is connected.
"""
import os
import re

import harness
from harness import Skip, expect
from program import Program, Run, ended_together

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = '/usr/bin/python3'
SERVER = 'from infinistore import server; server.prevent_oom = lambda: None; server.main()'
PACKAGES = ('python3-numpy', 'python3-uvloop', 'python3-fastapi', 'python3-uvicorn')
LAST = r'^(\d+) blocks$'


def package(world):
    """Directory of its Python package: links, so that the built module is beside its Python files."""
    modules = [os.path.join(directory, name) for directory, _, files in os.walk(world.source) for name in files
               if re.match(r'_infinistore\..*\.so$', name)]
    if not modules:
        raise Skip(f'no _infinistore.*.so under {world.source}: build it')
    files = os.path.join(world.source, 'infinistore')
    made = world.path('modules/infinistore')
    os.makedirs(made)
    for path in [os.path.join(files, name) for name in os.listdir(files) if name.endswith('.py')] + modules[:1]:
        os.symlink(path, os.path.join(made, os.path.basename(path)))
    return os.path.dirname(made)


def store(world, clients):
    port, env = harness.new_port(), {'PYTHONPATH': package(world)}
    server = world.start(world.server, [PYTHON, '-c', SERVER, '--service-port', port, '--manage-port', harness.new_port(), '--prealloc-size', 1,
                                        '--link-type', 'Ethernet', '--dev-name', world.server.name], 'server', env)
    server.wait_until(lambda: 'server started' in server.output, 'it had started')
    script = os.path.join(HERE, 'infinistore_client.py')
    procs = [world.start(world.client, [PYTHON, script, world.server.tcp, port, world.client.name, f'client{i}'], f'client{i}', env)
             for i in range(clients)]
    ended_together(procs, LAST)
    blocks = sum(int(re.search(LAST, p.stdout, re.M).group(1)) for p in procs)
    expect(server.running(), 'the server ended', server)
    expect(f'found device {world.server.name}' in server.output, f'the server did not take the device {world.server.name}', server)
    return f'{blocks} blocks'


PROGRAMS = [Program('InfiniStore', [
    Run('put, get by another connection and delete blocks of 4 KiB to 1 MiB', lambda world: store(world, 1)),
    Run('two such clients at once', lambda world: store(world, 2)),
], packages=PACKAGES, needs='`oom_score_adj` of its server left alone', source='infinistore')]
