#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The page of `rocemu verify --html` in a real browser, with a real mouse and keyboard and without a network.

usage: browser.py ROCEMU GOLDEN_DIR SAMPLES_DIR

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
LONG = 100000      # packets of the long capture
# Does an element's canvas have a point of this colour (a name in the page's list)? In a row: of the packet's row.
COLOURED = '''((id, name, number) => {
    const c = byId(id), g = c.getContext('2d'), ratio = c.width / c.clientWidth, probe = document.createElement('canvas').getContext('2d');
    probe.fillStyle = colours[name]; probe.fillRect(0, 0, 1, 1);
    const want = probe.getImageData(0, 0, 1, 1).data;
    if (number) { showRow(rowOf(packetOf(number)), 'near'); drawNow(); }
    const y = number === 0 ? 0 : Math.round((rowY(rowOf(packetOf(number))) - 8) * ratio), h = number === 0 ? c.height : Math.round(20 * ratio);
    const d = g.getImageData(0, y, c.width, h).data;
    for (let i = 0; i < d.length; i += 4) if (d[i] === want[0] && d[i + 1] === want[1] && d[i + 2] === want[2] && d[i + 3] === 255) return true;
    return false; })('%s', '%s', %d)'''
FIELDS = "Object.fromEntries([...document.querySelectorAll('#fields tr')].map(r => [...r.children].map(c => c.textContent)))"
CHOSEN = 'state.chosen < 0 ? 0 : log.number[state.chosen]'
VIEW = '[state.x0, state.x1]'
PICTURE = "['psn', 'rate', 'outstanding', 'rtt'].map(n => byId('plot-' + n).toDataURL())"
ROWS = 'Array.from(state.rows, r => r < 0 ? "missing" : log.number[r])'


class Check:
    def __init__(self):
        self.problems = []

    def __call__(self, good, what):
        if not good:
            self.problems.append(what)


def make_page(rocemu, directory, frames, name='page', options=()):
    capture, page = os.path.join(directory, name + '.pcap'), os.path.join(directory, 'page.html')
    if frames is not None:
        capfile.write(capture, frames)
    else:
        capture = name
    subprocess.run([rocemu, 'verify', *options, '--html', page, capture], stdout=subprocess.DEVNULL, timeout=60, check=False)
    return 'file://' + page


def click_row(page, number):
    """A click in the middle of a packet's row; the diagram shows the row already."""
    x, y = page.js(f'''(() => {{ const r = canvas.getBoundingClientRect();
        return [r.x + r.width / 2, r.y + rowY(rowOf(packetOf({number}))) - 4]; }})()''')
    page.mouse('mouseMoved', (x, y))
    page.mouse('mousePressed', (x, y), button='left', buttons=1, clickCount=1)
    page.mouse('mouseReleased', (x, y), button='left', clickCount=1)
    page.settle()


def check_content(page, check, frames):
    check(page.js('document.body.dataset.ready') == 'yes', 'the script did not run to its end')
    check('18 packets, 1 connection' in page.js("byId('summary').textContent"), 'summary')
    check('1 error' in page.js("byId('counts').textContent"), 'counts')
    text = page.js("byId('findings').textContent")
    check(re.search('rnr-early.*PSN 256 .*after 0.100 ms', text), f'the finding is not in: {text}')
    check(page.js('state.rows.length') == len(frames), 'not every packet has a row')
    check(page.js(CHOSEN) == 3, f'it does not open on the worst finding, but on {page.js(CHOSEN)}')
    check(page.js('label(packetOf(3))') == 'RC Send Only, PSN 0, 64 bytes (again)', page.js('label(packetOf(3))'))
    check(page.js('label(packetOf(4))').startswith('RNR NAK 0.64 ms, PSN 0'), page.js('label(packetOf(4))'))
    page.settle()
    for name, number, colour in (('a request', 1, 'req'), ('a repetition', 3, 'again'), ('a NAK', 4, 'nak'), ('an answer', 18, 'resp'),
                                 ('the error', 3, 'error')):
        check(page.js(COLOURED % ('ladder-canvas', colour, number)), f'{name} has not its colour')
    for plot, colour in (('psn', 'again'), ('psn', 'nak'), ('psn', 'resp'), ('rate', 'a'), ('outstanding', 'a')):
        check(page.js(COLOURED % ('plot-' + plot, colour, 0)), f'nothing of colour {colour} in plot {plot}')
    rows = page.js("[...document.querySelectorAll('#figure-rows tr')].map(r => r.textContent)")
    check(len(rows) == 2 and any('87.50 %' in r or '77.78 %' in r for r in rows), f'figures: {rows}')


def check_packet(page, check):
    """A click on a row shows that packet's headers; the next, the next one's."""
    for number, fields in ((3, {'bth.psn': '256 (0x100)', 'ip.src': '10.77.0.2', 'bth.ackreq': '1', 'psn, relative': '0'}),
                           (4, {'aeth.syndrome': '44 (0x2c)', 'aeth.msn': '0 (0x0)', 'ip.src': '10.77.0.3'})):
        click_row(page, number)
        shown = page.js(FIELDS)
        check(page.js(CHOSEN) == number, f'chosen is {page.js(CHOSEN)}, clicked was {number}')
        for name, value in fields.items():
            check(shown.get(name) == value, f'packet {number}: {name} is {shown.get(name)}, not {value}')
        check(int(shown.get('icrc', '0').split()[0]) > 0, f'packet {number}: ICRC')
    click_row(page, 3)
    check('rnr-early' in page.js("byId('packet-findings').textContent"), 'the packet does not show its finding')
    page.js("[...byId('findings').children].find(r => r.textContent.includes('rnr-early')).id = 'early'")
    click_row(page, 1)
    page.click('#early')
    check(page.js(CHOSEN) == 3, f'the finding leads to {page.js(CHOSEN)}')


def check_modes(page, check):
    page.click('#psn-mode')
    check('PSN 256,' in page.js('label(packetOf(3))'), 'absolute PSNs')
    check(page.js(CHOSEN) == 3, 'another mode of PSNs chooses another packet')
    page.click('#psn-mode')
    times = set()
    for _ in range(3):
        times.add(page.js('timeText(2)'))
        page.click('#time-mode')
    check(len(times) == 3, f'three kinds of times: {times}')
    before = page.js('rowY(1) - rowY(0)')
    page.click('#row-in')
    page.click('#row-in')
    check(page.js('rowY(1) - rowY(0)') > before * 1.5, '"+" does not enlarge the diagram')
    for _ in range(6):
        page.click('#row-out')
    check(page.js('rowY(1) - rowY(0)') < before / 2, '"-" does not shrink it')
    page.js('state.rowHeight = 24; makeRows()')


def check_keys(page, check):
    """Keys do what their list has."""
    page.js("byId('search').blur(); ladder.focus()")
    click_row(page, 3)
    for key, chosen in (('j', 4), ('j', 5), ('k', 4)):
        page.key(key)
        check(page.js(CHOSEN) == chosen, f'{key} leads to {page.js(CHOSEN)}, not to {chosen}')
    page.key('N')
    check(page.js(CHOSEN) < 4 and page.js('findingsAt.has(state.chosen)'), 'N: to the finding before')
    page.key('?')
    check(page.js("byId('help').open") and page.js("byId('keys').children.length") == page.js('KEYS.length'), '? lists the keys')
    page.js("byId('help').close()")
    page.key('w')
    words = page.js("byId('lesson').textContent")
    check(page.js('byId("ladder").hidden') and 'A sends a message of 64 bytes (SEND), PSN 0.' in words and
          'B has no receive for PSN 0 (RNR NAK): A waits 0.64 ms or longer' in words, f'in words: {words}')
    page.key('w')
    check(page.js('location.hash').startswith('#packet='), f'the address has {page.js("location.hash")}')


def check_find(page, check):
    page.key('/')
    page.type('rnr')
    found = page.js('state.hits.map(i => log.number[i])')
    check(found and all(page.js(f'label(packetOf({n})).startsWith("RNR NAK")') or page.js(f'findingsAt.has(packetOf({n}))') for n in found),
          f'"rnr" finds {found}')
    page.key('Enter')
    check(page.js(CHOSEN) in found, 'Enter goes to what was found')
    page.click('#only')
    check(page.js(ROWS) == found, f'only what was found: {page.js(ROWS)}')
    for query, wanted in (('psn:1', 'log.rel[i] === 1'), ('from:b', 'side(i) === 1'), ('again from:a', '(log.flags[i] & AGAIN) !== 0'), ('#5', 'log.number[i] === 5')):
        page.js(f"byId('search').value = '{query}'; find()")
        good = page.js(f'state.hits.length > 0 && state.hits.every(i => {wanted}) && state.hits.length === Array.from(sessions[state.session].packets).filter(i => {wanted}).length')
        check(good, f'"{query}" finds {page.js("state.hits.map(i => log.number[i])")}')
    page.js("byId('search').value = ''; byId('only').checked = false; find(); byId('search').blur()")


def check_plots(page, check):
    """One range of time for all: wheel zooms around the mouse, a drag moves, a double click shows all, a click chooses."""
    page.settle()
    whole, pictures = page.js(VIEW), page.js(PICTURE)
    for _ in range(4):
        page.wheel('#plot-rate', -100, x=0.5)
    near = page.js(VIEW)
    check(near[1] - near[0] < (whole[1] - whole[0]) / 2, f'the wheel does not zoom: {whole} became {near}')
    check(whole[0] < near[0] < near[1] < whole[1], f'not around the mouse: {whole} became {near}')
    check(all(a != b for a, b in zip(page.js(PICTURE), pictures)), 'a plot stays when the others are zoomed')
    page.drag('#plot-psn', (0.6, 0.5), (0.4, 0.5))
    moved = page.js(VIEW)
    check(moved[0] > near[0] and abs((moved[1] - moved[0]) / (near[1] - near[0]) - 1) < 0.01,
          f'dragging does not move: {near} became {moved}')
    page.click('#plot-psn', times=2)
    page.settle()
    check(page.js(VIEW) == whole, f'a double click does not show all: {page.js(VIEW)}')
    check(page.js(PICTURE) == pictures, 'and not the same pictures')
    x = page.js("(plotX(log.time[packetOf(18)]) - 1) / byId('plot-psn').clientWidth")
    page.click('#plot-psn', x=x, y=0.5)
    check(page.js(CHOSEN) == 18, f'a click at the end of the time chooses {page.js(CHOSEN)}')
    area = page.js("byId('plot-area').clientHeight")
    page.click('#plot-fold')
    check(area > 0 and page.js("byId('plot-area').clientHeight") == 0, 'the plots are not hidden')
    page.click('#plot-fold')


def check_theme(page, check):
    light = page.js("getComputedStyle(document.body).backgroundColor")
    page.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark'}])
    page.settle()
    dark, canvas_dark = page.js("getComputedStyle(document.body).backgroundColor"), page.js('colours.req')
    check(dark != light, "the system's dark colours are not taken")
    page.js("setTheme('light')")
    check(page.js("getComputedStyle(document.body).backgroundColor") == light and page.js('colours.req') != canvas_dark, 'the switch')
    page.call('Emulation.setEmulatedMedia', features=[])
    page.js("setTheme('dark')")
    check(page.js("getComputedStyle(document.body).backgroundColor") == dark, 'the switch to dark')
    page.js("setTheme('system')")
    check(page.js("getComputedStyle(document.body).backgroundColor") == light, 'and back')


def check_print(page, check):
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    page.call('Emulation.setEmulatedMedia', media='print')
    rows = page.js("byId('print').querySelectorAll('tr').length")
    check(rows == page.js('state.rows.length') and page.js("byId('print').getBoundingClientRect().height") > 100, f'{rows} rows are printed')
    check(page.js("getComputedStyle(byId('left')).display") == 'none', 'lists are printed')
    page.call('Emulation.setEmulatedMedia', media='')
    page.js("window.dispatchEvent(new Event('afterprint'))")


def check_small(page, check):
    for width, height in ((480, 800), (1000, 600), (2200, 1300)):
        page.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.settle()
        wide = page.js('document.documentElement.scrollWidth')
        check(wide <= width, f'in a window of {width} the page is {wide} wide')
        check(page.js('ladder.clientHeight') >= 120, f'in a window of {width}x{height} the diagram is {page.js("ladder.clientHeight")} high')
    page.call('Emulation.clearDeviceMetricsOverride')
    page.settle()


def check_connections(page, check):
    check(page.js("document.querySelectorAll('#sessions [data-session]').length") == 4, 'four connections')
    first = page.js(ROWS)
    page.click('#sessions [data-session]:nth-child(3)')
    check(page.js(ROWS) != first, 'another connection shows the same packets')
    check(page.js('[...sessions[state.session].packets].every(i => log.session[i] === state.session)'), 'packets of other connections')
    page.key('[')
    check(page.js("byId('sessions').children[1].classList.contains('chosen')"), '[ goes to the connection before')


def check_cm(page, check):
    """The messages that made a connection stand in its diagram, in order, and do so in no other."""
    cm = page.js("Array.from(sessions.find(s => s.kind === 'connection').packets).filter(i => data.mads[i]).map(nameOf)")
    check(cm[:3] == ['CM: ConnectRequest', 'CM: ConnectReply', 'CM: ReadyToUse'] and 'CM: DisconnectRequest' in cm, f'messages: {cm}')
    check(page.js("sessions.filter(s => s.kind === 'connection').length") == 1 and
          page.js("Array.from(sessions.find(s => s.kind === 'connection').packets).some(i => !data.mads[i])"), 'and the data with it')
    check(page.js(COLOURED % ('ladder-canvas', 'cm', 1)), 'the colour of messages')
    page.key('w')
    check('requests a connection to port' in page.js("byId('lesson').textContent"), 'and in words')


def check_missing(page, check):
    """What is missing has a row, and what fills the gap later is no repetition."""
    rows = page.js(ROWS)
    at = rows.index(10) - 1
    check(rows[at] == 'missing' and page.js('missingLabel(packetOf(10))') == 'PSN 4 is missing', f'rows: {rows[:14]}')
    check(page.js('label(packetOf(13))').endswith('(late)') and page.js('label(packetOf(14))').endswith('(again)'), 'late, again')
    check('[4]' in page.js("byId('findings').textContent"), 'the relative PSN in a finding')
    page.js("byId('search').value = 'missing'; find()")
    check(page.js('state.hits.map(i => log.number[i])') == page.js('[...sessions[0].packets].filter(i => log.missing[i]).map(i => log.number[i])') and
          page.js('state.hits.length') > 0, '"missing"')


def check_hostile(page, check, name):
    check(page.js("byId('file').textContent").endswith(name + '.pcap'), f'the name: {page.js("byId(`file`).textContent")}')
    check(page.js("document.querySelectorAll('#file *, img, body > script:not([type]) ~ script').length") == 0 and not page.js('window.bad'), 'markup in a name')


def check_long(page, check):
    """As many packets as the page takes: it comes soon, and a place far away as well. Times are printed; what is checked is that
    only the rows in view are drawn."""
    page.settle()
    check(page.js('state.rows.length') >= LONG, f'{page.js("state.rows.length")} rows')
    check(page.js("document.querySelectorAll('*').length") < 9000, 'an element for each packet')
    page.js("byId('search').blur(); ladder.focus()")
    page.key('End')
    page.settle()
    click_row(page, page.js('log.number[log.n - 1]'))
    check(page.js('state.chosen === log.n - 1'), 'the last packet cannot be chosen')
    times = page.js('''(async () => { const n = performance.getEntriesByType('navigation')[0], draws = [];
        const write = CanvasRenderingContext2D.prototype.fillText;
        let texts = 0;
        CanvasRenderingContext2D.prototype.fillText = function (...all) { texts++; return write.apply(this, all); };
        for (let k = 0; k < 60; k++) { ladder.scrollTop = ladder.scrollHeight * k / 60; const t = performance.now(); drawNow(); draws.push(performance.now() - t);
            await new Promise(requestAnimationFrame); }
        CanvasRenderingContext2D.prototype.fillText = write;
        draws.sort((a, b) => a - b);
        const paint = performance.getEntriesByType('paint').map(p => p.startTime)[0], t = performance.now();
        drawPlotsNow();
        return {paint, ready: n.domInteractive, draw: draws[30], texts: texts / 60, plots: performance.now() - t}; })()''')
    print(f'{LONG} packets: first paint after {times["paint"]:.0f} ms, ready after {times["ready"]:.0f} ms; '
          f'a scroll position is drawn in {times["draw"]:.1f} ms, all plots in {times["plots"]:.0f} ms')
    check(10 < times['texts'] < 500, f'{times["texts"]} texts are drawn for a scroll position')


def many(frames):
    """A long capture of one short one: its packets again and again, with PSNs that go on."""
    step = 1 + max(f.psn for f in frames) - min(f.psn for f in frames)
    length = 1000 + max(f.time_ns for f in frames) - min(f.time_ns for f in frames)
    out = []
    for i in range(1 + LONG // len(frames)):
        for f in frames:
            g = f.copy()
            g.psn, g.time_ns, g.ip_id = f.psn + step * i, f.time_ns + i * length, f.ip_id + 100 * i
            out.append(g)
    return out[:LONG]


def check_pages(rocemu, golden, samples, directory, page, check):
    def read(name):
        return capfile.read(os.path.join(golden, name + '.pcap'))
    frames = read('rc_rnr')
    mutations_rc.early(frames)
    path = make_page(rocemu, directory, frames)
    with open(path[7:], encoding='utf-8') as f:
        text = f.read()
    check(not re.search(r'(src|href)\s*=|https?://', text), 'it refers to something outside')
    check(not re.search(r'innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function', text), 'text may become markup')
    page.open(path)
    check_content(page, check, frames)
    for look in (check_packet, check_modes, check_keys, check_find, check_plots, check_theme, check_print, check_small):
        look(page, check)
    page.open('about:blank')
    page.open(path + '#packet=5&view=lesson&theme=dark')
    check(page.js(CHOSEN) == 5 and page.js('state.view') == 'lesson' and page.js('document.documentElement.dataset.theme') == 'dark',
          'the address does not lead there')
    asked, wrong = page.complaints()
    check(not asked and not wrong, f'the page asked for {asked}; errors: {wrong}')
    page.open(make_page(rocemu, directory, read('pingpong_srq')))
    check_connections(page, check)
    page.open(make_page(rocemu, directory, read('cm_rping')))
    check_cm(page, check)
    page.open(make_page(rocemu, directory, None, os.path.join(samples, 'rc_write_loss_ipv4.pcap')))
    check_missing(page, check)
    page.open(make_page(rocemu, directory, frames, options=('--packets', '5')))
    check(page.js('log.n') == 5 and 'the first 5 packets are shown, 13 are not' in page.js("byId('summary').textContent"), '--packets 5')
    hostile = '<img src=x onerror=bad=1><!--<script>&amp;"\'@DATA@'
    page.open(make_page(rocemu, directory, frames, hostile))
    check_hostile(page, check, hostile)
    check(not page.complaints()[1], f'errors: {page.complaints()[1]}')
    page.open(make_page(rocemu, directory, many(read('rc_many_sends'))))
    check_long(page, check)
    check(not page.complaints()[1], f'errors: {page.complaints()[1]}')


def main():
    if chromium.find() is None:
        print('skipped: chromium is not installed')
        return SKIP
    check = Check()
    with tempfile.TemporaryDirectory(prefix='rocemu-page-', ignore_cleanup_errors=True) as directory:
        with chromium.Page(directory) as page:
            check_pages(*sys.argv[1:4], directory, page, check)
    print('\n'.join(check.problems) or 'the page shows what it should, and does what is clicked')
    return 1 if check.problems else 0


if __name__ == '__main__':
    sys.exit(main())
