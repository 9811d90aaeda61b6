#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rocemu explain: its sentences on captures whose content is known, and its diagrams.

usage: explain.py ROCEMU SAMPLES_DIR GOLDEN_DIR
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.dom.minidom

import capfile

problems = []

# Of each capture, lines that must be there, blanks as one.
SAID = {
    'rc_read_ipv4': [
        "A requests 5000 bytes of B's memory at 0x55944a8d5388, key 0x14e (RDMA READ), PSN 0. "
        'It takes the PSNs 0-4, one for each packet of the answer.',
        'B answers with 5000 bytes in 5 packets, PSN 0-4.',
        'The last 2 steps 4 times more, 24 packets.',
        'RC RDMA Read Response First, PSN 0, 1024 bytes, MSN 1',
        ': | 24 more packets |'],
    'rc_write_loss_ipv4': [
        '1 packet is missing among them: lost, or not captured.',
        'B received packets behind PSN 4, but not that one (NAK PSN Sequence Error): A has to send it again.',
        'PSN 4 is missing', 'RC RDMA Write Middle, PSN 4, 1024 bytes (late)',
        'RC RDMA Write Last, PSN 5, 952 bytes (again)'],
    'rc_rnr_ipv6': [
        'B has no receive for PSN 0 (RNR NAK): A waits 0.64 ms or longer, and sends it again.',
        'Once more: A sends a message of 300 bytes (SEND) in 2 packets, PSN 0-1.', 'RNR NAK 0.64 ms, PSN 0'],
    'rc_errors_ipv4': ['B refuses PSN 0 (NAK Remote Access Error)'],
    'rc_fetch_add_ipv4': ['A requests to add 0x'],
    'ud_multicast_ipv4': ['A sends a datagram of 101 bytes (SEND) to the multicast group 239.1.2.3'],
    'cm_connect_a_disconnects_ipv4': [
        'A is 10.0.0.1 QP 0x112233, B is 10.0.0.2 QP 0x445566.', 'A requests a connection to port 7174 (CM: ConnectRequest)',
        'B accepts (CM: ConnectReply)', 'A confirms (CM: ReadyToUse)', 'B confirms the end (CM: DisconnectReply)'],
    'cm_b_rejects_ipv4': ['B rejects (CM: ConnectReject): reason 28, rejected by the consumer.'],
    'cm_sidr_ipv4': ['A requests the QP that serves port 7174 (CM: ServiceIDResReq).', 'CM: ServiceIDResReqResp'],
}
# What stands at the arrows of this capture's diagram, from the top.
ARROWS = ['RC Send First, PSN 0, 256 bytes', 'RC Send Last, PSN 1, 44 bytes', 'RNR NAK 0.64 ms, PSN 0, MSN 0',
          'RC Send First, PSN 0, 256 bytes (again)', 'RC Send Last, PSN 1, 44 bytes (again)',
          'RC Acknowledge, PSN 1, MSN 1']


def check(good, what):
    if not good:
        problems.append(what)


def explain(rocemu, *args):
    p = subprocess.run([rocemu, 'explain', *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def words(rocemu, samples):
    for name, lines in SAID.items():
        code, out, err = explain(rocemu, os.path.join(samples, name + '.pcap'))
        check(code == 0, f'{name}: exit code {code}: {err}')
        flat = ' '.join(re.sub(r'[-|<>]{2,}', ' ', out).split())
        for line in lines:
            check(line in flat, f'{name}: lacks "{line}":\n{out}')


def arrow_labels(svg):
    return [t.firstChild.data for t in svg.getElementsByTagName('text')
            if t.getAttribute('text-anchor') == 'middle' and t.parentNode.tagName == 'g']


def diagrams(rocemu, samples, directory):
    path = os.path.join(directory, 'out.svg')
    for capture in sorted(glob.glob(os.path.join(samples, '*.pcap'))):
        code, out, err = explain(rocemu, '--svg', path, capture)
        check(code == 0 and out == '', f'{capture}: exit code {code}: {err}')
        svg = xml.dom.minidom.parse(path)
        check(arrow_labels(svg), f'{capture}: no packet in the diagram')
        if capture.endswith('rc_rnr_ipv6.pcap'):
            check(arrow_labels(svg) == ARROWS, f'arrows of {capture}: {arrow_labels(svg)}')
            with open(path, 'rb') as f, open(os.path.join(samples, '..', 'docs', 'ladder.svg'), 'rb') as doc:
                check(f.read() == doc.read(), f'docs/ladder.svg is another: rocemu explain --svg docs/ladder.svg {capture}')
    with open(path, encoding='utf-8') as f:
        check(not re.search(r'href|url\(|https?://(?!www\.w3\.org/2000/svg)', f.read()), 'the SVG refers to something')


def ladder(rocemu, directory, frames):
    """The arrows of a capture: [packet's number, from A, label]; of what is missing without number."""
    path = os.path.join(directory, 'frames.pcap')
    capfile.write(path, frames)
    _, out, _ = explain(rocemu, '--limit', '1000', path)
    rows = [re.match(r' *(\d+|:)? .*\|(.*)\|$', line) for line in out.splitlines()]
    return [[int(m[1] or 0), not m[2].startswith('<'), m[2].strip('-<> ')] for m in rows if m and m[1] != ':']


def changed(rocemu, golden, directory):
    """Captures made of recorded ones."""
    frames = capfile.read(os.path.join(golden, 'cm_rping.pcap'))
    two = ladder(rocemu, directory, frames)
    check([r[2] for r in two[:3]] == ['CM: ConnectRequest', 'CM: ConnectReply', 'CM: ReadyToUse'] and len(two) == len(frames), f'rping: {two}')
    # Both ends at one address, as on loopback, B with a QPN of its own: QPNs and communication IDs
    # distinguish them.
    first = frames[0].source()
    for f in frames:
        if f.dqpn != 1 and f.source() == first:
            f.dqpn += 1
        if f.dqpn == 1 and f.body[36:38] == b'\0\x13':    # the REP names B's QPN
            f.body[56:59] = (int.from_bytes(f.body[56:59], 'big') + 1).to_bytes(3, 'big')
        f.ip[16:20] = f.ip[12:16] = b'\x0a\x4d\x00\x02'
    one = ladder(rocemu, directory, frames)
    check(one == two, f'both ends at one address:\n{one}\nand not\n{two}')
    # A packet is lost, and the responder names it by a hint.
    frames = capfile.read(os.path.join(golden, 'rc_many_sends.pcap'))
    requests, first = [f for f in frames if f.opcode == 4], frames[0].psn
    lost, answer = requests[2], next(f for f in frames if f.opcode == 0x11)
    after = frames.index(requests[3]) + 1
    rest = [f for f in frames[:after] if f is not lost]
    hint = answer.copy(time_ns=requests[3].time_ns + 1)
    hint.psn = lost.psn - (1 << 22)
    rows = ladder(rocemu, directory, [*rest, hint])
    missing = [r for r in rows if r[0] == 0]
    check([r[2].split('x')[-1].strip() for r in missing] == [f'PSN {lost.psn - first} is missing'], f'lost: {rows}')
    check(rows[-1][2].startswith(f'RC Acknowledge, PSN {lost.psn - first}, ') and rows[-1][2].endswith('(hint: missing)'), f'hint: {rows[-1]}')


def page_data(rocemu, directory, capture):
    """The data of a capture's page, checked for what the page relies on."""
    path = os.path.join(directory, 'page.html')
    subprocess.run([rocemu, 'verify', '--html', path, capture], stdout=subprocess.DEVNULL, timeout=60, check=False)
    with open(path, encoding='utf-8') as f:
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', f.read(), re.S)[1])
    log = data['log']
    for name, column in log.items():
        check(name in ('n', 'extensions') or isinstance(column, int) or len(column) == log['n'], f'{capture}: column {name}')
    used = set(log['session'] if isinstance(log['session'], list) else [log['session']])
    check(used == set(range(len(data['sessions']))), f'{capture}: sessions {used}')
    known = log['opcode'] if isinstance(log['opcode'], list) else [log['opcode']]
    check({str(o) for o in known} == set(data['opcodes']), f'{capture}: opcodes')
    return data


def pages(rocemu, samples, golden, directory):
    for capture in glob.glob(os.path.join(samples, '*.pcap')) + glob.glob(os.path.join(golden, '*.pcap')):
        page_data(rocemu, directory, capture)
    # Packets that are none: an unknown opcode, a wrong ICRC, shorter than their headers.
    frames = capfile.read(os.path.join(golden, 'rc_many_sends.pcap'))[:6]
    frames[1].opcode = 0xff
    frames[2].icrc, frames[2].sealed = b'abcd', True
    frames[3].body = frames[3].body[:4]
    path = os.path.join(directory, 'bad.pcap')
    capfile.write(path, frames)
    data = page_data(rocemu, directory, path)
    check([bool(f & 2) for f in data['log']['flags']] == [True, False, False, False, True, True], 'which packets are decoded')
    check(explain(rocemu, path)[0] == 0, 'packets that are none')


def options(rocemu, samples, directory):
    capture = os.path.join(samples, 'rc_errors_ipv4.pcap')
    _, out, _ = explain(rocemu, '--connection', '2', capture)
    check('Connection 2:' in out and 'Connection 1:' not in out and 'Connection 3:' not in out, f'--connection 2:\n{out}')
    _, out, _ = explain(rocemu, '--limit', '3', os.path.join(samples, 'rc_write_loss_ipv4.pcap'))
    check('more steps (--limit)' in out and out.count('|') == 2 * 4, f'--limit 3:\n{out}')
    for args in (['--limit', '0', capture], ['--connection', 'x', capture], [], [capture, capture],
                 ['--svg', os.path.join(directory, 'no', 'where'), capture], [sys.argv[0]]):
        code, out, err = explain(rocemu, *args)
        check(code == 2 and out == '' and err.startswith('rocemu explain: '), f'{args}: {code}: {err}')
    # A name is text, not markup.
    hostile = os.path.join(directory, '"><script>alert(1)<&.pcap')
    shutil.copy(capture, hostile)
    path = os.path.join(directory, 'hostile.svg')
    explain(rocemu, '--svg', path, hostile)
    svg = xml.dom.minidom.parse(path)
    check(not svg.getElementsByTagName('script') and svg.getElementsByTagName('title')[0].firstChild.data ==
          os.path.basename(hostile), 'a name with markup in it')


def main():
    rocemu, samples, golden = sys.argv[1:4]
    words(rocemu, samples)
    with tempfile.TemporaryDirectory(prefix='rocemu-explain-') as directory:
        changed(rocemu, golden, directory)
        pages(rocemu, samples, golden, directory)
        diagrams(rocemu, samples, directory)
        options(rocemu, samples, directory)
    print('\n'.join(problems) or 'sentences and diagrams are as the packets are')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
