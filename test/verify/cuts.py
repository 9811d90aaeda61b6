#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a capture shows that is cut by a snap length is what the whole capture shows, or less.

usage: cuts.py ROCEMU GOLDEN_DIR DIRECTORY... [--trials N] [--every] [--only PART]

Captures (test/golden, pcap-samples, and changed ones: with faults, in tunnels, in fragments, as RoCEv1, in bursts as the sender's interface shows
them, on a bad network) are cut at lengths from 14 bytes to the whole frame. At no length may `rocemu verify` find what it
does not find in the whole capture, at another packet or at all, but notes of what could not be judged. Where nothing can be
judged, that is its message. Of faults that the BTH shows, each is found where no more than the BTH is there. decode, explain and the
page show the same packets, and none as missing that is there. --trials makes more bad networks, --every cuts at each length; for a long run.
"""
import argparse
import concurrent.futures
import glob
import json
import multiprocessing
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

import capfile
import disorder
import mutations
import points

IN_BTH = {'psn-gap', 'opcode-order', 'dup-frame', 'pkey', 'tver', 'pad', 'opcode-unknown', 'multicast-qpn', 'cnp'}
NOT_JUDGED = {'cut', 'undecided', 'unsegmented'}
ETHER, BTH = 14, 12
WORD = 4         # what all headers of RoCE are multiples of
HEADERS = 52     # bytes of the longest, from the BTH on
TAIL = 24        # bytes at the end of a frame: pad, ICRC
BATCH = 64


class Capture:
    """Records (time, frame) of a link type. Recorded ones are cut at each length at which anything may change, those made
    of them where headers end."""

    def __init__(self, name, records, link=capfile.ETHERNET, recorded=False, finding=None, extra=0):
        self.name, self.records, self.link, self.recorded, self.finding, self.extra = name, records, link, recorded, finding, extra
        self.begin = None  # of the BTH of the first packet, where it is not behind IP and UDP alone

    def write(self, path, cut):
        with open(path, 'wb') as f:
            f.write(struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, cut, self.link))
            for time, data in self.records:
                kept = data[:cut]
                f.write(struct.pack('<IIII', time // 10**9, time % 10**9, len(kept), len(data)) + kept)

    def cuts(self, every):
        lengths = {len(data) for _, data in self.records}
        if every:
            return range(ETHER, max(lengths) + 1)
        begin = self.bth_end() - BTH
        found = {ETHER, begin - 1} | {n - WORD for n in lengths}
        if not self.recorded:
            return sorted(found | set(range(begin, begin + HEADERS, WORD)))
        found |= set(range(ETHER, begin, WORD)) | set(range(begin, begin + HEADERS))
        for n in lengths if len(lengths) < 8 else ():
            found |= set(range(n - TAIL, n + 1))
        return sorted(n for n in found if n >= ETHER)

    def bth_end(self):
        """Of the first packet."""
        if self.begin is not None:
            return self.begin + BTH
        link = self.extra + (ETHER if self.link == capfile.ETHERNET else 0)
        return link + (60 if self.records[0][1][link] >> 4 == 6 else 40)


def read(path):
    with open(path, 'rb') as f:
        data = f.read()
    unit = {0xa1b2c3d4: 1000, 0xa1b23c4d: 1}[struct.unpack('<I', data[:4])[0]]
    found, at = [], 24
    while at < len(data):
        sec, frac, length, _ = struct.unpack('<IIII', data[at:at + 16])
        found.append((sec * 10**9 + frac * unit, data[at + 16:at + 16 + length]))
        at += 16 + length
    return Capture(os.path.basename(path)[:-5], found, struct.unpack('<I', data[20:24])[0], recorded=True)


def of_frames(name, frames):
    return Capture(name, [(f.time_ns, f.encode()) for f in frames])


# ---- the captures ----

def mutated(golden):
    """Not those with damaged packets, which are passed over only where the ICRC is there to show it."""
    for finding, capture, function in mutations.MUTATIONS:
        if finding == 'icrc-wrong':
            continue
        frames = capfile.read(os.path.join(golden, capture + '.pcap'))
        changed = function(frames)
        frames = frames if changed is None else changed
        for f in frames:
            f.cut = None
        made = of_frames(f'{finding or "nothing"}-{capture}-{function.__name__}', frames)
        made.finding = finding
        yield made


def in_tunnels(captures):
    names = sorted(points.TUNNELS)
    for n, c in enumerate(captures):
        name = names[n % len(names)]
        found = [(time, points.TUNNELS[name](data)) for time, data in c.records]
        yield Capture(f'{c.name}-{name}', found, extra=len(found[0][1]) - len(c.records[0][1]))


def tagged(n):
    return lambda f: [capfile.Raw(f.time_ns, f.encode()[:12] + b'\x88\xa8\0\5' * (n - 1) + b'\x81\0\0\6' + f.encode()[12:])]


def with_options(f):
    """IPv4's router alert, IPv6's hop-by-hop options and a segment routing header."""
    header = b'\x94\4\0\0' if not f.v6 else bytes((43, 0, 1, 4, 0, 0, 0, 0, 17, 2, 4, 0, 0, 0, 0, 0)) + f.ip[24:40]
    return [capfile.behind_ip(f, header, 17 if not f.v6 else 0, 6)]


FORMS = {'vlan': (tagged(1), 4), 'qinq': (tagged(2), 8), 'options': (with_options, None), 'fragments': (capfile.fragments, 0),
         'v1': (lambda f: [capfile.as_v1(f)], None), 'erf': (lambda f: [capfile.Raw(f.time_ns, capfile.as_erf(f))], 34)}


def in_other_forms(golden):
    for n, path in enumerate(sorted(glob.glob(os.path.join(golden, '*.pcap')))):
        frames = [f for f in capfile.read(path) if f.udp[2:4] == points.ROCE_PORT]
        name = sorted(FORMS)[n % len(FORMS)]
        form, extra = FORMS[name]
        if extra is None:
            extra = len(form(frames[0])[0].encode()) - len(frames[0].encode())
        records = [(part.time_ns, part.encode()) for f in frames for part in form(f)]
        c = Capture(f'{os.path.basename(path)[:-5]}-{name}', records, extra=extra)
        c.begin = (74 if frames[0].v6 else 54) + extra - BTH
        c.link = points.ERF if name == 'erf' else capfile.ETHERNET
        yield c


def in_bursts(golden):
    """As the sender's interface shows them."""
    for path in sorted(glob.glob(os.path.join(golden, '*.pcap'))):
        made = points.bursts([f for f in capfile.read(path) if f.udp[2:4] == points.ROCE_PORT], lambda k: k)
        for f, _ in made:
            f.encode()
            f.udp[6:8] = f.pseudo_sum()
        if any(n > 1 for _, n in made):
            c = of_frames(os.path.basename(path)[:-5] + '-bursts', [f for f, _ in made])
            c.finding = 'bursts'
            yield c


def on_bad_networks(captures, trials):
    for c in captures:
        found = [(time, struct.pack('<II', len(data), len(data)) + data) for time, data in c.records]
        for n in range(trials):
            dice = random.Random(f'{c.name}-{n}')
            changed = disorder.trial(dice, 10**9, found, {'rnr-nak'})
            if changed:
                yield Capture(f'{c.name}-network-{n}', [(time, rest[8:]) for time, rest in changed], c.link)


def captures(args):
    recorded = [read(p) for d in args.directories for p in sorted(glob.glob(os.path.join(d, '*.pcap')))]
    ethernet = [c for c in recorded if c.link == capfile.ETHERNET]
    yield from recorded
    yield from mutated(args.directories[0])
    yield from in_tunnels(ethernet)
    yield from in_other_forms(args.directories[0])
    yield from in_bursts(args.directories[0])
    yield from on_bad_networks(recorded, args.trials)


# ---- judging ----

def verify(rocemu, paths):
    """The report of each; of those that cannot be judged the message."""
    p = subprocess.run([rocemu, 'verify', '--json', '--keep', '100000', *paths], capture_output=True, text=True, timeout=300, check=False)
    decoder, reports, at = json.JSONDecoder(), {}, 0
    while at < len(p.stdout):
        report, at = decoder.raw_decode(p.stdout, at)
        reports[report['file']] = report
        while at < len(p.stdout) and p.stdout[at].isspace():
            at += 1
    for path in paths:
        if path not in reports:
            reports[path] = next((line for line in p.stderr.splitlines() if path in line), f'no report of {path}: {p.stderr[-500:]}')
    return reports


def places(report):
    return {(f['id'], f['packet'], f.get('segment')) for f in report['findings'] if f['id'] not in NOT_JUDGED}


def frames_of(found):
    """Bursts are not taken apart when they are cut."""
    return {(i, packet) for i, packet, _ in found}


def judge(report, whole):
    """What is found in a cut capture, and should not be."""
    if isinstance(report, str):
        return [] if 'capture at least' in report else [report]
    new = frames_of(places(report)) - frames_of(places(whole))
    return [f'{f["id"]} at {f["packet"]}: {f["text"]}' for f in report['findings'] if (f['id'], f['packet']) in new]


def missed(finding, report, whole):
    """Faults of a kind that the BTH shows, and that are not found."""
    def of(r):
        return {} if isinstance(r, str) else {(f['id'], f['packet']): f['text'] for f in r['findings'] if f['id'] == finding}
    gone = set(of(whole)) - set(of(report))
    return [f'{i} at {packet} is not found: {of(whole)[i, packet]}' for i, packet in gone]


# ---- the other tools ----

def run(rocemu, tool, *args):
    return subprocess.run([rocemu, tool, *args], capture_output=True, text=True, timeout=60, check=False)


def decoded(rocemu, path):
    """Opcode, QPN and PSN of each line."""
    p = run(rocemu, 'decode', '--json', path)
    lines = [json.loads(line) for line in p.stdout.splitlines()]
    return [(x['number'], x.get('segment', 0), x.get('opcode'), x.get('qpn'), x.get('psn')) for x in lines]


def page_problems(html, whole):
    """Its columns fit together, and nothing is missing that is there in the whole capture."""
    log, opcodes = html['log'], html['opcodes']
    def column(name):
        return log[name] if isinstance(log[name], list) else [log[name]] * log['n']
    size = {int(code): sum(2 if f.endswith(':x') else 1 for f in o[4].split()) for code, o in opcodes.items()}
    numbers = sum(size[code] for code, flags in zip(column('opcode'), column('flags')) if flags & 2)
    if numbers != len(log['extensions']) - 1:
        yield f'the page has {len(log["extensions"]) - 1} numbers of extension headers, not {numbers}'
    if sum(column('missing')) and not whole:
        yield f'the page has {sum(column("missing"))} missing packets'


def page(rocemu, path):
    run(rocemu, 'verify', '--html', path + '.html', path)
    with open(path + '.html', encoding='utf-8') as f:
        text = f.read()
    os.unlink(path + '.html')
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))


def tools(rocemu, capture, directory):
    """What decode, explain and the page show of a few cuts."""
    path, cut = os.path.join(directory, 'whole'), os.path.join(directory, 'cut')
    expected, losses = decoded(rocemu, path), 'missing' in run(rocemu, 'explain', path).stdout
    for n in (capture.bth_end() + more for more in (0, 8, 28)):
        capture.write(cut, n)
        found, said = decoded(rocemu, cut), run(rocemu, 'explain', cut)
        if capture.finding != 'bursts' and found != expected:
            yield f'decode: {set(found) ^ set(expected)}', n
        if said.returncode != 0 or ('missing' in said.stdout and not losses):
            yield f'explain: {said.stderr}{[x for x in said.stdout.splitlines() if "missing" in x]}', n
        for problem in page_problems(page(rocemu, cut), losses):
            yield problem, n


def check(rocemu, capture, every):
    problems, runs = {}, 0
    with tempfile.TemporaryDirectory(prefix='rocemu-cuts-') as directory:
        path = os.path.join(directory, 'whole')
        capture.write(path, 1 << 17)
        whole = verify(rocemu, [path])[path]
        if isinstance(whole, str):
            return 0, {}
        cuts = list(capture.cuts(every))
        for at in range(0, len(cuts), BATCH):
            paths = {}
            for cut in cuts[at:at + BATCH]:
                path = os.path.join(directory, str(cut))
                capture.write(path, cut)
                paths[path] = cut
            reports = verify(rocemu, list(paths))
            for path, cut in paths.items():
                wrong = judge(reports[path], whole)
                if capture.finding in IN_BTH and cut >= capture.bth_end():
                    wrong += missed(capture.finding, reports[path], whole)
                for problem in wrong:
                    problems.setdefault(f'{capture.name}: {problem}', []).append(cut)
            runs += len(paths)
            for path in paths:
                os.unlink(path)
        if capture.recorded or capture.finding == 'bursts':
            for problem, cut in tools(rocemu, capture, directory):
                problems.setdefault(f'{capture.name}: {problem}', []).append(cut)
    return runs, problems


shared = []    # in each process of the pool: the arguments, the captures


def share(*what):
    shared[:] = what


def check_number(n):
    args, chosen = shared
    return check(args.rocemu, chosen[n], args.every)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('rocemu')
    parser.add_argument('directories', nargs='+')
    parser.add_argument('--trials', type=int, default=1, help='bad networks for each recorded capture')
    parser.add_argument('--every', action='store_true')
    parser.add_argument('--only', default='', help='a part of the names of captures')
    args = parser.parse_args()
    chosen = [c for c in captures(args) if args.only in c.name]
    # Forked processes have the captures. Reading reports takes as long as writing them: threads would take turns.
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context('fork'), share, (args, chosen)) as pool:
        results = list(pool.map(check_number, range(len(chosen))))
    problems = [f'{p}, cut at {min(at)} to {max(at)}' for _, found in results for p, at in found.items()]
    print('\n'.join(problems[:100]))
    print(f'{len(chosen)} captures, {sum(n for n, _ in results)} cuts, {len(problems)} problems')
    return 1 if problems or not chosen else 0


if __name__ == '__main__':
    sys.exit(main())
