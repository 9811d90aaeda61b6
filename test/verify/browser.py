#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The page of `rocemu verify --html` in a real browser, with a real mouse and without a network.

usage: browser.py ROCEMU GOLDEN_DIR

Exit code 77 (skipped) where no chromium is installed.
"""
import os
import re
import subprocess
import sys
import tempfile

import capfile
import chromium
import mutations_rc

SKIP = 77
# Is there a point of this colour in the plot?
COLOURED = '''(() => { const c = byId('%s'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    for (let i = 0; i < d.length; i += 4) if (d[i] === %d && d[i + 1] === %d && d[i + 2] === %d && d[i + 3] === 255) return true;
    return false; })()'''
RED, ORANGE, BLUE, GREEN = (0xb0, 0, 0x20), (0xcc, 0x66, 0), (0x11, 0x44, 0xcc), (0x22, 0x88, 0x44)
FIELDS = "Object.fromEntries([...document.querySelectorAll('#fields tr')].map(r => [...r.children].map(c => c.textContent)))"
CHOSEN = "[...document.querySelectorAll('.packet.chosen')].map(g => Number(g.dataset.number))"
# Distance of two arrows of the message sequence, in pixels.
DISTANCE = '''(() => { const y = [...document.querySelectorAll('.packet')].slice(0, 2).map(g => g.getBoundingClientRect().y);
    return y[1] - y[0]; })()'''
VIEW = '[view.x0, view.x1]'
PICTURE = "byId('plot').toDataURL()"


class Check:
    def __init__(self):
        self.problems = []

    def __call__(self, good, what):
        if not good:
            self.problems.append(what)


def make_page(rocemu, directory, frames):
    capture, page = os.path.join(directory, 'page.pcap'), os.path.join(directory, 'page.html')
    capfile.write(capture, frames)
    subprocess.run([rocemu, 'verify', '--html', page, capture], stdout=subprocess.DEVNULL, timeout=60, check=False)
    return page


def check_content(page, check, frames):
    check(page.js('document.body.dataset.ready') == 'yes', 'the script did not run to its end')
    check('18 packets, 1 connections, 1 errors' in page.js("byId('summary').textContent"), 'summary')
    text = page.js("byId('findings').textContent")
    check(re.search('rnr-early.*PSN 256 after 0.100 ms', text), f'the finding is not in: {text}')
    check(page.js("document.querySelectorAll('.packet').length") == len(frames), 'not every packet has an arrow')
    check('(again)' in page.js("document.querySelector('[data-number=\"3\"]').textContent"), 'the retransmission')
    for name, colour in (('requests', BLUE), ('repetitions', RED), ('NAKs', ORANGE), ('responses', GREEN)):
        check(page.js(COLOURED % ('plot', *colour)), f'no {name} in the plot')


def check_figures(page, check):
    """One row a direction, and the goodput over time of those that carry data."""
    rows = page.js("[...document.querySelectorAll('#figures tr')].map(r => r.textContent)")
    check(len(rows) == 2 and any('87.50 %' in r or '77.78 %' in r for r in rows), f'figures: {rows}')
    check(page.js(COLOURED % ('rate', *BLUE)), 'no goodput over time')


def check_packet(page, check):
    """A click on an arrow shows that packet's headers; the next, the next one's."""
    for number, fields in ((3, {'bth.psn': '256 (0x100)', 'ip.src': '10.77.0.2', 'bth.ackreq': '1'}),
                           (4, {'aeth.syndrome': '44 (0x2c)', 'aeth.msn': '0 (0x0)', 'ip.src': '10.77.0.3'})):
        page.click(f'.packet[data-number="{number}"] text:last-of-type')
        shown = page.js(FIELDS)
        check(page.js(CHOSEN) == [number], f'chosen are {page.js(CHOSEN)}, clicked was {number}')
        for name, value in fields.items():
            check(shown.get(name) == value, f'packet {number}: {name} is {shown.get(name)}, not {value}')
        check(int(shown.get('icrc', '0').split()[0]) > 0, f'packet {number}: ICRC')


def check_sequence_zoom(page, check):
    before = page.js(DISTANCE)
    page.click('#in')
    page.click('#in')
    check(page.js(DISTANCE) > before * 1.5, '"+" does not enlarge the message sequence')
    for _ in range(8):
        page.click('#out')
    check(page.js(DISTANCE) < before / 2, '"-" does not shrink it')
    check('psn' not in page.js("document.querySelector('.packet').textContent"), 'text where there is no room')
    for _ in range(6):
        page.click('#in')


def check_plot(page, check):
    """Wheel: zoom around the mouse; drag: move; double click: everything again."""
    whole, picture = page.js(VIEW), page.js(PICTURE)
    for _ in range(4):
        page.wheel('#plot', -100, x=0.5)
    near = page.js(VIEW)
    check(near[1] - near[0] < (whole[1] - whole[0]) / 2, f'the wheel does not zoom: {whole} became {near}')
    check(whole[0] < near[0] < near[1] < whole[1], f'not around the mouse: {whole} became {near}')
    check(page.js(PICTURE) != picture, 'the picture stays when zoomed')
    page.drag('#plot', (0.6, 0.5), (0.4, 0.5))
    moved = page.js(VIEW)
    check(moved[0] > near[0] and abs((moved[1] - moved[0]) / (near[1] - near[0]) - 1) < 0.01,
          f'dragging does not move: {near} became {moved}')
    page.click('#plot', times=2)
    page.settle()
    check(page.js(VIEW) == whole, f'a double click does not show all: {page.js(VIEW)}')
    check(page.js(PICTURE) == picture, 'and not the same picture')


def check_finding(page, check):
    """A click on a finding leads to its packet."""
    page.click('.packet[data-number="18"] text')
    page.js("[...document.querySelectorAll('#findings tr')].find(r => r.textContent.includes('rnr-early')).id = 'early'")
    page.click('#early')
    check(page.js(CHOSEN) == [3], f'the finding leads to {page.js(CHOSEN)}')


def check_connections(page, check):
    check(page.js("byId('connection').options.length") == 4, 'four connections')
    page.js("byId('connection').focus()")
    first = page.js('rows.map(p => p.number).join()')
    page.js("(() => { const c = byId('connection'); c.value = '2'; c.dispatchEvent(new Event('change')); })()")
    check(page.js('rows.map(p => p.number).join()') != first, 'another connection shows the same packets')
    check(page.js('rows.every(p => p.connection === 2)'), 'packets of other connections')


def check_long(page, check):
    """Thousands of packets: only some are drawn, those where the scroll bar is."""
    check(page.js("document.querySelectorAll('.packet').length") <= 1000, 'too many are drawn')
    page.js("byId('sequence').scrollTop = byId('sequence').scrollHeight")
    page.settle()
    last = page.js('rows[rows.length - 1].number')
    check(page.js(f"document.querySelector('[data-number=\"{last}\"]') !== null"), 'the last packet is not drawn')
    page.click(f'.packet[data-number="{last}"] text')
    check(page.js(CHOSEN) == [last], 'the last packet cannot be chosen')


def many(frames):
    """A long capture of one short one: its packets again and again, with PSNs that go on."""
    out = []
    for i in range(3000 // len(frames)):
        for f in frames:
            out.append(f.copy(psn=f.psn + 40 * i, time_ns=f.time_ns + i * 10**8, ip_id=(f.ip_id + 100 * i) & 0xffff))
    return out


def main():
    rocemu, golden = sys.argv[1:3]
    if chromium.find() is None:
        print('skipped: chromium is not installed')
        return SKIP

    def read(name):
        return capfile.read(os.path.join(golden, name + '.pcap'))
    check = Check()
    with tempfile.TemporaryDirectory(prefix='rocemu-page-', ignore_cleanup_errors=True) as directory:
        frames = read('rc_rnr')
        mutations_rc.early(frames)
        path = make_page(rocemu, directory, frames)
        with open(path, encoding='utf-8') as f:
            check(not re.search(r'(src|href)\s*=|https?://(?!www\.w3\.org)', f.read()), 'it refers to something outside')
        with chromium.Page(directory) as page:
            page.open('file://' + path)
            check_content(page, check, frames)
            check_figures(page, check)
            check_packet(page, check)
            check_sequence_zoom(page, check)
            check_plot(page, check)
            check_finding(page, check)
            page.open('about:blank')
            page.open(f'file://{path}#packet=5')
            check(page.js(CHOSEN) == [5], '#packet=5 does not lead there')
            asked, wrong = page.complaints()
            check(not asked and not wrong, f'the page asked for {asked}; errors: {wrong}')
            for frames, look in ((read('pingpong_srq'), check_connections), (many(read('rc_many_sends')), check_long)):
                page.open('file://' + make_page(rocemu, directory, frames))
                look(page, check)
    print('\n'.join(check.problems) or 'the page shows what it should, and does what is clicked')
    return 1 if check.problems else 0


if __name__ == '__main__':
    sys.exit(main())
