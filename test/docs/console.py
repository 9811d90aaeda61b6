#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the console blocks of the documentation, and compares what the commands print with the
pages.

usage: console.py BUILD [--only PAGE] [--verbose] [--cast FILE]

All blocks of a page are one session of a shell: in a directory of its own that shows the tree's
build/, tools/, test/ and pcap-samples/, has the files of FIXTURES and examples/lessons, and finds
`rocemu` in PATH; in network and process namespaces of its own, so that nothing is left behind. In
what is expected `...` stands for any characters, and alone on a line for any lines; where nothing
is expected anything may be printed. The exit code is to be 0, or N of `# exits with N`.
Behind a command that ends in `&` the session waits until something more listens, as a reader
does. Exit code 77: no namespaces here.

--cast writes what was typed and printed as a recording of a terminal (asciicast 2). termtosvg
draws it:

    test/docs/console.py build --only README.md --cast /tmp/a.cast
    termtosvg render /tmp/a.cast docs/first-minute.svg --template window_frame --loop-delay 4000
"""
import argparse
import json
import os
import pathlib
import re
import select
import signal
import shutil
import subprocess
import sys
import tempfile
import time

import pages

HANG_GUARD_S = 120
COLUMNS, ROWS = 106, 30  # of a recording
LINKS = ('tools', 'test', 'docs', 'examples', 'man', 'src')
# Stand-ins for a reader's own programs and captures.
FIXTURES = {
    'my-program': '#!/bin/sh\nexec ibv_devinfo\n',
    'my-verbs-server': '#!/bin/sh\nexec ibv_rc_pingpong -g 0 -n 100\n',
    'my-verbs-client': '#!/bin/sh\nexec ibv_rc_pingpong -g 0 -n 100 "$1"\n',
}
CAPTURES = {
    'capture.pcap': 'rc_write_loss_ipv4.pcap',
    'before.pcap': 'rc_write_ipv4.pcap',
    'after.pcap': 'rc_write_loss_ipv4.pcap',
}
KEEPER_S = 30
NAMESPACES = ['unshare', '--net', '--pid', '--fork', '--mount-proc', '--kill-child']


def keepers():
    """Those who remove a device's files when its last program has ended, in this namespace."""
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            pid, name, state = re.match(r'(\d+) \((.*)\) (\S)', path.read_text(encoding='utf-8')).groups()
        except OSError:
            continue
        if name in ('rocemu-paths', 'rocemu-sweep') and state != 'Z':
            found.append(int(pid))
    return found


def wait_gone(pid):
    try:
        with open(os.pidfd_open(pid), 'rb') as process:
            if not select.select([process], [], [], KEEPER_S)[0]:
                raise Wrong(f'process {pid} still keeps files of devices after {KEEPER_S} s')
    except ProcessLookupError:
        pass


class Wrong(Exception):
    """A page and its commands differ."""


def transcript(block):
    """(line number, command, lines expected) of a console block."""
    found = []
    continued = False
    for number, line in enumerate(block.lines, block.line + 1):
        if continued:
            found[-1][1] = found[-1][1][:-1] + line.strip()
        elif line.startswith('$ '):
            found.append([number, line[2:], []])
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise Wrong(f'{block.page}:{number}: text before the first command')
        continued = bool(found) and not found[-1][2] and found[-1][1].endswith('\\')
    return found


def pattern_of(expected):
    parts = []
    for line in expected:
        if line.strip() == '...':
            parts.append(r'(?:[^\n]*\n)*?')
        else:
            parts.append(
                r'[^\n]*'.join(re.escape(p) for p in line.rstrip().split('...')) + r'[ \t]*\n'
            )
    return re.compile(''.join(parts) + r'\s*')


class Session:
    """A shell that commands are written to; it prints a mark behind each."""

    def __init__(self, build, where):
        self.where = where
        self.rocemu = os.path.join(build, 'tools', 'rocemu')
        env = {k: v for k, v in os.environ.items() if not k.startswith(('ROCEMU_', 'LD_'))}
        env.update(
            PATH=f'{build}/tools:{os.environ["PATH"]}:/usr/sbin:/sbin',
            ROCEMU_REAL='off',
            NO_COLOR='1',
            ROCEMU_STAT=f'{where}/.stat',
            XDG_RUNTIME_DIR=where,
            HOME=where,
            LC_ALL='C.UTF-8',
        )
        self.history = []
        os.mkdir(f'{where}/.stat', 0o700)
        self.errors = os.path.join(where, '.background')
        self.shell = subprocess.Popen(
            ['bash', '--norc', '--noprofile'],
            cwd=where,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.run('ip link set lo up 2>/dev/null')

    def run(self, command):
        """(exit code, what it prints)."""
        mark = b'\x1eEND'
        self.shell.stdin.write(f'{command}\nprintf "\\036END%d\\n" $?\n'.encode())
        self.shell.stdin.flush()
        data = b''
        deadline = time.monotonic() + HANG_GUARD_S
        while not (mark in data and data.endswith(b'\n')):
            if not select.select([self.shell.stdout], [], [], max(0, deadline - time.monotonic()))[
                0
            ]:
                raise Wrong(f'no end within {HANG_GUARD_S} s')
            piece = os.read(self.shell.stdout.fileno(), 65536)
            if not piece:
                raise Wrong('the shell ended')
            data += piece
        text, _, code = data.decode('utf-8', 'replace').rpartition('\x1eEND')
        return int(code), text

    def listeners(self):
        """How many sockets listen: TCP's, and rdma_cm's as the agent lists them."""
        tables = self.run('cat /proc/net/tcp /proc/net/tcp6 2>/dev/null')[1]
        status = self.run(f'{self.rocemu} agent --status --json 2>/dev/null </dev/null')[1]
        return len(re.findall(r'^\s*\d+: \S+ \S+ 0A ', tables, re.M)) + status.count('"service_id"')

    def start(self, command):
        """In the background; returns when it listens, or has ended."""
        before = self.listeners()
        self.run(f'{{ {command[:-1].strip()}; }} </dev/null >>{self.errors} 2>&1 & last=$!')
        deadline = time.monotonic() + HANG_GUARD_S
        while self.listeners() <= before and self.run('kill -0 $last')[0] == 0:
            if time.monotonic() > deadline:
                raise Wrong('nothing listens')
            time.sleep(0.02)

    def end(self):
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()
        while keepers():
            for pid in keepers():
                wait_gone(pid)

    def background(self):
        try:
            return pathlib.Path(self.errors).read_text(encoding='utf-8', errors='replace')
        except OSError:
            return ''


def recording(history):
    """As typed, a word at a time."""
    now, rows = 0.5, [{'version': 2, 'width': COLUMNS, 'height': ROWS}]
    for command, text in history:
        for piece in ('\x1b[32m$\x1b[0m ', *re.findall(r'\S+\s*', command), '\r\n'):
            rows.append([round(now, 2), 'o', piece])
            now += 0.12
        for line in text.splitlines():
            rows.append([round(now, 2), 'o', line[: COLUMNS - 1] + '\r\n'])
            now += 0.04
        now += 1.5 if text else 0.3
    return '\n'.join(json.dumps(row) for row in rows) + '\n'


def run_page(build, name, verbose, cast=None):
    """The number of commands."""
    console = [b for b in pages.blocks(name) if b.runs]
    done = 0
    with tempfile.TemporaryDirectory(prefix='rocemu-docs-') as where:
        prepare(build, where)
        session = Session(build, where)
        for number, command, expected in [row for block in console for row in transcript(block)]:
            if verbose:
                print(f'{name}:{number}: {command}', flush=True)
            try:
                step(session, command, expected)
            except Wrong as e:
                session.end()
                raise Wrong(
                    f'{name}:{number}: {command}\n{e}\n'
                    f'--- in the background:\n{session.background()}'
                ) from e
            done += 1
        session.end()
        if cast:
            pathlib.Path(cast).write_text(recording(session.history), encoding='utf-8')
    return done


def step(session, command, expected):
    m = re.search(r'\s+# exits with (\d+)$', command)
    wanted = int(m[1]) if m else 0
    while expected and not expected[-1].strip():
        expected.pop()
    if command.endswith('&'):
        session.start(command)
        session.history.append((command, ''))
        return
    code, text = session.run(f'{{ {command}\n}} </dev/null')
    session.history.append((command, text))
    if code != wanted:
        raise Wrong(f'exit code {code}, not {wanted}:\n{text}')
    if expected and not pattern_of(expected).fullmatch(text.rstrip() + '\n'):
        raise Wrong('the page has:\n' + '\n'.join(expected) + f'\n--- it prints:\n{text}')


def prepare(build, where):
    for link in LINKS:
        os.symlink(pages.TOP / link, os.path.join(where, link))
    os.symlink(build, os.path.join(where, 'build'))
    shutil.copytree(pages.TOP / 'pcap-samples', os.path.join(where, 'pcap-samples'))
    for name, text in FIXTURES.items():
        path = pathlib.Path(where, name)
        path.write_text(text, encoding='ascii')
        path.chmod(0o755)
    for source in (pages.TOP / 'examples/lessons').glob('*.[ch]'):
        shutil.copy(source, where)
    for name, sample in CAPTURES.items():
        shutil.copy(pages.TOP / 'pcap-samples' / sample, os.path.join(where, name))


def enter():
    """This program again, in namespaces of its own."""
    if os.environ.get('ROCEMU_DOCS_INSIDE'):
        return
    argv = NAMESPACES + ([] if os.geteuid() == 0 else ['--user', '--map-root-user'])
    if subprocess.run([*argv, 'true'], capture_output=True, check=False).returncode != 0:
        print('skipped: no network and process namespaces can be made here')
        sys.exit(77)
    os.environ['ROCEMU_DOCS_INSIDE'] = '1'
    os.execvp(argv[0], [*argv, sys.executable, *sys.argv])


def main():
    p = argparse.ArgumentParser(description='Runs the console blocks of the documentation.')
    p.add_argument('build')
    p.add_argument(
        '--only', metavar='PAGE', action='append', help='only this page; may be repeated'
    )
    p.add_argument('--verbose', action='store_true', help='print each command before it runs')
    p.add_argument('--cast', metavar='FILE', help='write a recording of the terminal')
    args = p.parse_args()
    enter()
    build = os.path.abspath(args.build)
    total = failed = 0
    for name in args.only or [n for n in pages.names() if not pages.recipe_of(n)]:
        begin = time.monotonic()
        try:
            done = run_page(build, name, args.verbose, args.cast)
        except Wrong as e:
            failed += 1
            print(f'FAIL {e}', flush=True)
            continue
        total += done
        if done:
            print(f'{name}: {done} commands, {time.monotonic() - begin:.1f} s', flush=True)
    print(f'{total} commands, {failed} pages failed')
    return 1 if failed or not total else 0


if __name__ == '__main__':
    sys.exit(main())
