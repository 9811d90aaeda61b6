# SPDX-License-Identifier: BSD-2-Clause
"""SPDK's target and initiator of NVMe over RDMA, from its source tree, built there: ./configure --with-rdma, make.

Both ends poll: each has a processor of its own where there are two.
"""
import json
import os
import re
import signal

import harness
from harness import Skip, expect
from program import Program, Run, finished

SUBSYSTEM = 'nqn.2026-01.net.example:disk'
BLOCK_BYTES = 4096
BLOCKS = 16384
MEMORY_MB = 512
# SPDK registers memory in units of 2 MiB, and none at all with its own --no-huge. DPDK's --no-huge puts it behind DPDK's tables;
# with this size (of DPDK 23.11) it begins at such a boundary. Others fail with "No translation".
NO_HUGE_MB = 1176
TARGET = ('bin', 'nvmf_tgt')
BDEVPERF = ('examples', 'bdevperf')
IDENTIFY = ('bin', 'spdk_nvme_identify')
PERF = ('bin', 'spdk_nvme_perf')
# Beside bdevperf, these have only SPDK's own --no-huge, or nothing.
NEEDS_HUGE_PAGES = 'huge pages'


def built(world, program):
    path = os.path.join(world.source, 'build', *program)
    if not os.access(path, os.X_OK):
        raise Skip(f'{path} is not there: build it')
    return path


def mount_point():
    """Where the host has huge pages mounted, or None."""
    with open('/proc/mounts', encoding='utf-8') as f:
        return next((line.split()[1] for line in f if line.split()[2] == 'hugetlbfs'), None)


def has_huge_pages():
    """Enough for two processes, mounted or to be mounted? Must be checked before the first of them takes its part."""
    with open('/proc/meminfo', encoding='ascii') as f:
        facts = dict(re.findall(r'^(HugePages_Free|Hugepagesize): +(\d+)', f.read(), re.M))
    enough = int(facts.get('HugePages_Free', 0)) * int(facts.get('Hugepagesize', 0)) >= 2 * MEMORY_MB * 1024
    return enough and (os.geteuid() == 0 or mount_point() is not None)


def mounting(directory):
    """What a command line begins with, so that its process has huge pages mounted for itself: its files in them end with it."""
    if os.geteuid() != 0:
        return []
    os.makedirs(directory, exist_ok=True)
    return ['unshare', '--mount', 'sh', '-c', 'mount -t hugetlbfs none "$0" && exec "$@"', mount_point() or directory]


def memory(huge):
    return ['-s', MEMORY_MB] if huge else ['--env-context=--no-huge', '-s', NO_HUGE_MB]


def core_mask(last):
    cores = sorted(os.sched_getaffinity(0))
    return hex(1 << cores[-1 if last else 0])


def start(world, side, program, huge, *words):
    """A process of SPDK; what it keeps under /run otherwise is among the run's files."""
    name = program[-1]
    os.makedirs(world.path(name), exist_ok=True)
    before = mounting(world.path(f'{name}-pages')) if huge else []
    return world.start(side, [*before, built(world, program), *words], name, {'RUNTIME_DIRECTORY': world.path(name)})


def configuration(world, name, **subsystems):
    """Calls that a process makes when it starts, {subsystem: [(method, parameters)]}, in a file."""
    calls = [{'subsystem': subsystem, 'config': [{'method': method, 'params': params} for method, params in steps]}
             for subsystem, steps in subsystems.items()]
    with open(world.path(name), 'w', encoding='utf-8') as f:
        json.dump({'subsystems': calls}, f)
    return world.path(name)


class Target:
    """nvmf_tgt with a disk in memory."""

    def __init__(self, world):
        self.world = world
        self.port = harness.new_port()
        self.huge = has_huge_pages()
        self.address = {'trtype': 'RDMA', 'adrfam': 'IPv4', 'traddr': world.server.address, 'trsvcid': str(self.port)}
        calls = configuration(world, 'target.json', bdev=[
            ('bdev_malloc_create', {'name': 'disk', 'num_blocks': BLOCKS, 'block_size': BLOCK_BYTES}),
        ], nvmf=[
            ('nvmf_create_transport', {'trtype': 'RDMA'}),
            ('nvmf_create_subsystem', {'nqn': SUBSYSTEM, 'allow_any_host': True}),
            ('nvmf_subsystem_add_ns', {'nqn': SUBSYSTEM, 'namespace': {'bdev_name': 'disk'}}),
            ('nvmf_subsystem_add_listener', {'nqn': SUBSYSTEM, 'listen_address': self.address}),
        ])
        self.process = start(world, world.server, TARGET, self.huge, *memory(self.huge), '--no-pci', '-m', core_mask(False),
                             '-r', world.path('target.sock'), '-c', calls)
        self.process.wait_until(lambda: world.is_listened(self.port), 'it listened')

    def end(self):
        """It gives back all that it has."""
        self.process.signal(signal.SIGTERM)
        self.process.wait()
        expect(self.process.popen.returncode == 0, f'nvmf_tgt: exit code {self.process.popen.returncode}', self.process)


def bdevperf(workload, size_bytes):
    """It attaches the disk, has 16 requests under way for 2 s, and with the workload `verify` compares what it reads."""
    def run(world):
        target = Target(world)
        calls = configuration(world, 'host.json', bdev=[('bdev_nvme_attach_controller',
                                                         {'name': 'remote', 'subnqn': SUBSYSTEM, **target.address})])
        p = start(world, world.client, BDEVPERF, target.huge, *memory(target.huge), '--no-pci', '-m', core_mask(True),
                  '-r', world.path('host.sock'), '-c', calls, '-q', 16, '-o', size_bytes, '-w', *workload, '-t', 2)
        # Requests and MiB in a second, failures and timeouts in a second.
        finished(p, r'^Total +: +[\d.]*[1-9][\d.]* +[\d.]+ +0\.00 +0\.00 ', results)
        target.end()
    return run


def connected(world, program, *words):
    """A host that makes its connection from an address, with huge pages."""
    if not has_huge_pages():
        raise Skip(f'{2 * MEMORY_MB} MiB of huge pages are not free, or not mounted')
    built(world, program)
    target = Target(world)
    address = ' '.join(f'{key}:{value}' for key, value in {**target.address, 'subnqn': SUBSYSTEM}.items())
    return target, start(world, world.client, program, True, '-r', address, *words)


def identify(world):
    """It connects, identifies the controller and its disk, and prints that."""
    core = sorted(os.sched_getaffinity(0))[-1]
    target, p = connected(world, IDENTIFY, '-d', MEMORY_MB, '-p', core)
    p.wait()
    expect(p.popen.returncode == 0, f'spdk_nvme_identify: exit code {p.popen.returncode}', p)
    for fact in (f'^NVMe over Fabrics controller at {re.escape(world.server.address)}:{target.port}: {re.escape(SUBSYSTEM)}$',
                 rf'^Size \(in LBAs\): +{BLOCKS} '):
        expect(re.search(fact, p.stdout, re.M), f'spdk_nvme_identify prints nothing like "{fact}"', p)
    target.end()


def perf(*workloads):
    """16 requests under way for 2 s. It prints requests that fail and connections that are lost."""
    def run(world):
        for words in workloads:
            target, p = connected(world, PERF, '-s', MEMORY_MB, '-c', core_mask(True), '-q', 16, '-t', 2, '-w', *words)
            # Requests and MiB in a second, and latencies.
            finished(p, r'^Total +: +[\d.]*[1-9][\d.]* +[\d.]+ ', results)
            expect('rror' not in p.output, 'spdk_nvme_perf prints an error', p)
            target.end()
    return run


def results(proc):
    """The table that it ends with, without what later versions write behind it."""
    rows = [line.strip() for line in proc.output.splitlines()]
    return '\n'.join(row for row in rows if row.startswith('Total '))


PROGRAMS = [Program('SPDK', [
    Run('nvmf_tgt, bdevperf: 4 KiB, random reads and writes', bdevperf(('randrw', '-M', 50), 4096)),
    Run('nvmf_tgt, bdevperf: 64 KiB, written, read and compared', bdevperf(('verify',), 65536)),
    Run('nvmf_tgt, spdk_nvme_identify', identify, needs=NEEDS_HUGE_PAGES),
    Run('nvmf_tgt, spdk_nvme_perf: random reads and writes of 4 KiB, reads and writes of 64 KiB',
        perf(('randrw', '-M', 50, '-o', 4096), ('rw', '-M', 50, '-o', 65536)), needs=NEEDS_HUGE_PAGES),
], source='spdk', needs=f'huge pages; without them `--env-context=--no-huge -s {NO_HUGE_MB}`')]
