# SPDX-License-Identifier: BSD-2-Clause
"""`rocemu stat`: what it shows of running programs, of whom, and of those that hang."""
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request

from harness import (HANG_GUARD_S, NOBODY, NORMAL, QUICK, Case, Failure, Proc, Side, Skip, expect, may_make_netns, need_user, new_port, run,
                     sanitizer_env, start)

SIDE = Side('dev0=lo', '127.0.0.1')
FOREVER = 1000000000
# The peers of a process that is stopped are to wait for it.
PATIENT = ('--time-scale', '0.001')


class Place:
    """A directory for the sockets of a case's processes, and what to end."""

    def __init__(self, config, env=True):
        self.config = config
        self.dir = tempfile.TemporaryDirectory(prefix='rocemu-stat-')
        self.env = {'ROCEMU_STAT': os.path.join(self.dir.name, 'sockets')} if env else {}
        self.procs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.procs:
            if p.running():
                p.kill()
        self.dir.cleanup()

    def start(self, argv, name, options=(), side=SIDE, **more):
        self.procs.append(start(self.config, side, argv, name, env=self.env, options=options, **more))
        return self.procs[-1]

    def pair(self, argv, options=(), **more):
        """A server and a client of a program that take a port by -p."""
        port = new_port()
        server = self.start([*argv, '-p', port], 'server', options, **more)
        server.wait_listening(port)
        return server, self.start([*argv, '-p', port, '127.0.0.1'], 'client', options, **more)

    def pingpong(self, options=(), size=64, **more):
        return self.pair(['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-n', FOREVER, '-s', size], options, **more)

    def stat(self, *args, user=None):
        p = Proc([self.config.rocemu, 'stat', *args], env=self.env, name='stat', user=user)
        p.wait()
        self.code = p.popen.returncode
        expect('Sanitizer' not in p.stderr, 'a sanitizer complains', p)
        return p.stdout

    def processes(self, *args, user=None):
        return {p['pid']: p for p in json.loads(self.stat('--json', *args, user=user))['processes']}

    def until(self, proc, condition, what):
        """Query until the output fits; @return it."""
        seen = [None]

        def look():
            seen[0] = condition()
            return seen[0]

        proc.wait_until(look, what)
        return seen[0]


def qps(process):
    return [q for d in process['devices'] for q in d['qps']]


def only_qp(place, proc):
    """The process's QP, or None: it has none yet, or was busy."""
    found = place.processes('--pid', proc.pid).get(proc.pid)
    return qps(found)[0] if found and qps(found) else None


# ---- what is shown ------------------------------------------------------------------------------------------

def running(config, _lab):
    """State, peers and counts of two ends that talk, in each form; nothing of it when they are gone."""
    with Place(config) as place:
        server, client = place.pingpong(PATIENT)

        def both():
            seen = place.processes()
            if server.pid in seen and client.pid in seen:
                found = [qps(seen[p.pid]) for p in (server, client)]
                if all(q and q[0]['state'] == 'RTS' and q[0]['rx_packets'] > 100 for q in found):
                    return found[0][0], found[1][0]
            return None

        s, c = place.until(client, both, 'both were shown with their packets')
        expect(s['remote_qpn'] == c['qpn'] and c['remote_qpn'] == s['qpn'] and s['remote'] == '127.0.0.1', f'{s} {c}')
        expect(s['type'] == 'RC' and s['tx_bytes'] > 64 and s['mtu'] >= 256 and c['srtt_ns'] > 0, f'{s}')
        table = place.until(client, lambda: (lambda t: t if f' {c["qpn"]} RC   RTS' in t else None)(place.stat()), 'a row')
        expect(all(len(line) <= 100 for line in table.splitlines()), f'wider than 100 columns:\n{table}')
        expect('ibv_rc_pingpong' in table, table)
        alone = place.until(client, lambda: qps(place.processes('-q', s['qpn']).get(server.pid, {'devices': []})), 'one QP')
        expect([q['qpn'] for q in alone] == [s['qpn']], f'{alone}')
        expect(not qps(place.processes('-d', 'dev1')[server.pid]), 'a device that is not there')
        place.stat('--sort', 'tx')
        expect(place.code == 0, 'sort')
        # What shells offer for --pid.
        script = 'rocemu() { "$0" "$@"; }; eval "$(rocemu completion bash)"; _rocemu_list pid'
        p = Proc(['bash', '-c', script, config.rocemu], env=place.env, name='completion')
        p.wait()
        expect({str(server.pid), str(client.pid)} <= set(p.stdout.split()), 'not offered', p)
        # The socket of a process that is killed stays; who looks removes it.
        server.kill()
        expect(os.path.exists(os.path.join(place.env['ROCEMU_STAT'], str(server.pid))), 'no socket is left')
        expect(server.pid not in place.processes(), 'a process that is gone is shown')
        expect(not os.path.exists(os.path.join(place.env['ROCEMU_STAT'], str(server.pid))), 'the socket is still there')
        # One that ends by itself leaves none.
        client.kill()
        place.stat()
        p = place.start(['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', new_port(), '127.0.0.1'], 'alone')
        expect(p.wait() != 0, 'a client without a server', p)
        left = set(os.listdir(place.env['ROCEMU_STAT'])) - {'pollers'}
        expect(not left, f'left: {left}')
        expect('no process' in place.stat(), 'not said')


# One `rocemu run` is a host: the counter is that of both ends.
LOSS = r'''
import json, subprocess, sys, time
rocemu, port = sys.argv[1:3]
argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', '0', '-p', port, '-n', '1000000000', '-s', '8192']
procs = [subprocess.Popen(argv, stdout=subprocess.DEVNULL)]
while True:
    client = subprocess.Popen(argv + ['127.0.0.1'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    procs[1:] = [client]
    try:
        client.wait(0.3)
    except subprocess.TimeoutExpired:
        break
    if procs[0].poll() is not None:
        sys.exit('the server ended')
def shown():
    text = subprocess.run([rocemu, 'stat', '--json'], check=True, stdout=subprocess.PIPE).stdout
    lanes = [d for p in json.loads(text)['processes'] for d in p['devices']]
    if len(lanes) != 2 or any(d['busy'] or not d['qps'] for d in lanes):
        return None
    for d in lanes:
        assert d['counters']['retransmits'] == d['qps'][0]['retransmits'], d
    return sum(d['counters']['retransmits'] for d in lanes)
def sure():
    while True:
        n = shown()
        if n is not None:
            return n
        for p in procs:
            if p.poll() is not None:
                sys.exit('it ended')
try:
    while sure() < 10:
        pass
    before = sure()
    counted = int(open('/sys/class/infiniband/dev0/ports/1/hw_counters/retrans_pkts').read())
    after = sure()
    print(before, counted, after)
finally:
    for p in procs:
        p.kill()
        p.wait()
'''


def loss(config, _lab):
    """Packets that are sent again because some are lost: the same number in stat and in hw_counters."""
    with Place(config) as place:
        p = place.start([sys.executable, '-c', LOSS, config.rocemu, new_port()], 'script', ('--impair', 'loss=1%,seed=5'))
        expect(p.wait() == 0, 'the script failed', p)
        before, counted, after = (int(n) for n in p.stdout.split())
        expect(10 <= before <= counted <= after, f'{before}, {counted}, {after}')
    return f'{counted} sent again'


def late(config, _lab):
    """Answers that come twice are late, not refused."""
    def dropped():
        found = re.findall(r'packets dropped: (\d+) refused, (\d+) late, 0 by the socket', place.stat())
        return found and any(late != '0' for _, late in found) and found

    with Place(config) as place:
        _server, client = place.pingpong(('--impair', 'dup=10%,seed=5', *PATIENT))
        found = place.until(client, dropped, 'late answers were shown')
        expect(all(refused == '0' for refused, _ in found), f'{found}')


def users(config, _lab):
    """A user sees the own processes; root sees all."""
    need_user(NOBODY, config.rocemu)
    need_user(NOBODY - 1, config.rocemu)
    with Place(config, env=False) as place:
        # An agent of each user, and so an address of each.
        server, client = place.pingpong(user=NOBODY, side=Side('dev0=127.0.0.21', '127.0.0.21'))
        mine = place.start(['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', new_port()], 'of root',
                           side=Side('dev0=127.0.0.22', '127.0.0.22'))
        place.until(client, lambda: {server.pid, client.pid, mine.pid} <= set(place.processes()), 'root sees all')
        expect(place.processes()[server.pid]['uid'] == NOBODY, 'whose it is')
        theirs = place.processes(user=NOBODY)
        expect({server.pid, client.pid} <= set(theirs) and mine.pid not in theirs, f'{sorted(theirs)}')
        others = place.processes(user=NOBODY - 1)
        expect(not {server.pid, client.pid, mine.pid} & set(others), f'{sorted(others)}')
        place.stat('--dump', server.pid, user=NOBODY - 1)
        expect(place.code == 1, 'another user may ask')


def squatted(config, _lab):
    """A directory that others may write to, or that another user owns, is not used; nor is one that cannot be made."""
    with Place(config) as place:
        where = place.env['ROCEMU_STAT']
        os.mkdir(where)
        os.chmod(where, 0o777)
        for env in (place.env, {'ROCEMU_STAT': '/proc/rocemu'}):
            p = start(config, SIDE, ['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', new_port()], 'program',
                      env={**env, 'ROCEMU_LOG': 'info'})
            place.procs.append(p)
            p.wait_until(lambda p=p: 'rocemu stat" will not show this process' in p.stderr, 'it was said')
            expect(p.running(), 'it ended', p)
        expect(not os.listdir(where), 'a socket in it')
        # Sockets in it are no emulated processes.
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.join(where, '17'))
            s.listen()
            expect(place.processes() == {}, 'asked')
        place.env = {'ROCEMU_STAT': 'off', 'ROCEMU_LOG': 'info'}
        p = place.start(['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', new_port(), '127.0.0.1'], 'off')
        p.wait()
        expect('will not show' not in p.stderr, 'off is said', p)


# Listens on more sockets than root is to query, as so many processes. Its directory is one of its user's.
CROWD = """
import os, resource, signal, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
where = f"/dev/shm/rocemu-stat-{os.getuid()}"
os.mkdir(where, 0o700)
held = []
for i in range(1, 4201):
    s = socket.socket(socket.AF_UNIX)
    s.bind(f"{where}/{i}")
    s.listen()
    held.append(s)
print("listens", flush=True)
signal.pause()
"""


def crowd(config, _lab):
    """One user's processes, however many, do not keep root from being shown those of others."""
    user = NOBODY - 2
    need_user(user)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4300:
        raise Skip('too few descriptors')
    with Place(config, env=False) as place:
        try:
            p = Proc(['/usr/bin/python3', '-c', CROWD], name='crowd', user=user)
            place.procs.append(p)
            p.wait_until(lambda: 'listens' in p.stdout, 'it listened')
            mine = place.start(['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', new_port()], 'of root',
                               side=Side('dev0=127.0.0.23', '127.0.0.23'))
            place.until(mine, lambda: mine.pid in place.processes(), 'root sees it')
            seen = json.loads(place.stat('--json'))['processes']
            expect([one['problem'] for one in seen if one['pid'] == mine.pid] == [None], 'it was not shown')
            theirs = sum(one['uid'] == user for one in seen)
            expect(theirs <= 1024, f'{theirs} processes of that user')
        finally:
            shutil.rmtree(f'/dev/shm/rocemu-stat-{user}', ignore_errors=True)


# ---- hangs --------------------------------------------------------------------------------------------------

def stopped(config, _lab):
    """A stopped process is named as that, at once, and does not keep others from being shown."""
    with Place(config) as place:
        server, client = place.pingpong(PATIENT)
        place.until(client, lambda: only_qp(place, server) and only_qp(place, client), 'both were there')
        server.signal(signal.SIGSTOP)
        place.until(client, lambda: 'stopped' in (place.processes()[server.pid]['problem'] or ''), 'it was stopped')
        seen = place.processes()
        expect(not seen[server.pid]['devices'] and seen[client.pid]['problem'] is None, f'{seen}')
        server.signal(signal.SIGCONT)
        place.until(client, lambda: only_qp(place, server), 'it goes on')


def dump_answer(config, _lab):
    """A peer that does not answer: which PSN is waited for, and the request."""
    with Place(config) as place:
        server, client = place.pair(['ib_write_bw', '-d', 'dev0', '-s', 64, '-t', 1, '-D', 1000], PATIENT)
        place.until(client, lambda: (only_qp(place, client) or {'tx_packets': 0})['tx_packets'] > 100, 'it runs')
        server.signal(signal.SIGSTOP)
        text = place.until(client, lambda: (lambda t: t if "waits for the peer's answer" in t else None)(
            place.stat('--dump', client.pid)), 'it waits')
        psn = re.search(r"waits for the peer's answer to PSN (\d+)", text)[1]
        expect('WRITE of 64 bytes, wr_id' in text and f'PSN {psn} to {psn}' in text and 'retries left' in text, text)
        server.signal(signal.SIGCONT)


def dump_rnr(config, _lab):
    """A peer that has no receive, and that peer, which waits for messages."""
    with Place(config) as place:
        server, client = place.pingpong(('--impair', 'rnr=100%'))
        place.until(client, lambda: 'waits for a receive of the peer (RNR NAK for PSN' in place.stat('--dump', client.pid),
                    'it waits for a receive')
        text = place.until(client, lambda: (lambda t: t if 'RNR NAKs sent' in t else None)(
            place.stat('--dump', server.pid)), 'the server is shown')
        expect('waits for messages of the peer' in text and 'waits for nothing: no request is posted' in text, text)
        expect(only_qp(place, client)['rnr_naks_rcvd'] > 0, 'not counted')


def dump_hang(config, _lab):
    """A program that forgot a receive: the QP that sends and the one that has none show it; with -q one of them."""
    with Place(config) as place:
        p = place.start([config.program('prog', 'stat-hang'), 'dev0'], 'program')
        p.wait_until(lambda: '\n' in p.stdout, 'it has sent')
        sender, receiver = p.stdout.split()
        text = place.until(p, lambda: (lambda t: t if 'waits for the program to post a receive' in t else None)(
            place.stat('--dump', p.pid, '-q', receiver)), 'the receiver says it')
        expect('receives  0 posted of 8; PSN 0 is expected' in text and f' QP {sender} on' not in text, text)
        text = place.until(p, lambda: (lambda t: t if 'waits for a receive of the peer (RNR NAK for PSN 0)' in t else None)(
            place.stat('--dump', p.pid, '-q', sender)), 'the sender says it')
        expect('SEND of 64 bytes, wr_id 0x11, PSN 0 to 0' in text and 'tries for ever' in text, text)
        expect(f'to QP {receiver} of 127.0.0.1' in text, text)


# ---- screens and servers ------------------------------------------------------------------------------------

def on_terminal(config, env, keys, until):
    """stat --watch on a terminal; @return what it wrote, its exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({'LANG': 'C.UTF-8', 'LINES': '24', 'COLUMNS': '100', **env})
        os.execv(config.rocemu, [config.rocemu, 'stat', '--watch=0.1'])
    text, sent, end = b'', False, time.monotonic() + HANG_GUARD_S
    try:
        while True:
            if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
                raise Failure(f'the screen hangs: {text!r}')
            try:
                piece = os.read(fd, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
            if not sent and until in text:
                os.write(fd, keys)
                sent = True
    finally:
        if not sent:
            os.kill(pid, signal.SIGKILL)
        os.close(fd)
        status = os.waitpid(pid, 0)[1]
    return text, os.waitstatus_to_exitcode(status)


def watch(config, _lab):
    """The screen shows rates and ends with q, without colours where there are none; no terminal: the table, plain."""
    with Place(config) as place:
        _server, client = place.pingpong()
        qp = place.until(client, lambda: only_qp(place, client), 'the client is shown')
        number = str(qp['qpn']).encode()
        for env, colours in (({'TERM': 'xterm-256color'}, True), ({'TERM': 'vt100'}, False),
                             ({'TERM': 'xterm-256color', 'NO_COLOR': '1'}, False)):
            text, code = on_terminal(config, {**place.env, **env}, b'q', number)
            if b'\x1b[' not in text:
                return 'built without ncurses'
            expect(code == 0 and b'TX/s' in text and b'ibv_rc_pingpong' in text, f'{code}: {text!r}')
            # SGR sequences of colours; others end in other letters.
            expect(bool(re.search(rb'\x1b\[(?:\d*;)*3[0-9](?:;\d*)*m', text)) == colours, f'colours with {env}: {text!r}')
        plain = Proc([config.rocemu, 'stat', '--watch=0.1'], env={**place.env, 'TERM': 'xterm'}, name='watch')
        place.procs.append(plain)
        plain.wait_until(lambda: plain.stdout.count(f' {qp["qpn"]} RC') >= 2, 'the table came twice')
        expect('\x1b' not in plain.stdout, 'it is not plain', plain)


def get(port, path, address='127.0.0.1'):
    try:
        with urllib.request.urlopen(f'http://{address}:{port}{path}', timeout=HANG_GUARD_S) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, ''


def status_for(port, *hosts):
    """The status of a request with these Host headers."""
    with socket.create_connection(('127.0.0.1', port)) as s:
        s.settimeout(HANG_GUARD_S)
        s.sendall(''.join(['GET /metrics HTTP/1.1\r\n', *(f'Host: {h}\r\n' for h in hosts), 'Accept: */*\r\n\r\n']).encode())
        return int(s.recv(4096).split()[1])


HERE = ('localhost', 'LOCALHOST:9', '127.0.0.1', '127.0.0.1:{port}', '[::1]', '[::1]:{port}', '192.0.2.1', ' 127.0.0.1 ')
ELSEWHERE = ('evil.example', 'evil.example:{port}', 'localhost.evil.example', '127.0.0.1.evil.example', '', ':80', '[', '[]', '[::1', '[::1]x',
             '127.0.0.1:x', '[localhost]', '127.0.0.1 evil.example', 'x' * 200)


def prometheus(config, _lab):
    """The exposition format, on the loopback address alone, and nonsense does not end it."""
    with Place(config) as place:
        _server, client = place.pingpong()
        qp = place.until(client, lambda: only_qp(place, client), 'the client is shown')
        port = new_port()
        http = Proc([config.rocemu, 'stat', '--prometheus', port], env=place.env, name='stat')
        place.procs.append(http)
        http.wait_listening(port)
        with socket.create_connection(('127.0.0.1', port)) as s:
            s.sendall(b'\0\xff' * 40000)
        label = f'pid="{client.pid}",comm="ibv_rc_pingpong",device="dev0",slot="\\d+",qpn="{qp["qpn"]}"'
        text = place.until(client, lambda: (lambda t: t if re.search(
            f'^rocemu_qp_tx_packets_total{{{label}}} [1-9]\\d*$', t, re.M) else None)(get(port, '/metrics')[1]), 'the client')
        names = re.findall(r'^# TYPE (\S+) (?:counter|gauge)$', text, re.M)
        expect(len(names) == len(set(names)) > 40, 'a metric comes twice')
        for line in text.splitlines():
            expect(re.fullmatch(r'# (HELP|TYPE) \S+ .+|\w+\{(\w+="[^"]*",?)*\} [0-9.]+', line), line)
        expect(get(port, '/nothing')[0] == 404 and get(port, '/')[0] == 200, 'other paths')
        expect(status_for(port) == 200, 'without a Host')
        for host in HERE:
            expect(status_for(port, host.format(port=port)) == 200, f'Host: {host}')
        for host in ELSEWHERE:
            expect(status_for(port, host.format(port=port)) == 403, f'Host: {host}')
        expect(status_for(port, 'localhost', 'evil.example') == 403, 'a second Host')
        # Clients that send nothing, or half a request, delay no other client.
        idle = [socket.create_connection(('127.0.0.1', port)) for _ in range(100)]
        for i, s in enumerate(idle):
            if i % 2:
                s.sendall(b'GET /metrics HTTP/1.0\r\n')
        began = time.monotonic()
        for _ in range(3):
            expect(status_for(port) == 200, 'beside idle clients')
        expect(time.monotonic() - began < 2, f'{time.monotonic() - began} s beside idle clients')
        for s in idle:
            s.close()
        with socket.socket() as s:
            expect(s.connect_ex(('127.0.0.2', port)) != 0, 'it listens on another address')
        expect(http.running(), 'it ended', http)


def usage(config, _lab):
    """Errors are reported, with exit code 2."""
    with Place(config) as place:
        for args in (['--pid', 'x'], ['--qp', '0'], ['--sort', 'size'], ['--watch=0'], ['--prometheus', '70000'], ['--nothing'],
                     ['more'], ['--json', '--watch'], ['--dump', '-1']):
            place.stat(*args)
            expect(place.code == 2, f'{args}: {place.code}')
        place.stat('--dump', os.getpid())
        expect(place.code == 1, 'a process without devices')


# ---- rocemu run --summary -----------------------------------------------------------------------------------

SHORT = '''
pair() {
    "$@" > /dev/null & server=$!
    until "$@" 127.0.0.1 > /dev/null 2>&1; do kill -0 $server || exit 1; done
    wait $server || exit 1
}
'''


def summary(config, _lab):
    """What all processes of a run counted: the packets that are in their captures."""
    with tempfile.TemporaryDirectory(prefix='rocemu-stat-') as d:
        script = (SHORT + f'pair ibv_rc_pingpong -d dev0 -g 0 -p {new_port()} -n 50 -s 2048\n'
                  'exit 7')
        p = run(config, SIDE, ['sh', '-c', script], options=('--summary', '--pcap', f'{d}/%p.pcap'))
        expect(p.popen.returncode == 7, 'not the exit code of the program', p)
        row = re.search(r'^rocemu: dev0 +(\d+) +(\d+K?) +(\d+) +(\d+K?) ', p.stderr, re.M)
        expect(row, 'no summary', p)
        sent, octets, received, _ = (int(n.replace('K', '000')) for n in row.groups())
        frames = sum(packets(f'{d}/{name}') for name in os.listdir(d))
        # What a process has received and did not need (repeated, late) is in its capture, and not counted.
        expect(sent + received <= frames <= 2 * sent and octets >= 2 * 50 * 2048, f'{sent} + {received}, {frames} captured', p)
        p = run(config, SIDE, ['sh', '-c', 'kill -TERM $$'], options=('--summary',))
        expect(p.popen.returncode == -signal.SIGTERM and 'rocemu: dev0' in p.stderr, 'not as the program ended', p)
        p = run(config, SIDE, ['/nowhere'], options=('--summary',))
        expect(p.popen.returncode == 127, 'no program', p)
        p = run(config, SIDE, ['true'], options=('--summary',), env={'ROCEMU_PATHS': 'off'})
        expect(p.popen.returncode == 2 and '--summary' in p.stderr, 'without the tree', p)
        return f'{frames} packets'


# The packets are longer than the interface takes all at once. $s is the server, $c a client.
TOO_LONG = '''
ip link set lo mtu 1500
until [ "$(cat $counters/port_xmit_discards)" -gt 0 ]; do kill -0 $s || exit 1; done
kill -KILL $s $c
'''


def summary_drops(config, _lab):
    """What could not be sent is in the summary."""
    reason = may_make_netns()
    if reason:
        raise Skip(reason)
    pong = f'ibv_rc_pingpong -d dev0 -g 0 -m 4096 -n {FOREVER} -p {new_port()}'
    script = ('counters=/sys/class/infiniband/dev0/ports/1/counters\n'
              f'{pong} > /dev/null & s=$!\n{pong} 127.0.0.1 > /dev/null 2>&1 & c=$!\n'
              'while [ "$(cat $counters/port_xmit_packets)" -lt 100 ]; do kill -0 $s || exit 1\n'
              f'kill -0 $c 2> /dev/null || {{ {pong} 127.0.0.1 > /dev/null 2>&1 & c=$!; }}; done\n' + TOO_LONG)
    p = Proc(['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', config.rocemu, 'run', '--device', 'dev0=lo',
              '--summary', '--', 'sh', '-c', script], name='run', env=sanitizer_env(config))
    expect(p.wait() == 0, 'the script failed', p)
    row = re.search(r'^rocemu: dev0 .* (\d+)$', p.stderr, re.M)
    expect(row and int(row[1]) > 0, 'not counted', p)


def packets(path):
    """In a pcap file."""
    with open(path, 'rb') as f:
        data = f.read()
    order = 'little' if data[:4] in (b'\xd4\xc3\xb2\xa1', b'\x4d\x3c\xb2\xa1') else 'big'
    if data[:4] == b'\n\r\r\n':
        return pcapng_packets(data)
    at, n = 24, 0
    while at < len(data):
        at += 16 + int.from_bytes(data[at + 8:at + 12], order)
        n += 1
    return n


def pcapng_packets(data):
    at, n = 0, 0
    while at < len(data):
        kind, length = (int.from_bytes(data[at + i:at + i + 4], sys.byteorder) for i in (0, 4))
        n += kind == 6
        at += length
    return n


def summary_signals(config, _lab):
    """A signal to `rocemu run` is the program's; what a killed process counted is in the summary."""
    with Place(config) as place:
        p = place.start(['sh', '-c', 'trap "echo got it; exit 3" TERM; echo ready; while :; do sleep 0.01; done'], 'script',
                        ('--summary',))
        p.wait_until(lambda: 'ready' in p.stdout, 'it was ready')
        p.signal(signal.SIGTERM)
        expect(p.wait() == 3 and 'got it' in p.stdout and 'rocemu: dev0' in p.stderr, 'the signal', p)
        port = new_port()
        pong = f'ibv_rc_pingpong -d dev0 -g 0 -p {port} -n {FOREVER}'
        p = place.start(['sh', '-c', f'{pong} > /dev/null & s=$!\n{pong} 127.0.0.1 > /dev/null 2>&1 & c=$!\n'
                         'file=/sys/class/infiniband/dev0/ports/1/counters/port_xmit_packets\n'
                         'while [ "$(cat $file)" -lt 1000 ]; do kill -0 $s || exit 1\n'
                         f'kill -0 $c 2> /dev/null || {{ {pong} 127.0.0.1 > /dev/null 2>&1 & c=$!; }}; done\n'
                         'kill -KILL $s $c'], 'killed', ('--summary',))
        expect(p.wait() == 0, 'the script failed', p)
        expect(int(re.search(r'^rocemu: dev0 +(\d+) ', p.stderr, re.M)[1]) >= 1000, 'not counted', p)


def cases():
    return [
        Case('stat/running', running, QUICK, needs=('ibv_rc_pingpong',)),
        Case('stat/loss', loss, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/late', late, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/users', users, NORMAL, needs=('ibv_rc_pingpong', 'setpriv')),
        Case('stat/crowd', crowd, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/squatted', squatted, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/stopped', stopped, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/dump.answer', dump_answer, NORMAL, needs=('ib_write_bw',)),
        Case('stat/dump.rnr', dump_rnr, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/dump.hang', dump_hang, QUICK),
        Case('stat/watch', watch, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/prometheus', prometheus, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/usage', usage, NORMAL),
        Case('stat/summary', summary, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('stat/summary.drops', summary_drops, NORMAL, needs=('ibv_rc_pingpong', 'unshare')),
        Case('stat/summary.signals', summary_signals, NORMAL, needs=('ibv_rc_pingpong',)),
    ]
