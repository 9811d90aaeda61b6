# SPDX-License-Identifier: BSD-2-Clause
"""Programs whose packets go by shared memory (`rocemu run --wire shm`), and those that have to go by UDP nevertheless."""
import glob
import os
import re
import signal
import subprocess
import tempfile

import cases_capture
import cases_cm
import cases_perftest
from harness import FULL, NOBODY, NORMAL, QUICK, Case, Proc, Side, expect, gid_index, need_user, new_port, pair, sanitizer_env, start

WIRE = ('--wire', 'shm')
SHM = {'ROCEMU_WIRE': 'shm'}
COUNTED = {'ROCEMU_LOG': 'debug'}
# How many messages: mostly more than are sent before a ring is attached, and many more where that was not so.
ITERS = (500, 10000)


def by_rings(*procs):
    """How many packets the processes received by rings: the least of their sums."""
    return min(sum(int(n) for n in re.findall(r'(\d+) datagrams received by rings', p.stderr))
               for p in procs)


def until_rings(run, counts=ITERS):
    """Run a pair of processes, with a count of messages each time, until packets went by shared memory."""
    for count in counts:
        procs = run(count)
        if by_rings(*procs):
            return procs
    expect(False, 'no packet went by shared memory', *procs)
    return None


# ---- programs that run as ever -----------------------------------------------------------------------------

def pingpong(transport, where, *options, level=NORMAL, counts=ITERS):
    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        argv = [[f'ibv_{transport}_pingpong', '-d', side.name, '-g', gid_index(config, side), '-p', '{port}', '-c', *options]
                for side in (topo.server, topo.client)]
        server, client = until_rings(lambda n: pair(config, topo, argv[0] + ['-n', n], argv[1] + ['-n', n, '{server}'], env=COUNTED,
                                                    server_options=WIRE, client_options=WIRE), counts)
        expect('invalid data' not in server.output + client.output, 'the data check failed', server, client)
    return Case(f'shm/pingpong/{transport}/{where}/{"events" if "-e" in options else "poll"}', check, level)


def events_and_times(where, runs=5):
    """See cases_pingpong.events_and_times()."""
    one = pingpong('rc', where, '-e', '-t', counts=ITERS[1:]).function

    def check(config, lab):
        for _ in range(runs):
            one(config, lab)

    return Case(f'shm/pingpong/rc/{where}/events.timestamps', check)


def perftest(program, *options, iters=ITERS[0], level=NORMAL):
    return cases_perftest.perftest('/'.join(['shm', 'perftest', program, ''.join(map(str, options)) or 'default']), program, 'lo', options,
                                   iters=iters, env=SHM, level=level)


def renamed(cases):
    for case in cases:
        case.name = 'shm/' + case.name
        yield case


# ---- what looks at packets, and harms them -----------------------------------------------------------------

def capture(config, lab):
    """A capture on one side or on both: right ICRCs, and nothing against the standard."""
    config.need_part('verify')
    topo = lab.get('lo')
    for who in ('both', 'server', 'client'):
        with tempfile.TemporaryDirectory(prefix='rocemu-shm-') as d:
            options = (*WIRE, '--pcap', os.path.join(d, '%p.pcap'))
            argv = ['ib_write_bw', '-d', 'dev0', '-x', gid_index(config, topo.client), '-p', '{port}', '-F', '-u', 18, '-s', 9000, '-n']
            server, client = until_rings(lambda n, who=who, argv=argv, options=options: pair(
                config, topo, argv + [n], argv + [n, '{server}'], env=COUNTED, server_options=WIRE if who == 'client' else options,
                client_options=WIRE if who == 'server' else options), (200, 5000))
            files = glob.glob(os.path.join(d, '*.pcap'))
            expect(len(files) >= (2 if who == 'both' else 1), f'captures: {files}', server, client)
            for path in files:
                p = subprocess.run([config.rocemu, 'verify', path], capture_output=True, text=True)
                expect(p.returncode == 0, f'{who}: rocemu verify: {p.stdout}{p.stderr}', server, client)
                expect(os.path.getsize(path) > 600 * 3000, f'{path} is too small', server, client)


def impaired(spec, counted):
    """Faults on purpose act on packets as on any wire."""
    def check(config, lab):
        topo = lab.get('lo')
        options = (*WIRE, '--impair', spec)
        argv = ['ib_send_bw', '-d', 'dev0', '-x', gid_index(config, topo.client), '-p', '{port}', '-F', '-u', 12, '-s', 20000, '-n']
        server, client = until_rings(lambda n: pair(config, topo, argv + [n], argv + [n, '{server}'], env=COUNTED, server_options=options,
                                                    client_options=options), (1000, 20000))
        expect(re.search(rf'[1-9]\d* {counted}', client.stderr + server.stderr), f'nothing was {counted}', server, client)
    return check


# ---- who is reached by UDP ---------------------------------------------------------------------------------

def one_sided(config, lab):
    """One process has it, the other one does not."""
    topo = lab.get('lo')
    argv = ['ibv_uc_pingpong', '-d', 'dev0', '-g', gid_index(config, topo.client), '-n', ITERS[0], '-p', '{port}']
    server, client = pair(config, topo, argv, argv + ['{server}'], env=COUNTED, client_options=WIRE)
    expect('by rings' not in server.stderr + client.stderr, 'by shared memory', server, client)


def other_namespace(config, lab):
    topo = lab.get('veth9000-v4')
    topo.check()
    argv = [['ibv_rc_pingpong', '-d', side.name, '-g', gid_index(config, side), '-n', ITERS[0], '-p', '{port}']
            for side in (topo.server, topo.client)]
    server, client = pair(config, topo, argv[0], argv[1] + ['{server}'], env=COUNTED, server_options=WIRE, client_options=WIRE)
    expect('by rings' not in server.stderr + client.stderr, 'by shared memory', server, client)


def other_user(config, lab):
    """Two users on one address, by a system-wide agent."""
    need_user(NOBODY, config.rocemu)
    side, port = Side('hostw=127.0.0.14', '127.0.0.14', name='hostw'), new_port()
    argv = ['ibv_rc_pingpong', '-d', side.name, '-g', 0, '-p', port, '-n', ITERS[0]]
    agent = Proc([config.rocemu, 'agent', '--system', '--foreground'], sanitizer_env(config), name='agent')
    server = None
    try:
        agent.wait_until(lambda: subprocess.run([config.rocemu, 'agent', '--status', '--system'],
                                                capture_output=True).returncode == 0, 'it answered')
        server = start(config, side, argv, 'server', COUNTED, WIRE)
        server.wait_listening(port)
        client = start(config, side, argv + [side.tcp], 'client', COUNTED, WIRE, NOBODY)
        expect(client.wait() == 0 and server.wait() == 0, 'failed', agent, server, client)
        expect('by rings' not in server.stderr + client.stderr, 'by shared memory', server, client)
    finally:
        if server:
            server.kill()
        agent.signal(signal.SIGTERM)
        agent.wait(20)


# Takes the names of all slots of root's lanes that are free, and holds them.
SQUAT = """
import socket, signal, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for slot in range(1, 1024):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        s.bind(f"\\0rocemu-lane-v2:0:::{slot}")
        s.listen()
        held.append(s)
    except OSError:
        pass
print("holds", len(held), flush=True)
signal.pause()
"""


def names_taken(config, lab):
    """Another user has the names by which processes find each other: they do, nevertheless."""
    need_user(NOBODY, config.rocemu)
    topo = lab.get('lo')
    squatter = Proc(['/usr/bin/python3', '-c', SQUAT], name='squatter', netns=topo.client.netns, user=NOBODY)
    try:
        squatter.wait_until(lambda: 'holds' in squatter.stdout, 'it had the names')
        expect(int(squatter.stdout.split()[1]) > 900, squatter.stdout, squatter)
        pingpong('rc', 'lo').function(config, lab)
    finally:
        squatter.kill()


def cases():
    found = [pingpong(t, 'lo', *options, level=QUICK if t == 'rc' else NORMAL)
             for t in ('rc', 'uc', 'ud', 'srq') for options in ((), ('-e',))]
    found += [pingpong('rc', where) for where in ('lo-two', 'lo6')]
    found += [events_and_times(where) for where in ('lo', 'lo-two')]
    found += [perftest('ib_send_lat', '-s', 8), perftest('ib_write_lat', '-s', 65536), perftest('ib_write_lat', '-a', iters=100, level=FULL), perftest('ib_read_bw', '-s', 65536),
              perftest('ib_write_bw', '-q', 16, '-s', 65536), perftest('ib_send_bw', '-b', '-s', 4096), perftest('ib_send_lat', '-e'),
              perftest('ib_atomic_bw'), perftest('ib_send_bw', '-c', 'UD', '-s', 1024), perftest('ib_write_bw', '-c', 'UC'),
              perftest('ib_read_lat', '-a', iters=100, level=FULL)]
    found += renamed(cases_cm.rping('rping', (), impair=WIRE))
    found += renamed([cases_capture.captured('rc_pingpong', 'lo', cases_capture.pingpong('rc', '-s', 3000), 300, env=SHM),
                      cases_capture.captured('ud_pingpong', 'lo6', cases_capture.pingpong('ud', '-s', 999), 100, env=SHM)])
    found += [Case('shm/capture', capture), Case('shm/loss', impaired('loss=2%,seed=3', 'lost')),
              Case('shm/corrupt', impaired('corrupt=2%,dup=1%,reorder=1%,seed=4', 'corrupted')),
              Case('shm/udp/one_sided', one_sided), Case('shm/udp/other_namespace', other_namespace),
              Case('shm/udp/other_user', other_user), Case('shm/names_taken', names_taken)]
    return found
