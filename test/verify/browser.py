#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The page of `rocemu verify --html` in a real browser: chromium without a window, and without a network.

usage: browser.py ROCEMU GOLDEN_DIR

Exit code 77 (skipped) where no chromium is installed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import capfile
import mutations

SKIP = 77


def dom(browser, directory, url):
    """The document after its scripts have run."""
    p = subprocess.run([browser, '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                        '--no-first-run', '--disable-background-networking', '--host-resolver-rules=MAP * ~NOTFOUND',
                        f'--user-data-dir={directory}/profile', '--virtual-time-budget=5000', '--dump-dom', url],
                       capture_output=True, text=True, timeout=90, check=False)
    if p.returncode != 0:
        raise RuntimeError(f'{browser}: exit code {p.returncode}: {p.stderr[-800:]}')
    return p.stdout


def expect(problems, text, pattern, what):
    if not re.search(pattern, text, re.S):
        problems.append(f'{what}: /{pattern}/ is not in the document')


def main():
    rocemu, golden = sys.argv[1:3]
    browser = shutil.which('chromium') or shutil.which('chromium-browser')
    if browser is None:
        print('skipped: chromium is not installed')
        return SKIP
    problems = []
    with tempfile.TemporaryDirectory(prefix='rocemu-page-', ignore_cleanup_errors=True) as directory:
        frames = capfile.read(os.path.join(golden, 'rc_rnr.pcap'))
        mutations.early(frames)
        capture, page = os.path.join(directory, 'early.pcap'), os.path.join(directory, 'page.html')
        capfile.write(capture, frames)
        subprocess.run([rocemu, 'verify', '--html', page, capture], stdout=subprocess.DEVNULL, timeout=60, check=False)
        with open(page, encoding='utf-8') as f:
            source = f.read()
        if re.search(r'(src|href)\s*=|https?://(?!www\.w3\.org)', source):
            problems.append('the page refers to something outside')
        text = dom(browser, directory, f'file://{page}#packet=3')
        head = text[:text.index('<script')]
        expect(problems, text, 'data-ready="yes"', 'the script ran to its end')
        expect(problems, head, '18 packets, 1 connections, 1 errors', 'the summary')
        expect(problems, head, 'rnr-early.*PSN 256 after 0.100 ms', 'the finding')
        expect(problems, head, 'class="packet chosen" data-number="3"', 'the packet that was chosen')
        expect(problems, head, r'bth.psn</td><td>256 \(0x100\)', 'its headers')
        expect(problems, head, r'RC_SEND_ONLY psn 256 len 64 \(again\)|RC_SEND_ONLY psn 256[^<]*\(again\)',
               'the retransmission')
        if len(re.findall('<g class="packet', head)) != len(frames):
            problems.append('not every packet is in the message sequence')
    print('\n'.join(problems) or 'the page shows what it should')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
