#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs rocemu against the kernel's Soft-RoCE (rxe) over a wire: a QEMU guest of Debian packages on a tap in a network
namespace of its own. Each case keeps its capture, whose ICRCs are checked by an independent program.

A line per case; exit code 0 all passed, 1 some failed, 2 usage, 77 cannot run here (the last line
has the reason).
"""
import argparse
import collections
import ctypes
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, 'test', 'prog'))

import doctable  # noqa: E402 # pylint: disable=wrong-import-position
import harness  # noqa: E402 # pylint: disable=wrong-import-position
import errors  # noqa: E402 # pylint: disable=wrong-import-position
import cases as plan  # noqa: E402 # pylint: disable=wrong-import-position
import guest as vm  # noqa: E402 # pylint: disable=wrong-import-position
import parity  # noqa: E402 # pylint: disable=wrong-import-position
import guest_image  # noqa: E402 # pylint: disable=wrong-import-position
import peers  # noqa: E402 # pylint: disable=wrong-import-position
import table  # noqa: E402 # pylint: disable=wrong-import-position

SKIPPED = 77
CLONE_NEWNET = 0x40000000
VERIFY_GUARD_S = 120


def arguments():
    p = argparse.ArgumentParser(prog='test/interop/run.sh', description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default=os.path.join(TOP, 'build'), help='build directory (default: %(default)s)')
    p.add_argument('--full', action='store_true', help='every case (default: a cover of them)')
    p.add_argument('--list', action='store_true', help='print the names of the cases and stop')
    p.add_argument('--only', metavar='PATTERN', action='append', default=[],
                   help='only cases whose name matches (* and ?; a part of the name suffices); may be repeated')
    p.add_argument('--cache', default=guest_image.default_cache(), help='where the guest is kept (default: %(default)s)')
    p.add_argument('--captures', metavar='DIR', help='where captures go (default: interop/ of the build directory)')
    p.add_argument('--json', metavar='FILE', help='write the results there, too')
    p.add_argument('--write-docs', action='store_true', 
                   help='write what ran into docs/interop.md and, where all of parity ran (--full), docs/parity.md')
    return p.parse_args()


def wanted(case, args):
    if args.only:
        return any(fnmatch.fnmatchcase(case.name, f'*{pattern}*') for pattern in args.only)
    return case.level == plan.NORMAL or args.full


def say(text):
    print(f'-- {text}', flush=True)


def check_machine():
    """What would stop us, before anything is made."""
    if os.geteuid() != 0:
        raise guest_image.Unavailable('a tap and a network namespace need root')
    for program, package in (('qemu-system-x86_64', 'qemu-system-x86'), ('ip', 'iproute2'), ('unshare', 'util-linux')):
        if not shutil.which(program):
            raise guest_image.Unavailable(f'no {program} (package {package})')
    p = subprocess.run(['unshare', '-n', 'ip', 'tuntap', 'add', 'dev', vm.TAP, 'mode', 'tap'], capture_output=True,
                       text=True, check=False)
    if p.returncode != 0:
        raise guest_image.Unavailable(f'no tap in a network namespace: {p.stderr.strip()}')


def own_network():
    """A network namespace of this process's own, with the tap in it; both end with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise guest_image.Unavailable(f'no network namespace: {os.strerror(ctypes.get_errno())}')
    vm.make_wire()


def has_verify(config):
    p = subprocess.run([config.rocemu, 'verify', '--help'], capture_output=True, check=False)
    return p.returncode == 0


class Run:
    """The cases one after the other, and what came of them."""

    def __init__(self, config, wire, captures):
        self.config, self.wire, self.captures = config, wire, captures
        self.verify = has_verify(config)
        self.results = []                                # of cases, for JSON
        self.cells = collections.defaultdict(dict)       # (group, label): place: Row
        self.on_wire = collections.Counter()             # outcomes of the cases that are in the tables
        self.packets = 0

    def check_capture(self, case, capture):
        count, bad = capture.check()
        self.packets += count
        if count == 0:
            raise harness.Failure('no packet was on the wire')
        if case.corrupts and case.role and not bad:
            raise harness.Failure('no packet was corrupted')
        if bad and not case.corrupts:
            raise harness.Failure(f'{capture.path}: {bad}')
        if self.verify and not case.corrupts:
            p = subprocess.run([self.config.rocemu, 'verify', capture.path], capture_output=True, text=True, check=False,
                               timeout=VERIFY_GUARD_S)
            if p.returncode != 0:
                raise harness.Failure(f'rocemu verify {capture.path}: exit code {p.returncode}\n'
                                      f'{(p.stdout + p.stderr)[-3000:]}')
        return count

    def one(self, case):
        begin = time.monotonic()
        rows, text, outcome = [], '', 'pass'
        capture = None
        try:
            self.wire.set_mtu(case.mtu)
            if case.on_wire:
                path = os.path.join(self.captures, case.name.replace('/', '_') + '.pcap')
                capture = peers.Capture(self.wire.guest, path)
            rows, text = case.run(self.wire, case)
            if capture:
                capture.stop()
            bad = [r for r in rows if r.outcome == 'fail']
            if bad:
                raise harness.Failure('\n'.join(r.text for r in bad))
            if capture:
                text = f'{text}, {self.check_capture(case, capture)} packets'.lstrip(', ')
        except (harness.Failure, vm.Failure) as e:
            outcome, text = 'fail', str(e)
            if capture:
                capture.stop()
        except Exception:  # pylint: disable=broad-except # a mistake of a case must not end the others
            outcome, text = 'fail', traceback.format_exc()
        place = (case.role, case.family, case.mtu)
        rows = rows or [plan.Row(*(case.label or (table.UNFINISHED, case.name.split('/rocemu-', maxsplit=1)[0])), 'fail')]
        for row in rows:
            old = self.cells[row.group, row.label].get(place)
            if old is None or row.outcome == 'fail':
                self.cells[row.group, row.label][place] = row
        seconds = time.monotonic() - begin
        self.on_wire[outcome] += case.on_wire
        self.results.append({'name': case.name, 'outcome': outcome, 'seconds': round(seconds, 2), 'text': text})
        known = sorted({r.known for r in rows if r.outcome == 'known'})
        note = ''.join(f'; known difference {n}' for n in known)
        print(f'{"ok  " if outcome == "pass" else "FAIL"} {case.name} {seconds:.1f} s'
              + (f'  ({text}{note})' if outcome == 'pass' else f'\n{text}'), flush=True)

    def count(self, outcome):
        return sum(r['outcome'] == outcome for r in self.results)


def run_all(args, chosen):
    config = harness.Config(args.build)
    if not os.access(config.rocemu, os.X_OK):
        raise guest_image.Unavailable(f'{config.rocemu} is not there: build first')
    check_machine()
    kernel, initrd = guest_image.get(args.cache, say)
    own_network()
    captures = args.captures or os.path.join(args.build, 'interop')
    shutil.rmtree(captures, ignore_errors=True)
    os.makedirs(captures)
    with tempfile.TemporaryDirectory(prefix='rocemu-interop-') as work:
        guest = vm.Guest(kernel, initrd, os.path.abspath(args.build), work, say)
        try:
            guest.boot()
            parity.bring_libraries(guest, os.path.abspath(args.build))
            run = Run(config, peers.Wire(config, guest), captures)
            for case in chosen:
                if not guest.alive:
                    raise harness.Failure(f'the guest has died: {guest.last_words()}')
                run.one(case)
            say(f'{run.packets} packets captured, every ICRC checked' + ('; rocemu verify' if run.verify else ''))
            return run, guest.release
        finally:
            guest.end()


def write_docs(run, release, everything):
    docs = os.path.join(TOP, 'docs')
    table.write(os.path.join(docs, 'interop.md'), run, release, plan.KNOWN, plan.NOTES, everything)
    if run.wire.parity_report:
        doctable.write(os.path.join(docs, 'parity.md'), 'rxe', f'Linux {release}. {run.wire.parity_report}')


def main():
    args = arguments()
    chosen = [c for c in plan.cases(args.full) if wanted(c, args)]
    if args.list:
        print('\n'.join(c.name for c in chosen))
        return 0
    if not chosen:
        print('interop: no case matches (see --list)', file=sys.stderr)
        return 2
    try:
        run, release = run_all(args, chosen)
    except guest_image.Unavailable as e:
        print(f'interop: cannot run here: {e}')
        return SKIPPED
    except harness.Failure as e:
        print(f'interop: {e}')
        return 1
    if run.wire.errors:
        print('\n'.join(errors.table(run.wire.errors)))
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(run.results, f, indent=1)
    if args.write_docs:
        write_docs(run, release, args.full and not args.only)
    print(f'interop: {run.count("pass")} passed, {run.count("fail")} failed')
    return 1 if run.count('fail') else 0


if __name__ == '__main__':
    sys.exit(main())
