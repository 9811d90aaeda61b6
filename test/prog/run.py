#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the program tests: stock programs and test programs, as separate processes, under `rocemu run`.

A line per case on stdout; exit code 0 all passed or skipped, 1 some failed, 2 usage.
"""
import argparse
import fnmatch
import json
import os
import re
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import harness
import cases_addresses
import cases_attack
import cases_badinput
import cases_badnet
import cases_bare
import cases_capture
import cases_cm
import cases_events
import cases_faults
import cases_forged
import cases_habits
import cases_interface
import cases_intercept
import cases_lessons
import cases_limits
import cases_cm_end
import cases_cm_flood
import cases_cm_forged
import cases_counters
import cases_mcast
import cases_names
import cases_network
import cases_paths
import cases_perftest
import cases_pingpong
import cases_port
import cases_rdma
import cases_rdmacore
import cases_refused
import cases_robust
import cases_rsocket
import cases_sanitizers
import cases_scale
import cases_scenarios
import cases_shm
import cases_shm_peers
import cases_soak
import cases_stat
import cases_swept
import cases_sysfs
import cases_trace
import cases_users
import cases_verbs
import cases_why

MODULES = (cases_addresses, cases_attack, cases_bare, cases_pingpong, cases_perftest, cases_verbs, cases_scenarios, cases_mcast, cases_names,
           cases_network, cases_interface, cases_capture, cases_counters,
           cases_paths, cases_port, cases_rdma, cases_rdmacore, cases_refused, cases_robust, cases_badinput, cases_badnet, cases_cm,
           cases_cm_end, cases_cm_flood, cases_cm_forged, cases_rsocket, cases_sanitizers, cases_scale,
           cases_shm, cases_shm_peers, cases_soak, cases_stat, cases_swept, cases_sysfs, cases_users,
           cases_events, cases_trace, cases_faults, cases_forged, cases_habits, cases_intercept, cases_lessons, cases_limits, cases_why)
ATTEMPTS = 3                          # of a case on a busy machine, see starved()
SANITIZED = {
    # Which cases are run on a sanitizer build, where everything takes many times as long.
    'address': ('addresses/none*', 'pingpong/*/lo/poll', 'pingpong/*/lo/events', 'verbs/*/lo/*', 'verbs/errors/*', 'perftest/*/lo/path*',
                'badinput/*', 'cm/ece/lo', 'cm/killed/*/lo', 'cm/rping*/lo', 'cm/u*/lo', 'cm/rdma_client/lo', 'rsocket/r*stream/lo',
                'rsocket/udpong/lo', 'rsocket/rcopy*/lo', 'mcast/lo/*', 'port/*', 'paths/*', 'counters/live', 'counters/errors',
                'rdma/*', 'sysfs/*', 'lessons/*', 'stat/running', 'stat/dump.rnr', 'stat/prometheus',
                'events/u*', 'intercept/*', 'events/rping.removed', 'shm/pingpong/*/lo/poll', 'shm/loss', 'shm/killed/*', 'shm/scribbled'),
    # Stock programs have no annotations that the thread sanitizer could see; test programs are
    # built with it.
    'thread': ('verbs/*/lo/*', 'verbs/errors/*'),
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', default='build', help='build directory (default: %(default)s)')
    p.add_argument('--list', action='store_true', help='print the names of the cases and stop')
    p.add_argument('--only', metavar='PATTERN', action='append', default=[],
                   help='only cases whose name matches (* and ?; a part of the name suffices); may be repeated')
    p.add_argument('--quick', action='store_true', help='only the short cover')
    p.add_argument('--full', action='store_true', help='the whole matrix')
    p.add_argument('--sanitize', choices=('address', 'thread'), help='the build directory is one with this sanitizer')
    p.add_argument('--jobs', type=int, default=max(1, (os.cpu_count() or 2) // 2),
                   help='cases at the same time; most are two processes that spin (default: %(default)s here)')
    p.add_argument('--json', metavar='FILE', help='write the results there, too')
    p.add_argument('--host-network', action='store_true',
                   help='do not run in a network namespace of its own (root does otherwise)')
    return p.parse_args()


def wanted(case, args):
    if args.only:
        return any(fnmatch.fnmatchcase(case.name, f'*{pattern}*') for pattern in args.only)
    if args.sanitize and not any(fnmatch.fnmatchcase(case.name, p) for p in SANITIZED[args.sanitize]):
        return False
    return case.level <= (harness.QUICK if args.quick else harness.FULL if args.full else harness.NORMAL)


class Results:
    """Outcomes as they come, printed by one thread at a time."""

    def __init__(self):
        self.rows = []
        self.lock = threading.Lock()

    def add(self, case, outcome, seconds, text):
        with self.lock:
            self.rows.append({'name': case.name, 'outcome': outcome, 'seconds': round(seconds, 2), 'text': text})
            label = {'pass': 'ok  ', 'fail': 'FAIL', 'skip': 'skip'}[outcome]
            note = f'  ({text})' if text and outcome != 'fail' else ''
            print(f'{label} {case.name} {seconds:.1f} s{note}', flush=True)
            if outcome == 'fail':
                print(text, flush=True)

    def count(self, outcome):
        return sum(row['outcome'] == outcome for row in self.rows)


def starved(text):
    """Did a peer give up on a process that the machine did not let run? The stock pingpongs wait for half a second
    and have no option for more; on a machine with twice as much to do as cores a process waits for longer."""
    gave_up = re.search(r'retry counter exceeded|Failed status 12', text)
    return bool(gave_up) and os.getloadavg()[0] > 2 * (os.cpu_count() or 1)


def run_case(case, config, lab, results):
    """One case, again when it failed for lack of CPU; the result shows that."""
    for attempt in range(ATTEMPTS):
        outcome, text, seconds = run_once(case, config, lab)
        if outcome != 'fail' or not starved(text):
            break
    if attempt and outcome == 'pass':
        text = f'{text + ", " if text else ""}attempt {attempt + 1}: the machine is busy'
    results.add(case, outcome, seconds, text)


def run_once(case, config, lab):
    begin = time.monotonic()
    outcome, text = 'pass', ''
    try:
        text = case.run(config, lab) or ''
    except harness.Skip as e:
        outcome, text = 'skip', str(e)
    except harness.Failure as e:
        outcome, text = 'fail', str(e)
    except Exception:  # pylint: disable=broad-except # a mistake of a case must not end the others
        outcome, text = 'fail', traceback.format_exc()
    return outcome, text, time.monotonic() - begin


def main():
    args = arguments()
    config = harness.Config(args.build, args.sanitize)
    chosen = [c for m in MODULES for c in m.cases() if wanted(c, args)]
    if args.list:
        print('\n'.join(c.name for c in chosen))
        return 0
    if not chosen:
        print('run.py: no case matches (see --list)', file=sys.stderr)
        return 2
    if not os.access(config.rocemu, os.X_OK):
        print(f'run.py: {config.rocemu} is not there: build first (meson setup build && ninja -C build)',
              file=sys.stderr)
        return 2
    if not args.host_network:
        harness.own_loopback()

    lab = harness.Lab(config)
    results = Results()
    try:
        with ThreadPoolExecutor(args.jobs) as pool:
            for future in [pool.submit(run_case, c, config, lab, results) for c in chosen if not c.alone]:
                future.result()
        for case in chosen:
            if case.alone:
                run_case(case, config, lab, results)
    finally:
        lab.close()
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(results.rows, f, indent=1)
    print(f'program tests: {results.count("pass")} passed, {results.count("fail")} failed, '
          f'{results.count("skip")} skipped')
    return 1 if results.count('fail') else 0


if __name__ == '__main__':
    sys.exit(main())
