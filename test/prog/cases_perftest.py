# SPDX-License-Identifier: BSD-2-Clause
"""perftest (ib_*_bw, ib_*_lat) over RC, XRC, UC and UD, by both of its data paths.

perftest chooses between ibv_post_send and the ibv_wr_* calls by the device's vendor_part_id: 4119 is one for
which it takes the latter. UC and UD promise nothing about loss, and perftest waits for every message, so their
message counts stay below what a socket buffer holds.
"""
import re

from harness import FULL, NORMAL, QUICK, Case, expect, gid_index, pair

# A latency row is bytes, iterations, minimum, maximum, typical, average, deviation, two percentiles; with -D
# it is bytes, iterations, average, transactions a second.
AVERAGE_US = {9: 5, 4: 2}
# Acknowledgement timeout (4.096 us * 2^18): a busy machine lets a process wait for longer than the default allows.
PATIENCE = 18
WR_PATH = {'ROCEMU_VENDOR_PART_ID': '4119'}


def results(p):
    """The rows of numbers of perftest's report."""
    rows = []
    for line in p.stdout.splitlines():
        columns = line.split()
        # The deviation of latencies is "-nan" where perftest's own sum of squares comes out negative.
        if len(columns) >= 4 and all(re.fullmatch(r'\d+(\.\d+)?|-?nan', c) for c in columns):
            rows.append([float(c) for c in columns])
    return rows


def perftest(name, program, where, options, iters=100, env=None, level=NORMAL, timed=False, client_options=()):
    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        sides = []
        for side in (topo.server, topo.client):
            sides.append([program, '-d', side.name, '-x', gid_index(config, side), '-p', '{port}', '-F', '-u', PATIENCE,
                          *(() if timed else ('-n', iters)), *options])
        server, client = pair(config, topo, sides[0], [*sides[1], *client_options, '{server}'], env=env)
        rows = results(client)
        expect(rows, 'no result row', server, client)
        for row in rows:
            if program.endswith('_bw'):
                # bytes, iterations, peak, average MiB/s, messages/s
                expect(row[3] > 0 or row[4] > 0, 'no bandwidth', server, client)
            else:
                expect(row[AVERAGE_US[len(row)]] > 0, 'no latency', server, client)
        if '-a' in options:
            expect(len(rows) >= 20, 'not every size was run', server, client)
        last = rows[-1]
        return f'{last[3]:g} MiB/s' if program.endswith('_bw') else f'{last[AVERAGE_US[len(last)]]:g} us'

    return Case(name, check, level)


# program: the transports that it allows
PROGRAMS = {
    'ib_send_bw': ('RC', 'XRC', 'UC', 'UD'),
    'ib_send_lat': ('RC', 'XRC', 'UC', 'UD'),
    'ib_write_bw': ('RC', 'XRC', 'UC'),
    'ib_write_lat': ('RC', 'XRC', 'UC'),
    'ib_read_bw': ('RC', 'XRC'),
    'ib_read_lat': ('RC', 'XRC'),
    'ib_atomic_bw': ('RC', 'XRC'),
    'ib_atomic_lat': ('RC', 'XRC'),
}


def lossy(transport, program):
    """Fewer and smaller messages where nothing is sent again."""
    small = transport in ('UC', 'UD') and program.endswith('_bw')
    return {'iters': 32 if small else 100}, (('-s', 1024) if small else ())


def matrix():
    """Each program over each transport, each data path and each topology."""
    for program, transports in PROGRAMS.items():
        for transport in transports:
            count, size = lossy(transport, program)
            options = ('-c', transport, *size)
            for path, env in (('path_post', None), ('path_wr', WR_PATH)):
                for where in ('lo', 'lo-two', 'lo6', 'veth1500-v4', 'veth1500-v6', 'veth9000-v4', 'veth9000-v6'):
                    if where == 'lo':
                        level = QUICK if transport == 'RC' and path == 'path_post' else NORMAL
                    else:
                        # Elsewhere the data paths do not differ: one of them, and lat for UC and UD.
                        in_ci = path == 'path_wr' and (transport == 'RC' or program == 'ib_send_lat')
                        level = NORMAL if in_ci else FULL
                    yield perftest(f'perftest/{program}.{transport.lower()}/{where}/{path}', program, where, options,
                                   env=env, level=level, **count)


def options_cases():
    """The options, on lo; each program that has it in the full matrix, one or two in the normal one."""
    for program, transports in PROGRAMS.items():
        kind = program[len('ib_'):]
        bw = program.endswith('_bw')
        sized = 'atomic' not in program

        def case(suffix, options, level, program=program, **more):
            return perftest(f'perftest/{program}/lo/{suffix}', program, 'lo', options, level=level, **more)

        def when(*kinds, kind=kind):
            return NORMAL if kind in kinds else FULL

        if sized:
            yield case('all_sizes', ('-a',), when('send_bw', 'write_bw', 'read_lat'), iters=10)
            for mtu in (256, 512, 1024, 2048, 4096):
                level = NORMAL if (kind, mtu) in (('write_bw', 256), ('read_bw', 1024), ('send_bw', 4096)) else FULL
                yield case(f'mtu{mtu}', ('-m', mtu), level, iters=50)
            for size in (1, 4095, 65537, 1 << 20):
                yield case(f'size{size}', ('-s', size), FULL, iters=20)
        if bw:
            if sized:
                yield case('bidirectional', ('-b',), when('send_bw', 'write_bw', 'read_bw'))
            yield case('qps16', ('-q', 16), when('send_bw', 'write_bw', 'atomic_bw'), iters=50)
            yield case('post_list', ('-l', 8), when('send_bw', 'write_bw'), iters=128)
            yield case('post_list_wr', ('-l', 8), when('write_bw'), iters=128, env=WR_PATH)
            yield case('qps16_post_list_wr', ('-q', 16, '-l', 8), when('read_bw'), iters=128, env=WR_PATH)
        if kind in ('send_bw', 'send_lat', 'read_bw', 'read_lat', 'atomic_bw', 'atomic_lat'):
            yield case('events', ('-e',), NORMAL)
        if kind.startswith(('send', 'write')):
            yield case('inline', ('-I', 64, '-s', 64), NORMAL)
            yield case('inline_wr', ('-I', 64, '-s', 64), NORMAL, env=WR_PATH)
        if kind.startswith('send'):
            yield case('srq', ('--use-srq',), NORMAL)
            yield case('xrc_all_sizes', ('-c', 'XRC', '-a'), FULL, iters=20)
            if bw:
                yield case('xrc_qps4', ('-c', 'XRC', '-q', 4), NORMAL, iters=50)
                yield case('srq_qps16', ('--use-srq', '-q', 16), NORMAL, iters=50)
                yield case('ud_qps4', ('-c', 'UD', '-q', 4, '-s', 512), FULL, iters=16)
        yield case('duration', ('-D', 3), when('write_bw', 'send_lat'), timed=True)
        if 'UC' in transports:
            yield case('uc_inline', ('-c', 'UC', '-I', 32, '-s', 32), FULL, iters=32)


def cases():
    return [*matrix(), *options_cases()]
