# SPDX-License-Identifier: BSD-2-Clause
"""Describes each program of test/world, and how its processes are started.

A module prog_NAME.py has a list PROGRAMS. The functions of its runs take a World and return a note for the result, or
raise harness.Failure or harness.Skip.
"""
import os
import re
import shutil
import subprocess

import cases_cm
import harness
from harness import Failure, expect

GUARD_S = 120                         # of a hang; no run takes a tenth of it on an idle machine
SOURCES = {}                          # NAME: PATH of --source (conftest.py)
PLACES = {'lo': 'lo', 'veth': 'veth1500-v4'}


class Run:
    """One thing that a program does, at one or more places."""

    def __init__(self, what, function, places=tuple(PLACES), larger=False, needs=None):
        self.what = what
        self.function = function      # of a World; the note for the result, or None
        self.places = places
        self.larger = larger          # only with --all
        self.needs = needs            # instead of the program's


def describe(tree):
    """The version of a source tree, by git."""
    p = subprocess.run(['git', '-C', tree, 'describe', '--always', '--tags'], capture_output=True, text=True, check=False)
    return p.stdout.strip() or 'source'


def describe_cmake(path):
    """The version of the source tree of a build directory of CMake's (or the tree itself)."""
    try:
        with open(os.path.join(path, 'CMakeCache.txt'), encoding='utf-8') as f:
            home = re.search(r'^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$', f.read(), re.M)
    except OSError:
        home = None
    return describe(home.group(1) if home else path)


class Program:
    """A program, where it comes from, and its runs."""

    def __init__(self, name, runs, packages=(), needs='', commands=(), source=None, larger=False, version=None):
        self.name = name
        self.runs = runs
        self.packages = packages      # Debian's; the first has the version that the table shows
        self.commands = commands      # that have to be there
        self.needs = needs            # what it takes beside `rocemu run`, for the table
        self.source = source          # the NAME of --source NAME=PATH, or None
        self.larger = larger          # only with --all
        self._version = version       # function of the source's path

    def version(self, path):
        if self._version:
            return self._version(path)
        if self.source:
            return describe(path)
        p = subprocess.run(['dpkg-query', '-W', '-f=${Version}', self.packages[0]], capture_output=True, text=True, check=False)
        return p.stdout.strip()

    def missing(self):
        """A reason why it cannot run here, or None."""
        lacks = [c for c in self.commands if not shutil.which(c)]
        return f'{lacks[0]} is not installed (packages: {" ".join(self.packages)})' if lacks else None


class World:
    """Where a run takes place: the topology, a directory for its files, and its processes, which end with it."""

    def __init__(self, config, lab, place, scratch, source=None):
        self.config = config
        self.lab = lab
        self.place = place
        self.topo = lab.get(PLACES[place])
        self.topo.check()
        self.scratch = scratch
        self.source = source          # path of the source tree, of a program that comes from one
        self.procs = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for p in self.procs:
            if p.running():
                p.kill()

    @property
    def server(self):
        return self.topo.server

    @property
    def client(self):
        return self.topo.client

    @property
    def interface(self):
        return 'veth0' if self.server.netns else 'lo'

    def path(self, name):
        return os.path.join(self.scratch, name)

    def start(self, side, argv, name, env=None, options=()):
        """A process under `rocemu run`, in the directory of the run: some leave files where they are."""
        p = harness.start(self.config, side, argv, name, env, options, cwd=self.scratch)
        self.procs.append(p)
        return p

    def plain(self, side, argv, name, env=None):
        """A process without it: a launcher, a tool that has nothing to do with RDMA."""
        p = harness.Proc(argv, env=env, netns=side.netns, name=name, cwd=self.scratch)
        self.procs.append(p)
        return p

    def is_listened(self, port):
        """Does a process listen on a port of rdma_cm on the server's side?"""
        return cases_cm.is_listened(self.config, self.server, 'tcp', port)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ''


def finished(proc, pattern, output=None, code=0, guard_s=GUARD_S):
    """Wait for its end; the last line of what it wrote has to match."""
    proc.wait(guard_s)
    expect(proc.popen.returncode == code, f'{proc.name}: exit code {proc.popen.returncode}', proc)
    line = last_line(proc.stdout if output is None else output(proc))
    expect(re.search(pattern, line), f'{proc.name}: the last line is "{line}", not "{pattern}"', proc)
    return line


def ended_together(procs, pattern, guard_s=GUARD_S):
    """All end well, and the last line of each matches. When one fails, those that wait for it are not waited for."""
    waiting = list(procs)
    while waiting:
        for p in list(waiting):
            harness.wait_gone(p, 0.1)
            if not p.running():
                waiting.remove(p)
                expect(p.popen.returncode == 0, f'{p.name}: exit code {p.popen.returncode}', *procs)
        if waiting and max(p.age() for p in waiting) > guard_s:
            raise Failure('\n'.join([f'hangs (guard {guard_s} s)'] + [p.where() for p in waiting] + [p.report() for p in procs]))
    return [finished(p, pattern) for p in procs][-1]
