# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs as server and client processes under `rocemu run`, and judges what they did.

Readiness is an event (the server's listening TCP port shows in its /proc/PID/net/tcp), every wait has a hang
guard, and a process that is ended is one that was started here, by its process ID.
"""
import ctypes
import ipaddress
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import users  # noqa: E402 # pylint: disable=wrong-import-position
from users import NOBODY  # noqa: E402,F401 # pylint: disable=wrong-import-position,unused-import

HANG_GUARD_S = 120
POLL_S = 0.01
LISTEN = '0A'
CLONE_NEWNET = 0x40000000

# The real devices of the test machine are not used.
os.environ['ROCEMU_REAL'] = 'off'


class Failure(Exception):
    """The case failed; the text has the details."""


class Skip(Exception):
    """The case cannot run here; the text has the reason."""


class Config:
    """Options of the runner's command line."""

    def __init__(self, build, sanitize=None):
        self.build = os.path.abspath(build)
        self.rocemu = os.path.join(self.build, 'tools', 'rocemu')
        self.sanitize = sanitize

    def program(self, *parts):
        return os.path.join(self.build, 'test', *parts)

    def need_part(self, part):
        """Skip where the build was configured with -DPART=disabled."""
        with open(os.path.join(self.build, 'meson-info', 'intro-buildoptions.json'), encoding='utf-8') as f:
            if any(o['name'] == part and o['value'] == 'disabled' for o in json.load(f)):
                raise Skip(f'this build has no {part}')


def need_user(user, *program):
    """Skip where no process can become that user, or where that user cannot run the program."""
    reason = users.why_not(user, *program)
    if reason:
        raise Skip(reason)


# ---- TCP ports -------------------------------------------------------------------------------------------

_ports = itertools.count(20000 + (os.getpid() * 61) % 9000)
_ports_lock = threading.Lock()


def listening(port, pid='self'):
    """Is a TCP port in LISTEN state in the network namespace of a process?"""
    for table in ('tcp', 'tcp6'):
        try:
            with open(f'/proc/{pid}/net/{table}', encoding='ascii') as f:
                for line in itertools.islice(f, 1, None):
                    column = line.split()
                    if column[3] == LISTEN and int(column[1].rsplit(':', 1)[1], 16) == port:
                        return True
        except OSError:
            pass
    return False


def new_port():
    """A TCP port without a listener, another one at each call."""
    with _ports_lock:
        while True:
            port = 20000 + (next(_ports) - 20000) % 12000
            if not listening(port):
                return port


# ---- processes -------------------------------------------------------------------------------------------

class Proc:
    """A process in a session of its own, output in files."""

    def __init__(self, argv, env=None, netns=None, name='process', cwd=None, user=None, wrapper=(), stdin=subprocess.DEVNULL):
        self.argv = [str(a) for a in argv]
        self.name = name
        self.env = dict(env or {})
        command = list(wrapper) + self.argv
        if user is not None:
            need_user(user, self.argv[0])
            command = users.command(user) + command
        if netns:
            command = ['ip', 'netns', 'exec', netns] + command
        self.begin = time.monotonic()
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(command, stdin=stdin, stdout=self.out, stderr=self.err,
                                      env={**os.environ, **self.env}, cwd=cwd, start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    def _read(self, f):
        f.flush()
        # The process writes at the offset that this descriptor shares with it: nothing here may set it.
        data = os.pread(f.fileno(), 1 << 24, 0)
        return data.decode('utf-8', 'replace')

    @property
    def stdout(self):
        return self._read(self.out)

    @property
    def stderr(self):
        return self._read(self.err)

    @property
    def output(self):
        return self.stdout + self.stderr

    def running(self):
        return self.popen.poll() is None

    def age(self):
        """Seconds since it was started."""
        return time.monotonic() - self.begin

    def wait(self, timeout=HANG_GUARD_S):
        """The exit code, negative for a signal."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            where = self.where()
            self.kill()
            raise Failure(f'{self.name} did not end within {timeout} s\n{where}\n{self.report()}') from None

    def where(self):
        """What the threads of the process wait for, for the report of a hang."""
        lines = []
        for pid in self.family():
            try:
                for tid in sorted(os.listdir(f'/proc/{pid}/task')):
                    with open(f'/proc/{pid}/task/{tid}/stat', encoding='ascii', errors='replace') as f:
                        state = f.read().rsplit(')', 1)[1].split()[0]
                    with open(f'/proc/{pid}/task/{tid}/wchan', encoding='ascii') as f:
                        wchan = f.read()
                    lines.append(f'  pid {pid} thread {tid}: state {state} in {wchan or "user space"}')
            except OSError:
                pass
        return '\n'.join(lines)

    def family(self):
        """The process and its descendants (those of its session)."""
        pids = [self.pid]
        for entry in os.listdir('/proc'):
            if entry.isdigit() and int(entry) != self.pid:
                try:
                    if os.getsid(int(entry)) == self.pid:
                        pids.append(int(entry))
                except OSError:
                    pass
        return pids

    def signal(self, sig):
        if self.running():
            self.popen.send_signal(sig)

    def kill(self):
        """End it and what it started in its session."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass
        self.popen.wait()

    def wait_until(self, condition, what, timeout=HANG_GUARD_S):
        """Poll for an event that has no file descriptor; the process has to live until it comes."""
        end = time.monotonic() + timeout
        while not condition():
            if not self.running() and not condition():
                raise Failure(f'{self.name} ended (exit code {self.popen.returncode}) before {what}\n{self.report()}')
            if time.monotonic() > end:
                where = self.where()
                raise Failure(f'{self.name}: {what} did not come within {timeout} s\n{where}\n{self.report()}')
            time.sleep(POLL_S)

    def wait_listening(self, port):
        self.wait_until(lambda: listening(port, self.pid), f'it listened on TCP port {port}')

    def report(self, lines=30):
        env = ' '.join(f'{k}={v}' for k, v in self.env.items())
        text = [f'  {self.name}: {env} {" ".join(self.argv)}  -> {self.popen.poll()}']
        for label, content in (('out', self.stdout), ('err', self.stderr)):
            rows = content.splitlines()
            if len(rows) > lines:
                rows = ['...'] + rows[-lines:]
            text += [f'    {label}| {row}' for row in rows]
        return '\n'.join(text)


def expect(condition, text, *procs):
    if not condition:
        raise Failure('\n'.join([text] + [p.report() for p in procs]))


# ---- rocemu ----------------------------------------------------------------------------------------------

def sanitizer_env(config):
    """Environment under which programs that were not built with the sanitizer load libraries that were."""
    if not config.sanitize:
        return {}
    library = {'address': 'libasan.so', 'thread': 'libtsan.so'}[config.sanitize]
    path = subprocess.run(['gcc', f'-print-file-name={library}'], capture_output=True, text=True,
                          check=True).stdout.strip()
    return {
        'LD_PRELOAD': os.path.realpath(path),
        # Stock programs leak at exit by habit.
        'ASAN_OPTIONS': 'detect_leaks=0:abort_on_error=0:exitcode=99',
        'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1:exitcode=99',
        'TSAN_OPTIONS': 'exitcode=99',
    }


class Side:
    """One of the two hosts of a topology: where a process runs and which device it sees."""

    def __init__(self, device, address, netns=None, name='dev0', tcp=None):
        self.device = device          # SPEC for `rocemu run --device`; None: without that option
        self.name = name              # of the device in that SPEC
        self.address = address        # of the GID to use
        self.tcp = tcp or address     # where the side's TCP server is reached
        self.netns = netns
        self.gid_index = None         # read from ibv_devinfo when first needed


def rocemu_argv(config, side, argv, options=()):
    device = ['--device', side.device] if side.device else []
    return [config.rocemu, 'run', *device, *options, '--', *argv]


def start(config, side, argv, name, env=None, options=(), user=None, cwd=None, stdin=subprocess.DEVNULL):
    merged = {**sanitizer_env(config), **(env or {})}
    return Proc(rocemu_argv(config, side, argv, options), env=merged, netns=side.netns, name=name, cwd=cwd, user=user,
                stdin=stdin)


def run(config, side, argv, name='program', env=None, options=(), timeout=HANG_GUARD_S, user=None):
    """Run one program to its end; returns the Proc."""
    p = start(config, side, argv, name, env, options, user)
    p.wait(timeout)
    return p


_gid_lock = threading.Lock()


def gid_index(config, side, env=None):
    """Index of the side's address in its device's GID table, by ibv_devinfo -v."""
    with _gid_lock:
        if side.gid_index is None:
            p = run(config, side, ['ibv_devinfo', '-v', '-d', side.name], 'ibv_devinfo', env)
            expect(p.popen.returncode == 0, 'ibv_devinfo failed', p)
            wanted = f'::ffff:{side.address}' if '.' in side.address else side.address
            for m in re.finditer(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', p.stdout):
                if same_address(m.group(2), wanted):
                    side.gid_index = int(m.group(1))
                    break
            else:
                raise Failure(f'no GID for {side.address}\n{p.report()}')
        return side.gid_index


def same_address(a, b):
    try:
        return ipaddress.IPv6Address(a.rstrip(',')) == ipaddress.IPv6Address(b)
    except ValueError:
        return False


class Topology:
    """Two sides and what they are called. `why_not` is a reason to skip, or None."""

    def __init__(self, name, server, client, why_not=None):
        self.name = name
        self.server = server
        self.client = client
        self.why_not = why_not

    def check(self):
        if self.why_not:
            raise Skip(self.why_not)


def pair(config, topo, server_argv, client_argv, env=None, server_env=None, client_env=None, server_options=(),
         client_options=(), port=None, expect_server=(0,), expect_client=(0,), timeout=HANG_GUARD_S):
    """A server and a client process; both must end with an exit code among the expected ones.

    `{port}` and `{server}` in the argument lists stand for the TCP port and the server's TCP address.
    """
    topo.check()
    port = port or new_port()

    def fill(argv):
        return [str(a).replace('{port}', str(port)).replace('{server}', topo.server.tcp) for a in argv]

    server = start(config, topo.server, fill(server_argv), 'server', {**(env or {}), **(server_env or {})},
                   server_options)
    client = None
    try:
        server.wait_listening(port)
        client = start(config, topo.client, fill(client_argv), 'client', {**(env or {}), **(client_env or {})},
                       client_options)
        end = time.monotonic() + timeout
        # When one has failed the other may wait for it forever: end it, and report both.
        for p, other, good in ((client, server, expect_client), (server, client, expect_server)):
            while p.running() and time.monotonic() < end:
                if not other.running() and other.popen.returncode not in (
                        expect_server if other is server else expect_client):
                    wait_gone(p, 5)
                    break
                wait_gone(p, 0.2)
            if p.running():
                hung = p.where() + '\n' + other.where()
                p.kill()
                other.kill()
                raise Failure(f'{p.name} hangs or lost its peer (guard {timeout} s)\n{hung}\n'
                              f'{server.report()}\n{client.report()}')
        expect(client.popen.returncode in expect_client, f'client exit code {client.popen.returncode}', server, client)
        expect(server.popen.returncode in expect_server, f'server exit code {server.popen.returncode}', server, client)
        return server, client
    finally:
        for p in (server, client):
            if p is not None and p.running():
                p.kill()


def wait_gone(p, timeout):
    """Wait for the end of a process for at most `timeout` seconds."""
    try:
        p.popen.wait(timeout)
    except subprocess.TimeoutExpired:
        pass


# ---- network namespaces ----------------------------------------------------------------------------------

def may_make_netns():
    """Can this process make network namespaces by name? (root, ip, and not in a narrow container)"""
    if os.geteuid() != 0:
        return 'network namespaces need root'
    if not shutil.which('ip'):
        return 'no ip command (package iproute2)'
    probe = f'rocemu-probe-{os.getpid()}-{threading.get_ident()}'
    p = subprocess.run(['ip', 'netns', 'add', probe], capture_output=True, text=True)
    if p.returncode != 0:
        return f'cannot make network namespaces here: {p.stderr.strip()}'
    subprocess.run(['ip', 'netns', 'delete', probe], check=False)
    return None


def own_loopback():
    """Put this process (and all that it starts) into a network namespace of its own with lo up, so that no
    other program's agent or port 4791 is in the way. Returns whether that was possible."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNET) != 0:
        return False
    return subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=False).returncode == 0


class VethPair:
    """Two network namespaces joined by a veth pair, made on entry and removed by close()."""

    serial = itertools.count()

    def __init__(self, mtu):
        n = next(self.serial)
        base = f'rocemu-{os.getpid()}-{n}'
        self.names = (base + 'a', base + 'b')
        self.v4 = (f'10.55.{n}.1', f'10.55.{n}.2')
        self.v6 = (f'fd55:{n}::1', f'fd55:{n}::2')
        self.mtu = mtu
        for name in self.names:
            self.ip('netns', 'add', name)
            self.ip('-n', name, 'link', 'set', 'lo', 'up')
        self.make()

    def make(self):
        """The pair itself, with addresses; again when it was removed."""
        a, b = self.names
        mtu = self.mtu
        self.ip('-n', a, 'link', 'add', 'veth0', 'mtu', mtu, 'type', 'veth',
                'peer', 'name', 'veth0', 'netns', b, 'mtu', mtu)
        for i, name in enumerate(self.names):
            self.ip('-n', name, 'address', 'add', self.v4[i] + '/24', 'dev', 'veth0')
            self.ip('-n', name, 'address', 'add', self.v6[i] + '/64', 'dev', 'veth0', 'nodad')
            self.ip('-n', name, 'link', 'set', 'veth0', 'up')
        self.wait_running()

    def wait_running(self):
        """The kernel reports the carrier a moment after both ends are up; until then their ports are not active."""
        end = time.monotonic() + 10
        for name in self.names:
            while 'state UP' not in self.ip('-n', name, 'link', 'show', 'veth0'):
                if time.monotonic() > end:
                    raise Failure(f'veth0 in {name} does not come up')
                time.sleep(POLL_S)

    @staticmethod
    def ip(*args):
        p = subprocess.run(['ip', *map(str, args)], capture_output=True, text=True)
        if p.returncode != 0:
            raise Failure(f'ip {" ".join(map(str, args))}: {p.stderr.strip()}')
        return p.stdout

    def close(self):
        for name in self.names:
            subprocess.run(['ip', 'netns', 'delete', name], capture_output=True, check=False)


class Lab:
    """The topologies by name; namespaces are made at the first use."""

    NAMES = ('lo', 'lo-two', 'lo6', 'veth1500-v4', 'veth1500-v6', 'veth9000-v4', 'veth9000-v6')

    def __init__(self, config):
        self.config = config
        self.known = {}
        self.veths = {}
        self.lock = threading.Lock()
        self.why_no_netns = None

    def get(self, name):
        with self.lock:
            if name not in self.known:
                self.known[name] = self._make(name)
            return self.known[name]

    def _make(self, name):
        if name == 'lo':
            return Topology(name, Side('dev0=lo', '127.0.0.1'), Side('dev0=lo', '127.0.0.1'))
        if name == 'lo-two':
            return Topology(name, Side('hosta=127.0.0.1', '127.0.0.1', name='hosta'),
                            Side('hostb=127.0.0.2', '127.0.0.2', name='hostb'))
        if name == 'lo6':
            # perftest and the pingpongs reach each other by TCP over IPv4 in any case.
            return Topology(name, Side('dev0=lo', '::1', tcp='127.0.0.1'), Side('dev0=lo', '::1', tcp='127.0.0.1'))
        kind, family = name.split('-')
        return self._veth(name, int(kind[len('veth'):]), 0 if family == 'v4' else 1)

    def _veth(self, name, mtu, family):
        if mtu not in self.veths:
            self.why_no_netns = may_make_netns()
            self.veths[mtu] = None if self.why_no_netns else VethPair(mtu)
        veth = self.veths[mtu]
        if veth is None:
            nowhere = Side('dev0=veth0', '0.0.0.0')
            return Topology(name, nowhere, nowhere, self.why_no_netns)
        address = (veth.v4, veth.v6)[family]
        sides = [Side('dev0=veth0', address[i], veth.names[i], tcp=veth.v4[i]) for i in (0, 1)]
        return Topology(name, sides[0], sides[1])

    def close(self):
        for veth in self.veths.values():
            if veth is not None:
                veth.close()


# ---- cases -----------------------------------------------------------------------------------------------

QUICK, NORMAL, FULL = 0, 1, 2


class Case:
    """A test case: a name (group/what/where/...), when it runs, and a function of (config, lab)."""

    def __init__(self, name, function, level=NORMAL, alone=False, needs=()):
        self.name = name
        self.function = function
        self.level = level
        self.alone = alone            # it measures times, or needs much of the machine
        self.needs = needs            # programs that must be there

    def run(self, config, lab):
        for program in self.needs:
            if not shutil.which(program):
                raise Skip(f'{program} is not installed')
        config.need_part(self.name.split('/')[0])
        return self.function(config, lab)
