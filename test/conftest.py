# SPDX-License-Identifier: BSD-2-Clause
"""Cases for pytest: the function cases() of each file cases_*.py has them, objects with a name, a level and run(config, lab).

  /usr/bin/python3 -m pytest test/prog --build build --only 'pingpong/*'

Each process of pytest (with -n of xdist: each worker) has a network namespace and directories of its own where it is root, so
that cases at the same time share nothing but the processors. A case fails if it leaves something behind (leftovers.py). An agent
may outlive it.
"""
import fnmatch
import json
import os
import resource
import sys

import pytest

TEST = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(TEST, 'prog'), TEST]

import harness  # noqa: E402 # pylint: disable=wrong-import-position
import leftovers  # noqa: E402 # pylint: disable=wrong-import-position

LET = ('rocemu-agent', 'rocemu-holder')
SANITIZED = {
    # Which cases are run on a sanitizer build, where everything takes many times as long.
    'address': ('addresses/none*', 'pingpong/*/lo/poll', 'pingpong/*/lo/events', 'verbs/*/lo/*', 'verbs/errors/*', 'perftest/*/lo/path*',
                'badinput/*', 'cm/ece/lo', 'cm/killed/*/lo', 'cm/rping*/lo', 'cm/u*/lo', 'cm/rdma_client/lo', 'rsocket/r*stream/lo',
                'rsocket/udpong/lo', 'rsocket/rcopy*/lo', 'mcast/lo/*', 'port/*', 'paths/*', 'counters/live', 'counters/errors',
                'rdma/*', 'sysfs/*', 'lessons/*', 'stat/running', 'stat/dump.rnr', 'stat/prometheus',
                'events/u*', 'intercept/*', 'events/rping.removed', 'shm/pingpong/*/lo/poll', 'shm/loss', 'shm/killed/*', 'shm/scribbled'),
    # Stock programs have no annotations that the thread sanitizer could see; test programs are
    # built with it.
    'thread': ('verbs/*/lo/*', 'verbs/errors/*'),
}
# Groups that use less than half of a processor: several cases run at the same time. Those of all others are mostly two processes
# that spin.
WAITS = {'attack', 'badinput', 'bare', 'capture', 'cm', 'conform', 'conform-peer', 'counters', 'devices', 'events', 'faults', 'habits',
         'intercept', 'interface', 'lessons', 'limits', 'mcast', 'names', 'network', 'paths', 'port', 'rdma', 'rdma-core',
         'refused', 'rsocket', 'scenarios', 'stat', 'swept', 'sysfs', 'trace', 'verbs', 'why'}


def pytest_addoption(parser):
    group = parser.getgroup('rocemu')
    group.addoption('--build', default='build', help='build directory (default: %(default)s)')
    group.addoption('--only', metavar='PATTERN', action='append', default=[],
                    help='only cases whose name matches (* and ?; a part of the name suffices); may be repeated')
    group.addoption('--quick', action='store_true', help='only the short cover')
    group.addoption('--full', action='store_true', help='the whole matrix')
    group.addoption('--sanitize', choices=('address', 'thread'), help='the build directory is one with this sanitizer')
    group.addoption('--patience', type=int, default=leftovers.PATIENCE_S, help='seconds for what a case leaves behind to end (default: %(default)s)')
    group.addoption('--json', metavar='FILE', help='write the results there, too')


def wanted(case, options):
    if options.only:
        return any(fnmatch.fnmatchcase(case.name.lower(), f'*{pattern}*'.lower()) for pattern in options.only)
    if options.sanitize and not any(fnmatch.fnmatchcase(case.name, p) for p in SANITIZED[options.sanitize]):
        return False
    return case.level <= (harness.QUICK if options.quick else harness.FULL if options.full else harness.NORMAL)


# ---- collecting ------------------------------------------------------------------------------------------

def pytest_pycollect_makeitem(collector, name, obj):
    if name != 'cases':
        return None
    return [CaseItem.from_parent(collector, name=case.name, case=case) for case in obj() if wanted(case, collector.config.option)]


def kind_of(case):
    if getattr(case, 'alone', False):
        return 'alone'
    return 'waits' if case.name.split('/')[0] in WAITS else 'spins'


class CaseItem(pytest.Item):
    def __init__(self, *, case, **kwargs):
        super().__init__(**kwargs)
        self.case = case
        self.add_marker(kind_of(case))

    def runtest(self):
        bench = self.session.bench
        problems = []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            self.user_properties.append(('note', self.case.run(bench.config, bench.lab) or ''))
        except harness.Skip as e:
            pytest.skip(str(e))
        except harness.Failure as e:
            problems.append(str(e))
        except KeyboardInterrupt:
            leftovers.kill_all()
            raise
        finally:
            problems += bench.left()
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.user_properties.append(('cpu', round(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, 2)))
        if problems:
            raise harness.Failure('\n'.join(problems))

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if excinfo.errisinstance(harness.Failure) else super().repr_failure(excinfo, style)


# ---- where cases run -------------------------------------------------------------------------------------

class Bench:
    """What the cases of this process share."""

    def __init__(self, options):
        self.config = harness.Config(options.build, options.sanitize)
        leftovers.adopt()
        self.places = leftovers.Places()
        self.patience_s = options.patience
        harness.own_loopback()
        self.lab = harness.Lab(self.config)

    def left(self):
        """What a case has left behind."""
        return leftovers.processes_left(LET, self.patience_s) + self.places.left()

    def close(self):
        self.lab.close()
        return self.places.close()


def pytest_configure(config):
    rocemu = harness.Config(config.option.build).rocemu
    if not config.option.collectonly and not os.access(rocemu, os.X_OK):
        pytest.exit(f'{rocemu} is not there: build first (meson setup build && ninja -C build)', 2)


def pytest_runtest_setup(item):
    if not hasattr(item.session, 'bench'):
        item.session.bench = Bench(item.config.option)


def pytest_runtest_teardown(item, nextitem):
    left = item.session.bench.close() if nextitem is None else []
    if left:
        raise harness.Failure('\n'.join(['left behind:', *left]))


# ---- results ---------------------------------------------------------------------------------------------

ROWS = {}


def pytest_runtest_logreport(report):
    """A case's row is that of its call, or of what failed before or after. Each gets a line, with its note or why it is skipped."""
    if report.when != 'call' and report.passed:
        return
    outcome = {'passed': 'pass', 'failed': 'fail', 'skipped': 'skip'}[report.outcome]
    found = dict(report.user_properties)
    text = report.longrepr[2].removeprefix('Skipped: ') if report.skipped else str(report.longrepr or found.get('note', ''))
    name = report.nodeid.partition('::')[2].partition('@')[0]
    ROWS[name] = {'name': name, 'outcome': outcome, 'seconds': round(report.duration, 2), 'cpu': found.get('cpu', 0), 'text': text}
    label = {'pass': 'ok  ', 'fail': 'FAIL', 'skip': 'skip'}[outcome]
    print(f'{label} {name} {report.duration:.1f} s' + (f'\n{text}' if outcome == 'fail' else f'  ({text})' if text else ''), flush=True)


def pytest_report_teststatus(report):
    return report.outcome if report.when == 'call' or not report.passed else '', '', ''


def pytest_sessionfinish(session):
    path = session.config.option.json
    if path and not hasattr(session.config, 'workerinput'):
        with open(path, 'w', encoding='utf-8') as f:
            json.dump(list(ROWS.values()), f, indent=1)
