#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does `rocemu verify` find what it should, and only that?

usage: mutate.py ROCEMU GOLDEN_DIR [PATTERN]

Every recorded capture is without an error, also when its beginning or some of its packets are
missing. Each mutation of one (mutations.py) is found, by the ID of the rule it breaks; findings are
errors exactly where the rule's severity is error. Every ID has a mutation and an explanation.
"""
import fnmatch
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import capfile
import mutations


def verify(rocemu, *args):
    return subprocess.run([rocemu, 'verify', *args], capture_output=True, text=True, timeout=60, check=False)


def rules(rocemu):
    """ID -> severity."""
    lines = verify(rocemu, '--list').stdout.splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def explained(rocemu, finding):
    """--explain has the line of the list, and below it what it means, why it may be, and what to do."""
    p = verify(rocemu, '--explain', finding)
    parts = p.stdout.strip().split('\n\n')
    return (p.returncode == 0 and parts[0].startswith(finding + ' (') and len(parts) in (5, 6) and len(parts[1]) > 20 and
            all(re.fullmatch(f'{title}: .{{4,}}', part, re.S)
                for title, part in zip(('Likely causes', 'What to do', 'Counter that moves', 'Source'), parts[2:])))


def check_golden(rocemu, golden, problems):
    files = sorted(glob.glob(os.path.join(golden, '*.pcap')))
    if not files:
        problems.append(f'{golden}: no captures')
    for path in files:
        p = verify(rocemu, '--json', path)
        counts = json.loads(p.stdout)
        for f in counts['findings']:
            if f['severity'] == 'error':
                problems.append(f'{path}: {f["id"]} at packet {f["packet"]}: {f["text"]}')
        if p.returncode != 0 or counts['icrc']['checked'] != counts['packets']:
            problems.append(f'{path}: exit code {p.returncode}, {p.stderr.strip()}')
    return len(files)


def check_mutation(rocemu, golden, severity, case, directory):
    finding, capture, function = case
    name = f'{finding or "nothing"}/{capture}/{function.__name__}'
    frames = capfile.read(os.path.join(golden, capture + '.pcap'))
    changed = function(frames)
    path = os.path.join(directory, name.replace('/', '-') + '.pcap')
    capfile.write(path, frames if changed is None else changed)
    p = verify(rocemu, '--json', path)
    if p.returncode not in (0, 1):
        return f'{name}: exit code {p.returncode}: {p.stderr.strip()}'
    counts = json.loads(p.stdout)['counts']
    if finding == '' and p.returncode == 0:
        return None
    if finding not in counts:
        return f'{name}: not found, but {counts}'
    errors = any(severity[i] == 'error' for i in counts)
    if errors != (p.returncode == 1) or (severity[finding] == 'error' and not errors):
        return f'{name}: exit code {p.returncode} with {counts}'
    os.unlink(path)
    return None


def check_holes(rocemu, golden, directory, problems):
    """Captures that begin in the middle of connections, and ones that miss packets."""
    dice = random.Random(1)
    path, runs = os.path.join(directory, 'holes.pcap'), 0
    for capture in sorted(glob.glob(os.path.join(golden, '*.pcap'))):
        frames = capfile.read(capture)
        begun = [frames[dice.randrange(1, len(frames)):] for _ in range(3) if len(frames) > 1]
        holes = [[f for f in frames if dice.random() > 0.15] for _ in range(3)]
        for left in begun + holes:
            capfile.write(path, left)
            p = verify(rocemu, path)
            runs += 1
            if p.returncode == 1 or (p.returncode == 2 and 'no RoCEv2' not in p.stderr):
                problems.append(f'{capture}, {len(left)} of {len(frames)} frames: {p.stdout}{p.stderr}')
    return runs


def main():
    rocemu, golden = sys.argv[1], sys.argv[2]
    pattern = sys.argv[3] if len(sys.argv) > 3 else '*'
    problems = []
    severity = rules(rocemu)
    cases = [c for c in mutations.MUTATIONS if fnmatch.fnmatch(f'{c[0]}/{c[1]}/{c[2].__name__}', pattern)]
    problems += [f'{i}: no mutation' for i in severity if i not in {c[0] for c in mutations.MUTATIONS}]
    problems += [f'{c[0]}: no such finding' for c in mutations.MUTATIONS if c[0] and c[0] not in severity]
    problems += [f'{i}: not explained' for i in severity if not explained(rocemu, i)]
    files = check_golden(rocemu, golden, problems)
    with tempfile.TemporaryDirectory(prefix='rocemu-verify-') as directory:
        holes = check_holes(rocemu, golden, directory, problems)
        problems += filter(None, (check_mutation(rocemu, golden, severity, c, directory) for c in cases))
    for p in problems:
        print(p)
    print(f'{files} captures, {holes} with holes, {len(severity)} findings, {len(cases)} mutations, '
          f'{len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
