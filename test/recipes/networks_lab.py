# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that are network namespaces, the links between them, and programs that run on them.

A host's namespace lives as long as the process that holds it, which ends with this one: nothing is
left behind under /run/netns.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
sys.path.insert(0, os.path.join(HERE, '..', 'prog'))

import netns  # noqa: E402 # pylint: disable=wrong-import-position
from harness import HANG_GUARD_S, Proc  # noqa: E402 # pylint: disable=wrong-import-position


def enter_namespace():
    """A network namespace of the test's own. Devices and firewalls are made in it by root only."""
    if os.geteuid() != 0:
        netns.skip('network namespaces that are joined need root')
    netns.namespace()


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            netns.skip(f'no {program}')


def why_no_firewalls():
    """A reason, or None: nft can filter and translate in this namespace."""
    rules = ('table ip probe {\nchain c {\ntype nat hook postrouting priority 100\n'
             'ct state established masquerade\n}\n}\ndelete table ip probe\n')
    p = subprocess.run(['nft', '-f', '-'], input=rules, capture_output=True, text=True, check=False)
    return f'nft: {p.stderr.strip()}' if p.returncode != 0 else None


class Host:
    """A network namespace with lo up."""

    def __init__(self, name):
        self.name = name
        script = 'ip link set lo up && echo ready && exec cat'
        # pylint: disable=consider-using-with # ends when close() or this process closes its stdin
        self.holder = subprocess.Popen(['unshare', '-n', 'sh', '-c', script],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == 'ready\n', f'no namespace for {name}'
        self.procs = []

    @property
    def pid(self):
        return self.holder.pid

    def enter(self):
        return ['nsenter', '-t', str(self.pid), '-n', '--']

    def run(self, *argv, stdin=None):
        """A tool that must succeed; its output."""
        p = subprocess.run([*self.enter(), *map(str, argv)], input=stdin, capture_output=True,
                           text=True, timeout=HANG_GUARD_S, check=False)
        assert p.returncode == 0, f'{self.name}: {" ".join(map(str, argv))}: {p.stderr}{p.stdout}'
        return p.stdout

    def start(self, argv, name, env=None):
        proc = Proc(argv, env=env, name=f'{name} on {self.name}', wrapper=self.enter())
        self.procs.append(proc)
        return proc

    def sysctl(self, name, value):
        self.run('sh', '-c', f'echo {value} > /proc/sys/{name.replace(".", "/")}')

    def firewall(self, rules):
        """Load an nft rule set in place of the one before."""
        self.run('nft', '-f', '-', stdin='flush ruleset\n' + rules)

    def close(self):
        for proc in self.procs:
            if proc.running():
                proc.kill()
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()


def link(one, one_if, other, other_if, mtu=1500):
    """A veth pair between two hosts; both ends are up and have a carrier when it returns."""
    one.run('ip', 'link', 'add', one_if, 'mtu', mtu, 'type', 'veth',
            'peer', 'name', other_if, 'mtu', mtu, 'netns', other.pid)
    for host, interface in ((one, one_if), (other, other_if)):
        host.run('ip', 'link', 'set', interface, 'up')
    for host, interface in ((one, one_if), (other, other_if)):
        while 'state UP' not in host.run('ip', 'link', 'show', interface):
            pass


def address(host, interface, *addresses):
    for a in addresses:
        host.run('ip', 'address', 'add', a, 'dev', interface, *(['nodad'] if ':' in a else []))


class Lab:
    """Hosts that are closed on exit."""

    def __init__(self):
        self.hosts = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for host in self.hosts:
            host.close()

    def host(self, name):
        self.hosts.append(Host(name))
        return self.hosts[-1]

    def pair(self, mtu=1500):
        """Two hosts on one link, 10.0.0.1 and 10.0.0.2."""
        a, b = self.host('alpha'), self.host('beta')
        link(a, 'eth0', b, 'eth0', mtu)
        address(a, 'eth0', '10.0.0.1/24', 'fd00::1/64')
        address(b, 'eth0', '10.0.0.2/24', 'fd00::2/64')
        return a, b

    def routed(self, mtus=(1500, 1500)):
        """Two hosts, 10.1.0.2 and 10.2.0.2, and the router between them, which is .1 of both."""
        a, b, router = self.host('alpha'), self.host('beta'), self.host('router')
        router.sysctl('net.ipv4.ip_forward', 1)
        for i, (host, mtu) in enumerate(((a, mtus[0]), (b, mtus[1])), 1):
            link(host, 'eth0', router, f'eth{i}', mtu)
            address(host, 'eth0', f'10.{i}.0.2/24')
            address(router, f'eth{i}', f'10.{i}.0.1/24')
            host.run('ip', 'route', 'add', 'default', 'via', f'10.{i}.0.1')
        return a, b, router
