#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Builds libibverbs.so.1 anew with what gcc counts while perftest runs over loopback.

gcc then inlines and lays out the code for the paths that messages take. The build directory is configured with
-Dtraining=record for the run, and with -Dtraining=use for the result. It stays so: after a change of the sources the
counts of changed functions are not used. Exit code 0, or 2: not possible; the output ends with the reason.
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

import perftest
from perftest import harness

LIBRARY = 'src/verbs/libibverbs.so.1'
WIRES = 'udp', 'shm'
RUNS = [
    ('ib_send_lat', '-s', 8, '-n', 300000),
    ('ib_write_lat', '-s', 8, '-n', 100000),
    ('ib_read_lat', '-s', 8, '-n', 20000),
    ('ib_send_lat', '-e', '-s', 8, '-n', 5000),
    ('ib_write_bw', '-s', 64, '-n', 100000),
    ('ib_send_bw', '-s', 64, '-n', 100000, '-l', 32, '-r', 512),
    ('ib_read_bw', '-s', 64, '-n', 50000),
    ('ib_atomic_bw', '-n', 20000),
    ('ib_write_bw', '-s', 65536, '-n', 2000),
    ('ib_send_bw', '-s', 65536, '-n', 2000),
    ('ib_read_bw', '-s', 65536, '-n', 2000),
]


def say(text):
    print(text, flush=True)


def build(directory, training):
    """Configure and compile. The distribution's python3 runs meson whatever else is first in PATH."""
    env = dict(os.environ, PATH='/usr/bin:/bin:' + os.environ.get('PATH', ''))
    for argv in (['meson', 'configure', directory, f'-Dtraining={training}'], ['ninja', '-C', directory]):
        p = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if p.returncode:
            raise harness.Failure(f'{" ".join(argv)}:\n{p.stdout[-4000:]}{p.stderr[-4000:]}')


def counts(directory):
    return list(Path(directory, 'src', 'verbs').rglob('*.gcda'))


def train(directory):
    bench = perftest.Perftest(directory)
    for n, (wire, argv) in enumerate([(w, r) for w in WIRES for r in RUNS], 1):
        say(f'  {n}/{len(WIRES) * len(RUNS)} {" ".join(map(str, argv))}, wire {wire}')
        bench.row(*argv, run_options=('--wire', wire))


def check(directory):
    """The new library works."""
    bench = perftest.Perftest(directory)
    for wire in WIRES:
        us = bench.row('ib_send_lat', '-s', 8, '-n', 20000, run_options=('--wire', wire))[4]
        say(f'  ib_send_lat -s 8, wire {wire}: {us} us')


def trained(directory):
    """@return how many files have counts. On failure the library is compiled without: one that counts is slow."""
    for old in counts(directory):
        old.unlink()
    try:
        say('compiling, to count')
        build(directory, 'record')
        if b'__gcov_' not in Path(directory, LIBRARY).read_bytes():
            raise harness.Failure('the library does not count: the compiler is not gcc, or the build has a sanitizer, '
                                  'coverage, -Db_lto=true or an optimization below 2')
        say('running')
        train(directory)
        files = len(counts(directory))
        if not files:
            raise harness.Failure('the run left no counts')
        say('compiling, with the counts')
        build(directory, 'use')
        check(directory)
    except BaseException:
        say('not trained: compiling without counts')
        build(directory, 'none')
        raise
    return files


def enter_namespace():
    """No other program's agent or port 4791 is in a network namespace of our own. An ordinary user needs a user
    namespace as well; where that is not allowed, the system's loopback interface has to do."""
    enter = ['unshare', '--user', '--map-root-user', '--net']
    if harness.own_loopback() or os.geteuid() == 0:
        return
    if subprocess.run([*enter, 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        os.execvp(enter[0], [*enter, sys.executable, *sys.argv])


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    args = p.parse_args()
    try:
        enter_namespace()
        files = trained(args.build)
    except (harness.Failure, OSError, subprocess.SubprocessError) as e:
        print(f'{p.prog}: {e}', file=sys.stderr)
        return 2
    say(f'{args.build}/{LIBRARY} is trained: counts of {files} files')
    return 0


if __name__ == '__main__':
    sys.exit(main())
