#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the captures of pcap-samples/ against their MANIFEST: to tshark, field by field, and to `rocemu verify`.

usage: samples.py ROCEMU SAMPLES_DIR

Exit code 77 (skipped) where no tshark is installed.
"""
import concurrent.futures
import importlib.util
import json
import os
import shutil
import sys

SKIP = 77
NEWER = ('28', '29', '188', '189')  # FLUSH and ATOMIC WRITE, RC and XRC: Wireshark 4.0 does not see into them, 4.4 does


def same(found, expected):
    """Is a key's value what MANIFEST has? Of newer packets, what it has."""
    if not (found and isinstance(found, list) and len(found) == len(expected)):
        return found == expected
    return all(f == e or (e[0] in NEWER and all(x == y or not y for x, y in zip(f, e)))
               for f, e in zip(found, expected))


def main():
    rocemu, samples = sys.argv[1:3]
    if shutil.which('tshark') is None:
        print('skipped: tshark is not installed')
        return SKIP
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location('regenerate', os.path.join(samples, 'regenerate.py'))
    regenerate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(regenerate)
    with open(os.path.join(samples, 'MANIFEST.json'), encoding='ascii') as f:
        manifest = json.load(f)
    there = {f[:-5] for f in os.listdir(samples) if f.endswith('.pcap')} | set(regenerate.SAMPLES)
    problems = [f'{name} is not in MANIFEST.json' for name in there if name not in manifest]
    subjects = {name.rsplit('_', 1)[0] for name in manifest}
    problems += [f'{subject} has no capture' for subject in regenerate.SIMULATED if subject not in subjects]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        described = pool.map(lambda name: regenerate.describe(rocemu, os.path.join(samples, name + '.pcap')), manifest)
    for (name, entry), found in zip(manifest.items(), described):
        problems += [f'{name}: {key} is {found[key]}, in MANIFEST.json {entry[key]}' for key in found
                     if not same(found[key], entry[key])]
        if found['verify']['errors']:
            problems.append(f'{name}: verify finds errors')
    print('\n'.join(problems) or f'{len(manifest)} captures are as MANIFEST.json says')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
