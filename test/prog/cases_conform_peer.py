# SPDX-License-Identifier: BSD-2-Clause
"""conform-peer (lab/conform/peer): its lines, right and wrong, and what is left when a tester is gone."""
import glob
import os
import re
import socket

from harness import NORMAL, QUICK, Case, Proc, Skip, expect, new_port, run, start

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lab', 'conform', 'cases')
LEAST_CASES = 95        # of `rocemu conform` that need conform-peer

ERROR = re.compile(r'error (\d+) [ -~]+')
INVALID, NO_COMMAND = 22, 38

# Lines that are refused where there is no queue pair.
WITHOUT_QP = (
    ('', NO_COMMAND), ('foo', NO_COMMAND), ('hello a=b', INVALID), ('look x', INVALID), ('qp', INVALID), ('qp type=XRC', INVALID),
    ('send op=SEND', INVALID), ('recv', INVALID), ('modify state=INIT', INVALID), ('destroy', INVALID),
    ('read area=mem offset=131072 len=1', INVALID), ('read area=mem len=16385', INVALID), ('read area=mem len=-1', INVALID),
    ('read area=mem offset=18446744073709551615 len=2', INVALID), ('read area=last len=1', INVALID), ('read len=1', INVALID),
    ('write area=mem hex=0', INVALID), ('write area=mem hex=zz', INVALID), ('write area=mem offset=131072 hex=00', INVALID),
    ('write area=mem hex=' + '00' * 16385, INVALID), ('reg area=mem access=0x10000', INVALID), ('mw type=3', INVALID),
    ('hello ' + ' '.join(f'p{i}=1' for i in range(30)), INVALID), ('hello \x01=\x7f', INVALID),
)
WITH_QP = (
    ('qp type=RC', INVALID), ('send', INVALID), ('send op=TSO', INVALID), ('send op=SEND sge=mem+131072:1', INVALID),
    ('send op=SEND sge=mem+0:99999999999', INVALID), ('send op=SEND sge=mem+5', INVALID), ('send op=SEND sge=:+:', INVALID),
    ('send op=SEND flags=8 sge=mem+131064:9', INVALID), ('send op=SEND sge=' + ','.join(['mem+0:1'] * 9), INVALID),
    ('send op=BIND_MW', INVALID), ('recv sge=' + ','.join(['mem+0:1'] * 9), INVALID), ('modify state=RTS foo=1', INVALID),
    ('modify state=READY', INVALID), ('modify', INVALID), ('modify state=INIT gid=00', INVALID), ('modify state=RTR path_mtu=1000', INVALID),
)


class Tester:
    """A connection to conform-peer."""

    def __init__(self, address, port, *procs):
        self.sock = socket.create_connection((address, port), timeout=60)
        self.file = self.sock.makefile('rw', encoding='latin-1', newline='\n')
        self.procs = procs

    def answer(self, line):
        self.file.write(line + '\n')
        self.file.flush()
        return self.file.readline().rstrip('\n')

    def ok(self, line):
        """The answer's values; and the text."""
        text = self.answer(line)
        expect(text.split(' ')[0].rstrip(';') == 'ok', f'{line[:80]}: {text}', *self.procs)
        return dict(word.split('=', 1) for word in text.split(';')[0].split()[1:] if '=' in word), text

    def refused(self, line, error):
        text = self.answer(line)
        found = ERROR.fullmatch(text)
        expect(found and int(found[1]) == error, f'{line[:80]!r}: error {error} is expected, and not {text!r}', *self.procs)

    def until(self, *patterns):
        """Looks, until each pattern was seen."""
        seen = ''
        while not all(re.search(p, seen) for p in patterns):
            got = self.ok('look')[1]
            seen += got
            expect('status=5' not in got and 'state=ERR' not in got, seen, *self.procs)
        return seen

    def close(self):
        self.file.close()
        self.sock.close()


def begin(config, lab, *options):
    """conform-peer in the first side of lo, and a tester."""
    side = lab.get('lo').server
    port = new_port()
    peer = start(config, side, [config.program('prog', 'conform-peer'), '-d', side.name, '-p', port, '-b', side.address, *options],
                 'conform-peer')
    peer.wait_listening(port)
    return peer, Tester(side.address, port, peer), port


def connect(tester):
    """An RC queue pair, connected to itself."""
    gid = tester.ok('hello')[0]['gid']
    qp, _ = tester.ok('qp type=RC send_wr=16 recv_wr=16 sge=4 inline=64 sig_all=1')
    tester.ok('modify state=INIT port=1 pkey_index=0 access=15')
    tester.ok(f'modify state=RTR path_mtu=1024 dest_qpn={qp["qpn"]} rq_psn=5 dest_rd_atomic=2 rnr_timer=12 gid={gid}')
    tester.ok('modify state=RTS timeout=18 retry=7 rnr_retry=7 sq_psn=5 rd_atomic=2')
    return qp['mem'].split(',')


def wrong_lines(config, lab):
    peer, tester, _ = begin(config, lab, '--once')
    for line, error in WITHOUT_QP:
        tester.refused(line, error)
    connect(tester)
    for line, error in WITH_QP:
        tester.refused(line, error)
    expect(tester.ok('look')[0]['state'] == 'RTS', 'the state', peer)
    tester.sock.sendall(b'x' * 40000)       # a line without an end: the connection's
    expect(peer.wait() == 0, 'conform-peer', peer)
    tester.close()
    return f'{len(WITHOUT_QP) + len(WITH_QP)} lines'


def datagrams(tester):
    """A queue pair of UD, which is reset once, sends to itself."""
    gid = tester.ok('hello')[0]['gid']
    qp, _ = tester.ok('qp type=UD send_wr=4 recv_wr=4 sge=1')
    for _ in range(2):
        tester.ok('modify state=RESET')
        tester.ok('modify state=INIT port=1 pkey_index=0 qkey=0x11')
        tester.ok(f'modify state=RTR gid={gid}')
        tester.ok('modify state=RTS sq_psn=7')
    tester.ok('recv id=1 sge=recv+0:64')
    tester.ok(f'send op=SEND id=2 flags=2 qpn={qp["qpn"]} qkey=0x11 sge=send+0:10')
    tester.until('queue=recv id=1 status=0 .* len=50 ', 'queue=send id=2 status=0')


def all_lines(config, lab):
    """Requests of each kind between the queue pair and itself, memory, keys and windows."""
    peer, tester, _ = begin(config, lab, '--once')
    addr, _, rkey = connect(tester)
    tester.ok('recv id=7 sge=recv+0:8,recv+100:92')
    tester.ok('send op=SEND id=1 flags=8 sge=send+0:10')
    tester.ok('recv id=8')
    tester.ok(f'send op=RDMA_WRITE_WITH_IMM id=2 sge=send+0:8 raddr={addr} rkey={rkey} imm=0xdeadbeef')
    tester.ok(f'send op=ATOMIC_FETCH_AND_ADD id=3 sge=send+64:8 raddr={addr} rkey={rkey} add=1')
    tester.ok(f'send op=RDMA_READ id=4 sge=recv+200:2 raddr={addr} rkey={rkey}')
    tester.until('queue=recv id=7 status=0 .* opcode=128 len=10 ', 'queue=recv id=8 status=0 .* opcode=129 len=8 .*imm=0xdeadbeef',
                 *(f'queue=send id={i} status=0' for i in range(1, 5)))
    for area, offset, length, want in (('recv', 0, 9, '00070e151c232a31ee'), ('recv', 100, 3, '383fee'), ('mem', 0, 9, '01070e151c232a316d'),
                                       ('send', 64, 8, '00070e151c232a31'), ('recv', 200, 3, '0107ee')):
        got = tester.ok(f'read area={area} offset={offset} len={length}')[1]
        expect(got == f'ok {want}', f'{area}+{offset}: {got}', peer)
    tester.ok('write area=mem offset=131071 hex=ab')
    expect(tester.ok('read area=mem offset=131071 len=1')[1] == 'ok ab', 'what was written', peer)
    tester.ok('reg area=mem access=0x1f')
    old = tester.ok('mw type=2')[0]['rkey']
    new = tester.ok('send op=BIND_MW id=5 sge=mem+16:32 access=2')[0]['mw_rkey']
    expect(old != new, 'the window has another key', peer)
    tester.until('id=5 status=0 .* opcode=5 ')
    tester.ok(f'send op=SEND_WITH_INV id=6 sge=send+0:1 inv={new}')
    tester.ok('recv id=9 sge=recv+0:1')
    tester.until(f'id=9 status=0 .* inv={new}')
    tester.ok('mw type=0')
    tester.ok('dereg area=mem')
    tester.refused('dereg area=mem', INVALID)
    tester.ok('destroy')
    expect(tester.ok('look')[0]['state'] == 'none', 'the state', peer)
    datagrams(tester)
    tester.close()
    expect(peer.wait() == 0, 'conform-peer', peer)


def testers(config, lab):
    """Two at a time; what one leaves is gone, and the other goes on; an address that is not the device's."""
    peer, first, port = begin(config, lab)
    connect(first)
    second = Tester('127.0.0.1', port, peer)
    connect(second)
    first.close()
    second.ok('recv id=1 sge=recv+0:1')
    second.ok('send op=SEND id=2 sge=send+0:1')
    second.until('id=1 status=0', 'id=2 status=0')
    second.close()
    for _ in range(3):
        again = Tester('127.0.0.1', port, peer)
        connect(again)
        again.close()
    peer.kill()


def other_address(config, lab):
    side = lab.get('lo').server
    port = new_port()
    peer = start(config, side, [config.program('prog', 'conform-peer'), '-d', side.name, '-p', port, '--once'], 'conform-peer')
    peer.wait_listening(port)
    tester = Tester('127.0.0.9', port, peer)
    text = tester.file.readline()
    expect(text.startswith('error 99 the address'), f'an address that is no GID: {text}', peer)
    tester.close()
    expect(peer.wait() == 0, 'conform-peer', peer)


OPTIONS = (
    (('-x',), 2, 'usage: '), (('more',), 2, 'usage: '), (('-p', '65536'), 2, 'usage: '), (('-g', 'x'), 2, 'usage: '),
    (('-d', 'none0'), 1, 'device none0: there is none'), (('-g', '200'), 1, '-g 200: '), (('-b', 'x'), 1, 'address x, '),
)


def options(config, lab):
    side = lab.get('lo').server
    for argv, code, text in OPTIONS:
        p = run(config, side, [config.program('prog', 'conform-peer'), *argv])
        expect(p.popen.returncode == code and text in p.stderr, f'{argv}: exit code {code} and "{text}" are expected', p)
    return f'{len(OPTIONS)} errors'


SCRIPT = """ip link set lo up
ready=$(mktemp)
"$1" run -d lo -- "$2" -d rocemu_lo -b 127.0.0.1 -p "$3" >"$ready" &
peer=$!
while kill -0 $peer && ! [ -s "$ready" ]; do sleep 0.01; done
shift 3
"$@"
result=$?
kill $peer
rm "$ready"
exit $result"""


def case_ids():
    ids = []
    for path in sorted(glob.glob(os.path.join(FILES, '*.scenario'))):
        with open(path, encoding='utf-8') as f:
            for case in f.read().split('\ncase ')[1:]:
                if re.search(r'^ *conform .* conform_peer$', case, re.M):
                    ids.append(case.split(':')[0])
    return ids


def conform(config, _lab):
    """Each case that needs it, against rocemu."""
    ids = case_ids()
    expect(len(ids) >= LEAST_CASES, f'only {len(ids)} cases need conform-peer')
    only = [word for family in sorted({i.split('/')[0] for i in ids}) for word in ('--only', f'{family}/*')]
    port = new_port()
    p = Proc(['unshare', '-r', '-n', 'sh', '-c', SCRIPT, 'sh', config.rocemu, config.program('prog', 'conform-peer'), port,
              config.rocemu, 'conform', '--from', '127.0.0.2', '--port', f'conform_peer={port}', '--known', 'rocemu', *only, '127.0.0.1'])
    p.wait()
    if 'unshare:' in p.stderr:
        raise Skip('no network namespace of an ordinary user')
    verdict = {i: re.search(f'^(\\w+) +{re.escape(i)} ', p.stdout, re.M) for i in ids}
    done = [i for i in ids if verdict[i] and verdict[i][1] in ('pass', 'measured', 'known')]
    # On a busy machine a requester may repeat a packet before the tester has answered it.
    unsure = [i for i in ids if verdict[i] and verdict[i][1] == 'inconclusive']
    expect(p.popen.returncode == 0 and len(done) + len(unsure) == len(ids) and len(unsure) <= 3, 'cases differ', p)
    return f'{len(done)} cases'


def cases():
    return [
        Case('conform-peer/cases', conform, QUICK, needs=('unshare', 'ip')),
        Case('conform-peer/wrong-lines', wrong_lines, QUICK),
        Case('conform-peer/lines', all_lines, QUICK),
        Case('conform-peer/testers', testers, NORMAL),
        Case('conform-peer/options', options, NORMAL),
        Case('conform-peer/other-address', other_address, NORMAL),
    ]
