#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The two commands, tools/quickstart.sh and test/run.sh, on machines that are not like a developer's: each runs in each
environment, and has to work there, or to end with one line that names the remedy.

Environments are made of namespaces, so that nothing of the machine changes; the checkout in them is an overlay. The
cases environment/NAME run what is built in build/, and a few tests. Those of clone/NAME make a fresh clone, build there
and run the quick tests, which takes an hour for all.

  /usr/bin/python3 -m pytest test/install --build build [--full] [--only 'clone/spaces']
"""
import ctypes
import dataclasses
import functools
import os
import pathlib
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TOP / 'test' / 'lib'), str(TOP / 'test' / 'prog')]

import harness  # noqa: E402 # pylint: disable=wrong-import-position
import users  # noqa: E402 # pylint: disable=wrong-import-position

GUARD_S = 3600
# A cover of what an environment can break: parameters of memory, sockets, threads, the agent, stock programs, messages.
TESTS = ('base/base-cli', 'netdev/netdev-netdev', 'engine/engine-forward', 'engine/engine-shm-ring', 'agent/agent-passed', 'verbs/verbs-device',
         'devices/ibv_devinfo', 'badinput/run_not')
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
MEMORY = 512 << 20
PREPARE = '''
top=$1 scratch=$2 place=$3; shift 3
ip link set lo up
mkdir -p "$place" "$scratch/upper" "$scratch/work" "$scratch/tmp"
chmod 755 "$scratch"; chmod 1777 "$scratch/tmp"
mount -t overlay -o "lowerdir=$top,upperdir=$scratch/upper,workdir=$scratch/work" none "$place"
mount --bind "$scratch/tmp" /tmp
[ ! -d /dev/shm ] || mount -t tmpfs none /dev/shm
cd "$place"
'''
OWN = ('find . -name .git -prune -o -type d -exec chown {user}:{user} {{}} +; '
       'chown -R {user}:{user} build/meson-logs build/meson-private build/*.json build/.ninja* build/quickstart 2>/dev/null || true')
BARE_DEV = '''
mkdir "$scratch/dev"; mount -t tmpfs none "$scratch/dev"
for node in null zero full random urandom tty; do touch "$scratch/dev/$node"; mount --bind "/dev/$node" "$scratch/dev/$node"; done
ln -s /proc/self/fd "$scratch/dev/fd"
mount --move "$scratch/dev" /dev
'''


@dataclasses.dataclass
class Environment:
    name: str
    prepare: str = ':'          # by root, in the environment's namespaces; $scratch is a directory of its own
    first: tuple = ()           # words before the command
    env: dict = dataclasses.field(default_factory=dict)
    unset: tuple = ()
    refused: str = ''           # what the one line has, where the commands cannot work
    user: int = 0
    place: str = ''             # of the checkout; below the scratch directory
    both: bool = True           # the tests as well


def environments(scratch):
    """One row for each."""
    me, nobody = [sys.executable, __file__], users.command(users.NOBODY)
    own = OWN.format(user=users.NOBODY)
    bare = ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--no-new-privs']
    turkish, german = ({'LANG': name, 'LC_ALL': name, 'LOCPATH': f'{scratch}/locales'} for name in ('tr_TR.UTF-8', 'de_DE.UTF-8'))
    locale = '[ -d "$scratch/locales" ] || {{ mkdir "$scratch/locales"; localedef -i {0} -f UTF-8 "$scratch/locales/{0}.UTF-8"; }}'
    home = {'HOME': f'{scratch}/tmp'}
    return [
        Environment('user', own, tuple(nobody), home, user=users.NOBODY),
        Environment('user-namespace', own, (*nobody, 'unshare', '-r', '-n', 'sh', '-c', 'ip link set lo up; exec "$@"', 'sh'), home,
                    user=users.NOBODY),
        Environment('user-namespace-lo-down', own, (*nobody, 'unshare', '-r', '-n'), home, user=users.NOBODY, refused='lo up', both=False),
        Environment('no-ipv6', 'sysctl -qw net.ipv6.conf.all.disable_ipv6=1 || true', (*me, '--without-ipv6')),
        Environment('shm-64k', 'mount -t tmpfs -o size=64k none /dev/shm'),
        Environment('no-shm', BARE_DEV),
        Environment('spaces', place='a clone/of ours'),
        Environment('umask-077', 'chmod 700 .', ('sh', '-c', 'umask 077; exec "$@"', 'sh')),
        Environment('turkish', locale.format('tr_TR'), env=turkish),
        Environment('german', locale.format('de_DE'), env=german),
        Environment('no-home', unset=('HOME', 'XDG_RUNTIME_DIR', 'XDG_CACHE_HOME', 'USER', 'LOGNAME')),
        Environment('descriptors-256', first=('prlimit', '--nofile=256:256')),
        Environment('one-cpu', first=('taskset', '-c', str(min(os.sched_getaffinity(0))))),
        Environment('memory-512m', first=(*me, '--memory')),
        Environment('read-only-root', 'mount -o remount,ro,bind /'),
        Environment('read-only', 'mount -o remount,ro "$place"', refused='copy of your own'),
        Environment('no-capabilities', first=tuple(bare)),
        Environment('tmpdir', env={'TMPDIR': '/nonexistent'}, refused='TMPDIR'),
        Environment('other-users-checkout', ':', tuple(nobody), home, user=users.NOBODY, refused='copy of your own'),
    ]


# ---- what this program is in an environment itself ---------------------------------------------------------

def without_ipv6(argv):
    """The command, for which the kernel has no sockets of IPv6."""
    number = {'x86_64': 41, 'aarch64': 198}[platform.machine()]
    load, equal, ret = 0x20, 0x15, 0x06
    errno_afnosupport, allow = 0x00050000 | 97, 0x7fff0000
    program = [(load, 0, 0, 0), (equal, 0, 3, number), (load, 0, 0, 16), (equal, 0, 1, socket.AF_INET6), (ret, 0, 0, errno_afnosupport),
               (ret, 0, 0, allow)]
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *row) for row in program))
    filters = struct.pack('HxxxxxxP', len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filters, 0, 0):    # no new privileges; seccomp, a filter
        sys.exit(f'no seccomp filter here: {os.strerror(ctypes.get_errno())}')
    os.execvp(argv[0], argv)


def with_memory(argv):
    """The command in a memory cgroup of its own, or where none can be made, with that address space for each process."""
    group = pathlib.Path(f'/sys/fs/cgroup/memory/rocemu-environment-{os.getpid()}-{time.time_ns()}')
    try:
        group.mkdir()
        (group / 'memory.limit_in_bytes').write_text(str(MEMORY), encoding='ascii')
    except OSError:
        os.execvp('prlimit', ['prlimit', f'--as={MEMORY}', *argv])
    p = subprocess.run(['sh', '-c', 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(group), *argv], check=False)
    kernel = (group / 'memory.oom_control').read_text(encoding='ascii')
    for pid in (group / 'cgroup.procs').read_text(encoding='ascii').split():    # agents
        pathlib.Path('/sys/fs/cgroup/memory/cgroup.procs').write_text(pid, encoding='ascii')
    group.rmdir()
    if 'oom_kill 0' not in kernel:
        sys.exit(f'more than {MEMORY >> 20} MiB: {kernel}')
    sys.exit(p.returncode)


# ---- running -------------------------------------------------------------------------------------------------

def inside(e, scratch, top, command):
    """@return exit code, output of the command in the environment."""
    place = f'{scratch}/{e.place}' if e.place else str(top)
    namespaces = ['unshare', '--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private']
    if os.geteuid() != 0:
        namespaces.append('--map-root-user')
    environment = {name: value for name, value in os.environ.items() if name not in e.unset and name != 'TMPDIR'}
    p = subprocess.run([*namespaces, 'sh', '-ec', f'{PREPARE}{e.prepare}\nexec "$@"', 'sh', str(top), str(scratch), place, *e.first, *command],
                       env={**environment, 'ROCEMU_NO_INSTALL': '1', 'ROCEMU_REAL': 'off', 'PATH': PATH, **e.env}, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=GUARD_S, check=False)
    return p.returncode, p.stdout


def check(e, name, code, text):
    """What the command printed is what it is to print there."""
    lines = [line for line in text.splitlines() if line]
    excerpt = '\n'.join([line for line in lines[:-25] if line.startswith(('FAIL ', '  FAIL '))] + lines[-25:])
    if e.refused:
        said = [line for line in lines if not line.startswith(('== ', 'rocemu: ROCEMU_NO_INSTALL', 'all there'))]
        if code == 0 or len(said) != 1 or e.refused not in said[0]:
            raise harness.Failure(f'{name}: exit code {code}, expected one line with "{e.refused}"\n{excerpt}')
    elif code != 0 or not (name != 'quickstart' or '== done' in lines):
        raise harness.Failure(f'{name}: exit code {code}\n{excerpt}')
    return lines[-1] if lines else ''


def run(e, scratch, clone):
    top = TOP
    quickstart, tests = ['tools/quickstart.sh', '--no-build'], ['test/run.sh', '--no-build', *(w for t in TESTS for w in ('--only', t))]
    if clone:
        top = scratch.with_name(f'{scratch.name}-clone') / 'rocemu'     # other users reach it
        subprocess.run(['git', 'clone', '--quiet', str(TOP), str(top)], check=True)
        quickstart, tests = ['tools/quickstart.sh'], ['test/run.sh', '--quick']
    said = [check(e, 'quickstart', *inside(e, scratch, top, quickstart))]
    if e.both:
        for part in ('upper', 'work', 'tmp', 'dev'):
            shutil.rmtree(scratch / part, ignore_errors=True)
        said.append(check(e, 'tests', *inside(e, scratch, top, tests)))
    return said[-1]


@functools.lru_cache(None)
def why_not():
    """Why no environment can be made here."""
    with tempfile.TemporaryDirectory(dir='/var/tmp', prefix='rocemu-env-') as scratch:
        code, text = inside(Environment('probe'), pathlib.Path(scratch), TOP, ['true'])
    return f'no environment can be made here: {text.strip()}' if code else None


class Case:
    def __init__(self, name, clone):
        self.environment, self.clone = name, clone
        self.name = f'{"clone" if clone else "environment"}/{name}'
        self.level = harness.FULL if clone else harness.NORMAL

    def run(self, _config, _lab):
        os.chdir(TOP)
        with tempfile.TemporaryDirectory(dir='/var/tmp', prefix='rocemu-env-') as base:
            os.chmod(base, 0o755)
            scratch = pathlib.Path(base) / self.environment
            scratch.mkdir()
            e = next(e for e in environments(scratch) if e.name == self.environment)
            reason = why_not() or (users.why_not(e.user, 'tools/quickstart.sh') if e.user else None)
            if reason:
                raise harness.Skip(reason)
            return run(e, scratch, self.clone)


def cases():
    return [Case(e.name, clone) for clone in (False, True) for e in environments(pathlib.Path('/'))]


if __name__ == '__main__':
    {'--without-ipv6': without_ipv6, '--memory': with_memory}[sys.argv[1]](sys.argv[2:])
