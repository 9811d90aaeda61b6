# SPDX-License-Identifier: BSD-2-Clause
"""Programs on rsockets: rdma-core's examples unmodified, and programs on plain sockets under its preload library."""
import glob
import os
import tempfile

from cases_cm import Session, is_listened, programs
from harness import FULL, NORMAL, QUICK, Case, Skip, expect, new_port, wait_gone

WHERE = ('lo', 'lo-two', 'lo6', 'veth1500-v4', 'veth1500-v6')


def stream(program, name, options, count=10, iterations=10, where=('lo',), level=NORMAL, server='{server}'):
    """rstream and riostream check each byte with -T v; both ends must get the same options."""
    common = [program, '-p', '{port}', '-I', iterations, '-C', count, '-T', 'v', *options]
    for case in programs(name, common + ['-b', server], common + ['-s', server], where=where, level=level,
                         check=carried, needs=(program,)):
        case.name = case.name.replace('cm/', 'rsocket/', 1)
        yield case


def carried(srv, cli):
    for p in (srv, cli):
        expect('custom' in p.stdout and 'failed' not in p.output, 'no result', srv, cli)


def streams():
    for program in ('rstream', 'riostream'):
        yield from stream(program, program, ('-S', 1000, '-T', 'b'), where=WHERE, level=QUICK)
        yield from stream(program, f'{program}.async', ('-S', 1000, '-T', 'a'), where=('lo', 'veth1500-v4'))
        yield from stream(program, f'{program}.nonblocking', ('-S', 1000, '-T', 'n'))
        for size in (1, 64, 65536, 1000000):
            yield from stream(program, f'{program}.{size}', ('-S', size, '-T', 'b'))
        yield from stream(program, f'{program}.small_buffers', ('-S', 100000, '-B', 8192, '-T', 'b'))
        yield from stream(program, f'{program}.inline', ('-S', 100, '-T', 'b', '-i', 200))
        yield from stream(program, f'{program}.ip', ('-S', 1000, '-T', 'b', '-f', 'ip'))
        yield from stream(program, f'{program}.ipv6', ('-S', 1000, '-T', 'b', '-f', 'ipv6'), where=('lo6',))
        # Addresses that are GIDs (AF_IB); the service ID is the port's of TCP.
        for place, gid in (('lo', '::ffff:{server}'), ('lo6', '{server}')):
            yield from stream(program, f'{program}.gid', ('-S', 1000, '-T', 'b', '-f', 'gid'), where=(place,), server=gid)
    yield from stream('rstream', 'rstream.resolve', ('-S', 1000, '-T', 'b', '-T', 'r'))
    yield from stream('rstream', 'rstream.keepalive', ('-S', 1000, '-T', 'b', '-k', 1))
    yield from stream('rstream', 'rstream.long', ('-S', 20000, '-T', 'b'), iterations=300, level=FULL)


# ---- udpong ----------------------------------------------------------------------------------------------

def udp_bound(port, pid):
    """Is a UDP port taken in the network namespace of a process?"""
    for table in ('udp', 'udp6'):
        try:
            with open(f'/proc/{pid}/net/{table}', encoding='ascii') as f:
                if any(int(line.split()[1].rsplit(':', 1)[1], 16) == port for line in f.readlines()[1:]):
                    return True
        except OSError:
            pass
    return False


# A client sends its request again when no answer comes within a millisecond, and takes each answer
# into the buffer that it sends. So after one late answer it repeats the old request forever: on a
# busy machine another client has to try.
CLIENTS = 5
CLIENT_GUARD_S = 10


def udpong(name, options, where=('lo',), level=NORMAL):
    for place in where:
        def run(config, lab, place=place):
            common = ['udpong', '-p', '{port}', '-C', 200, *options]
            with Session(config, lab.get(place)) as s:
                srv = s.start(s.topo.server, common + ['-b', '{server}'], 'server')
                srv.wait_until(lambda: udp_bound(s.port, srv.pid), f'it had UDP port {s.port}')
                for attempt in range(CLIENTS):
                    cli = s.client(common + ['-s', '{server}'])
                    wait_gone(cli, CLIENT_GUARD_S if attempt < CLIENTS - 1 else s.GUARD_S)
                    if not cli.running():
                        break
                    cli.kill()
                # Its server serves forever.
                s.finish(cli)
                expect('custom' in cli.stdout, 'no result', srv, cli)
                expect(srv.running(), 'the server ended', srv, cli)

        yield Case(f'rsocket/{name}/{place}', run, QUICK if level == QUICK and place == 'lo' else max(level, NORMAL),
                   needs=('udpong',))


# ---- rcopy -----------------------------------------------------------------------------------------------

def rcopy(place, size):
    def run(config, lab):
        with tempfile.TemporaryDirectory() as folder, Session(config, lab.get(place)) as s:
            source, copy = os.path.join(folder, 'source'), os.path.join(folder, 'copy')
            data = os.urandom(size)
            with open(source, 'wb') as f:
                f.write(data)
            srv = s.server(['rcopy', '-p', '{port}'])
            cli = s.client(['rcopy', source, '{server}:' + copy, '-p', '{port}'])
            s.finish(cli)
            with open(copy, 'rb') as f:
                expect(f.read() == data, 'the copy differs', srv, cli)

    return Case(f'rsocket/rcopy.{size}/{place}', run, NORMAL, needs=('rcopy',))


# ---- programs on plain sockets ---------------------------------------------------------------------------

def preload():
    found = glob.glob('/usr/lib/*/rsocket/librspreload.so')
    if not found:
        raise Skip('librspreload.so is not installed')
    return ['env', f'LD_PRELOAD={found[0]}']


def preloaded_rstream(config, lab):
    """rstream on plain sockets (-T s): the library makes them rsockets."""
    common = [*preload(), 'rstream', '-p', '{port}', '-T', 's', '-T', 'v', '-T', 'b', '-S', 10000, '-C', 10, '-I', 10]
    with Session(config, lab.get('lo')) as s:
        srv = s.server(common + ['-b', '{server}'])
        cli = s.client(common + ['-s', '{server}'])
        s.finish(cli, srv)
        carried(srv, cli)


def preloaded_forks(config, lab):
    """rstream's own server that forks (-T f), on plain sockets."""
    common = [*preload(), 'RDMAV_FORK_SAFE=1', 'rstream', '-p', '{port}', '-T', 'f', '-T', 'v', '-T', 'b', '-S', 10000, '-C', 10, '-I', 10]
    with Session(config, lab.get('lo'), port=new_port()) as s:
        srv = s.start(s.topo.server, common + ['-b', '{server}'], 'server')
        srv.wait_until(lambda: tcp_listens(s.port, srv.pid), f'it listened on port {s.port}')
        cli = s.client(common + ['-s', '{server}'])
        s.finish(cli, srv)
        carried(srv, cli)


def preloaded_echo(config, lab, how):
    """A server that answers in the process that listens, or in one for each connection; the data is on the wire."""
    fork = how == 'fork'
    common = [*preload(), *(('RDMAV_FORK_SAFE=1',) if fork else ()), config.program('rsocket', 'sock-echo'), how, '{port}']
    with tempfile.TemporaryDirectory() as folder, Session(config, lab.get('lo'), port=new_port()) as s:
        wire = os.path.join(folder, 'wire.pcap')
        srv = s.start(s.topo.server, common, 'server')
        # With forks it listens on TCP, over which the ends agree to go on with RDMA.
        srv.wait_until(lambda: tcp_listens(s.port, srv.pid) if fork else is_listened(config, s.topo.server, 'tcp', s.port),
                       f'it listened on port {s.port}')
        cli = s.client(common + ['{server}'], options=('--pcap', wire))
        s.finish(cli, srv)
        expect(cli.stdout.count('all came back') == 2, 'not all came back', srv, cli)
        expect(os.path.getsize(wire) > 2 * ECHO_BYTES, 'the data was not sent by RDMA', srv, cli)


ECHO_BYTES = 100000


def tcp_listens(port, pid):
    with open(f'/proc/{pid}/net/tcp', encoding='ascii') as f:
        return any(int(line.split()[1].rsplit(':', 1)[1], 16) == port and line.split()[3] == '0A' for line in f.readlines()[1:])


def preloaded_iperf3(config, lab):
    common = [*preload(), 'iperf3', '-p', '{port}', '--forceflush']
    with Session(config, lab.get('lo'), port=new_port()) as s:
        srv = s.server(common + ['-s', '-1', '-B', '{server}'])
        expect(is_listened(config, s.topo.server, 'tcp', s.port), 'no rsocket listens', srv)
        cli = s.client(common + ['-c', '{server}', '-n', '20M'])
        s.finish(cli, srv)
        expect('iperf Done.' in cli.stdout, 'not done', srv, cli)


def cases():
    found = list(streams())
    found += udpong('udpong', ('-S', 64, '-T', 'b'), where=WHERE, level=QUICK)
    found += udpong('udpong.echo', ('-S', 1000, '-T', 'e'), where=('lo', 'veth1500-v4'))
    found += udpong('udpong.async', ('-S', 64, '-T', 'a'))
    found += udpong('udpong.nonblocking', ('-S', 64, '-T', 'n'))
    found += [rcopy('lo', 3000000), rcopy('lo', 1), rcopy('veth1500-v4', 300000)]
    found += [
        Case('rsocket/preload.rstream/lo', preloaded_rstream, NORMAL, needs=('rstream',)),
        Case('rsocket/preload.rstream.forks/lo', preloaded_forks, NORMAL, needs=('rstream',)),
        *(Case(f'rsocket/preload.echo.{how}/lo', lambda config, lab, h=how: preloaded_echo(config, lab, h), NORMAL)
          for how in ('one', 'fork')),
        Case('rsocket/preload.iperf3/lo', preloaded_iperf3, NORMAL, needs=('iperf3',)),
    ]
    return found
