#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Effects of the network and the capture on packets are no fault of the sender: `rocemu verify` must not find any.

usage: disorder.py ROCEMU DIRECTORY... [--trials N] [--seed N] [--cm CM_SAMPLES]

Captures of correct implementations (test/golden, pcap-samples) are taken apart and put together
again with packets reordered, doubled and missing, as a network, a mirror port or a busy capturing
host leaves them. No error may be found in them, and beyond the findings in the recorded capture
only those about order, loss and repetition. A trial that fails is reported with its seed and kept.
With --cm, connection managers that go through all their exchanges on bad networks are checked the
same way.
"""
import argparse
import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import capfile

# What may come of packets that are missing, late or double.
EXPECTED = {
    'psn-gap', 'psn-jump', 'late', 'dup-frame', 'retransmission', 'ack-unseen', 'capture-loss', 'ack-old', 'ack-early',
    'nak-no-gap', 'nak-repeated', 'rnr-early-unsure', 'read-response-gap', 'read-response-unsure', 'read-overtaken',
    'rxe-read-replay', 'response-again', 'cm-missing', 'cm-start-psn', 'cm-again', 'cm-unanswered', 'unpaired',
    'undecided', 'cnp-without-ce', 'ud-psn',
}
TRIALS = 12  # of each capture
FOUR = {'rc_many_sends', 'rc_read', 'rc_mixed_pipelined', 'pingpong_rc', 'rc_write', 'rc_atomic', 'rc_rnr'}


def records(path):
    """The file's header and its records: (time in units of the file, lengths and bytes)."""
    with open(path, 'rb') as f:
        data = f.read()
    scale = {0xa1b2c3d4: 10**6, 0xa1b23c4d: 10**9}[struct.unpack('<I', data[:4])[0]]
    found, at = [], 24
    while at < len(data):
        sec, frac, length, wire = struct.unpack('<IIII', data[at:at + 16])
        found.append((sec * scale + frac, struct.pack('<II', length, wire) + data[at + 16:at + 16 + length]))
        at += 16 + length
    return data[:24], scale, found


def write(path, header, scale, found):
    with open(path, 'wb') as f:
        f.write(header)
        for time, rest in found:
            f.write(struct.pack('<II', time // scale, time % scale) + rest)


def reordered(dice, scale, found):
    """Places change by up to a window, times stay where they are: as a capture with several queues has it. Nothing
    overtakes what was sent a tenth of a second earlier."""
    window, keys, base = dice.choice((2, 3, 5, 9, 16)), [], 0
    for i, (time, _) in enumerate(found):
        if i and time - found[i - 1][0] > scale // 10:
            base += 2 * window
        keys.append(base + i + dice.random() * window)
    order = sorted(range(len(found)), key=keys.__getitem__)
    return [(slot[0], found[i][1]) for slot, i in zip(found, order)]


def delayed(dice, scale, found, longest):
    """Each packet is late by a random time, as `tc netem delay` makes it."""
    most = scale * dice.choice([us for us in (10, 100, 1000, 10000) if us <= longest]) // 10**6
    return sorted(((time + dice.randrange(most + 1), rest) for time, rest in found), key=lambda r: r[0])


def doubled(dice, found):
    """Some packets come again, a few places later."""
    share, window = dice.choice((0.02, 0.1, 0.3)), dice.choice((1, 2, 5, 12))
    places = list(enumerate(found))
    for i, (_, rest) in enumerate(found):
        if dice.random() < share:
            behind = min(i + dice.randrange(window), len(found) - 1)
            places.append((behind + 0.5, (found[behind][0], rest)))
    return [record for _, record in sorted(places, key=lambda p: p[0])]


def missing(dice, found):
    share = dice.choice((0.01, 0.05, 0.15, 0.4))
    begin = dice.randrange(len(found)) if dice.random() < 0.2 else 0
    return [r for r in found[begin:] if dice.random() >= share]


def trial(dice, scale, found, normal):
    """One or several of these."""
    # A requester waits after it has got the RNR NAK: nothing on the path makes the wait shorter.
    longest = 100 if 'rnr-nak' in normal else 10000
    for change in dice.choice(('r', 'd', 't', 'm', 'rm', 'rd', 'dm', 'td', 'tm', 'rdm', 'tdm')):
        found = {'r': lambda f: reordered(dice, scale, f), 't': lambda f: delayed(dice, scale, f, longest),
                 'd': lambda f: doubled(dice, f), 'm': lambda f: missing(dice, f)}[change](found)
    return found


def verify(rocemu, paths):
    """The report of each."""
    p = subprocess.run([rocemu, 'verify', '--json', *paths], capture_output=True, text=True, timeout=300, check=False)
    decoder, reports, at = json.JSONDecoder(), {}, 0
    while at < len(p.stdout):
        report, at = decoder.raw_decode(p.stdout, at)
        reports[report['file']] = report
        while at < len(p.stdout) and p.stdout[at].isspace():
            at += 1
    if p.returncode not in (0, 1, 2) or any('no RoCEv2' not in line for line in p.stderr.splitlines()):
        raise RuntimeError(f'exit code {p.returncode}: {p.stderr[-2000:]}')
    return reports


def judge(report, normal):
    """What is in the report and should not be."""
    wrong = [f'{f["id"]} at packet {f["packet"]}: {f["text"]}' for f in report['findings']
             if f['severity'] == 'error' or f['id'] not in EXPECTED | normal]
    return wrong if wrong or not report['errors'] else [f'{report["errors"]} errors']


def connection_managers(args):
    """What their exchanges on bad networks are found guilty of; and how many there are."""
    with tempfile.TemporaryDirectory(prefix='rocemu-disorder-') as directory:
        subprocess.run([args.cm, directory, str(args.trials)], timeout=300, check=True)
        paths = sorted(glob.glob(os.path.join(directory, '*.pcap')))
        return len(paths), report_wrong(args, paths, set())


def take_apart(args, captures):
    """Trials of each capture; how many, and how many were found guilty."""
    reports, runs, failed = verify(args.rocemu, captures), 0, 0
    found_in = {os.path.basename(path): set(report['counts']) for path, report in reports.items()}
    for capture in captures:
        header, scale, found = records(capture)
        name = os.path.basename(capture)
        normal = found_in[name] | found_in.get(name.replace('four-', ''), set())
        with tempfile.TemporaryDirectory(prefix='rocemu-disorder-') as directory:
            trials = {}
            for n in range(args.trials):
                seed = f'{args.seed}-{name}-{n}'
                path = os.path.join(directory, f'disorder-{seed}')
                write(path, header, scale, trial(random.Random(seed), scale, found, normal))
                trials[path] = seed
            runs += len(trials)
            failed += report_wrong(args, trials, normal)
    return runs, failed


def report_wrong(args, paths, normal):
    """Print and keep those that were found guilty; how many."""
    failed = 0
    for path, report in verify(args.rocemu, list(paths)).items():
        wrong = judge(report, normal)
        if wrong:
            failed += 1
            shutil.move(path, kept := os.path.join(args.keep, os.path.basename(path)))
            print(f'{kept}: ' + '; '.join(wrong[:3]))
    return failed


def together(directory, paths):
    """Captures in which four connections of the same hosts do the same, with the same or nearly the same PSNs."""
    for path in paths:
        dice, frames, mixed = random.Random(path), capfile.read(path), []
        for n in range(4):
            late, slow, psn = dice.randrange(3 * 10**6), dice.uniform(0.5, 2), dice.choice((0, 0, 3, 20))
            mixed += [f.copy(dqpn=f.dqpn + 16 * n, psn=f.psn + psn, ip_id=(f.ip_id + 1000 * n) & 0xffff,
                             time_ns=int(frames[0].time_ns + late + (f.time_ns - frames[0].time_ns) * slow))
                      for f in frames]
        capfile.write(os.path.join(directory, 'four-' + os.path.basename(path)), sorted(mixed, key=lambda f: f.time_ns))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('rocemu')
    parser.add_argument('directories', nargs='+')
    parser.add_argument('--trials', type=int, default=TRIALS)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--keep', default='.', help='where captures that failed are left')
    parser.add_argument('--cm', help='the program cm-samples')
    args = parser.parse_args()
    captures = sorted(p for d in args.directories for p in glob.glob(os.path.join(d, '*.pcap')))
    with tempfile.TemporaryDirectory(prefix='rocemu-disorder-') as directory:
        together(directory, [p for p in captures if os.path.basename(p)[:-5] in FOUR])
        captures += sorted(glob.glob(os.path.join(directory, '*.pcap')))
        runs, failed = take_apart(args, captures)
    if args.cm:
        n, wrong = connection_managers(args)
        runs, failed = runs + n, failed + wrong
    print(f'{len(captures)} captures, {runs} trials, {failed} with findings that should not be')
    return 1 if failed or not captures else 0


if __name__ == '__main__':
    sys.exit(main())
