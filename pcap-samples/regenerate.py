#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the captures of this folder anew, and MANIFEST: what is in each, as tshark and `rocemu verify` see it.

usage: regenerate.py BUILD_DIR [PATTERN]

Only those whose names fit the pattern, if there is one; MANIFEST is written for all.

Stock perftest programs and scenario-verbs run under `rocemu run --pcap` in a network namespace of
their own: PSNs, QPNs, keys, addresses of memory and times differ from run to run. Operations that
no installed program uses are done by two endpoints or two connection managers in virtual time
(sim-samples, cm-samples): the same bytes each time.
"""
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 18650
V4, V6 = ('127.0.0.1', '127.0.0.2'), ('fd77::1', 'fd77::2')

# name: what it shows, addresses, impairment, program and its arguments
SAMPLES = {
    'rc_write_ipv4': ('RC WRITE of 3000 bytes, both ways', V4, None, 'ib_write_lat -s 3000 -m 1024'),
    'rc_write_ipv6': ('the same over IPv6', V6, None, 'ib_write_lat -s 3000 -m 1024'),
    'rc_write_only_ipv4': ('RC WRITE of 13 bytes: ONLY, with pad', V4, None, 'ib_write_lat -s 13'),
    'rc_send_ipv4': ('RC SEND of 3000 bytes, both ways', V4, None, 'ib_send_lat -s 3000 -m 1024'),
    'rc_send_ipv6': ('the same over IPv6', V6, None, 'ib_send_lat -s 3000 -m 1024'),
    'rc_read_ipv4': ('RC READ of 5000 bytes', V4, None, 'ib_read_lat -s 5000 -m 1024'),
    'rc_read_ipv6': ('the same over IPv6', V6, None, 'ib_read_lat -s 5000 -m 1024'),
    'rc_fetch_add_ipv4': ('RC fetch and add', V4, None, 'ib_atomic_lat -A FETCH_AND_ADD'),
    'rc_cmp_swap_ipv6': ('RC compare and swap over IPv6', V6, None, 'ib_atomic_lat -A CMP_AND_SWAP'),
    'uc_write_ipv4': ('UC WRITE of 3000 bytes', V4, None, 'ib_write_lat -c UC -s 3000 -m 1024'),
    'uc_send_ipv6': ('UC SEND of 3000 bytes over IPv6', V6, None, 'ib_send_lat -c UC -s 3000 -m 1024'),
    'ud_send_ipv4': ('UD SEND', V4, None, 'ib_send_lat -c UD -s 512'),
    'ud_send_ipv6': ('UD SEND over IPv6', V6, None, 'ib_send_lat -c UD -s 512'),
    'rc_write_loss_ipv4': ('RC WRITE where one packet in ten is lost: NAK, timeout, sent again', V4, 'loss=10%,seed=2',
                           'ib_write_lat -s 3000 -m 1024'),
    'rc_read_loss_ipv4': ('RC READ where three packets in ten are lost: READ restarts', V4, 'loss=30%,seed=7',
                          'ib_read_lat -s 5000 -m 1024'),
    'rc_send_reorder_ipv4': ('RC SEND where one packet in five is late', V4, 'reorder=20%,seed=4',
                             'ib_send_lat -s 3000 -m 1024'),
    'rc_send_dup_ipv4': ('RC SEND where one packet in five comes twice', V4, 'dup=20%,seed=5',
                         'ib_send_lat -s 3000 -m 1024'),
    'rc_errors_ipv4': ('RC errors: NAKs of each kind, RNR NAKs, retries that run out', V4, None,
                       'scenario-verbs --with TYPE=RC verbs-errors.scenario'),
}
# Made by sim-samples: what it shows.
SIMULATED = {
    'rc_send_imm': 'RC SEND with immediate: 0, 16 and 700 bytes',
    'rc_write_imm': 'RC WRITE with immediate: 0, 100 and 700 bytes',
    'rc_atomic_write': 'RC ATOMIC WRITE (annex A19)',
    'rc_flush': 'RC WRITE, then FLUSH of its range and of nothing (annex A19)',
    'rc_send_inv': 'RC WRITE through a memory window, SEND, SEND with invalidate of the window\'s key',
    'rc_window_gone': 'the same, then a WRITE through the window that is gone: NAK remote access error',
    'rc_rnr': 'RC SEND before the receive is posted: RNR NAK, wait, again',
    'xrc_send': 'XRC SEND', 'xrc_send_imm': 'XRC SEND with immediate',
    'xrc_write': 'XRC WRITE', 'xrc_write_imm': 'XRC WRITE with immediate',
    'xrc_read': 'XRC READ', 'xrc_atomic': 'XRC compare and swap, fetch and add',
    'xrc_atomic_write': 'XRC ATOMIC WRITE', 'xrc_flush': 'XRC WRITE and FLUSH',
    'ud_send_imm': 'UD SEND with immediate, SEND',
    'ud_multicast': 'UD SEND with immediate and SEND to a multicast group',
}
FIELDS = ('infiniband.bth.opcode', 'infiniband.bth.psn', 'infiniband.bth.destqp', 'infiniband.bth.padcnt',
          'infiniband.bth.a', 'infiniband.deth.srcqp', 'infiniband.deth.q_key', 'infiniband.aeth.syndrome',
          'infiniband.aeth.msn', 'infiniband.reth.dmalen', 'infiniband.immdt', 'infiniband.ieth',
          'infiniband.mad.attributeid', 'infiniband.mad.transactionid', 'infiniband.invariant.crc')


def tshark(path):
    """The fields of each packet, one list a packet."""
    argv = ['tshark', '-r', path, '-o', 'infiniband.try_heuristic_first:FALSE', '-T', 'fields', '-E', 'separator=/t']
    for field in FIELDS:
        argv += ['-e', field]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    # Wireshark 4.4 spells flags out.
    return [[{'True': '1', 'False': '0'}.get(field, field) for field in line.split('\t')] for line in out.splitlines()]


def verify(rocemu, path):
    p = subprocess.run([rocemu, 'verify', '--json', path], capture_output=True, text=True, check=False)
    return json.loads(p.stdout)


def describe(rocemu, path):
    """A capture's entry in MANIFEST, which the test compares."""
    packets, report = tshark(path), verify(rocemu, path)
    return {'packets': len(packets), 'verify': {k: report[k] for k in ('errors', 'warnings', 'notes', 'counts')},
            'tshark': packets}


def program(build, command, side, port):
    name, *argv = command.split()
    host = ['127.0.0.1'] if side else []
    if name != 'scenario-verbs':
        return [name, *argv, '-F', '-n', '5', '-p', str(port), *host]
    own = [os.path.join(build, 'test', 'scenario', name), '--device', f'dev{side}']
    if not side:
        return [*own, '--listen', str(port)]
    return [*own, '--peer', f'{host[0]}:{port}', *argv[:-1], os.path.join(HERE, '..', 'test', 'scenario', argv[-1])]


def record(build, name, sample, port):
    _, addresses, impair, command = sample
    rocemu, path = os.path.join(build, 'tools', 'rocemu'), os.path.join(HERE, name + '.pcap')
    argv = [program(build, command, i, port) for i in range(2)]
    run = [[rocemu, 'run', '--device', f'dev{i}={a}'] + (['--impair', impair] if impair else []) + extra
           for i, a in enumerate(addresses) for extra in [['--pcap', path] if i else []]]
    with subprocess.Popen(run[0] + ['--'] + argv[0], stdout=subprocess.DEVNULL) as server:
        wait_listening(port, server)
        subprocess.run(run[1] + ['--'] + argv[1], stdout=subprocess.DEVNULL, timeout=60, check=True)
        if server.wait(timeout=60) != 0:
            raise RuntimeError(f'{name}: the server ended with {server.returncode}')


def wait_listening(port, server):
    """Wait for a listener on the TCP port without connecting, since perftest serves the first connection."""
    wanted = f':{port:04X} '
    while server.poll() is None:
        for table in ('/proc/net/tcp', '/proc/net/tcp6'):
            with open(table, encoding='ascii') as f:
                if any(wanted in line and line.split()[3] == '0A' for line in f):
                    return
    raise RuntimeError(f'the server ended with {server.returncode}')


def recorded(build, pattern):
    """Those of SAMPLES that fit, in a network namespace."""
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    for address in V6:
        subprocess.run(['ip', 'addr', 'add', address + '/128', 'dev', 'lo', 'nodad'], check=True)
    os.environ['ROCEMU_AGENT_NAME'] = 'samples'
    for i, (name, sample) in enumerate(SAMPLES.items()):
        if fnmatch.fnmatch(name, pattern):
            record(build, name, sample, PORT + i)


def simulated(build, pattern):
    with tempfile.TemporaryDirectory() as directory:
        for program in ('sim-samples', 'cm-samples'):
            subprocess.run([os.path.join(build, 'test', 'verify', program), directory], check=True)
        for name in os.listdir(directory):
            if fnmatch.fnmatch(name, pattern + '.pcap'):
                shutil.copyfile(os.path.join(directory, name), os.path.join(HERE, name))


def about(name):
    """What a capture is, and how it was made."""
    if name in SAMPLES:
        what, _, impair, command = SAMPLES[name]
        return {'what': what, 'command': command, 'impair': impair}
    subject, version = name.rsplit('_', 1)
    if subject in SIMULATED:
        return {'what': SIMULATED[subject] + (' over IPv6' if version == 'ipv6' else ''), 'command': 'sim-samples'}
    return {'what': 'CM: ' + subject[3:].replace('_', ' '), 'command': 'cm-samples'}


def main():
    build, pattern = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else '*'
    if os.environ.get('SAMPLES_NAMESPACE') is None:
        os.environ['SAMPLES_NAMESPACE'] = 'yes'
        os.execvp('unshare', ['unshare', '-rn', sys.executable, os.path.abspath(__file__), build, pattern])
    recorded(build, pattern)
    simulated(build, pattern)
    names = [f[:-5] for f in os.listdir(HERE) if f.endswith('.pcap')]
    manifest = {}
    for name in sorted(names, key=lambda n: (n.startswith('cm_'), n)):
        manifest[name] = {**about(name),
                          **describe(os.path.join(build, 'tools', 'rocemu'), os.path.join(HERE, name + '.pcap'))}
        print(f'{name}: {manifest[name]["packets"]} packets, {manifest[name]["verify"]["counts"]}')
    with open(os.path.join(HERE, 'MANIFEST.json'), 'w', encoding='ascii') as f:
        f.write('{\n')
        for i, (name, entry) in enumerate(manifest.items()):
            rows = entry.pop('tshark')
            f.write(f'"{name}": {json.dumps(entry)[:-1]}, "tshark": [\n')
            f.write(',\n'.join(json.dumps(row) for row in rows))
            f.write(']}' + (',\n' if i + 1 < len(manifest) else '\n'))
        f.write('}\n')


if __name__ == '__main__':
    main()
