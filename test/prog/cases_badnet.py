# SPDX-License-Identifier: BSD-2-Clause
"""Stock programs on bad networks: delay, loss, reordering, and more QPs than a socket buffer holds packets for.

What counts is the outcome: the program ends without an error. Rates are for test/bench/loss.py.
"""
import glob
import os
import subprocess
import tempfile

from cases_perftest import PATIENCE, results
from harness import FULL, NORMAL, Case, Side, Topology, expect, gid_index, pair, sanitizer_env

VERIFY_GUARD_S = 300


def perftest(config, topo, program, options, run_options=(), env=None):
    """A pair that must end well; returns it."""
    topo.check()
    sides = [[program, '-d', side.name, '-x', gid_index(config, side), '-p', '{port}', '-F', *options]
             for side in (topo.server, topo.client)]
    server, client = pair(config, topo, sides[0], sides[1] + ['{server}'], server_options=run_options,
                          client_options=run_options, env=env)
    expect(results(client), 'no result row', server, client)
    return server, client


def impaired(program, spec, *options):
    def check(config, lab):
        perftest(config, lab.get('lo'), program, options, ('--impair', spec))
    return check


def verified(program, spec, *options):
    """As impaired(), with a capture on both sides that `rocemu verify` finds no error in."""
    def check(config, lab):
        config.need_part('verify')
        with tempfile.TemporaryDirectory(prefix='rocemu-badnet-') as d:
            perftest(config, lab.get('lo'), program, options,
                     ('--impair', spec, '--pcap', os.path.join(d, 'side-%p.pcap')))
            files = sorted(glob.glob(os.path.join(d, '*.pcap')))
            expect(len(files) == 2, f'two captures expected, not {files}')
            for path in files:
                p = subprocess.run([config.rocemu, 'verify', path], capture_output=True, text=True,
                                   timeout=VERIFY_GUARD_S, env={**os.environ, **sanitizer_env(config)})
                expect(p.returncode == 0, f'rocemu verify {path}: exit code {p.returncode}\n{p.stdout[-4000:]}{p.stderr}')
    return check


def crowd(first, program, *options):
    """Many QPs of one process to one other, with the kernel's own socket buffers and nothing lost on purpose.

    Without the agent, which may run already and keeps the sockets of the addresses that it serves."""
    def check(config, lab):
        addresses = [f'127.0.0.{first}', f'127.0.0.{first + 1}']
        topo = Topology('crowd', *(Side(f'{name}={address}', address, name=name)
                                   for name, address in zip(('crowda', 'crowdb'), addresses)))
        perftest(config, topo, program, options,
                 env={'ROCEMU_AGENT': 'off', 'LD_PRELOAD': config.program('prog', 'libstock-buffers.so')})
    return check


def cases():
    def case(name, check, level=NORMAL, alone=False):
        return Case(f'badnet/{name}', check, level, alone)

    patient = ('-u', PATIENCE)
    yield case('delay/jitter', impaired('ib_write_bw', 'delay=10us..300us', '-n', 200, '-s', 65536, *patient))
    yield case('delay/steady', impaired('ib_write_bw', 'delay=50us..60us', '-n', 200, '-s', 65536, *patient), FULL)
    yield case('delay/jitter_read', impaired('ib_read_bw', 'delay=10us..300us', '-n', 200, '-s', 65536, *patient), FULL)
    yield case('delay/long', impaired('ib_write_bw', 'delay=5ms', '-n', 100, '-s', 65536, *patient), FULL)
    for kind in ('write', 'read', 'send'):
        program = f'ib_{kind}_bw'
        yield case(f'loss/{program}', verified(program, 'loss=1%,seed=3', '-n', 100, '-s', 65536, '-u', 14))
        yield case(f'loss/{program}.5', verified(program, 'loss=5%,seed=4', '-n', 20, '-s', 65536, '-u', 14), FULL)
        yield case(f'overtaking/{program}', impaired(program, 'reorder=1%,seed=5', '-n', 300, '-s', 65536, '-u', 14),
                   NORMAL if kind == 'write' else FULL)
    yield case('overtaking/mixed', impaired('ib_write_bw', 'reorder=2%,dup=1%,loss=0.5%,seed=6', '-n', 100, '-s', 65536,
                                            '-b', '-u', 14), FULL)
    # 268 ms, eight times.
    yield case('crowd/write', crowd(20, 'ib_write_bw', '-q', 256, '-n', 20, '-t', 8, '-s', 65536, '-u', 16), alone=True)
    yield case('crowd/read', crowd(22, 'ib_read_bw', '-q', 64, '-n', 20, '-t', 8, '-s', 65536, '-u', 16), alone=True)
