#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`rocemu verify` on much: ten gigabytes of garbage end with a report, and memory has an end.

usage: volume.py ROCEMU GOLDEN_DIR [GIGABYTES]

The garbage comes through a pipe: frames of random bytes; RoCEv2 packets that are random behind their UDP header; ones
whose ICRC is right, of every opcode, from and to QPs all over the place.
"""
import os
import random
import resource
import struct
import subprocess
import sys
import time

import capfile

CHUNK = 64 << 20
MAX_RSS_KB = 1 << 20
HEADER = struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 65535, capfile.ETHERNET)


def garbage(dice, f):
    """One frame of garbage, made of the last one."""
    kind = dice.random()
    if kind < 0.3:
        return dice.randbytes(dice.randrange(1, 20000))
    f.ip[12:20] = bytes((10, 0, 0, dice.randrange(4), 10, 0, 0, dice.randrange(4)))
    f.body = bytearray(dice.randbytes(4 * dice.randrange(3, 1024 if kind < 0.4 else 20)))
    f.sealed = kind < 0.4
    if not f.sealed:  # the ICRC fits, and so do version and pad
        f.opcode = dice.choice((0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0x1c, 0x1d, 0x64, 0xac))
        f.body[1] &= 0xc0
        f.dqpn = dice.randrange(1 << 17)
    return f.encode()


def chunk(dice, frame):
    out, size = [], 0
    while size < CHUNK:
        data = garbage(dice, frame)
        out.append(struct.pack('<IIII', dice.randrange(1 << 31), dice.randrange(10**9), len(data), len(data)) + data)
        size += len(out[-1])
    return b''.join(out)


def main():
    rocemu, golden = sys.argv[1:3]
    total = int(float(sys.argv[3] if len(sys.argv) > 3 else 10) * 10**9)
    dice = random.Random(1)
    data = chunk(dice, capfile.read(os.path.join(golden, 'rc_send.pcap'))[0])
    begun = time.monotonic()
    with subprocess.Popen([rocemu, 'verify', '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False) as p:
        p.stdin.write(HEADER)
        for _ in range(total // len(data)):
            p.stdin.write(data)
        p.stdin.close()
        report = p.stdout.read().decode()
    seconds, rss = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f'{total / 1e9:.0f} GB in {seconds:.1f} s, {rss // 1024} MiB; {report.splitlines()[-1]}')
    if p.returncode != 1 or rss > MAX_RSS_KB:
        print(f'exit code {p.returncode}, {rss} KiB:\n{report[-1000:]}')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
