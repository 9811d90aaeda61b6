#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the unit tests find faults? Makes small faults in src/transport, src/cm and src/wire (mutants), one at a time, and runs the
tests that reach the changed expression, the fastest first, until one fails.

The tree is copied to BUILD/mutants and built there once: each mutant is behind a switch that the environment sets (points.py).
A mutant is killed if a test fails, crashes, or takes ten times its usual time (at least 5 s). Only .c files are mutated, and
only programs of the suites wire, transport, cm and sim run, those that take at most --slowest seconds.

The last line has the result; --json FILE has every mutant. Exit code 0: the run was made, 1: it could not be made, 2: usage,
77: a package is missing.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import math
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import points
except ImportError as e:
    print(f'{e}: install python3-clang-14 (. tools/packages.sh && packages_need mutants)')
    sys.exit(77)

TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ('src/transport', 'src/cm', 'src/wire')
SUITES = ('wire', 'transport', 'cm', 'sim')
SETUP = ('-Dbuildtype=debugoptimized', '-Doptimization=1', '-Dwarning_level=0', '-Dwerror=false', '-Dc_args=-w')
SLOWER, AT_LEAST_S = 10, 5
KILLED, SURVIVED, NOT_REACHED = 'killed', 'survived', 'not reached'
TOO_LONG = 'too long'
LAST_LINES = 12     # of a failed test's output, with --mutant
SETTINGS = {'MALLOC_PERTURB_': '165'}     # what is not initialised is not 0 by chance
MEMORY = 4 << 30    # of a test: a mutant may allocate without an end

Test = collections.namedtuple('Test', 'name argv environ seconds reached')


class Failure(Exception):
    """The run cannot be made."""


def run(argv, environ=None, seconds=None, out=subprocess.DEVNULL):
    """@return the exit code (negative: a signal), or None if it took longer."""
    with subprocess.Popen(argv, env={**os.environ, **SETTINGS, **(environ or {})}, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                          start_new_session=True) as p:
        try:
            return p.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


# The mutated tree.

def copy_tree(tree):
    """What git has, as it is here. Mutated sources are written over it."""
    names = subprocess.run(['git', 'ls-files', '-z'], cwd=TOP, capture_output=True, check=True).stdout.decode().split('\0')
    for name in filter(None, names):
        here, there = TOP / name, tree / name
        if not here.exists() or (name.endswith('.c') and os.path.dirname(name) in FOLDERS and there.exists()):
            continue
        if not there.exists() or here.stat().st_mtime != there.stat().st_mtime:
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, there)


def prepare(directory):
    tree, build = directory / 'tree', directory / 'build'
    copy_tree(tree)
    # An older build: its list of tests is made anew.
    again = (build / 'build.ninja').exists()
    if run(['ninja', '-C', build, 'build.ninja'] if again else ['meson', 'setup', build, tree, *SETUP]):
        raise Failure(f'meson setup failed: see {build}/meson-logs/meson-log.txt')
    return tree, build


def sources(tree, build):
    """@return the points of each source, by its name."""
    found = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        path = os.path.normpath(os.path.join(build, entry['file']))
        name = os.path.relpath(path, tree)
        if os.path.dirname(name) in FOLDERS and name not in found:
            args = [a for a in shlex.split(entry['command']) if a.startswith(('-I', '-D', '-std', '-isystem'))]
            args = [re.sub(r'^(-I|-isystem)(?!/)(.+)', lambda m: m[1] + os.path.join(build, m[2]), a) for a in args]
            found[name] = points.Source(path, name, args, (TOP / name).read_text()).points
    return dict(sorted(found.items()))


def write(tree, found):
    first, total = 0, sum(map(len, found.values()))
    for name, of_file in found.items():
        text = points.mutate((TOP / name).read_text(), of_file, first, total, TOP / name)
        first += len(of_file)
        if (tree / name).read_text() != text:
            (tree / name).write_text(text)


def programs(build):
    done = subprocess.run(['meson', 'introspect', '--tests', build], capture_output=True, check=True)
    return [(t['name'], t['cmd'], t['env']) for t in json.loads(done.stdout)
            if t['suite'][0].split(':')[-1] in SUITES and t['cmd'][0].startswith(str(build))]


def compile_all(tree, build, found, targets, jobs):
    """A point that does not compile (an argument that must be constant) is taken away."""
    for _ in range(4):
        write(tree, found)
        done = subprocess.run(['ninja', '-k0', f'-j{jobs}', *targets], cwd=build, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        bad = {(os.path.relpath(path, TOP), int(line)) for path, line in re.findall(r'^(/\S+\.c):(\d+):.*\berror:', done.stdout, re.M)}
        if not any(name in found for name, _ in bad):
            raise Failure('the copy does not build:\n' + done.stdout[-3000:])
        for name in {name for name, _ in bad if name in found}:
            found[name] = [p and (None if (name, p.line) in bad else p) for p in found[name]]
    raise Failure('the mutated sources do not build')


def baseline(tests, slowest, directory):
    """Each test without a mutant: its time, and what it reaches."""
    kept = []
    for name, argv, environ in tests:
        with tempfile.NamedTemporaryFile(dir=directory) as f:
            begin = time.monotonic()
            code = run(argv, {**environ, 'MUTANT_REACHED': f.name}, slowest)
            seconds = time.monotonic() - begin
            reached = {i for i, b in enumerate(pathlib.Path(f.name).read_bytes()) if b}
        if code is None or code not in (0, 77):
            print(f'mutants: without {name}: ' + (f'takes longer than {slowest} s' if code is None else f'fails without a mutant ({code})'),
                  file=sys.stderr)
        elif code == 0:
            kept.append(Test(name, argv, environ, seconds, reached))
    return sorted(kept, key=lambda t: t.seconds)


def end_with(number, test, out=subprocess.DEVNULL):
    """@return how the test ends with this mutant; nothing if it passes."""
    code = run(test.argv, {**test.environ, 'MUTANT': str(number)}, max(SLOWER * test.seconds, AT_LEAST_S), out)
    return TOO_LONG if code is None else f'signal {-code}' if code < 0 else f'exit code {code}' if code else ''


def judge(number, tests):
    """@return result, the test that kills the mutant, and how that ends."""
    reaching = [t for t in tests if number in t.reached]
    for test in reaching:
        end = end_with(number, test)
        if end:
            return KILLED, test.name, end
    return (SURVIVED if reaching else NOT_REACHED), '', ''


# Results.

def interval(part, whole):
    """Wilson's, of 95 %."""
    if not whole:
        return 0.0, 1.0
    z, share = 1.96, part / whole
    middle, half = share + z * z / (2 * whole), z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    return (middle - half) / (1 + z * z / whole), (middle + half) / (1 + z * z / whole)


def line_of(mutant):
    text = mutant['text'] if len(mutant['text']) <= 90 else mutant['text'][:87] + '...'
    return f"{mutant['file']}:{mutant['line']}:{mutant['column']} {mutant['operator']} \"{text}\" ({mutant['id']})"


def report(mutants, total):
    """Prints a table, the survivors, and the line for test/nightly.py."""
    done = [m for m in mutants if m.get('result')]
    for result in (SURVIVED, NOT_REACHED):
        print(f'{result}:', *(f'  {line_of(m)}' for m in done if m['result'] == result), sep='\n')
    print('\n| folder | mutants | killed | by time | survived | not reached | share killed |\n|---|---|---|---|---|---|---|')
    for folder in (*FOLDERS, 'all'):
        inside = [m for m in done if folder in (os.path.dirname(m['file']), 'all')]
        here, by_time = [m['result'] for m in inside], sum(m['end'] == TOO_LONG for m in inside)
        killed = here.count(KILLED)
        low, high = interval(killed, len(here))
        share = f'{100 * killed / max(len(here), 1):.1f} % ({100 * low:.1f} to {100 * high:.1f})'
        print(f'| {folder} | {len(here)} | {killed} | {by_time} | {here.count(SURVIVED)} | {here.count(NOT_REACHED)} | {share} |')
    print(f'mutants: {len(done)} of {total}: {share} killed, {here.count(SURVIVED)} survived, {here.count(NOT_REACHED)} not reached')


class Progress:
    """On stderr, in one line where it is a terminal."""

    def __init__(self, whole, file=sys.stderr):
        self.begin, self.whole, self.done, self.killed, self.file, self.shown = time.monotonic(), whole, 0, 0, file, 0.0

    def step(self, result):
        self.done += 1
        self.killed += result == KILLED
        now = time.monotonic()
        if now - self.shown < (1 if self.file.isatty() else 30) and self.done < self.whole:
            return
        self.shown = now
        left = (now - self.begin) / self.done * (self.whole - self.done)
        text = f'mutants: {self.done} of {self.whole}, {self.killed} killed, about {left / 60:.0f} min left'
        print(f'\r{text}\033[K' if self.file.isatty() else text, end='' if self.file.isatty() and self.done < self.whole else '\n',
              file=self.file, flush=True)


def measure(chosen, tests, jobs, until, save=lambda: None):
    """Judges those that have no result yet, until that time."""
    waiting = [m for m in chosen if not m.get('result')]
    progress, saved = Progress(len(waiting)), time.monotonic()

    def one(mutant):
        return judge(mutant['id'], tests) if time.monotonic() < until else None

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for mutant, result in zip(waiting, pool.map(one, waiting)):
            if result:
                mutant['result'], mutant['test'], mutant['end'] = result
                progress.step(result[0])
            if time.monotonic() - saved > 20:
                save()
                saved = time.monotonic()
    save()


def show(number, mutants, tests):
    mutant = next((m for m in mutants if m['id'] == number), None)
    if not mutant:
        raise Failure(f'--mutant: no mutant {number}; --list prints them')
    print(f"{line_of(mutant)}\n  {mutant['text']}\n  -> {mutant['mutated'] or '(nothing)'}", flush=True)
    for test in (t for t in tests if number in t.reached):
        with tempfile.TemporaryFile('w+', errors='replace') as out:
            end = end_with(number, test, out)
            out.seek(0)
            print(f"{end or 'passes'}: {test.name}: MUTANT={number} {shlex.join(test.argv)}", flush=True)
            print(*(f'    {line.rstrip()}' for line in out.readlines()[-LAST_LINES:] if end), sep='\n', end='\n' if end else '')


def arguments():
    p = argparse.ArgumentParser(prog='test/mutants/mutants.py', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default='build', type=pathlib.Path, help='work in BUILD/mutants (default: %(default)s)')
    p.add_argument('--only', default='*', metavar='GLOB', help='files, by their names from the top of the tree')
    p.add_argument('--sample', type=int, metavar='N', help='that many mutants at random, in place of all')
    p.add_argument('--seed', type=int, default=1, help='of the sample and of the order (default: %(default)s)')
    p.add_argument('--jobs', type=int, default=os.cpu_count() or 1, help='tests at a time (default: %(default)s)')
    p.add_argument('--budget', type=float, default=math.inf, metavar='MINUTES', help='judge no more mutants after that time')
    p.add_argument('--slowest', type=float, default=5, metavar='SECONDS', help='leave slower tests out (default: %(default)s)')
    p.add_argument('--json', type=pathlib.Path, metavar='FILE', help='write the results, also on the way')
    p.add_argument('--resume', action='store_true', help='take the results that --json FILE has already')
    p.add_argument('--list', action='store_true', help='print the mutants and end')
    p.add_argument('--mutant', type=int, metavar='ID', help='print this one, and run each test that reaches it')
    args = p.parse_args()
    if args.resume and not args.json:
        p.error('--resume needs --json FILE')
    if args.jobs < 1 or (args.sample is not None and args.sample < 1):
        p.error('--jobs and --sample take numbers from 1 on')
    return args


def choose(found, args):
    """@return all mutants, and those to judge, in their order. The numbers are the same whatever is chosen."""
    flat = [p for of_file in found.values() for p in of_file]
    mutants = [{'id': n, **{k: getattr(p, k) for k in ('file', 'line', 'column', 'operator', 'text', 'mutated')}}
               for n, p in enumerate(flat) if p and fnmatch.fnmatch(p.file, args.only)]
    chosen = list(mutants)
    random.Random(args.seed).shuffle(chosen)
    return mutants, chosen[:args.sample]


def resume(path, mutants):
    numbers = {m['id']: m for m in mutants}
    for old in json.loads(path.read_text())['mutants'] if path.exists() else []:
        mutant = numbers.get(old['id'])
        if mutant:
            if any(mutant[k] != old[k] for k in mutant):
                raise Failure(f'--resume: {path} is of another state of the sources')
            mutant.update(old)


def work(args):
    begin = time.monotonic()
    directory = args.build.resolve() / 'mutants'
    tree, build = prepare(directory)
    found = sources(tree, build)
    if args.list:
        for mutant in choose(found, args)[0]:
            print(line_of(mutant))
        return
    tests = programs(build)
    compile_all(tree, build, found, [os.path.relpath(argv[0], build) for _, argv, _ in tests], args.jobs)
    mutants, chosen = choose(found, args)
    if args.resume:
        resume(args.json, mutants)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        os.environ['TMPDIR'] = temporary
        tests = baseline(tests, args.slowest, temporary)
        print(f'mutants: {len(mutants)} mutants, {len(tests)} tests of {sum(t.seconds for t in tests):.0f} s, '
              f'{(time.monotonic() - begin) / 60:.0f} min to build', file=sys.stderr, flush=True)
        if args.mutant is not None:
            show(args.mutant, mutants, tests)
            return

        def save():
            if args.json:
                done = [m for m in mutants if m.get('result')]    # also those that only the file had
                args.json.write_text(json.dumps({'total': len(mutants), 'mutants': done}, indent=1) + '\n')

        measure(chosen, tests, args.jobs, begin + 60 * args.budget, save)
    report(chosen, len(mutants))


def main():
    args = arguments()
    try:
        work(args)
    except (Failure, ValueError) as e:
        print(f'mutants: {e}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
