#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Builds rocemu and runs its tests, in stages:

  plain    build/       gcc, warnings are errors: unit tests, simulator, program tests
  address  build-asan/  AddressSanitizer and UBSan: unit tests, simulator, a part of the program tests
  thread   build-tsan/  ThreadSanitizer: what has threads or is called from several, a part of the program tests
  clang    build-clang/ clang, warnings are errors, thread-safety analysis (tests are not compiled but parsed); the fuzzers,
                        for a bounded time
  world    build/       the world's RDMA programs, as the distribution packages them (test/world/run.sh)
  environments build/   the two commands in environments unlike this one (test/install)
  packages              Debian and RPM packages, the tarball, a build without its options, systemd's units (test/install)
  interop  build/       against the kernel's Soft-RoCE in a QEMU guest, where one can be had (test/interop/run.sh)

A test that fails is run once more, alone, when its stage's tests have ended: others share the
machine. What passes then counts as passed, and is listed as flaky, with both outputs.

Started by test/run.sh, which installs what is missing. It ends with where the time went, and the
number of flaky tests. The last line is "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import contextlib
import fnmatch
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

STAGES = ('plain', 'address', 'thread', 'clang', 'world', 'environments', 'packages', 'interop')
CANNOT_RUN = 77
# What a test or a stage leaves behind fails it. An agent goes on after a test until it is idle, but not after the stage.
LEFT_BEHIND = 76
LEFTOVERS = [os.path.join(os.path.dirname(os.path.abspath(__file__)), 'leftovers.py')]
TEST_WRAPPER = ' '.join([*map(shlex.quote, LEFTOVERS), '--let', 'rocemu-agent', '--let', 'rocemu-holder'])
PYTEST = ('/usr/bin/python3', '-m', 'pytest')
NO_CASE = 5    # its exit code
CASES = {'plain': 'test/prog', 'address': 'test/prog', 'thread': 'test/prog', 'world': 'test/world', 'environments': 'test/install'}
PACKAGES = ('debian.sh', 'rpm.sh', 'dist.sh', 'options.py', 'service.sh')    # of test/install
FUZZ_SECONDS = 10
HIDDEN = ('/tmp', '/dev/shm', '/run')    # from programs, by test/prog/cases_bare.py
INTERRUPTED_S = 30
SECOND_TRIES = 8    # more failures than that are no accident
JOBS = max(2, os.cpu_count() or 2)
UNIT_JOBS = 2 * JOBS    # half of the time they wait
AHEAD = {}    # stage: the result of its build, before its turn; process: what builds now; stop: end it
# The kernel groups processes by session, and gives each group as much.
IDLE = ('nice', '-n', '19', 'sh', '-c', 'echo 19 2>/dev/null >/proc/self/autogroup; exec "$@"', 'sh')
AT_ONCE = {'waits': 2 * JOBS, 'spins': JOBS, 'alone': 0}    # cases of each kind (test/conftest.py), where there are namespaces
LONGEST = 10    # tests that are listed with their time, where there are more
BEGAN = time.monotonic()
BUILDS = {  # of each stage that has one of its own
    'plain': ('build', {}, ['-Dwerror=true', '-Dtests=true', '-Dfuzz=false', '-Db_sanitize=none']),
    # gcc warns of things that are not there when it instruments: plain and clang are where warnings are errors.
    'address': ('build-asan', {}, ['-Dwerror=false', '-Db_sanitize=address,undefined', '-Db_lundef=false']),
    'thread': ('build-tsan', {}, ['-Dwerror=false', '-Db_sanitize=thread', '-Db_lundef=false']),
    'clang': ('build-clang', {'CC': 'clang'}, ['-Dwerror=true', '-Dfuzz=true']),
}
# Meson suites of each stage; None: all. shape, layering and install look at the libraries from outside, or load them
# into programs without a sanitizer's runtime. The fuzzers of stage clang have sanitizers.
SUITES = {
    'plain': None,
    'address': ('example', 'base', 'wire', 'transport', 'cm', 'sim', 'netdev', 'fault', 'engine', 'agent', 'verbs', 'interpose', 'rdmacm',
                'rsocket', 'nldev'),
    'thread': ('base', 'netdev', 'fault', 'engine', 'agent', 'verbs', 'rdmacm', 'rsocket'),
    'clang': (),
}
PROGRAMS = ('src/', 'tools/', 'lab/', 'examples/', 'test/prog/', 'test/scenario/')    # folders of what cases start
# What --quick leaves out: tests of more than two or three seconds each. Most of that time they wait.
SLOW = {
    'agent/agent-agent', 'agent/agent-client', 'agent/agent-fuzz-users', 'agent/agent-fuzz-users-any', 'agent/agent-gsi',
    'agent/agent-holder', 'agent/agent-liar', 'agent/agent-users-names', 'base/base-words', 'cm/cm-masks', 'conform/conform-outputs',
    'conform/conform-self', 'docs/doc-console',
    'engine/engine-lane-order', 'engine/engine-lane-tx', 'fuzz/fuzz-annotate', 'fuzz/fuzz-cm', 'fuzz/fuzz-rdmacm',
    'fuzz/fuzz-sequence', 'fuzz/fuzz-transport', 'fuzz/fuzz-verify', 'install/librocemu', 'netdev/netdev-netmon', 'parity/parity',
    'rdmacm/rdmacm-device-watch', 'rdmacm/rdmacm-errors', 'recipes/recipes-ci', 'recipes/recipes-containers',
    'recipes/recipes-kubernetes', 'recipes/recipes-networks', 'recipes/recipes-programs', 'rsocket/rsocket-compare',
    'rsocket/rsocket-keepalive', 'rsocket/rsocket-many', 'rsocket/rsocket-stream', 'shortage/shortage-agent',
    'shortage/shortage-cm', 'shortage/shortage-rsocket', 'shortage/shortage-verbs', 'sim/crowd', 'sim/goodput',
    'sim/large', 'sim/masks', 'sim/random', 'sim/silent', 'sim/stores', 'sim/turns', 'sim/world',
    'verbs/verbs-limits', 'verbs/verbs-port', 'verbs/verbs-wait', 'verify/browser', 'verify/cuts', 'verify/disorder',
    'verify/live', 'verify/mutate', 'verify/outputs', 'verify/points', 'verify/samples', 'verify/volume',
}
# Suites beside the one of a folder's own name that a change below it concerns: the first prefix that fits.
CONCERNS = (
    ('lab/capture/', ('wire', 'verify', 'fuzz')), ('lab/verify/', ('verify', 'fuzz')), ('lab/parity/', ('parity',)),
    ('lab/conform/', ('conform', 'cli', 'fuzz')), ('lab/', ('cli',)),
    ('tools/nldev/', ('nldev',)), ('tools/', ('shape', 'prog', 'cli')),
    ('src/transport/', ('transport', 'sim')), ('src/verbs/', ('verbs', 'shape')), ('src/', ()), ('include/', ('wire', 'transport', 'verbs')),
    ('test/scenario/', ('transport', 'docs')), ('test/', ()), ('docs/', ('docs', 'prog', 'verbs', 'cli')),
    ('man/', ('docs', 'shape', 'cli')),
)
SANITIZER_ENV = {
    'ASAN_OPTIONS': 'detect_leaks=1:exitcode=99',
    'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1',
    'TSAN_OPTIONS': 'exitcode=99',
}


def clean_environment():
    """What the caller has set for programs of their own is not for the tests; a seed to repeat is."""
    for name in [n for n in os.environ if n.startswith('ROCEMU_') and n != 'ROCEMU_TEST_SEED']:
        del os.environ[name]


class Tally:
    """Counts, and messages for the end."""

    def __init__(self):
        self.counts = {'pass': 0, 'fail': 0, 'skip': 0}
        self.notes = []
        self.flaky = []
        self.parts = []       # (name, seconds) of what was run, in its order
        self.tests = []       # (seconds, name)
        self.warnings = []    # printed at the beginning, and once more where something failed

    def warn(self, texts):
        self.warnings += texts
        for text in texts:
            say(f'warning: {text}')

    def add(self, outcome, name, text=''):
        self.counts[outcome] += 1
        if outcome != 'pass':
            self.notes.append(f'{"FAIL" if outcome == "fail" else "skip"} {name}' + (f': {text}' if text else ''))

    def add_flaky(self, name, first, second):
        """It failed, and passed when it was run again alone. With what it printed."""
        self.flaky.append((name, first, second))

    def took(self, name, begin):
        """A part of a stage, since a time of time.monotonic()."""
        self.parts.append((name, time.monotonic() - begin))

    def show_times(self):
        if len(self.tests) <= LONGEST:
            return
        print('\nwhere the time went:')
        for name, seconds in [*self.parts, ('all', time.monotonic() - BEGAN)]:
            print(f'  {minutes(seconds)}  {name}')
        print('the longest tests:')
        for seconds, name in sorted(self.tests, reverse=True)[:LONGEST]:
            print(f'  {minutes(seconds)}  {name}')

    def finish(self):
        self.show_times()
        if self.flaky:
            print(f'\n{len(self.flaky)} flaky, failed and then passed alone:')
            for name, *texts in self.flaky:
                print(f'  {name}')
                for when, text in zip(('first', 'then'), texts):
                    print('\n'.join(f'    {when}: {line}' for line in excerpt(text).splitlines() or ['']))
        if self.notes:
            print('\n'.join(['', 'not passed:'] + [f'  {note}' for note in self.notes]))
        c = self.counts
        if c['fail'] and self.warnings:
            print('\n'.join(['', 'warnings:'] + [f'  {text}' for text in self.warnings]))
        print(f'\n{c["pass"]} passed, {c["fail"]} failed, {c["skip"]} skipped', flush=True)
        return 1 if c['fail'] else 0


def unsuitable(top):
    """Why tests are skipped in this directory; lines. Only root starts processes as other users and mounts over directories."""
    if os.geteuid() != 0:
        return []
    places = [top]
    while places[-1] != '/':
        places.append(os.path.dirname(places[-1]))
    closed = [p for p in places if not os.stat(p).st_mode & 0o001]
    hidden = [p for p in HIDDEN if p in places[1:]]
    return ([f'other users cannot enter {closed[-1]}: the tests with a second user are skipped'] if closed else []) + \
        [f'this directory is below {p}: those of the tests bare/* that hide it are skipped' for p in hidden]


def unusable(stages):
    """Why nothing can be run here, in one line with what to do; or None."""
    for stage in stages:
        place = BUILDS.get(stage, BUILDS['plain'])[0]
        place = os.path.abspath(place if os.path.exists(place) else '.')
        if not os.access(place, os.W_OK):
            why = 'is read-only' if os.statvfs(place).f_flag & os.ST_RDONLY else f'belongs to user {os.stat(place).st_uid}'
            return f'user {os.geteuid()} cannot write to {place}, which {why}: run this in a copy of your own'
    place = os.environ.get('TMPDIR') or '/tmp'
    if not os.path.isdir(place) or not os.access(place, os.W_OK | os.X_OK):
        return f'user {os.geteuid()} cannot write to {place}: set TMPDIR to a directory where that is possible'
    return None


def minutes(seconds):
    return f'{int(seconds) // 60}:{int(seconds) % 60:02d}'


def say(text):
    print(f'== {minutes(time.monotonic() - BEGAN)} {text}', flush=True)


def excerpt(text, head=20, end=60):
    """The beginning as well: what failed first may have made all the rest fail."""
    rows = text.rstrip().splitlines()
    return '\n'.join(rows if len(rows) <= head + end else rows[:head] + ['...'] + rows[-end:])


def last_line(text):
    return text.rstrip().rpartition('\n')[2]


@contextlib.contextmanager
def start(argv, **options):
    """A process that ends before this one. A terminal interrupts it as well, and it has time to clean up."""
    with subprocess.Popen(argv, **options) as p:
        try:
            yield p
        except KeyboardInterrupt:
            try:
                p.wait(INTERRUPTED_S)
            except subprocess.TimeoutExpired:
                p.terminate()
                p.wait()
            raise


def run(argv):
    with start(argv) as p:
        return p.wait()


def run_quietly(argv, env, idle=False):
    """@return exit code, output. idle: by processor time that nothing else uses, in a session of its own."""
    if idle and 'stop' in AHEAD:
        return 1, 'interrupted'
    argv = [*IDLE, *argv] if idle else argv
    with start(argv, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=idle) as p:
        if idle:
            AHEAD['process'] = p
        text = p.communicate()[0]
    return p.returncode, text


def configure(stage, idle=False):
    """Configure (again). @return exit code, output"""
    directory, env, options = BUILDS[stage]
    command = 'configure' if os.path.exists(os.path.join(directory, 'build.ninja')) else 'setup'
    return run_quietly(['meson', command, directory, *options], env, idle)


def compile_stage(stage, targets, idle=False):
    """Configure and compile. @return exit code, output"""
    directory, env, _ = BUILDS[stage]
    code, text = configure(stage, idle)
    if code == 0:
        code, text = run_quietly(['ninja', '-C', directory, f'-j{JOBS}', *targets(stage)], env, idle)
    return check_rest(directory, idle) if code == 0 and stage == 'clang' else (code, text)


def check_rest(directory, idle):
    """The compiler's warnings of each file that is in no target of the stage. @return exit code, output"""
    with open(os.path.join(directory, 'compile_commands.json'), encoding='utf-8') as f:
        rows = {os.path.relpath(os.path.join(directory, row['file'])): row for row in json.load(f)}
    rows = {name: row for name, row in rows.items() if not name.startswith((*PROGRAMS, 'test/fuzz/'))}
    commands = [re.sub(r' -MD -MQ .*? -o .*? -c ', ' -fsyntax-only ', row['command']) for row in rows.values()]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = pool.map(lambda command: run_quietly(['sh', '-c', f'cd "$0" && {command}', directory], {}, idle), commands)
        return next((result for result in results if result[0] != 0), (0, ''))


def build(stage, tally, what='', targets=lambda stage: ()):
    """Configure (again) and compile; False when that failed. targets(stage): ninja's, from the configured directory; none: all."""
    begin = time.monotonic()
    say(f'{stage}: building {BUILDS[stage][0]}/' + (f': {what}' if what else ''))
    code, text = AHEAD.pop(stage).result() if stage in AHEAD else compile_stage(stage, targets)
    if code != 0:
        print(excerpt(text), flush=True)
        tally.add('fail', f'{stage}/build', 'see above')
        return False
    tally.add('pass', f'{stage}/build')
    tally.took(f'{stage}: build', begin)
    return True


@contextlib.contextmanager
def building_ahead(stages):
    """Builds stages in the meantime, by the processor time that tests leave."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for stage in stages:
            AHEAD[stage] = pool.submit(compile_stage, stage, stage_files, True)
        try:
            yield
        except BaseException:
            AHEAD['stop'] = True
            if 'process' in AHEAD and AHEAD['process'].poll() is None:
                os.killpg(AHEAD['process'].pid, signal.SIGTERM)
            raise


def check_left(code, name, tally, text=''):
    if code == LEFT_BEHIND:
        print(excerpt(text), flush=True)
        tally.add('fail', f'{name}: left something behind', 'see above')


# ---- unit tests, by meson --------------------------------------------------------------------------------

def introspect(directory, what):
    out = subprocess.run(['meson', 'introspect', f'--{what}', directory], capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def suite_of(test):
    return test['suite'][0].split(':')[-1]


def full_name(test):
    return f'{suite_of(test)}/{test["name"]}'


def wanted_tests(stage, only):
    """Those of the stage, as meson describes them. only: patterns of full names; none: all."""
    for test in introspect(BUILDS[stage][0], 'tests'):
        if SUITES[stage] is None or suite_of(test) in SUITES[stage]:
            if not only or any(fnmatch.fnmatchcase(full_name(test), f'*{p}*') for p in only):
                yield test


def cmocka_cases(output):
    """Outcome by case, from what cmocka prints; empty for a test of another kind."""
    cases = {}
    for word, name in re.findall(r'^\[\s+(OK|FAILED|SKIPPED|ERROR)\s+\] ([A-Za-z_]\w*)', output, re.M):
        outcome = {'OK': 'pass', 'SKIPPED': 'skip'}.get(word, 'fail')
        if cases.get(name) != 'fail':
            cases[name] = outcome
    return cases


def output_of(row):
    return row.get('stdout', '') + '\n' + row.get('stderr', '')


def count_meson_test(row, stage, tally):
    name = f'{stage}/{full_name_of(row)}'
    output = output_of(row)
    cases = cmocka_cases(output)
    for case, outcome in cases.items():
        # A case that skips itself prints the reason in a separate line.
        why = re.search(r'skipped: (.*)', output) if outcome == 'skip' else None
        tally.add(outcome, f'{name}: {case}', why.group(1) if why else '')
    if row['result'] == 'SKIP':
        tally.add('skip', name, last_line(output))
    elif row['result'] != 'OK':
        print(f'-- {name}: {row["result"]}\n{excerpt(output)}', flush=True)
        if 'fail' not in cases.values():
            tally.add('fail', name, row['result'].lower())
    elif not cases:
        tally.add('pass', name)


def run_meson_tests(stage, names, jobs, tally):
    """meson's result of each; None when it does not run."""
    directory, env, _ = BUILDS[stage]
    # Meson adds the wrapper's name to that of its log.
    log = os.path.join(directory, 'meson-logs', f'testlog-{os.path.basename(LEFTOVERS[0])}.json')
    if os.path.exists(log):
        os.unlink(log)
    # Limits are there for what hangs; others share the machine.
    multiplier = '4' if stage == 'plain' else '10'
    code, text = run_quietly([*LEFTOVERS, 'meson', 'test', '-C', directory, '--no-rebuild', '--num-processes', str(jobs), '--wrapper',
                              TEST_WRAPPER, '--timeout-multiplier', multiplier, *names], {**SANITIZER_ENV, **env})
    check_left(code, f'{stage}/unit tests', tally, text)
    if not os.path.exists(log):
        print(excerpt(text), flush=True)
        tally.add('fail', f'{stage}/meson test', f'exit code {code}')
        return None
    with open(log, encoding='utf-8') as f:
        return [json.loads(line) for line in f]


def full_name_of(row):
    """SUITE/NAME of Meson's "project:suite / name"."""
    return row['name'].split(':')[-1].strip().replace(' / ', '/')


def short_name(row):
    """The same as Meson takes it on the command line."""
    return row['name'].split(' / ')[-1].strip()


def unit_tests(stage, only, tally):
    run_unit_tests(stage, [test['name'] for test in wanted_tests(stage, only)], tally)


def run_unit_tests(stage, names, tally):
    if not names:
        return
    begin = time.monotonic()
    say(f'{stage}: {len(names)} unit test programs')
    rows = run_meson_tests(stage, names, UNIT_JOBS, tally) or []
    tally.tests += [(row['duration'], f'{stage}: {full_name_of(row)}') for row in rows]
    failed = [row for row in rows if row['result'] not in ('OK', 'SKIP')]
    again = {}
    if 0 < len(failed) <= SECOND_TRIES:
        say(f'{stage}: again, alone: {" ".join(short_name(row) for row in failed)}')
        again = {row['name']: row for row in run_meson_tests(stage, [short_name(row) for row in failed], 1, tally) or []}
    for row in rows:
        second = again.get(row['name'])
        if second and second['result'] == 'OK':
            tally.add_flaky(f'{stage}/{short_name(row)}', f'{row["result"].lower()}\n{output_of(row)}', output_of(second))
            row = second
        count_meson_test(row, stage, tally)
    tally.took(f'{stage}: unit tests', begin)


# ---- the quick ones: what changed first ---------------------------------------------------------------------

def changed_files():
    """Files that are not committed, or else those of the last commit; none where there is no git."""
    if not shutil.which('git'):
        return []
    for argv in (['git', 'status', '--porcelain', '-uall'], ['git', 'show', '--format=', '--name-status', 'HEAD']):
        out = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        names = [line.split()[-1] for line in out.splitlines() if line]
        if names:
            return names
    return []


def suites_of(names):
    """The suites that a change of these files concerns."""
    suites = {'layering'}
    for name in names:
        suites.update(next((more for prefix, more in CONCERNS if name.startswith(prefix)), ()))
        suites.update(part for part in name.split('/')[1:-1][:1] if name.startswith(('src/', 'test/')))
    return suites


def files_of(directory, tests, folders=()):
    """What ninja is to build for these tests of meson, and the targets of these folders."""
    targets = {t['id']: t for t in introspect(directory, 'targets')}
    wanted = [targets[d] for test in tests for d in test['depends']]
    wanted += [t for t in targets.values() if os.path.relpath(t['defined_in']).startswith(folders)]
    return sorted({os.path.relpath(f, directory) for t in wanted for f in map(os.path.abspath, t['filename'])})


def stage_files(stage):
    """What the tests of a stage need; none: everything."""
    if SUITES[stage] is None:
        return []
    return files_of(BUILDS[stage][0], list(wanted_tests(stage, ())), (*PROGRAMS, 'test/fuzz/') if stage == 'clang' else PROGRAMS)


def quick_batches(directory, suites):
    """(what it is, names of tests, files to build), twice: what the suites have, then the rest and what programs run by."""
    first, rest = [], []
    for test in introspect(directory, 'tests'):
        if full_name(test) not in SLOW:
            (first if suite_of(test) in suites else rest).append(test)
    yield 'what the change concerns', [t['name'] for t in first], files_of(directory, first)
    yield 'the rest', [t['name'] for t in rest], files_of(directory, rest, PROGRAMS)


def quick(args, tally):
    """Unit tests of what changed, the others but the slow ones, the short cover of programs; builds what these need."""
    directory = BUILDS['plain'][0]
    code, text = configure('plain')
    if code != 0:
        print(excerpt(text), flush=True)
        tally.add('fail', 'plain/build', 'see above')
        return
    suites = suites_of(changed_files())
    for what, names, files in quick_batches(directory, suites):
        if not build('plain', tally, f'{what} ({" ".join(sorted(suites))})' if what.startswith('what') else what, lambda stage, files=files: files):
            return
        run_unit_tests('plain', names, tally)
    case_tests('plain', args, tally)


# ---- cases, by pytest ------------------------------------------------------------------------------------

def run_pytest(stage, argv, tally):
    """Rows of results by name, as test/conftest.py writes them; empty where nothing matches, or pytest did not come to an end."""
    directory = BUILDS.get(stage, BUILDS['plain'])[0]
    results = os.path.join(directory, 'cases.json')
    if os.path.exists(results):
        os.unlink(results)
    sanitize = [f'--sanitize={stage}'] if stage in ('address', 'thread') else []
    code = run([*LEFTOVERS, *PYTEST, CASES[stage], '--build', directory, '--json', results, *sanitize, *argv])
    check_left(code, f'{stage}/{CASES[stage]}', tally)
    if code not in (0, 1, NO_CASE, LEFT_BEHIND) or not os.path.exists(results):
        tally.add('fail', f'{stage}/{CASES[stage]}', f'pytest: exit code {code}')
        return {}
    return {row['name']: row for row in read_rows(results)}


def case_options(stage, args):
    levels = [f'--{name}' for name in ('quick', 'full') if getattr(args, name) and stage != 'environments']
    return [*levels, *(f'--only={pattern}' for pattern in args.only)]


def case_tests(stage, args, tally):
    """The cases of the stage's folder; those that fail once more, alone."""
    begin = time.monotonic()
    say(f'{stage}: cases of {CASES[stage]}')
    if not importlib.util.find_spec('xdist'):
        tally.add('fail', f'{stage}/{CASES[stage]}', 'pytest and xdist are needed (packages python3-pytest, python3-pytest-xdist)')
        return
    argv, rows = case_options(stage, args), {}
    for kind, at_once in AT_ONCE.items() if os.geteuid() == 0 and not args.only else ():    # other users have no namespaces
        rows.update(run_pytest(stage, [*argv, '-m', kind, f'--numprocesses={at_once}'], tally))
    rows = rows or run_pytest(stage, argv, tally)
    failed = [name for name, row in rows.items() if row['outcome'] == 'fail']
    if 0 < len(failed) <= SECOND_TRIES:
        say(f'{stage}: again, alone: {" ".join(failed)}')
        for name, row in run_pytest(stage, [f'--only={name}' for name in failed], tally).items():
            if row['outcome'] == 'pass' and name in failed:
                tally.add_flaky(f'{stage}/{name}', rows[name]['text'], row['text'])
                rows[name] = row
    count_cases(stage, rows.values(), tally)
    tally.took(f'{stage}: cases', begin)


def read_rows(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def count_cases(stage, rows, tally):
    for row in rows:
        text = row['text'].splitlines()[0] if row['text'] and row['outcome'] != 'pass' else ''
        tally.add(row['outcome'], f'{stage}/{row["name"]}', text)
        tally.tests.append((row['seconds'], f'{stage}: {row["name"]}'))


# ---- fuzzers ---------------------------------------------------------------------------------------------

def fuzz(directory, name):
    """@return exit code and output of the fuzzer."""
    say(f'clang: {name} for {FUZZ_SECONDS} s')
    corpus = os.path.join(directory, f'corpus-{name}')
    os.makedirs(corpus, exist_ok=True)
    seeder = os.path.join(directory, f'test-{name}')
    if os.path.exists(seeder):
        run_quietly([seeder, '-w', corpus], {})
    return run_quietly([os.path.join(directory, name), f'-max_total_time={FUZZ_SECONDS}', '-timeout=20', '-rss_limit_mb=2048',
                        '-print_final_stats=1', f'-artifact_prefix={directory}/', corpus], SANITIZER_ENV)


def fuzzers(_args, tally):
    """libFuzzer on each target for a bounded time, from the corpus that the bounded test writes; one for each core."""
    directory = os.path.join(BUILDS['clang'][0], 'test', 'fuzz')
    names = [name for name in sorted(os.listdir(directory))
             if name.startswith('fuzz-') and os.path.isfile(os.path.join(directory, name)) and os.access(os.path.join(directory, name), os.X_OK)]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, (code, text) in zip(names, pool.map(lambda name: fuzz(directory, name), names)):
            if code != 0:
                print(f'-- clang/{name}\n{excerpt(text)}', flush=True)
            tally.add('pass' if code == 0 else 'fail', f'clang/{name}', '' if code == 0 else f'input kept in {directory}/')


# ---- packages --------------------------------------------------------------------------------------------

def packages(args, tally):
    for script in PACKAGES:
        name = f'packages/{script}'
        if args.only and not any(fnmatch.fnmatchcase(name, f'*{p}*') for p in args.only):
            continue
        say(name)
        code, text = run_quietly([*LEFTOVERS, f'test/install/{script}'], {})
        if code == CANNOT_RUN:
            tally.add('skip', name, last_line(text))
            continue
        if code != 0:
            print(excerpt(text), flush=True)
        tally.add('pass' if code == 0 else 'fail', name, '' if code == 0 else f'exit code {code}')


# ---- another implementation on the wire ------------------------------------------------------------------

def interop(args, tally):
    """rocemu and rxe; a case each, or one skip with the reason."""
    say('interop: against the kernel in a guest')
    results = os.path.join(BUILDS['plain'][0], 'interop-tests.json')
    if os.path.exists(results):
        os.unlink(results)
    argv = ['test/interop/run.sh', '--build', BUILDS['plain'][0], '--json', results]
    for pattern in args.only:
        argv += ['--only', pattern]
    last = ''
    with start(LEFTOVERS + argv + (['--full'] if args.full else []), stdout=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            print(line, end='', flush=True)
            last = line.strip()
        code = p.wait()
    check_left(code, 'interop', tally)
    if os.path.exists(results):
        count_cases('interop', read_rows(results), tally)
    elif code == CANNOT_RUN:
        tally.add('skip', 'interop', last)
    elif code != 2 or not args.only:
        tally.add('fail', 'interop', f'exit code {code}')


# ---- the command line ------------------------------------------------------------------------------------

def arguments():
    p = argparse.ArgumentParser(prog='test/run.sh', description=__doc__, allow_abbrev=False,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--no-build', action='store_true', help='with --only: the tests that match, as they were built before; installs nothing')
    p.add_argument('--list', action='store_true', help='print the names of the tests and stop')
    p.add_argument('--only', metavar='PATTERN', action='append', default=[],
                   help='only tests whose name matches (* and ?; a part suffices); stage plain unless said otherwise')
    p.add_argument('--quick', action='store_true', help='while you work: builds and runs first the unit tests of what changed since the last commit (or in it), then the '
                        'others but for the slow ones, then a short cover of the programs')
    p.add_argument('--full', action='store_true', help='the whole matrix of program tests')
    p.add_argument('--sanitize', choices=('address', 'thread'), help='only the stage of that sanitizer')
    p.add_argument('--stage', choices=STAGES, action='append', default=[], help='only this stage; may be repeated')
    args = p.parse_args()
    if args.no_build and not args.only:
        p.error('--no-build needs --only: with it nothing is known of what was built')
    return args


def list_tests(args):
    if not build('plain', Tally()):
        return 1
    for test in wanted_tests('plain', args.only):
        print(full_name(test))
    argv = [*PYTEST, CASES['plain'], '--build', BUILDS['plain'][0], '--collect-only', *case_options('plain', args)]
    names = re.findall(r'^\S+::(.*)', subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False).stdout, re.M)
    print('\n'.join(names))
    return 0


def main():
    args = arguments()
    clean_environment()
    stages = args.stage or ([args.sanitize] if args.sanitize else [])
    if not stages:
        stages = ['plain'] if args.quick or args.only or args.list else list(STAGES)
    reason = unusable(stages)
    if reason:
        print(f'test/run.sh: {reason}', file=sys.stderr)
        return 2
    if args.list:
        return list_tests(args)
    tally = Tally()
    tally.warn(unsuitable(os.getcwd()))
    try:
        run_stages(stages, args, tally)
    except KeyboardInterrupt:
        tally.add('fail', 'interrupted')
    return tally.finish()


def run_stages(stages, args, tally):
    if args.quick and stages == ['plain'] and not args.only:
        quick(args, tally)
        return
    stages = list(stages)
    builds = [] if args.no_build else list(dict.fromkeys(stage if stage in BUILDS else 'plain' for stage in stages if stage != 'packages'))
    built = {builds[0]: build(builds[0], tally, targets=stage_files)} if builds else {}
    with building_ahead(builds[1:]):
        for stage in stages:
            of = stage if stage in BUILDS else 'plain'
            if of in AHEAD:
                built[of] = build(of, tally)
            if built.get(of, True):
                run_stage(stage, args, tally)


def run_stage(stage, args, tally):
    begin = time.monotonic()
    if SUITES.get(stage, ()) != ():
        unit_tests(stage, args.only, tally)
    if stage in CASES:
        case_tests(stage, args, tally)
    else:
        {'clang': fuzzers, 'packages': packages, 'interop': interop}[stage](args, tally)
        tally.took(stage, begin)


if __name__ == '__main__':
    sys.exit(main())
