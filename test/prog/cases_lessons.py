# SPDX-License-Identifier: BSD-2-Clause
"""The lessons of docs/tutorial: each page is a session at a shell, and the commands in it print what stands there.

A block of a page that begins with `$ ` is run line by line, in a directory with the sources of examples/lessons. Only
numbers in hexadecimal (keys) may differ. Each capture has to pass `rocemu verify`, and the diagrams are those of the pages.

As a program, `cases_lessons.py BUILD`, it writes what commands print into the pages, and the diagrams beside them.
"""
import difflib
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import harness
from harness import NORMAL, QUICK, Case, Failure, Proc, expect, sanitizer_env

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
SOURCES = os.path.join(TOP, 'examples', 'lessons')
PAGES = os.path.join(TOP, 'docs', 'tutorial')
STRICT = ('-std=c11', '-Wall', '-Wextra', '-pedantic', '-Werror')
BLOCK = re.compile(r'(?<=^```\n)\$ .*?(?=^```$)', re.M | re.S)
ATTEMPTS = 3


class Session:
    """The commands of a page, in a directory of their own."""

    def __init__(self, config, where):
        self.config = config
        self.where = where
        for source in glob.glob(os.path.join(SOURCES, '*')):
            shutil.copy(source, where)

    def run(self, command):
        """What it prints."""
        argv = shlex.split(command)
        if argv[0] == 'cc':
            return self.compile(argv)
        if argv[0] != 'rocemu':
            raise Failure(f'{command}: neither cc nor rocemu')
        p = Proc([self.config.rocemu, *argv[1:]], env=sanitizer_env(self.config), name=argv[-1], cwd=self.where)
        p.wait()
        expect(p.popen.returncode == 0, f'exit code {p.popen.returncode}', p)
        if '--pcap' in argv:
            self.verify(argv[argv.index('--pcap') + 1])
        return p.output

    def compile(self, argv):
        """As a reader does, but no warning passes; on a build with a sanitizer it is that build's program."""
        if self.config.sanitize:
            shutil.copy(os.path.join(self.config.build, 'examples', argv[argv.index('-o') + 1]), self.where)
            return ''
        p = subprocess.run(argv + list(STRICT), cwd=self.where, capture_output=True, text=True)
        if p.returncode != 0:
            raise Failure(f'{shlex.join(argv)}: {p.stderr}')
        return p.stdout + p.stderr

    def verify(self, capture):
        """The packets conform to the standard, those of an exercise too. Some send none."""
        p = subprocess.run([self.config.rocemu, 'verify', capture], cwd=self.where, capture_output=True, text=True)
        if p.returncode != 0 and 'has no RoCEv2 packets' not in p.stderr:
            raise Failure(f'rocemu verify {capture}: exit code {p.returncode}\n{p.stdout}{p.stderr}')


def plain(text):
    """Without what may differ: keys, and the GIDs behind the first, which depend on the host's IPv6."""
    text = re.sub(r'^ *GID [1-9]\d*: .*\n', '', text, flags=re.M)
    return re.sub(r'\b0x[0-9a-f]+', '0x...', text)


def arrows(path):
    """The text of a diagram, without times and numbers of QPs."""
    with open(path, encoding='utf-8') as f:
        labels = re.findall(r'<text[^>]*>([^<]*)</text>', f.read())
    return [re.sub(r'0x[0-9a-f]+', '0x...', label) for label in labels if not re.fullmatch(r'\+[\d.]+ [mun]?s', label)]


def compare(wanted, found, what):
    if wanted != found:
        raise Failure('\n'.join([what, *difflib.unified_diff(wanted, found, 'page', 'found', lineterm='')]))


def transcript(text):
    """(command, what it prints) for each command of a page."""
    for block in BLOCK.findall(text):
        for part in re.split(r'^\$ ', block, flags=re.M)[1:]:
            yield part.partition('\n')[::2]


def check_exercises(page, text):
    """A lesson's first comment names its exercises, and its page runs each."""
    for lesson in re.findall(r'^\$ cc (\S+)', text, re.M):
        with open(os.path.join(SOURCES, lesson), encoding='utf-8') as f:
            options = re.search(r'^ \* Exercises: (.*)$', f.read(), re.M).group(1).split(', ')
        missing = [option for option in options if not re.search(rf'^\$ rocemu run .* {option}$', text, re.M)]
        if missing:
            raise Failure(f'{page} does not run {missing} of {lesson}')


def check_page(config, page, text):
    with tempfile.TemporaryDirectory(prefix='rocemu-lesson-') as where:
        session = Session(config, where)
        runs = 0
        for command, wanted in transcript(text):
            found = session.run(command)
            compare(plain(wanted).splitlines(), plain(found).splitlines(), f'{page}: {command}')
            runs += 1
        for svg in glob.glob(os.path.join(where, '*.svg')):
            compare(arrows(os.path.join(PAGES, os.path.basename(svg))), arrows(svg), f'{page}: {os.path.basename(svg)}')
        return f'{runs} commands'


def page_case(page):
    name = os.path.splitext(os.path.basename(page))[0]

    def check(config, _lab):
        for part in ('verify', 'rsocket'):
            config.need_part(part)
        with open(page, encoding='utf-8') as f:
            text = f.read()
        check_exercises(page, text)
        for left in reversed(range(ATTEMPTS)):
            try:
                return check_page(config, page, text)
            except Failure as e:
                # On a busy machine an answer may come after the timeout.
                if not left or not re.search(r'^\+.* \(again\)$', str(e), re.M):
                    raise

    return Case(f'lessons/{name}', check, QUICK if name.startswith('5-') else NORMAL)


def cases():
    return [page_case(page) for page in sorted(glob.glob(os.path.join(PAGES, '*.md')))]


def write_page(config, page):
    with tempfile.TemporaryDirectory(prefix='rocemu-lesson-') as where, open(page, encoding='utf-8') as f:
        session = Session(config, where)
        old = f.read()

        def again(match):
            return ''.join(f'{line}\n{session.run(line[2:])}' for line in match.group(0).splitlines() if line.startswith('$ '))

        new = BLOCK.sub(again, old)
        for svg in glob.glob(os.path.join(where, '*.svg')):
            shutil.copy(svg, PAGES)
    with open(page, 'w', encoding='utf-8') as f:
        f.write(new)


if __name__ == '__main__':
    harness.own_loopback()
    for name in sorted(glob.glob(os.path.join(PAGES, '*.md'))):
        write_page(harness.Config(sys.argv[1]), name)
