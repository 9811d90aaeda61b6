# SPDX-License-Identifier: BSD-2-Clause
"""`rocemu run --log why`: stock programs that meet an error print its reason once, on each side
that has one, with the object, the
value, the rule and the remedy. Without it they print nothing."""
import re

from harness import NORMAL, QUICK, Case, expect, new_port, run, start

WHY = ('--log', 'why')
HELD = re.compile(r'^rocemu: (\d+) more lines of --log why were suppressed', re.M)
PORT = '/sys/class/infiniband/dev0/ports/1'


def reasons(proc):
    return [row for row in proc.stderr.splitlines() if row.startswith('rocemu: why: ')]


def once(proc, *patterns):
    """Each pattern is in one line, and there are no other lines."""
    found = reasons(proc)
    for row in found:
        expect(row.count(': ') >= 4, f'not object, value, rule and remedy: {row}', proc)
    for pattern in patterns:
        hits = [row for row in found if re.search(pattern, row)]
        expect(len(hits) == 1, f'{len(hits)} lines with "{pattern}"', proc)
        found.remove(hits[0])
    expect(not found, f'more lines: {found}', proc)


def two(config, lab, argv, server=(), client=(), options=WHY, server_impair=None, client_impair=None, server_says=True):
    """A stock program's two ends, of which the client ends by itself. The server, whose peer is gone then, is waited for until it
    has given its reason."""
    def with_impair(impair):
        return (*options, '--impair', impair) if impair else options

    side = lab.get('lo').server
    port = new_port()
    argv = [*argv, '-p', str(port)]
    s = start(config, side, [*argv, *server], 'server', options=with_impair(server_impair))
    try:
        s.wait_listening(port)
        c = run(config, side, [*argv, *client, '127.0.0.1'], 'client', options=with_impair(client_impair))
        if options and server_says:
            s.wait_until(lambda: reasons(s) or not s.running(), 'it said why')
    finally:
        s.kill()
    return s, c


def rkey(config, lab):
    """A stock program never names a wrong key, so a rule changes one on its way. Counters have it, too."""
    count = f'"$@"; cat {PORT}/hw_counters/req_remote_access_errors {PORT}/hw_counters/req_cqe_error'
    side = lab.get('lo').server
    for options in (WHY, ()):
        port = new_port()
        argv = ['ib_write_lat', '-d', 'dev0', '-p', port, '-s', 64, '-n', 1000, '-F']
        server = start(config, side, argv, 'server', options=options)
        try:
            server.wait_listening(port)
            client = run(config, side, ['sh', '-c', count, 'sh', *argv, '127.0.0.1'], 'client',
                         options=(*options, '--impair', 'corrupt opcode=RC_WRITE_* field=rkey icrc=right'))
            if options:
                server.wait_until(lambda s=server: reasons(s), 'it said why')
        finally:
            server.kill()
        expect(client.stdout.splitlines()[-2] == '1', 'no REM_ACCESS_ERR in hw_counters', client)
        if not options:
            expect('why:' not in server.stderr + client.stderr, 'not silent', server, client)
            continue
        once(client, r'why: QP 0x\w+: NAK remote access error received from 127.0.0.1 QP 0x\w+ for WRITE of 64 bytes '
                     r'.* with rkey 0x\w+: .* \[0x122\]$')
        once(server, r'why: QP 0x\w+: NAK remote access error sent to 127.0.0.1 QP 0x\w+: RC_WRITE_ONLY of 64 bytes '
                     r'at \[0x\w+, 0x\w+\): nothing has rkey 0x\w+: .* \[0x14a\]$')


def attribute(config, lab):
    """Without -g a pingpong has no GID index, which RoCE needs."""
    for options in (WHY, ()):
        server, client = two(config, lab, ['ibv_rc_pingpong', '-d', 'dev0'], options=options, server_says=False)
        expect('Failed to modify QP to RTR' in client.stderr + server.stderr, 'it did not fail', server, client)
        if options:
            expect(reasons(client) or reasons(server), 'no reason', server, client)
            for p in (server, client):
                if reasons(p):
                    once(p, r'why: QP 0x\w+: ibv_modify_qp INIT to RTR: ah_attr has is_global: 0: .* \[0x1c6\]$')
        else:
            expect('why:' not in server.stderr + client.stderr, 'not silent', server, client)


def missing(config, lab):
    """Attributes that the state table requires and the program has not set, by name."""
    side = lab.get('lo').server
    p = run(config, side, [config.program('prog', 'why-check'), 'dev0'], options=WHY)
    expect(p.popen.returncode == 0, 'it failed', p)
    once(p, r'why: QP 0x\w+: ibv_modify_qp INIT to RTR: IBV_QP_AV is missing: attr_mask needs IBV_QP_AV \| IBV_QP_PATH_MTU \| .*: .* \[0x1c3\]$',
         r'why: ibv_create_cq: cqe is 0, .*: see max_cqe of ibv_query_device\(\)$')
    # Of 41 times one was printed.
    held = HELD.search(p.stderr)
    expect(held and int(held[1]) == 40, 'the count of what was held back', p)


def retry(config, lab):
    server, client = two(config, lab, ['ibv_rc_pingpong', '-d', 'dev0', '-g', '0', '-n', '10'], client_impair='drop opcode=RC_SEND_*',
                         server_says=False)
    once(client, r'why: QP 0x\w+: retry count exceeded: SEND of 4096 bytes \(wr_id 2\), PSN \d+, was sent 8 times, 67.1 ms apart, '
                 r'and 127.0.0.1 QP 0x\w+ has never answered: .*firewall.* \[0x101\]$')
    once(server)


def rnr(config, lab):
    """A hundred RNR NAKs are one line and a count."""
    argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', '0', '-n', '100', '-e', '-p', str(new_port())]
    side = lab.get('lo').server
    server = start(config, side, argv, 'server', options=(*WHY, '--impair', 'rnr=50%'))
    try:
        server.wait_listening(int(argv[-1]))
        client = run(config, side, [*argv, '127.0.0.1'], 'client', options=WHY)
        expect(client.popen.returncode == 0 and server.wait() == 0, 'it failed', server, client)
    finally:
        server.kill()
    once(server, r'why: QP 0x\w+: RNR NAK sent to 127.0.0.1 QP 0x\w+: the receive for RC_SEND_\w+ at PSN \d+ was hidden on purpose; .* \[0x153\]$')
    once(client, r'why: QP 0x\w+: RNR NAK received from 127.0.0.1 QP 0x\w+ for SEND of 4096 bytes .* \[0x125\]$')
    for p in (server, client):
        held = HELD.search(p.stderr)
        expect(held and int(held[1]) > 20, 'no count of what was held back', p)


def reject(config, lab):
    """The port has no listener."""
    p = run(config, lab.get('lo').server, ['rping', '-c', '-a', '127.0.0.1', '-p', new_port(), '-C', 1], options=WHY)
    once(p, r'why: connection to 127.0.0.1 port \d+: REJ received, reason 8 \(invalid service ID\): .*start the server first')


def unreachable(config, lab):
    """No process has the RoCE port at that address."""
    p = run(config, lab.get('lo').server, ['rping', '-c', '-a', '127.44.0.77', '-p', new_port(), '-C', 1], options=WHY)
    once(p, r'why: connection to 127.44.0.77 port \d+: UNREACHABLE, status -111 \(Connection refused\): .*start it first')


def on_purpose(config, lab):
    """A fault on purpose is called one."""
    p = run(config, lab.get('lo').server, ['ibv_rc_pingpong', '-d', 'dev0', '-g', '0'], options=(*WHY, '--impair', 'fail verb=ibv_create_cq errno=ENOMEM'))
    once(p, r'why: ibv_create_cq fails with errno 12 on purpose: the rule "fail verb=ibv_create_cq errno=ENOMEM" selects it: ')


def mtu(config, lab):
    argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', '0', '-n', '10']
    server, client = two(config, lab, argv, server=('-m', '1024'), client=('-m', '4096'))
    once(server, r'why: QP 0x\w+: NAK invalid request sent to 127.0.0.1 QP 0x\w+: RC_SEND_ONLY at PSN \d+ has 4096 bytes of payload, '
                 r'the path MTU of this QP is 1024: .* \[0x142\]$')
    once(client, r'why: QP 0x\w+: NAK invalid request received .* both QPs have one path MTU, here 4096: .* \[0x121\]$')


RSOCKET = """
import ctypes, socket, sys
lib = ctypes.CDLL('librdmacm.so.1', use_errno=True)
stream, datagrams = (lib.rsocket(socket.AF_INET, kind, 0) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM))
for _ in range(3):
    for call in (lambda: lib.rshutdown(stream, 77), lambda: lib.raccept(stream, None, None), lambda: lib.rlisten(datagrams, 1)):
        if call() != -1 or not ctypes.get_errno():
            sys.exit('a call that did not fail')
"""


def rsocket(config, lab):
    config.need_part('rsocket')
    p = run(config, lab.get('lo').server, ['python3', '-c', RSOCKET], options=WHY)
    expect(p.popen.returncode == 0, 'the calls did not fail as expected', p)
    once(p, 'rshutdown: how is 77', 'raccept: .* does not listen', 'rlisten: .* a datagram socket')
    p = run(config, lab.get('lo').server, ['python3', '-c', RSOCKET])
    expect(p.popen.returncode == 0 and not p.stderr, 'not silent without the option', p)


def cases():
    return [
        Case('why/rsocket', rsocket, NORMAL, needs=('python3',)),
        Case('why/rkey', rkey, QUICK, needs=('ib_write_lat',)),
        Case('why/attribute', attribute, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('why/missing', missing, NORMAL),
        Case('why/retry', retry, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('why/rnr', rnr, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('why/reject', reject, NORMAL, needs=('rping',)),
        Case('why/unreachable', unreachable, NORMAL, needs=('rping',)),
        Case('why/on-purpose', on_purpose, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('why/mtu', mtu, NORMAL, needs=('ibv_rc_pingpong',)),
    ]
