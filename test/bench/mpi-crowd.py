#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Collective operations of all ranks, as crowd.py measures them.

    mpirun -np N mpi-crowd.py CALLS

Rank 0 prints the microseconds of a call of each. Large ones are called a quarter as often. With --threads, rank 0 also
prints what each thread of each rank did in a barrier: its turns, and how long it ran and waited for a processor.
"""
import array
import os
import sys

from mpi4py import MPI

SMALL, LARGE, PIECE = 1, 16384, 1024    # doubles


def timed(comm, call, calls):
    """In microseconds."""
    call()
    comm.Barrier()
    begin = MPI.Wtime()
    for _ in range(calls):
        call()
    comm.Barrier()
    return (MPI.Wtime() - begin) / calls * 1e6


def doubles(count):
    return array.array('d', [1.0]) * count


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def threads():
    """By thread: name, voluntary and other switches, ns that it ran and that it waited."""
    rows = {}
    for tid in os.listdir('/proc/self/task'):
        path = f'/proc/self/task/{tid}/'
        status = dict(line.split(':', 1) for line in read(path + 'status').splitlines())
        rows[tid] = (read(path + 'comm').strip(), int(status['voluntary_ctxt_switches']), int(status['nonvoluntary_ctxt_switches']),
                     *map(int, read(path + 'schedstat').split()[:2]))
    return rows


def show_threads(comm, calls):
    before = threads()
    us = timed(comm, comm.Barrier, calls)
    rows = []
    for tid, (name, *now) in threads().items():
        did = [(a - b) / calls for a, b in zip(now, before.get(tid, (name, 0, 0, 0, 0))[1:])]
        if did[2]:
            rows.append(f'rank {comm.rank:2} {name:16} per barrier: {did[0]:5.2f} sleeps {did[1]:5.2f} preempted '
                        f'{did[2] / 1000:6.1f} us ran {did[3] / 1000:7.1f} us waited')
    rows = comm.gather(rows)
    if comm.rank == 0:
        print(f'a barrier: {us:.1f} us')
        print('\n'.join(row for of_rank in rows for row in of_rank), flush=True)


def main():
    comm = MPI.COMM_WORLD
    calls = int(sys.argv[1])
    if '--threads' in sys.argv:
        show_threads(comm, calls)
        return
    small, small_sum, large, large_sum = (doubles(n) for n in (SMALL, SMALL, LARGE, LARGE))
    pieces, others = (doubles(PIECE * comm.size) for _ in range(2))
    results = [('barrier', timed(comm, comm.Barrier, calls)),
               ('allreduce 8 B', timed(comm, lambda: comm.Allreduce(small, small_sum), calls)),
               ('allreduce 128 KiB', timed(comm, lambda: comm.Allreduce(large, large_sum), calls // 4)),
               ('alltoall 8 KiB', timed(comm, lambda: comm.Alltoall(pieces, others), calls // 4))]
    if comm.rank == 0:
        for name, us in results:
            print(f'{name}: {us:.2f} us', flush=True)


if __name__ == '__main__':
    main()
