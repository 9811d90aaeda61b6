# SPDX-License-Identifier: BSD-2-Clause
"""MPICH, whose device is ch4:ucx in Debian: NetPIPE, which compares data."""
import mpi
from program import Program, Run

ENV = {'UCX_TLS': 'rc_verbs,ud_verbs,self'}


def netpipe(world):
    argv = ['mpiexec.mpich', '-bind-to', 'none']
    if world.server.netns:
        argv += ['-hosts', mpi.hosts(world), '-launcher', 'rsh', '-launcher-exec', mpi.remote_shell(world), '-iface', 'veth0']
    mpi.launch(world, argv + ['-np', mpi.RANKS], ['NPmpich2', *mpi.NETPIPE], ENV, mpi.NETPIPE_LAST, mpi.stderr)


PROGRAMS = [Program('MPICH', [Run('NetPIPE with integrity check', netpipe)], packages=('mpich', 'netpipe-mpich2'),
                    commands=('mpiexec.mpich', 'NPmpich2'), needs='`UCX_TLS=rc_verbs,ud_verbs,self`')]
