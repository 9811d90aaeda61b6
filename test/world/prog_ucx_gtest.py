# SPDX-License-Identifier: BSD-2-Clause
"""UCX's own tests (test/gtest) of its transports of RDMA (UCT) and of its protocols over them (UCP).

Configured with --enable-gtest (and --enable-params-check, for more of UCP's tests) and built somewhere under the path.

Both ends of each test are in one process. A test that the transport cannot do, or that the suite leaves out, prints that
and passes. What fails is in DEVIATIONS with the reason.
"""
import os
import re

from harness import Skip, expect
from program import PLACES, Program, Run

GUARD_S = 1500
WATCHDOG_S = 600                      # the suite's own guard, of one test
NO_ECE = 'sets ECE, which the device has not: UCX refuses, and the test does not ask'
NO_FLUSH = 'a strong fence flushes at the peer, which takes mlx5\'s indirect keys: over rc_verbs UCX logs that it is not supported'
NO_ROUTE = 'connects to 240.0.0.0 and waits for an error; without a default route rdma_resolve_addr() fails at once'
DEVIATIONS = {
    'rc_verbs/test_rc_ece.ece_0/0': NO_ECE,
    'rc_verbs/test_rc_ece.ece_custom/0': NO_ECE,
    'rc_verbs/test_rc_ece.ece_inf/0': NO_ECE,
    'rc_verbs/test_rc_iface_flush_remote.size_no_flush_remote/0': 'wants the size of address that mlx5\'s indirect keys take',
    **{f'rc/test_ucp_{test}/0': NO_FLUSH for test in ('fence32.atomic_add_fadd', 'fence64.atomic_add_fadd', 'fence64.atomic_add_fadd_strong')},
    **{f'rdmacm/test_uct_sockaddr_err_handle_non_exist_ip.conn_to_non_exist_ip/{i}': NO_ROUTE for i in range(6)},
}
# Benchmarks, and a million WRITEs one by one.
MINUTES = ('test_uct_perf.*', 'test_uct_loopback.*', 'test_zcopy_comp.issue1440/*')
PERF = ('test_ucp_perf.*', 'test_ucp_tag_perf.*')
# With timeout 100 us and 4 retries: time enough for adapters, not for 256 receivers on two processors.
FAILURES = ('*peer_failure*',)
# With timeout 100 us and 3 retries: a processor that another program has for half a millisecond ends a connection.
CONNECTIONS = ('*sockaddr*', 'test_max_lanes.*')
SLOWLY = ('--time-scale', '0.02')


def program(path):
    for directory, _, files in os.walk(path):
        found = os.path.join(directory, 'gtest')
        if 'gtest' in files and directory.endswith('/test/gtest') and os.access(found, os.X_OK):
            return found
    raise Skip(f'no test/gtest/gtest under {path}: configure with --enable-gtest and build it')


def version(path):
    header = os.path.join(os.path.dirname(program(path)), '..', '..', 'config.h')
    with open(header, encoding='utf-8') as f:
        found = re.search(r'^#define PACKAGE_VERSION "([^"]+)"', f.read(), re.M)
    return found.group(1) if found else 'source'


def failures(text):
    """Names of tests that failed, but those in which only descriptors were found that were not open before: of those that the
    libraries keep open for a device the suite has only the names of the kernel's files on its list."""
    names = set()
    for begin, name in ((m.start(), m.group(1)) for m in re.finditer(r'^\[  FAILED  \] ([\w./]+), where .* \(\d+ ms\)$', text, re.M)):
        said = text[text.rfind('[ RUN ', 0, begin):begin]
        if said.count(': Failure\n') != 1 or 'fd leaks detected' not in said:
            names.add(name)
    return names


def suite(transport, only=('*',), without=(), options=()):
    """All tests of a transport, or those of some patterns, but those of others."""
    def run(world):
        chosen = ':'.join(f'{transport}/{pattern}' for pattern in only)
        refused = '-' + ':'.join(f'{transport}/{pattern}' for pattern in without) if without else ''
        p = world.start(world.server, [program(world.source), f'--gtest_filter={chosen}{refused}', '-t', WATCHDOG_S],
                        f'gtest of {transport}', options=options)
        p.wait(GUARD_S)
        ended = re.search(r'^\[==========\] (\d+) tests? from \d+ test suites? ran', p.stdout, re.M)
        expect(ended and int(ended.group(1)), 'it did not get to its end, or had no test', p)
        failed = failures(p.stdout)
        beside = sorted(name for name in failed if name not in DEVIATIONS)
        expect(not beside, f'failed beside what is known: {", ".join(beside)}', p)
        expect(p.popen.returncode in (0, 1), f'exit code {p.popen.returncode}', p)
        unable = len(re.findall(r'^\[     SKIP \]', p.stdout, re.M))
        return f'{ended.group(1)} tests: {int(ended.group(1)) - unable - len(failed)} pass, {unable} are left out or are for other transports or adapters, ' \
               f'{len(failed)} known to fail'
    return run


def run_of(what, *args, places=('lo',), options=(), **more):
    return Run(f'gtest of {what}', suite(*args, options=options, **more), places, needs=f'`{" ".join(options)}`' if options else '')


# Between two namespaces there is nothing for one process; but addresses of an interface differ from those of lo.
PROGRAMS = [Program('UCX', [
    run_of('UCT, rc_verbs', 'rc_verbs', without=MINUTES + FAILURES),
    run_of('UCT, rc_verbs, failing peers', 'rc_verbs', only=FAILURES, options=SLOWLY),
    run_of('UCT, ud_verbs', 'ud_verbs', without=MINUTES),
    run_of('UCT, rdmacm', 'rdmacm', places=tuple(PLACES)),
    run_of('UCP, rc', 'rc', without=PERF + CONNECTIONS),
    run_of('UCP, ud', 'ud', without=PERF + CONNECTIONS),
    run_of('UCP, rc, connections by rdma_cm', 'rc', only=CONNECTIONS, options=SLOWLY),
], source='ucx', version=version)]
