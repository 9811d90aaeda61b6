#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""usage: test-run.py ROCEMU ERRORS-RUN

errors-run itself: between two emulated devices every row passes; a failing one is reported with the
difference; bad usage and missing devices are reported in a line.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'prog'))

import harness  # noqa: E402 # pylint: disable=wrong-import-position

SKIPPED = 77
ROCEMU, ERRORS_RUN = sys.argv[1:3]
NO_ERROR = {'rc/comm-est', 'rc/sq-drained', 'rc/srq-limit', 'rc/last-wqe', 'rc/posted-in-error',
            'rc/write/empty-unknown-rkey', 'rc/read/empty-unknown-rkey'}
TWO = ('--req', 'a', '--rsp', 'b')


class Result:
    def __init__(self, *args, impair=None):
        options = ('--impair', impair) if impair else ()
        p = subprocess.run([ROCEMU, 'run', '--device', 'a=127.0.0.1', '--device', 'b=127.0.0.2', *options, '--', ERRORS_RUN,
                            *args], capture_output=True, text=True, check=False)
        self.code, self.out, self.err = p.returncode, p.stdout.splitlines(), p.stderr.splitlines()

    def expect(self, code):
        assert self.code == code, (self.code, self.out[-10:], self.err[-10:])
        return self


def list__printed__every_row_with_what_it_is_of():
    rows = Result('--list').expect(0).out
    assert len(rows) > 70 and all(re.fullmatch(r'[a-z/-]+\t.+', row) for row in rows), rows


def rows__two_emulated_devices__all_as_wanted():
    names = [row.split('\t')[0] for row in Result('--list').out]
    r = Result(*TWO, '--jobs', '4').expect(0)
    assert [line.split()[1].rstrip(':') for line in r.out] == names, r.out
    assert [line for line in r.out if not line.startswith('ok ')] == \
        ['skipped rc/bad-response: takes a peer that does wrong: simulator only'], r.out


def rows__log_why__each_error_says_why():
    # One row at a time, and both streams in one: a row's messages come before its result. Some rows
    # are of events that are no errors.
    p = subprocess.run([ROCEMU, 'run', '--device', 'a=127.0.0.1', '--device', 'b=127.0.0.2', '--log', 'why', '--', ERRORS_RUN, *TWO],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    said, silent = [], set()
    for line in p.stdout.splitlines():
        if line.startswith('ok '):
            if not said:
                silent.add(line.split()[1])
            said = []
        elif line.startswith('rocemu: why: '):
            # What, the rule, the remedy.
            assert len(re.split(r': ', line)) >= 5, line
            said.append(line)
        else:
            assert line.startswith('skipped '), line
    assert silent == NO_ERROR, silent ^ NO_ERROR


def row__not_as_wanted__what_differs_and_1():
    # A requester whose packets are all lost learns nothing of the responder's reason.
    r = Result(*TWO, '--only', 'rc/write/unknown-rkey', '--patience', '100', '--events', '100', impair='loss=100%').expect(1)
    assert r.out[-1] == 'differs rc/write/unknown-rkey', r.out
    assert 'verbs, rc/write/unknown-rkey: the receive behind it: -, wanted WR_FLUSH_ERR' in r.out, r.out
    assert 'verbs, rc/write/unknown-rkey: the NAK on the wire: -, wanted 0x62' in r.out, r.out
    assert 'verbs, rc/write/unknown-rkey: the responder\'s events: none, wanted QP_ACCESS_ERR' in r.out, r.out


def device__not_there__3_and_its_name():
    r = Result('--req', 'a', '--rsp', 'nobody').expect(3)
    assert len(r.out) == 1 and 'nobody' in r.out[0], r.out


def usage__wrong__2():
    for args in ((), ('--req', 'a'), (*TWO, 'more'), (*TWO, '--jobs', '0'), (*TWO, '--patience', '-1')):
        assert 'usage' in Result(*args).expect(2).err[0], args
    r = Result(*TWO, '--only', 'nothing-like-that').expect(2)
    assert len(r.err) == 1 and 'nothing-like-that' in r.err[0], r.err


def main():
    if not harness.own_loopback():
        print('skipped: no network namespace can be made here')
        sys.exit(SKIPPED)
    failed = False
    for name, case in list(globals().items()):
        if '__' not in name or name.startswith('_'):
            continue
        try:
            case()
            print(f'ok      {name}', flush=True)
        except AssertionError as e:
            failed = True
            print(f'FAILED  {name}: {e}', flush=True)
    sys.exit(1 if failed else 0)


main()
