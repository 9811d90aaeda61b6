#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What commands do when their output cannot be written: an exit code and one line with the reason.

usage: output.py ROCEMU CAPTURE

Standard output is a full disk, a file at its limit (ulimit -f), and a pipe without a reader. With
the usual action of SIGPIPE the latter ends a command by that signal, as all of Unix; where a parent
had it ignored it is an error. Files that options name are written to a full disk.
"""
import os
import resource
import signal
import subprocess
import sys
import tempfile

TIMEOUT_S = 120
ROCEMU, CAPTURE = sys.argv[1:3]
COMMANDS = (
    ['--help'], ['--version'], ['run', '--help'], ['devices'], ['devices', '--json'], ['stat'], ['stat', '--json'],
    ['stat', '--watch=0.1'], ['decode', CAPTURE], ['decode', '--json', CAPTURE], ['verify', CAPTURE], ['verify', '--json', CAPTURE],
    ['verify', '--follow', CAPTURE], ['verify', '--list'], ['explain', CAPTURE], ['hosts', '--help'], ['agent', '--help'],
    ['agent', '--version'], ['parity', '--list'], ['conform', '--list'], ['completion', 'bash'],
)
FILES = (['verify', '--html', '/dev/full', CAPTURE], ['verify', '--junit', '/dev/full', CAPTURE],
         ['verify', '--annotate', '/dev/full', CAPTURE], ['explain', '--svg', '/dev/full', CAPTURE])


def run(argv, stdout, prepare=None, restore=True):
    # Python ignores SIGPIPE and SIGXFSZ itself; restore: the command has their usual actions.
    return subprocess.run([ROCEMU, *argv], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=TIMEOUT_S, preexec_fn=prepare, restore_signals=restore, check=False)


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def broken_pipe():
    """The end of a pipe that is written to, without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def faults(argv, p, reason):
    """What is wrong with the end of a command that could not write, for this reason."""
    name = f'rocemu {argv[0]}' if not argv[0].startswith('-') else 'rocemu'
    lines = [line for line in p.stderr.splitlines() if 'cannot write' in line]
    if p.returncode not in (1, 2) or len(lines) != 1 or not lines[0].replace('-', ' ').startswith(f'{name}: ') or reason not in lines[0]:
        yield f'{" ".join(argv)}: exit code {p.returncode} and {p.stderr!r}; one line with {reason!r} was expected'


def all_faults():
    for argv in COMMANDS:
        with open('/dev/full', 'w', encoding='ascii') as full, tempfile.TemporaryFile() as limited:
            yield from faults(argv, run(argv, full), 'No space left on device')
            yield from faults(argv, run(argv, limited, limit_files), 'File too large')
        pipe = broken_pipe()
        yield from faults(argv, run(argv, pipe, restore=False), 'Broken pipe')
        p = run(argv, pipe)
        os.close(pipe)
        if p.returncode != -signal.SIGPIPE or 'cannot write' in p.stderr:
            yield f'{" ".join(argv)}: exit code {p.returncode} and {p.stderr!r} where SIGPIPE was expected'
    for argv in FILES:
        yield from faults(argv, run(argv, subprocess.DEVNULL), '/dev/full: No space left on device')


def main():
    found = list(all_faults())
    print(*found, f'{len(COMMANDS)} commands, {len(FILES)} files, {len(found)} faults', sep='\n')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
