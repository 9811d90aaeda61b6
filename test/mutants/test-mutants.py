#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Mutants of small sources: the one that a test checks is killed, the others survive or are not reached.

usage: test-mutants.py COMPILER ...
"""
import io
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import points
except ImportError as e:
    print(f'skipped: {e}: no python3-clang-14')
    sys.exit(77)
import mutants  # noqa: E402 # pylint: disable=wrong-import-position

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mutants.py')
FLAGS = ['-std=gnu11', '-w']
SMALL = '''int larger(int a, int b)
{
	return a < b ? b : a;
}

int seconds(int hours)
{
	return hours * 3600;
}

_Bool never(int a)
{
	return a == 7;
}
'''
SMALL_TEST = '''#include <stdlib.h>
int larger(int, int), seconds(int);
int main(void)
{
	seconds(1);
	if (larger(1, 2) != 2 || larger(4, 3) != 4)
		abort();
}
'''
# What must stay as it is, and what looks like it.
FIXED = '''#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
enum { A = 1 + 2, B };
#define TWICE(x) ((x) + (x))
#define BOTH(x, y) ((x) && (y))
static int table[4] = {[1] = 2, [A] = 3};
struct bits { unsigned x : 3, y : 5; };
int fixed(int n, struct bits *b, int *p)
{
	static const int start = 5;
	char room[8] = "";
	int more[] = {[1] = n};

	assert(n != 9);
	_Static_assert(sizeof(room) == 8, "");
	switch (n) {
	case 1 + 1:
		return start;
	case A:
		break;
	}
	__builtin_prefetch(p, 0, 3);
	return TWICE(n) + more[1];
}
int changed(int n, struct bits *b, int *p)
{
	int at = b->x < b->y;

	for (int i = 0; i < 3; i++)
		n += *(p + i) & 1;
	if (BOTH(n > 3, p))
		n = TWICE(n - 2);
	else
		at++;
	do
		n--;
	while (n > 100 || !n);
	return n ? n | at : B;
}
'''
FIXED_FOUND = ['constant 1', '+ TWICE(n) + more[1]', '< b->x < b->y', 'constant 0', 'negate i < 3', '< i < 3', 'constant 3',
               'remove n += *(p + i) & 1', '& *(p + i) & 1', '+ p + i', 'constant 1', 'negate BOTH(n > 3, p)', '> n > 3', 'constant 3',
               'remove n = TWICE(n - 2)', '- n - 2', 'constant 2', 'remove at++', 'remove n--', '|| n > 100 || !n', 'negate n > 100',
               'negate !n', '> n > 100', 'constant 100', 'negate n', '| n | at']


def find(directory, name, text):
    path = directory / name
    path.write_text(text)
    return points.Source(str(path), name, FLAGS, text).points


def compile_mutated(compiler, directory, name, text, found, *more):
    (directory / f'mutated-{name}').write_text(points.mutate(text, found, 0, len(found), directory / name))
    subprocess.run([*compiler, *FLAGS, '-o', directory / 'program', directory / f'mutated-{name}', *more], check=True)
    return [('small', [str(directory / 'program')], {})]


def small__each_mutant__has_its_result(compiler, directory):
    found = find(directory, 'small.c', SMALL)
    assert [f'{p.line}:{p.column} {p.operator} {p.text}' for p in found] == [
        '3:9 negate a < b', '3:9 < a < b', '8:17 constant 3600', '13:9 == a == 7', '13:14 constant 7'], found
    (directory / 'test.c').write_text(SMALL_TEST)
    tests = mutants.baseline(compile_mutated(compiler, directory, 'small.c', SMALL, found, directory / 'test.c'), 30, directory)
    assert len(tests) == 1 and tests[0].reached == {0, 1, 2}, tests
    chosen = [{'id': n} for n in range(len(found))]
    mutants.measure(chosen, tests, 2, math.inf)
    assert [(m['result'], m['test'], m['end']) for m in chosen] == [
        (mutants.KILLED, 'small', 'signal 6'), (mutants.SURVIVED, '', ''), (mutants.SURVIVED, '', ''),
        (mutants.NOT_REACHED, '', ''), (mutants.NOT_REACHED, '', '')], chosen


def small__endless_loop__killed(compiler, directory):
    text = 'int main(void)\n{\n\tint i = 3;\n\n\twhile (i)\n\t\ti--;\n\treturn 0;\n}\n'
    found = find(directory, 'loop.c', text)
    number = [p.operator for p in found].index('remove')
    at_least, mutants.AT_LEAST_S = mutants.AT_LEAST_S, 1
    tests = mutants.baseline(compile_mutated(compiler, directory, 'loop.c', text, found), 30, directory)
    assert mutants.judge(number, tests) == (mutants.KILLED, 'small', mutants.TOO_LONG), found
    mutants.AT_LEAST_S = at_least


def fixed__what_must_be_constant__left_out(compiler, directory):
    found = find(directory, 'fixed.c', FIXED)
    assert sorted(f'{p.operator} {p.text}' for p in found if p.line > 9) == sorted(FIXED_FOUND), \
        [f'{p.line}: {p.operator} {p.text}' for p in found]
    (directory / 'main.c').write_text('int main(void)\n{\n\treturn 0;\n}\n')
    compile_mutated(compiler, directory, 'fixed.c', FIXED, found, directory / 'main.c')


def interval__shares__as_published(*_):
    """Of 81 of 263: Newcombe (1998), table I."""
    assert [round(x, 4) for x in mutants.interval(81, 263)] == [0.2553, 0.3662], mutants.interval(81, 263)


def progress__not_a_terminal__whole_lines(*_):
    out = io.StringIO()
    progress = mutants.Progress(2, out)
    progress.step(mutants.KILLED)
    progress.step(mutants.SURVIVED)
    assert out.getvalue().splitlines()[-1] == 'mutants: 2 of 2, 1 killed, about 0 min left', out.getvalue()


def resume__other_sources__refused(_, directory):
    mutant = {'id': 3, 'file': 'a.c', 'line': 1}
    path = directory / 'results.json'
    path.write_text('{"mutants": [{"id": 3, "file": "a.c", "line": 1, "result": "killed"}]}')
    mutants.resume(path, [mutant])
    assert mutant['result'] == 'killed', mutant
    try:
        mutants.resume(path, [{'id': 3, 'file': 'a.c', 'line': 2}])
    except mutants.Failure:
        return
    raise AssertionError('taken')


def usage__wrong_options__2(*_):
    for wrong in (['--sample', '0'], ['--resume'], ['--nonsense']):
        assert subprocess.run([TOOL, *wrong], stderr=subprocess.DEVNULL, check=False).returncode == 2, wrong


if __name__ == '__main__':
    for test_name, test in list(globals().items()):
        if '__' in test_name[1:-1]:
            with tempfile.TemporaryDirectory() as d:
                test(sys.argv[1:], pathlib.Path(d))
            print(f'ok {test_name}')
