# SPDX-License-Identifier: BSD-2-Clause
"""ibv_devices, ibv_devinfo and the five ibv_*_pingpong programs of rdma-core."""
import re

from harness import FULL, NORMAL, QUICK, Case, Lab, expect, gid_index, pair, run

ITERS = 200
TRANSPORTS = ('rc', 'uc', 'ud', 'srq')


def pingpong(transport, where, options, iters=ITERS):
    """A case function: one pair with these options on both sides."""

    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        sides = {}
        for role, side in (('server', topo.server), ('client', topo.client)):
            sides[role] = [f'ibv_{transport}_pingpong', '-d', side.name, '-g', gid_index(config, side), '-n', iters,
                           '-p', '{port}', *options]
        server, client = pair(config, topo, sides['server'], sides['client'] + ['{server}'])
        for p in (server, client):
            m = re.search(r'(\d+) iters in ([\d.]+) seconds', p.stdout)
            expect(m is not None, 'no result line', server, client)
            # ibv_srq_pingpong counts the exchanges of all its QPs together.
            expect(int(m.group(1)) >= iters, 'too few exchanges', server, client)
            expect('invalid data' not in p.output, 'the data check failed', server, client)
        return re.search(r'= ([\d.]+ usec/iter)', client.stdout).group(1)

    return Case(f'pingpong/{transport}/{where}', check)


def events_and_times(where, runs=5):
    """The polling call of -t reports an empty CQ as an error, which ends the program: so no event may come for a completion
    that the program's last poll has returned."""
    one = pingpong('rc', where, ('-e', '-t'), 10000).function

    def check(config, lab):
        return ', '.join(one(config, lab) for _ in range(runs))

    return Case(f'pingpong/rc/{where}/events.timestamps', check, QUICK if where == 'lo' else NORMAL)


def xsrq(where, suffix, options, level):
    """XRC: one target QP and one initiator QP on each side, an SRQ for all clients."""

    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        argv = [['ibv_xsrq_pingpong', '-d', side.name, '-g', gid_index(config, side), '-n', ITERS, '-p', '{port}',
                 *options] for side in (topo.server, topo.client)]
        server, client = pair(config, topo, argv[0], argv[1] + ['{server}'])
        for p in (server, client):
            expect(re.search(r'^success$', p.stdout, re.M), 'no success', server, client)
            expect(re.search(r'local:.* SRQN (?!000000)[0-9a-f]{6}', p.stdout), 'no SRQ number', p)

    return Case(f'pingpong/xsrq/{where}/{suffix}', check, level)


def named(case, suffix, level):
    case.name += f'/{suffix}'
    case.level = level
    return case


def devices(config, lab):
    for where in ('lo', 'lo-two'):
        side = lab.get(where).client
        p = run(config, side, ['ibv_devices'])
        expect(p.popen.returncode == 0 and re.search(rf'^\s*{side.name}\s+[0-9a-f]{{16}}', p.stdout, re.M),
               f'{side.name} is not in the list', p)


def devinfo(config, lab):
    side = lab.get('lo').client
    p = run(config, side, ['ibv_devinfo', '-v'])
    expect(p.popen.returncode == 0, 'exit code', p)
    for wanted in (r'hca_id:\s+dev0', r'transport:\s+InfiniBand', r'state:\s+PORT_ACTIVE', r'link_layer:\s+Ethernet',
                   r'max_mtu:\s+4096', r'active_mtu:\s+4096', r'GID\[\s*0\]:\s+::ffff:127\.0\.0\.1, RoCE v2',
                   r'max_msg_sz:\s+0x(7fffffff|80000000)', r'atomic_cap:\s+ATOMIC_(HCA|GLOB)',
                   r'max_pkeys:\s+1', r'vendor_id:\s+0x(?!0000$)[0-9a-f]+'):
        expect(re.search(wanted, p.stdout), f'no {wanted}', p)


def devinfo_veth(config, lab):
    """The port's MTU follows the interface's: 1500 bytes carry 1024, 9000 carry 4096."""
    for where, mtu in (('veth1500-v4', 1024), ('veth9000-v4', 4096)):
        topo = lab.get(where)
        topo.check()
        p = run(config, topo.client, ['ibv_devinfo', '-v'])
        expect(re.search(rf'active_mtu:\s+{mtu}\b', p.stdout), f'active_mtu is not {mtu}', p)


def cases():
    result = [Case('devices/ibv_devices', devices, QUICK), Case('devices/ibv_devinfo', devinfo, QUICK),
              Case('devices/ibv_devinfo_mtu', devinfo_veth)]
    for t in TRANSPORTS:
        for where in Lab.NAMES:
            on_lo = where == 'lo'
            # A UD message is one packet: the program's default size (2048) does not fit an MTU of 1024.
            small = ('-s', 1000) if t == 'ud' else ()
            result.append(named(pingpong(t, where, ('-c', *small)), 'poll', QUICK if on_lo else NORMAL))
            result.append(named(pingpong(t, where, ('-c', '-e', *small)), 'events', QUICK if on_lo else NORMAL))
    result += [events_and_times(where) for where in ('lo', 'lo-two', 'veth1500-v4')]
    for where in Lab.NAMES:
        result.append(xsrq(where, 'poll', (), QUICK if where == 'lo' else NORMAL))
        result.append(xsrq(where, 'events', ('-e',), NORMAL if where == 'lo' else FULL))
    result.append(xsrq('lo', 'odp', ('-o',), NORMAL))
    for size in (1, 4097, 1 << 20):
        result.append(xsrq('lo', f'size{size}', ('-s', size), FULL))
    for size in (1, 2, 3, 4, 255, 256, 1024, 1025, 4095, 4097, 65536, 1 << 20):
        iters = 20 if size > 65536 else 100
        level = NORMAL if size in (1, 4097, 1 << 20) else FULL
        result.append(named(pingpong('rc', 'lo', ('-s', size, '-c'), iters), f'size{size}', level))
        result.append(named(pingpong('uc', 'lo', ('-s', min(size, 65536), '-c'), iters), f'size{size}', FULL))
        result.append(named(pingpong('srq', 'lo', ('-s', min(size, 65536), '-c'), iters), f'size{size}', FULL))
        if size <= 2048:
            result.append(named(pingpong('ud', 'lo', ('-s', size, '-c'), iters), f'size{size}', FULL))
    for mtu in (256, 512, 1024, 2048, 4096):
        for t in ('rc', 'uc', 'srq'):
            level = NORMAL if t == 'rc' else FULL
            result.append(named(pingpong(t, 'lo', ('-m', mtu, '-s', 10000, '-c'), 50), f'mtu{mtu}', level))
    result.append(named(pingpong('rc', 'lo', ('-N', '-c')), 'new_send', NORMAL))
    result.append(named(pingpong('rc', 'lo', ('-t',)), 'timestamps', FULL))
    for name, options in (('odp', ('-o', '-c')), ('odp_implicit', ('-O', '-c')), ('odp_prefetch', ('-o', '-P', '-c')),
                          ('device_memory', ('-j', '-c'))):
        result.append(named(pingpong('rc', 'lo', options), name, NORMAL))
    for t in ('rc', 'uc', 'srq'):
        result.append(named(pingpong(t, 'veth9000-v4', ('-m', 4096, '-s', 20000, '-c'), 50), 'mtu4096', NORMAL))
    return result
