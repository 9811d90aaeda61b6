# SPDX-License-Identifier: BSD-2-Clause
"""Programs that test/prog runs anyway: here for the table (--all), by the same cases."""
import fnmatch

import cases_cm
import cases_paths
import cases_perftest
import cases_pingpong
import cases_rdmacore
import cases_users
import harness
from program import PLACES, Program, Run


def cases(module, *patterns):
    return [c for c in module.cases() if any(fnmatch.fnmatchcase(c.name, p) for p in patterns)]


def some(what, module, *patterns):
    """A Run of all cases at a place whose names match; {} in a pattern is the place."""
    chosen = {place: cases(module, *(p.replace('{}', topology) for p in patterns)) for place, topology in PLACES.items()}

    def run(world):
        ran = 0
        for case in chosen[world.place]:
            try:
                case.run(world.config, world.lab)
                ran += 1
            except harness.Skip as e:
                why = str(e)
        if not ran:
            raise harness.Skip(why)
        return f'{ran} cases'

    return Run(what, run, places=tuple(place for place in PLACES if chosen[place]), larger=True)


PROGRAMS = [
    Program('fio', [some('engine rdma: write, read, send', cases_users, 'users/fio.*/{}')], packages=('fio',), commands=('fio',)),
    Program('qperf', [some('rc_bw, rc_rdma_read_bw, rc_rdma_write_poll_lat', cases_users, 'users/qperf/{}')], packages=('qperf',),
            commands=('qperf',), needs='`-cm1`'),
    Program('QEMU', [Run('migration over RDMA, pinned and in chunks',
                         lambda world: [c.run(world.config, world.lab) for c in cases(cases_users, 'users/qemu.*')] and '', ('lo',), True)],
            packages=('qemu-system-x86',), commands=('qemu-system-x86_64',)),
    Program('libfabric', [Run('fi_pingpong over verbs: rdm, dgram',
                              lambda world: [c.run(world.config, world.lab) for c in cases(cases_users, 'users/libfabric.*')] and '',
                              ('veth',), True)],
            packages=('libfabric-bin',), commands=('fi_pingpong',), needs='an interface with an address of its own'),
    Program('UCX', [Run('ucx_info, ucx_perftest tag_lat over rc_verbs and ud_verbs',
                        lambda world: [c.run(world.config, world.lab) for c in cases(cases_paths, 'ucx/*')] and '', ('lo',), True)],
            packages=('ucx-utils',), commands=('ucx_perftest',), needs='`UCX_TLS`, `UCX_NET_DEVICES`'),
    Program('perftest', [some('each program over RC, UC, UD, XRC', cases_perftest, 'perftest/*.*/{}/path_wr')], packages=('perftest',),
            commands=('ib_write_bw',)),
    Program('rdma-core', [some('its pyverbs tests', cases_rdmacore, 'rdma-core/*/{}'),
                          some('ibv_*_pingpong', cases_pingpong, 'pingpong/*/{}/poll'),
                          some('rping, ucmatose, udaddy, rdma_client', cases_cm, 'cm/rping*/{}', 'cm/ucmatose*/{}', 'cm/udaddy*/{}', 'cm/rdma_client*/{}')],
            packages=('rdmacm-utils', 'ibverbs-utils', 'python3-pyverbs'), commands=('ibv_rc_pingpong', 'rping')),
]
