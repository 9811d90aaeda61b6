# SPDX-License-Identifier: BSD-2-Clause
"""Runs a perftest pair over loopback for the measurements in this directory and reads the row that it prints."""
import argparse
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'prog'))
import harness  # pylint: disable=wrong-import-position

MIB = 1 << 20
MTU = 4096
SERVER_CORE, CLIENT_CORE = 0, 1
# 4.096 us * 2^18: a busy machine lets a process wait for longer than perftest's default allows.
PATIENCE = 18


class Perftest:
    """Programs of one build directory, each side pinned to a core of its own."""

    def __init__(self, build, timeout=PATIENCE, run_options=()):
        self.config = harness.Config(build)
        self.timeout = timeout
        self.run_options = run_options
        side = harness.Side('bench0=lo', '127.0.0.1', name='bench0')
        self.topo = harness.Topology('lo', side, side)

    def row(self, program, *options, run_options=None, client_prefix=()):
        """The numbers that the client prints. -F: a clock that changes its rate is no reason to refuse.

        client_prefix: the command that runs the client's program.
        """
        run_options = self.run_options if run_options is None else run_options
        argv = [program, '-d', 'bench0', '-x', '0', '-p', '{port}', '-F', '-u', str(self.timeout), '-m', str(MTU),
                *map(str, options)]
        server, client = (['taskset', '-c', str(core), *prefix, *argv]
                          for core, prefix in ((SERVER_CORE, ()), (CLIENT_CORE, client_prefix)))
        _, p = harness.pair(self.config, self.topo, server, client + ['{server}'], server_options=run_options,
                            client_options=run_options)
        for line in p.stdout.splitlines():
            columns = line.split()
            if len(columns) >= 4 and all(re.fullmatch(r'\d+(\.\d+)?|-?nan', c) for c in columns):
                return [float(c) for c in columns]
        raise harness.Failure(f'no result\n{p.report()}')

    def gbit(self, program, *options, run_options=None):
        """Average bandwidth."""
        return self.row(program, *options, run_options=run_options)[3] * MIB * 8 / 1e9

    def typical_us(self, program, *options):
        """Median latency."""
        return self.row(program, *options)[4]


def out(text):
    print(text, flush=True)


def silent(_):
    pass


def parser(doc, figures, rounds):
    """The options of a program that measures figures."""
    p = argparse.ArgumentParser(description=doc.split('\n\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--rounds', type=int, default=rounds, help='of each figure (default: %(default)s)')
    p.add_argument('--only', action='append', choices=figures, help='this figure; may be repeated')
    p.add_argument('--json', action='store_true', help='print the result as JSON, and nothing else on stdout')
    return p


def run(p, measure):
    """Measure according to the options. @return 0, or 2: it could not be measured; the rows."""
    args = p.parse_args()
    harness.own_loopback()
    try:
        rows = measure(args, silent if args.json else out)
    except (harness.Failure, subprocess.SubprocessError, OSError) as e:
        print(f'{p.prog}: {e}', file=sys.stderr)
        return 2, []
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0, rows
