#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does test/leftovers.py see what a command leaves behind, and nothing else?

usage: test-leftovers.py LEFTOVERS
"""
import signal
import subprocess
import sys

LEFT_BEHIND = 76


def run(script, *options):
    """@return the exit code, and what was left behind."""
    with subprocess.Popen([sys.argv[1], *options, 'sh', '-c', script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as p:
        said = p.stdout.read().splitlines()
        p.wait()
    return p.returncode, said[said.index('left behind:') + 1:] if 'left behind:' in said else []


def clean__exit_code_or_signal__passed_on():
    assert run('exit 0') == (0, [])
    assert run('exit 77') == (77, [])
    assert run('kill -TERM $$') == (-signal.SIGTERM, [])


def process__of_any_parent_and_session__listed_and_killed():
    code, left = run('sleep 12345 >/dev/null & (setsid sleep 12346 >/dev/null &) ; exit 3', '--patience', '1')
    assert code == LEFT_BEHIND and len(left) == 2, (code, left)
    assert all(f'sleep {12345 + i} (in ' in line for i, line in enumerate(sorted(left, key=lambda line: line.split()[-3]))), left
    for line in left:
        pid = line.split()[1].rstrip(':')
        assert subprocess.run(['ps', '-o', 'stat=', '-p', pid], capture_output=True, text=True, check=False).stdout.strip()[:1] in ('', 'Z')


def process__that_ends__waited_for():
    # No process waits for it, and it ends after the command.
    assert run('(sleep 0.3 &) ; exit 0') == (0, [])


def process__with_a_name_that_may_go_on__let():
    # They read until this process closes the pipe.
    script = 'exec 3<&0; (cat <&3 >/dev/null &) ; (tail -f - <&3 >/dev/null &); exit 5'
    assert run(script, '--let', 'cat', '--let', 'tail', '--patience', '1') == (5, [])
    code, left = run(script, '--let', 'cat', '--patience', '1')
    assert code == LEFT_BEHIND and len(left) == 1 and 'tail' in left[0], (code, left)


def file__in_tmpdir__listed():
    code, left = run('mkdir "$TMPDIR/some"; touch "$TMPDIR/other"; exit 77')
    assert code == LEFT_BEHIND and [line.rsplit('/')[-1] for line in left] == ['other', 'some'], (code, left)
    assert run('f=$(mktemp) && rm "$f"') == (0, [])


def file__of_programs_that_sweep_it__let():
    assert run('mkdir "$TMPDIR/rocemu-stat-0"; touch "$TMPDIR/rocemu-stat-0/1"') == (0, [])


for name, case in list(globals().items()):
    if '__' in name.strip('_') and callable(case):
        case()
        print(f'ok {name}')
