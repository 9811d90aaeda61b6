#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What containers take from a program, made with unshare(1) by an ordinary user: no container engine is needed.

usage: containers_limits.py MESON BUILD_DIR PREFIX [PATTERN]...
"""
import os
import signal
import sys

import ci_tree
from ci_tree import commands


def unshared(script, *options, prepare=':'):
    """script under rocemu run, which is the process that prepare becomes."""
    # A shell that starts tests in the background has set some signals to be ignored.
    return commands.Result('env', '--default-signal', *ci_tree.as_user(), 'unshare', '-Ur', *options, 'sh', '-euc', f'{prepare}; exec "$@"', 'sh',
                           'rocemu', 'run', '--device', 'dev0=lo', '--', 'sh', '-euc', script)


def as_process_1(script):
    return unshared(script, '-pf', '--kill-child', '--mount-proc')


def process_1__program_ends__its_code():
    as_process_1('exit 77').expect(77)
    as_process_1('kill -KILL $$').expect(128 + signal.SIGKILL)


def process_1__signals_from_the_engine__end_the_program():
    for sig in ('TERM', 'INT', 'QUIT', 'HUP'):
        as_process_1(f'kill -{sig} 1; exec sleep 60').expect(128 + signal.Signals[f'SIG{sig}'])


def process_1__inherits_a_child__no_zombie():
    # Python does not wait for children that it has not started itself.
    as_process_1('''
        exec python3 -c '
import os, subprocess, time
orphan = int(subprocess.check_output(["sh", "-c", "sleep 0.1 >/dev/null & echo $!"]))
while os.path.exists(f"/proc/{orphan}"):
    time.sleep(0.1)\'''').expect(0)


def process_1__program_ends__no_files_stay():
    # Its directories are seen from outside of its PID namespace, as a container's volumes are.
    script = 'mount -t tmpfs none /dev/shm; mkdir -p "$HOME/run"; export XDG_RUNTIME_DIR="$HOME/run"; ' \
             'unshare -pf --kill-child --mount-proc rocemu run --device dev0=lo -- "$@"; ls "$HOME/run" /dev/shm'
    for program in ('ls', '/sys/class/infiniband'), ('sh', '-c', 'sleep 1000 & exit 0'):
        out = commands.Result(*ci_tree.as_user(), 'unshare', '-Urm', 'sh', '-euc', script, 'sh',
                              *program).expect(0).out
        assert out.endswith('/dev/shm:\n\n' + os.environ['HOME'] + '/run:\n'), out


# rocemu itself is below /tmp.
NO_TMP = 'mount --bind "$HOME/../rocemu" /mnt; PATH=/mnt/bin:$PATH; for at in /run /tmp /var/tmp; do mount -t tmpfs -o ro none $at; done; ' \
         'mount -t tmpfs none /dev/shm; cd /'


def read_only__no_tmp__devices_have_files():
    out = unshared('ls /sys/class/infiniband; cat /sys/class/infiniband/dev0/ports/1/state', '-m', prepare=NO_TMP).expect(0).out
    assert out == 'dev0\n4: ACTIVE\n', out


def read_only__no_tmp__stat_finds_the_process():
    out = unshared('''
        ibv_rc_pingpong -g 0 -p 18599 >/dev/null &
        until ss -Hltn | grep -q :18599; do sleep 0.1; done
        rocemu stat
        kill $!''', '-mn', prepare=f'{NO_TMP}; ip link set lo up').expect(0).out
    assert 'ibv_rc_pingpong' in out, out


if __name__ == '__main__':
    sys.exit(ci_tree.run_cases(globals(), ('ip', 'ss', 'setpriv', 'unshare', 'ibv_rc_pingpong')))
