#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads: messages of several threads beside one, and how often a lane's lock was waited for.

A program of this directory, UCX and MPI run with several threads, over UDP and over shared memory. The counters are
those of ROCEMU_LOG=debug, of all processes of a run. Each round measures a figure and all that it is compared with, one
after the other; values and ratios are of the medians. Programs that are not installed are omitted. Exit code 0: all bars
hold, 1: some do not, 2: something could not be measured.
"""
import collections
import importlib.util
import os
import re
import resource
import shutil
import statistics
import sys

import perftest
from perftest import harness

DESCRIPTORS = 4096    # 64 lanes have 11 each
CARRIED = 100         # datagrams of a lane with traffic: connecting alone takes fewer
SIZE = 64
MPI_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mpi-threads.py')
MPI_ENV = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
MPIRUN = ('mpirun.openmpi', '-np', 2, '--tag-output', '--oversubscribe', '--bind-to', 'none', '--mca', 'pml', 'ucx',
          '--mca', 'opal_common_ucx_tls', 'any', '--mca', 'opal_common_ucx_devices', 'any')
DEBUG = {'ROCEMU_LOG': 'debug'}
RC = 'rc_verbs,ud_verbs:aux'

# rate: million messages a second; waits: for a lane's lock that another caller had, and behind_thread: that the lane's
# own thread had, per 1,000 messages; lanes: with traffic, and not joined to others, of the process that has the fewest;
# one: the rate of one thread in the same run
Sample = collections.namedtuple('Sample', 'rate waits behind_thread lanes one', defaults=(None,))


def by_slot(log, what):
    """A counter of a process's lanes."""
    slots = collections.Counter()
    for slot, n in re.findall(rf'slot (\d+): (\d+) {what}', log):
        slots[slot] += int(n)
    return slots


def counters(logs, messages):
    """The middle fields of a sample, of a log of each process."""
    waits, behind_caller = (sum(by_slot(log, what).total() for log in logs) for what in (
        "times a caller found the lane's lock taken", 'of these times it was another caller'))
    lanes = []
    for log in logs:
        joined = by_slot(log, 'times the lane began to share a lock')
        carried = by_slot(log, r'datagrams (?:sent \(|received for this slot)')
        lanes.append(sum(n >= CARRIED and not joined[slot] for slot, n in carried.items()))
    return behind_caller * 1000 / messages, (waits - behind_caller) * 1000 / messages, min(lanes)


class Programs:
    """Each method makes one run. spread: the options of `rocemu run` that choose wire and lanes."""

    def __init__(self, build):
        self.pair = perftest.Perftest(build)
        self.config, self.side = self.pair.config, self.pair.topo.server

    def threads(self, spread, threads):
        p = harness.run(self.config, self.side, [self.config.program('bench', 'threads'), threads, SIZE], env=DEBUG, options=spread)
        m = re.match(r'1 thread: (\d+) .*\n\d+ threads: (\d+) .*\nratio.*\nmessages: (\d+)\n', p.stdout)
        harness.expect(m is not None, 'threads failed', p)
        one, rate, messages = map(int, m.groups())
        return Sample(rate / 1e6, *counters([p.stderr], messages), one / 1e6)

    def ucx(self, spread, threads, test, messages, transports=RC):
        """A server and a client."""
        argv = ['ucx_perftest', '-f', '-p', '{port}', '-T', threads]
        env = {**DEBUG, 'UCX_TLS': transports, 'UCX_NET_DEVICES': 'lo' if transports == 'tcp' else 'bench0:1'}
        procs = harness.pair(self.config, self.pair.topo, argv, argv + ['-t', test, '-s', SIZE, '-n', messages // threads, '{server}'],
                             env=env, server_options=spread, client_options=spread)
        return Sample(self.ucx_rate(procs[1]), *counters([p.stderr for p in procs], messages))

    def ucx_self(self, spread, threads, test, messages):
        """One process, which sends to itself."""
        argv = ['ucx_perftest', '-f', '-l', '-T', threads, '-t', test, '-s', SIZE, '-n', messages // threads]
        p = harness.run(self.config, self.side, argv, env={**DEBUG, 'UCX_TLS': RC, 'UCX_NET_DEVICES': 'bench0:1'}, options=spread)
        return Sample(self.ucx_rate(p), *counters([p.stderr], messages))

    @staticmethod
    def ucx_rate(p):
        rows = p.stdout.splitlines()
        harness.expect(p.popen.returncode == 0 and rows, 'ucx_perftest failed', p)
        return float(rows[-1].split()[-1]) / 1e6

    def mpi(self, spread, threads, messages, transports=RC):
        """Two ranks."""
        program = [sys.executable, MPI_PROGRAM, threads, messages // threads]
        p = harness.Proc([*MPIRUN, '-x', f'UCX_TLS={transports},self', *harness.rocemu_argv(self.config, self.side, program, spread)],
                         {**DEBUG, **MPI_ENV}, name='mpirun')
        harness.expect(p.wait() == 0, 'mpirun failed', p)
        rate = float(re.search(r'messages/s: (\d+)', p.stdout).group(1)) / 1e6
        ranks = ['\n'.join(re.findall(rf'^\[1,{rank}\].*', p.stderr, re.M)) for rank in (0, 1)]
        return Sample(rate, *counters(ranks, messages))


def on(wire, most=None):
    """Options of `rocemu run`."""
    return ('--wire', wire, *(('--lanes', str(most)) if most else ()))


def rate_row(against, run, bar=None, field='rate'):
    return 'messages', 'M msg/s', ('ours', 'rate'), against, (run, field), bar


def waits_rows(against, run, bar=('most', 0.3)):
    return [('waits', 'per 1,000', ('ours', 'waits'), against, (run, 'waits'), bar),
            ("lane's thread", 'per 1,000', ('ours', 'behind_thread'), against, (run, 'behind_thread'), None)]


def lanes_row(threads, name='lanes', run='ours', bar=('least', 1.0)):
    return name, '', (run, 'lanes'), 'threads', threads, bar


# A figure: is it installed; its runs; its rows: name, unit, (run, field), what it is compared with, (run, field) or a
# number, least or most of that.

def threads_figure(wire, n, most_lanes, *rows):
    return True, {'ours': lambda p: p.threads(on(wire, most_lanes), n),
                  'one lane': lambda p: p.threads(on(wire, 1), n)}, [
        *rows, *waits_rows('one lane for all', 'one lane'), lanes_row(n)]


def ucx_figure(wire, n, test, messages):
    return shutil.which('ucx_perftest'), {
        'ours': lambda p: p.ucx(on(wire, n), n, test, messages),
        'default': lambda p: p.ucx(on(wire), n, test, messages),
        'tcp': lambda p: p.ucx(on(wire), n, test, messages, 'tcp')}, [
        rate_row('UCX tcp', 'tcp'), rate_row('without --lanes', 'default'), *waits_rows('without --lanes', 'default'),
        lanes_row(n), lanes_row(n, 'by default', 'default', None)]


def ucx_self_figure(wire, n, test, messages):
    return shutil.which('ucx_perftest'), {
        'ours': lambda p: p.ucx_self(on(wire, n), n, test, messages),
        'one': lambda p: p.ucx_self(on(wire, n), 1, test, messages // n),
        'one lane': lambda p: p.ucx_self(on(wire, 1), n, test, messages)}, [
        rate_row('one thread', 'one', ('least', 1.6)), *waits_rows('one lane for all', 'one lane'), lanes_row(n)]


def mpi_figure(wire, n, messages):
    return shutil.which(MPIRUN[0]) and importlib.util.find_spec('mpi4py'), {
        'ours': lambda p: p.mpi(on(wire, n), n, messages),
        'one': lambda p: p.mpi(on(wire, n), 1, messages),
        'tcp': lambda p: p.mpi(on(wire, n), n, messages, 'tcp')}, [
        rate_row('UCX tcp', 'tcp'), *waits_rows('one thread', 'one', None), lanes_row(n, bar=None),
        ('waits', 'per 1,000', ('ours', 'waits'), 'one of 1,000', 1.0, ('most', 1.0))]


FIGURES = {}
for _wire in ('udp', 'shm'):
    FIGURES.update({
        f'2 threads, {_wire}': threads_figure(_wire, 2, None, rate_row('one thread', 'ours', ('least', 1.6), 'one')),
        f'64 threads, {_wire}': threads_figure(_wire, 64, 64),
        f'UCX put x 2, itself, {_wire}': ucx_self_figure(_wire, 2, 'ucp_put_bw', 2000000),
        # Not ucp_put_bw: over UCX's tcp, with several threads, it does not always end.
        f'UCX tag x 2, {_wire}': ucx_figure(_wire, 2, 'tag_bw', 200000),
        f'UCX tag x 8, {_wire}': ucx_figure(_wire, 8, 'tag_bw', 160000),
        f'MPI x 2, {_wire}': mpi_figure(_wire, 2, 25600)})


def row(figure, runs, spec):
    name, unit, ours, against, theirs, bar = spec
    mine = [getattr(run[ours[0]], ours[1]) for run in runs]
    others = [getattr(run[theirs[0]], theirs[1]) if isinstance(theirs, tuple) else theirs for run in runs]
    value, reference = statistics.median(mine), statistics.median(others)
    r = {'figure': figure, 'name': name, 'unit': unit, 'value': value, 'against': against, 'reference': reference,
         'ratio': value / reference if reference else None, 'bar': None, 'holds': True, 'rounds': [mine, others]}
    if bar:
        r['bar'] = f'at {bar[0]} {bar[1]}'
        r['holds'] = value <= reference * bar[1] if bar[0] == 'most' else value >= reference * bar[1]
    return r


def measure(args, show):
    programs, rows = Programs(args.build), []
    for name in args.only or FIGURES:
        installed, runs, specs = FIGURES[name]
        if not installed:
            show(f'{name:24} omitted: its program is not installed')
            continue
        rounds = [{run: how(programs) for run, how in runs.items()} for _ in range(args.rounds)]
        for r in (row(name, rounds, spec) for spec in specs):
            bar = f'({r["bar"]}: {"holds" if r["holds"] else "MISSED"})' if r['bar'] else ''
            ratio = '-' if r['ratio'] is None else f'{r["ratio"]:.2f}'
            show(f'{name:24} {r["name"]:13} {r["value"]:8.3f} {r["unit"]:9} {r["against"]:16} {r["reference"]:8.3f}   ratio {ratio:>5}  {bar}')
            rows.append(r)
    return rows


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, DESCRIPTORS) if most >= 0 else DESCRIPTORS, most))
    code, rows = perftest.run(perftest.parser(__doc__, FIGURES, rounds=3), measure)
    return code or not all(r['holds'] for r in rows)


if __name__ == '__main__':
    sys.exit(main())
