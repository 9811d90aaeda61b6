# SPDX-License-Identifier: BSD-2-Clause
"""Real devices through the drop-in, inside the guest: rxe is the real device, the guest's own libibverbs the system's.

The network is parity's: rxe1 and the driver's port 4791 in the guest's first namespace, rocemu in one of its own.
"""
import itertools
import json
import re

import harness
import parity

GROUP = 'Real devices'      # no table of docs/interop.md: docs/real-nic.md describes them
ROCEMU = '/build/tools/rocemu'
IN_NETNS = ('ip', 'netns', 'exec', parity.NETNS)
PORTS = itertools.count(21000)
ITERS = 100
REAL_V4, REAL_V6 = (a.split('/')[0] for a in parity.ADDRESSES[parity.RXE_SIDE])


def emulated(*argv):
    """A program in rocemu's namespace, where it has an emulated device and the real ones."""
    return [*IN_NETNS, ROCEMU, 'run', '--device', f'{parity.EMULATED}={parity.OUR_SIDE}', '--', *argv]


def through_us(*argv):
    """A program in the driver's namespace, under rocemu for no more than the real devices."""
    return [ROCEMU, 'run', '--', *argv]


def ports(guest):
    """The output of `rocemu devices`, by device."""
    text = guest.run(*IN_NETNS, ROCEMU, 'devices', '--device', f'{parity.EMULATED}={parity.OUR_SIDE}', '--json')
    return {p['name']: p for p in json.loads(text)}


def gid_index(guest, address):
    """Of an address of the real device, in its GID table."""
    p = ports(guest)[parity.RXE]
    for index, text in zip(p['gid_index'], p['gids']):
        if text == address:
            return index
    raise harness.Failure(f'{parity.RXE} has no GID {address}: {p}')


def listed(guest):
    """Both kinds, emulated ones first; and a program sees the same attributes of a real one as without rocemu."""
    text = guest.run(*emulated('ibv_devices'))
    names = re.findall(r'^ +(\S+) +\t[0-9a-f]{16}$', text, re.M)
    if names[0] != parity.EMULATED or sorted(names[1:]) != ['rxe0', parity.RXE]:
        raise harness.Failure(f'ibv_devices: {names}\n{text}')
    kinds = {name: p['kind'] for name, p in ports(guest).items()}
    if kinds != {parity.EMULATED: 'emulated', 'rxe0': 'real', parity.RXE: 'real'}:
        raise harness.Failure(f'rocemu devices: {kinds}')
    for argv in (('-v', '-d', parity.RXE), ('-l',)):
        with_us, without = guest.run(*through_us('ibv_devinfo', *argv)), guest.run('ibv_devinfo', *argv)
        if not set(without.splitlines()[1:]) <= set(with_us.splitlines()):
            raise harness.Failure(f'ibv_devinfo {argv} differs under rocemu\n{with_us}\n{without}')
    off = guest.run('env', 'ROCEMU_REAL=off', *emulated('ibv_devices'))
    if 'rxe' in off:
        raise harness.Failure(f'ROCEMU_REAL=off: {off}')
    return f'{len(names)} devices'


def pair(guest, server_argv, client_argv):
    """A server, then its client; both must end well."""
    server = guest.start(server_argv, 'server')
    client = None
    try:
        server.wait_listening(int(server_argv[server_argv.index('-p') + 1]))
        client = guest.start(client_argv, 'client')
        if client.wait() != 0 or server.wait() != 0:
            raise harness.Failure(f'{server.report()}\n{client.report()}')
        return client.stdout
    finally:
        for p in (client, server):
            if p is not None:
                p.kill()


def pingpong(guest, kind, client_is_ours):
    """A stock pingpong on the real device through the drop-in, with itself or with an emulated device's process."""
    port = next(PORTS)

    def argv(device, gid):
        options = ('-p', port, '-n', ITERS, *(('-c',) if kind != 'srq' else ()))
        return [f'ibv_{kind}_pingpong', '-d', device, '-g', gid, *options]

    real = argv(parity.RXE, gid_index(guest, REAL_V4))
    if client_is_ours:
        client = emulated(*argv(parity.EMULATED, 0), REAL_V4)
    else:
        client = through_us(*real, REAL_V4)
    out = pair(guest, through_us(*real), client)
    if not re.search(r'\d+ iters in', out):
        raise harness.Failure(f'ibv_{kind}_pingpong: {out}')


def perftest(guest, program, *options):
    argv = [program, '-d', parity.RXE, '-x', gid_index(guest, REAL_V6), '-p', next(PORTS), '-F', '-n', ITERS, *options]
    out = pair(guest, through_us(*argv), through_us(*argv, REAL_V4))
    if not re.search(r'^ *\d+ +\d+ +\d+\.\d+', out, re.M):
        raise harness.Failure(f'{program}: {out}')


def one_process(guest):
    """A QP of each kind, opened and connected to each other by one process."""
    only = [word for name in ('data/rc/write/1025', 'data/rc/read/1', 'data/rc/atomic', 'data/ud/send/1024') for word in
            ('--only', name)]
    text = guest.run(*IN_NETNS, ROCEMU, 'parity', '--device', parity.RXE, '--device',
                     f'{parity.EMULATED}={parity.OUR_SIDE}', '--known', 'rxe', *only, '--json')
    result = json.loads(text)
    if result['across'] != 'both directions':
        raise harness.Failure(f'across: {result["across"]}')
    return f'{len(result["scenarios"])} scenarios, across in both directions'


def alone(guest):
    for kind in ('rc', 'uc', 'ud', 'srq'):
        pingpong(guest, kind, False)
    return 'RC, UC, UD, SRQ, on the real device alone'


def mixed(guest):
    for kind in ('rc', 'uc', 'ud'):
        pingpong(guest, kind, True)
    return 'RC, UC, UD, from an emulated device'


def measured(guest):
    perftest(guest, 'ib_write_bw', '-s', 4096)
    perftest(guest, 'ib_send_lat', '-c', 'UD')
    perftest(guest, 'ib_read_lat')
    return 'ib_write_bw, ib_send_lat, ib_read_lat'


def port_taken(guest):
    """In the driver's namespace no address has the port left, and the message reports it."""
    p = guest.start([ROCEMU, 'run', '--device', 'lo', '--', 'ibv_rc_pingpong', '-d', 'rocemu_lo', '-g', 0], 'ibv_rc_pingpong')
    if p.wait() == 0 or 'Soft-RoCE' not in p.stderr or 'modprobe -r rdma_rxe' not in p.stderr:
        raise harness.Failure(p.report())
    return 'the message names the driver'


CASES = {
    'devices': listed,
    'pingpong': alone,
    'pingpong-with-emulated': mixed,
    'perftest': measured,
    'port-taken': port_taken,
    'one-process': one_process,
}


def run(wire, name):
    parity.prepare(wire)
    return CASES[name](wire.guest)
