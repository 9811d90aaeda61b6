#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two processes that exchange SENDs, WRITEs that are read back, and atomics for a while over a bad network on loopback,
both ways on several QPs, and compare every byte.

Exit code 0: every byte was right, 1: something was not, 2: it could not be run.
"""
import argparse
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'prog'))
import harness  # pylint: disable=wrong-import-position

IMPAIR = 'loss=1%,reorder=1%,dup=0.5%'
# For draining, which the program limits itself, and for a machine that is slow.
GUARD_S = 300


def argv(config, port, *options):
    return [config.program('soak', 'soak'), '--port', port, *options]


def last_line(p, word):
    """The numbers of the last line of a program's output that begins with a word."""
    lines = re.findall(rf'^{word} (.*)$', p.stdout, re.M)
    if not lines:
        return None
    column = lines[-1].split()
    return {k: float(v) if '.' in v else int(v) for k, v in zip(column[::2], column[1::2])}


def soak(config, side, seconds, impair=IMPAIR, qps=4, seed=1, timeout=16, show=None):
    """Run the pair; the closing numbers of the client and of the server."""
    port = harness.new_port()
    options = ('--qps', qps, '--seconds', seconds, '--timeout', timeout)

    def run_options(n):
        return ('--impair', f'{impair},seed={seed + n}') if impair else ()

    server = harness.start(config, side, argv(config, port, *options, '--seed', seed), 'server', options=run_options(0))
    client = None
    try:
        server.wait_listening(port)
        client = harness.start(config, side, argv(config, port, *options, '--seed', seed + 1, '127.0.0.1'), 'client',
                               options=run_options(1))
        shown = 0
        while server.running() and client.running() and client.age() < seconds + GUARD_S:
            harness.wait_gone(client, 1)
            lines = client.stdout.splitlines()
            for line in lines[shown:] if show else ():
                show(line)
            shown = len(lines)
        # One that failed ends the other, whose connection is closed.
        for p in (server, client):
            harness.expect(p.wait(GUARD_S) == 0, f'{p.name} failed', server, client)
        return [last_line(p, 'done') for p in (client, server)]
    finally:
        for p in (server, client):
            if p:
                p.kill()


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--seconds', type=int, default=600, help='(default: %(default)s)')
    p.add_argument('--impair', default=IMPAIR, help='as of rocemu run; empty: none (default: %(default)s)')
    p.add_argument('--qps', type=int, default=4, help='(default: %(default)s)')
    p.add_argument('--seed', type=int, default=1, help='of the data, the operations and the faults (default: %(default)s)')
    p.add_argument('--timeout', type=int, default=16, help='of the QPs, as ibv_qp_attr has it (default: %(default)s)')
    p.add_argument('--json', action='store_true', help='print the result as JSON, and nothing else on stdout')
    args = p.parse_args()
    harness.own_loopback()
    side = harness.Side('dev0=lo', '127.0.0.1')
    try:
        result = soak(harness.Config(args.build), side, args.seconds, args.impair, args.qps, args.seed,
                      args.timeout, None if args.json else lambda line: print(line, flush=True))
    except harness.Failure as e:
        print(f'soak.py: {e}', file=sys.stderr)
        return 1
    except OSError as e:
        print(f'soak.py: {e}', file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(dict(zip(('client', 'server'), result)), indent=1))
    else:
        total = {k: sum(r[k] for r in result) for k in result[0] if k != 'seconds'}
        print(f'soak: {args.seconds} s, {args.qps} QPs, {args.impair or "no faults"}: {total["sends"]} SENDs, '
              f'{total["writes_read_back"]} WRITEs read back, {total["adds"] + total["swaps"]} atomics, '
              f'{total["bytes"] / 1e9:.2f} GB compared, no byte wrong')
    return 0


if __name__ == '__main__':
    sys.exit(main())
