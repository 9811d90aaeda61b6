#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `rocemu verify` makes of its findings: text, JSON, JUnit, annotations, differences, exit codes; and how it is
fed: compressed, at other ports.

usage: outputs.py ROCEMU GOLDEN_DIR
"""
import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import capfile
import mutation
import points

BOMB = 1 << 28
MAX_RSS_KB = 64 << 10


def run(rocemu, *args, **also):
    return subprocess.run([rocemu, 'verify', *args], capture_output=True, text=True, timeout=100, check=False, **also)


class Check:
    def __init__(self, rocemu, golden, directory):
        self.rocemu, self.golden, self.directory, self.problems = rocemu, golden, directory, []

    def path(self, name):
        return os.path.join(self.directory, name)

    def that(self, good, *text):
        if not good:
            self.problems.append(' '.join(str(t) for t in text)[:1000])

    def code(self, expected, *args):
        p = run(self.rocemu, *args)
        self.that(p.returncode == expected, args, 'exit code', p.returncode, p.stderr, p.stdout[:300])
        return p


def frames_of(check, name):
    return capfile.read(os.path.join(check.golden, name + '.pcap'))


def make_captures(check):
    """One without an error, one with a warning, one with two errors, the later one in the first connection."""
    frames = frames_of(check, 'rc_many_sends')
    capfile.write(check.path('good.pcap'), frames)
    capfile.write(check.path('warn.pcap'), frames[:20] + frames[22:])
    wrong = frames_of(check, 'rc_read') + frames_of(check, 'rc_many_sends')
    for n, f in enumerate(wrong):
        f.time_ns = wrong[0].time_ns + n * 1000
    wrong[-2].body[1] |= 1  # the version
    wrong[5].sealed = True
    wrong[5].body[-1] ^= 1
    capfile.write(check.path('wrong.pcap'), wrong)


def exit_codes(check):
    for fail_on, codes in (('error', (0, 0, 1)), ('warning', (0, 1, 1)), ('note', (0, 1, 1)), ('never', (0, 0, 0))):
        for name, code in zip(('good', 'warn', 'wrong'), codes):
            check.code(code, '--fail-on', fail_on, check.path(name + '.pcap'))
    check.code(2, '--fail-on', 'always', check.path('good.pcap'))
    check.code(2, '--port', '0', check.path('good.pcap'))
    check.code(2, '--port', '1,2,', check.path('good.pcap'))
    check.code(2, '--diff', check.path('good.pcap'))
    check.code(2, '-i', 'lo', check.path('good.pcap'))


def text_and_json(check):
    lines = check.code(1, check.path('wrong.pcap')).stdout.splitlines()
    check.that('FAIL: 2 errors' in lines[0] and lines[1].startswith('  worst: icrc-wrong, packet 6: '), lines[:2])
    check.that('PASS: 0 errors' in check.code(0, check.path('good.pcap')).stdout.splitlines()[0], 'no verdict first')
    report = json.loads(check.code(1, '--json', check.path('wrong.pcap')).stdout)
    places = [f['packet'] or 1 << 40 for f in report['findings']]
    check.that(places == sorted(places) and len(places) > 1, 'not in order:', places)
    check.that(report['verdict'] == 'fail' and report['worst']['packet'] == 6, report['verdict'], report['worst'])
    check.that(set(report['rules']) == set(report['counts']), report['rules'], report['counts'])
    for f in report['findings']:
        check.that(f['title'] == report['rules'][f['id']]['title'], f)
    for rule in report['rules'].values():
        check.that(all(rule[key] for key in ('explanation', 'causes', 'remedy')), rule)


def names_of_files(check):
    """In JSON as they are: UTF-8, and U+FFFD for what is none."""
    for name, shown in ((b'\xc3\xa4 "<b>.pcap', 'ä "<b>.pcap'), (b'\xe4.pcap', '\ufffd.pcap')):
        path = os.path.join(os.fsencode(check.directory), name)
        shutil.copy(check.path('good.pcap'), path)
        p = subprocess.run([check.rocemu, 'verify', '--json', path], capture_output=True, timeout=100, check=False)
        check.that(os.path.basename(json.loads(p.stdout.decode())['file']) == shown, name, p.stdout[:200])


def ignored(check):
    """Senders without a right ICRC: the other rules are applied. What is ignored is counted, and no more."""
    frames = frames_of(check, 'rc_many_sends')
    for f in frames:
        f.icrc, f.sealed = bytes(4), True
    capfile.write(check.path('no-icrc.pcap'), frames[:20] + frames[22:])
    plain = json.loads(check.code(1, '--json', check.path('no-icrc.pcap')).stdout)
    check.that(set(plain['counts']) == {'icrc-wrong'} and plain['ignored'] == {}, plain['counts'])
    expected = json.loads(check.code(0, '--json', check.path('warn.pcap')).stdout)['counts']
    report = json.loads(check.code(0, '--json', '--ignore', 'icrc', check.path('no-icrc.pcap')).stdout)
    check.that(report['counts'] == expected and 'psn-gap' in expected, report['counts'], 'not', expected)
    check.that(report['ignored'] == {'icrc-wrong': len(frames) - 2} and report['icrc']['wrong'] == len(frames) - 2, report['ignored'])
    check.code(1, '--fail-on', 'warning', '--ignore', 'icrc-wrong', check.path('no-icrc.pcap'))
    p = check.code(0, '--fail-on', 'note', '--ignore', 'icrc,psn-gap', '--ignore', 'capture', check.path('no-icrc.pcap'))
    check.that('ignored: ' in p.stdout and '1 psn-gap' in p.stdout and 'warning psn-gap' not in p.stdout, p.stdout)
    for wrong in ('', 'ic', 'icrc,', ',icrc', 'icrc-wrong-'):
        p = check.code(2, '--ignore', wrong, check.path('good.pcap'))
        check.that(len(p.stderr.splitlines()) == 1 and 'no finding' in p.stderr, wrong, p.stderr)
    p = subprocess.run([check.rocemu, 'explain', '--ignore', 'icrc', check.path('no-icrc.pcap')], capture_output=True, text=True,
                       timeout=60, check=False)
    check.that(p.returncode == 0 and 'A sends a message' in p.stdout and 'no receiver takes' not in p.stdout, p.stdout[:300])
    check.code(0, '--ignore', 'icrc', '--junit', check.path('i.xml'), check.path('no-icrc.pcap'))
    suite = xml.etree.ElementTree.parse(check.path('i.xml')).getroot().find('testsuite')
    skipped = [t.get('name') for t in suite.iter('testcase') if t.find('skipped') is not None]
    check.that(skipped == ['icrc-wrong'] and suite.get('skipped') == '1', skipped)


def known_senders(check):
    """One note for each sender, and no warning."""
    frames = frames_of(check, 'rc_many_sends') + frames_of(check, 'ipv6_rc_write')
    for n, f in enumerate(frames):
        f.time_ns = frames[0].time_ns + n * 1000
        f.body[4] |= 0x10
    capfile.write(check.path('hns.pcap'), frames)
    report = json.loads(check.code(0, '--json', check.path('hns.pcap')).stdout)
    check.that(report['counts'] == {'vendor-bits': 4} and len({f.source() for f in frames}) == 4, report['counts'])


def long_run(check):
    """PSNs are compared on a circle: more than half of it, and each gap is found, also of packets that were cut."""
    first = frames_of(check, 'rc_many_sends')[0]
    for kind in ('whole', 'one cut', 'cut'):
        found = [first.copy(time_ns=first.time_ns + n * 1000, psn=first.psn + n * 60000) for n in range(200)]
        for f in found[:{'whole': 0, 'one cut': 1, 'cut': len(found)}[kind]]:
            mutation.offloaded(f, 60)
        capfile.write(check.path('long.pcap'), found)
        report = json.loads(check.code(0, '--json', check.path('long.pcap')).stdout)
        check.that(report['counts'].get('psn-gap') == len(found) - 1, 'long run,', kind, report['counts'])


def junit(check):
    check.code(2, '--junit', check.path('j.xml'), check.path('good.pcap'), check.path('wrong.pcap'), check.path('none.pcap'))
    suites = xml.etree.ElementTree.parse(check.path('j.xml')).getroot().findall('testsuite')
    found = [(s.get('failures'), s.get('errors')) for s in suites]
    check.that(found == [('0', '0'), ('2', '0'), ('0', '1')], found)
    names = {t.get('name') for t in suites[1].iter('testcase') if t.find('failure') is not None}
    check.that(names == {'icrc-wrong', 'tver'}, names)
    check.that(len(suites[0].findall('testcase')) == int(suites[0].get('tests')), 'tests are not counted')
    check.that('packet 6' in suites[1].find('.//failure').text, 'no place in the failure')
    check.code(2, '--junit', '/dev/full', check.path('good.pcap'))


def names(check):
    """A file's name cannot command the terminal, in a report or an error. UTF-8 stays as it is."""
    empty, good = 'a\x1b[31mb\x7f\x9b2J\udc9bm.pcap', 'a\x1b]0;b\x07\u00e4.pcap'
    shutil.copy(os.path.join(check.golden, 'rc_send.pcap'), check.path(good))
    with open(check.path(empty), 'wb'):
        pass
    for command, args, code in (('verify', (good,), 0), ('verify', ('--diff', good, good), 0), ('verify', (empty,), 2),
                                ('decode', (empty,), 1), ('explain', (empty,), 2)):
        p = subprocess.run([os.path.abspath(check.rocemu), command, *args], cwd=check.directory, capture_output=True,
                           timeout=100, check=False)
        said = p.stdout + p.stderr
        wrong = [c for c in said.decode(errors='surrogateescape') if not (c.isprintable() or c in '\n\t')]
        check.that(p.returncode == code and not wrong, command, ascii(args), p.returncode, said)
        check.that(code or command != 'verify' or 'a?]0;b?\u00e4.pcap'.encode() in said, 'the name is not as expected', said)


def differences(check):
    good, wrong, warn = (check.path(n + '.pcap') for n in ('good', 'wrong', 'warn'))
    check.code(0, '--diff', wrong, good)
    check.that('the same findings' in check.code(0, '--diff', good, good).stdout, 'no change said of the same capture')
    diff = json.loads(check.code(1, '--diff', '--json', good, wrong).stdout)
    changes = {f['id']: (f['change'], f['count']) for f in diff['findings']}
    check.that(changes['tver'] == ('new', [0, 1]), changes)
    check.that(diff['figures']['packets'] == [80, 92], diff['figures'])
    check.code(0, '--diff', good, warn)
    check.code(1, '--diff', '--fail-on', 'warning', good, warn)
    check.that('gone' in check.code(0, '--diff', warn, good).stdout, 'gone is not said')


def comments(path):
    """Frame number -> comments, of tshark."""
    p = subprocess.run(['tshark', '-r', path, '-Y', 'frame.comment contains "rocemu"', '-T', 'fields', '-E', 'aggregator=|',
                        '-e', 'frame.number', '-e', 'frame.comment'], capture_output=True, text=True, timeout=100, check=True)
    return {int(number): text.split('|') for number, text in (line.split('\t') for line in p.stdout.splitlines())}


def times(path):
    p = subprocess.run(['tshark', '-r', path, '-T', 'fields', '-e', 'frame.time_epoch', '-e', 'frame.len', '-e', 'frame.cap_len',
                        '-e', 'frame.interface_id'], capture_output=True, text=True, timeout=100, check=True)
    return p.stdout


def annotations(check):
    frames = [f.copy(sealed=True) for f in capfile.read(check.path('wrong.pcap'))]
    points.write_pcapng(check.path('wrong.pcapng'), [(f.time_ns, n % 2, f.encode()) for n, f in enumerate(frames)])
    with open(check.path('wrong.pcapng'), 'rb') as f, open(check.path('simple.pcapng'), 'wb') as g:
        g.write(f.read()[:28 + 64])  # its section and interfaces, and then simple packets
        g.write(b''.join(points.block(3, struct.pack('<I', len(f.encode())) + f.encode()) for f in frames))
    for name in ('wrong.pcap', 'wrong.pcapng', 'simple.pcapng'):
        path, out = check.path(name), check.path('annotated.pcapng')
        report = json.loads(check.code(1, '--json', '--annotate', out, path).stdout)
        again = json.loads(check.code(1, '--json', out).stdout)
        check.that(again['counts'] == report['counts'], name, 'annotated:', again['counts'], report['counts'])
        with open(out, 'rb') as f:
            data = f.read()
        check.that(all(f.encode() in data for f in frames), name, 'frames are not there as they were')
        if name == 'wrong.pcapng':
            check.that(b'a note' in data and b'unknown' in data, 'comments and blocks that were there are gone')
        if shutil.which('tshark') is None:
            continue
        expected = {f['packet'] for f in report['findings'] if f['packet']}
        found = comments(out)
        check.that(set(found) == expected, name, found, expected)
        check.that(any('rocemu error icrc-wrong: ' in text for text in found.get(6, [])), found)
        check.that(name != 'wrong.pcapng' or times(path) == times(out), name, 'frames differ to tshark')
    check.code(2, '--annotate', check.path('wrong.pcap'), check.path('wrong.pcap'))
    check.code(2, '--annotate', '/dev/full', check.path('wrong.pcap'))
    check.code(2, '--annotate', check.path('x'), '-')
    check.that(capfile.read(check.path('wrong.pcap')), 'the capture was written over')


def fed(check):
    good = json.loads(check.code(0, '--json', check.path('good.pcap')).stdout)
    with open(check.path('good.pcap'), 'rb') as f:
        data = f.read()
    with gzip.open(check.path('good.pcap.gz'), 'wb') as f:
        f.write(data)
    names = ['good.pcap.gz']
    if shutil.which('zstd') is not None:
        subprocess.run(['zstd', '-q', check.path('good.pcap')], timeout=60, check=True)
        names.append('good.pcap.zst')
    for name in names:
        report = json.loads(check.code(0, '--json', check.path(name)).stdout)
        check.that(report['packets'] == good['packets'] and report['counts'] == good['counts'], name, report['counts'])
    with open(check.path('good.pcap.gz'), 'rb') as f:
        p = subprocess.run([check.rocemu, 'verify', '-'], stdin=f, capture_output=True, timeout=60, check=False)
    check.that(p.returncode == 0, 'from standard input, compressed:', p.stderr)
    frames = frames_of(check, 'rc_many_sends')
    for f in frames:
        f.udp[2:4] = struct.pack('>H', 18515)
    capfile.write(check.path('port.pcap'), frames)
    check.code(2, check.path('port.pcap'))
    report = json.loads(check.code(0, '--json', '--port', '4791,18515', check.path('port.pcap')).stdout)
    check.that(report['packets'] == good['packets'] and report['icrc']['wrong'] == 0, 'at another port:', report['icrc'])


def bomb(check):
    """A quarter of a gigabyte of empty frames in little."""
    with open(check.path('good.pcap'), 'rb') as f:
        header = f.read(24)
    with open(check.path('bomb.gz'), 'wb') as f:
        f.write(gzip.compress(header))
        f.write(gzip.compress(bytes(1 << 20)) * (BOMB >> 20))
    with subprocess.Popen([check.rocemu, 'verify', check.path('bomb.gz')], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        said = p.stderr.read()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    check.that(p.returncode == 2 and b'no RoCEv2' in said, 'bomb: exit code', p.returncode, said)
    check.that(used.ru_maxrss < MAX_RSS_KB or 'VERIFY_SANITIZED' in os.environ, 'bomb:', used.ru_maxrss, 'KiB')


def main():
    rocemu, golden = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix='rocemu-outputs-') as directory:
        check = Check(rocemu, golden, directory)
        make_captures(check)
        for part in (exit_codes, text_and_json, names_of_files, ignored, known_senders, long_run, junit, names, differences, annotations, fed, bomb):
            part(check)
    print('\n'.join(check.problems) or 'all outputs are as they should be')
    return 1 if check.problems else 0


if __name__ == '__main__':
    sys.exit(main())
