# SPDX-License-Identifier: BSD-2-Clause
"""Programs that connect by rdma_cm: rdma-core's examples and perftest -R, unmodified.

A server is ready when the agent lists its service ID; clients name the server by its RDMA address, which is all
that rdma_cm needs.
"""
import contextlib
import errno
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading

import icrc_check
from harness import (FULL, NORMAL, QUICK, Case, Failure, Proc, Side, Topology, VethPair, expect, new_port, start, users, wait_gone)

ROCE_PORT = 4791
PORT_SPACE = {'tcp': 0x0106, 'udp': 0x0111, 'ib': 0x013f, 'ipoib': 0x0002}
WHERE = ('lo', 'lo-two', 'lo6', 'veth1500-v4', 'veth1500-v6')
ONCE = ('lo',)


def agent_status(config, side, user=None):
    """The status of the agent of a side's host, or None: there is none."""
    argv = [config.rocemu, 'agent', '--status', '--json']
    if user is not None:
        argv = users.command(user) + argv
    if side.netns:
        argv = ['ip', 'netns', 'exec', side.netns] + argv
    p = subprocess.run(argv, capture_output=True, text=True, check=False)
    return json.loads(p.stdout) if p.returncode == 0 else None


def is_listened(config, side, space, port, user=None):
    service = f'0x{PORT_SPACE[space] << 16 | port:016x}'
    status = agent_status(config, side, user)
    return bool(status) and any(entry['service_id'] == service for entry in status['cm']['listeners'])


def asked_too_late(proc):
    """Older rpings have a thread that may wait for one more event while main(), at its end,
    destroys the channel; that thread then ends the program with -1. On a busy machine it may not
    have run since it was connected, so pings show that it was. Whether all came is checked
    separately."""
    return (proc.popen.returncode == 255 and 'rdma_get_cm_event: Bad file descriptor' in proc.stderr
            and ('DISCONNECT EVENT' in proc.stderr or 'ping data: rdma-ping-' in proc.stdout))


class Session:
    """Processes of one case; those that still run at its end are ended, by the PIDs that it started."""

    def __init__(self, config, topo, env=None, port=None, user=None):
        topo.check()
        self.config = config
        self.topo = topo
        self.env = env
        self.user = user
        self.port = port or new_port()
        self.procs = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for p in self.procs:
            if p.running():
                p.kill()

    def fill(self, argv):
        places = {'{port}': str(self.port), '{server}': self.topo.server.address,
                  '{client}': self.topo.client.address}
        out = []
        for a in map(str, argv):
            for name, value in places.items():
                a = a.replace(name, value)
            out.append(a)
        return out

    def start(self, side, argv, name, options=()):
        p = start(self.config, side, self.fill(argv), name, self.env, options, self.user)
        self.procs.append(p)
        return p

    def server(self, argv, space='tcp', options=()):
        p = self.start(self.topo.server, argv, 'server', options)
        p.wait_until(lambda: is_listened(self.config, self.topo.server, space, self.port, self.user),
                     f'it listened on {space} port {self.port}')
        return p

    def client(self, argv, name='client', options=()):
        return self.start(self.topo.client, argv, name, options)

    def finish(self, *procs, codes=(0,)):
        """All end, with one of these exit codes. When one fails the others may wait for it forever."""
        waiting = list(procs)
        while waiting:
            for p in list(waiting):
                wait_gone(p, 0.1)
                if p.running():
                    continue
                waiting.remove(p)
                expect(p.popen.returncode in codes or asked_too_late(p), f'{p.name}: exit code {p.popen.returncode}', *procs)
            if waiting and max(p.age() for p in waiting) > self.GUARD_S:
                where = '\n'.join(p.where() for p in waiting)
                raise Failure('\n'.join([f'hangs (guard {self.GUARD_S} s)', where] + [p.report() for p in procs]))

    GUARD_S = 120


_fixed_ports = threading.Lock()


def programs(name, server, client, where=ONCE, level=NORMAL, space='tcp', check=None, options=(), needs=(), port=None):
    """Cases of one pair of command lines, one for each topology. port: of a program whose port is fixed."""
    for place in where:
        def run(config, lab, place=place):
            with _fixed_ports if port else contextlib.nullcontext(), Session(config, lab.get(place), port=port) as s:
                srv = s.server(server, space, options)
                cli = s.client(client, options=options)
                s.finish(cli, srv)
                return check(srv, cli) if check else None

        yield Case(f'cm/{name}/{place}', run, QUICK if level == QUICK and place == 'lo' else max(level, NORMAL),
                   needs=needs or (server[0], client[0]))


def ucmatose_formats(check):
    """Addresses written as numbers and as GIDs (AF_IB); one side that uses GIDs and one that uses IP addresses."""
    numbers = {'ip': '{server}', 'ip6': '{server}', 'gid': None}
    for place in WHERE:
        v6 = place.endswith('6')
        gid = '{server}' if v6 else '::ffff:{server}'
        for name in ('gid', 'ip6' if v6 else 'ip'):
            address = numbers[name] or gid
            yield from programs(f'ucmatose.{name}', ['ucmatose', '-p', '{port}', '-f', name, '-b', address, '-c', 3],
                                ['ucmatose', '-p', '{port}', '-f', name, '-s', address, '-c', 3], where=(place,), check=check)
        yield from programs('ucmatose.gid_to_ip', ['ucmatose', '-p', '{port}', '-b', '{server}'],
                            ['ucmatose', '-p', '{port}', '-f', 'gid', '-s', gid], where=(place,), check=check)
        yield from programs('ucmatose.ip_to_any_gid', ['ucmatose', '-p', '{port}', '-P', 'ib', '-f', 'gid', '-b', '::'],
                            ['ucmatose', '-p', '{port}', '-P', 'ib', '-s', '{server}'], where=(place,), space='ib', check=check)


# ---- rping -----------------------------------------------------------------------------------------------

RPING = ['rping', '-p', '{port}']


def pinged(count):
    def check(srv, cli):
        for p in (srv, cli):
            expect(len(re.findall(r'ping data: rdma-ping-\d+', p.stdout)) == count, 'not every ping came', srv, cli)
    return check


def rping(name, options, client_options=(), count=10, impair=(), **more):
    common = ['-v', '-V', '-C', count, *options]
    return programs(name, RPING + ['-s', '-a', '{server}', *common],
                    RPING + ['-c', '-a', '{server}', *common, *client_options], check=pinged(count), options=impair, **more)


def rping_persistent(config, lab):
    """A persistent server and five clients at a time; it still serves a sixth afterwards. The clients come one after
    another: rping itself mixes up requests that come at once."""
    with Session(config, lab.get('lo')) as s:
        srv = s.server(RPING + ['-s', '-P', '-a', '{server}'])
        clients = []
        for i in range(5):
            cli = s.client(RPING + ['-c', '-a', '{server}', '-V'], f'client {i}')
            clients.append(cli)
            cli.wait_until(lambda: established(s, i + 1), 'it was connected')  # pylint: disable=cell-var-from-loop
        for cli in clients:
            expect(cli.running(), 'a client ended', srv, *clients)
            cli.kill()
        srv.wait_until(lambda: of_server(s, 'exit_mads') == 0, 'its connections were gone')
        sixth = s.client(RPING + ['-c', '-a', '{server}', '-C', 50, '-v', '-V'], 'client 6')
        s.finish(sixth)
        expect(sixth.stdout.count('ping data: rdma-ping-') == 50, 'not every ping came', srv, sixth)
        expect(srv.running(), 'the server ended', srv)


def of_server(session, key, server=None):
    """The agent's counts of the server, by default the first process: exit MADs, delivered, ...; 0 without an entry."""
    status = agent_status(session.config, session.topo.server)
    pid = (server or session.procs[0]).pid
    return sum(c[key] for c in status['cm']['clients'] if c['pid'] == pid) if status else 0


def established(session, count, server=None):
    """Were so many connections to the server made, by a REQ and an RTU each?"""
    return of_server(session, 'delivered', server) >= 2 * count


def rping_no_server(config, lab):
    """No listener: reported at once."""
    with Session(config, lab.get('lo')) as s:
        cli = s.client(RPING + ['-c', '-a', '{server}', '-C', 1])
        cli.wait()
        expect(cli.popen.returncode != 0 and 'REJECTED' in cli.output, 'not told of the rejection', cli)


def rping_killed(config, lab):
    """The agent notifies the peer of a process that is killed, in either role."""
    for victim in ('server', 'client'):
        with Session(config, lab.get('lo')) as s:
            srv = s.server(RPING + ['-s', '-a', '{server}', '-v'])
            cli = s.client(RPING + ['-c', '-a', '{server}', '-v'])
            cli.wait_until(lambda s=s: established(s, 1), 'they were connected')
            (srv if victim == 'server' else cli).kill()
            other = cli if victim == 'server' else srv
            other.wait()
            expect('DISCONNECT' in other.output, f'not told of the {victim}\'s death', other)


def rping_agent_killed(config, lab):
    """The agent dies while a server listens: the next one has it as well, and existing connections continue."""
    with Session(config, lab.get('lo')) as s:
        srv = s.server(RPING + ['-s', '-P', '-a', '{server}'])
        first = s.client(RPING + ['-c', '-a', '{server}', '-V'], 'first client')
        first.wait_until(lambda: established(s, 1), 'it was connected')
        os.kill(agent_status(config, s.topo.server)['pid'], signal.SIGKILL)
        s.finish(s.client(RPING + ['-c', '-a', '{server}', '-C', 20, '-V'], 'second client'))
        expect(srv.running() and first.running(), 'did not survive the agent', srv, first)


def rping_captured(config, lab):
    """One file has the messages of the connection and its data; nothing in it is against the standard."""
    config.need_part('verify')
    with tempfile.TemporaryDirectory(prefix='rocemu-cm-') as d:
        for place in ('lo-two', 'lo6'):
            with Session(config, lab.get(place)) as s:
                files = [os.path.join(d, f'{place}-{role}.pcap') for role in ('server', 'client')]
                srv = s.server(RPING + ['-s', '-a', '{server}', '-C', 3], options=('--pcap', files[0]))
                cli = s.client(RPING + ['-c', '-a', '{server}', '-C', 3], options=('--pcap', files[1]))
                s.finish(srv, cli)
            for file in files:
                text = tool(config, 'decode', file)
                order = re.findall(r'CM (REQ|REP|RTU|DREQ|DREP)\b', text)
                # One may be gone before the last answer comes.
                if order[:2] != ['REQ', 'REP'] or not {'REQ', 'REP', 'RTU', 'DREQ'} <= set(order):
                    raise Failure(f'{file}: {order}\n{text}')
                if 'RC READ_REQUEST' not in text:
                    raise Failure(f'no data in {file}\n{text}')
                tool(config, 'verify', file)


def vendor_options(place):
    """Options of vendors, offered and answered between two processes; and in the packets."""
    def run(config, lab):
        config.need_part('verify')
        program = config.program('prog', 'ece-check')
        with tempfile.TemporaryDirectory(prefix='rocemu-cm-') as d, Session(config, lab.get(place)) as s:
            file = os.path.join(d, 'client.pcap')
            srv = s.server([program, '{server}', '{port}'])
            cli = s.client([program, '{client}', '{port}', '{server}'], options=('--pcap', file))
            s.finish(srv, cli)
            text = tool(config, 'decode', file)
            for wanted in (r'CM REQ .* ece 0xa1b2c3:0xd4e5f607 ', r'CM REP .* ece 0xa1b2c3:0x18293a4b ',
                           r'CM REJ .* reason 35 \(vendor option not supported\)'):
                if not re.search(wanted, text):
                    raise Failure(f'no "{wanted}" in\n{text}')
            tool(config, 'verify', file)
    return Case(f'cm/ece/{place}', run, QUICK if place == 'lo' else NORMAL)


def tool(config, *argv):
    p = subprocess.run([config.rocemu, *argv], capture_output=True, text=True, check=False)
    if p.returncode != 0:
        raise Failure(f'rocemu {" ".join(argv)}: exit code {p.returncode}\n{p.stdout}{p.stderr}')
    return p.stdout


def silent(config, lab):
    """A host that has the port and does not answer: given up after all tries, 103 s."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody, Session(config, lab.get('lo')) as s:
        nobody.bind(('127.0.0.9', ROCE_PORT))
        cli = s.client(['rping', '-c', '-a', '127.0.0.9', '-C', 1])
        cli.wait(300)
        expect('UNREACHABLE, error -110' in cli.output, 'not told that it is unreachable', cli)


def no_such_host(config, lab, place):
    """No host on the link has that address: reported when the time for resolving it (2 s) is over."""
    with Session(config, lab.get(place)) as s:
        nobody = str(ipaddress.ip_address(s.topo.server.tcp) + 77)
        cli = s.client(['rping', '-c', '-a', nobody, '-C', 1])
        cli.wait()
        expect('ADDR_ERROR, error -110' in cli.output, 'not told that nobody is there', cli)


def unreachable(family):
    """A host without a server, whose port is closed, as the network reports. In namespaces of its own, where no agent is
    left of other cases."""
    def run(config, lab):
        lab.get('veth1500-v4').check()
        veth = VethPair(1500)
        try:
            addresses = veth.v4 if family == 4 else veth.v6
            sides = [Side('dev0=veth0', addresses[i], veth.names[i]) for i in (0, 1)]
            with Session(config, Topology('own', *sides)) as s:
                cli = s.client(['rping', '-c', '-a', '{server}', '-C', 1])
                cli.wait()
                expect(f'UNREACHABLE, error -{errno.ECONNREFUSED}' in cli.output, 'not told why', cli)
                expect(cli.age() < 60, 'not told before a host that is silent would be given up', cli)
        finally:
            veth.close()
    return run


TOS = 96
ECT0 = 2    # what RC packets have beside it: docs/bad-networks.md


def tos_on_the_wire(config, lab, place):
    """The client's setting is in every packet of the connection, messages and data of both directions; data is
    ECN-capable, messages (MADs, UD) are not."""
    with tempfile.TemporaryDirectory(prefix='rocemu-tos-') as d, Session(config, lab.get(place)) as s:
        path = os.path.join(d, 'wire.pcap')
        # Another user than root may be the one who writes.
        os.chmod(d, 0o777)
        wire = Proc(['dumpcap', '-q', '-P', '-i', 'veth0', '-f', f'udp port {ROCE_PORT}', '-w', path],
                    netns=s.topo.client.netns, name='dumpcap')
        s.procs.append(wire)
        wire.wait_until(lambda: os.path.exists(path), 'it captured')
        srv = s.server(['ucmatose', '-p', '{port}', '-b', '{server}'])
        s.finish(s.client(['ucmatose', '-p', '{port}', '-s', '{server}', '-t', TOS]), srv)
        # Both ends are gone; what they sent is in the capture when their last message is.
        wire.wait_until(lambda: b'DREP' in kinds(path), 'it had the end of the connection')
        wire.signal(signal.SIGINT)
        wire.wait()
        expect({b'REQ', b'REP', b'RTU', b'data'} <= kinds(path).keys(), f'{kinds(path)}', wire)
        for kind, values in kinds(path).items():
            want = TOS | ECT0 if kind == b'data' else TOS
            # The agent answers a DREQ that comes again when its process has ended, without the setting.
            ours = values - {0} if kind == b'DREP' else values
            expect(ours == {want}, f'{kind}: {values}, not {want}', wire)


def kinds(path):
    """Type of service of each kind of packet in a capture that may still be written."""
    attributes = {0x10: b'REQ', 0x13: b'REP', 0x14: b'RTU', 0x15: b'DREQ', 0x16: b'DREP'}
    found = {}
    try:
        with open(path, 'rb') as f:
            for p in icrc_check.packets(f.read()):
                ip = p.ip_header
                tos = ip[1] if ip[0] >> 4 == 4 else (ip[0] & 15) << 4 | ip[1] >> 4
                mad = p.bth_on[5:8] == b'\0\0\1'
                kind = attributes.get(int.from_bytes(p.bth_on[36:38], 'big'), b'other') if mad else b'data'
                found.setdefault(kind, set()).add(tos)
    except icrc_check.BadCapture:
        pass
    return found


# ---- datagrams and multicast -----------------------------------------------------------------------------

def is_member(side, group):
    """Is the host of a side a member of an IPv4 or IPv6 group?"""
    command = ['ip', 'maddress', 'show']
    if side.netns:
        command = ['ip', '-n', side.netns] + command[1:]
    return group in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def mckey(group, options=(), count=10):
    """A receiver and a sender, in two namespaces: over a network, with membership by the kernel."""
    def run(config, lab, place):
        with Session(config, lab.get(place)) as s:
            common = ['-C', count, '-S', 100, *options]
            receiver = s.start(s.topo.server, ['mckey', *group, '-b', '{server}', *common], 'receiver')
            receiver.wait_until(lambda: is_member(s.topo.server, group[1].replace('::ffff:', '')), 'it joined')
            s.finish(receiver, s.client(['mckey', *group, '-b', '{client}', '-s', *common], 'sender'))
    return run


def mckey_cases():
    for name, group, place in (('mckey', ('-m', '239.1.2.3'), 'veth1500-v4'),
                               ('mckey', ('-m', 'ff15::1:2:3'), 'veth1500-v6'),
                               ('mckey.unmapped', ('-M', '::ffff:239.1.2.4'), 'veth1500-v4')):
        yield Case(f'cm/{name}/{place}', lambda c, l, g=group, p=place: mckey(g)(c, l, p), NORMAL, needs=('mckey',))


# ---- many connections ------------------------------------------------------------------------------------

STEPS = re.compile(r'^([a-z ]+?) *: +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$', re.M)


def descriptors(p):
    """Open files of a program under `rocemu run`, which has become it."""
    return len(os.listdir(f'/proc/{p.pid}/fd'))


def cmtime(count):
    """Connections made and ended, step by step; what remains at the server is what there was before."""
    def run(config, lab):
        with Session(config, lab.get('lo')) as s:
            srv = s.server(['cmtime', '-p', '{port}', '-c', count])
            seen = []
            for turn in range(3):
                cli = s.client(['cmtime', '-p', '{port}', '-c', count, '-s', '{server}'])
                s.finish(cli)
                steps = {m.group(1): float(m.group(2)) for m in STEPS.finditer(cli.stdout)}
                expect({'connect', 'disconnect', 'destroy'} <= steps.keys(), 'no times', cli)
                expect('RDMA_CM_EVENT' not in cli.stdout, 'an event that was not expected', cli)
                if turn == 0:
                    # The first time opens the device and the lane.
                    srv.wait_until(lambda: idle(s), 'its connections were gone')
                    begin = descriptors(srv)
                srv.wait_until(lambda: idle(s), 'its connections were gone')
                srv.wait_until(lambda: descriptors(srv) == begin, f'it had {begin} descriptors again')
                seen.append(steps)
            total = sum(seen[-1][step] for step in ('resolve addr', 'resolve route', 'connect', 'disconnect'))
            return (f'{count / total * 1000:.0f} connections/s; ms for {count}: ' +
                    ', '.join(f'{k} {v:g}' for k, v in seen[-1].items()))
    return run


def idle(session):
    """Has the agent nothing of a connection any more: no will, one port?"""
    return of_server(session, 'exit_mads') == 0 and of_server(session, 'ports') == 1


# ---- perftest --------------------------------------------------------------------------------------------

PERFTEST = (('ib_write_bw', ()), ('ib_read_bw', ()), ('ib_send_lat', ()), ('ib_send_bw', ()), ('ib_write_lat', ()),
            ('ib_atomic_bw', ()), ('ib_send_lat', ('-c', 'UD')))


def perftest_cases():
    for program, options in PERFTEST:
        # -u: a busy machine lets a process wait for longer than the default.
        common = [program, '-R', '-F', '-p', '{port}', '-n', 50, '-u', 18, *options]
        name = '.'.join([program] + [o.lower() for o in options if o != '-c'])
        everywhere = program in ('ib_write_bw', 'ib_send_lat')
        lines = common, common + ['{server}']
        yield from programs(f'perftest/{name}', *lines, level=QUICK if everywhere else NORMAL)
        yield from programs(f'perftest/{name}', *lines, where=('lo-two', 'veth1500-v4'),
                            level=NORMAL if everywhere else FULL)


# ---- all -------------------------------------------------------------------------------------------------

def complete(text):
    def check(srv, cli):
        for p in (srv, cli):
            expect(text in p.stdout, f'no "{text}"', srv, cli)
    return check


def passed(srv, cli):
    for p in (srv, cli):
        expect(re.search(r'end 0', p.stdout), 'not ended well', srv, cli)


def cases():
    found = []
    found += rping('rping', (), where=WHERE, level=QUICK)
    found += rping('rping.own_qp', ('-q',), where=('lo', 'lo6'))
    found += rping('rping.size', ('-S', 65535))
    found += rping('rping.debug', ('-d',), level=FULL)
    # Each message twice, late and out of order; some lost, which costs 6 s each.
    found += rping('rping.doubled', (), impair=('--impair', 'dup=100%,reorder=30%,delay=0us..5ms,seed=1'))
    # By aim: each message of the connection manager late, every other one twice, the first one that comes in lost (6 s).
    found += rping('rping.rules', (), impair=('--impair', 'delay time=5ms qp=1; dup qp=1 every=2; drop qp=1 dir=rx once'))
    found += rping('rping.lossy', (), impair=('--impair', 'loss=15%,seed=1'), level=FULL)
    found += rping('rping.flaps', (), impair=('--impair', 'flap=300ms..1s/30ms,seed=2'), level=FULL)
    found += rping('rping.bound', (), ('-I', '{client}'), where=('lo', 'lo-two', 'veth1500-v4', 'veth1500-v6'))
    found += [
        Case('cm/rping.persistent/lo', rping_persistent, NORMAL, needs=('rping',)),
        Case('cm/rping.no_server/lo', rping_no_server, QUICK, needs=('rping',)),
        Case('cm/rping.killed/lo', rping_killed, NORMAL, needs=('rping',)),
        Case('cm/rping.agent_killed/lo', rping_agent_killed, NORMAL, needs=('rping',)),
        Case('cm/rping.captured', rping_captured, NORMAL, needs=('rping',)),
        Case('cm/rping.silent/lo', silent, FULL, needs=('rping',)),
        *(Case(f'cm/rping.no_such_host/{p}', lambda c, l, p=p: no_such_host(c, l, p), NORMAL, needs=('rping',))
          for p in ('veth1500-v4', 'veth1500-v6')),
    ]
    found += [vendor_options(place) for place in WHERE]
    found += [Case(f'cm/rping.unreachable/veth-v{family}', unreachable(family), needs=('rping',)) for family in (4, 6)]
    found += [Case(f'cm/tos/{place}', lambda c, l, p=place: tos_on_the_wire(c, l, p), needs=('ucmatose', 'dumpcap'))
              for place in ('veth1500-v4', 'veth1500-v6')]
    done = complete('data transfers complete')
    found += programs('ucmatose', ['ucmatose', '-p', '{port}', '-b', '{server}', '-c', 5],
                      ['ucmatose', '-p', '{port}', '-s', '{server}', '-c', 5], where=WHERE, check=done)
    found += programs('ucmatose.many', ['ucmatose', '-p', '{port}', '-c', 200, '-C', 2],
                      ['ucmatose', '-p', '{port}', '-s', '{server}', '-c', 200, '-C', 2], check=done)
    found += programs('ucmatose.migrate', ['ucmatose', '-p', '{port}', '-m', '-c', 3],
                      ['ucmatose', '-p', '{port}', '-s', '{server}', '-m', '-c', 3], check=done)
    # Where hosts are named, one name has an address of the loopback interface.
    found += programs('ucmatose.name', ['ucmatose', '-p', '{port}', '-f', 'name'],
                      ['ucmatose', '-p', '{port}', '-f', 'name', '-s', 'localhost'], check=done)
    found += programs('ucmatose.tos', ['ucmatose', '-p', '{port}'],
                      ['ucmatose', '-p', '{port}', '-s', '{server}', '-t', '96'], check=done)
    found += programs('ucmatose.ib', ['ucmatose', '-p', '{port}', '-P', 'ib'],
                      ['ucmatose', '-p', '{port}', '-s', '{server}', '-P', 'ib'], space='ib', check=done)
    found += ucmatose_formats(done)
    found += programs('udaddy', ['udaddy', '-b', '{server}', '-c', 3], ['udaddy', '-s', '{server}', '-c', 3],
                      where=WHERE, space='udp', check=done, port=7174)
    found += programs('rdma_client', ['rdma_server', '-p', '{port}'], ['rdma_client', '-p', '{port}', '-s', '{server}'],
                      where=('lo', 'veth1500-v4'), level=QUICK, check=passed)
    found += programs('rdma_xclient', ['rdma_xserver', '-p', '{port}'],
                      ['rdma_xclient', '-p', '{port}', '-s', '{server}'], check=passed)
    found += programs('rdma_xclient.xrc', ['rdma_xserver', '-p', '{port}', '-c', 'x'],
                      ['rdma_xclient', '-p', '{port}', '-s', '{server}', '-c', 'x'], space='ib', check=passed)
    found += mckey_cases()
    found += perftest_cases()
    found.append(Case('cm/cmtime/lo', cmtime(1000), NORMAL, alone=True, needs=('cmtime',)))
    # More at once than any backlog, as cmtime makes them.
    found.append(Case('cm/cmtime.burst/lo', cmtime(4000), NORMAL, alone=True, needs=('cmtime',)))
    return found
