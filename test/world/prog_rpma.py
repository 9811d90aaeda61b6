# SPDX-License-Identifier: BSD-2-Clause
"""librpma (persistent memory over RDMA), from its source tree: its examples, and its tests of many threads.

Built in PATH/build by `cmake .. -DBUILD_DOC=OFF -DTESTS_RDMA_CONNECTION=ON && make rpma examples`, and the targets mtt-* for the
tests. The distribution's packages hold the library alone.
"""
import os

import harness
from harness import Skip, expect
from program import Program, Run, ended_together

BUILD = 'build'
THREADS = 8
MEMORY_BYTES = 64 << 20               # of the file that stands for persistent memory
OFFSET = 1024                         # of the client's part of it
ROUNDS = 3
MEMORY_EXAMPLES = ('03', '04', '05', '07', '09')
# Arguments of clients behind address and port; a client each. Otherwise one client without any.
CLIENTS = {
    '06-multiple-connections': [('8',), ('9',), ('11',), ('12',)],
    '06scch-multiple-connections': [('8',), ('9',), ('11',), ('12',)],
    '07-atomic-write': [('1st_word', '2nd_word', '3rd_word')],
    '08-messages-ping-pong': [('7', ROUNDS)],
    '08srq-simple-messages-ping-pong-with-srq': [('7', ROUNDS)],
    '10-send-with-imm': [('1234', '1st_word')],
    '11-write-with-imm': [('1234',)],
    '12-receive-completion-queue': [('7', ROUNDS)],
    '12scch-receive-completion-queue': [('7', ROUNDS)],
    '13-messages-ping-pong-with-srq': [('1', ROUNDS), ('5', ROUNDS), ('10', ROUNDS)],
}
SIDE_BY_SIDE = ('13-messages-ping-pong-with-srq',)
# These serve until a signal ends them.
ENDLESS = ('06-multiple-connections', '06scch-multiple-connections')


def directory(world, *parts):
    path = os.path.join(world.source, BUILD, *parts)
    if not os.path.isdir(path):
        raise Skip(f'no {path}: build it')
    return path


def example(world, path, memory):
    """One example: its server, and its clients."""
    name = os.path.basename(path)
    port = harness.new_port()
    env = {'PMEM_IS_PMEM_FORCE': '1'} if memory else {}
    files = {}
    # Named as a device DAX: a file of another name is taken for one on FsDAX, which can only be registered on demand, and its pages
    # are prefetched. Of a region that is not on demand that is refused.
    os.makedirs(world.path('dev'), exist_ok=True)
    for side in ('server', 'client') if memory else ():
        files[side] = world.path(f'dev/dax-{name}.{side}')
        with open(files[side], 'wb') as f:
            f.truncate(MEMORY_BYTES)
    where = (world.server.address, port)
    server = world.start(world.server, [os.path.join(path, 'server'), *where, *([files['server']] if memory else ())],
                         f'server of {name}', env)
    server.wait_until(lambda: world.is_listened(port), 'it listened')
    more = (files['client'], OFFSET) if memory and not name.startswith('07') else ()
    clients = []
    for arguments in CLIENTS.get(name, [()]):
        clients.append(world.start(world.client, [os.path.join(path, 'client'), *where, *arguments, *more], f'client of {name}', env))
        if name not in SIDE_BY_SIDE:
            ended_together(clients, '')
    ended_together(clients, '')
    if name in ENDLESS:
        server.kill()
    else:
        server.wait()
        expect(server.popen.returncode == 0, f'exit code {server.popen.returncode} of the server', server, *clients)


def examples(memory):
    def run(world):
        top = directory(world, 'examples')
        names = [n for n in sorted(os.listdir(top)) if os.path.exists(os.path.join(top, n, 'server'))
                 and (not memory or n.startswith(MEMORY_EXAMPLES))]
        expect(names, f'no examples in {top}')
        for name in names:
            example(world, os.path.join(top, name), memory)
        return f'{len(names)} examples'
    return run


def threads(world):
    """Each test forks its other side: one host."""
    top = directory(world, 'tests', 'multithreaded')
    ran = 0
    for where, directories, files in os.walk(top):
        directories[:] = sorted(d for d in directories if d != 'CMakeFiles')
        for program in sorted(os.path.join(where, name) for name in files):
            if not os.access(program, os.X_OK):
                continue
            name = os.path.relpath(program, top)
            p = world.start(world.server, [program, THREADS, world.server.address, harness.new_port()], name)
            p.wait()
            expect(p.popen.returncode == 0, f'{name}: exit code {p.popen.returncode}', p)
            ran += 1
    if not ran:
        raise Skip(f'no tests in {top}: build the targets mtt-*')
    return f'{ran} tests of {THREADS} threads'


PROGRAMS = [Program('rpma', [
    Run('its examples', examples(False)),
    Run('its examples with persistent memory, a file each', examples(True)),
    Run('its multithreaded tests', threads, ('lo',)),
], source='rpma')]
