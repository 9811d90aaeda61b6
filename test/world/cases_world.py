# SPDX-License-Identifier: BSD-2-Clause
"""Runs the world's RDMA programs, unmodified, under `rocemu run`: on the loopback interface, and between two namespaces
joined by a veth pair. Programs come from the distribution's packages, or from a source tree that stays where it is:

  test/world/run.sh                          what test/run.sh --stage world runs
  test/world/run.sh --full                   the larger ones, too, and what test/prog has of packaged programs
  test/world/run.sh --source NAME=PATH       a program from its source tree, which is built there or beside it
  test/world/run.sh --full --write-docs      the table of docs/interop.md: rows of programs that ran are replaced
"""
import importlib
import os
import tempfile

import harness
import program

HERE = os.path.dirname(os.path.abspath(__file__))


def programs():
    names = sorted(name[:-3] for name in os.listdir(HERE) if name.startswith('prog_') and name.endswith('.py'))
    return [p for name in names for p in importlib.import_module(name).PROGRAMS]


class Job:
    """A run of a program at a place."""
    alone = True    # ranks and threads that spin

    def __init__(self, of, what, place):
        self.program, self.what, self.place = of, what, place
        self.name = f'{of.name}/{what.what}/{place}'
        self.level = harness.FULL if not of.source and (of.larger or what.larger) else harness.NORMAL

    def run(self, config, lab):
        why_not = self.program.missing()
        if why_not:
            raise harness.Skip(why_not)
        with tempfile.TemporaryDirectory(prefix='rocemu-world-') as scratch, \
                program.World(config, lab, self.place, scratch, program.SOURCES.get(self.program.source)) as world:
            return self.what.function(world)


def cases():
    """Of programs from source trees those whose tree is there."""
    return [Job(p, run, place) for p in programs() if not p.source or p.source in program.SOURCES for run in p.runs for place in run.places]
