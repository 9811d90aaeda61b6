#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Wherever a capture was taken, `rocemu verify` finds the same.

usage: points.py ROCEMU GOLDEN_DIR

Recorded captures are made into what each point would have recorded: the sender's interface, which sees bursts before
they are segmented; the receiver's, which sees them merged; a mirror port that shows each packet twice; the captures of
both hosts merged; behind MPLS and in tunnels; as ERF records. RoCEv1, and packets without a right ICRC (--ignore icrc), are judged like others. What is found, and of which packets, must stay what it was. Captures cut by a
snap length: cuts.py.
"""
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

import capfile

RC_SEND_ONLY = 0x04
UD_SEND = 0x64
ERF, INFINIBAND = 197, 247  # link types
ROCE_PORT = struct.pack('>H', 4791)
FAR_PACKETS, FAR_APART = 6000, 700
MIN_DOUBLED = 16  # different packets, below which copies are taken for what they look like


def verify(rocemu, path, *options):
    p = subprocess.run([rocemu, 'verify', '--json', *options, path], capture_output=True, text=True, timeout=60, check=False)
    if p.returncode not in (0, 1):
        raise RuntimeError(f'{path}: exit code {p.returncode}: {p.stderr}')
    return json.loads(p.stdout)


def decode(rocemu, path):
    """What rocemu decode prints, without the frames' numbers; and those that have a part."""
    p = subprocess.run([rocemu, 'decode', path], capture_output=True, text=True, timeout=60, check=False)
    lines = [line.split(maxsplit=1) for line in p.stdout.splitlines()]
    return [p.returncode, *(rest for _, rest in lines)], sum('.' in number for number, _ in lines)


def bursts(frames, ids):
    """Neighbours of one direction whose lengths a burst may have, as one frame each; and the frames of which."""
    out, i = [], 0
    while i < len(frames):
        group = [frames[i].copy()]
        while (i + len(group) < len(frames) and len(group) < 12 and
               frames[i + len(group)].source() == group[0].source() and
               frames[i + len(group)].udp[0:2] == group[0].udp[0:2] and
               len(frames[i + len(group)].body) <= len(group[0].body) == len(group[-1].body)):
            group.append(frames[i + len(group)].copy())
        i += len(group)
        whole = group[0].copy()
        if len(group) > 1:
            for k, f in enumerate(group):
                if not f.v6:
                    f.ip_id = group[0].ip_id + ids(k)
                f.encode()
            packets = [bytes(f.body) + f.compute_icrc() for f in group]
            whole.body = bytearray(b''.join(packets)[:-capfile.ICRC_LEN])
            whole.icrc, whole.sealed = packets[-1][-capfile.ICRC_LEN:], True
        out.append((whole, len(group)))
    return out


def records(frames):
    return [(f.time_ns, 0, f.encode()) for f in frames]


def block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack('<II', kind, len(body) + 12) + body + struct.pack('<I', len(body) + 12)


def write_pcapng(path, found, links=(capfile.ETHERNET, capfile.ETHERNET)):
    """(time, interface, frame) each, with a comment on the first and a block of an unknown kind."""
    with open(path, 'wb') as f:
        f.write(block(0x0a0d0d0a, struct.pack('<IHHq', 0x1a2b3c4d, 1, 0, -1)))
        for n, link in enumerate(links):
            resolution = (9, 0x80 | 30)[n % 2]
            f.write(block(1, struct.pack('<HHI', link, 0, 0) + struct.pack('<HHB3x', 9, 1, resolution) + bytes(4)))
        f.write(block(0x80000bad, b'unknown'))
        for n, (time, interface, data) in enumerate(found):
            ticks = time if interface % 2 == 0 else -(-(time << 30) // 10**9)
            body = struct.pack('<IIIII', interface, ticks >> 32, ticks & 0xffffffff, len(data), len(data)) + data
            body += bytes(-len(body) % 4)
            if n == 0:
                body += struct.pack('<HH8s', 1, 6, b'a note') + bytes(4)
            f.write(block(6, body))


def write_pcap(path, found, link=capfile.ETHERNET):
    with open(path, 'wb') as f:
        f.write(struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 65535, link))
        for time, _, data in found:
            f.write(struct.pack('<IIII', time // 10**9, time % 10**9, len(data), len(data)) + data)


def ipv4(proto, payload):
    return bytes((0x45, 0)) + struct.pack('>HHHBBH', 20 + len(payload), 1, 0, 64, proto, 0) + bytes((10, 0, 0, 1, 10, 0, 0, 2)) + payload


def outer(ethertype, payload):
    return bytes.fromhex('0200000000aa0200000000bb') + struct.pack('>H', ethertype) + payload


TUNNELS = {
    'vxlan': lambda f: outer(0x0800, ipv4(17, struct.pack('>HHHH', 50000, 4789, 16 + len(f), 0) + b'\x08' + bytes(7) + f)),
    'gre': lambda f: outer(0x0800, ipv4(47, b'\x00\x00\x65\x58' + f)),
    'erspan': lambda f: outer(0x0800, ipv4(47, b'\x10\x00\x22\xeb' + bytes(4) + b'\x20' + bytes(11) + f)),
    'srv6': lambda f: outer(0x86dd, struct.pack('>IHBB', 6 << 28, 24 + len(f) - 14, 43, 64) + bytes(32) + bytes((41, 2, 4, 0)) + bytes(20) + f[14:]),
    'geneve': lambda f: outer(0x0800, ipv4(17, struct.pack('>HHHH', 50000, 6081, 20 + len(f), 0) + b'\x01\0\x65\x58' + bytes(8) + f)),
    'ip-in-ip': lambda f: outer(0x0800, ipv4(41 if f[14] >> 4 == 6 else 4, f[14:])),
    'mpls': lambda f: outer(0x8847, struct.pack('>II', 16 << 12 | 64, 17 << 12 | 0x100 | 64) + f[14:]),
}


def mirrored(found, apart_ns=20000):
    """Each packet at two points."""
    return sorted([*found, *((time + apart_ns, 1, data) for time, _, data in found)], key=lambda r: r[0])


class Check:
    def __init__(self, rocemu, directory):
        self.rocemu, self.directory, self.problems, self.runs = rocemu, directory, [], 0

    def same(self, name, write, found, expected, options=(), **also):
        path = os.path.join(self.directory, name + '.cap')
        write(path, found)
        report = verify(self.rocemu, path, *options)
        self.runs += 1
        wrong = [f'{key} {report[key]}, not {value}' for key, value in also.items() if report[key] != value]
        for key in ('packets', 'counts'):
            if report[key] != expected[key]:
                wrong.append(f'{key} {report[key]}, not {expected[key]}')
        if wrong:
            self.problems.append(f'{name}: {"; ".join(wrong)}')
        return report


def check_bursts(check, name, frames):
    """What identifications the packets of a burst have differs: counted up, all alike, any."""
    kinds = {'sender': lambda k: k, 'receiver': lambda k: 0, 'merged-any': lambda k: k * k * 7 % 1000}
    for point, ids in kinds.items():
        made = bursts(frames, ids)
        plain = []
        at = 0
        for _, n in made:
            for k in range(n):
                f = frames[at + k].copy(time_ns=frames[at].time_ns)
                if n > 1 and not f.v6:
                    f.ip_id = frames[at].ip_id + ids(k)
                plain.append(f)
            at += n
        path = os.path.join(check.directory, 'plain.pcap')
        write_pcap(path, records(plain))
        expected = verify(check.rocemu, path)
        report = check.same(f'{name}-{point}', write_pcap, [(f.time_ns, 0, f.encode()) for f, _ in made], expected,
                            bursts=sum(n > 1 for _, n in made))
        path = os.path.join(check.directory, 'bursts.pcap')
        write_pcap(path, [(f.time_ns, 0, f.encode()) for f, _ in made])
        printed, parts = decode(check.rocemu, path)
        if printed != decode(check.rocemu, os.path.join(check.directory, 'plain.pcap'))[0] or parts != sum(n for _, n in made if n > 1):
            check.problems.append(f'{name}-{point}: rocemu decode: {printed[:5]} ...')
        for f in report['findings']:
            inside = f['packet'] is not None and made[f['packet'] - 1][1] > 1
            if inside != ('segment' in f):
                check.problems.append(f'{name}-{point}: {f} in a frame of {made[f["packet"] - 1][1]}')


def without_ip_ids(check, frames):
    """What is found where no identification distinguishes copies of a frame from retransmissions; no multicast Ethernet addresses."""
    path = os.path.join(check.directory, 'plain.pcap')
    write_pcap(path, [(f.time_ns, 0, f.copy(ip_id=0).encode() if not f.v6 else f.encode()) for f in frames])
    return verify(check.rocemu, path)


def native_infiniband(check, golden):
    """Is passed over, and counted."""
    frames = capfile.read(os.path.join(golden, 'rc_write.pcap'))
    path = os.path.join(check.directory, 'ib.pcap')
    for link, header in ((ERF, bytes(8) + b'\x15' + bytes(7)), (INFINIBAND, b'')):
        write_pcap(path, [(f.time_ns, 0, header + b'\0\2\0\1\0\x10\0\2' + bytes(f.body)) for f in frames], link)
        p = subprocess.run([check.rocemu, 'verify', path], capture_output=True, text=True, timeout=60, check=False)
        if p.returncode != 2 or f'{len(frames)} frames of native InfiniBand' not in p.stderr:
            check.problems.append(f'native InfiniBand: exit code {p.returncode}: {p.stderr}')
    write_pcapng(path, [(f.time_ns, n % 2, f.encode()) for n, f in enumerate(frames)], (capfile.ETHERNET, INFINIBAND))
    report = verify(check.rocemu, path)
    if report['passed_over']['infiniband'] != len(frames) // 2:
        check.problems.append(f'native InfiniBand beside Ethernet: {report["passed_over"]}')


def check_capture(check, path):
    name = os.path.basename(path)[:-5]
    frames = [f for f in capfile.read(path) if f.udp[2:4] == ROCE_PORT]
    found = records(frames)
    plain = os.path.join(check.directory, 'plain.pcap')
    write_pcap(plain, found)
    expected = verify(check.rocemu, plain)
    check_bursts(check, name, frames)
    check.same(f'{name}-pcapng', write_pcapng, found, expected, seen_elsewhere=0)
    check.same(f'{name}-two-interfaces', write_pcapng, mirrored(found), expected, seen_elsewhere=len(found))
    if len(found) >= MIN_DOUBLED:
        check.same(f'{name}-merged', write_pcap, mirrored(found), expected, seen_elsewhere=len(found))
    check.same(f'{name}-v1', write_pcap, [(f.time_ns, 0, capfile.as_v1(f).encode()) for f in frames], without_ip_ids(check, frames),
               roce_v1=len(frames))
    check.same(f'{name}-erf', lambda path, records: write_pcap(path, records, ERF),
               [(f.time_ns, 0, capfile.as_erf(f)) for f in frames], expected)
    parts = [(p.time_ns, 0, p.encode()) for f in frames for p in capfile.fragments(f)]
    write_pcap(plain, parts)
    check.same(f'{name}-fragments', write_pcapng, mirrored(parts), verify(check.rocemu, plain), seen_elsewhere=len(parts))
    for f in frames:
        f.icrc, f.sealed = bytes(4), True
    check.same(f'{name}-no-icrc', write_pcap, records(frames), expected, ['--ignore', 'icrc'], ignored={'icrc-wrong': len(frames)})
    for tunnel, wrap in TUNNELS.items():
        check.same(f'{name}-{tunnel}', write_pcap, [(t, i, wrap(data)) for t, i, data in found], expected,
                   tunnels={tunnel: expected['packets']})


def check_far_apart(check, golden):
    """A busy receiver: between a packet at the sender and the same at the receiver, hundreds of others pass."""
    first = next(f for f in capfile.read(os.path.join(golden, 'rc_send.pcap')) if f.opcode == RC_SEND_ONLY)
    found = []
    for n in range(FAR_PACKETS):
        f = first.copy(time_ns=first.time_ns + n * 1000)
        f.psn = (first.psn + n) % (1 << 24)
        found.append((f.time_ns, 0, f.encode()))
    plain = os.path.join(check.directory, 'plain.pcap')
    write_pcap(plain, found)
    check.same('far-apart', write_pcap, mirrored(found, FAR_APART * 1000 + 500), verify(check.rocemu, plain), seen_elsewhere=len(found))


def check_one_host(check, golden):
    """A process that is both ends captures its connection messages as it sends and as it receives them."""
    found = []
    for n, f in enumerate(f for f in capfile.read(os.path.join(golden, 'cm_rping.pcap')) if f.opcode == UD_SEND):
        f.psn = 100 + n
        f.ip[12:20] = bytes((10, 77, 0, 2)) * 2
        found += [(f.time_ns, 0, f.encode()), (f.time_ns + 9000, 0, f.encode())]
    path = os.path.join(check.directory, 'one.pcap')
    write_pcap(path, found)
    report = verify(check.rocemu, path)
    if not found or report['seen_elsewhere'] != len(found) // 2 or {'ud-psn', 'cm-again'} & set(report['counts']):
        check.problems.append(f'one host: {report["seen_elsewhere"]} of {len(found)}, {report["counts"]}')


def check_wrong_in_burst(check, golden):
    """A packet of a burst that is wrong is named, and it alone."""
    frames = capfile.read(os.path.join(golden, 'rc_write.pcap'))
    whole, n = max(bursts(frames, lambda k: k), key=lambda b: b[1])
    whole.body[-8] ^= 1
    path = os.path.join(check.directory, 'wrong.pcap')
    write_pcap(path, records([whole]))
    wrong = [f for f in verify(check.rocemu, path)['findings'] if f['id'] == 'icrc-wrong']
    if n < 3 or [(f['packet'], f['segment']) for f in wrong] != [(1, n)]:
        check.problems.append(f'the last packet of a burst of {n} is wrong: {wrong}')
    text = subprocess.run([check.rocemu, 'verify', path], capture_output=True, text=True, timeout=60, check=False).stdout
    if f'packet 1.{n}' not in text:
        check.problems.append(f'not named as 1.{n}: {text}')


def main():
    rocemu, golden = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix='rocemu-points-') as directory:
        check = Check(rocemu, directory)
        for path in sorted(glob.glob(os.path.join(golden, '*.pcap'))):
            check_capture(check, path)
        check_far_apart(check, golden)
        check_one_host(check, golden)
        native_infiniband(check, golden)
        check_wrong_in_burst(check, golden)
    print('\n'.join(check.problems))
    print(f'{check.runs} captures, {len(check.problems)} problems')
    return 1 if check.problems or not check.runs else 0


if __name__ == '__main__':
    sys.exit(main())
