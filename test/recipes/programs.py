#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the commands of docs/programs/*.md, and compares what they print with the pages.

  test/recipes/programs.py --build build [PAGE]...

Blocks, commands and what they print are as in test/docs (pages.py, console.py), but that runs of
spaces count as one, and that a command ending in "&" stays until the end of its part of the page;
the next one begins when it listens (TCP, rdma_cm, Unix) or has ended.

A part of a page begins with a comment: <!-- needs: WORD... -->. It is skipped where a word is no
command, or ($NAME/PATH) no file. All commands of a page run in one directory, on one host: a
network namespace with lo, and eth0 with 192.0.2.10.

Exit code 77: nothing was run, for the reason that is printed.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path += [os.path.join(TOP, 'test', directory) for directory in ('docs', 'prog')]

# pylint: disable=wrong-import-position
import console  # noqa: E402
import harness  # noqa: E402
import pages  # noqa: E402
from harness import Failure, Proc, Skip, VethPair, expect, wait_gone  # noqa: E402

PAGES = 'docs/programs/'
NEEDS = re.compile(r'<!-- needs: (.*) -->$')
EXITS = re.compile(r'# exits with (\d+)$')
ADDRESS = '192.0.2.10'
GUARD_S = 180
SETTLE_S = 0.1
SKIPPED = 77
TCP_LISTEN = '0A'
UNIX_LISTEN = '00010000'


# ---- the page ----------------------------------------------------------------------------------

def parts(name):
    """(words that it needs, its commands as console.transcript() has them) for each part."""
    blocks = [block for block in pages.blocks(name) if block.runs]
    lines = (pages.TOP / name).read_text(encoding='utf-8').splitlines()
    begins = [number for number, line in enumerate(lines, 1) if NEEDS.match(line)]
    if any(block.line < min(begins, default=len(lines)) for block in blocks):
        raise Failure(f'{name}: a console block before the first comment of what it needs')
    for begin, end in zip(begins, [*begins[1:], len(lines) + 1]):
        rows = [row for b in blocks if begin < b.line < end for row in console.transcript(b)]
        yield NEEDS.match(lines[begin - 1])[1].split(), rows


def one_space(lines):
    return [' '.join(line.split()) for line in lines if line.strip()]


# ---- the host ----------------------------------------------------------------------------------

def make_host():
    if not harness.own_loopback():
        raise Skip('a network namespace needs root')
    # The other end of eth0 has no address, so it is no device.
    for words in ('link add eth0 type veth peer name peer', 'link set peer addrgenmode none',
                  'link set peer up', f'address add {ADDRESS}/24 dev eth0', 'link set eth0 up'):
        VethPair.ip(*words.split())
    end = time.monotonic() + GUARD_S
    while 'tentative' in VethPair.ip('address', 'show', 'dev', 'eth0'):
        if time.monotonic() > end:
            raise Failure('eth0 keeps a tentative address')
        time.sleep(harness.POLL_S)


def environment(config, where):
    directories = [os.path.dirname(config.rocemu), config.program('world'), '/usr/bin', '/bin',
                   '/usr/sbin', '/sbin']
    return {
        **harness.sanitizer_env(config),
        'PATH': ':'.join(directories),
        'HOME': where,
        'TMPDIR': where,
        # Open MPI refuses to run as root otherwise.
        'OMPI_ALLOW_RUN_AS_ROOT': '1',
        'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
    }


def column(path, at, value, of):
    """Column `of` of the lines of a table whose column `at` is the value."""
    with open(path, encoding='utf-8', errors='replace') as f:
        rows = [line.split() for line in f]
    return {row[of] for row in rows if len(row) > max(at, of) and row[at] == value}


def listeners(config):
    """All that listens in this network namespace, but what is rocemu's own."""
    found = column('/proc/self/net/tcp', 3, TCP_LISTEN, 1)
    found |= column('/proc/self/net/tcp6', 3, TCP_LISTEN, 1)
    paths = column('/proc/self/net/unix', 3, UNIX_LISTEN, 7)
    found |= {path for path in paths if 'rocemu' not in path}
    p = subprocess.run([config.rocemu, 'agent', '--status', '--json'], capture_output=True,
                       text=True, check=False)
    if p.returncode == 0:
        found |= {entry['service_id'] for entry in json.loads(p.stdout)['cm']['listeners']}
    return found


class Session:
    """A part of a page, and the processes that stay until its end."""

    def __init__(self, config, where):
        self.config = config
        self.where = where
        self.procs = []
        self.background = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for p in self.background:
            p.signal(signal.SIGTERM)
            wait_gone(p, GUARD_S)
        for p in self.procs:
            if p.running():
                p.kill()

    def start(self, command):
        p = Proc(['bash', '-c', f'exec 2>&1\n{command}'], name=command, cwd=self.where,
                 env=environment(self.config, self.where))
        self.procs.append(p)
        return p

    def stay(self, command):
        """Until it listens: what is there then is there a moment later, too."""
        before = now = listeners(self.config)
        # exec: a signal is for the program, not for the shell.
        p = self.start('exec env ' + command.rstrip('& '))
        self.background.append(p)
        end = time.monotonic() + GUARD_S
        while p.running():
            last, now = now, listeners(self.config)
            if now - before and now == last:
                return
            expect(time.monotonic() < end, f'listens nowhere after {GUARD_S} s', p)
            time.sleep(SETTLE_S)

    def run(self, command, wanted):
        p = self.start(command)
        wait_gone(p, GUARD_S)
        others = list(self.background)
        if p.running():
            hangs = [f'hangs (guard {GUARD_S} s)', p.where()]
            p.kill()
            raise Failure('\n'.join(hangs + [q.report() for q in [p, *others]]))
        code = EXITS.search(command)
        expect(p.popen.returncode == (int(code[1]) if code else 0),
               f'exit code {p.popen.returncode}', p, *others)
        printed = ''.join(line + '\n' for line in one_space(p.output.splitlines()))
        if wanted and not console.pattern_of(one_space(wanted)).fullmatch(printed):
            expect(False, '\n    | '.join(['the page has', *wanted]), p, *others)


def lacking(words, path):
    """The first word of what a part needs that is not here, or None."""
    for word in words:
        if '/' in word:
            found = os.path.exists(os.path.expandvars(word))
        else:
            found = shutil.which(word, path=path)
        if not found:
            return word
    return None


def run_page(config, name, say):
    """How many commands were run, and the reasons for what was not."""
    done, reasons = 0, []
    with tempfile.TemporaryDirectory(prefix='page-') as where:
        for needs, rows in parts(name):
            word = lacking(needs, environment(config, where)['PATH'])
            if word:
                reasons.append(f'no {word}')
                continue
            with Session(config, where) as session:
                for number, command, wanted in rows:
                    say(f'{name}:{number}: {command}')
                    if command.endswith('&'):
                        session.stay(command)
                    else:
                        session.run(command, wanted)
                    done += 1
    return done, reasons


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--verbose', action='store_true', help='print each command')
    p.add_argument('page', nargs='*', help='only these, such as ucx')
    return p.parse_args()


def run_pages(config, names, say):
    """How many commands were run, and how many pages failed."""
    total, failed = 0, 0
    for path in [page for page in pages.names() if page.startswith(PAGES)]:
        name = os.path.basename(path)[:-len('.md')]
        if names and name not in names:
            continue
        begin = time.monotonic()
        try:
            done, reasons = run_page(config, path, say)
        except (Failure, console.Wrong) as e:
            failed += 1
            print(f'FAIL {name}: {e}', flush=True)
            continue
        total += done
        if done or reasons:
            skipped = f', skipped: {", ".join(reasons)}' if reasons else ''
            print(f'{"ok  " if done else "skip"} {name}: {done} commands, '
                  f'{time.monotonic() - begin:.1f} s{skipped}', flush=True)
    return total, failed


def main():
    args = arguments()
    # An end from outside takes the programs along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        make_host()
    except Skip as e:
        print(f'skipped: {e}')
        return SKIPPED
    config = harness.Config(args.build)
    total, failed = run_pages(config, args.page, print if args.verbose else lambda text: None)
    print(f'{total} commands, {failed} pages failed')
    return 1 if failed else 0 if total else SKIPPED


if __name__ == '__main__':
    sys.exit(main())
