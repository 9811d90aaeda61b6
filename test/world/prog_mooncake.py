# SPDX-License-Identifier: BSD-2-Clause
"""Mooncake's transfer engine: its examples transfer_engine_bench and transfer_engine_validator, built somewhere under the path.

Metadata go from peer to peer (P2PHANDSHAKE), so that no server for them is needed.
"""
import os
import re
import signal

from harness import Skip, expect, new_port
from program import GUARD_S, Program, Run

BENCH, VALIDATOR = 'transfer_engine_bench', 'transfer_engine_validator'
SECONDS = 2
MEMORY_BYTES = 128 << 20
COMPLETED = r'Test completed: .*batch count (\d+)'


def built(path, name):
    for directory, _, files in os.walk(path):
        if name in files and os.access(os.path.join(directory, name), os.X_OK):
            return os.path.join(directory, name)
    raise Skip(f'no {name} under {path}: build it')


def is_serving(target):
    """It listens before it has registered its memory, and prints nothing after that; its main thread sleeps when all is done."""
    try:
        with open(f'/proc/{target.pid}/wchan', encoding='ascii') as f:
            return 'DRAM is used' in target.stderr and 'nanosleep' in f.read()
    except OSError:
        return False                  # it has ended


def transfer(program, *words, discovered=False):
    def run(world):
        port = new_port()

        def start(side, name, mode, env, *more):
            device = '--auto_discovery' if discovered else f'--device_name={side.name}'
            argv = [built(world.source, name), f'--mode={mode}', '--metadata_server=P2PHANDSHAKE', '--protocol=rdma', device,
                    f'--local_server_name={side.tcp}', f'--buffer_size={MEMORY_BYTES}', *more]
            return world.start(side, argv, mode, env)

        target = start(world.server, BENCH, 'target', {'MC_MIN_RPC_PORT': str(port), 'MC_MAX_RPC_PORT': str(port)})
        target.wait_until(lambda: is_serving(target), 'it had registered its memory')
        initiator = start(world.client, program, 'initiator', {}, f'--segment_id={world.server.tcp}:{port}', f'--duration={SECONDS}', *words)
        initiator.wait(GUARD_S)
        both = (initiator, target)
        expect(initiator.popen.returncode == 0, f'initiator: exit code {initiator.popen.returncode}', *both)
        completed = re.search(COMPLETED, initiator.stderr)
        expect(completed and int(completed.group(1)) > 0, 'no batch was completed', *both)
        for p, side in ((initiator, world.client), (target, world.server)):
            expect(re.search(rf'RDMA device: {re.escape(side.name)}, ', p.stderr), f'{p.name} did not take the device {side.name}', *both)
            expect(not re.search(r'^E\d{8} ', p.stderr, re.M), f'{p.name} reports an error', *both)
        target.signal(signal.SIGTERM)
        target.wait()
        expect(target.popen.returncode == 0, f'target: exit code {target.popen.returncode}', *both)
        return f'{completed.group(1)} batches'
    return run


NEEDS = '`--metadata_server=P2PHANDSHAKE`, or a server for metadata'
FEW = ('--threads=2', '--batch_size=8', '--block_size=65536')
MANY = ('--threads=12', '--batch_size=128', '--block_size=65536')
PROGRAMS = [Program('Mooncake', [
    Run(f'{BENCH}: reads, 2 threads, batches of 8', transfer(BENCH, '--operation=read', *FEW)),
    Run(f'{BENCH}: reads, 12 threads, batches of 128', transfer(BENCH, '--operation=read', *MANY)),
    Run(f'{BENCH}: writes, 12 threads, batches of 128', transfer(BENCH, '--operation=write', *MANY)),
    Run(f'{BENCH}: writes, 2 threads, devices discovered', transfer(BENCH, '--operation=write', *FEW, discovered=True)),
    Run(f'{VALIDATOR}: written, read and compared', transfer(VALIDATOR, *FEW)),
], source='mooncake', needs=NEEDS)]
