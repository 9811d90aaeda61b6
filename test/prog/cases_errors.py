# SPDX-License-Identifier: BSD-2-Clause
"""The errors table (docs/errors.md) by verbs: on one device, between two devices of two processes, and with the reason of each error."""
import os
import re
import sys

import harness
from harness import NORMAL, QUICK, Case, expect, gid_index, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'scenario'))

import error_rows  # noqa: E402 # pylint: disable=wrong-import-position

# By verbs no packet is lost on purpose.
OPTIONS = ('--vendor-err', '--skip', '--rounds', '--with', 'LOST=0', '--with', 'GONE=0')
IN_MEMORY = {'rc/bad-response'}
# Of events that are no errors, and of requests that are none.
NO_REASON = {'rc/comm-est', 'rc/sq-drained', 'rc/srq-limit', 'rc/last-wqe', 'rc/posted-in-error', 'rc/write/empty-unknown-rkey',
             'rc/read/empty-unknown-rkey'}


def argv(config, side, *more):
    return [config.program('scenario', 'scenario-verbs'), '--device', side.name, '--gid', gid_index(config, side), *more]


def row_of(line):
    """The row of a line of --rounds that passed, or None."""
    found = re.match(rf'ok (?:.*\(ROW=)?({error_rows.NAME})\b', line)
    return found and found[1]


def all_rows(p):
    want = {row.name for rows in error_rows.read_rows() for row in rows} - IN_MEMORY
    have = [row_of(line) for line in p.stdout.splitlines() if row_of(line)]
    expect(sorted(have) == sorted(want), f'rows are missing, or did not pass: {sorted(want.symmetric_difference(have))}', p)
    expect(re.search(r', 0 failed, \d+ not possible here$', p.stdout), 'rows failed', p)
    return f'{len(have)} rows'


def one_device(*options):
    def check(config, lab):
        side = lab.get('lo').server
        return all_rows(run(config, side, argv(config, side, *OPTIONS, *error_rows.FILES), options=options))

    return check


def two_devices(config, lab):
    topo = lab.get('lo-two')
    client = argv(config, topo.client, '--peer', '{server}:{port}', *OPTIONS, *error_rows.FILES)
    return all_rows(harness.pair(config, topo, argv(config, topo.server, '--vendor-err', '--listen', '{port}'), client)[1])


def reasons(config, lab):
    side = lab.get('lo').server
    shell = ['sh', '-c', '"$@" 2>&1', 'sh', *argv(config, side, *OPTIONS, *error_rows.FILES)]
    p = run(config, side, shell, options=('--log', 'why'))
    given, silent = [], set()
    for line in p.stdout.splitlines():
        if line.startswith('rocemu: why: '):
            expect(len(line.split(': ')) >= 5, f'not object, value, rule and remedy: {line}', p)
            given.append(line)
        elif row_of(line):
            silent |= set() if given else {row_of(line)}
            given = []
    expect(silent == NO_REASON, f'rows without a reason, or with one: {sorted(silent ^ NO_REASON)}', p)
    return all_rows(p)


def difference(config, lab):
    """A requester whose packets are all lost learns nothing of the responder's reason: what differs is printed, and the exit code 1."""
    side = lab.get('lo').server
    shell = ['sh', '-c', '"$@"; echo "exit $?"', 'sh', *argv(config, side, *OPTIONS, '--wait', 100, '--event-wait', 100, '--with',
                                                           'ROW=rc/write/qp-right', '--only', 'QP that*', error_rows.FILES[0])]
    p = run(config, side, shell, options=('--impair', 'loss=100%'))
    for want in ('expected: send 1 REM_INV_REQ_ERR; send 2 WR_FLUSH_ERR;', 'vendor_err is 0x0, not 0x61', 'expected: QP_REQ_ERR;'):
        expect(re.search(rf'^differs \d+: .*{want}', p.stdout, re.M), f'not there: {want}', p)
    expect(re.search(r'^not ok QP that.*ROW=rc/write/qp-right', p.stdout, re.M) and 'exit 1' in p.stdout, 'it is not said to fail', p)


def cases():
    return [
        Case('errors/lo/udp', one_device(), QUICK),
        Case('errors/lo/shm', one_device('--wire', 'shm'), NORMAL),
        Case('errors/lo-two/processes', two_devices, NORMAL),
        Case('errors/reasons', reasons, NORMAL),
        Case('errors/difference', difference, NORMAL),
    ]
