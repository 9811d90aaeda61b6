# SPDX-License-Identifier: BSD-2-Clause
"""Two ranks of an MPI program, each under `rocemu run`: on one host, or one in each of two namespaces.

For two hosts the launcher gets a command that stands for rsh: it enters the namespace that has the host's address.
"""
import os

from program import finished

RANKS = 2


def remote_shell(world):
    path = world.path('remote-shell')
    hosts = '\n'.join(f'{side.tcp}) exec ip netns exec {side.netns} sh -c "$*" ;;' for side in (world.server, world.client))
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'#!/bin/sh\nhost=$1\nshift\ncase $host in\n{hosts}\nesac\necho "no host $host" >&2\nexit 1\n')
    os.chmod(path, 0o755)
    return path


def hosts(world):
    return f'{world.server.tcp},{world.client.tcp}'


def wrapped(world, argv):
    return [world.config.rocemu, 'run', '--device', world.server.device, '--', *argv]


def launch(world, launcher, argv, env, pattern, output=None):
    p = world.plain(world.server, launcher + wrapped(world, argv), 'launcher', env)
    return finished(p, pattern, output)


# NetPIPE compares the received data in each size. It prints that on stderr, like all its
# measurements.
NETPIPE = ('-i', '-l', 1, '-u', 200000, '-n', 20, '-o', 'np.out')
NETPIPE_LAST = r'196608 bytes +\d+ times --> +Integrity check passed$'


def stderr(proc):
    # Messages of the launcher at the end are not NetPIPE's.
    return proc.stderr
