#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`rocemu verify` on captures without an end: findings come at once, a signal ends it with a report, memory is bounded.

usage: stream.py ROCEMU GOLDEN_DIR
"""
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading

import capfile

HANG_S = 100
SANITIZED = 'VERIFY_SANITIZED' in os.environ
HEADER = struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 65535, capfile.ETHERNET)


def record(frame):
    data = frame.encode()
    return struct.pack('<IIII', frame.time_ns // 10**9, frame.time_ns % 10**9, len(data), len(data)) + data


class Stream:
    """A verify that reads a pipe, and is killed when nothing happens for long."""

    def __init__(self, rocemu, *options):
        self.p = subprocess.Popen([rocemu, 'verify', *options, '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.guard = threading.Timer(HANG_S, self.p.kill)
        self.guard.start()
        self.lines = queue.SimpleQueue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.feed(HEADER)

    def read(self):
        for line in self.p.stdout:
            self.lines.put(line.decode())
        self.lines.put('')

    def feed(self, *data):
        for d in data:
            self.p.stdin.write(d)
        self.p.stdin.flush()

    def line(self):
        return self.lines.get()

    def end(self):
        """The rest of its output, its exit code, and the KiB that it had at most."""
        self.p.stdin.close()
        return self.ended()

    def ended(self):
        said = ''.join(iter(self.line, '')) + self.p.stderr.read().decode()
        self.reader.join()
        _, status, used = os.wait4(self.p.pid, 0)
        self.p.returncode = os.waitstatus_to_exitcode(status)
        self.guard.cancel()
        return said, self.p.returncode, used.ru_maxrss


def at_once(rocemu, golden):
    """A finding is there while the capture goes on; one that may be the network's doing is there as that."""
    frames = capfile.read(os.path.join(golden, 'rc_many_sends.pcap'))
    frames[7].body[1] |= 1
    s = Stream(rocemu, '--follow')
    s.feed(*(record(f) for f in frames[:8]))
    yield 'a finding at once', s.line().startswith('error   tver: packet 8')
    frames[-1].msn = frames[-1].msn - 5
    s.feed(*(record(f) for f in frames[8:]))
    said, code, _ = s.end()
    yield 'the report', code == 1 and 'FAIL: ' in said and 'maybe   msn: packet 80' in said
    s = Stream(rocemu, '--follow', '--json')
    s.feed(*(record(f) for f in frames[:8]))
    finding = json.loads(s.line())
    yield 'a finding as JSON', (finding['id'], finding['packet']) == ('tver', 8)
    said, code, _ = s.end()
    yield 'the report as JSON', code == 1 and json.loads(said)['packets'] == 8


def signals(rocemu, golden):
    """Ctrl-C ends the capture, not the report; also within a frame."""
    frames = capfile.read(os.path.join(golden, 'rc_many_sends.pcap'))
    for sig in (signal.SIGINT, signal.SIGTERM):
        s = Stream(rocemu, '--follow')
        frames[0].body[1] |= 1
        s.feed(*(record(f) for f in frames), record(frames[0])[:40])  # and half of a frame
        yield f'{sig}: it reads', 'tver' in s.line()
        s.p.send_signal(sig)
        said, code, _ = s.ended()
        yield f'{sig}: a report', code == 1 and f'{len(frames)} RoCEv2 packets' in said
        s.p.stdin = None


def many_connections(rocemu, frame, n):
    """Requests to n QPs, each a connection; KiB at most and its output."""
    s = Stream(rocemu, '--follow', '--connections', '64')
    for at in range(0, n, 1000):
        batch = []
        for i in range(at, at + 1000):
            for psn in range(2):
                frame.dqpn, frame.psn, frame.time_ns = 16 + i, psn, frame.time_ns + 1000
                batch.append(record(frame))
        s.feed(b''.join(batch))
    said, code, rss = s.end()
    return said, code, rss


def bounded(rocemu, golden):
    """Days of new connections, and of one that goes on."""
    frame = capfile.read(os.path.join(golden, 'rc_many_sends.pcap'))[0]
    few = many_connections(rocemu, frame.copy(), 4000)
    many = many_connections(rocemu, frame.copy(), 24000)
    yield f'exit codes {few[1]} and {many[1]}', few[1] == many[1] == 0
    yield 'idle connections are forgotten', f'{24000 - 128} idle directions dropped' in many[0]
    yield f'{few[2]} and {many[2]} KiB for many connections', many[2] < few[2] + 2048 or SANITIZED
    sizes = []
    for n in (20, 100):
        s = Stream(rocemu, '--follow')
        for k in range(n):
            batch = []
            for i in range(500):
                frame.psn, frame.time_ns = k * 500 + i, frame.time_ns + 1000
                batch.append(record(frame))
            s.feed(b''.join(batch))
        sizes.append(s.end()[2])
    yield f'{sizes} KiB for one connection', sizes[1] < sizes[0] + 2048 or SANITIZED


def main():
    rocemu, golden = sys.argv[1:3]
    wrong = [name for part in (at_once, signals, bounded) for name, good in part(rocemu, golden) if not good]
    print('\n'.join(f'wrong: {name}' for name in wrong) or 'captures without an end are judged as they go')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
