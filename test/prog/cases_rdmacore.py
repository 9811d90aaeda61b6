# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own tests, which distributions install as documentation of python3-pyverbs, on an emulated device.

ROCEMU_RDMA_CORE_TESTS names the directory of another version's; PYTHONPATH is then that of its pyverbs, and rocemu has
to be built with its headers.
"""
import gzip
import os
import re
import shutil
import tempfile

from harness import FULL, NORMAL, Case, Skip, expect, gid_index, run

INSTALLED = os.environ.get('ROCEMU_RDMA_CORE_TESTS') or '/usr/share/doc/rdma-core/tests'
# Modules of it that are not of one vendor's devices, by how many of their tests must at least have
# run on emulated devices: a module that only skips shows nothing. None for what no emulated device
# has (raw Ethernet, tag matching, import, GPUs, clocks of an adapter). docs/verbs.md lists the
# skipped ones.
MODULES = {
    'addr': 3, 'atomic': 9, 'buf': 19, 'cq': 4, 'cq_events': 2, 'cqex': 5, 'cuda_dmabuf': None, 'device': 15,
    'dmah': None, 'flow': None, 'fork': 1, 'mr': 15, 'odp': 8, 'parent_domain': 5, 'pd': 4, 'phc_timestamp': None,
    'qp': 18, 'qpex': 18, 'relaxed_ordering': 3, 'rss_traffic': None, 'rdmacm': 10, 'shared_pd': None, 'srq': 3,
    'tag_matching': None,
}
GUARD_S = 300


def unpacked(where):
    """The tests as files that Python runs."""
    to = os.path.join(where, 'tests')
    shutil.copytree(INSTALLED, to)
    for name in os.listdir(to):
        if name.endswith('.gz'):
            with gzip.open(os.path.join(to, name)) as packed, open(os.path.join(to, name[:-3]), 'wb') as plain:
                shutil.copyfileobj(packed, plain)
    return os.path.join(to, 'run_tests.py')


class Outcome:
    """What a run of them wrote, by `-v`: {(module, test): result} and the number of tests."""

    def __init__(self, text):
        # A line for each, and with its description a second; of a class that is skipped as a whole there is one.
        parts = re.split(r'^(\w+) \(tests\.(?:test_)?(\w+)\.[\w.]+\)', text, flags=re.M)
        self.results = {}
        for test, module_name, said in zip(parts[1::3], parts[2::3], parts[3::3]):
            result = re.search(r' \.\.\. .*?(ok|skipped|FAIL|ERROR)\b', said, re.S)
            if result:
                self.results[module_name, test] = result.group(1)
        total = re.search(r'^Ran (\d+) tests? in', text, re.M)
        self.total = int(total.group(1)) if total else None
        skipped = re.search(r'^(?:OK|FAILED) \(.*?\bskipped=(\d+)', text, re.M)
        self.skipped = int(skipped.group(1)) if skipped else 0
        self.failed = re.findall(r'^(?:FAIL|ERROR): (\w+ \(tests\.[\w.]+\))', text, re.M)

    def tests(self, result):
        """(module, test) of those with a result."""
        return sorted(key for key, said in self.results.items() if said == result)

    def note(self):
        return f'{self.total - self.skipped - len(self.failed)} passed, {len(self.failed)} failed, {self.skipped} skipped'


def run_tests(config, side, program, names=(), env=None):
    """Them all, or those of some modules; how it ended, and the process."""
    p = run(config, side, ['/usr/bin/python3', '-B', program, '--dev', side.name, '--gid', gid_index(config, side, env),
                           '-v', *(f'tests.test_{name}' for name in names)], 'tests of rdma-core', env, timeout=GUARD_S)
    outcome = Outcome(p.stderr)
    expect(p.popen.returncode == 0 and outcome.total and not outcome.failed,
           f'tests of rdma-core failed: {", ".join(outcome.failed) or "it did not get to its end"}', p)
    return outcome, p


def module(name, where):
    def check(config, lab):
        if not os.path.isdir(INSTALLED):
            raise Skip('rdma-core\'s tests are not installed (package python3-pyverbs)')
        topo = lab.get(where)
        topo.check()
        with tempfile.TemporaryDirectory(prefix='rocemu-rdma-core-') as d:
            program = unpacked(d)
            if not os.path.exists(os.path.join(d, 'tests', f'test_{name}.py')):
                raise Skip('not among the tests of this rdma-core')
            outcome, p = run_tests(config, topo.client, program, [name])
        ran = outcome.total - outcome.skipped
        expect(ran >= (MODULES[name] or 0), f'only {ran} tests ran, the others were skipped', p)
        return f'{ran} ran, {outcome.skipped} skipped'

    return check


def cases():
    for name, least in MODULES.items():
        # The connection manager's need an interface with its own address.
        first = 'veth1500-v4' if name == 'rdmacm' else 'lo'
        yield Case(f'rdma-core/{name}/{first}', module(name, first), FULL if least is None else NORMAL)
        if least is not None:
            yield Case(f'rdma-core/{name}/veth9000-v6', module(name, 'veth9000-v6'), FULL)
