#!/usr/bin/python3 -Is
# SPDX-License-Identifier: BSD-2-Clause
"""usage: leftovers.py [--let NAME]... [--patience SECONDS] COMMAND [ARGUMENT]...

Runs a command, and fails if it leaves something behind: processes, wherever they went; files in /tmp
(or TMPDIR), /dev/shm, or network namespaces with a name. Processes that are about to end have some
time for it (150 s; spent only if something is left). An agent needs up to 75 s, if the peer of a
process that died does not answer DREQ: it is sent 16 times, every 4.3 s. Then they are listed and killed. --let: processes
of this name may go on.

For root, the directories are empty ones in a mount namespace; for others, TMPDIR is one. The exit
code is the command's, or 76. test/suite.py runs each test by it.
"""
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

LEFT_BEHIND = 76    # the exit code
PATIENCE_S = 150
INTERRUPTED_S = 20    # for the command to end by itself
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
OPEN_TO_ALL = 0o1777
OF_OTHERS = ('/dev/shm/libpod_lock', '/tmp/xrc_domain', '/tmp/xrc_domain_client', '/tmp/xrc_domain_server',
             '/dev/shm/sem.rsocket_fork')     # podman, perftest and rsockets keep them
OF_LINTIAN = '/tmp/mldbm-'            # lintian ignores TMPDIR
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

libc = ctypes.CDLL(None, use_errno=True)


def mount(what, where, kind, flags):
    if libc.mount(what.encode(), where.encode(), kind and kind.encode(), ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), f'mount {where}')


def is_kept(path):
    """The directory of `rocemu stat`, one for each user: the next process sweeps it."""
    return os.path.basename(path).startswith('rocemu-stat-') or path in OF_OTHERS or path.startswith(OF_LINTIAN)


class Places:
    """Directories that are empty at first."""

    def __init__(self):
        self.base = tempfile.mkdtemp(prefix='rocemu-')
        os.chmod(self.base, OPEN_TO_ALL)
        self.mounts = []
        self.watched, self.known = [self.base], set()
        os.environ['TMPDIR'] = self.base
        hidden = any(os.path.realpath(path).startswith('/tmp/') for path in (TOP, os.getcwd()))
        if os.geteuid() == 0 and not hidden and libc.unshare(CLONE_NEWNS) == 0:
            self.mount_all()

    def mount_all(self):
        os.makedirs('/run/netns', exist_ok=True)
        mount('none', '/', None, MS_REC | MS_PRIVATE)
        mount(self.base, '/tmp', None, MS_BIND)
        places = [place for place in ('/dev/shm', '/run/netns') if os.path.isdir(place)]
        for place in places:
            mount('none', place, 'tmpfs', 0)
        os.environ['TMPDIR'] = '/tmp'
        self.mounts = self.watched = ['/tmp', *places]

    def left(self, but=('/run/netns',)):
        """@return what is in them and was not there at the last call."""
        found = {os.path.join(place, name) for place in self.watched if place not in but for name in os.listdir(place)}
        new, self.known = found - self.known, self.known | found
        return sorted(path for path in new if not is_kept(path))

    def close(self):
        """@return the same; they are no more."""
        found = self.left(())
        for place in self.mounts:
            libc.umount2(place.encode(), MNT_DETACH)
        shutil.rmtree(self.base, ignore_errors=True)
        return found


def stat_of(pid):
    """(name, state, parent), or None: it has ended."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
            name, _, rest = f.read().partition('(')[2].rpartition(')')
    except OSError:
        return None
    state, parent = rest.split()[:2]
    return name, state, int(parent)


def descendants(let):
    """{pid: name} of processes that this one has, but for zombies and those with these names."""
    stats = {int(pid): stat for pid in os.listdir('/proc') if pid.isdigit() for stat in [stat_of(pid)] if stat}
    ours, before = {os.getpid()}, 0
    while len(ours) > before:
        before = len(ours)
        ours |= {pid for pid, (_, _, parent) in stats.items() if parent in ours}
    return {pid: stats[pid][0] for pid in ours - {os.getpid()} if stats[pid][1] != 'Z' and stats[pid][0] not in let}


def describe(pid, name):
    try:
        with open(f'/proc/{pid}/cmdline', encoding='utf-8', errors='replace') as f:
            command = f.read().replace('\0', ' ').strip()
        return f'process {pid}: {command or name} (in {os.readlink(f"/proc/{pid}/cwd")})'
    except OSError:
        return f'process {pid}: {name}'


def adopt():
    """What this process's descendants leave behind becomes its child."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for(pid):
    """Its status; reaps all others that end, as init does. None: interrupted, and so is the command, which has some time to end."""
    try:
        return reap_until(pid)
    except Terminated:
        os.kill(pid, signal.SIGINT)
    except KeyboardInterrupt:    # a terminal sends it to both
        pass
    set_alarm(INTERRUPTED_S)
    try:
        reap_until(pid)
    except (KeyboardInterrupt, Impatient):
        pass
    signal.alarm(0)
    return None


def reap_until(pid):
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


class Impatient(Exception):
    pass


class Terminated(KeyboardInterrupt):
    pass


def give_up(number, _):
    raise Impatient if number == signal.SIGALRM else Terminated


def set_alarm(seconds):
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)


def processes_left(let, patience_s):
    """Those that do not end by themselves, which this ends."""
    left = {}
    set_alarm(patience_s)
    try:
        while descendants(let):
            os.wait()
    except (Impatient, ChildProcessError):
        left = descendants(let)
    signal.alarm(0)
    found = [describe(*item) for item in sorted(left.items())]
    kill_all(let)
    return found


def kill_all(let=()):
    while True:
        left = descendants(let)
        if not left:
            return
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        os.wait()


def finish(status):
    """End as the command has ended."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.WEXITSTATUS(status)


def main():
    argv, let, patience_s = sys.argv[1:], set(), PATIENCE_S
    while argv[1:] and argv[0].startswith('--'):
        if argv[0] == '--let':
            let.add(argv[1])
        else:
            patience_s = int(argv[1])
        argv = argv[2:]
    if not argv:
        sys.exit(__doc__)
    adopt()
    signal.signal(signal.SIGTERM, give_up)
    places = Places()
    with subprocess.Popen(argv, close_fds=False) as p:
        status = wait_for(p.pid)
        p.returncode = 0    # it is reaped, or will be
    if status is None:
        kill_all()
        places.close()
        return 128 + signal.SIGINT
    left = processes_left(let, patience_s)
    left += places.close()
    if not left:
        return finish(status)
    print('\n'.join(['left behind:'] + [f'  {what}' for what in left]), flush=True)
    return LEFT_BEHIND


if __name__ == '__main__':
    sys.exit(main())
