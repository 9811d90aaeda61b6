# SPDX-License-Identifier: BSD-2-Clause
"""What `rocemu run --trace` writes: each request from post to completion, each packet, states, timers, connection messages."""
import collections
import json
import os
import tempfile

from cases_capture import both, pingpong
from cases_cm import RPING, Session
from harness import NORMAL, QUICK, Case, Failure, expect, new_port, pair, run, start

ITERATIONS = 50


def events(path):
    """The list lacks its last bracket: processes append to it."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    try:
        return json.loads(text.rstrip().rstrip(',') + ']')
    except json.JSONDecodeError as e:
        raise Failure(f'{path}: {e}: ...{text[max(0, e.pos - 200):e.pos + 200]}') from None


class Side:
    """The events of one process."""

    def __init__(self, everything, pid):
        self.events = [e for e in everything if e['pid'] == pid]
        self.titles = {e['tid']: e['args']['name'] for e in self.events if e['name'] == 'thread_name'}
        self.program = next(e['args']['name'] for e in self.events if e['name'] == 'process_name')

    def of(self, category, phase=None):
        return [e for e in self.events if e.get('cat') == category and phase in (None, e['ph'])]

    def packets(self, arrow):
        return collections.Counter(e['name'][2:] for e in self.of('packet') if e['name'].startswith(arrow))

    def check_requests(self, begun=None):
        """Each send request has one end, later than its beginning. begun: so many in all."""
        began = {e['id2']['local']: e for e in self.of('request', 'b')}
        ended = {e['id2']['local']: e for e in self.of('request', 'e')}
        if len(began) != len(self.of('request', 'b')) or len(ended) != len(self.of('request', 'e')):
            raise Failure('a request that begins or ends twice')
        for key, e in ended.items():
            if key not in began or e['ts'] < began[key]['ts'] or e['name'] != began[key]['name']:
                raise Failure(f'an end without a beginning: {e}, {began.get(key)}')
        sends = [k for k, e in began.items() if e['name'] != 'RECV']
        missing = [k for k in sends if k not in ended]
        if missing or (begun is not None and len(sends) != begun):
            raise Failure(f'{len(sends)} send requests, {begun} expected, {len(missing)} without an end')
        return ended


def sides(path):
    everything = events(path)
    pids = sorted({e['pid'] for e in everything})
    if len(pids) != 2:
        raise Failure(f'two processes expected, not {pids}')
    return [Side(everything, pid) for pid in pids]


def traced(name, where, argv_of, judge, options=(), needs=()):
    """A pair that writes one timeline, which judge looks at."""

    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        with tempfile.TemporaryDirectory(prefix='rocemu-trace-') as d:
            path = os.path.join(d, 'trace.json')
            options_of_both = ('--trace', path, *options)
            server, client = pair(config, topo, *argv_of(config, topo), server_options=options_of_both,
                                  client_options=options_of_both)
            try:
                return judge(sides(path))
            except Failure as e:
                raise Failure(f'{e}\n{server.report()}\n{client.report()}') from None

    return Case(f'trace/{name}/{where}', check, NORMAL, needs=needs)


def judge_pingpong(both):
    for side in both:
        ended = side.check_requests(ITERATIONS)
        if any(e['args']['status'] != 'success' for e in ended.values()):
            raise Failure(f'not all ended well: {ended}')
        states = [e['name'] for e in side.of('state')]
        if states[:3] != ['state INIT', 'state RTR', 'state RTS']:
            raise Failure(f'states {states}')
        qpn = side.of('request')[0]['tid']
        if not side.titles[qpn].startswith(f'QP 0x{qpn:06x} RC to 0x'):
            raise Failure(f'titles {side.titles}')
    for one, other in (both, both[::-1]):
        if one.packets('→') != other.packets('←') or not one.packets('→')['RC_SEND_FIRST'] >= ITERATIONS:
            raise Failure(f'sent {one.packets("→")}, received {other.packets("←")}')
    return f'{sum(both[0].packets("→").values())} packets'


def judge_loss(both):
    for side in both:
        side.check_requests(ITERATIONS)
    again = sum(e['args'].get('again', 0) for side in both for e in side.of('packet'))
    timers = sum(len(side.of('timer')) for side in both)
    if not again or not timers:
        raise Failure(f'{again} packets again, {timers} timers')
    return f'{again} packets again, {timers} timers'


def judge_unsignaled(both):
    client = next(s for s in both if s.of('request'))
    client.check_requests()
    return f'{len(client.of("request", "b"))} requests'


def judge_srq(both):
    for side in both:
        side.check_requests(ITERATIONS)
        received = [e for e in side.of('request', 'e') if e['name'] == 'RECV']
        if len(received) < ITERATIONS:
            raise Failure(f'{len(received)} receives ended')
    return 'receives of an SRQ'


def judge_rping(both):
    names = [{e['name'] for e in side.of('packet') if e['tid'] == 1} for side in both]
    wanted = [{'→ REQ', '← REP', '→ RTU'}, {'← REQ', '→ REP', '← RTU'}]
    if not any(wanted[0] <= a and wanted[1] <= b for a, b in (names, names[::-1])):
        raise Failure(f'connection messages {names}')
    return 'REQ, REP, RTU'


def write_bw(_, side):
    return ['ib_write_bw', '-d', side.name, '-x', '0', '-p', '{port}', '-F', '-s', 64, '-n', 500]


def srq_pingpong(config, topo):
    return [['ibv_srq_pingpong', '-q', 1, *argv[1:]] for argv in pingpong('rc')(config, topo)]


def check_rping(config, lab):
    with tempfile.TemporaryDirectory(prefix='rocemu-trace-') as d, Session(config, lab.get('lo')) as s:
        options = ('--trace', os.path.join(d, 'trace.json'))
        server = s.server(RPING + ['-s', '-a', '{server}', '-C', 3], options=options)
        s.finish(s.client(RPING + ['-c', '-a', '{server}', '-C', 3], options=options), server)
        return judge_rping(sides(options[1]))


def reasons_in(path):
    """Of a file that may be in the middle of being written."""
    with open(path, encoding='utf-8') as f:
        return f.read().count('"cat":"reason"')


def check_reason(config, lab):
    """A QP that goes to ERR by itself: at both ends there is the reason."""
    side = lab.get('lo').server
    with tempfile.TemporaryDirectory(prefix='rocemu-trace-') as d:
        options, port = ('--trace', os.path.join(d, 'trace.json')), new_port()
        argv = ['ib_write_lat', '-d', 'dev0', '-p', port, '-s', 64, '-n', 1000, '-F']
        server = start(config, side, argv, 'server', options=options)
        try:
            server.wait_listening(port)
            client = run(config, side, [*argv, '127.0.0.1'], 'client',
                         options=(*options, '--impair', 'corrupt opcode=RC_WRITE_* field=rkey icrc=right'))
            server.wait_until(lambda: reasons_in(options[1]) == 2, 'both reasons were written')
        finally:
            server.kill()
        names = sorted(e['name'] for s in sides(options[1]) for e in s.of('reason'))
        expect(names == ['! NAK_ACCESS', '! RKEY_UNKNOWN'], f'reasons {names}', client, server)
    return ', '.join(names)


def check_again(config, lab):
    """A second command begins the file anew; one that cannot write it prints an error and runs nothing."""
    side = lab.get('lo').client
    with tempfile.TemporaryDirectory(prefix='rocemu-trace-') as d:
        path = os.path.join(d, 'trace.json')
        for _ in range(2):
            p = run(config, side, ['ibv_devinfo', '-v'], options=('--trace', path))
            expect(p.popen.returncode == 0, 'ibv_devinfo fails', p)
        pids = {e['pid'] for e in events(path)}
        expect(len(pids) <= 1, f'events of processes {pids}', p)
        p = run(config, side, ['true'], options=('--trace', os.path.join(d, 'no', 'trace.json')))
        expect(p.popen.returncode not in (0, 126) and '--trace: cannot write' in p.stderr, 'no clear error', p)
    return 'begun anew'


def cases():
    return [
        traced('pingpong', 'lo', pingpong('rc'), judge_pingpong),
        traced('loss', 'lo', pingpong('rc'), judge_loss, options=('--impair', 'loss=5%,seed=3')),
        traced('unsignaled', 'lo', both(write_bw), judge_unsignaled, needs=('ib_write_bw',)),
        traced('srq', 'lo', srq_pingpong, judge_srq, needs=('ibv_srq_pingpong',)),
        Case('trace/rping/lo', check_rping, NORMAL, needs=('rping',)),
        Case('trace/reason/lo', check_reason, NORMAL, needs=('ib_write_lat',)),
        Case('trace/again/lo', check_again, QUICK),
    ]
