# SPDX-License-Identifier: BSD-2-Clause
"""Many processes, killed processes, a killed agent, no agent, several users, hostile packets."""
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess

from harness import (FULL, NOBODY, NORMAL, QUICK, Case, Failure, Proc, Side, Skip, Topology, expect, need_user, new_port, pair, run,
                     sanitizer_env, start)

ROCE_PORT = 4791
PAIRS = 32


def pingpong(side, port, *options, transport='rc', iters=200):
    return [f'ibv_{transport}_pingpong', '-d', side.name, '-g', 0, '-p', port, '-n', iters, *options]


def quick_pair(config, topo, *options, iters=50, **more):
    server, client = (pingpong(side, '{port}', '-c', *options, iters=iters) for side in (topo.server, topo.client))
    return pair(config, topo, server, client + ['{server}'], **more)


def agent_status(config, env=None):
    p = subprocess.run([config.rocemu, 'agent', '--status', '--json'], capture_output=True, text=True,
                       env={**os.environ, **sanitizer_env(config), **(env or {})})
    return json.loads(p.stdout) if p.returncode == 0 else None


def datagrams_sent():
    """UDP datagrams that this network namespace has sent so far."""
    with open('/proc/self/net/snmp', encoding='ascii') as f:
        names, values = [line.split() for line in f if line.startswith('Udp:')]
    return int(values[names.index('OutDatagrams')])


class Traffic:
    """A pair that runs until it is stopped or done, for something to happen to it."""

    def __init__(self, config, topo, *options, iters=10_000_000, env=None):
        self.procs = []
        port = new_port()
        argv = pingpong(topo.client, port, *options, iters=iters)
        before = datagrams_sent()
        try:
            self.server = start(config, topo.server, argv, 'server', env)
            self.procs.append(self.server)
            self.server.wait_listening(port)
            self.client = start(config, topo.client, argv + [topo.server.tcp], 'client', env)
            self.procs.append(self.client)
            self.client.wait_until(lambda: datagrams_sent() - before > 500, 'traffic flowed')
        except Failure:
            self.stop()
            raise

    def stop(self):
        for p in self.procs:
            p.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def many_processes(config, lab):
    """32 pairs, 64 processes, all of them on 127.0.0.1 with their QPs at the same time."""
    topo = lab.get('lo')
    ports = [new_port() for _ in range(PAIRS)]
    procs = []
    try:
        servers = []
        for i, port in enumerate(ports):
            servers.append(start(config, topo.server, pingpong(topo.server, port, '-e', '-c', iters=100), f'server {i}'))
            procs.append(servers[-1])
        # ibv_rc_pingpong listens when its QP is made: from here on all of them have one.
        for server, port in zip(servers, ports):
            server.wait_listening(port)
        for i, port in enumerate(ports):
            argv = pingpong(topo.client, port, '-e', '-c', iters=100) + [topo.server.tcp]
            procs.append(start(config, topo.client, argv, f'client {i}'))
        for p in procs[PAIRS:] + procs[:PAIRS]:
            expect(p.wait() == 0, f'{p.name} failed', p)
    finally:
        for p in procs:
            p.kill()
    return f'{len(procs)} processes'


def killed(victim):
    def check(config, lab):
        topo = lab.get('lo')
        with Traffic(config, topo) as t:
            dead, alive = (t.server, t.client) if victim == 'server' else (t.client, t.server)
            dead.kill()
            # Its requests are not acknowledged any more: the peer gets an event, and ends.
            expect(alive.wait() == 1, f'the other side ended with {alive.popen.returncode}', alive)
            expect('retry counter exceeded' in alive.output, 'no retry error', alive)
        quick_pair(config, topo)
    return check


def killed_often(config, lab):
    """Slots come back from processes that could not give them back."""
    topo = lab.get('lo')
    procs = []
    for _ in range(20):
        port = new_port()
        p = start(config, topo.server, pingpong(topo.server, port), 'victim')
        procs.append(p)
        p.wait_listening(port)
    clients = agent_status(config)['clients']
    pids = {p.pid for p in procs}
    held = [c for c in clients if c['pid'] in pids]
    for p in procs:
        p.kill()
    expect(len(held) == len(procs), f'{len(held)} of {len(procs)} processes hold a slot', *procs[:1])
    probe = Proc(['sleep', '1000'], name='clock')
    try:
        probe.wait_until(lambda: not any(c['pid'] in pids for c in agent_status(config)['clients']),
                         'the agent has taken back the slots', timeout=20)
    finally:
        probe.kill()
    quick_pair(config, topo)


def agent_killed(config, lab):
    """What runs goes on, what is started afterwards works, beside it and with it."""
    topo = lab.get('lo')
    with Traffic(config, topo, '-c', iters=60_000) as t:
        before = agent_status(config)
        expect(before is not None, 'no agent', t.server)
        os.kill(before['pid'], signal.SIGKILL)
        quick_pair(config, topo)
        expect(t.client.running(), 'the first pair ended before the second was done: it proves nothing', t.client)
        after = agent_status(config)
        expect(after is not None and after['pid'] != before['pid'], f'agent {before} then {after}')
        for p in (t.client, t.server):
            expect(p.wait() == 0, f'{p.name} did not survive the agent', t.server, t.client)
    quick_pair(config, topo)


def agent_killed_repeatedly(config, lab):
    topo = lab.get('lo')
    with Traffic(config, topo) as t:
        for _ in range(5):
            status = agent_status(config)
            if status:
                os.kill(status['pid'], signal.SIGKILL)
            quick_pair(config, topo, iters=20)
            expect(t.client.running() and t.server.running(), 'the long pair ended', t.server, t.client)


def agent_off(config, lab):
    """One process per address, and no agent. Not on an address where an agent still lingers."""
    sides = [Side(f'{name}={address}', address, name=name)
             for name, address in (('hostc', '127.0.0.4'), ('hostd', '127.0.0.5'))]
    quick_pair(config, Topology('off', *sides), env={'ROCEMU_AGENT': 'off'})


def agent_off_second_process(config, lab):
    """The second one on an address gets an error."""
    side = Side('hosta=127.0.0.3', '127.0.0.3', name='hosta')
    port = new_port()
    first = start(config, side, pingpong(side, port), 'first', {'ROCEMU_AGENT': 'off'})
    try:
        first.wait_listening(port)
        second = start(config, side, pingpong(side, new_port()), 'second', {'ROCEMU_AGENT': 'off'})
        expect(second.wait() != 0, 'a second process got the port', second)
        expect('4791' in second.stderr and '127.0.0.3' in second.stderr, 'no clear message', second)
    finally:
        first.kill()


def unprivileged(config, lab):
    """No root anywhere: a user without any right runs a pair, captures, and has an own agent."""
    need_user(NOBODY, config.rocemu)
    side = Side('hostn=127.0.0.7', '127.0.0.7', name='hostn')
    port = new_port()
    server = start(config, side, pingpong(side, port, '-c'), 'server', user=NOBODY)
    try:
        server.wait_listening(port)
        client = start(config, side, pingpong(side, port, '-c') + [side.tcp], 'client', user=NOBODY)
        expect(client.wait() == 0 and server.wait() == 0, 'failed', server, client)
    finally:
        server.kill()


def other_user(config, lab):
    """An address that another user's agent has: the error and the remedy."""
    need_user(NOBODY, config.rocemu)
    side = Side('hosto=127.0.0.8', '127.0.0.8', name='hosto')
    port = new_port()
    first = start(config, side, pingpong(side, port), 'first')
    try:
        first.wait_listening(port)
        second = start(config, side, pingpong(side, new_port()), 'second', user=NOBODY)
        expect(second.wait() != 0, 'it got the port', second)
        expect('user 0' in second.stderr and '--system' in second.stderr, 'no clear message', second)
    finally:
        first.kill()


def system_agent(config, lab):
    """`rocemu agent --system` serves all users on one address."""
    need_user(NOBODY, config.rocemu)
    side = Side('hosts=127.0.0.10', '127.0.0.10', name='hosts')
    port = new_port()
    agent = Proc([config.rocemu, 'agent', '--system', '--foreground'], sanitizer_env(config), name='agent')
    server = None
    try:
        agent.wait_until(lambda: subprocess.run([config.rocemu, 'agent', '--status', '--system'],
                                                capture_output=True).returncode == 0, 'it answered')
        server = start(config, side, pingpong(side, port, '-c'), 'server')
        server.wait_listening(port)
        # In a user namespace nothing shows that the agent is root's.
        inside = run(config, side, pingpong(side, new_port()), options=['--mount-paths'], user=NOBODY)
        expect(inside.popen.returncode != 0 and re.search('without --mount-paths|--mount-paths: no', inside.stderr), 'not told', inside)
        client = start(config, side, pingpong(side, port, '-c') + [side.tcp], 'client', user=NOBODY)
        expect(client.wait() == 0 and server.wait() == 0, 'failed', agent, server, client)
    finally:
        if server:
            server.kill()
        agent.signal(signal.SIGTERM)
        agent.wait(20)


def hostile_datagrams(rng, qpn):
    """Junk, truncated packets, and well-formed ones with a wrong ICRC to a QP that exists."""
    yield b''
    for length in (1, 3, 11, 12, 15, 16, 17, 27, 28, 64, 1500, 4200):
        yield rng.randbytes(length)
    for opcode in range(256):
        bth = struct.pack('>BBHII', opcode, 0, 0xffff, qpn, rng.randrange(1 << 24) | 1 << 31)
        yield bth
        yield bth + rng.randbytes(rng.choice((4, 8, 20, 32, 300, 1044)))


def hostile(config, lab):
    """A pair with the data check on, while its sockets get thousands of packets that make no sense."""
    topo = lab.get('lo')
    rng = random.Random(4791)
    with Traffic(config, topo, '-c', iters=20_000) as t:
        qpns = [int(m, 16) for p in t.procs for m in re.findall(r'local address:.*QPN 0x([0-9a-f]+)', p.stdout)]
        sent = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for _ in range(10):
                for qpn in qpns + [0, 1, 0xffffff]:
                    for data in hostile_datagrams(rng, qpn):
                        s.sendto(data, ('127.0.0.1', ROCE_PORT))
                        sent += 1
        for p in (t.client, t.server):
            expect(p.wait() == 0, f'{p.name} failed', t.server, t.client)
        expect('invalid data' not in t.client.output + t.server.output, 'data damaged', t.server, t.client)
    return f'{sent} packets'


def both_families(config, lab):
    """One device, an IPv4 and an IPv6 address: connections over each at the same time."""
    topo, topo6 = lab.get('lo'), lab.get('lo6')
    with Traffic(config, topo, iters=20_000) as t:
        argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', 1, '-p', '{port}', '-n', 200, '-c']
        pair(config, topo6, argv, argv + ['{server}'])
        for p in (t.client, t.server):
            expect(p.wait() == 0, f'{p.name} failed', t.server, t.client)


def cases():
    def case(name, function, level=NORMAL):
        return Case(f'robust/{name}', function, level)

    return [
        case('many_processes', many_processes),
        case('killed_server', killed('server'), QUICK),
        case('killed_client', killed('client')),
        case('killed_often', killed_often),
        case('agent_killed', agent_killed, NORMAL),
        case('agent_killed_repeatedly', agent_killed_repeatedly),
        case('agent_off', agent_off, QUICK),
        case('agent_off_second_process', agent_off_second_process),
        case('unprivileged', unprivileged),
        case('other_user', other_user),
        case('system_agent', system_agent),
        case('hostile_packets', hostile, QUICK),
        case('both_families', both_families, FULL),
    ]
