# SPDX-License-Identifier: BSD-2-Clause
"""What `rocemu run --pcap` writes: read back by tshark and by an ICRC check that shares no code with rocemu."""
import glob
import os
import re
import struct
import subprocess
import tempfile

import icrc_check
import scenario_pair
from cases_perftest import WR_PATH
from harness import NORMAL, QUICK, Case, Failure, expect, gid_index, pair, run

NANOSECOND_MAGIC = 0xa1b23c4d


def quiet_protocols():
    """The protocols that tshark guesses in RoCE payloads, to be switched off: a guess on a few bytes of test
    pattern is what makes it call a packet malformed."""
    out = subprocess.run(['tshark', '-G', 'heuristic-decodes'], capture_output=True, text=True, check=True).stdout
    names = re.findall(r'^infiniband\.\S+\t(\S+)\t', out, re.M)
    return [arg for name in sorted(set(names)) for arg in ('--disable-protocol', name)]


def tshark_check(path):
    """Every packet is RoCEv2 to tshark, and none malformed; returns the number of packets."""
    fields = ['frame.protocols', '_ws.malformed', 'infiniband.bth.opcode', 'ip.checksum.status']
    argv = ['tshark', '-r', path, *quiet_protocols(), '-o', 'ip.check_checksum:TRUE', '-T', 'fields', '-E',
            'separator=/t']
    for field in fields:
        argv += ['-e', field]
    p = subprocess.run(argv, capture_output=True, text=True)
    if p.returncode != 0:
        raise Failure(f'tshark {path}: {p.stderr}')
    rows = p.stdout.splitlines()
    for number, row in enumerate(rows, 1):
        protocols, malformed, opcode, checksum = (row.split('\t') + [''] * 4)[:4]
        if 'infiniband' not in protocols.split(':') or malformed or not opcode:
            raise Failure(f'{path}: packet {number}: tshark says {row!r}')
        if checksum == '0':
            raise Failure(f'{path}: packet {number}: tshark finds the IPv4 header checksum wrong')
    return len(rows)


def check_file(path):
    """All of the checks of one file; the number of its packets."""
    with open(path, 'rb') as f:
        head = f.read(4)
    if NANOSECOND_MAGIC not in (struct.unpack('<I', head)[0], struct.unpack('>I', head)[0]):
        raise Failure(f'{path}: not a nanosecond pcap file: {head.hex()}')
    last, total = 0, 0
    for v in icrc_check.check(path):
        total += 1
        if not v.good:
            raise Failure(f'{path}: packet {v.packet.number}: ICRC 0x{v.found:08x}, computed 0x{v.computed:08x}')
        if v.packet.time_ns < last:
            raise Failure(f'{path}: packet {v.packet.number} is older than the one before it')
        last = v.packet.time_ns
    if total != tshark_check(path):
        raise Failure(f'{path}: tshark does not find {total} packets')
    return total


def captured(name, where, argv_of, least, level=NORMAL, env=None):
    """A pair with a capture on both sides. `least`: the least packets that each file must have."""

    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        with tempfile.TemporaryDirectory(prefix='rocemu-pcap-') as d:
            # The program may give up root, and writes as the same user: nothing to do about modes.
            options = ('--pcap', os.path.join(d, 'side-%p.pcap'))
            server, client = pair(config, topo, *argv_of(config, topo), env=env, server_options=options, client_options=options)
            files = sorted(glob.glob(os.path.join(d, '*')))
            expect(len(files) == 2, f'two captures expected, not {files}', server, client)
            totals = [check_file(f) for f in files]
            expect(min(totals) >= least, f'{totals} packets, at least {least} expected', server, client)
            return f'{sum(totals)} packets'

    return Case(f'capture/{name}/{where}', check, level, needs=('tshark',))


def both(argv):
    """The same program as server and as client."""
    return lambda config, topo: (argv(config, topo.server), [*argv(config, topo.client), '{server}'])


def pingpong(transport, *options):
    def argv(config, side):
        return [f'ibv_{transport}_pingpong', '-d', side.name, '-g', gid_index(config, side), '-p', '{port}', '-n', 50,
                *options]
    return both(argv)


def perftest(program, *options):
    def argv(config, side):
        return [program, '-d', side.name, '-x', gid_index(config, side), '-p', '{port}', '-F', '-n', 50, *options]
    return both(argv)


def verbs(transport, *ways, mtu=None):
    def argv(config, topo):
        return scenario_pair.argv(config, topo, ('verbs-flow',), ways, scenario_pair.text_options(topo, transport, mtu))
    return argv


def decode(config, lab):
    """`rocemu decode` reads what `--pcap` wrote: a line a packet."""
    topo = lab.get('lo')
    with tempfile.TemporaryDirectory(prefix='rocemu-pcap-') as d:
        server, client = pingpong('rc', '-s', 3000)(config, topo)
        options = ('--pcap', os.path.join(d, '%p.pcap'))
        pair(config, topo, server, client, server_options=options, client_options=options)
        for path in glob.glob(os.path.join(d, '*.pcap')):
            total = sum(1 for _ in icrc_check.check(path))
            p = subprocess.run([config.rocemu, 'decode', path], capture_output=True, text=True)
            lines = [line for line in p.stdout.splitlines() if 'SEND' in line or 'ACK' in line]
            if p.returncode != 0 or len(lines) != total:
                raise Failure(f'{total} packets, {len(lines)} lines, exit code {p.returncode}\n'
                              f'{p.stdout[:2000]}{p.stderr}')


def devices_only(config, lab):
    """A program that sends nothing writes no packets, and no harm is done."""
    with tempfile.TemporaryDirectory(prefix='rocemu-pcap-') as d:
        p = run(config, lab.get('lo').client, ['ibv_devices'], options=('--pcap', os.path.join(d, '%p.pcap')))
        expect(p.popen.returncode == 0, 'exit code', p)


def cases():
    result = [
        captured('rc_pingpong', 'lo', pingpong('rc', '-s', 3000), 300, QUICK),
        captured('uc_pingpong', 'lo', pingpong('uc', '-s', 3000), 300),
        captured('ud_pingpong', 'lo', pingpong('ud', '-s', 999), 100),
        captured('xsrq_pingpong', 'lo-two', pingpong('xsrq'), 100),
        captured('srq_pingpong', 'lo-two', pingpong('srq', '-s', 1, '-q', 4), 100),
        captured('rc_pingpong', 'lo6', pingpong('rc', '-s', 5), 100, NORMAL),
        captured('rc_pingpong', 'veth1500-v4', pingpong('rc', '-s', 3000), 300),
        captured('rc_pingpong', 'veth1500-v6', pingpong('rc', '-s', 3000), 300),
        captured('write_bw', 'lo', perftest('ib_write_bw', '-s', 20000, '-l', 5), 250, env=WR_PATH),
        captured('read_bw', 'lo', perftest('ib_read_bw', '-s', 20001), 300),
        captured('atomic_bw', 'lo', perftest('ib_atomic_bw', '-q', 4), 200),
        captured('send_bw', 'veth9000-v6', perftest('ib_send_bw', '-s', 9999), 150),
        Case('capture/decode', decode, QUICK),
        Case('capture/no_traffic', devices_only),
    ]
    for transport in ('rc', 'xrc', 'uc', 'ud'):
        result.append(captured(f'verbs_{transport}', 'lo', verbs(transport), 100))
        result.append(captured(f'verbs_{transport}', 'lo6', verbs(transport, '--wr', mtu=256), 100))
    return result
