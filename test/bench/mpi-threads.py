#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two ranks of MPI, each with several threads: thread N of rank 0 sends to thread N of rank 1, by a communicator of theirs.

    mpirun -np 2 mpi-threads.py THREADS MESSAGES

Rank 0 prints the messages of a second. The loop's time is MPI's: a call starts or completes 64 messages, and the
interpreter's lock is not held in it.
"""
import sys
import threading

import mpi4py

mpi4py.rc.thread_level = 'multiple'
from mpi4py import MPI  # noqa: E402 # pylint: disable=wrong-import-position

BYTES, WINDOW = 64, 64


def exchange(comm, rank, messages):
    buffers = [bytearray(BYTES) for _ in range(WINDOW)]
    requests = [comm.Recv_init(b, 0) if rank else comm.Send_init(b, 1) for b in buffers]
    for _ in range(messages // WINDOW):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)


def main():
    threads, messages = map(int, sys.argv[1:])
    world = MPI.COMM_WORLD
    if MPI.Query_thread() != MPI.THREAD_MULTIPLE or world.size != 2:
        sys.exit('mpi-threads.py: needs MPI_THREAD_MULTIPLE and two ranks')
    workers = [threading.Thread(target=exchange, args=(world.Dup(), world.rank, messages)) for _ in range(threads)]
    world.Barrier()
    begin = MPI.Wtime()
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    world.Barrier()
    if world.rank == 0:
        print(f'messages/s: {threads * (messages // WINDOW) * WINDOW / (MPI.Wtime() - begin):.0f}', flush=True)


if __name__ == '__main__':
    main()
