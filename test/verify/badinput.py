#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests `rocemu verify` with unusable input: one line on stderr, exit code 2, nothing on stdout.

usage: badinput.py ROCEMU GOLDEN_DIR
"""
import os
import struct
import subprocess
import sys
import tempfile

HEADER = struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)


def inputs(golden):
    """(name, bytes; None: no file, expected text of the line)."""
    with open(os.path.join(golden, 'rc_send.pcap'), 'rb') as f:
        good = f.read()
    yield 'missing', None, 'No such file'
    yield 'empty', b'', 'not a capture'
    yield 'text', b'this is no capture\n' * 100, 'not a capture'
    yield 'header-only', HEADER, 'no RoCEv2'
    yield 'arp', HEADER + struct.pack('<IIII', 0, 0, 60, 60) + bytes(12) + b'\x08\x06' + bytes(46), 'no RoCEv2'
    yield 'cut-off', good[:-20], 'damaged'
    yield 'link-layer', HEADER[:20] + struct.pack('<I', 105) + good[24:], 'link layer'
    yield 'huge-record', HEADER + struct.pack('<IIII', 0, 0, 0xffffffff, 0xffffffff) + bytes(64), 'damaged'


def run(rocemu, *args):
    return subprocess.run([rocemu, 'verify', *args], capture_output=True, text=True, timeout=60, check=False)


def problem(name, p, says, silent=True):
    lines = p.stderr.splitlines()
    if p.returncode != 2 or (silent and p.stdout) or len(lines) != 1 or says not in p.stderr:
        return f'{name}: exit code {p.returncode}, stdout {p.stdout[:80]!r}, stderr {p.stderr[:300]!r}'
    return None


def main():
    rocemu, golden = sys.argv[1:3]
    good = os.path.join(golden, 'rc_send.pcap')
    problems = []
    with tempfile.TemporaryDirectory(prefix='rocemu-verify-') as directory:
        for name, data, says in inputs(golden):
            path = os.path.join(directory, name)
            if data is not None:
                with open(path, 'wb') as f:
                    f.write(data)
            problems.append(problem(name, run(rocemu, path), says))
        problems.append(problem('html of two', run(rocemu, '--html', directory + '/p', good, good), 'one capture'))
        problems.append(problem('directory', run(rocemu, directory), 'not a capture'))
        problems.append(problem('page nowhere', run(rocemu, '--json', '--html', directory + '/no/p', good), 'cannot write',
                                silent=False))
    problems.append(problem('page full', run(rocemu, '--html', '/dev/full', good), 'cannot write', silent=False))
    problems.append(problem('packets', run(rocemu, '--packets', '-1', good), 'expected a number'))
    problems.append(problem('no argument', run(rocemu), 'expected a capture'))
    problems.append(problem('unknown ID', run(rocemu, '--explain', 'no-such'), 'no finding'))
    problems.append(problem('keep', run(rocemu, '--keep', '0', good), 'expected a number'))
    problems = [p for p in problems if p]
    print('\n'.join(problems) or 'every bad input is told in one line')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
