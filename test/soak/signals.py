#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Kills and stops processes at random moments of their traffic, round after round, and looks at what is left.

A server takes one client after the other. A round is one of
  kill        the client is killed
  stop        the client is stopped for less than the QPs' retries take, and goes on: nothing may fail
  stop-long   the client is stopped until the server's requests have failed, and goes on: its own fail
  kill-stopped  the client is stopped, then killed
After each, all requests of those that live are complete (the program itself sees to their order), the agent has the
dead process's slot back. The server's descriptors and memory may not grow beyond a bound.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import soak  # pylint: disable=wrong-import-position
from soak import harness  # pylint: disable=wrong-import-position

KINDS = ('kill', 'stop', 'stop-long', 'kill-stopped')
HANG_GUARD_S = 180
FOREVER_S = 3600                      # rounds end by what happens in them, not by time
SHORT_S = 1                           # ... but for those that nothing ends
# The QPs' timeout: so that failing takes 8 times 17 ms, or 8 times 4 s where nothing is to fail.
TIMEOUT = {'kill': 12, 'stop-long': 12, 'kill-stopped': 12, 'stop': 20}
WARM_UP = 4                           # rounds after which memory has its size
SOCKETS = 32                          # that a lane keeps open at most, as they are needed: 16 to send from, and 16 that hold their ports
GROWTH_KIB = 8192


def agent_clients(config):
    p = subprocess.run([config.rocemu, 'agent', '--status', '--json'], capture_output=True, text=True,
                       env={**os.environ, **harness.sanitizer_env(config)})
    return [c['pid'] for c in json.loads(p.stdout)['clients']] if p.returncode == 0 else []


def rss_kib(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return int(re.search(r'VmRSS:\s+(\d+)', f.read()).group(1))


class Survivor:
    """The server, and how often its rounds began and ended."""

    def __init__(self, config, side, rounds, qps, impair):
        self.config, self.side, self.qps = config, side, qps
        self.options = ('--impair', impair) if impair else ()
        self.port = harness.new_port()
        self.over = 0
        argv = soak.argv(config, self.port, '--survive', '--rounds', rounds, '--qps', qps, '--seconds', FOREVER_S)
        self.proc = harness.start(config, side, argv, 'server', options=self.options)
        self.proc.wait_listening(self.port)

    def client(self, kind, seed):
        argv = soak.argv(self.config, self.port, '--survive', '--qps', self.qps, '--seed', seed, '--timeout', TIMEOUT[kind],
                         '--seconds', SHORT_S if kind == 'stop' else FOREVER_S, '127.0.0.1')
        return harness.start(self.config, self.side, argv, 'client', options=self.options)

    def descriptors(self):
        """At the end of each round."""
        return [int(n) for n in re.findall(r'^round over fds (\d+)$', self.proc.stdout, re.M)]

    def wait_round(self):
        self.over += 1
        self.proc.wait_until(lambda: len(self.descriptors()) >= self.over, f'round {self.over} was over', HANG_GUARD_S)


def flowing(p, least):
    """Has a process compared so many bytes?"""
    last = soak.last_line(p, 'progress')
    return last is not None and last['bytes'] >= least


def stop_and_continue(survivor, client, kind, rng):
    """The signals of a round but those that kill."""
    client.signal(signal.SIGSTOP)
    if kind == 'stop-long':
        survivor.wait_round()
    elif kind == 'stop':
        # How long is chance, not an event: less than the 34 s that retries take.
        harness.wait_gone(client, rng.uniform(0.01, 0.3))
    if kind != 'kill-stopped':
        client.signal(signal.SIGCONT)
        harness.expect(client.wait(HANG_GUARD_S) == 0, f'{kind}: the client failed', client, survivor.proc)


def one_round(survivor, kind, rng):
    client = survivor.client(kind, rng.randrange(1 << 20))
    try:
        # Random moments: from the connection on, mostly in the midst of traffic.
        least = rng.choice((0, 1, rng.randrange(1 << 20), rng.randrange(1 << 24)))
        if least == 0 and kind.startswith('kill'):
            client.wait_until(lambda: 'connected' in client.stdout, 'it was connected')
        else:
            client.wait_until(lambda: flowing(client, least) or 'round over' in client.stdout, 'traffic flowed')
        if kind != 'kill':
            stop_and_continue(survivor, client, kind, rng)
    finally:
        client.kill()
    if kind != 'stop-long':
        survivor.wait_round()
    if kind == 'stop':
        for p in (client, survivor.proc):
            last = [line for line in p.stdout.splitlines() if line.startswith(('done', 'ended'))][-1:]
            harness.expect(last and last[0].startswith('done'), 'a short stop made requests fail', client, survivor.proc)
    return client.pid


def check_agent(survivor, pid):
    survivor.proc.wait_until(lambda: pid not in agent_clients(survivor.config), 'the agent had the slot back', HANG_GUARD_S)


def signals(config, side, rounds, seed=1, qps=4, impair='', show=None):
    """All rounds. The numbers at the end."""
    rng = random.Random(seed)
    survivor = Survivor(config, side, 1 << 30, qps, impair)
    memory, counts = [], dict.fromkeys(KINDS, 0)
    try:
        for number in range(rounds):
            kind = KINDS[number] if number < len(KINDS) else rng.choice(KINDS)
            pid = one_round(survivor, kind, rng)
            counts[kind] += 1
            check_agent(survivor, pid)
            harness.expect(survivor.proc.running(), f'round {number + 1} ({kind}): the server ended', survivor.proc)
            fds = survivor.descriptors()
            harness.expect(max(fds, default=0) <= min(fds[:1], default=0) + SOCKETS,
                           f'round {number + 1} ({kind}): descriptors of the server: {fds}', survivor.proc)
            memory.append(rss_kib(survivor.proc.pid))
            if show:
                show(f'round {number + 1} {kind}: {fds[-1] if fds else "-"} descriptors, {memory[-1]} KiB')
        base = max(memory[:WARM_UP])
        harness.expect(memory[-1] <= base + GROWTH_KIB, f'memory of the server grows: {memory} KiB', survivor.proc)
        return {'rounds': counts, 'memory_kib': [base, memory[-1]], 'descriptors': survivor.descriptors()[-1:]}
    finally:
        survivor.proc.kill()


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--rounds', type=int, default=200, help='(default: %(default)s)')
    p.add_argument('--seed', type=int, default=1, help='of kinds and moments (default: %(default)s)')
    p.add_argument('--qps', type=int, default=4, help='(default: %(default)s)')
    p.add_argument('--impair', default='', help='as of rocemu run (default: none)')
    p.add_argument('--json', action='store_true', help='print the result as JSON, and nothing else on stdout')
    args = p.parse_args()
    harness.own_loopback()
    side = harness.Side('dev0=lo', '127.0.0.1')
    try:
        result = signals(harness.Config(args.build), side, args.rounds, args.seed, args.qps, args.impair,
                         None if args.json else lambda line: print(line, flush=True))
    except harness.Failure as e:
        print(f'signals.py: {e}', file=sys.stderr)
        return 1
    except OSError as e:
        print(f'signals.py: {e}', file=sys.stderr)
        return 2
    print(json.dumps(result, indent=1) if args.json else
          f'signals: {args.rounds} rounds {result["rounds"]}, memory {result["memory_kib"]} KiB, no leak, no stuck QP')
    return 0


if __name__ == '__main__':
    sys.exit(main())
