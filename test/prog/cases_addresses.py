# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces with no address, and with many: what is listed and printed, and what it costs.

Costs are CPU times of the processes, which depend little on what else the machine does. On a slow machine the bound follows
the CPU time that ip(8) took to make the addresses.
"""
import itertools
import json
import os
import re
import resource
import subprocess

from cases_cm import asked_too_late
from harness import HANG_GUARD_S, NORMAL, QUICK, Case, Proc, Side, Skip, expect, may_make_netns, run, start

MANY = 1000
CPU_S = 0.5                           # of each command with so many addresses, or IP_TIMES what ip(8) took
IP_TIMES = 3


class Plain:
    """A process that has ended, as harness.expect() shows it."""

    def __init__(self, argv, p):
        self.argv, self.code, self.stdout, self.stderr = argv, p.returncode, p.stdout, p.stderr

    def report(self):
        return f'  {" ".join(self.argv)} -> {self.code}\n    out| {self.stdout}\n    err| {self.stderr}'


def unshared(script):
    """Run a shell script as root of a new network namespace, as any user may."""
    argv = ['unshare', '-r', '-n', 'sh', '-c', script]
    p = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    if 'unshare:' in p.stderr:
        raise Skip(p.stderr.strip())
    return Plain(argv, p)


def none(config, _lab):
    """The first thing that people try: a fresh namespace, in which lo is down."""
    said = 'no device: no interface has a usable address: lo is down: `ip link set lo up`\n'
    for option, out in (('', ''), ('--json', '[]\n')):
        p = unshared(f'{config.rocemu} devices {option}')
        expect(p.code == 1 and p.stdout == out and p.stderr == f'rocemu devices: {said}', 'not said by devices', p)
    p = unshared(f'{config.rocemu} run --log why -- ibv_devinfo')
    expect(f'rocemu: why: ibv_get_device_list: {said}' in p.stderr and 'No IB devices' in p.stderr, 'no reason', p)
    p = unshared(f'{config.rocemu} run --log why -- rping -s')
    expect(said in p.stderr, 'no reason for rdma_cm', p)
    # The command that is printed mends it.
    command = re.search('`(.*)`', said).group(1)
    p = unshared(f'{command} && {config.rocemu} devices')
    expect(p.code == 0 and 'rocemu_lo' in p.stdout and not p.stderr, 'the command does not help', p)


def none_usable(config, _lab):
    """Each interface is named with what it lacks."""
    p = unshared('ip link set lo up; ip address flush dev lo; ip link add v1 type veth peer name v2; ip link set v2 addrgenmode none up; '
                 'ip link add br0 type bridge; ip link set v1 master br0; '
                 f'{config.rocemu} devices')
    for text in ('lo has no address: `ip address add 127.0.0.1/8 dev lo`',
                 'v2 has no address: `ip address add ADDRESS/PREFIX dev v2`',
                 'br0 is down and has no address: `ip address add ADDRESS/PREFIX dev br0`, `ip link set br0 up`',
                 'v1 is a port of a bridge: give that an address, or `--device v1`'):
        expect(text in p.stderr and p.code == 1, f'"{text}" is not said', p)


# ---- a thousand addresses --------------------------------------------------------------------------------

def interfaces4(n):
    """Interfaces with an IPv4 address each: both ends of veth pairs."""
    for i in range(n // 2):
        yield f'link add v{i} type veth peer name w{i}'
        for end, second in (('v', 11), ('w', 12)):
            yield f'link set {end}{i} addrgenmode none up'
            yield f'address add 10.{second}.{i // 250}.{i % 250 + 1}/32 dev {end}{i}'


def interfaces6(n):
    """The same with an IPv6 address each."""
    for line in interfaces4(n):
        m = re.match(r'address add 10\.(\d+)\.(\d+)\.(\d+)/32 dev (\S+)', line)
        yield f'address add fd00:{m[1]}:{m[2]}::{m[3]}/128 dev {m[4]} nodad' if m else line


def addresses(n, text):
    """One interface with all of them."""
    yield 'link add v0 type veth peer name w0'
    yield 'link set v0 addrgenmode none up'
    yield 'link set w0 addrgenmode none up'
    for i in range(n):
        yield f'address add {text(i)} dev v0'


def addresses4(n):
    return addresses(n, lambda i: f'10.11.{i // 250}.{i % 250 + 1}/16')


def addresses6(n):
    return addresses(n, lambda i: f'fd00:11::{i + 1:x}/64 nodad')


KINDS = {'interfaces.ipv4': (interfaces4, '10.12.1.7'), 'interfaces.ipv6': (interfaces6, 'fd00:12:1::7'),
         'addresses.ipv4': (addresses4, '10.11.0.7'), 'addresses.ipv6': (addresses6, f'fd00:11::{MANY:x}')}   # the kernel lists the last one first


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Net:
    """A network namespace in which ip(8) has run the lines."""

    serial = itertools.count()

    def __init__(self, lines=()):
        why_not = may_make_netns()
        if why_not:
            raise Skip(why_not)
        self.name = f'rocemu-many-{os.getpid()}-{next(self.serial)}'
        subprocess.run(['ip', 'netns', 'add', self.name], check=True)
        before = children_cpu_s()
        self.batch(['link set lo up', *lines])
        self.bound_s = max(CPU_S, IP_TIMES * (children_cpu_s() - before))

    def batch(self, lines):
        p = subprocess.run(['ip', '-n', self.name, '-batch', '-'], input='\n'.join(lines) + '\n', capture_output=True, text=True,
                           check=False)
        expect(p.returncode == 0, f'ip: {p.stderr[:500]}')

    def run(self, *argv):
        """A command, which must succeed within the CPU time; its output."""
        before = children_cpu_s()
        p = Proc(argv, netns=self.name, name=argv[0])
        p.wait()
        used = children_cpu_s() - before
        expect(p.popen.returncode == 0, 'failed', p)
        expect(used < self.bound_s, f'{" ".join(argv)}: {used:.2f} s of CPU time, not {self.bound_s:.2f}', p)
        return p.stdout

    def close(self):
        for pid in subprocess.run(['ip', 'netns', 'pids', self.name], capture_output=True, text=True, check=False).stdout.split():
            try:
                os.kill(int(pid), 9)
            except OSError:
                pass
        subprocess.run(['ip', 'netns', 'delete', self.name], check=False)


def cpu_s(pid):
    """Of all threads that the process has now."""
    used = 0
    for tid in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{tid}/schedstat', encoding='ascii') as f:
            used += int(f.read().split()[0])
    return used / 1e9


def descriptors(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


class Agent:
    """What the agent of a namespace has, for its only client of connection management."""

    def __init__(self, config, net):
        p = subprocess.run(['ip', 'netns', 'exec', net.name, config.rocemu, 'agent', '--status', '--json'], capture_output=True,
                           text=True, check=False)
        status = json.loads(p.stdout) if p.returncode == 0 else {'pid': 0, 'addresses': [], 'cm': {'clients': [], 'listeners': []}}
        self.pid = status['pid']
        self.groups = len(status['addresses'])
        self.opened = sum(c['addresses'] for c in status['cm']['clients'])
        self.listens = bool(status['cm']['listeners'])


def listener(config, net, side, argv):
    """A server that listens on all addresses."""
    p = start(config, side, argv, 'server')
    p.wait_until(lambda: Agent(config, net).listens, 'it listened')
    return p


def thousand(kind):
    def check(config, _lab):
        lines, address = KINDS[kind]
        net = Net(lines(MANY))
        side = Side(None, address, net.name)
        server = None
        try:
            several = kind.startswith('interfaces')
            devices = json.loads(net.run(config.rocemu, 'devices', '--json'))
            expect(len(devices) == (MANY if several else 1), f'{len(devices)} devices')
            listed = net.run(config.rocemu, 'run', '--', 'ibv_devinfo', '-l')
            expect(listed.count('rocemu_') == len(devices), listed)
            server = listener(config, net, side, ['rping', '-s', '-C', '1', '-v', '-a', '::' if ':' in address else '0.0.0.0'])
            agent = Agent(config, net)
            expect(agent.opened >= (MANY if several else 64), f'{agent.opened} addresses are open', server)
            for pid, name in ((server.pid, 'the server'), (agent.pid, 'the agent')):
                used = cpu_s(pid)
                expect(used < net.bound_s, f'{name} took {used:.2f} s of CPU time, not {net.bound_s:.2f}', server)
            expect(descriptors(server.pid) < 64, f'the server has {descriptors(server.pid)} descriptors', server)
            net.run(config.rocemu, 'run', '--', 'rping', '-c', '-C', '1', '-a', address)
            expect((server.wait() == 0 or asked_too_late(server)) and 'rdma-ping-0' in server.stdout, 'no ping', server)
        finally:
            if server is not None:
                server.kill()
            close(config, net)
    return check


def come_and_go(config, _lab):
    """A thousand interfaces are added and removed while a server listens: it follows, and nothing of them is left."""
    net = Net()
    side = Side(None, '127.0.0.1', net.name)
    server = None
    try:
        server = listener(config, net, side, ['rping', '-s', '-P', '-v'])
        few, fds = Agent(config, net).opened, descriptors(server.pid)
        for _ in range(2):
            net.batch([*interfaces4(MANY), *(f'link set v{i} group 7' for i in range(MANY // 2))])
            server.wait_until(lambda: Agent(config, net).opened >= few + MANY, 'it listened on all')
            used = cpu_s(server.pid)
            net.batch(['link delete group 7'])
            server.wait_until(lambda: Agent(config, net).opened == few, 'it listened on no more than before')
        server.wait_until(lambda: Agent(config, net).groups <= few, 'the agent has closed its sockets')
        expect(used < 4 * CPU_S, f'the server took {used:.2f} s of CPU time', server)
        expect(descriptors(server.pid) <= fds + 2, f'{fds} descriptors, then {descriptors(server.pid)}', server)
        client = run(config, side, ['rping', '-c', '-C', '1', '-a', '127.0.0.1'], 'client')
        expect(client.popen.returncode == 0, 'the server does not serve', client, server)
    finally:
        if server is not None:
            server.kill()
        net.close()


def close(config, net):
    """The tree of a thousand devices may be being filled by a process that is killed now: the next run removes it."""
    net.close()
    subprocess.run([config.rocemu, 'run', '--', 'true'], check=True)


def one_by_one(config, _lab):
    """A thousand addresses are added to a device's interface: a read of it for each would take a million steps."""
    net = Net(list(addresses4(1)))
    side = Side('dev0=v0', '10.11.0.1', net.name)
    watch = None
    try:
        watch = start(config, side, ['stdbuf', '-oL', 'ibv_asyncwatch', '-d', 'dev0'], 'ibv_asyncwatch')
        watch.wait_until(lambda: 'async event FD' in watch.stdout, 'it watched')
        net.batch(list(addresses4(MANY))[len(list(addresses4(1))):])
        # The last event: of a link, after all others.
        net.batch(['link set w0 down'])
        watch.wait_until(lambda: 'PORT_ERR' in watch.stdout, 'it followed')
        expect('GID_CHANGE' in watch.stdout, 'no event', watch)
        used = cpu_s(watch.pid)
        expect(used < CPU_S, f'{used:.2f} s of CPU time', watch)
    finally:
        if watch is not None:
            watch.kill()
        close(config, net)


def cases():
    return [
        Case('addresses/none', none, QUICK, needs=('unshare', 'ip', 'rping')),
        Case('addresses/none-usable', none_usable, NORMAL, needs=('unshare', 'ip')),
        *(Case(f'addresses/thousand.{kind}', thousand(kind), NORMAL, alone=True, needs=('rping',)) for kind in KINDS),
        Case('addresses/come-and-go', come_and_go, NORMAL, alone=True, needs=('rping',)),
        Case('addresses/one-by-one', one_by_one, NORMAL, needs=('ibv_asyncwatch', 'stdbuf')),
    ]
