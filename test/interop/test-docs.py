#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""usage: test-docs.py BUILD

Holds the table of docs/interop.md to what test/interop tries: a row for each operation, error and
program, and none for what is no more. Also tests run.sh's message and exit code when it
cannot run.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path += [HERE, os.path.join(TOP, 'test', 'prog')]

import cases  # noqa: E402 # pylint: disable=wrong-import-position
import doctable  # noqa: E402 # pylint: disable=wrong-import-position
import scenarios  # noqa: E402 # pylint: disable=wrong-import-position
import errors  # noqa: E402 # pylint: disable=wrong-import-position
import guest_image  # noqa: E402 # pylint: disable=wrong-import-position
import scenario_pair  # noqa: E402 # pylint: disable=wrong-import-position
import harness  # noqa: E402 # pylint: disable=wrong-import-position
import table  # noqa: E402 # pylint: disable=wrong-import-position

SKIPPED = 77
DOCUMENT = os.path.join(TOP, 'docs', 'interop.md')


def listed(config, transport, group):
    p = subprocess.run([config.program('scenario', 'scenario'), '--list', '--with', f'TYPE={scenario_pair.TYPES[transport]}',
                        scenario_pair.file(f'verbs-{group}')], capture_output=True, text=True, check=True)
    names = re.findall(r'^\S+:\d+: (\w+:)', p.stdout, re.M)
    return {(cases.GROUP_NAMES[group], cases.label_of(transport, name)) for name in names}


def wanted(config):
    """(group, label) of each row."""
    rows = {row for t in cases.TRANSPORTS for g in cases.GROUP_NAMES for row in listed(config, t, g)}
    return rows | {c.label for c in cases.cases(True) if c.label}


def present():
    with open(DOCUMENT, encoding='utf-8') as f:
        groups = table.cells_of(f.read())
    return {(group, label) for group, labels in groups.items() for label in labels}


def docs__table__has_a_row_for_each_case(config):
    want, have = wanted(config), present()
    assert len(want) > 50, f'the scenarios are too few: {want}'
    assert have == want, f'{DOCUMENT}: to be written again (run.sh --full --write-docs): it lacks {sorted(want - have)}, ' \
                         f'and is beyond what there is with {sorted(have - want)}'


def docs__errors_table__has_a_row_for_each_row_and_each_explanation():
    want = [row.name for rows in errors.error_rows.read_rows() for row in rows]
    text = doctable.read(DOCUMENT, errors.PART)
    rows = doctable.rows(text)
    known = {k.number: k.why for k in errors.read_known()}
    again = 'to be written again (run.sh --only errors/r --write-docs)'
    assert [row[0] for row in rows] == want, f'{DOCUMENT}: {again}: rows differ from test/scenario/errors*.scenario'
    said = dict(re.fullmatch(r'\[e(\d+)\] (.*)', item).groups() for item in doctable.items(text))
    assert said == {str(n): why for n, why in known.items()}, f'{DOCUMENT}: {again}: explanations differ from errors-rxe.txt'
    cells = {cell for row in rows for cell in row[1:]}
    assert not cells & {'DIFFERS', 'not run'} and 'same' in cells, f'{DOCUMENT}: {again}: {cells}'


ROUNDS = 'ok key (ROW=rc/a LOST=0)\ndiffers 2: vendor_err is 0x0, not 0x62\n' \
         'differs 1: what came is not what is expected;  expected: send 1; send 2;  came:     nothing\nnot ok key (ROW=rc/b LOST=0)\n' \
         'skipped key, the NAK is lost (ROW=rc/a LOST=0)\nskipped rc/c: in memory ()\n3 cases in 3 rounds, 1 failed\n'


def read():
    return errors.results(ROUNDS, {1: '  send_cq send 1; send 2\n', 2: '  b: vendor_err 0x62\n'})


def errors__what_differs_has_no_explanation__told():
    known = [errors.Known(1, 'rxe > *', 'rc/*', 'b: vendor_err*', 'why')]
    rows = errors.Rows(('rxe', 'rocemu'), read(), known)
    assert rows.unexplained == ['rc/b: a: send_cq: nothing, not send 1; send 2'] and not rows.gone(), vars(rows)
    assert rows.cells == {'rc/a': 'same', 'rc/b': 'DIFFERS', 'rc/c': 'in memory only'}, rows.cells
    rows = errors.Rows(('rocemu', 'rxe'), read(), known)
    assert len(rows.unexplained) == 2 and not rows.gone(), vars(rows)


def errors__what_is_explained_is_not_seen__told():
    known = [errors.Known(1, 'rxe > *', 'rc/*', 'the NAK*', 'why'), errors.Known(2, '*', 'rc/*', '*', errors.SOMETIMES)]
    rows = errors.Rows(('rxe', 'rocemu'), [('rc/a', 'ok', [])], known)
    assert rows.gone() == known[:1], rows.gone()


PACKETS = 'a.scenario:7: what came is not what is expected\n  expected: nak 62 0/0; event QP_ACCESS_ERR; ERR\n' \
          '  came:     nak 62 0/0; ERR\n  case: key (A=1)\nb.scenario:9:3: the state is RTS, not ERR\n  case: state\n'


def packets__differences__each_needs_its_explanation():
    found = scenarios.differences(PACKETS)
    assert found == [('key (A=1)', 'nak 62 0/0; event QP_ACCESS_ERR; ERR', 'nak 62 0/0; ERR'),
                     ('state', '', 'the state is RTS, not ERR')], found
    event, other = scenarios.Known('*', 'without event *', 'w'), scenarios.Known('state', 'the state*', 'w')
    assert not scenarios.judge(found, [event, other])
    assert scenarios.judge(found, [event]) == ['not explained: state | the state is RTS, not ERR']
    assert scenarios.judge(found[:1], [event, other]) == ['explained, but not seen: state | the state*']
    # Of an expectation without such an effect it explains nothing.
    assert len(scenarios.judge([('key', 'nak 61 0/0; ERR', 'nak 62 0/0; ERR')], [event])) == 2


def docs__packets__have_each_explanation():
    text = doctable.read(DOCUMENT, scenarios.PART)
    want = list(dict.fromkeys(k.why for k in scenarios.read_known()))
    assert [' '.join(item.split()) for item in doctable.items(text)] == want, \
        f'{DOCUMENT}: to be written again (run.sh --full --write-docs): its list of packets is not that of scenarios-rxe.txt'


FENCE = 'ok storm: x\nverbs-flow.scenario:9: what came is not what is expected\n  expected: send 2\n  came:     nothing\n' \
        '  case: fence: x (TYPE=RC)\nnot ok fence: x\nok solicited: x\n3 cases in 6 rounds, 1 failed\n'


def known__fence__of_an_rxe_client_only():
    for role, outcome in (('server', 'known'), ('client', 'fail')):
        rows = {r.label: r.outcome for r in cases.scenario_rows('Errors', 'rc', FENCE, role)}
        assert rows == {'RC storm': 'pass', 'RC fence': outcome, 'RC solicited': 'pass'}, (role, rows)


def known__of_another_case_or_another_error__fails():
    for text in (FENCE.replace('fence:', 'unsignaled:'), FENCE.replace('came:     nothing', 'came:     send 3')):
        outcomes = [r.outcome for r in cases.scenario_rows('Errors', 'rc', text, 'server')]
        assert outcomes == ['pass', 'fail', 'pass'], outcomes


def known__seen_more_often_than_it_is_rare__soak_fails():
    case = cases.Case('soak', 'server', 'v4', 1500, cases.NORMAL, None, label=('Order and notification', 'RC soak'))
    rows = cases.scenario_rows('Errors', 'rc', FENCE, 'server')
    real, cases.verbs = cases.verbs, lambda *_: (rows, '')
    try:
        found, _ = cases.soak(None, case, 60)
    finally:
        cases.verbs = real
    assert found[0].outcome == 'fail' and 'round 2' in found[0].text, vars(found[0])


def run_sh(*args, **env):
    p = subprocess.run([os.path.join(HERE, 'run.sh'), *args], capture_output=True, text=True, check=False,
                       env={**os.environ, **env})
    return p.returncode, p.stdout.splitlines(), p.stderr.splitlines()


def command__no_such_case__2_and_one_line(config):
    code, out, err = run_sh('--build', config.build, '--only', 'nothing-like-that')
    assert code == 2 and not out and len(err) == 1 and '--list' in err[0], (code, out, err)


def command__nothing_built__77_and_what_is_missing(config):
    with tempfile.TemporaryDirectory() as empty:
        code, out, err = run_sh('--build', empty, '--only', 'pingpong/rc')
    assert code == SKIPPED and len(out) == 1 and 'build first' in out[0] and not err, (code, out, err)


def run_py(config, *args, path):
    """run.sh gives itself a PATH: without it, programs can be missing."""
    p = subprocess.run(['/usr/bin/python3', os.path.join(HERE, 'interop.py'), '--build', config.build, '--only', 'pingpong/rc',
                        *args], capture_output=True, text=True, check=False, env={**os.environ, 'PATH': path})
    return p.returncode, p.stdout.splitlines(), p.stderr


def command__no_qemu__77_and_the_package(config):
    with tempfile.TemporaryDirectory() as empty:
        code, out, err = run_py(config, path=empty)
    assert code == SKIPPED and len(out) == 1 and 'qemu-system-x86' in out[0] and not err, (code, out, err)


def command__no_mmdebstrap__77_and_its_name(config):
    programs = [shutil.which(name) for name in ('qemu-system-x86_64', 'ip', 'unshare', 'apt-get', 'apt-config')]
    if None in programs:
        return f'one of the other programs is not there, either: {programs}'
    with tempfile.TemporaryDirectory() as some, tempfile.TemporaryDirectory() as cache:
        for program in programs:
            os.symlink(program, os.path.join(some, os.path.basename(program)))
        code, out, err = run_py(config, '--cache', cache, path=some)
    # Where no tap can be made, that is reported first.
    assert code == SKIPPED and ('mmdebstrap' in out[-1] or 'tap' in out[-1]) and not err, (code, out, err)
    return None


def command__guest_does_not_boot__77_and_its_last_words(config):
    if not shutil.which('qemu-system-x86_64'):
        return 'no QEMU here'
    try:
        release = guest_image.codename()
    except guest_image.Unavailable as e:
        return str(e)
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as captures:
        name = os.path.join(cache, f'{release}-{guest_image.recipe(release)}')
        for end in ('.kernel', '.initrd'):
            with open(name + end, 'wb') as f:
                f.write(b'this is no kernel' * 1000)
        code, out, err = run_py(config, '--cache', cache, '--captures', captures, path=os.environ['PATH'])
    assert code == SKIPPED and ('does not boot: ' in out[-1] or 'tap' in out[-1]) and not err, (code, out, err)
    return None


def main():
    config = harness.Config(sys.argv[1])
    if not harness.own_loopback():
        print('skipped: no network namespace can be made here')
        sys.exit(SKIPPED)
    failed = False
    for name, case in list(globals().items()):
        if '__' not in name or name.startswith('_'):
            continue
        try:
            why = case(*((config,) if case.__code__.co_argcount else ()))
            print(f'skipped {name}: {why}' if why else f'ok      {name}', flush=True)
        except (AssertionError, harness.Failure) as e:
            failed = True
            print(f'FAILED  {name}: {e}', flush=True)
    sys.exit(1 if failed else 0)


main()
