#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""More programs that poll than processors: collective operations of MPI ranks, pairs of perftest, threads of UCX.

Each round measures a figure by all that can carry it, one after the other: rocemu over UDP and over shared memory, with
--before also those of another build; UCX over TCP and over POSIX shared memory, or a plain UDP program that polls. Values
are medians of the rounds, ratios those of the medians. All programs of a run are of one session, so the scheduler sees
one group. Exit code 0: all bars hold, 1: some do not, 2: something could not be measured.
"""
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import perftest
from perftest import harness

MPI_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mpi-crowd.py')
MPI_ENV = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
MPIRUN = ('mpirun.openmpi', '--oversubscribe', '--bind-to', 'none', '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx',
          '--mca', 'opal_common_ucx_tls', 'any', '--mca', 'opal_common_ucx_devices', 'any')
CALLS = {4: 2000, 8: 1000, 16: 500}    # of each small collective operation
COLLECTIVES = ('barrier', 'allreduce 8 B', 'allreduce 128 KiB', 'alltoall 8 KiB')
PAIRS, THREADS = 4, 8
LATENCY_ITERS = 10000                 # enough for all pairs to run at once
GUARD_S = 120
RC = 'rc_verbs,ud_verbs'
UCX_BARS = {'udp': ('most', 1.2), 'shm': ('most', 0.6)}


class Way:
    """How messages go: by a build of rocemu and its wire, or (build is None) by one of UCX's transports."""

    def __init__(self, name, build=None, transport=None):
        self.name, self.build = name, build
        self.wire = name.split()[-1] if build else None
        self.config = harness.Config(build) if build else None
        self.env = {'UCX_TLS': f'{transport or RC},self', 'UCX_NET_DEVICES': 'bench0:1' if build else 'lo'}
        if transport == 'posix':
            del self.env['UCX_NET_DEVICES']

    def command(self, argv):
        argv = [str(a) for a in argv]
        if not self.build:
            return argv
        return [str(a) for a in harness.rocemu_argv(self.config, harness.Side('bench0=lo', '127.0.0.1'), argv, ('--wire', self.wire))]


class Crowd:
    """Programs of this session."""

    def __init__(self, env):
        self.env = {**os.environ, **env}
        self.procs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.procs:
            if p.poll() is None:
                p.kill()
            p.communicate()

    def start(self, argv):
        p = subprocess.Popen([str(a) for a in argv], env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.procs.append(p)
        return p

    def start_server(self, argv, port):
        """With a TCP port, or one that prints a line when it can be reached (port is None)."""
        p = self.start(argv)
        if port is None:
            p.stdout.readline()
        while port and p.poll() is None and not harness.listening(port, p.pid):
            time.sleep(harness.POLL_S)

    @staticmethod
    def output(p):
        try:
            text = p.communicate(timeout=GUARD_S)[0]
        except subprocess.TimeoutExpired:
            raise harness.Failure(f'{p.args} did not end within {GUARD_S} s') from None
        if p.returncode:
            raise harness.Failure(f'{p.args}: exit code {p.returncode}\n{text[-2000:]}')
        return text


def mpi(way, ranks, *options):
    """A run's output."""
    export = [a for name in way.env for a in ('-x', name)]
    with Crowd({**MPI_ENV, **way.env}) as crowd:
        return crowd.output(crowd.start([*MPIRUN, '-np', ranks, *export, *way.command([sys.executable, MPI_PROGRAM, CALLS[ranks], *options])]))


def collectives(way, ranks):
    """Microseconds of each operation."""
    return {name: float(us) for name, us in re.findall(r'^(.*): ([\d.]+) us$', mpi(way, ranks), re.M)}


def pairs(way, server, client, read):
    """Several pairs at once: what `read` finds in the clients' output, by pair. {port} stands for the pair's TCP or UDP port."""
    with Crowd(way.env) as crowd:
        clients = []
        for _ in range(PAIRS):
            port = harness.new_port()
            fill = [[str(a).replace('{port}', str(port)) for a in argv] for argv in (server, client)]
            crowd.start_server(way.command(fill[0]), port if way.build else None)
            clients.append(fill[1])
        return [read(crowd.output(p)) for p in [crowd.start(way.command(argv)) for argv in clients]]


def perftest_row(column):
    def read(text):
        rows = [line.split() for line in text.splitlines()]
        rows = [row for row in rows if len(row) > column and all(re.fullmatch(r'-?[\d.]+', c) for c in row)]
        harness.expect(rows, f'no result\n{text}')
        return float(rows[-1][column])
    return read


def verbs_pairs(program, column, total, *options):
    def run(way):
        argv = [program, '-d', 'bench0', '-x', '0', '-F', '-p', '{port}', '-u', perftest.PATIENCE, *options]
        return {'': total(pairs(way, argv, [*argv, '127.0.0.1'], perftest_row(column)))}
    return run


def udp_pairs(program, build, pattern, total, *options):
    """The plain UDP program."""
    program = harness.Config(build).program('bench', program)

    def run(way):
        argv = [program, '--port', '{port}', *options]
        return {'': total(pairs(way, argv, [*argv, '127.0.0.1'], lambda text: float(re.search(pattern, text).group(1))))}
    return run


def ucx_threads(way):
    """Million messages a second."""
    argv = ['ucx_perftest', '-f', '-p', harness.new_port(), '-T', THREADS]
    with Crowd(way.env) as crowd:
        crowd.start_server(way.command(argv), argv[3])
        rows = crowd.output(crowd.start(way.command([*argv, '-t', 'tag_bw', '-s', 64, '-n', 20000, '127.0.0.1']))).splitlines()
    return {'': float(rows[-1].split()[-1]) / 1e6}


def figures(args):
    """By name: unit, the runs by way, what rocemu's are compared with, and the bars by wire."""
    builds = [('', args.build)] + ([('before ', args.before)] if args.before else [])
    ours = [Way(prefix + wire, build) for wire in ('udp', 'shm') for prefix, build in builds]
    tcp, posix, plain = Way('tcp', transport='tcp'), Way('posix', transport='posix'), Way('plain UDP')
    found = {}
    if shutil.which(MPIRUN[0]) and importlib.util.find_spec('mpi4py'):
        for ranks in CALLS:
            found[f'{ranks} ranks'] = 'us', [(w, lambda w, n=ranks: collectives(w, n)) for w in (tcp, *ours, posix)], UCX_BARS
    if shutil.which('ib_send_lat'):
        latency = verbs_pairs('ib_send_lat', 5, statistics.mean, '-s', 64, '-n', LATENCY_ITERS)
        rate = verbs_pairs('ib_write_bw', 3, sum, '-s', 4096, '-n', 20000)
        floor = udp_pairs('udp-pingpong', args.build, r'average ([\d.]+)', statistics.mean, '--size', 64, '--iters', LATENCY_ITERS)
        ceiling = udp_pairs('udp-bw', args.build, r'Gbit/s ([\d.]+)', lambda g: sum(g) * 1e9 / 8 / perftest.MIB, '--size', 4096)
        found['ib_send_lat x 4'] = 'us', [(plain, floor), *((w, latency) for w in ours)], dict.fromkeys(('udp', 'shm'), ('most', 1.0))
        found['ib_write_bw x 4'] = 'MiB/s', [(plain, ceiling), *((w, rate) for w in ours)], dict.fromkeys(('udp', 'shm'), ('least', 1.0))
    if shutil.which('ucx_perftest'):
        found['UCX tag x 8'] = 'M msg/s', [(w, ucx_threads) for w in (posix, *ours, tcp)], dict.fromkeys(('udp', 'shm'), ('least', 1.0))
    return found


def row(figure, name, unit, way, values, against, references, bar):
    value, reference = statistics.median(values), statistics.median(references)
    r = {'figure': f'{figure} {name}'.strip(), 'way': way.name, 'unit': unit, 'value': value, 'range': [min(values), max(values)],
         'against': against.name, 'ratio': value / reference, 'bar': None, 'holds': True, 'rounds': values}
    if bar:
        r['bar'] = f'at {bar[0]} {bar[1]}'
        r['holds'] = r['ratio'] <= bar[1] if bar[0] == 'most' else r['ratio'] >= bar[1]
    return r


def measure(args, show):
    rows = []
    for figure, (unit, ways, bars) in figures(args).items():
        if args.only and figure not in args.only:
            continue
        ways = [(way, run) for way, run in ways if not args.ways or way.name in args.ways or way is ways[0][0]]
        rounds = [{way: run(way) for way, run in ways} for _ in range(args.rounds)]
        against = ways[0][0]
        for name in rounds[0][against]:
            for way, _ in ways:
                r = row(figure, name, unit, way, [one[way][name] for one in rounds], against, [one[against][name] for one in rounds],
                        bars.get(way.name))
                bar = f'({r["bar"]}: {"holds" if r["holds"] else "MISSED"})' if r['bar'] else ''
                show(f'{r["figure"]:27} {way.name:11} {r["value"]:9.2f} {unit:7} ({r["range"][0]:.2f} to {r["range"][1]:.2f})  '
                     f'{r["ratio"]:6.2f} x {against.name}  {bar}')
                rows.append(r)
    return rows


FIGURES = (*(f'{n} ranks' for n in CALLS), 'ib_send_lat x 4', 'ib_write_bw x 4', 'UCX tag x 8')


def main():
    p = perftest.parser(__doc__, FIGURES, rounds=9)
    p.add_argument('--before', metavar='BUILD', help='measure this build too, in the same rounds')
    p.add_argument('--ways', action='append', metavar='WAY', help='only this way (udp, shm, before udp, ...) beside what it is compared with; may be repeated')
    p.add_argument('--threads', type=int, metavar='RANKS', help='show what each thread of so many ranks does in a barrier, and stop')
    if os.getpid() != os.getpgrp():
        os.setsid()
    code, rows = perftest.run(p, lambda args, show: show_threads(args) if args.threads else measure(args, show))
    return code or not all(r['holds'] for r in rows)


def show_threads(args):
    for way in (Way('udp', args.build), Way('shm', args.build), Way('tcp', transport='tcp'), Way('posix', transport='posix')):
        if not args.ways or way.name in args.ways:
            print(f'{way.name}:\n{mpi(way, args.threads, "--threads")}', flush=True)
    return []


if __name__ == '__main__':
    sys.exit(main())
