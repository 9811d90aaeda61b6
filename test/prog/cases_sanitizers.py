# SPDX-License-Identifier: BSD-2-Clause
"""Programs built with a sanitizer, or run by valgrind: `rocemu run` needs no help of theirs, and nothing is reported."""
import os
import re
import subprocess
import tempfile

from harness import NORMAL, Case, Skip, expect, run

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'san-check.c')
VALGRIND = {
    'memcheck': ['--leak-check=full', '--show-leak-kinds=all', '--errors-for-leak-kinds=all'],
    'helgrind': [],
    'drd': [],
}
FOUND = 77                            # exit code of what found something


def build(directory, compiler, *flags):
    """The program, built in the usual way; Skip where the compiler has no such sanitizer."""
    out = os.path.join(directory, 'san-check')
    p = subprocess.run([compiler, '-g', '-O1', *flags, SOURCE, '-o', out, '-libverbs', '-lpthread'],
                       capture_output=True, text=True, check=False)
    if p.returncode and re.search(r'cannot find|unable to find|No such file|unsupported', p.stderr):
        raise Skip(f'{compiler} {" ".join(flags)}: {p.stderr.strip().splitlines()[-1]}')
    if p.returncode:
        raise RuntimeError(p.stderr)
    return out


def starts(program):
    """Does the sanitizer's runtime work on this machine? ThreadSanitizer's does not with every layout of the address
    space. By itself the program finds no device, or does it all on one of the machine's."""
    p = subprocess.run([program, '0'], capture_output=True, text=True, check=False)
    return 'FATAL: ' not in p.stderr


def reports_nothing(compiler, sanitizer, *flags):
    def function(config, lab):
        with tempfile.TemporaryDirectory() as directory:
            program = build(directory, compiler, f'-fsanitize={sanitizer}', *flags)
            if not starts(program):
                raise Skip('the runtime of the sanitizer does not work here')
            p = run(config, lab.get('lo').client, [program, '50'], f'{compiler} {sanitizer}',
                    env={'ASAN_OPTIONS': f'exitcode={FOUND}', 'TSAN_OPTIONS': f'exitcode={FOUND}'})
        expect(p.popen.returncode == 0 and 'san-check: done' in p.stdout, f'exit code {p.popen.returncode}', p)
        expect('Sanitizer' not in p.stderr and 'runtime error' not in p.stderr, 'a report', p)
    return function


def leak_is_traced(compiler):
    """A leak in the program through rocemu's library: the stack goes through it to the program."""
    def function(config, lab):
        with tempfile.TemporaryDirectory() as directory:
            program = build(directory, compiler, '-fsanitize=address')
            if not starts(program):
                raise Skip('the runtime of the sanitizer does not work here')
            p = run(config, lab.get('lo').client, [program, '1', 'leak'], 'a program that leaks',
                    env={'ASAN_OPTIONS': f'exitcode={FOUND}', 'LSAN_OPTIONS': f'exitcode={FOUND}'})
        if 'encountered a fatal error' in p.stderr:
            raise Skip('LeakSanitizer does not work here (under ptrace, for instance)')
        expect(p.popen.returncode == FOUND, f'exit code {p.popen.returncode}', p)
        expect('detected memory leaks' in p.stderr, 'no report', p)
        expect(re.search(r'#\d+ .* in leak_on_purpose\b', p.stderr), 'the stack ends in the library', p)
    return function


def valgrind(tool):
    def function(config, lab):
        with tempfile.TemporaryDirectory() as directory:
            program = build(directory, 'gcc')
            log = os.path.join(directory, 'log')
            p = run(config, lab.get('lo').client,
                    ['valgrind', '-q', '--fair-sched=try', f'--tool={tool}', f'--error-exitcode={FOUND}', f'--log-file={log}',
                     '--child-silent-after-fork=yes', *VALGRIND[tool], program, '3'], f'valgrind {tool}')
            found = open(log, encoding='utf-8', errors='replace').read() if os.path.exists(log) else ''
        if re.search(r'unhandled instruction|Fatal error at startup', found):
            raise Skip(f'valgrind does not work here: {found.splitlines()[0]}')
        expect(p.popen.returncode == 0 and not found, f'exit code {p.popen.returncode}\n{found[:4000]}', p)
        expect('san-check: done' in p.stdout, 'it did not end', p)
    return function


def cases():
    made = []
    for compiler in ('gcc', 'clang'):
        needs = (compiler,)
        for sanitizer in ('address', 'thread'):
            made.append(Case(f'sanitizers/{compiler}/{sanitizer}', reports_nothing(compiler, sanitizer), NORMAL, needs=needs))
        made.append(Case(f'sanitizers/{compiler}/leak', leak_is_traced(compiler), NORMAL, needs=needs))
    for tool in VALGRIND:
        made.append(Case(f'sanitizers/valgrind/{tool}', valgrind(tool), NORMAL, needs=('valgrind', 'gcc')))
    return made
