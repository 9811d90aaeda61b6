# SPDX-License-Identifier: BSD-2-Clause
"""Runs the world's RDMA programs, unmodified, under `rocemu run`: on the loopback interface, and between two namespaces
joined by a veth pair. Programs come from the distribution's packages, or from a source tree that stays where it is:

  test/world/run.sh                          what test/run.sh --stage world runs
  test/world/run.sh --all                    the larger ones, too, and what test/prog has of packaged programs
  test/world/run.sh --source NAME=PATH       a program from its source tree, which is built there or beside it
  test/world/run.sh --all --write-docs       the table of docs/interop.md: rows of programs that ran are replaced

A line per run; exit code 0 all passed or skipped, 1 some failed, 2 usage.
"""
import argparse
import fnmatch
import importlib
import json
import os
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path += [HERE, os.path.join(TOP, 'test', 'prog')]

import harness  # noqa: E402 # pylint: disable=wrong-import-position
import table  # noqa: E402 # pylint: disable=wrong-import-position
from program import PLACES, World  # noqa: E402 # pylint: disable=wrong-import-position

ATTEMPTS = 2
DOCUMENT = os.path.join(TOP, 'docs', 'interop.md')


def programs():
    names = sorted(name[:-3] for name in os.listdir(HERE) if name.startswith('prog_') and name.endswith('.py'))
    return [program for name in names for program in importlib.import_module(name).PROGRAMS]


class Job:
    """A run of a program at a place."""

    def __init__(self, program, run, place):
        self.program = program
        self.run = run
        self.place = place
        self.name = f'world/{program.name}/{run.what}/{place}'
        self.outcome = self.text = self.first = ''
        self.seconds = 0.0

    def once(self, config, lab, source):
        why_not = self.program.missing()
        if why_not:
            raise harness.Skip(why_not)
        with tempfile.TemporaryDirectory(prefix='rocemu-world-') as scratch, \
                World(config, lab, self.place, scratch, source) as world:
            return self.run.function(world) or ''

    def attempt(self, config, lab, source):
        begin = time.monotonic()
        try:
            self.outcome, self.text = 'pass', self.once(config, lab, source)
        except harness.Skip as e:
            self.outcome, self.text = 'skip', str(e)
        except harness.Failure as e:
            self.outcome, self.text = 'fail', str(e)
        except Exception:  # pylint: disable=broad-except # a mistake of one must not end the others
            self.outcome, self.text = 'fail', traceback.format_exc()
        self.seconds = time.monotonic() - begin

    def do(self, config, lab, source):
        """Once, and once more when it failed: others share the machine."""
        for attempt in range(ATTEMPTS):
            self.attempt(config, lab, source)
            if self.outcome != 'fail':
                break
            if attempt == 0:
                self.first = self.text.splitlines()[0]
        note = f'  ({self.text})' if self.text and self.outcome != 'fail' else ''
        note += f'  (the first time: {self.first})' if self.first and self.outcome == 'pass' else ''
        print(f'{ {"pass": "ok  ", "fail": "FAIL", "skip": "skip"}[self.outcome]} {self.name} {self.seconds:.1f} s{note}', flush=True)
        if self.outcome == 'fail':
            print(self.text, flush=True)

    def row(self):
        return {'name': self.name.removeprefix('world/'), 'outcome': self.outcome, 'seconds': round(self.seconds, 2), 'text': self.text, 'first': self.first}


def arguments():
    p = argparse.ArgumentParser(prog='test/world/run.sh', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--list', action='store_true', help='print the names of the runs and stop')
    p.add_argument('--only', metavar='PATTERN', action='append', default=[], help='only runs whose name matches (* and ?; a part suffices)')
    p.add_argument('--all', action='store_true', help='the larger programs as well')
    p.add_argument('--source', metavar='NAME=PATH', action='append', default=[], help='a program from its source tree; may be repeated')
    p.add_argument('--json', metavar='FILE', help='write the results there, too')
    p.add_argument('--write-docs', action='store_true', help='write them into docs/interop.md')
    p.add_argument('--check-docs', action='store_true', help='has the table of docs/interop.md a row for each run, and no other?')
    p.add_argument('--host-network', action='store_true', help='do not run in a network namespace of its own (root does otherwise)')
    return p.parse_args()


def sources(args, known):
    """{name: path}, of --source."""
    found = {}
    for text in args.source:
        name, equals, path = text.partition('=')
        if not equals or name not in known or not os.path.isdir(path):
            raise SystemExit(f'run.sh: --source {text}: NAME=PATH is needed, with PATH a directory and NAME one of {", ".join(sorted(known))}')
        found[name] = os.path.abspath(path)
    return found


def jobs(args, found):
    for program in programs():
        if program.source and program.source not in found and not args.list:
            continue
        for run in program.runs:
            for place in run.places:
                job = Job(program, run, place)
                if args.only and not any(fnmatch.fnmatchcase(job.name.lower(), f'*{p.lower()}*') for p in args.only):
                    continue
                if args.all or args.only or program.source or not (program.larger or run.larger):
                    yield job


def main():
    args = arguments()
    if args.check_docs:
        lacks, beyond = table.differences(DOCUMENT, programs())
        for what, rows in (('lacks', lacks), ('has no longer to have', beyond)):
            for name, run in rows:
                print(f'docs/interop.md {what} the row "{name}, {run}" (run.sh --only ... --write-docs)')
        return 1 if lacks or beyond else 0
    known = {p.source for p in programs() if p.source}
    try:
        found = sources(args, known)
    except SystemExit as e:
        print(e, file=sys.stderr)
        return 2
    chosen = list(jobs(args, found))
    if args.list:
        print('\n'.join(job.name for job in chosen))
        return 0
    if not chosen:
        print('run.sh: nothing matches (see --list)', file=sys.stderr)
        return 2
    config = harness.Config(args.build)
    if not os.access(config.rocemu, os.X_OK):
        print(f'run.sh: {config.rocemu} is not there: build first (meson setup build && ninja -C build)', file=sys.stderr)
        return 2
    if not args.host_network:
        harness.own_loopback()
    lab = harness.Lab(config)
    begin = time.monotonic()
    try:
        for job in chosen:
            job.do(config, lab, found.get(job.program.source))
    finally:
        lab.close()
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump([job.row() for job in chosen], f, indent=1)
    if args.write_docs:
        table.write(DOCUMENT, chosen, found, list(PLACES))
    count = {o: sum(job.outcome == o for job in chosen) for o in ('pass', 'fail', 'skip')}
    print(f'{count["pass"]} passed, {count["fail"]} failed, {count["skip"]} skipped, {time.monotonic() - begin:.0f} s')
    return 1 if count['fail'] else 0


if __name__ == '__main__':
    sys.exit(main())
