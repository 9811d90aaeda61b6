#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures rocemu on loopback beside raw UDP programs, iperf3, UCX and libfabric over TCP, two
processes on two cores, and prints ratios.

Each figure of rocemu and the raw figure that it is compared with are taken in turns, several rounds, so that a machine
that speeds up or slows down meanwhile does so for both. The ratio of a rate is the median of the rounds' ratios; that
of a latency is the median latency divided by the best raw figure. Exit code 0: all bars hold, 1: some do not, 2: something could not be measured.
"""
import argparse
import fnmatch
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

import perftest
from perftest import CLIENT_CORE, MIB, MTU, SERVER_CORE, harness

QPS = 16
LIST = 32                             # posts of a list
LATENCY_COLUMNS = {'typical': 4, 'average': 5, '99 %': 7}      # of perftest's rows
SMALL_MTU = 1024
HEADERS = {'send': 12 + 4, 'write': 12 + 16 + 4}     # of a one-packet message, beside the payload: BTH, RETH, ICRC


class Bench:
    """The programs, pinned, and how to read what they print."""

    def __init__(self, build, quick):
        perf = perftest.Perftest(build)
        self.stock = perf.row
        self.config = perf.config
        self.topo = perf.topo
        self.side = perf.topo.server
        self.quick = quick

    def pinned(self, core, argv):
        return ['taskset', '-c', str(core), *argv]

    def raw(self, program, *options):
        """A pair of raw peers; what the client prints."""
        port = str(harness.new_port())
        argv = [self.config.program('bench', program), '--port', port, *map(str, options)]
        server = harness.Proc(self.pinned(SERVER_CORE, argv), name=program)
        try:
            server.wait_until(lambda: 'ready' in server.stdout, 'it was ready')
            client = harness.Proc(self.pinned(CLIENT_CORE, argv + ['127.0.0.1']), name=program)
            harness.expect(client.wait() == 0, 'failed', server, client)
            server.wait(20)
            return client.stdout
        finally:
            server.kill()

    # ---- figures: a number each ----

    def latency(self, program, *options, size=8, column='typical'):
        """us: of READ the round trip, of others one way."""
        return self.stock(program, '-s', size, '-n', self.latency_iters(), *options)[LATENCY_COLUMNS[column]]

    def bandwidth(self, program, size, *options):
        messages = (256 if self.quick else 2048) * MIB // size
        return self.stock(program, '-s', size, '-n', messages, *options)[3] * MIB * 8 / 1e9

    def many(self, program, size):
        """The same by 16 QPs. perftest counts completions by hundreds: the messages of a QP are a multiple."""
        messages = (256 if self.quick else 2048) * MIB // size // QPS // 100 * 100
        return self.stock(program, '-s', size, '-n', max(messages, 100), '-q', QPS)[3] * MIB * 8 / 1e9

    def rate(self, program, size, *options):
        """Million messages a second; posted one by one, unless the options include -l."""
        return self.stock(program, '-s', size, '-N', '-n', self.rate_iters(), *options)[4]

    def raw_lat(self, program, kind, *options):
        text = self.raw(program, '--size', HEADERS[kind] + 8, '--iters', self.latency_iters(), *options)
        return float(re.search(r'median ([\d.]+)', text).group(1))

    def raw_bw(self, mtu=MTU, *options):
        """Bursts of up to 60 KiB, as rocemu's."""
        text = self.raw('udp-bw', '--size', mtu, '--burst', 60 * 1024 // mtu, '--seconds', 1, *options)
        return float(re.search(r'Gbit/s ([\d.]+)', text).group(1))

    def raw_rate(self, kind, size):
        text = self.raw('udp-bw', '--size', size + HEADERS[kind] - HEADERS['send'], '--burst', 32, '--seconds', 1)
        return float(re.search(r'Mpackets/s ([\d.]+)', text).group(1))

    def ucx(self, test, size, iters, transports='tcp'):
        """The row of numbers of ucx_perftest's client."""
        port = str(harness.new_port())
        argv = ['env', f'UCX_TLS={transports}', 'UCX_NET_DEVICES=lo', 'ucx_perftest', '-f', '-p', port]
        server = harness.Proc(self.pinned(SERVER_CORE, argv), name='ucx_perftest')
        try:
            server.wait_listening(int(port))
            client = harness.Proc(self.pinned(CLIENT_CORE, argv + ['127.0.0.1', '-t', test, '-s', str(size), '-n', str(iters)]),
                                  name='ucx_perftest')
            harness.expect(client.wait() == 0, 'ucx_perftest failed', server, client)
            return [float(n) for n in client.stdout.splitlines()[-1].split()]
        finally:
            server.kill()

    def ucx_rate(self):
        return self.ucx('ucp_put_bw', 64, 50000 if self.quick else 500000)[7] / 1e6

    def ucx_lat(self):
        return self.ucx('tag_lat', 8, self.latency_iters())[1]

    def libfabric_lat(self, provider='tcp'):
        argv = ['fi_pingpong', '-p', provider, '-e', 'rdm', '-S', '8', '-I', str(self.latency_iters())]
        server = harness.Proc(self.pinned(SERVER_CORE, argv), name='fi_pingpong')
        try:
            server.wait_listening(47592)     # its default
            client = harness.Proc(self.pinned(CLIENT_CORE, argv + ['127.0.0.1']), name='fi_pingpong')
            harness.expect(client.wait() == 0, 'fi_pingpong failed', server, client)
            return float(client.stdout.splitlines()[-1].split()[-2])
        finally:
            server.kill()

    def iperf3(self):
        port = str(harness.new_port())
        server = harness.Proc(self.pinned(SERVER_CORE, ['iperf3', '-s', '-1', '-p', port]), name='iperf3')
        try:
            server.wait_listening(int(port))
            client = harness.Proc(self.pinned(CLIENT_CORE, ['iperf3', '-c', '127.0.0.1', '-p', port, '-t', '1', '-J']),
                                  name='iperf3')
            harness.expect(client.wait() == 0, 'iperf3 failed', server, client)
            return json.loads(client.stdout)['end']['sum_received']['bits_per_second'] / 1e9
        finally:
            server.kill()

    def idle_cpu(self, wire='udp'):
        """Percent of a core, of a process that waits for an event with 1000 QPs."""
        p = harness.run(self.config, self.side, [self.config.program('bench', 'idle-qps'), '1000', '3'],
                        env={'ROCEMU_LOG': 'debug'}, options=('--wire', wire))
        m = re.search(r'seconds (\d+) cpu_ms ([\d.]+)', p.stdout)
        harness.expect(m is not None, 'idle-qps failed', p)
        harness.expect((' received by rings' in p.stderr) == (wire == 'shm'), 'not by that wire', p)
        return float(m.group(2)) / (float(m.group(1)) * 1000) * 100

    def many_qps(self, qps):
        """CPU time of a message in ns, 1 % of the QPs active, and resident bytes of a QP."""
        p = harness.run(self.config, self.side, [self.config.program('bench', 'idle-qps'), '--active', str(qps),
                                                 '20000' if self.quick else '100000'])
        costs = [float(c) for c in re.findall(r'message_ns (\d+)', p.stdout)]
        m = re.search(r'bytes_per_qp (-?\d+)', p.stdout)
        harness.expect(costs and m, 'idle-qps --active failed', p)
        return statistics.median(costs), int(m.group(1))

    def pair(self, *argv):
        """What the client of two programs prints that use verbs; options are those of the server as well."""
        server, client = (self.pinned(core, [str(a) for a in argv]) for core in (SERVER_CORE, CLIENT_CORE))
        return harness.pair(self.config, self.topo, server, client + ['{server}'])[1].stdout

    def events_lat(self, *options):
        text = self.pair(self.config.program('bench', 'event-pingpong'), '--port', '{port}', '--iters',
                         self.latency_iters(), *options)
        return float(re.search(r'median ([\d.]+)', text).group(1))

    def example_lat(self, *options):
        """rdma-core's ibv_rc_pingpong: half of its average round trip."""
        text = self.pair('ibv_rc_pingpong', '-d', 'bench0', '-g', '0', '-p', '{port}', '-s', 8, '-n', self.latency_iters(),
                         *options)
        return float(re.search(r'([\d.]+) usec/iter', text).group(1)) / 2

    def rate_iters(self):
        """A multiple of LIST."""
        return 99200 if self.quick else 1001600

    def latency_iters(self):
        return 5000 if self.quick else 20000


def comparisons(b):
    """name, unit, rocemu's value, what it is compared with (and the program that must be there),
    the bar: 'most' or 'least' times the other."""
    def latency(program):
        return lambda: b.latency(program)

    def write_lat(column='typical'):
        return b.latency('ib_write_lat', size=65536, column=column)

    raw_text, iperf3_text, in_lists = 'raw UDP with CRC and copy', 'iperf3 TCP', f'posted in lists of {LIST}'
    figures = [
        ('ib_send_lat 8 B', 'us', latency('ib_send_lat'), 'raw UDP ping-pong', lambda: b.raw_lat('udp-pingpong', 'send'),
         'most', 1.4),
        ('ib_send_lat 8 B', 'us', latency('ib_send_lat'), "the same by a lane's sockets",
         lambda: b.raw_lat('udp-pingpong', 'send', '--lane'), None, None),
        ('ib_send_lat 8 B', 'us', latency('ib_send_lat'), 'the same, with the ACK in its burst',
         lambda: b.raw_lat('udp-pingpong', 'send', '--lane', '--ack'), None, None),
        ('ib_send_lat 8 B', 'us', latency('ib_send_lat'), 'UCX tcp, tag_lat', b.ucx_lat, 'most', 1.0, 'ucx_perftest'),
        ('ib_send_lat 8 B', 'us', latency('ib_send_lat'), 'libfabric tcp, fi_pingpong', b.libfabric_lat, 'most', 1.0,
         'fi_pingpong'),
        ('ib_send_lat -e 8 B', 'us', lambda: b.latency('ib_send_lat', '-e'), 'raw UDP ping-pong in recvfrom()',
         lambda: b.raw_lat('udp-pingpong', 'send', '--block'), 'most', 1.3),
        ('event loop 8 B', 'us', lambda: b.events_lat('--poll'), 'raw UDP ping-pong in poll()',
         lambda: b.raw_lat('udp-pingpong', 'send', '--poll'), 'most', 1.3),
        ('ibv_rc_pingpong -e', 'us', lambda: b.example_lat('-e'), 'raw UDP ping-pong in recvfrom()',
         lambda: b.raw_lat('udp-pingpong', 'send', '--block'), 'most', 1.3, 'ibv_rc_pingpong'),
        ('ibv_rc_pingpong -e -t', 'us', lambda: b.example_lat('-e', '-t'), 'raw UDP ping-pong in recvfrom()',
         lambda: b.raw_lat('udp-pingpong', 'send', '--block'), 'most', 1.3, 'ibv_rc_pingpong'),
        ('ib_write_lat 8 B', 'us', latency('ib_write_lat'), 'raw UDP, receiving thread and flag',
         lambda: b.raw_lat('udp-flag-pingpong', 'write'), 'most', 1.25),
        ('ib_read_lat 8 B', 'us', latency('ib_read_lat'), 'ib_send_lat there and back',
         lambda: 2 * b.latency('ib_send_lat'), 'most', 1.2),
        ('ib_write_bw 64 B', 'M/s', lambda: b.rate('ib_write_bw', 64), 'raw UDP with CRC and copy',
         lambda: b.raw_rate('write', 64), 'least', 0.8),
        ('ib_write_bw 64 B', 'M/s', lambda: b.rate('ib_write_bw', 64), 'UCX tcp, put_bw', b.ucx_rate, 'least', 2.0,
         'ucx_perftest'),
        ('ib_write_bw 64 B', 'M/s', lambda: b.rate('ib_write_bw', 64), in_lists,
         lambda: b.rate('ib_write_bw', 64, '-l', LIST), 'least', 0.8),
        ('ib_send_bw 64 B', 'M/s', lambda: b.rate('ib_send_bw', 64), 'raw UDP with CRC and copy',
         lambda: b.raw_rate('send', 64), 'least', 0.8),
        ('ib_send_bw 64 B', 'M/s', lambda: b.rate('ib_send_bw', 64), in_lists,
         lambda: b.rate('ib_send_bw', 64, '-l', LIST, '-r', 16 * LIST), 'least', 0.8),
        ('ib_write_lat 64 KiB', 'us', write_lat, 'ib_send_lat 64 KiB', lambda: b.latency('ib_send_lat', size=65536), 'most', 1.3),
        ('ib_write_lat 64 KiB, average', 'us', lambda: write_lat('average'), 'typical', write_lat, 'most', 1.5),
        ('ib_write_lat 64 KiB, 99 %', 'us', lambda: write_lat('99 %'), 'typical', write_lat, 'most', 3.0),
    ]

    def in_two():
        """The datagrams of WRITEs of 64 KiB, or of READs' responses: at least two a message, see src/README.md."""
        return b.raw_bw(MTU, '--message', 65536 // MTU)

    for program in ('ib_write_bw', 'ib_read_bw', 'ib_send_bw'):
        for text, size in (('64 KiB', 65536), ('1 MiB', MIB)):
            def ours(program=program, size=size):
                return b.bandwidth(program, size)
            figures += [(f'{program} {text}', 'Gbit/s', ours, raw_text, b.raw_bw, 'least', 0.85),
                        (f'{program} {text}', 'Gbit/s', ours, iperf3_text, b.iperf3, 'least', 1.0)]
            if program == 'ib_read_bw':
                figures.append((f'{program} {text}', 'Gbit/s', ours, 'ib_write_bw', lambda size=size: b.bandwidth('ib_write_bw', size),
                                'least', 0.9))
            if size == 65536 and program != 'ib_send_bw':
                figures.append((f'{program} {text}', 'Gbit/s', ours, 'raw UDP, two datagrams a message', in_two, 'least', 0.85))
        figures += [(f'{program} 64 KiB, {QPS} QPs', 'Gbit/s', lambda program=program: b.many(program, 65536), 'one QP',
                     lambda program=program: b.bandwidth(program, 65536), 'least', 0.95),
                    # 0.8 times the share of raw UDP that packets of 4096 bytes are to have.
                    (f'{program} 1 MiB, MTU {SMALL_MTU}', 'Gbit/s',
                     lambda program=program: b.bandwidth(program, MIB, '-m', SMALL_MTU),
                     f'raw UDP with packets of {SMALL_MTU} B', lambda: b.raw_bw(SMALL_MTU), 'least', 0.8 * 0.85)]
    return figures


IDLE_BAR_PERCENT = 0.1
MANY_QPS = 10000
COST_BAR = 1.3                        # times a message where there is one pair of QPs
BYTES_BAR = 8192                      # of a QP that does nothing


def measure_many(b, rounds, show):
    """Many connected QPs, 1 % active, against one pair, in turns."""
    ones, manys, sizes = [], [], []
    for _ in range(rounds):
        ones.append(b.many_qps(2)[0])
        cost, size = b.many_qps(MANY_QPS)
        manys.append(cost)
        sizes.append(size)
    ratio = statistics.median(manys) / statistics.median(ones)
    size = statistics.median(sizes)
    rows = [
        {'name': f'message, 1 % of {MANY_QPS} QPs active', 'unit': 'ns', 'rocemu': statistics.median(manys),
         'against': 'one pair', 'reference': statistics.median(ones), 'ratio': ratio, 'bar': f'at most {COST_BAR}',
         'holds': ratio <= COST_BAR, 'rocemu_rounds': manys, 'reference_rounds': ones},
        {'name': 'idle QP', 'unit': 'bytes', 'rocemu': size, 'bar': f'at most {BYTES_BAR}', 'holds': size <= BYTES_BAR},
    ]
    show(f'{f"{MANY_QPS} QPs, 1 % active":20} {rows[0]["rocemu"]:8.0f} ns      {"one pair of QPs":36} {rows[0]["reference"]:8.0f}   '
         f'ratio {ratio:5.2f}  (most {COST_BAR}: {"holds" if rows[0]["holds"] else "MISSED"})')
    show(f'{"idle QP":20} {size:8.0f} bytes   (most {BYTES_BAR}: {"holds" if rows[1]["holds"] else "MISSED"})')
    return rows


def measure(b, rounds, show, only=None):
    rows = []
    for name, unit, ours, other_name, other, kind, bar, *program in comparisons(b):
        if program and not shutil.which(*program):
            show(f'{name:20} {other_name}: {program[0]} is not installed')
            continue
        if only and not fnmatch.fnmatch(name, only):
            continue
        mine, theirs = [], []
        for _ in range(rounds):
            mine.append(ours())
            theirs.append(other())
        value = statistics.median(mine)
        if kind == 'least':
            reference = statistics.median(theirs)
            ratio = statistics.median(m / t for m, t in zip(mine, theirs))
        else:
            # A floor is the best that was seen; the flag ping-pong has two speeds, by how the scheduler places it.
            reference = min(theirs)
            ratio = value / reference
        holds = not bar or (ratio <= bar if kind == 'most' else ratio >= bar)
        rows.append({'name': name, 'unit': unit, 'rocemu': value, 'against': other_name, 'reference': reference,
                     'ratio': ratio, 'bar': f'at {kind} {bar}' if bar else None, 'holds': holds,
                     'rocemu_rounds': mine, 'reference_rounds': theirs})
        verdict = f'  ({kind} {bar}: {"holds" if holds else "MISSED"})' if bar else ''
        show(f'{name:20} {value:8.2f} {unit:7} {other_name:36} {reference:8.2f}   ratio {ratio:5.2f}{verdict}')
    if only:
        return rows
    percent = b.idle_cpu()
    holds = percent <= IDLE_BAR_PERCENT
    rows.append({'name': 'idle, 1000 connected QPs', 'unit': '% of a core', 'rocemu': percent,
                 'bar': f'at most {IDLE_BAR_PERCENT}', 'holds': holds})
    show(f'{"idle, 1000 QPs":20} {percent:8.3f} % of a core   (most {IDLE_BAR_PERCENT}: {"holds" if holds else "MISSED"})')
    return rows + measure_many(b, rounds, show)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--rounds', type=int, default=5, help='of each figure (default: %(default)s)')
    p.add_argument('--only', metavar='PATTERN', help='figures whose name matches, for instance "ib_send_lat*"')
    p.add_argument('--many', action='store_true', help='only the figures of many connected QPs')
    p.add_argument('--quick', action='store_true', help='one short round: to see that it runs')
    p.add_argument('--json', action='store_true', help='print the result as JSON, and nothing else on stdout')
    args = p.parse_args()
    if (os.cpu_count() or 1) < 2:
        print('bench.py: two cores are needed', file=sys.stderr)
        return 2
    harness.own_loopback()

    def show(text):
        if not args.json:
            print(text, flush=True)

    try:
        bench, rounds = Bench(args.build, args.quick), 1 if args.quick else args.rounds
        rows = measure_many(bench, rounds, show) if args.many else measure(bench, rounds, show, args.only)
    except (harness.Failure, subprocess.SubprocessError, OSError) as e:
        print(f'bench.py: {e}', file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0 if all(row['holds'] for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
