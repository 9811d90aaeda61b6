# SPDX-License-Identifier: BSD-2-Clause
"""What killed runs leave in the file system: the next run of the same user sweeps it, and nothing else."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from harness import HANG_GUARD_S, NORMAL, POLL_S, Case, Side, Skip, expect, rocemu_argv, run, sanitizer_env, start

SIDE = Side('dev0=lo', '127.0.0.1')
DEV = 'sys/class/infiniband/dev0'
NOBODY = 65534
MANY = 12
RUNS = 4


class Place:
    """A directory for trees, which other tests do not use; what is in memory is in /dev/shm."""

    def __init__(self, user=None):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix='swept-'))
        self.user = user
        self.env = {'XDG_RUNTIME_DIR': str(self.path)}
        os.chmod(self.path, 0o1777)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def start(self, config):
        """A program in a tree. @return its process, the tree's root"""
        p = start(config, SIDE, ['sh', '-c', 'echo $ROCEMU_PATHS; exec sleep 1000'], 'sleep', self.env, user=self.user)
        p.wait_until(lambda: p.stdout.endswith('\n'), 'it said where')
        root = pathlib.Path(p.stdout.strip())
        expect(root.parent == self.path, f'the tree is in {root}', p)
        wait_for((root / DEV).exists, f'{root} has the device')
        return p, root

    def kill_all(self, config):
        """A tree that has lost its program and the process that keeps it. @return the directories"""
        p, root = self.start(config)
        dirs = directories(root)
        kill_keeper(dirs[-1])
        p.kill()
        return dirs

    def sweep(self, config, user=None):
        """A run, and the end of its own tree."""
        p = run(config, SIDE, ['sh', '-c', 'echo $ROCEMU_PATHS'], env=self.env, user=self.user if user is None else user)
        expect(p.popen.returncode == 0 and not p.stderr, 'the run failed', p)
        root = pathlib.Path(p.stdout.strip())
        expect(root.parent == self.path, f'it has no tree in {self.path}', p)
        wait_for(lambda: not root.exists(), f'{root} is removed')
        wait_for(lambda: not sweepers(self.path), f'{self.path} is swept')

    def is_empty(self):
        return not list(self.path.iterdir())

    def wait_empty(self):
        wait_for(self.is_empty, f'{self.path} is empty')


def wait_for(condition, what):
    end = time.monotonic() + HANG_GUARD_S
    while not condition():
        expect(time.monotonic() < end, f'not reached: {what}')
        time.sleep(POLL_S)


def directories(root):
    """A tree's root and the directory with what processes share, which may be in it."""
    shared = (root / 'shared').resolve()
    return [root] if shared.parent == root else [root, shared]


def keeper(directory):
    """The process that keeps a tree, None: it is not there yet."""
    users = [str(directory / name) for name in ('users', 'shared/users')]
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if pathlib.Path(f'/proc/{pid}/comm').read_text(encoding='utf-8') == 'rocemu-paths\n' and \
                    any(os.readlink(fd) in users for fd in pathlib.Path(f'/proc/{pid}/fd').iterdir()):
                return int(pid)
        except OSError:
            pass
    return None


def sweepers(path):
    """The processes that sweep a place. A run's is there before its own tree is removed."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if pathlib.Path(f'/proc/{pid}/comm').read_text(encoding='utf-8') == 'rocemu-sweep\n' and \
                    os.fsencode(path) in pathlib.Path(f'/proc/{pid}/environ').read_bytes():
                return True
        except OSError:
            pass
    return False


def has_ended(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='utf-8').rpartition(')')[2].split()[0] == 'Z'
    except OSError:
        return True


def kill_keeper(directory):
    wait_for(lambda: keeper(directory), f'a process keeps {directory}')
    pid = keeper(directory)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: has_ended(pid), f'process {pid} ended')


def killed(config, _lab):
    """A tree whose processes were killed is there until the next run, also where only its maker was killed."""
    with Place() as place:
        dirs = place.kill_all(config)
        expect(dirs[0].exists(), f'{dirs[0]} has gone by itself')
        place.sweep(config)
        wait_for(lambda: not any(d.exists() for d in dirs), f'{dirs} are swept')
        # The maker was killed after each of its steps; and a sweeper in the middle.
        name = dirs[0].name[:-6]
        for i, steps in enumerate(((), ('shared',), ('shared', 'shared/users'), ('shared', 'shared/users', 'sys'))):
            root = place.path / f'{name}steps{i}'
            for step in ('', *steps):
                os.mkfifo(root / step, 0o600) if step.endswith('users') else (root / step).mkdir()
        (place.path / f'{name}swept0').mkdir()
        (place.path / f'{name}swept0' / 'shared').symlink_to(f'/dev/shm/{name}absent')
        (place.path / f'{name}swept0' / 'sys').mkdir()
        place.sweep(config)
        place.wait_empty()


def group(config, _lab):
    """A signal to the program's process group, when the program has just started, is not for the process that keeps the tree."""
    with Place() as place:
        p = run(config, SIDE, ['sh', '-c', 'kill -KILL 0'], env={**place.env, 'LD_PRELOAD': config.program('prog', 'liblate-session.so')})
        expect(p.popen.returncode == -signal.SIGKILL, 'the program was not killed', p)
        place.wait_empty()


def alive(config, _lab):
    """A program in the tree keeps it, with and without the process that keeps it."""
    with Place() as place:
        p, root = place.start(config)
        dirs = directories(root)
        try:
            for kept in (True, False):
                if not kept:
                    kill_keeper(dirs[-1])
                place.sweep(config)
                expect((root / DEV / 'node_type').exists() and all(d.exists() for d in dirs), f'{root} was swept, kept={kept}', p)
        finally:
            p.kill()
        place.sweep(config)
        place.wait_empty()


def kept(config, _lab):
    """What the process that keeps a tree will remove is left to it."""
    with Place() as place:
        p, root = place.start(config)
        dirs = directories(root)
        wait_for(lambda: keeper(dirs[-1]), f'a process keeps {root}')
        pid = keeper(dirs[-1])
        os.kill(pid, signal.SIGSTOP)
        try:
            p.kill()
            place.sweep(config)
            expect((root / DEV / 'node_type').exists() and all(d.exists() for d in dirs), f'{root} was swept', p)
        finally:
            os.kill(pid, signal.SIGCONT)
        place.wait_empty()


def others(config, _lab):
    """What is not this user's tree stays: files with such a name, links, another user's."""
    with Place() as place:
        prefix = place.kill_all(config)[0].name[:-6]
        place.sweep(config)
        place.wait_empty()
        precious = place.path / 'precious'
        precious.mkdir()
        (precious / 'file').write_text('x', encoding='ascii')
        (place.path / f'{prefix}link00').symlink_to(precious)
        (place.path / f'{prefix}full00').mkdir()
        (place.path / f'{prefix}full00' / 'file').write_text('x', encoding='ascii')
        (place.path / f'{prefix}file00').write_text('x', encoding='ascii')
        # Of another host that has the same file system.
        elsewhere = place.path / 'rocemu-paths-00000000-abcdef'
        (elsewhere / 'shared').mkdir(parents=True)
        os.mkfifo(elsewhere / 'shared' / 'users', 0o600)
        before = sorted(place.path.rglob('*'))
        place.sweep(config)
        wait_for(lambda: sorted(place.path.rglob('*')) == before, f'{before} are there, and nothing else')


def other_user(config, _lab):
    if os.geteuid() != 0:
        raise Skip('a process of another user needs root')
    with Place(NOBODY) as place:
        dirs = place.kill_all(config)
        place.sweep(config, 0)
        expect(dirs[0].exists() and (dirs[-1] / 'counters' if len(dirs) > 1 else dirs[0]).exists(), f'{dirs} were another user\'s')
        place.sweep(config)
        wait_for(lambda: not any(d.exists() for d in dirs), f'{dirs} are swept by their user')


def together(config, _lab):
    """Runs that sweep at the same time, while others are made and killed at any moment."""
    with Place() as place:
        prefix = place.kill_all(config)[0].name[:-6]
        for i in range(MANY):
            root = place.path / f'{prefix}many{i:02}'
            (root / 'shared' / 'counters').mkdir(parents=True)
            os.mkfifo(root / 'shared' / 'users', 0o600)
            (root / 'sys').mkdir()
        argv = [str(a) for a in rocemu_argv(config, SIDE, ['true'])]
        env = {**os.environ, **sanitizer_env(config), **place.env}
        for i in range(MANY):
            short = subprocess.Popen(['timeout', '-s', 'KILL', f'{i / 500:.3f}', *argv], env=env)
            runs = [subprocess.Popen(argv, env=env, stderr=subprocess.PIPE) for _ in range(RUNS)] if i % 6 == 0 else []
            for p in runs:
                said = p.communicate()[1]
                expect(p.returncode == 0 and not said, f'a run failed: {said}')
            short.wait()
        # Processes that a killed run has just started may be users for a moment.
        wait_for(lambda: place.sweep(config) or place.is_empty(), f'{place.path} is swept')


def cases():
    yield Case('swept/killed', killed, NORMAL)
    yield Case('swept/group', group, NORMAL)
    yield Case('swept/alive', alive, NORMAL)
    yield Case('swept/kept', kept, NORMAL)
    yield Case('swept/others', others, NORMAL)
    yield Case('swept/other-user', other_user, NORMAL)
    yield Case('swept/together', together, NORMAL)
