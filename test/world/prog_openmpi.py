# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI over UCX and over libfabric: NetPIPE, which compares data, mpi4py's ring, the benchmarks of HPC Challenge."""
import os
import shutil

import mpi
from harness import expect
from program import Program, Run, finished

# As root it requires an option that confirms it.
ENV = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
UCX = ('--mca', 'pml', 'ucx', '-x', 'UCX_TLS=rc_verbs,ud_verbs,self')
LIBFABRIC = ('--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi', '--mca', 'mtl_ofi_provider_include', 'verbs;ofi_rxm')

HPCC_GUARD_S = 600


def launcher(world, over):
    argv = ['mpirun.openmpi', '-np', mpi.RANKS, '--oversubscribe', '--bind-to', 'none']
    if world.server.netns:
        argv += ['--host', mpi.hosts(world), '--mca', 'plm_rsh_agent', mpi.remote_shell(world),
                 '--mca', 'oob_tcp_if_include', 'veth0']
    return argv + list(over)


def netpipe(over):
    def run(world):
        mpi.launch(world, launcher(world, over), ['NPopenmpi', *mpi.NETPIPE], ENV, mpi.NETPIPE_LAST, mpi.stderr)
    return run


def ring(world):
    mpi.launch(world, launcher(world, UCX), ['/usr/bin/python3', '-m', 'mpi4py.bench', 'ringtest', '-n', 2000, '-l', 20],
               ENV, r'^time for 20 loops = .* \(2 processes, 2000 bytes\)$')


def hpcc(world):
    """The example's input for a small problem on 1 x 2 processes; the last line of its report."""
    where = '/usr/share/doc/hpcc/examples/_hpccinf.txt'
    expect(os.path.exists(where), f'{where} is not there')
    shutil.copy(where, world.path('hpccinf.txt'))
    with open(world.path('hpccinf.txt'), encoding='ascii') as f:
        lines = f.read().splitlines()
    for i, line in enumerate(lines):
        value = {'Ns': '200', 'Ps': '1', 'Qs': '2'}.get(line.split()[1] if len(line.split()) > 1 else '')
        lines[i] = line.replace(line.split()[0], value, 1) if value else line
    with open(world.path('hpccinf.txt'), 'w', encoding='ascii') as f:
        f.write('\n'.join(lines) + '\n')
    p = world.plain(world.server, launcher(world, UCX) + mpi.wrapped(world, ['hpcc']), 'launcher', ENV)
    finished(p, '', guard_s=HPCC_GUARD_S)
    with open(world.path('hpccoutf.txt'), encoding='ascii') as f:
        report = f.read()
    # The date and a rule follow.
    expect('End of HPC Challenge tests.' in report[-300:], f'the report ends with {report[-300:]}', p)
    expect('Success=1' in report and 'FAILED' not in report, f'a result is wrong\n{report[-4000:]}', p)


COMMANDS = ('mpirun.openmpi', 'NPopenmpi')
NEEDS = '`--mca pml ucx`, `UCX_TLS=rc_verbs,ud_verbs,self`'
PROGRAMS = [
    Program('Open MPI', [
        Run('NetPIPE with integrity check over UCX', netpipe(UCX)),
        # librdmacm resolves no loopback address for libfabric's verbs provider.
        Run('NetPIPE with integrity check over libfabric', netpipe(LIBFABRIC), places=('veth',),
            needs='`--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs;ofi_rxm"`; an interface with an address of its own'),
        Run('ring of mpi4py.bench', ring),
    ], packages=('openmpi-bin', 'netpipe-openmpi', 'python3-mpi4py'), commands=COMMANDS, needs=NEEDS),
    Program('HPC Challenge', [Run('all its benchmarks, N = 200, over Open MPI and UCX', hpcc, larger=True)],
            packages=('hpcc', 'openmpi-bin'), commands=('hpcc', 'mpirun.openmpi'), needs=NEEDS),
]
