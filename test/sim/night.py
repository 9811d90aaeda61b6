#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs worlds (test-world) on all cores until so many packets were sent, or so much time is over.

Each process takes a chunk of seeds. A seed that fails is written down with what it printed, and the run goes on behind it;
`test-world --seed N --trace` repeats it. Progress goes to standard error, the total to standard output. The file given by
--state holds the total and the next seed, so that the next night goes on where this one ended. Exit code 0: nothing failed,
1: seeds failed, 2: a process ended for another reason.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

CHUNK = 500
HANG_SECONDS = 3600


def run_chunk(program, start, seeds):
    """@return packets, [(failed seed, text)], the text of an end that is not explained or None."""
    packets, failed, end = 0, [], start + seeds
    while start < end:
        try:
            p = subprocess.run([program, '--start', str(start), '--seeds', str(end - start)], capture_output=True,
                               text=True, timeout=HANG_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return packets, failed, f'seeds {start} to {end - 1}: not at an end after {HANG_SECONDS} s'
        lines = p.stdout.split('\n')
        counts = [line.split() for line in lines if line]
        packets += int(counts[-1][1]) if counts else 0
        if p.returncode == 0:
            break
        seed = next((int(line.split()[2]) for line in p.stderr.split('\n') if line.startswith('FAILED seed ')), None)
        if seed is None:
            return packets, failed, f'seeds {start} to {end - 1}: exit code {p.returncode}\n{p.stderr[-2000:]}'
        failed.append((seed, p.stderr.strip()))
        start = seed + 1
    return packets, failed, None


class Night:
    """The chunks that are under way and what has come of those that are done."""

    def __init__(self, args):
        self.args = args
        self.began = time.monotonic()
        self.next = args.start
        self.packets = self.before = 0
        self.failed = []
        self.broken = []
        if args.state and os.path.exists(args.state):
            with open(args.state, encoding='utf-8') as f:
                state = json.load(f)
            self.next, self.before = state['next_seed'], state['packets']

    def goes_on(self):
        """Is there time and something left?"""
        if self.broken or (self.args.packets and self.packets >= self.args.packets):
            return False
        return not self.args.minutes or time.monotonic() - self.began < 60 * self.args.minutes

    def done(self, packets, failed, broken):
        """One chunk has ended."""
        self.packets += packets
        for seed, text in failed:
            self.failed.append(seed)
            print(f'\n{text}', file=sys.stderr)
            if self.args.failed:
                with open(self.args.failed, 'a', encoding='utf-8') as f:
                    f.write(f'{text}\n\n')
        if broken:
            self.broken.append(broken)
            print(f'\n{broken}', file=sys.stderr)
        self.save()
        seconds = time.monotonic() - self.began
        print(f'\r{self.packets / 1e6:.1f} million packets in {seconds:.0f} s, next seed {self.next}, '
              f'{len(self.failed)} failed ', end='', file=sys.stderr, flush=True)

    def save(self):
        """For the next night."""
        if self.args.state:
            with open(self.args.state, 'w', encoding='utf-8') as f:
                json.dump({'next_seed': self.next, 'packets': self.before + self.packets}, f)

    def run(self):
        """All chunks."""
        pending = set()
        with ThreadPoolExecutor(self.args.jobs) as pool:
            while pending or self.goes_on():
                while self.goes_on() and len(pending) < self.args.jobs:
                    pending.add(pool.submit(run_chunk, self.args.program, self.next, self.args.chunk))
                    self.next += self.args.chunk
                ready, pending = wait(pending, return_when=FIRST_COMPLETED)
                for f in ready:
                    self.done(*f.result())
        print(file=sys.stderr)

    def report(self):
        """The total. @return the exit code."""
        total = {'packets': self.packets, 'packets_of_all_nights': self.before + self.packets,
                 'seconds': round(time.monotonic() - self.began), 'next_seed': self.next,
                 'failed_seeds': sorted(self.failed)}
        if self.args.json:
            print(json.dumps(total))
        else:
            print(f'{self.packets} packets in {total["seconds"]} s, failed seeds: '
                  f'{", ".join(map(str, total["failed_seeds"])) or "none"}')
        if self.broken:
            return 2
        return 1 if self.failed else 0


def main():
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory')
    p.add_argument('--jobs', type=int, default=os.cpu_count(), help='processes at a time (number of cores)')
    p.add_argument('--packets', type=float, default=0, help='end after so many, such as 1e9')
    p.add_argument('--minutes', type=float, default=0, help='end after so long')
    p.add_argument('--start', type=int, default=1000000, help='the first seed (1000000)')
    p.add_argument('--chunk', type=int, default=CHUNK, help=f'seeds of a process ({CHUNK})')
    p.add_argument('--state', help='file with total and next seed, read and written')
    p.add_argument('--failed', help='file that what failed seeds printed is added to')
    p.add_argument('--json', action='store_true', help='the total as an object')
    args = p.parse_args()
    if not args.packets and not args.minutes:
        p.error('one of --packets and --minutes is needed')
    args.program = os.path.join(args.build, 'test', 'sim', 'test-world')
    if not os.access(args.program, os.X_OK):
        p.error(f'{args.program} is not there: build with -Dtests=true')
    night = Night(args)
    night.run()
    return night.report()


if __name__ == '__main__':
    sys.exit(main())
