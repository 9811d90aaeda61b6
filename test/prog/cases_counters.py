# SPDX-License-Identifier: BSD-2-Clause
"""The counters of a port under `rocemu run`, as programs read them: by path, by descriptor, and without the C library."""
import re
import sys

import scenario_pair
from harness import NORMAL, QUICK, Case, Side, expect, new_port, run, start

SIDE = Side('dev0=lo', '127.0.0.1')
PORT = '/sys/class/infiniband/dev0/ports/1'
# One `rocemu run` is one host: both ends under the same count in the same files. The client tries until the server listens.
PAIR = '''
pair() { # program and arguments of both
    "$@" > /dev/null & server=$!
    until "$@" 127.0.0.1 > /dev/null 2>&1; do kill -0 $server || exit 1; done
    wait $server || exit 1
}
'''


def script(config, text, *args, options=(), env=None):
    p = run(config, SIDE, ['sh', '-c', PAIR + text, 'sh', *args], options=options, env=env)
    expect(p.popen.returncode == 0, 'the script failed', p)
    return p.stdout


def values(text):
    return {m[1]: int(m[2]) for m in re.finditer(r'^(\w*counters/\w+):(\d+)$', text, re.M)}


def pingpong(port, iterations, size):
    return f'pair ibv_rc_pingpong -d dev0 -g 0 -p {port} -n {iterations} -s {size}\n'


def live(config, _lab):
    """What was sent and received, at once; before, all is 0."""
    grep = f'cd {PORT} && grep . counters/* hw_counters/*\n'
    text = script(config, grep + 'echo; ' + pingpong(new_port(), 100, 1000) + grep)
    before, after = (values(part) for part in text.split('\n\n'))
    expect(len(before) > 45 and not any(before.values()), f'not 0 at first: {before}')
    expect(before.keys() == after.keys(), f'others: {after}')
    # Two ends that send 100 messages each, in packets that are acknowledged.
    packets, data = after['counters/port_xmit_packets'], after['counters/port_xmit_data']
    expect(packets >= 200 and 4 * data >= 200 * 1000 + 16 * packets, f'{packets} packets, {data} words')
    expect(after['counters/port_rcv_packets'] == packets and after['counters/port_rcv_data'] == data,
           f'not what was sent: {after}')
    expect(after['counters/unicast_xmit_packets'] == packets and after['counters/unicast_rcv_packets'] == packets, f'{after}')
    expect(after['hw_counters/req_cqe_error'] == 0, f'{after}')


READERS = r'''
import os, sys, subprocess
path, pair = sys.argv[1:3]
fd = os.open(path, os.O_RDONLY)
dir = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
f = open(path)
def seen():
    os.lseek(fd, 0, os.SEEK_SET)
    f.seek(0)
    at = os.open(os.path.basename(path), os.O_RDONLY, dir_fd=dir)
    said = [os.read(fd, 100), os.read(fd, 100), os.pread(fd, 100, 0), os.read(at, 100), f.read().encode()]
    os.close(at)
    for tool in (['cat', path], ['head', '-n1', path], ['tail', '-n1', path], ['awk', '{print}', path]):
        said.append(subprocess.run(tool, stdout=subprocess.PIPE, check=True).stdout)
    os.chdir(os.path.dirname(path))
    said.append(subprocess.run(['cat', os.path.basename(path)], stdout=subprocess.PIPE, check=True).stdout)
    return said
print(seen())
subprocess.run(['sh', '-c', pair], check=True)
now = seen()
print(len(set(now[:1] + now[2:])) == 1 and now[1] == b'' and int(now[0]) > 0, now)
# The descriptor's number is another file's now.
os.close(fd)
again = os.open('/proc/self/comm', os.O_RDONLY)
print(again == fd, len(os.read(again, 100)) > 0)
'''


def readers(config, _lab):
    """A descriptor that stays open is read anew from its start; and all ways to read a file give the same result."""
    p = run(config, SIDE, [sys.executable, '-c', READERS, f'{PORT}/counters/port_rcv_packets', PAIR + pingpong(new_port(), 20, 100)])
    expect(p.popen.returncode == 0, 'failed', p)
    lines = p.stdout.splitlines()
    expect(lines[0] == str([b'0\n', b''] + 8 * [b'0\n']), lines[0])
    expect(lines[1].startswith('True') and lines[2] == 'True True', p.stdout)


def outside(config, _lab):
    """Without the interposer, as raw system calls and other programs see the tree, they come within a while."""
    text = pingpong(new_port(), 20, 100) + (
        'file=$ROCEMU_PATHS' + PORT.replace('class/infiniband', 'devices/virtual/infiniband') + '/counters/port_xmit_packets\n'
        f'want=$(cat {PORT}/counters/port_xmit_packets)\n'
        'until [ "$(env -u LD_PRELOAD cat $file)" = "$want" ]; do :; done; echo "$want"')
    expect(int(script(config, text)) >= 40, 'too few')


def errors(config, _lab):
    """Scenarios break every rule once: each has its counter."""
    program = config.program('scenario', 'scenario-verbs')
    text = script(config, f'{program} --device dev0 --with TYPE=RC --set timeout=18 {scenario_pair.file("verbs-errors")} > /dev/null || exit 1\n'
                          f'cd {PORT} && grep . counters/* hw_counters/*')
    got = values(text)
    for name in ('req_cqe_error', 'req_cqe_flush_error', 'req_remote_access_errors', 'req_remote_invalid_request',
                 'resp_cqe_error', 'resp_cqe_flush_error', 'resp_local_length_error', 'resp_remote_access_errors',
                 'out_of_buffer', 'rnr_nak_retry_err', 'req_rnr_retries_exceeded'):
        expect(got['hw_counters/' + name] > 0, f'{name} is 0: {got}')
    expect(got['hw_counters/req_cqe_error'] > got['hw_counters/req_cqe_flush_error'], f'{got}')
    return f"{got['hw_counters/req_cqe_error']} errors"


def faults(config, _lab):
    """Faults on purpose show where an administrator looks for them. Several packets are dropped: one of them alone may be
    sent a second time for nothing, on a busy machine, and leave no gap."""
    text = script(config, pingpong(new_port(), 200, 3000) + f'cd {PORT} && grep . counters/* hw_counters/*',
                  options=('--impair', 'drop opcode=RC_SEND_FIRST every=10;dup opcode=RC_SEND_LAST nth=9;mark opcode=RC_SEND_* nth=20;'
                                       'corrupt opcode=RC_SEND_LAST nth=30 icrc=wrong'))
    got = values(text)
    for name in ('hw_counters/out_of_sequence', 'hw_counters/packet_seq_err', 'hw_counters/retrans_pkts', 'hw_counters/duplicate_request',
                 'hw_counters/np_ecn_marked_roce_packets', 'hw_counters/np_cnp_sent', 'hw_counters/rp_cnp_handled',
                 'hw_counters/rx_icrc_encapsulated', 'counters/port_rcv_errors'):
        expect(got[name] > 0, f'{name} is 0: {got}')


def killed(config, _lab):
    """What a process counted stays when it is killed, and the next one adds to it."""
    port = new_port()
    text = script(config, f'ibv_rc_pingpong -d dev0 -g 0 -p {port} -n 1000000000 > /dev/null & server=$!\n'
                          f'ibv_rc_pingpong -d dev0 -g 0 -p {port} -n 1000000000 127.0.0.1 > /dev/null & client=$!\n'
                          f'file={PORT}/counters/port_xmit_packets\n'
                          'while [ "$(cat $file)" -lt 1000 ]; do\n'
                          'kill -0 $client 2> /dev/null || { '
                          f'ibv_rc_pingpong -d dev0 -g 0 -p {port} -n 1000000000 127.0.0.1 > /dev/null 2>&1 & client=$!; }}; done\n'
                          'kill -KILL $server $client; wait $server $client 2> /dev/null\n'
                          f'cat $file; {pingpong(new_port(), 50, 100)} cat $file')
    first, second = (int(n) for n in text.split())
    expect(first >= 1000 and second >= first + 100, f'{first}, then {second}')


def perftest(config, _lab):
    """perftest reads them before and after its test, by one descriptor."""
    port = new_port()
    argv = ['ib_write_bw', '-d', 'dev0', '-p', port, '-n', 50, '-s', 65536, '-W',
            'counters/port_xmit_data,counters/port_rcv_data,hw_counters/rx_write_requests']
    server = start(config, SIDE, argv, 'server')
    try:
        server.wait_listening(port)
        p = run(config, SIDE, argv + ['127.0.0.1'], 'client')
        expect(p.popen.returncode == 0, 'failed', server, p)
        expect(server.wait() == 0, 'the server failed', server)
        # Two commands are two hosts: the client sent all data, and received none.
        sent = re.search(r'counters/port_xmit_data=(\d+)', p.stdout)
        expect(sent and 4 * int(sent[1]) >= 50 * 65536, 'too little sent', p)
        expect('hw_counters/rx_write_requests=0' in p.stdout, 'the client received WRITEs', p)
        expect(re.search(r'hw_counters/rx_write_requests=[1-9]', server.stdout), 'the server received none', server)
    finally:
        if server.running():
            server.kill()


def cases():
    return [
        Case('counters/live', live, QUICK, needs=('ibv_rc_pingpong',)),
        Case('counters/readers', readers, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('counters/outside', outside, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('counters/errors', errors, NORMAL),
        Case('counters/faults', faults, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('counters/killed', killed, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('counters/perftest', perftest, NORMAL, needs=('ib_write_bw',)),
    ]
