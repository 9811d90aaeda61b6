# SPDX-License-Identifier: BSD-2-Clause
"""The newest perftest, from its source tree: `./autogen.sh && ./configure && make` in PATH. Its
runs are those that test/prog has of
the packaged one (which prog_tests.py puts into the table), and newer options."""
import os

import cases_cm
import cases_perftest
from harness import Failure, Skip
from program import PLACES, Program, Run

# Options that the packaged one lacks or that no other test has: the programs and the options of
# both sides.
OPTIONS = (
    (('ib_write_bw', 'ib_read_bw'), ('--data_validation', '-s', 65536, '-t', 32)),
    (('ib_write_bw', 'ib_read_bw'), ('--data_validation', '-s', 4096, '-t', 64, '-q', 4)),
    (('ib_write_bw', 'ib_write_lat'), ('--write_with_imm',)),
    (('ib_send_bw', 'ib_send_lat'), ('--send_with_imm',)),
    (('ib_send_bw',), ('-l', 4, '--recv_post_list', 4)),
    (('ib_send_bw', 'ib_write_bw', 'ib_read_bw', 'ib_atomic_bw'), ('-q', 4, '--mr_per_qp')),
    (('ib_send_bw', 'ib_write_bw', 'ib_read_lat'), ('--odp',)),
    (('ib_send_lat', 'ib_write_lat'), ('--tclass', 96, '--flow_label', 77)),
    (('ib_send_lat',), ('-c', 'UD', '--tclass', 96, '--flow_label', 77)),
    (('ib_write_bw', 'ib_send_bw'), ('-b', '--report-both')),
    (('ib_write_bw', 'ib_send_bw', 'ib_read_bw'), ('-q', 4, '--cqe_poll', 4, '--perform_warm_up')),
    (('ib_send_bw', 'ib_write_bw'), ('--use_old_post_send',)),
    (('ib_write_lat', 'ib_read_lat'), ('--latency_gap', 100)),
    # A QP has no rate of its own here: the program limits it.
    (('ib_write_bw',), ('--rate_limit', 5, '--burst_size', 16)),
    (('ib_send_bw', 'ib_write_bw'), ('--retry_count', 3, '--disable_pcie_relaxed')),
    (('ib_read_bw', 'ib_atomic_bw'), ('-o', 4)),
)
# Those of the client alone.
CLIENT_OPTIONS = (
    (('ib_write_bw', 'ib_read_bw'), ('--use-null-mr',)),
)
# Each program over these, with regular QPs and the exchange of their data by rdma_cm.
COMMUNICATION = ('ib_write_bw', 'ib_read_lat', 'ib_send_lat')


def path(world, program):
    found = os.path.join(world.source, program)
    if not os.access(found, os.X_OK):
        raise Skip(f'no {found}: build it')
    return found


def all_of(cases, world):
    """Runs them all: one report for those that fail."""
    failed = []
    count = 0
    for case in cases:
        try:
            case.run(world.config, world.lab)
        except Failure as e:
            failed.append(f'{case.name}: {e}')
        count += 1
    if failed:
        raise Failure('\n'.join([f'{len(failed)} of {count} failed', *failed]))
    return f'{count} cases'


def case(world, program, options, **more):
    name = ' '.join([program, *map(str, options)])
    return cases_perftest.perftest(name, path(world, program), PLACES[world.place], options, **more)


def matrix(world):
    def cases():
        for program, transports in cases_perftest.PROGRAMS.items():
            for transport in transports:
                count, size = cases_perftest.lossy(transport, program)
                for env in (None, cases_perftest.WR_PATH):
                    yield case(world, program, ('-c', transport, *size), env=env, **count)
    return all_of(cases(), world)


def options(world):
    return all_of([*(case(world, program, said) for programs, said in OPTIONS for program in programs),
                   *(case(world, program, (), client_options=said) for programs, said in CLIENT_OPTIONS for program in programs)], world)


def connections(world):
    def cases():
        for program, said in (*((p, ('-R', *o)) for p, o in cases_cm.PERFTEST), *((p, ('-z',)) for p in COMMUNICATION)):
            common = [path(world, program), *said, '-F', '-p', '{port}', '-n', 50, '-u', cases_perftest.PATIENCE]
            yield from cases_cm.programs(' '.join(map(str, (program, *said))), common, common + ['{server}'], where=(PLACES[world.place],))
    return all_of(cases(), world)


PROGRAMS = [Program('perftest', [
    Run('from source: each program over RC, UC, UD, XRC', matrix),
    Run('from source: connections by rdma_cm (`-R`, `-z`)', connections),
    Run('from source: newer options', options),
], source='perftest')]
