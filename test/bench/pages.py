#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Counts the pages of memory that a program and rocemu touch for a message, from one system call to the next.

Where each system call flushes the TLB, each of these pages costs a walk of the page tables. The client of ib_send_lat
runs under valgrind's tool lackey, which lists all accesses; the server runs as usual. Printed are medians of the
answers: from the receive call that brought a message to the call that sends the next one. The machine's load
does not change them; the addresses of the heap do, by a few pages. Exit code 0, or 2: it could not be measured.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import perftest
from perftest import harness

MESSAGES = 1000
WARM = 300                        # sends before the first that counts
SENDS = {44, 46, 307}             # x86-64's sendto, sendmsg, sendmmsg
RECEIVES = {47, 299}              # recvmsg, recvmmsg
CLOCKS = {96, 228}                # gettimeofday, clock_gettime: system calls under valgrind only
CALL = re.compile(r'SYSCALL\[\d+,(\d+)\]\((\d+)\) (\.\.\.)?')
MAIN_THREAD = 1


def answers(lines):
    """(pages of code, pages of data) from each receive call to the send call that follows it, both by the main thread."""
    touched, last, alone, sends = set(), None, True, 0
    for line in lines:
        call = CALL.match(line)
        if not call:
            # "I  04001000,3": an instruction; " L ", " S " and " M ": data.
            if len(line) > 3 and line[0] in 'I ' and line[1] in ' SLM' and line[2] == ' ':
                touched.add((line[0] == 'I', int(line[3:].split(',')[0], 16) >> 12))
            continue
        thread, number, returned = int(call[1]), int(call[2]), call[3]
        if number in CLOCKS or (returned and thread == MAIN_THREAD):
            continue
        if thread != MAIN_THREAD:
            alone = False
            continue
        sends += number in SENDS
        if number in SENDS and last in RECEIVES and alone and sends > WARM:
            code = sum(is_code for is_code, _ in touched)
            yield code, len(touched) - code
        touched, last, alone = set(), number, True


def measure(directory):
    bench = perftest.Perftest(directory)
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, 'accesses')
        bench.row('ib_send_lat', '-s', 8, '-n', MESSAGES, client_prefix=(
            'valgrind', '--tool=lackey', '--basic-counts=no', '--trace-mem=yes', '--trace-syscalls=yes', f'--log-file={log}'))
        with open(log, encoding='utf-8', errors='replace') as f:
            rows = list(answers(f))
    if not rows:
        raise harness.Failure(f'none of {MESSAGES} messages was answered by the thread that received it')
    code, data = (statistics.median_low(column) for column in zip(*rows))
    return {'code': code, 'data': data, 'all': code + data, 'messages': len(rows)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--json', action='store_true', help='print the result as JSON')
    args = p.parse_args()
    if os.uname().machine != 'x86_64' or not shutil.which('valgrind'):
        print(f'{p.prog}: needs valgrind, on x86-64', file=sys.stderr)
        return 2
    harness.own_loopback()
    try:
        row = measure(args.build)
    except (harness.Failure, subprocess.SubprocessError, OSError) as e:
        print(f'{p.prog}: {e}', file=sys.stderr)
        return 2
    print(json.dumps(row) if args.json else f'{row["all"]} pages a message: {row["code"]} of code, {row["data"]} of data '
          f'(median of {row["messages"]})')
    return 0


if __name__ == '__main__':
    sys.exit(main())
