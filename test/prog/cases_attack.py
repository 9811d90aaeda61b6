# SPDX-License-Identifier: BSD-2-Clause
"""What another user of the machine prepares for the commands of root: files, directories, processes."""
import os
import signal
import subprocess
import tempfile

import users
from harness import NOBODY, NORMAL, Case, Proc, expect, need_user, sanitizer_env


def rocemu(config, *argv, env=None):
    p = Proc([config.rocemu, *argv], {**sanitizer_env(config), **(env or {})}, name='rocemu')
    p.wait()
    return p


# ---- rocemu hosts ------------------------------------------------------------------------------------------

# With mounts of its own, by which it decides what a program's path is.
IMPOSTOR = """
import ctypes, os, signal
NEWUSER, NEWNS, NEWNET, NEWUTS = 0x10000000, 0x20000, 0x40000000, 0x4000000
PR_SET_NAME, PR_SET_DUMPABLE = 15, 4
libc = ctypes.CDLL(None, use_errno=True)
failed = libc.unshare(NEWUSER | NEWNS | NEWNET | NEWUTS)
libc.prctl(PR_SET_NAME, b"rocemu-host2", 0, 0, 0)
libc.prctl(PR_SET_DUMPABLE, {dumpable}, 0, 0, 0)
print("unshare", failed, flush=True)
signal.pause()
"""


def impostor(config, lab):
    """ROCEMU_HOSTS has the ID of a process that has ended, and another user's process has that ID and name by now."""
    need_user(NOBODY)
    for dumpable in (1, 0):     # of one that is not, all of /proc/PID is root's
        p = subprocess.Popen([*users.command(NOBODY), '/usr/bin/python3', '-c', IMPOSTOR.format(dumpable=dumpable)],
                             stdout=subprocess.PIPE, text=True)
        try:
            expect(p.stdout.readline().strip() in ('unshare 0', 'unshare -1'), 'it did not start')
            r = rocemu(config, 'hosts', '--on', '2', '--', 'readlink', '/proc/self/ns/mnt', env={'ROCEMU_HOSTS': f'{p.pid} {p.pid}'})
            expect(r.popen.returncode == 1 and 'the hosts are gone' in r.stderr, 'it was entered', r)
        finally:
            p.send_signal(signal.SIGKILL)
            p.wait()


# ---- rocemu run --------------------------------------------------------------------------------------------

def foreign_place(config, lab):
    """XDG_RUNTIME_DIR is another user's, as "sudo -E" leaves it, or one that others may write to: that user could put a link
    to any file in the place of the tree while it is made."""
    need_user(NOBODY)
    for owner, mode in ((NOBODY, 0o700), (NOBODY, 0o1777), (0, 0o777)):
        with tempfile.TemporaryDirectory(prefix='rocemu-attack-') as d:
            os.chown(d, owner, -1)
            os.chmod(d, mode)
            for variable in ('XDG_RUNTIME_DIR', 'TMPDIR'):
                r = rocemu(config, 'run', '--device', 'dev0=lo', '--', 'sh', '-c', f'echo $ROCEMU_PATHS; ls -A {d}', env={variable: d})
                lines = r.stdout.split()
                expect(r.popen.returncode == 0 and len(lines) == 1 and not lines[0].startswith(d), f'{variable} {owner} {mode:o}', r)


def cases():
    return [Case('attack/hosts.impostor', impostor, NORMAL), Case('attack/run.foreign_place', foreign_place, NORMAL)]
