# SPDX-License-Identifier: BSD-2-Clause
"""rsockets against rdma-core's own on rxe: programs that cases_connect.py does not have, as they need more than two command
lines; and what rdma-core's cannot."""
import hashlib
import os
import re
import select
import tempfile
import time

import harness
from cases_connect import GROUP, judge, run_pair, wait_listening
from peers import FAMILIES, MTUS, ROLES, Row, code

RCOPY_BYTES = 300000
NO_GRH = 5                       # of the known differences
UDPONG_S = 15


def variant(options):
    def argv(me, server, port):
        return ['rstream', *(('-s', server) if server else ('-b', me)), '-p', port, '-C', 10, '-I', 10, '-T', 'v', *options]
    return argv


STREAMS = {
    'rstream, asynchronous': ('-S', 1000, '-T', 'a'),
    'rstream, non-blocking': ('-S', 1000, '-T', 'n'),
    'rstream, 300 kB messages': ('-S', 300000, '-T', 'b'),
    'rstream, buffers of 8 KiB': ('-S', 100000, '-B', 8192, '-T', 'b'),
}


HUNG_UP = 6                      # of the known differences


def stream(wire, case, options):
    server, client = run_pair(wire, case, variant(options))
    if 'a' in options and case.role == 'server' and code(server) == 0 and code(client) == select.POLLHUP:
        return [Row(*case.label, 'known', known=HUNG_UP)], ''
    return judge(case, server, client, all(code(p) == 0 and re.search(r'^custom .* 10 ', p.stdout, re.M) and 'failed' not in p.output
                                           for p in (server, client)))


def idle(wire, case):
    """Both sides' keepalive probes, and is answered."""
    def argv_of(end):
        return lambda _me, server, port: [f'{program(wire, end)}', port, *((server,) if server else ())]

    ends = {'client': (wire.rxe, wire.rocemu), 'server': (wire.rocemu, wire.rxe)}[case.role]
    server, client = wire.pair(case.role, lambda end, port, _: argv_of(end)(None, None, port),
                               lambda end, port, _: argv_of(end)(None, ends[0].address(case.family), port),
                               ready=lambda end, server, port: wait_listening(wire, end, server, port))
    return judge(case, server, client, all(code(p) == 0 and 'both words came' in p.stdout for p in (server, client)))


def program(wire, end):
    return '/build/test/rsocket/rsocket-idle' if end is wire.rxe else wire.rocemu.config.program('rsocket', 'rsocket-idle')


# ---- rcopy -----------------------------------------------------------------------------------------------

def checksum(wire, end, path):
    if end is wire.rxe:
        return wire.guest.run('sha256sum', path).split()[0]
    with open(path, 'rb') as f:
        return hashlib.sha256(f.read()).hexdigest()


def rcopy(wire, case):
    """Its server takes what the client names, and serves on. It has no IPv6: the host is what is before the first colon."""
    sender, taker = (wire.rocemu, wire.rxe) if case.role == 'client' else (wire.rxe, wire.rocemu)
    port = next(wire.ports)
    with tempfile.TemporaryDirectory() as folder:
        here = folder
        source = os.path.join(here, 'source') if sender is wire.rocemu else '/tmp/rcopy-source'
        copy = os.path.join(here, 'copy') if taker is wire.rocemu else f'/tmp/rcopy-copy-{port}'
        if sender is wire.rocemu:
            with open(source, 'wb') as f:
                f.write(os.urandom(RCOPY_BYTES))
        else:
            wire.guest.run('dd', 'if=/dev/urandom', f'of={source}', f'bs={RCOPY_BYTES}', 'count=1', 'iflag=fullblock')
        server = taker.start(['rcopy', '-p', port], 'server')
        client = None
        try:
            wait_listening(wire, taker, server, port)
            client = sender.start(['rcopy', source, f'{taker.address(case.family)}:{copy}', '-p', port], 'client')
            client.wait()
            good = code(client) == 0 and checksum(wire, sender, source) == checksum(wire, taker, copy)
            return judge(case, server, client, good)
        finally:
            for p in (client, server):
                if p is not None:
                    p.kill()


# ---- datagrams: rdma-core's cannot on RoCE ---------------------------------------------------------------

def udpong(end, family, server, port):
    me = () if server else ('-b', end.address(family))
    return ['udpong', *(('-s', server) if server else me), '-p', port, '-C', 3, '-S', 64, '-T', 'b']


def refused_at_once(p):
    """Its rconnect() fails, with the errno of what it does after the error."""
    return code(p) not in (None, 0) and 'rconnect:' in p.stderr


def datagrams(wire, role):
    """role: what rocemu is; None: rdma-core at both ends. A client of rdma-core ends with an error,
    a server of it does not answer."""
    for family in FAMILIES:
        port = next(wire.ports)
        ends = {'client': (wire.rxe, wire.rocemu), 'server': (wire.rocemu, wire.rxe), None: (wire.rxe, wire.rxe)}[role]
        server = ends[0].start(udpong(ends[0], family, None, port), 'server')
        client = None
        try:
            wait_bound(wire, ends[0], server, port)
            client = ends[1].start(udpong(ends[1], family, ends[0].address(family), port), 'client')
            end = time.monotonic() + UDPONG_S
            while client.running() and time.monotonic() < end:
                time.sleep(0.05)
            good = refused_at_once(client) if ends[1] is wire.rxe else client.running() and server.running()
            if not good:
                raise harness.Failure(f'rdma-core\'s datagrams are not as docs/rsocket.md has them\n{server.report()}\n{client.report()}')
        finally:
            for p in (client, server):
                if p is not None:
                    p.kill()
    return [Row('rsockets', 'udpong', 'known', known=NO_GRH)], 'v4 and v6'


def wait_bound(wire, end, server, port):
    limit = time.monotonic() + harness.HANG_GUARD_S
    while True:
        text = wire.guest.run('ss', '-uanH') if end is wire.rxe else bound_here()
        if re.search(rf':{port}\b', text):
            return
        if code(server) is not None or time.monotonic() > limit:
            raise harness.Failure(f'{server.name} has not bound UDP port {port}\n{server.report()}')
        time.sleep(0.05)


def bound_here():
    ports = []
    for name in ('udp', 'udp6'):
        with open(f'/proc/self/net/{name}', encoding='ascii') as f:
            ports += [f':{int(line.split()[1].rsplit(":", 1)[1], 16)} ' for line in f.readlines()[1:]]
    return ''.join(ports)


# ---- all of them -----------------------------------------------------------------------------------------

def rsocket_cases(make, normal, full):
    """make: the constructor of a case."""
    for role in ROLES:
        for family in FAMILIES:
            for mtu in MTUS:
                cover = (family, mtu) in (('v4', 1500), ('v6', 4200))
                if family == 'v4':
                    yield make('rsocket/rcopy', role, family, mtu, normal if cover else full, rcopy,
                               label=(GROUP, 'rcopy, a file of 300 kB'))
                yield make('rsocket/idle', role, family, mtu, normal if (family, mtu) == ('v4', 1500) else full, idle,
                           label=(GROUP, 'rsockets, keepalive of both sides'))
                for label, options in STREAMS.items():
                    name = f'rsocket/{label.replace(",", "").replace(" ", "-")}'
                    yield make(name, role, family, mtu, full, lambda w, c, o=options: stream(w, c, o), label=(GROUP, label))
    for role in (None, *ROLES):
        yield make(f'rsocket/udpong-{"rxe-both" if role is None else f"rocemu-{role}"}', None, None, 4200,
                   normal if role is None else full, lambda w, c, r=role: datagrams(w, r))
