# SPDX-License-Identifier: BSD-2-Clause
"""UCX's own tests (test/gtest) of its transports of RDMA, configured with --enable-gtest and built somewhere under the path.

Both ends of each test are in one process. A test that the transport cannot do says so and passes. What fails is in
DEVIATIONS with the reason.
"""
import os
import re

from harness import Skip, expect
from program import Program, Run

GUARD_S = 1500
DEVIATIONS = {}


def beneath(path, *last):
    """The first file under a path whose name ends in these parts."""
    for directory, _, files in os.walk(path):
        if last[-1] in files and directory.endswith(os.path.join('', *last[:-1])):
            return os.path.join(directory, last[-1])
    return None


def program(path):
    found = beneath(path, 'test', 'gtest', 'gtest')
    if not found or not os.access(found, os.X_OK):
        raise Skip(f'no test/gtest/gtest under {path}: configure with --enable-gtest and build it')
    return found


def version(path):
    header = beneath(path, 'config.h')
    text = ''
    if header:
        with open(header, encoding='utf-8') as f:
            text = f.read()
    found = re.search(r'^#define PACKAGE_VERSION "([^"]+)"', text, re.M)
    return found.group(1) if found else 'source'


def suite(transport, without=()):
    """All tests of a transport, but those of these patterns."""
    def run(world):
        chosen = f'--gtest_filter={transport}/*' + ('-' + ':'.join(without) if without else '')
        p = world.start(world.server, [program(world.source), chosen, '-t', GUARD_S], f'gtest of {transport}')
        p.wait(GUARD_S)
        ended = re.search(r'^\[==========\] (\d+) tests from \d+ test suites ran', p.stdout, re.M)
        expect(ended and int(ended.group(1)), 'it did not get to its end', p)
        failed = set(re.findall(r'^\[  FAILED  \] ([\w./]+).* \(\d+ ms\)$', p.stdout, re.M))
        expect(failed <= set(DEVIATIONS), f'failed beside what is known: {", ".join(sorted(failed - set(DEVIATIONS)))}', p)
        expect(p.popen.returncode == (1 if failed else 0), f'exit code {p.popen.returncode}', p)
        skipped = len(re.findall(r'^\[     SKIP \]', p.stdout, re.M))
        return f'{int(ended.group(1)) - len(failed) - skipped} of {ended.group(1)} pass, {skipped} not for this transport, ' \
               f'{len(failed)} known to fail'
    return run
