# SPDX-License-Identifier: BSD-2-Clause
"""By which interface packets leave: two hosts with two interfaces each in one subnet, and networks in which the kernel's
routes prefer another interface than the device's."""
import itertools
import json
import os
import signal
import subprocess
import sys
import time

from cases_cm import Session, agent_status
from cases_network import flow
from harness import NOBODY, NORMAL, POLL_S, QUICK, Case, Failure, Proc, Side, Skip, Topology, VethPair, expect, may_make_netns, need_user, pair

# Counts what leaves the namespace's interfaces from addresses to port 4791, until a signal comes: packets of QP 1, and
# all others.
COUNTER = r'''
import ipaddress, json, signal, socket, struct, sys
OUTGOING, ROCE_PORT, UDP, ALL, RCVBUFFORCE = 4, 4791, 17, 3, 33
left = {}
sources = [ipaddress.ip_address(text).packed for text in sys.argv[1:]]
def stop(*_):
    raise KeyboardInterrupt
def take():
    data, (name, _, kind, *_) = s.recvfrom(200)
    version = data[0] >> 4
    at = (data[0] & 15) * 4 if version == 4 else 40
    source = data[12:16] if version == 4 else data[8:24]
    if kind == OUTGOING and source in sources and data[9 if version == 4 else 6] == UDP:
        if struct.unpack_from('>H', data, at + 2)[0] == ROCE_PORT:
            key = name + (' cm' if data[at + 13:at + 16] == b'\0\0\1' else ' data')
            left[key] = left.get(key, 0) + 1
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL))
try:
    s.setsockopt(socket.SOL_SOCKET, RCVBUFFORCE, 64 << 20)
except PermissionError:    # in a user namespace
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
signal.signal(signal.SIGTERM, stop)
print('ready', flush=True)
try:
    while True:
        take()
except KeyboardInterrupt:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    s.setblocking(False)
try:
    while True:
        take()
except BlockingIOError:
    print(json.dumps(left))
'''


class Counter:
    """What leaves a host from the side's address meanwhile, as a context: {'eth0 data': 12, 'eth0 cm': 3} in .left
    afterwards. Processes of a case before may have left MADs that are sent again."""

    def __init__(self, *sides):
        self.proc = Proc([sys.executable, '-c', COUNTER, *(side.address for side in sides)], netns=sides[0].netns,
                         name=f'counter in {sides[0].netns}')
        self.left = None

    def __enter__(self):
        self.proc.wait_until(lambda: 'ready' in self.proc.stdout, 'it counted')
        return self

    def __exit__(self, *_):
        self.proc.signal(signal.SIGTERM)
        self.proc.wait()
        self.left = json.loads(self.proc.stdout.splitlines()[-1])

    def expect(self, *keys):
        """These, and no others."""
        expect(set(self.left) == set(keys), f'{self.proc.name}: {self.left}, not {keys}')


class Rails:
    """Two hosts, each with eth0 and eth1, all on one bridge: addresses by host and interface, by host the namespace."""

    serial = itertools.count()
    ip = staticmethod(VethPair.ip)

    def __init__(self):
        base = f'rocemu-rails-{os.getpid()}-{next(self.serial)}'
        self.names = [base + 'a', base + 'b']
        self.bridge = base + 'br'
        self.v4 = [[f'10.66.0.{10 * host + i}' for i in (0, 1)] for host in (1, 2)]
        self.v6 = [[f'fd66::{10 * host + i}' for i in (0, 1)] for host in (1, 2)]
        for name in (*self.names, self.bridge):
            self.ip('netns', 'add', name)
            self.ip('-n', name, 'link', 'set', 'lo', 'up')
        self.ip('-n', self.bridge, 'link', 'add', 'br0', 'type', 'bridge', 'mcast_snooping', 0)
        self.ip('-n', self.bridge, 'link', 'set', 'br0', 'up')
        for host, i in itertools.product((0, 1), (0, 1)):
            self.add(host, i)

    def add(self, host, i):
        name, port = self.names[host], f'port{host}{i}'
        self.ip('-n', self.bridge, 'link', 'add', port, 'type', 'veth', 'peer', 'name', f'eth{i}', 'netns', name)
        self.ip('-n', self.bridge, 'link', 'set', port, 'master', 'br0', 'up')
        self.ip('-n', name, 'address', 'add', f'{self.v4[host][i]}/24', 'dev', f'eth{i}')
        self.ip('-n', name, 'address', 'add', f'{self.v6[host][i]}/64', 'dev', f'eth{i}', 'nodad')
        self.ip('-n', name, 'link', 'set', f'eth{i}', 'up')
        self.wait(name, 'link', 'show', f'eth{i}', until='state UP')
        self.wait(name, '-6', 'route', 'get', self.v6[host][i], until='local')

    def wait(self, name, *args, until):
        """The kernel does it a moment after the command."""
        end = time.monotonic() + 20
        while until not in self.ip('-n', name, *args):
            if time.monotonic() > end:
                raise Failure(f'ip -n {name} {args}: no "{until}"')
            time.sleep(POLL_S)

    def sysctl(self, host, setting):
        subprocess.run(['ip', 'netns', 'exec', self.names[host], 'sysctl', '-qw', setting], check=True)

    def side(self, host, i, address=None):
        """The device of an interface."""
        return Side(f'dev0=eth{i}', address or self.v4[host][i], self.names[host], tcp=self.v4[host][0])

    def sides(self, i, j, addresses=None):
        """Interface i of the first host, j of the second. addresses: v4 or v6."""
        addresses = addresses or self.v4
        return Topology('rails', self.side(0, i, addresses[0][i]), self.side(1, j, addresses[1][j]))

    def close(self):
        for name in (*self.names, self.bridge):
            subprocess.run(['ip', 'netns', 'delete', name], capture_output=True, check=False)


def on_rails(function):
    def check(config, lab):
        why_not = may_make_netns()
        if why_not:
            raise Skip(why_not)
        rails = Rails()
        try:
            return function(config, rails)
        finally:
            rails.close()
    return check


def rping(config, topo, *more, user=None):
    """A connection by rdma_cm, from the client's address."""
    with Session(config, topo, user=user) as s:
        server = s.server([*more, 'rping', '-s', '-p', '{port}', '-a', '{server}', '-C', 5])
        client = s.client([*more, 'rping', '-c', '-p', '{port}', '-a', '{server}', '-I', '{client}', '-C', 5])
        s.finish(client, server)


def pingpong(config, topo, *more, **options):
    argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', '{port}', '-n', 50, '-c']
    return pair(config, topo, [*more, *argv], [*more, *argv, '{server}'], **options)


def subnet(family):
    """Each device of each host, with each of the other's: data of all services, and connection management."""
    def run(config, rails):
        addresses = (rails.v4, rails.v6)[family == 6]
        if family == 6:
            for name in rails.names:
                rails.ip('-n', name, '-6', 'route', 'add', 'fd66::/64', 'dev', 'eth0', 'metric', 1)
        for i, j in ((0, 1), (1, 0), (1, 1)):
            topo = rails.sides(i, j, addresses)
            with Counter(topo.server) as first, Counter(topo.client) as second:
                for transport in ('rc', 'uc', 'ud'):
                    flow(config, topo, transport)
                rping(config, topo)
            first.expect(f'eth{i} data', f'eth{i} cm')
            second.expect(f'eth{j} data', f'eth{j} cm')
    return on_rails(run)


def one_host(config, rails):
    """Two interfaces of one host reach each other by lo."""
    for addresses, (i, j) in itertools.product((rails.v4, rails.v6), ((0, 1), (1, 0))):
        topo = Topology('one host', rails.side(0, i, addresses[0][i]), rails.side(0, j, addresses[0][j]))
        with Counter(topo.server, topo.client) as here:
            for transport in ('rc', 'uc', 'ud'):
                flow(config, topo, transport)
            rping(config, topo)
        here.expect('lo data', 'lo cm')


def link_local(config, rails):
    """A global address and a link-local one, by the interface of the device, which is the scope."""
    for name in rails.names:
        for i in (0, 1):
            rails.wait(name, '-6', 'address', 'show', 'dev', f'eth{i}', '-tentative', until='fe80')
    text = rails.ip('-n', rails.names[0], '-6', 'address', 'show', 'dev', 'eth1', '-tentative')
    local = next(word for word in text.split() if word.startswith('fe80')).split('/')[0]
    topo = Topology('link-local', rails.side(0, 1, local), rails.side(1, 1, rails.v6[1][1]))
    with Counter(topo.server) as first, Counter(topo.client) as second:
        for transport in ('rc', 'ud'):
            flow(config, topo, transport)
    first.expect('eth1 data')
    second.expect('eth1 data')


def by_routes(config, rails, ends, interface):
    """Addresses of an interface, to which only routes by eth1 lead: packets take these. The two processes."""
    for host in (0, 1):
        rails.ip('-n', rails.names[host], 'address', 'add', f'{ends[host]}/32', 'dev', interface)
        rails.ip('-n', rails.names[host], 'route', 'add', ends[1 - host], 'via', rails.v4[1 - host][1], 'dev', 'eth1')
    topo = Topology('routes', *(Side(f'dev0={ends[host]}', ends[host], rails.names[host], tcp=rails.v4[host][0])
                                for host in (0, 1)))
    with Counter(topo.server) as first, Counter(topo.client) as second:
        procs = pingpong(config, topo, env={'ROCEMU_LOG': 'why'})
        rping(config, topo)
    first.expect('eth1 data', 'eth1 cm')
    second.expect('eth1 data', 'eth1 cm')
    return procs


def address_on_lo(config, rails):
    """As usual with routing protocols: there is no message."""
    procs = by_routes(config, rails, ('10.255.0.1', '10.255.0.2'), 'lo')
    expect(not any(p.stderr for p in procs), 'there is a message', *procs)


def unnumbered(config, rails):
    """eth1 has no address of its own, but uses that of eth0: the reason is printed on request."""
    procs = by_routes(config, rails, ('10.254.0.1', '10.254.0.2'), 'eth0')
    for p in procs:
        expect(p.stderr.count('leave by eth1') == 1, 'no reason, or several', *procs)


def strict(config, rails):
    """A host that drops what comes in by another interface than its routes prefer: it sends by that one."""
    rails.sysctl(0, 'net.ipv4.conf.all.rp_filter=1')
    topo = rails.sides(1, 1)
    with Counter(topo.server) as first, Counter(topo.client) as second:
        server, client = pingpong(config, topo, env={'ROCEMU_LOG': 'why'})
        rping(config, topo)
    first.expect('eth0 data', 'eth0 cm')
    second.expect('eth1 data', 'eth1 cm')
    expect(server.stderr.count('rp_filter is 1') == 1 and not client.stderr, 'no reason, or several', server, client)


def refused(config, rails):
    """The kernel refuses the socket options: packets take its routes, and the reason is printed once."""
    refuse = (config.program('prog', 'refuse-options'), 'all')
    topo = rails.sides(1, 1)
    with Counter(topo.server) as first, Counter(topo.client) as second:
        procs = pingpong(config, topo, *refuse, env={'ROCEMU_LOG': 'why'})
        rping(config, topo, *refuse)
    first.expect('eth0 data', 'eth0 cm')
    second.expect('eth0 data', 'eth0 cm')
    for p in procs:
        expect(p.stderr.count('cannot be bound') == 1, 'no reason, or several', *procs)


def old_kernel(config, rails):
    """Before Linux 5.7, binding a socket to an interface takes a privilege. Other options do not."""
    refuse = (config.program('prog', 'refuse-options'), 'bind')
    for addresses in (rails.v4, rails.v6):
        topo = rails.sides(1, 1, addresses)
        with Counter(topo.server) as first, Counter(topo.client) as second:
            for transport in ('rc', 'ud'):
                flow(config, topo, transport, *refuse)
            rping(config, topo, *refuse)
        first.expect('eth1 data', 'eth1 cm')
        second.expect('eth1 data', 'eth1 cm')


def ordinary_user(config, rails):
    """No right at all is needed."""
    need_user(NOBODY, config.rocemu)
    argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', 18500, '-n', 50, '-c']
    topo = rails.sides(1, 1)
    with Counter(topo.server) as first, Counter(topo.client) as second:
        with Session(config, topo, user=NOBODY) as s:
            server = s.start(topo.server, argv, 'server')
            server.wait_listening(18500)
            s.finish(s.start(topo.client, [*argv, topo.server.tcp], 'client'), server)
        rping(config, topo, user=NOBODY)
    first.expect('eth1 data', 'eth1 cm')
    second.expect('eth1 data', 'eth1 cm')


def comes_again(config, rails):
    """An interface that is removed and made again has another index; the agent is the one from before."""
    topo = rails.sides(1, 1)
    rping(config, topo)
    before = [agent_status(config, side)['pid'] for side in (topo.server, topo.client)]
    for host in (0, 1):
        rails.ip('-n', rails.names[host], 'link', 'delete', 'eth1')
        rails.add(host, 1)
    for name in rails.names:
        rails.ip('-n', name, 'neighbour', 'flush', 'dev', 'eth1')
    with Counter(topo.server) as first, Counter(topo.client) as second:
        rping(config, topo)
    first.expect('eth1 data', 'eth1 cm')
    second.expect('eth1 data', 'eth1 cm')
    after = [agent_status(config, side)['pid'] for side in (topo.server, topo.client)]
    expect(before == after, f'agents {before}, then {after}')


def cases():
    return [
        Case('interface/subnet.ipv4', subnet(4), QUICK),
        Case('interface/subnet.ipv6', subnet(6), NORMAL),
        Case('interface/one-host', on_rails(one_host), NORMAL),
        Case('interface/link-local', on_rails(link_local), NORMAL),
        Case('interface/address-on-lo', on_rails(address_on_lo), NORMAL),
        Case('interface/unnumbered', on_rails(unnumbered), NORMAL),
        Case('interface/strict', on_rails(strict), NORMAL),
        Case('interface/refused', on_rails(refused), NORMAL),
        Case('interface/old-kernel', on_rails(old_kernel), NORMAL),
        Case('interface/ordinary-user', on_rails(ordinary_user), NORMAL),
        Case('interface/comes-again', on_rails(comes_again), NORMAL),
    ]
