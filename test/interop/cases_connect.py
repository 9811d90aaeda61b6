# SPDX-License-Identifier: BSD-2-Clause
"""Connection management against rxe: the stock programs of rdma-core and perftest on librdmacm,
rocemu's at one end, the system's and the kernel's CM at the other."""
import functools
import json
import re
import subprocess
import time

import guest as vm
import harness
from peers import FAMILIES, MTUS, Row, code

GROUP = 'Connection management'
MULTICAST = '239.77.1.2'
LISTEN_GUARD_S = 60
ENOUGH = 10                     # messages
UDADDY_PORT = 7174              # it has no option for that


# ---- when a server is ready ------------------------------------------------------------------------------

def our_listeners(wire):
    """Port spaces and ports that the agent has listeners for."""
    p = subprocess.run([wire.rocemu.config.rocemu, 'agent', '--status', '--json'], capture_output=True, text=True, check=False)
    if p.returncode != 0:
        return ()
    ids = [int(item['service_id'], 16) for item in json.loads(p.stdout)['cm']['listeners']]
    return [(i >> 16, i & 0xffff) for i in ids]


def rxe_listens(wire, port):
    text = wire.guest.run('rdma', 'resource', 'show', 'cm_id')
    return re.search(rf'state LISTEN .*src-addr \S*:{port}\b', text) is not None


def wait_listening(wire, end, server, port, fixed=None):
    port = fixed or port
    limit = time.monotonic() + LISTEN_GUARD_S
    while True:
        if end is wire.rxe and rxe_listens(wire, port):
            return
        if end is wire.rocemu and any(p == port for _, p in our_listeners(wire)):
            return
        if code(server) is not None or time.monotonic() > limit:
            raise harness.Failure(f'{server.name} does not listen on RDMA port {port}\n{server.report()}')
        time.sleep(0.05)


def wait_joined(wire, end, server, _port):
    """The interface is a member of the group."""
    limit = time.monotonic() + LISTEN_GUARD_S
    argv = ['ip', 'maddress', 'show']
    while True:
        text = wire.guest.run(*argv) if end is wire.rxe else subprocess.run(argv, capture_output=True, text=True,
                                                                            check=False).stdout
        if MULTICAST in text:
            return
        if code(server) is not None or time.monotonic() > limit:
            raise harness.Failure(f'{server.name} does not join {MULTICAST}\n{server.report()}')
        time.sleep(0.05)


# ---- programs --------------------------------------------------------------------------------------------
# Each a function of (own address, the server's address or None for the server, port) that gives the command.

def rping(me, server, port):
    side = ('-c', '-a', server) if server else ('-s', '-a', me)
    return ['rping', *side, '-p', port, '-C', ENOUGH, '-V', '-v']


def ucmatose(me, server, port):
    side = ('-s', server, '-b', me) if server else ('-b', me)
    return ['ucmatose', *side, '-p', port, '-c', 4, '-C', ENOUGH, '-S', 1000]


def gids(me, server, port):
    """rocemu's end uses GIDs, rxe's IP addresses: the kernel has no AF_IB on RoCE."""
    words = ucmatose(me, server, port)
    if me not in (vm.HOST_V4, vm.HOST_V6):
        return words
    return ['ucmatose', '-f', 'gid', *(f'::ffff:{w}' if w in (vm.HOST_V4, vm.GUEST_V4) else w for w in words[1:])]


def udaddy(me, server, _port):
    side = ('-s', server, '-b', me) if server else ('-b', me)
    return ['udaddy', *side, '-c', 4, '-C', ENOUGH, '-S', 1000]


def rdma_client_server(me, server, port):
    return ['rdma_client', '-s', server, '-p', port] if server else ['rdma_server', '-s', me, '-p', port]


def rstream(me, server, port):
    return ['rstream', *(('-s', server) if server else ('-b', me)), '-p', port, '-S', 4096, '-C', ENOUGH, '-T', 'b',
            '-T', 'v']


def riostream(me, server, port):
    return ['riostream', *rstream(me, server, port)[1:]]


def perftest(name, options, _me, server, port):
    return [name, '-R', '-F', '-p', port, '-n', 100, '-s', 4096, *options, *((server,) if server else ())]


PROGRAMS = {
    # label: (arguments, what the client's output has)
    'rping': (rping, r'ping data: rdma-ping-9'),
    'ucmatose, 4 connections': (ucmatose, r'return status 0'),
    'ucmatose -f gid, AF_IB': (gids, r'return status 0'),
    'udaddy, SIDR': (udaddy, r'return status 0'),
    'rstream, rsockets': (rstream, r'^custom +4k +10 '),
    'riostream, mapped memory': (riostream, r'^custom +4k +10 '),
    'rdma_client, rdma_server': (rdma_client_server, r'end 0'),
    'ib_send_bw -R': (functools.partial(perftest, 'ib_send_bw', ()), r'^ *4096 +\d+ +\d+\.\d+'),
    'ib_write_bw -R': (functools.partial(perftest, 'ib_write_bw', ()), r'^ *4096 +\d+ +\d+\.\d+'),
    'ib_read_lat -R': (functools.partial(perftest, 'ib_read_lat', ('-o', 1)), r'^ *4096 +\d+ +\d+\.\d+'),
}


def run_pair(wire, case, argv, ready=wait_listening, **more):
    def server_argv(end, port, _tcp):
        return argv(end.address(case.family), None, port)

    def client_argv(end, port, _tcp):
        server = wire.rocemu if end is wire.rxe else wire.rxe
        return argv(end.address(case.family), server.address(case.family), port)

    return wire.pair(case.role, server_argv, client_argv,
                     ready=lambda end, server, port: ready(wire, end, server, port), **more)


def is_perftest(name):
    return name.endswith(' -R')


# perftest's server stops to listen after the first connection, over which the two agree, and listens again for the
# second: a client that is quick is rejected. That it is so between rxe and rxe, too, is what `alone` shows.
TOO_EARLY = 'RDMA_CM_EVENT_REJECTED; error: 8'
TRIES = 4
SLOW_LISTEN = '/build/test/interop/slow-listen.so'


def program(wire, case, name):
    argv, wanted = PROGRAMS[name]
    port = UDADDY_PORT if argv is udaddy else None
    for n in range(1, TRIES + 1):
        try:
            server, client = run_pair(wire, case, argv, ready=functools.partial(wait_listening, fixed=port))
            break
        except harness.Failure as e:
            if n == TRIES or not is_perftest(name) or TOO_EARLY not in str(e):
                raise
    found, text = judge(case, server, client, code(client) == 0 and code(server) == 0
                        and re.search(wanted, client.stdout, re.M) is not None)
    return found, f'passed at try {n}: perftest was not listening yet' if n > 1 else text


def alone(wire):
    """perftest -R on rxe with itself, nothing of rocemu's there: as it is; and with a server that is held up before it
    listens again, as any may be that has to wait for a processor. Then the client is rejected, and does not recover."""
    texts = []
    for env in ({}, {'LD_PRELOAD': SLOW_LISTEN}):
        argv = perftest('ib_write_bw', (), None, None, next(wire.ports))
        server = wire.rxe.start(argv, 'server', env)
        client = None
        try:
            wait_listening(wire, wire.rxe, server, argv[argv.index('-p') + 1])
            client = wire.rxe.start([*argv, wire.rxe.address('v4')], 'client')
            rejected = client.wait() != 0 and TOO_EARLY in client.output
            if (env and not rejected) or (client.returncode != 0) != rejected:
                raise harness.Failure(f'{server.report()}\n{client.report()}')
            texts.append(f'{"late server" if env else "as it is"}: {"rejected" if rejected else "passes"}')
        finally:
            for p in (client, server):
                if p is not None:
                    p.kill()
    return ', '.join(texts)


def judge(case, server, client, good):
    return [Row(*case.label, 'pass' if good else 'fail', '' if good else f'{server.report()}\n{client.report()}')], ''


def vendor_options(wire, case):
    """Each side's ECE as the other reads it, the kernel at one end; and as the packets have it, see verify."""
    ends = {'client': (wire.rxe, wire.rocemu), 'server': (wire.rocemu, wire.rxe)}[case.role]
    programs = {end: end.program('ece-check') for end in ends}

    def server_argv(end, port, _tcp):
        return [programs[end], end.address(case.family), port]

    def client_argv(end, port, _tcp):
        return [programs[end], end.address(case.family), port, ends[0].address(case.family)]

    server, client = wire.pair(case.role, server_argv, client_argv,
                               ready=lambda end, server, port: wait_listening(wire, end, server, port))
    return judge(case, server, client, all(code(p) == 0 and 'as they should be' in p.stdout for p in (server, client)))


def multicast(wire, case):
    def argv(me, server, _port):
        return ['mckey', '-m', MULTICAST, '-b', me, '-C', ENOUGH, *(('-s',) if server else ())]

    server, client = run_pair(wire, case, argv, ready=wait_joined)
    return judge(case, server, client, all(code(p) == 0 and 'return status 0' in p.stdout for p in (server, client)))


def reject(wire, case):
    """That port has no listener: the other side's CM rejects."""
    me, other = (wire.rocemu, wire.rxe) if case.role == 'client' else (wire.rxe, wire.rocemu)
    # Another port has a listener, so the agent runs.
    server = other.start(rping(other.address(case.family), None, 7100), 'server')
    client = None
    try:
        wait_listening(wire, other, server, 7100)
        client = me.start(['rping', '-c', '-a', other.address(case.family), '-p', 7101, '-C', 1], 'client')
        client.wait()
        return judge(case, server, client, 'RDMA_CM_EVENT_REJECTED, error 8' in client.output)
    finally:
        for p in (client, server):
            if p is not None:
                p.kill()


def killed(wire, case, who):
    """One of two that ping each other without end is killed: the owner of its connection disconnects for it."""
    def argv(me, server, port):
        return [word for word in rping(me, server, port) if word not in ('-C', ENOUGH, '-v')]

    ends = {'client': (wire.rxe, wire.rocemu), 'server': (wire.rocemu, wire.rxe)}[case.role]
    address = ends[0].address(case.family)
    port = next(wire.ports)
    server = ends[0].start(argv(address, None, port), 'server')
    client = None
    try:
        wait_listening(wire, ends[0], server, port)
        client = ends[1].start(argv(ends[1].address(case.family), address, port), 'client')
        victim, other = (client, server) if who == 'client' else (server, client)
        wait_connected(wire, case, port)
        victim.kill()
        other.wait()
        return judge(case, server, client, 'DISCONNECT EVENT' in other.output)
    finally:
        for p in (client, server):
            if p is not None:
                p.kill()


def wait_connected(wire, case, port):
    """Both sides' CM have the connection: the kernel's shows it."""
    limit = time.monotonic() + LISTEN_GUARD_S
    while time.monotonic() < limit:
        text = wire.guest.run('rdma', 'resource', 'show', 'cm_id')
        if re.search(rf'state CONNECT .*:{port}\b', text):
            return
        time.sleep(0.05)
    raise harness.Failure(f'no connection of port {port}')


def removed(wire, case):
    """rxe is taken away under two that ping each other without end. Its rping gets DEVICE_REMOVAL,
    rocemu's ends by a message of the kernel's CM, or by its own timeouts."""
    def argv(me, server, port):
        return [word for word in rping(me, server, port) if word not in ('-C', ENOUGH, '-v')]

    ends = {'client': (wire.rxe, wire.rocemu), 'server': (wire.rocemu, wire.rxe)}[case.role]
    address = ends[0].address(case.family)
    port = next(wire.ports)
    server = ends[0].start(argv(address, None, port), 'server')
    client = None
    try:
        wait_listening(wire, ends[0], server, port)
        client = ends[1].start(argv(ends[1].address(case.family), address, port), 'client')
        wait_connected(wire, case, port)
        wire.guest.run('rdma', 'link', 'delete', 'rxe0')
        ours, theirs = (client, server) if case.role == 'client' else (server, client)
        theirs.wait()
        ours.wait()
        return judge(case, server, client, 'device removal' in theirs.output
                     and re.search('DISCONNECT EVENT|cq completion failed|status 12', ours.output) is not None)
    finally:
        for p in (client, server):
            if p is not None:
                p.kill()
        wire.guest.run('rdma', 'link', 'add', 'rxe0', 'type', 'rxe', 'netdev', 'eth0')
        wire.rxe.gids = {}


def rows():
    """(name, families, function, label); perftest's -R has no IPv6, and rxe no multicast with it."""
    for name in PROGRAMS:
        families = ('v4',) if is_perftest(name) else FAMILIES
        yield f'cm/{name.split(",")[0].replace(" ", "")}', families, lambda w, c, n=name: program(w, c, n), name
    yield 'cm/mckey', ('v4',), multicast, 'mckey, multicast'
    yield 'cm/ece', FAMILIES, vendor_options, 'ece-check, vendor options'
    yield 'cm/reject', FAMILIES, reject, 'no listener: REJ'
    yield 'cm/removed', ('v4',), removed, 'rxe removed: ends'
    for who in ('client', 'server'):
        yield f'cm/killed-{who}', FAMILIES, lambda w, c, n=who: killed(w, c, n), f'{who} killed: DREQ'


def cm_cases(make, normal, full):
    """make: the constructor of a case."""
    for role in ('client', 'server'):
        for mtu in MTUS:
            for name, families, run, label in rows():
                for family in families:
                    cover = (family, mtu) in (('v4', 1500), ('v6', 4200))
                    yield make(name, role, family, mtu, normal if cover else full, run, label=(GROUP, label))
