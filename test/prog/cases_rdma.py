# SPDX-License-Identifier: BSD-2-Clause
"""NETLINK_RDMA under `rocemu run`: the rdma tool of iproute2, and programs that make such sockets themselves."""
import json
import re
import sys

from harness import NORMAL, QUICK, Case, Side, Skip, VethPair, expect, may_make_netns, new_port, run

SIDE = Side('dev0=lo', '127.0.0.1')
TWO = Side('dev0=lo,other=127.0.0.9', '127.0.0.1')


def output(config, *argv, side=SIDE, **more):
    p = run(config, side, argv, **more)
    expect(p.popen.returncode == 0 and not p.stderr, f'{argv[0]} failed', p)
    return p.stdout


def devices(config, _lab):
    """rdma dev and rdma link agree with sysfs."""
    devs = json.loads(output(config, 'rdma', '-j', 'dev', side=TWO))
    expect([(d['ifindex'], d['ifname'], d['node_type']) for d in devs] == [(0, 'dev0', 'ca'), (1, 'other', 'ca')], f'{devs}')
    guid, version = output(config, 'cat', '/sys/class/infiniband/other/node_guid', '/sys/class/infiniband/other/fw_ver',
                           side=TWO).split()
    expect(devs[1]['node_guid'] == guid and devs[1]['fw'] == version, f'{devs[1]}: {guid} {version}')
    links = json.loads(output(config, 'rdma', 'link', 'show', '-j', side=TWO))
    expect([(x['ifname'], x['port'], x['state'], x['physical_state'], x['netdev'], x['netdev_index']) for x in links] ==
           [('dev0', 1, 'ACTIVE', 'LINK_UP', 'lo', 1), ('other', 1, 'ACTIVE', 'LINK_UP', 'lo', 1)], f'{links}')
    one = output(config, 'rdma', 'link', 'show', 'other/1', side=TWO)
    expect(one == 'link other/1 state ACTIVE physical_state LINK_UP netdev lo \n', one)
    expect('netns shared' in output(config, 'rdma', 'system'), 'rdma system')
    p = run(config, SIDE, ['rdma', 'dev', 'set', 'dev0', 'name', 'x'])
    expect(p.popen.returncode != 0 and 'not supported' in p.stderr, 'a change is not refused', p)
    p = run(config, SIDE, ['rdma', 'dev', 'show', 'nosuch'])
    expect('Wrong device name' in p.stderr, 'no such device', p)


def down(config, _lab):
    """The port's state is that of the interface."""
    why_not = may_make_netns()
    if why_not:
        raise Skip(why_not)
    veth = VethPair(1500)
    try:
        side = Side('dev0=veth0', veth.v4[0], veth.names[0])
        text = output(config, 'sh', '-c', 'rdma link; ip link set veth0 down; '
                      'until rdma link | grep DISABLED; do :; done', side=side)
        expect('state ACTIVE' in text and text.endswith('link dev0/1 state DOWN physical_state DISABLED netdev veth0 \n'), text)
    finally:
        veth.close()


# A pair that runs while it is looked at.
HELD = '''
ibv_rc_pingpong -d dev0 -g 0 -p {port} -n 1000000000 > /dev/null & server=$!
client=
until rdma resource show qp | grep -q "state RTS.*pid $server " ; do
    kill -0 $server || exit 1
    [ -n "$client" ] && kill -0 $client 2> /dev/null || {{
        ibv_rc_pingpong -d dev0 -g 0 -p {port} -n 1000000000 127.0.0.1 > /dev/null 2>&1 & client=$!; }}
done
until rdma resource show qp | grep -q "state RTS.*pid $client " ; do kill -0 $client || exit 1; done
echo $server $client
rdma -j resource show qp
rdma -j resource
rdma -j resource show qp pid $client
kill -KILL $client
while kill -0 $client 2> /dev/null; do wait $client 2> /dev/null; done
rdma -j resource show qp
rdma -j resource show cq
kill -KILL $server; wait $server 2> /dev/null
rdma -j resource
true
'''


def resources(config, _lab):
    """QPs of all processes, with what they are and whose; gone with their process, even if that is killed."""
    p = run(config, SIDE, ['sh', '-c', HELD.format(port=new_port())])
    expect(p.popen.returncode == 0, 'failed', p)
    lines = p.stdout.splitlines()
    server, client = (int(n) for n in lines[0].split())
    both, all_counts, one, left, cqs, end = (json.loads(line) for line in lines[1:7])
    by_pid = {q['pid']: q for q in both}
    expect(len(both) == 2 and by_pid.keys() == {server, client}, f'{both}')
    s, c = by_pid[server], by_pid[client]
    expect(s['lqpn'] == c['rqpn'] and c['lqpn'] == s['rqpn'], f'{both}')
    for q in both:
        expect(q['ifname'] == 'dev0' and q['port'] == 1 and q['type'] == 'RC' and q['state'] == 'RTS' and
               q['comm'].startswith('ibv_rc_pingpong'[:15]), f'{q}')
    counts = all_counts[0]
    expect(counts['ifname'] == 'dev0' and counts['qp'] == 2 and counts['pd'] == 2 and counts['cq'] == 2 and counts['mr'] == 2,
           f'{counts}')
    expect([q['pid'] for q in one] == [client], f'{one}')
    expect([q['pid'] for q in left] == [server], f'{left}')
    expect(not cqs, f'{cqs}')
    expect(end[0]['qp'] == 0, f'{end}')


def many(config, _lab):
    """More QPs than one message takes."""
    program = config.program('prog', 'rdma-check')
    text = output(config, program, 'dev0', 300)
    expect(re.fullmatch(r'\d+ checks ok\n', text), text)
    return text.strip()


def statistic(config, _lab):
    """The counters of sysfs."""
    port = new_port()
    pair = f'ibv_rc_pingpong -d dev0 -g 0 -p {port} -n 50'
    p = run(config, SIDE, ['sh', '-c', f'{pair} > /dev/null & until {pair} 127.0.0.1 > /dev/null 2>&1; do :; done; wait; '
                                       'rdma -j statistic show link dev0/1; cd /sys/class/infiniband/dev0/ports/1/hw_counters; '
                                       'grep . *'], options=('--impair', 'dup opcode=RC_SEND_* nth=3'))
    expect(p.popen.returncode == 0, 'failed', p)
    said, *files = p.stdout.splitlines()
    values = dict(line.split(':') for line in files if not line.startswith('lifespan'))
    shown = {k: str(v) for k, v in json.loads(said)[0].items() if k not in ('ifindex', 'ifname', 'port')}
    expect(shown == values and int(shown['duplicate_request']) > 0, f'{shown}\n{values}')


SOCKET = r'''
import os, socket, struct
NETLINK, RAW, RDMA = 16, 3, 20
GET, DUMP = 5 << 10 | 1, 0x301
s = socket.socket(NETLINK, RAW, RDMA)
s.bind((0, 0))
port = s.getsockname()[0]
request = struct.pack('IHHII', 16, GET, DUMP, 77, 0)
def check(data, sender):
    length, kind, flags, seq, pid = struct.unpack_from('IHHII', data)
    assert sender[:2] == (0, 0) and kind == GET and seq == 77 and pid == port, (data, sender)
    data = s.recv(9999)
    assert struct.unpack_from('IHHII', data)[1] == 3, data
s.sendto(request, (0, 0))
check(*s.recvfrom(9999))
s.sendmsg([request], [], 0, (0, 0))
data, _, _, sender = s.recvmsg(9999)
check(data, sender)
# Without an address it is for the kernel, too: of a bound socket, and of one that is connected to it.
c = socket.socket(NETLINK, RAW, RDMA)
c.connect((0, 0))
for s, send in (s, s.send), (s, lambda m: s.sendmsg([m])), (s, lambda m: os.write(s.fileno(), m)), (c, c.send):
    port = s.getsockname()[0]
    send(request)
    check(*s.recvfrom(9999))
s, port = c, c.getsockname()[0]
# A child has the same socket.
child = os.fork()
if child == 0:
    s.sendto(request, (0, 0))
    check(*s.recvfrom(9999))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
# Others are the kernel's.
r = socket.socket(NETLINK, RAW, 0)
r.bind((0, 0))
r.sendto(struct.pack('IHHII', 20, 18, DUMP, 5, 0) + bytes(4), (0, 0))
data, sender = r.recvfrom(99999)
assert struct.unpack_from('IHHII', data)[1] == 16 and sender[:2] == (0, 0)
# The program's own protocol stays its own.
a, b = (socket.socket(NETLINK, RAW, 2) for _ in range(2))
a.bind((0, 0))
b.bind((0, 0))
a.sendto(b'x', b.getsockname())
b.sendto(b'y', a.getsockname())
assert a.recv(9) == b'y' and b.recv(9) == b'x'
print('ok')
'''


def sockets(config, _lab):
    """sendto, sendmsg, recvfrom and recvmsg; no address; children; and sockets of other protocols."""
    expect(output(config, sys.executable, '-c', SOCKET) == 'ok\n', 'failed')


def off(config, _lab):
    """Without the interposer the kernel answers, if it can."""
    p = run(config, SIDE, ['rdma', 'dev'], env={'ROCEMU_PATHS': 'off'})
    expect('dev0' not in p.stdout, 'not off', p)


def cases():
    return [
        Case('rdma/devices', devices, QUICK, needs=('rdma',)),
        Case('rdma/down', down, NORMAL, needs=('rdma',)),
        Case('rdma/resources', resources, NORMAL, needs=('rdma', 'ibv_rc_pingpong')),
        Case('rdma/many', many, NORMAL),
        Case('rdma/statistic', statistic, NORMAL, needs=('rdma', 'ibv_rc_pingpong')),
        Case('rdma/sockets', sockets, NORMAL),
        Case('rdma/off', off, NORMAL, needs=('rdma',)),
    ]
