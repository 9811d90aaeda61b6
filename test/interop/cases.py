# SPDX-License-Identifier: BSD-2-Clause
"""What is run against rxe: the cases, which of them are the short cover, and the differences of rxe that are known."""
import os
import re
import time

import cases_addr
import cases_connect
import cases_sockets
import conform
import errors
import harness
import parity
import realnic
import scenario_pair
import scenarios
from peers import code, FAMILIES, gid_index, MTUS, ROLES, Row

NORMAL, FULL = 1, 2
TRANSPORTS = ('rc', 'uc', 'ud')
# Acknowledgement timeout, 4.096 us * 2^16 = 268 ms: the guest is emulated, and may have to wait for a processor.
PATIENCE = 16
GUARD_S = 600                     # hundreds of connections with an emulated guest
SOAK_S = {NORMAL: 5, FULL: 60}

# Where rxe differs from the specification, and the visible effect: (number, check, message,
# explanation).
KNOWN = (
    (1, r'send_too_long', r'REM_OP_ERR|LOC_QP_OP_ERR',
     'rxe answers a SEND longer than the receive buffer with NAK 0x63 (remote operational error) and completes the '
     'receive with LOC_QP_OP_ERR; IBTA has NAK 0x61 and LOC_LEN_ERR.'),
    (2, r'bad_lkey|receive_bad_lkey', r'LOC_QP_OP_ERR',
     'rxe completes a request or a receive whose L_Key is unknown with LOC_QP_OP_ERR; IBTA has LOC_PROT_ERR. The packets '
     'are as in IBTA.'),
    (3, r'atomic_unaligned', r'returned -22',
     'The provider of rxe in rdma-core refuses an unaligned atomic when it is posted, so no packet is sent.'),
    (4, r'fence', r'came: +nothing',
     'Rare, on a busy machine: rxe receives all responses to the READ before a fenced SEND, and '
     'never sends the SEND. rxe checks whether the READ is complete, and only afterwards records '
     'that the SEND waits for it. A response that arrives in between does not start the SEND.'),
    (5, r'udpong', r'rconnect: No such file or directory',
     'rdma-core\'s datagram rsockets do not work on RoCE, not even with each other. For each QP they make an address handle of '
     'the port\'s own LID, without GRH, which the driver refuses (EINVAL). So rconnect() fails, and a server sends no answer.'),
    (6, r'rstream', r'16',
     'The rpoll() of rdma-core\'s librdmacm reports POLLHUP as soon as the peer has closed, with data unread. rstream -T a, '
     'asynchronous, treats that as an error when its peer closes quickly. rocemu\'s rpoll() reports POLLHUP once all data was read.'),
    (7, r'uc_too_long', r'LOC_QP_OP_ERR',
     'A UC message longer than its receive breaks rxe\'s QP; rocemu drops the message and keeps the QP.'),
)
OF_ITS_REQUESTER = (4,)          # known only where rxe is the client

NOTES = (
    'rxe treats an ACK with the PSN of a READ or an atomic as the response: the request completes without data, or the '
    'QP breaks. rocemu sends no such ACK (`duplicate_write__newest_is_a_read` in `test/transport`).',
    'After an RNR NAK for the first packet of a message, rxe sends a sequence NAK for the packets behind it. By '
    'IBTA they are dropped silently.',
    'rxe treats a retry count of 7 as infinite: an rxe QP whose peer has gone repeats its request without a limit.',
    'rxe allows 128 outstanding READs and atomics, rocemu 16, as common hardware does. perftest reads from its '
    'own device the number that the peer\'s device allows, so between different devices it needs `-o 16`.',
    'The kernel\'s rdma_cm of 6.1 joins no IPv6 multicast group on rxe (ENOTSUPP).',
    'perftest -R accepts no IPv6 address. Its server stops listening between two connections, so a quick client is rejected, and '
    'does not recover. The test repeats such a run, up to 4 times, and reports that it did. '
    'With rxe at both ends the same happens if the server is delayed at that point '
    '(`alone/perftest-R`).',
    'rxe marks the receive completion of a SEND with invalidate by the kernel\'s flag value, 4, which user space reads '
    'as IBV_WC_IP_CSUM_OK. `scenario-verbs --rxe-inv` takes that flag for it, and leaves the key unchecked at the rxe end.',
    'rxe gives a region without any remote right the R_Key 0.',
    'rxe sends the first packets of a WRITE whose local memory ends in a later packet, then fails it. IBTA allows that.',
    *cases_addr.NOTES,
)


class Case:
    def __init__(self, name, role, family, mtu, level, run, corrupts=False, label=None):
        self.name = f'{name}/rocemu-{role}/{family}/{mtu}' if role else name
        self.role, self.family, self.mtu, self.level, self.run = role, family, mtu, level, run
        self.on_wire = role is not None
        self.corrupts = corrupts       # the capture is to hold packets with a wrong ICRC
        self.label = label             # (group, label) of its only row; None: its rows are the scenarios'


def places():
    for role in ROLES:
        for family in FAMILIES:
            for mtu in MTUS:
                yield role, family, mtu


# ---- scenarios ------------------------------------------------------------------------------------------

def label_of(transport, name):
    """A case's name begins with its label."""
    return f'{transport.upper()} {name.split(":")[0]}'


def scenario_rows(group, transport, text, role=None):
    """A row for each case, of what scenario-verbs --results prints: its error, then 'ok' or 'not ok' with its name."""
    rows, why = [], ''
    for line in text.splitlines():
        m = re.match(r'(ok|not ok) (\w+):', line)
        if not m:
            why += line + '\n'
            continue
        row = Row(group, label_of(transport, m[2]), 'pass')
        known = next((k for k in KNOWN if re.fullmatch(k[1], m[2]) and re.search(k[2], why)
                      and (role == 'server' or k[0] not in OF_ITS_REQUESTER)), None)
        if m[1] != 'ok':
            row.outcome, row.text, row.known = ('known', '', known[0]) if known else ('fail', f'{line}\n{why}', 0)
        rows.append(row)
        why = ''
    return rows


def scenario_argv(wire, transport, family, group, ways=(), sets=()):
    """End b is the server."""
    def argv(end, port, server):
        own = ('--rxe-inv',) if end.device == 'rxe0' else ()
        there = ('--peer', f'{server}:{port}') if server else ('--listen', port)
        sets_too = [x for s in (f'path_mtu={MTUS[wire.mtu]}', f'area={scenario_pair.AREA}', f'timeout={PATIENCE}', *sets) for x in ('--set', s)]
        text = ('--results', '--with', f'TYPE={scenario_pair.TYPES[transport]}', *sets_too, end.scenario(f'verbs-{group}'))
        return [end.program('scenario-verbs', 'scenario'), '--device', end.device, '--gid', gid_index(end, family), *own, *ways, *there,
                *(text if server else ())]
    return argv


GROUP_NAMES = {'ops': 'Operations', 'flow': 'Order and notification', 'errors': 'Errors'}


def verbs(wire, role, family, transport, group, ways=(), sets=(), impair=None):
    argv = scenario_argv(wire, transport, family, group, ways, sets)
    server, client = wire.pair(role, argv, argv, impair=impair, guard=GUARD_S)
    rows = scenario_rows(GROUP_NAMES[group], transport, client.stdout, role)
    done = re.search(r'^(\d+) cases in (\d+) rounds', client.stdout, re.M)
    if not done or len(rows) != int(done[1]):
        raise harness.Failure(f'not all cases ran\n{server.report()}\n{client.report()}')
    return rows, f'{done[2]} rounds'


def verbs_cases():
    for role, family, mtu in places():
        cover = (family, mtu) in (('v4', 1500), ('v6', 4200))
        for transport in TRANSPORTS:
            for group in ('ops', 'flow', 'errors'):
                yield Case(f'verbs/{transport}.{group}', role, family, mtu, NORMAL if cover else FULL,
                           lambda w, c, t=transport, g=group: verbs(w, c.role, c.family, t, g))
        yield Case('verbs/rc.ops.wr.events.srq', role, family, mtu, FULL,
                   lambda w, c: verbs(w, c.role, c.family, 'rc', 'ops', ('--cq-ex', '--events'), ('srq=1',)))


# ---- bad networks ----------------------------------------------------------------------------------------

IMPAIR = {
    'loss': 'loss=2%,seed=1',
    'duplication': 'dup=3%,seed=2',
    'reordering': 'reorder=3%,seed=3',
    'corruption': 'corrupt=2%,seed=4',
    'all of it': 'loss=1%,dup=1%,reorder=1%,delay=1us..100us,seed=6',
}
NETEM = {
    'loss': 'loss 2%',
    'duplication': 'duplicate 3%',
    'reordering': 'delay 1ms reorder 90%',
    'all of it': 'delay 1ms reorder 95% loss 1% duplicate 1%',
}


def impaired(wire, case, kind, by_guest):
    if by_guest:
        wire.impair_guest(NETEM[kind])
    try:
        rows, text = verbs(wire, case.role, case.family, 'rc', 'flow', (), (), None if by_guest else IMPAIR[kind])
    finally:
        if by_guest:
            wire.clear_guest()
    bad = [r for r in rows if r.outcome == 'fail']
    return [Row(*case.label, 'fail' if bad else 'pass', bad[0].text if bad else '')], text


def impair_cases():
    for role, family, mtu in places():
        if (family, mtu) not in (('v4', 1500), ('v6', 4200)):
            continue
        for by_guest, kinds in ((False, IMPAIR), (True, NETEM)):
            for kind in kinds:
                cover = (family, mtu) == ('v4', 1500) and kind == 'all of it'
                name = f'{"netem" if by_guest else "impair"}/{kind.replace(" ", "-")}'
                yield Case(name, role, family, mtu, NORMAL if cover else FULL,
                           lambda w, c, k=kind, b=by_guest: impaired(w, c, k, b), corrupts=kind == 'corruption',
                           label=('Bad networks', f'RC, {kind} of what {"rxe" if by_guest else "rocemu"} sends'))


# ---- stock programs --------------------------------------------------------------------------------------

def pingpong(wire, case, kind):
    # A UD message is one packet.
    size = ('-s', 1000) if kind == 'ud' else ('-m', MTUS[case.mtu])

    def argv(end, port, server):
        return [f'ibv_{kind}_pingpong', '-d', end.device, '-g', gid_index(end, case.family), '-n', 100, '-p', port, '-c',
                *size, *((server,) if server else ())]

    server, client = wire.pair(case.role, argv, argv)
    good = all(re.search(r'\d+ iters in', p.stdout) and 'invalid data' not in p.output and code(p) == 0
               for p in (server, client))
    return [Row(*case.label, 'pass' if good else 'fail',
                '' if good else f'{server.report()}\n{client.report()}')], ''


PERFTEST = {
    'ib_send_lat': ('RC', 'UC', 'UD'),
    'ib_send_bw': ('RC',),
    'ib_write_lat': ('RC', 'UC'),
    'ib_write_bw': ('RC',),
    'ib_read_lat': ('RC',),
    'ib_read_bw': ('RC',),
    'ib_atomic_lat': ('RC',),
    'ib_atomic_bw': ('RC',),
}


def perftest(wire, case, program, transport, options=(), iters=100):
    kind = ('-c', transport) if len(PERFTEST[program]) > 1 else ()
    if program.startswith(('ib_read', 'ib_atomic')):
        # perftest takes the peer's limit of outstanding READs for its own device's.
        kind += ('-o', 16)

    def argv(end, port, server):
        return [program, '-d', end.device, '-x', gid_index(end, case.family), '-p', port, '-F', '-n', iters,
                '-u', PATIENCE, *kind, *options, *((server,) if server else ())]

    server, client = wire.pair(case.role, argv, argv)
    good = code(server) == 0 and code(client) == 0 and re.search(r'^ *\d+ +\d+ +\d+\.\d+', client.stdout, re.M)
    return [Row(*case.label, 'pass' if good else 'fail',
                '' if good else f'{server.report()}\n{client.report()}')], ''


def stock_cases():
    for role, family, mtu in places():
        for kind in ('rc', 'uc', 'ud', 'srq'):
            cover = (family, mtu) in (('v6', 1500), ('v4', 4200))
            yield Case(f'pingpong/{kind}', role, family, mtu, NORMAL if cover else FULL,
                       lambda w, c, k=kind: pingpong(w, c, k), label=('Stock programs', f'ibv_{kind}_pingpong'))
        for program, transports in PERFTEST.items():
            for t in transports:
                cover = (family, mtu) == ('v4', 1500) and program in ('ib_send_lat', 'ib_write_bw', 'ib_read_bw',
                                                                      'ib_atomic_lat') and t == 'RC'
                yield Case(f'perftest/{program}.{t.lower()}', role, family, mtu, NORMAL if cover else FULL,
                           lambda w, c, p=program, t=t: perftest(w, c, p, t),
                           label=('Stock programs', f'{program} {t}'))
        for program in ('ib_write_bw', 'ib_read_bw', 'ib_send_bw'):
            cover = (family, mtu) == ('v6', 1500) and program == 'ib_write_bw'
            yield Case(f'perftest/{program}.64qps', role, family, mtu, NORMAL if cover else FULL,
                       lambda w, c, p=program: perftest(w, c, p, 'RC', ('-q', 64, '-s', 4096), 20),
                       label=('Stock programs', f'{program} RC, 64 QPs'))


# ---- soak ------------------------------------------------------------------------------------------------

ROUNDS_A_KNOWN = 50              # of a soak; what is rare, and differs more often, is something else


def soak(wire, case, seconds):
    begin, rounds, known = time.monotonic(), 0, []
    while time.monotonic() - begin < seconds:
        rows, _ = verbs(wire, case.role, case.family, 'rc', 'flow')
        rounds += 1
        known += [r for r in rows if r.outcome == 'known']
        bad = [r for r in rows if r.outcome == 'fail']
        if not bad and len(known) > 1 + rounds // ROUNDS_A_KNOWN:
            bad = known[-1:]
        if bad:
            return [Row(*case.label, 'fail', f'round {rounds}: {bad[0].text or bad[0].label}')], ''
    seen = f', known differences in {len(known)}' if known else ''
    return [Row(*case.label, 'pass')], f'{rounds} rounds in {seconds} s{seen}'


def soak_cases(full):
    for role in ROLES:
        yield Case('soak/rc', role, 'v4', 1500, NORMAL, lambda w, c: soak(w, c, SOAK_S[FULL if full else NORMAL]),
                   label=('Order and notification', 'RC soak'))


# ---- both devices in the guest ---------------------------------------------------------------------------

def parity_case(wire, full):
    report, text = parity.compare(wire, () if full else parity.COVER)
    if full:
        wire.parity_report = report
    return [Row(parity.GROUP, 'rocemu parity', 'pass')], text


def probe(wire):
    """docs/verbs.md has rxe's features from the guest's output: is the output still the same?"""
    text = wire.guest.run('/build/test/verbs/verbs-probe', 'rxe0')
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'verbs', 'rxe-probe.txt'), encoding='utf-8') as f:
        known = f.read()
    differs = sorted(set(text.splitlines()) ^ set(known.splitlines()))
    if differs:
        raise harness.Failure('test/verbs/rxe-probe.txt is not what verbs-probe prints: ' + '; '.join(differs))
    return [Row(realnic.GROUP, 'verbs-probe', 'pass')], f'{len(text.splitlines())} calls and flags'


def real_nic(wire, name):
    text = realnic.run(wire, name)
    return [Row(realnic.GROUP, name, 'pass')], text


def errors_case(wire, pair):
    return [Row(errors.GROUP, errors.name_of(pair), 'pass')], errors.run(wire, pair)


def conformance(wire):
    return [Row(conform.GROUP, 'rocemu conform', 'pass')], conform.run(wire)


def packets(wire):
    return [Row(scenarios.GROUP, 'scenario-verbs', 'pass')], scenarios.run(wire)


def cases(full):
    # By MTU, which is changed for each half only.
    every = [*verbs_cases(), *impair_cases(), *stock_cases(), *cases_connect.cm_cases(Case, NORMAL, FULL),
             *cases_sockets.rsocket_cases(Case, NORMAL, FULL), *soak_cases(full),
             Case('parity/rxe', None, None, 4200, NORMAL, lambda w, c: parity_case(w, full)),
             Case('addresses/rxe', None, None, 4200, NORMAL, lambda w, c: cases_addr.compare(w)),
             Case('alone/perftest-R', None, None, 4200, NORMAL,
                  lambda w, c: ([Row('rxe alone', 'ib_write_bw -R', 'pass')], cases_connect.alone(w))),
             Case('conform/rxe', None, None, 4200, FULL, lambda w, c: conformance(w)),
             Case('packets/rxe', None, None, 4200, NORMAL, lambda w, c: packets(w)),
             Case('probe/rxe', None, None, 4200, NORMAL, lambda w, c: probe(w)),
             *(Case(f'errors/{"-".join(pair)}', None, None, 4200, NORMAL, lambda w, c, p=pair: errors_case(w, p))
               for pair in errors.PAIRS),
             *(Case(f'real-nic/{name}', None, None, 4200, NORMAL, lambda w, c, n=name: real_nic(w, n))
               for name in realnic.CASES)]
    return sorted(every, key=lambda c: c.mtu)
