#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `rocemu conform` prints and writes: text, a terminal, JSON, JUnit, TAP, the page, captures, known differences,
comparisons of runs, exit codes.

usage: outputs.py ROCEMU RESPONDER

The device is RESPONDER. The cases are the test's own, so that each verdict is there: some expect what no device does.
"""
import fcntl
import html.parser
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import netns  # noqa: E402

DEVICE, TESTER, NAME = '127.0.0.1', '127.0.0.2', 'NIC <b> & "é"'
GAP = '  qp RC\n  answer\n  < SEND_ONLY 1 len 8\n  expect nak {} 0/0\n'
CASES = 'case out/pass: a NAK names the missing packet\n  conform MUST 9.7.5.2 rc_pingpong\n' + GAP.format(60) + '''
case out/fail: a <NAK> & that no device sends
  conform MUST 9.7.5.2 rc_pingpong
''' + GAP.format(61) + '''
case two/warn: a SHOULD that#differs
  conform SHOULD C9-105,CA17-24 rc_pingpong
''' + GAP.format(62) + '''
case out/measured: what is recorded
  conform MEASURE 9.7.5.2 rc_pingpong
  qp RC
  answer
  < SEND_ONLY 1 len 8
  trait gap nak nak 60 0/0 or none nothing
  latency nak_time
  note count 7
case out/known: it differs, and is known
  conform MUST 9.7.5.2 rc_pingpong
''' + GAP.format(63) + '''
case out/skip: its peer does not run
  conform MUST 9.6 ud_pingpong
  qp UD
  < SEND_ONLY 0 len 8
  expect nothing
case two/break: it may break the device
  conform MUST 9.6 none may_break
  qp UD
'''
# The second one waits until the device has not answered for two seconds, three times.
SLOW = 'case slow/pass: a NAK names the missing packet\n  conform MUST 9.7.5.2 rc_pingpong\n' + GAP.format(60) + '''
case slow/none: two NAKs come
  conform MUST 9.7.5.2 rc_pingpong
''' + GAP.format(60) + '''  expect nak 60 0/0
case slow/last: never begun
  conform MUST 9.7.5.2 rc_pingpong
''' + GAP.format(60)
KNOWN = '# accepted\nout/known | the vendor knows\nout/pa* | it passes\n\nother/* | not carried out\n'
VERDICTS = {'out/pass': 'pass', 'out/fail': 'FAIL', 'two/warn': 'warn', 'out/measured': 'measured', 'out/known': 'known',
            'out/skip': 'skip', 'two/break': 'skip'}
VOID = {'meta', 'br', 'link'}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.ids, self.links, self.tags, self.text = [], [], [], [], [], ''
        self.feed(text)
        if self.open:
            self.wrong.append(f'not closed: {self.open}')

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values['id']] if 'id' in values else []
        self.links += [v for k, v in attrs if k in ('href', 'src')]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f'</{tag}> at {self.getpos()}')

    def handle_data(self, data):
        self.text += data


class Check:
    def __init__(self, rocemu, directory):
        self.rocemu, self.directory, self.problems, self.n = rocemu, directory, [], 0

    def path(self, name, text=None):
        path = os.path.join(self.directory, name)
        if text is not None:
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text)
        return path

    def read(self, name):
        with open(self.path(name), encoding='utf-8') as f:
            return f.read()

    def that(self, good, *text):
        self.n += 1
        if not good:
            self.problems.append(' '.join(str(t) for t in text)[:1500])

    def run(self, code, *args):
        p = subprocess.run([self.rocemu, 'conform', *args], capture_output=True, text=True, timeout=100, check=False)
        self.that(p.returncode == code, args, 'exit code', p.returncode, p.stderr, p.stdout[:300])
        return p

    def conform(self, code, *args):
        return self.run(code, '--case', self.path('cases'), '--from', TESTER, '--port', 'ud_pingpong=1', *args, DEVICE)


def check_text(check):
    text = check.conform(1, '--known', check.path('known')).stdout
    for verdict, case in ((v, k) for k, v in VERDICTS.items() if v != 'skip'):
        check.that(re.search(rf'^{verdict} +{case} +\S', text, re.M), verdict, case, 'is not in', text)
    for line in (r'QP 1 answers in \d+\.\d+ [um]?s \(.* to .*\)$', r'MUST, IBTA 9\.7\.5\.2', r'cases:\d+: expect nak 61 0/0', 'expected: nak 61 0/0', 'came:     nak 60 0/0',
                 r'\d ms  \|-+ SEND_ONLY 1 A? ?len 8 -+>\|', r'\d ms  \|<-+ nak 60 0/0 -+\|', r'gap nak$', r'nak_time \d+\.\d+ [um]?s$', 'count 7$',
                 'known: the vendor knows', r'^--known has out/pa\*, which does not differ: it passes',
                 r'^1 skipped: start at the device \(TCP port 1: .*\)\n    while :; do ibv_ud_pingpong -g 0 -n 64 -p 18517; done\n  out/skip$', r'^1 skipped: .*--may-break-it'):
        check.that(re.search(line, text, re.M), line, 'is not in', text)
    check.that('other/*, which' not in text, 'an entry without a case is told:', text)
    check.that(text.splitlines()[-1].startswith('1 pass, 1 FAIL, 1 warn, 1 known, 1 measured, 2 skip in '), text[-200:])
    for case, code in (('out/fail', 1), ('two/warn', 0)):
        again = re.search(rf'Again: rocemu (conform .* --only {case} --verbose {DEVICE})$', text, re.M)
        check.that(again, 'no command for', case, 'in', text)
        if again:
            p = subprocess.run([check.rocemu, *shlex.split(again[1])], capture_output=True, text=True, timeout=100, check=False)
            check.that(p.returncode == code and re.search(rf'^{VERDICTS[case]} +{case}', p.stdout, re.M), again[1], p.returncode, p.stdout, p.stderr)


def on_terminal(check, columns, env, *args):
    """What `rocemu conform` writes to a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    p = subprocess.Popen([check.rocemu, 'conform', '--from', TESTER, *args, DEVICE], stdout=slave, stderr=subprocess.PIPE,
                         env={k: v for k, v in os.environ.items() if k != 'NO_COLOR'} | env)
    os.close(slave)
    out = b''
    while select.select([master], [], [], 100)[0]:
        try:
            out += os.read(master, 65536)
        except OSError:
            break
    p.communicate(timeout=100)
    os.close(master)
    return out.decode()


def check_terminal(check):
    """A family's line, which is written again; colours, unless NO_COLOR is set; a family that is longer than a line."""
    for colour in (True, False):
        text = on_terminal(check, 100, {} if colour else {'NO_COLOR': '1'}, '--case', check.path('cases'), '--only', 'out/*')
        plain = re.sub(r'\x1b\[[\d;]*m', '', text)
        check.that((plain != text) == colour, 'colours:', colour, repr(text[:300]))
        check.that(re.search(r'\r\x1b\[Kout +\.F out/measured 3 of ', plain), 'the case at hand:', repr(plain[:500]))
        check.that(re.search(r'\r\x1b\[Kout +\.FmF[?sF.]\r\n', plain), 'the line of the family:', repr(plain[-1500:]))
    many = ''.join(f'case many/{i}: a NAK\n  conform MUST 9.7.5.2 rc_pingpong\n{GAP.format(60)}' for i in range(50))
    text = on_terminal(check, 60, {'NO_COLOR': '1'}, '--case', check.path('many', many))
    lines = [part for line in text.split('\n') for part in line.rstrip('\r').split('\r\x1b[K')]
    rows = [line.split()[-1] for line in lines if re.match(r'(many)? +\.+$', line)]
    check.that([len(r) for r in rows] == [20, 20, 10], 'lines of letters:', rows)
    check.that(max(len(line) for line in lines if 'many' in line) < 60, 'longer than the terminal:', lines)


def check_json(check):
    p = check.conform(1, '--known', check.path('known'), '--json', '-', '--name', NAME, '--junit', check.path('r.xml'),
                      '--tap', check.path('r.tap'), '--html', check.path('r.html'), '--pcap', check.path('captures'))
    run = json.loads(p.stdout)
    cases = {c['id']: c for c in run['cases']}
    check.that({k: c['verdict'] for k, c in cases.items()} == VERDICTS, cases)
    check.that({k: n for k, n in run['sums'].items() if n} == {'pass': 1, 'FAIL': 1, 'warn': 1, 'known': 1, 'measured': 1, 'skip': 2}, run['sums'])
    check.that((run['name'], run['target'], run['from'], run['format']) == (NAME, DEVICE, TESTER, 1), p.stdout[:300])
    fail, measured = cases['out/fail'], cases['out/measured']
    check.that((fail['expected'], fail['came'], fail['tries'], fail['file'], fail['clause']) ==
               ('nak 61 0/0', 'nak 60 0/0', 3, check.path('cases'), '9.7.5.2'), fail)
    check.that(CASES.splitlines()[fail['line'] - 1].strip() == 'expect nak 61 0/0', fail)
    m = measured['measured']
    check.that(m['gap'] == ['nak'] and m['count'] == [7] and len(m['nak_time_ns']) == 1 and 0 < m['nak_time_ns'][0] < 10 ** 9, measured)
    check.that(cases['out/known']['known'] == 'the vendor knows', cases['out/known'])
    check.that(run['stale_known'] == ['out/pa*'], run['stale_known'])
    noise = run['noise_ns']
    check.that(0 < noise['min'] <= noise['median'] <= noise['max'] and 'stopped' not in run, p.stdout[:500])
    check.path('a.json', p.stdout)
    return run


def check_junit(check):
    root = xml.etree.ElementTree.fromstring(check.read('r.xml'))
    suites = {s.get('name'): s for s in root.iter('testsuite')}
    check.that(set(suites) == {'conform.out', 'conform.two'}, suites)
    out = suites['conform.out']
    check.that([out.get(k) for k in ('tests', 'failures', 'errors', 'skipped', 'hostname')] == ['5', '1', '0', '1', NAME], out.attrib)
    found = {t.get('name'): {c.tag for c in t} for t in root.iter('testcase')}
    expected = {'pass': set(), 'FAIL': {'failure'}, 'skip': {'skipped'}}
    check.that(found == {k: expected.get(v, {'system-out'}) for k, v in VERDICTS.items()}, found)
    failure = next(root.iter('failure'))
    check.that(failure.get('message') == 'a <NAK> & that no device sends' and failure.get('type') == 'MUST', failure.attrib)
    check.that('came:     nak 60 0/0' in failure.text and '|<--' in failure.text, failure.text)


def check_tap(check):
    lines = check.read('r.tap').splitlines()
    tests = [line for line in lines if re.match('(not )?ok ', line)]
    check.that(lines[:2] == ['TAP version 14', f'1..{len(VERDICTS)}'] and len(tests) == len(VERDICTS), lines[:3], tests)
    for i, line in enumerate(tests, 1):
        m = re.match(r'(not )?ok (\d+) - (\S+): (.*?)(?: # (SKIP|TODO) .*)?$', line)
        verdict = VERDICTS[m[3]] if m else None
        check.that(m and int(m[2]) == i, line)
        check.that(m and bool(m[1]) == (verdict in ('FAIL', 'warn', 'known')) and
                   m[5] == {'skip': 'SKIP', 'warn': 'TODO', 'known': 'TODO'}.get(verdict), verdict, line)
    check.that(any('a SHOULD that\\#differs' in line for line in tests), 'a "#" is a directive:', tests)
    check.that(lines.count('  ---') == lines.count('  ...') == 4, 'blocks:', lines)


def check_page(check):
    text = check.read('r.html')
    page = Page(text)
    check.that(not page.wrong, page.wrong)
    check.that(sorted(page.ids) == sorted(VERDICTS) and set(page.links) == {'#' + k for k in VERDICTS}, page.ids, page.links)
    check.that('script' not in page.tags and 'b' not in page.tags and "default-src 'none'" in text, 'what a page may not have')
    for part in (NAME, 'a <NAK> & that no device sends', 'nak 61 0/0', '< SEND_ONLY 1 len 8', 'the vendor knows', f'--only out/fail --verbose {DEVICE}'):
        check.that(part in page.text, part, 'is not in the page')
    check.that(re.search(r'device: nak 60 0/0\n +11 ', page.text), 'the bytes of the NAK')


def check_captures(check, run):
    packets = {c['id'].replace('/', '-') + '.pcapng': c for c in run['cases'] if c['packets']}
    check.that(set(os.listdir(check.path('captures'))) == set(packets), os.listdir(check.path('captures')), set(packets))
    for name, case in packets.items():
        path = os.path.join(check.path('captures'), name)
        p = subprocess.run([check.rocemu, 'decode', path], capture_output=True, text=True, timeout=100, check=False)
        check.that(p.returncode == 0 and len(p.stdout.splitlines()) == case['packets'], name, case['packets'], p.stdout, p.stderr)
        with open(path, 'rb') as f:
            data = f.read()
        with open(check.path('cases'), encoding='utf-8') as f:
            lines = [i for i, line in enumerate(f, 1) if line == '  < SEND_ONLY 1 len 8\n']
        check.that(any(f'line {i}: < SEND_ONLY 1 len 8'.encode() in data for i in lines), name, 'without the line that sent it')
        for comment in (b'tester: SEND_ONLY 1 ', b'device: nak 60 0/0', f'rocemu conform: {case["id"]} {case["verdict"]}: '.encode()):
            check.that(comment in data, name, 'without', comment)


def check_known(check):
    check.conform(0, '--known', check.path('known'), '--only', 'out/known')
    check.conform(1, '--only', 'out/known')
    check.conform(0, '--known', 'rocemu', '--known', 'rxe-6.1', '--only', 'out/pass')
    for text in ('out/known\n', '| reason\n', 'out/known | \n'):
        p = check.conform(2, '--known', check.path('bad', '# ok\n' + text))
        check.that('bad, line 2: ' in p.stderr and not p.stdout, p.stderr)
    check.conform(2, '--known', check.path('none'))


def check_codes(check):
    for options, code in (((), 0), (('--fail-on', 'warn'), 1), (('--fail-on', 'inconclusive'), 1), (('--strict',), 1),
                          (('--strict', '--fail-on', 'never'), 0)):
        check.conform(code, '--only', 'two/warn', *options)
    check.conform(2, '--only', 'nothing')
    check.conform(2, '--repeat', '0')
    run = json.loads(check.conform(1, '--only', 'out/[pf]*', '--repeat', '3', '--json', '-').stdout)
    check.that([c['tries'] for c in run['cases']] == [3, 9], run)
    for options in (('--json', '/dev/full'), ('--html', '/dev/full'), ('--json', check.path('none/r')), ('--pcap', check.path('none/r')),
                    ('--json', '-', '--tap', '-')):
        p = check.conform(2, '--only', 'out/pass', *options)
        check.that(p.stderr.startswith(f'rocemu conform: {options[0]}'), options, p.stderr)


def check_past(check, run):
    """Earlier runs: what flipped, and side by side."""
    new = json.loads(json.dumps(run))
    new['name'] = 'newer'
    cases = {c['id']: c for c in new['cases']}
    cases['out/pass']['verdict'], cases['out/fail']['verdict'] = 'FAIL', 'pass'
    cases['out/measured']['measured'] |= {'gap': ['none', 'nak', 'none'], 'nak_time_ns': [1, 5, 3000]}
    cases['out/skip']['id'] = 'out/other'
    check.path('b.json', json.dumps(new))
    a, b = check.path('a.json'), check.path('b.json')
    p = check.run(0, '--diff', a, a)
    check.that(p.stdout.endswith('\n0 worse, 0 better, 0 changed, 0 new, 0 gone\n'), p.stdout)
    p = check.run(1, '--diff', a, b)
    for line in ('worse +out/pass +pass -> FAIL: a NAK', 'better +out/fail +FAIL -> pass', 'changed +out/measured +gap: nak -> none, nak$',
                 'new +out/other', 'gone +out/skip', '1 worse, 1 better, 1 changed, 1 new, 1 gone$'):
        check.that(re.search('^' + line, p.stdout, re.M), line, 'is not in', p.stdout)
    p = check.run(0, '--matrix', a, b)
    for line in (r'\* out/pass +pass +FAIL', r'  out/known +known +known', r' +gap +nak +none, nak', r' +nak_time +\S+ [um]?s +0\.0 us',
                 r'\* out/other +absent +skip', f'A: {re.escape(NAME)} ', 'B: newer '):
        check.that(re.search('^' + line, p.stdout, re.M), line, 'is not in', p.stdout)
    check.run(0, '--matrix', '--html', check.path('m.html'), a, b)
    page = Page(check.read('m.html'))
    check.that(not page.wrong and page.tags.count('tr') == 2 + len(VERDICTS) and NAME in page.text and 'script' not in page.tags, page.wrong, page.tags)
    check.run(2, '--matrix', '--html', '/dev/full', a)
    text = check.read('a.json')
    for wrong in (text[:-3], text[:400], text + 'x', '', '{}', '[]', text.replace('"pass"', '"passed"', 1), text.replace('"format": 1', '"format": 2'),
                  '[' * 100000):
        p = check.run(2, '--diff', a, check.path('bad.json', wrong))
        check.that(re.match(r'rocemu conform: \S+bad\.json:\d+: \S', p.stderr) and not p.stdout, wrong[:40], p.stderr)
    check.run(2, '--diff', a)
    check.run(2, '--matrix')


def check_stopped(check, action, code, reason):
    """What was carried out until then is written."""
    with subprocess.Popen([check.rocemu, 'conform', '--case', check.path('slow', SLOW), '--from', TESTER, '--json', check.path('s.json'), DEVICE],
                          stdout=subprocess.PIPE, text=True) as p:
        text = ''
        for line in p.stdout:
            if line.startswith('pass         slow/pass'):
                action(p)
            text += line
        p.wait(100)
    run = json.loads(check.read('s.json'))
    ids = [c['id'] for c in run['cases']]
    check.that(p.returncode == code and re.search(f'^Stopped behind {ids[-1]}, {len(ids)} of 3: {reason}$', text, re.M), p.returncode, text)
    # A signal may come before the second case begins.
    check.that(run['stopped'] == reason and ids in (['slow/pass', 'slow/none'], ['slow/pass'][:code - 1]), run)


def check_all(check, device):
    check_text(check)
    check_terminal(check)
    run = check_json(check)
    check_junit(check)
    check_tap(check)
    check_page(check)
    check_captures(check, run)
    check_known(check)
    check_codes(check)
    check_past(check, run)
    check_stopped(check, lambda p: p.send_signal(signal.SIGINT), 2, 'interrupted')
    check_stopped(check, lambda _: device.kill(), 1, 'QP 1 of the device does not answer any more')


def main():
    rocemu, responder = map(os.path.abspath, sys.argv[1:3])
    netns.namespace()
    device = subprocess.Popen([responder, '--address', DEVICE], stdout=subprocess.PIPE, text=True)
    try:
        assert device.stdout.readline() == 'ready\n'
        with tempfile.TemporaryDirectory(prefix='rocemu-conform-') as directory:
            check = Check(rocemu, directory)
            check.path('cases', CASES)
            check.path('known', KNOWN)
            check_all(check, device)
    finally:
        device.kill()
        device.wait()
    print(*check.problems, f'{check.n} checks, {len(check.problems)} wrong', sep='\n')
    return 1 if check.problems else 0


if __name__ == '__main__':
    sys.exit(main())
