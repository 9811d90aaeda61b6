# SPDX-License-Identifier: BSD-2-Clause
"""Another user of the peer's host, with a plain UDP socket, sends messages of connection management
for a connection of others. The test gives that user more than could be found out: one of the two
communication IDs, or both but another address. The connection stays. And what a second host gets for messages that it has
not sent, because another one uses its address."""
import multiprocessing
import os
import random
import socket
import struct
import tempfile
import time

import qp1
from cases_cm import agent_status
from cases_cm_end import GUARD_MS, Actor
from cases_forged import in_netns, stranger
from harness import NOBODY, NORMAL, Case, Failure, VethPair, expect, gid_index, need_user, new_port, start, users

HOSTILE = '127.0.0.77'
DRAIN_MS = 100
SPOOFED = 200               # messages of each kind
MORE_MAX = 2 * 16 + 8       # MADs beyond one for each of them: CM_UNASKED in each of two seconds, and some
QUIET_S, SO_RCVBUFFORCE = 0.5, 33
BY_VERBS = 100              # REQs from a program's UD QP
SWEEP = 1000                # IDs on both sides of the right one
ID_BITS = 22                # of a communication ID: the others are the process's number

# Those that name both sides: with each, the message that a connection could end by or wait for.
ABOUT_TWO = (qp1.MRA, qp1.REJ, qp1.REP, qp1.RTU, qp1.DREQ, qp1.DREP, qp1.LAP, qp1.APR)


def with_fields(attr, tid, local_id, remote_id, qpn):
    mad = qp1.message(attr, tid, local_id, remote_id)
    if attr == qp1.DREQ:
        qp1.put_qpn(mad, qp1.DREQ_QPN, qpn)
    elif attr == qp1.LAP:
        qp1.put_qpn(mad, qp1.LAP_QPN, qpn)
    elif attr == qp1.REJ:
        struct.pack_into('>BBH', mad, qp1.BODY + 8, qp1.TO_OTHER << 6, 0, 28)
    elif attr == qp1.MRA:
        struct.pack_into('>BB', mad, qp1.BODY + 8, qp1.TO_REP << 6, 31 << 3)
    return mad


def around(right):
    """IDs of the same process, in turn, without the right one."""
    high, low = right >> ID_BITS, right & (1 << ID_BITS) - 1
    return [high << ID_BITS | (low + i) % (1 << ID_BITS) for i in range(-SWEEP, SWEEP + 1) if i]


def forgeries(end, rng):
    """To one end of the connection: messages of a sender that has the end's own ID, and all but the peer's."""
    def tid():
        return rng.choice((rng.getrandbits(64), end['guessed_tid']))

    for attr in ABOUT_TWO:
        for ids in ((0, end['id']), (0, 0), (end['peer_id'], 0)):
            yield with_fields(attr, tid(), *ids, end['qpn'])
        for peer_id in around(end['peer_id']):
            yield with_fields(attr, tid(), peer_id, end['id'], end['qpn'])
    for own_id in around(end['id']):
        for attr in (qp1.REJ, qp1.DREQ):
            yield with_fields(attr, tid(), end['peer_id'], own_id, end['qpn'])


def stale(end, request):
    """REQs implying that the peer has lost its end: its QP in a new request, and its ID."""
    for name in ('qp', 'id'):
        mad = bytearray(request)
        struct.pack_into('>Q', mad, qp1.TID, 1 + len(name))
        struct.pack_into('>I', mad, qp1.LOCAL_ID, end['peer_id'] ^ (0x155 if name == 'qp' else 0))
        struct.pack_into('>Q', mad, qp1.REQ_GUID, end['peer_guid'])
        qp1.put_qpn(mad, qp1.REQ_QPN, end['peer_qpn'] ^ (0 if name == 'qp' else 0x155))
        yield mad


def from_elsewhere(end):
    """All is right but the address."""
    for attr in ABOUT_TWO:
        yield with_fields(attr, end['guessed_tid'], end['peer_id'], end['id'], end['qpn'])


def forge(ends, request, sent):
    """The process of the other user."""
    if os.geteuid() == 0:
        users.become(NOBODY)
    rng = random.Random(4791)
    for end in ends:
        near, far = qp1.Sender(end['peer'], end['address']), qp1.Sender(HOSTILE, end['address'])
        for sender, mads in ((near, forgeries(end, rng)), (near, stale(end, request)), (far, from_elsewhere(end))):
            for mad in mads:
                sender.send(mad)
                sent.value += 1
                if sent.value % 32 == 0:
                    time.sleep(0.001)       # or the agent's socket drops some


def learned(path, topo):
    """What a capture has of the connection, as each end has it; and the REQ."""
    mads = {m.attr: m for m in qp1.captured(path)}
    expect(qp1.REQ in mads and qp1.REP in mads, f'{path} has no REQ or no REP')
    req, rep = mads[qp1.REQ], mads[qp1.REP]
    client = {'id': req.local_id, 'qpn': qp1.get_qpn(req.mad, qp1.REQ_QPN), 'address': topo.client.address,
              'guid': struct.unpack_from('>Q', req.mad, qp1.REQ_GUID)[0]}
    server = {'id': rep.local_id, 'qpn': qp1.get_qpn(rep.mad, qp1.REP_QPN), 'address': topo.server.address,
              'guid': struct.unpack_from('>Q', rep.mad, qp1.REP_GUID)[0]}
    for end, peer in ((client, server), (server, client)):
        end.update(peer=peer['address'], peer_id=peer['id'], peer_qpn=peer['qpn'], peer_guid=peer['guid'],
                   # As the kernel's are, and as rocemu's once were.
                   guessed_tid=2 << 32 | int.from_bytes(peer['id'].to_bytes(4, 'big'), 'little'))
    return (client, server), req.mad


def agent_has_read(config, topo, wanted):
    """All that was sent has come to the agent, or was lost on the way there."""
    end = time.monotonic() + GUARD_MS / 1000
    while True:
        counters = agent_status(config, topo.server)['cm']['counters']
        if counters['rx'] + counters['rx_overflow'] >= wanted:
            return counters
        if time.monotonic() > end:
            raise Failure(f'the agent got {counters["rx"]} of {wanted} messages')
        time.sleep(0.01)


def forged(config, lab):
    topo = lab.get('lo-two')
    topo.check()
    if os.geteuid() == 0:
        need_user(NOBODY)
    port = new_port()
    with tempfile.TemporaryDirectory(prefix='rocemu-forged-') as d:
        capture = os.path.join(d, 'client.pcap')
        with Actor(config, topo.server, 'server') as server, \
                Actor(config, topo.client, 'client', ('--pcap', capture)) as client:
            server.do(f'listen {topo.server.address} {port} 8', r'ok \d+')
            client.do(f'resolve {topo.server.address} {port}', r'ok \d+')
            client.do('qp 0')
            client.do('connect 0')
            server.event('CONNECT_REQUEST 0 1', GUARD_MS)
            server.do('qp 1')
            server.do('accept 1')
            client.event('ESTABLISHED 0', GUARD_MS)
            server.event('ESTABLISHED 0', GUARD_MS)

            ends, request = learned(capture, topo)
            before = agent_status(config, topo.server)['cm']['counters']['rx']
            sent = multiprocessing.Value('q', 0)
            other_user = multiprocessing.Process(target=forge, args=(ends, request, sent))
            other_user.start()
            other_user.join()
            expect(other_user.exitcode == 0, 'the forger ended badly')
            counters = agent_has_read(config, topo, before + sent.value)
            expect(counters['rx'] - before > sent.value / 2, f'{counters["rx_overflow"]} of {sent.value} did not arrive')

            # A second connection is made: each side has read the messages sent before. And no event
            # shows that the first one has ended, not even after the time that DISCONNECTED waits
            # for completions.
            client.do(f'resolve {topo.server.address} {port}', r'ok \d+')
            client.do('qp 1')
            client.do('connect 1')
            server.event('CONNECT_REQUEST 0 2', GUARD_MS)
            server.do('qp 2')
            server.do('accept 2')
            client.event('ESTABLISHED 0 1', GUARD_MS)
            server.event('ESTABLISHED 0 2', GUARD_MS)
            for actor in (server, client):
                actor.do(f'event {DRAIN_MS}', 'none')
            client.do('disconnect 0')
            server.event('DISCONNECTED 0 1', GUARD_MS)
            server.do('disconnect 1')
            client.event('DISCONNECTED 0 0', GUARD_MS)
            return f'{sent.value} forged messages'


class Victim:
    """A second host's address that another one uses as the source of what it sends. A plain socket counts what comes back,
    and lets no ICMP message go out."""

    def __init__(self, topo):
        # Not one that an agent may have opened for another case.
        self.address, self.netns, self.to = stranger(topo, topo.client, 99), topo.client.netns, topo.server.address
        self.sink = in_netns(self.netns, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        self.sink.bind((self.address, qp1.ROCE_PORT))
        self.sink.settimeout(QUIET_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sink.close()
        VethPair.ip('-n', self.netns, 'address', 'delete', self.address + '/24', 'dev', 'veth0')

    def requests(self, port):
        return in_netns(self.netns, lambda: qp1.Requests(self.address, self.to, port))

    def received(self, sender, mads):
        """How many MADs come back for these, until there is silence."""
        for mad in mads:
            sender.send(mad)
        n = 0
        try:
            while True:
                n += len(self.sink.recv(2048)) == qp1.HEADERS + qp1.MAD_LEN + 4
        except TimeoutError:
            return n


def spoofed_requests(requests, port):
    requests.service(port)
    requests.demand_most()
    return [bytes(requests.next()) for _ in range(SPOOFED)]


def about_nothing(attr):
    return [qp1.message(attr, 1 << 40 | i, 0x80000000 | i, i + 1) for i in range(SPOOFED)]


def amplification(config, lab):
    """For each message of a forged source: one answer at most, and a fixed number of MADs a second."""
    topo = lab.get('veth1500-v4')
    topo.check()
    accepts, rejects, nobody = (new_port() for _ in range(3))
    with Victim(topo) as v, Actor(config, topo.server, 'accepting') as a, Actor(config, topo.server, 'rejecting') as r:
        for actor, port, friend in ((a, accepts, v.address), (r, rejects, topo.client.address)):
            actor.do(f'listen {topo.server.address} {port} 0', r'ok \d+')
            actor.do(f'serve {friend}')
        req = v.requests(accepts)
        got = {'REQ accepted': v.received(req.sender, spoofed_requests(req, accepts)),
               'REQ rejected': v.received(req.sender, spoofed_requests(req, rejects)),
               'REQ to nobody': v.received(req.sender, spoofed_requests(req, nobody))}
        for name in ('MRA', 'REJ', 'REP', 'RTU', 'DREQ', 'DREP', 'SIDR_REQ', 'SIDR_REP', 'LAP', 'APR'):
            got[name] = v.received(req.sender, about_nothing(getattr(qp1, name)))
    text = ', '.join(f'{name} {n / SPOOFED:.2f}' for name, n in got.items())
    expect(SPOOFED <= got['REQ accepted'] <= SPOOFED + MORE_MAX, f'accepted requests: {text}')
    expect(got['REQ rejected'] == got['REQ to nobody'] == SPOOFED, f'not one answer each: {text}')
    expect(max(got[name] for name in got if name != 'REQ accepted') <= SPOOFED, f'more than one answer: {text}')
    return f'MADs for each: {text}'


def by_verbs(config, lab):
    """A program's UD QP may send to QP 1, also with QP 1's Q_Key. The other host's agent takes none of it for connection
    management, since it does not come from a QP 1."""
    topo = lab.get('lo-two')
    topo.check()
    port = new_port()
    with Actor(config, topo.server, 'server') as server:
        server.do(f'listen {topo.server.address} {port} 8', r'ok \d+')
        requests = qp1.Requests(topo.client.address, topo.server.address, port)
        mads = [bytes(requests.next()) for _ in range(BY_VERBS)] + [bytes(mad) for attr in ABOUT_TWO for mad in about_nothing(attr)[:1]]
        before = agent_status(config, topo.server)['cm']['counters']
        with tempfile.TemporaryFile() as f:
            f.write(b''.join(mads))
            for qkey in (qp1.GSI_QKEY, 0x11):
                f.seek(0)
                p = start(config, topo.client, [config.program('prog', 'ud-mad'), topo.client.name, gid_index(config, topo.client),
                                                topo.server.address, hex(qkey)], 'ud-mad', stdin=f)
                expect(p.wait() == 0 and p.stdout.startswith(f'{len(mads)} sent'), 'not sent', p)
        after = agent_has_read(config, topo, before['rx'] + 2 * len(mads))
        for name, wanted in (('rx', 2 * len(mads)), ('rx_form', 2 * len(mads)), ('tx', 0), ('no_listener', 0), ('unknown_id', 0)):
            expect(after[name] - before[name] == wanted, f'{name}: {after[name] - before[name]}, not {wanted}')
        server.do(f'event {DRAIN_MS}', 'none')
        # The same request, from QP 1: it is a good one.
        requests.sender.send(mads[0])
        server.event('CONNECT_REQUEST 0 1', GUARD_MS)


def cases():
    return [Case('cm/forged/lo-two', forged, NORMAL, alone=True),
            Case('cm/forged/amplification', amplification, NORMAL, alone=True),
            Case('cm/forged/verbs', by_verbs, NORMAL)]
