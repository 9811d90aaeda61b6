// SPDX-License-Identifier: BSD-2-Clause
// What is chosen, found and typed.
function chooseSession(n, packet) {
  const s = sessions[n];
  if (!s) return;
  state.session = n;
  state.chosen = -1;
  byId('end-a').textContent = 'A\n' + endName(s, 0);
  byId('end-b').textContent = 'B\n' + endName(s, 1);
  byId('title').textContent = sessionName(s) + (s.connection ? ', connection ' + s.connection : '') + (s.mtu ? ', path MTU ' + s.mtu : '') +
    ', ' + count(s.n) + ' packets' + (state.relative ? firstPsns(s) : '');
  byId('title').title = byId('title').textContent;
  const listed = [...byId('sessions').children];
  for (const e of listed) e.classList.toggle('chosen', e.dataset.session === String(n));
  if (!listed.some(e => e.dataset.session === String(n))) drawSessions();
  ladder.scrollTop = 0;
  find();
  drawLesson();
  drawFigures();
  plotsOf(s);
  choosePacket(packet === undefined ? -1 : packet, 'centre');
}
function firstPsns(s) {
  return ['A', 'B'].map((name, n) => s.sides[n][2] === null ? '' : ', PSN 0 of ' + name + ' is ' + s.sides[n][2]).join('');
}

function choosePacket(i, how) {
  if (i >= 0 && log.session[i] !== state.session) { chooseSession(log.session[i], i); return; }
  state.chosen = i;
  if (i >= 0) {
    const row = rowOf(i);
    if (row >= 0) showRow(row, how);
  }
  drawPacketFields();
  markLesson();
  showChosen();
  draw();
  ladder.setAttribute('aria-label', 'Diagram of ' + byId('title').textContent + (i < 0 ? '' : '. Packet ' + log.number[i] + ': ' + label(i)));
  saveHash();
}
function choosePacketNumber(number) {
  const i = packetOf(number);
  if (i >= 0) choosePacket(i, 'centre');
  return i >= 0;
}
function chooseFinding(f) {
  for (const e of byId('findings').children) e.classList.toggle('chosen', e.dataset.finding === String(f.index));
  if (f.at >= 0) choosePacket(f.at, 'centre');
  else if (f.session >= 0) chooseSession(f.session);
}

// ---- finding packets ----

// A word of a query as a predicate of packets.
function wordTest(word) {
  let m = /^psn:(-?\d+)(?:-(\d+))?$/.exec(word);
  if (m) {
    const low = Number(m[1]), high = m[2] === undefined ? low : Number(m[2]);
    return i => !data.mads[i] && shownPsn(i) >= low && shownPsn(i) <= high;
  }
  m = /^from:([ab])$/.exec(word);
  if (m) return i => side(i) === (m[1] === 'b' ? 1 : 0);
  m = /^#(\d+)$/.exec(word);
  if (m) return i => log.number[i] === Number(m[1]);
  if (word === 'missing') return i => log.missing[i] > 0;
  return i => label(i).toLowerCase().includes(word) || (data.mads[i] && data.mads[i][1].toLowerCase().includes(word)) ||
    (findingsAt.get(i) || []).some(f => f.id.includes(word));
}
function find() {
  const words = byId('search').value.trim().toLowerCase().split(/\s+/).filter(w => w), tests = words.map(wordTest);
  state.query = words.join(' ');
  state.only = byId('only').checked;
  state.hits = words.length ? Array.from(sessions[state.session].packets).filter(i => tests.every(t => t(i))) : [];
  state.hitSet = new Set(state.hits);
  byId('hits').textContent = words.length ? state.hits.length + ' found' : '';
  makeRows();
}
function goHit(way) {
  const list = state.query ? state.hits : [...findingsAt.keys()].filter(i => log.session[i] === state.session).sort((a, b) => a - b);
  if (!list.length) return;
  const at = way > 0 ? list.find(i => i > state.chosen) : list.findLast(i => i < state.chosen);
  choosePacket(at === undefined ? (way > 0 ? list[0] : list[list.length - 1]) : at, 'centre');
}
function step(way) {
  const packets = state.rows.filter(r => r >= 0), at = lower(packets, state.chosen);
  const next = state.chosen < 0 ? 0 : Math.min(packets.length - 1, Math.max(0, at + way));
  if (packets.length) choosePacket(packets[next], 'near');
}

// ---- modes ----

const TIMES = ['difference', 'since start', 'seconds'], THEMES = ['system', 'light', 'dark'];
function after(list, value) { return list[(list.indexOf(value) + 1) % list.length]; }
function showModes() {
  byId('psn-mode').textContent = 'PSN: ' + (state.relative ? 'relative' : 'absolute');
  byId('time-mode').textContent = 'time: ' + state.time;
  byId('theme').textContent = 'colours: ' + (document.documentElement.dataset.theme || 'system');
}
function setRelative(on) {
  const chosen = state.chosen, top = ladder.scrollTop;
  state.relative = on;
  drawFindingList();
  chooseSession(state.session);
  ladder.scrollTop = top;
  choosePacket(chosen, 'near');
  showModes();
}
function setTheme(name) {
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  restyle();
  showModes();
  saveHash();
}
function restyle() { readColours(); draw(); drawPlots(); legend(); }
function setView(name) {
  state.view = name;
  byId('ladder').hidden = byId('ends').hidden = name !== 'diagram';
  byId('lesson').hidden = name === 'diagram';
  byId('tab-diagram').setAttribute('aria-selected', name === 'diagram');
  byId('tab-lesson').setAttribute('aria-selected', name !== 'diagram');
  draw();
  saveHash();
}
function foldPlots() {
  byId('plots').classList.toggle('folded');
  drawPlots();
}
function legend() {
  const box = byId('legend');
  box.replaceChildren();
  for (const [name, colour] of [['A to B', 'a'], ['B to A', 'b'], ['answers', 'resp'], ['sent again', 'again'], ['NAK', 'nak']]) {
    make(box, 'b', {style: 'color: var(--' + colour + ')'}, (name === 'NAK' ? '\u00d7 ' : '\u25a0 ') + name);
    box.append('  ');
  }
}

// ---- the address: what was chosen can be sent to somebody ----

function saveHash() {
  const parts = [];
  if (state.chosen >= 0) parts.push('packet=' + log.number[state.chosen]);
  if (state.view !== 'diagram') parts.push('view=' + state.view);
  if (document.documentElement.dataset.theme) parts.push('theme=' + document.documentElement.dataset.theme);
  try { history.replaceState(null, '', '#' + parts.join('&')); } catch (e) { /* not where the page is in a frame */ }
}
function readHash() {
  const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (wanted.theme && THEMES.includes(wanted.theme)) setTheme(wanted.theme);
  if (wanted.view === 'lesson') setView('lesson');
  return wanted.packet !== undefined && choosePacketNumber(Number(wanted.packet));
}

// ---- keys ----

const KEYS = [
  [['j', 'ArrowDown'], 'next packet', () => step(1)],
  [['k', 'ArrowUp'], 'packet before', () => step(-1)],
  [['PageDown', ' '], 'a page on', () => { ladder.scrollTop += ladder.clientHeight * 0.9; }],
  [['PageUp'], 'a page back', () => { ladder.scrollTop -= ladder.clientHeight * 0.9; }],
  [['Home'], 'first packet', () => { ladder.scrollTop = 0; }],
  [['End'], 'last packet', () => { ladder.scrollTop = ladder.scrollHeight; }],
  [['n'], 'next packet found, or next finding', () => goHit(1)],
  [['N'], 'the one before', () => goHit(-1)],
  [['/'], 'find packets', () => byId('search').select()],
  [['o'], 'draw only the packets found', () => { byId('only').checked = !byId('only').checked; find(); }],
  [[']'], 'next connection', () => otherSession(1)],
  [['['], 'connection before', () => otherSession(-1)],
  [['+', '='], 'rows wider', () => zoomRows(1.3)],
  [['-'], 'rows closer', () => zoomRows(1 / 1.3)],
  [['.'], 'plots: zoom in', () => zoomTime(0.7)],
  [[','], 'plots: zoom out', () => zoomTime(1.4)],
  [['ArrowRight'], 'plots: later', () => moveTime((state.x1 - state.x0) / 8)],
  [['ArrowLeft'], 'plots: earlier', () => moveTime((state.x0 - state.x1) / 8)],
  [['0'], 'plots: all of the time', () => showAll()],
  [['p'], 'hide or show the plots', () => foldPlots()],
  [['w'], 'diagram, or in words', () => setView(state.view === 'diagram' ? 'lesson' : 'diagram')],
  [['a'], 'PSNs relative or absolute', () => setRelative(!state.relative)],
  [['t'], 'times: difference, since the start, seconds', () => { state.time = after(TIMES, state.time); showModes(); draw(); }],
  [['d'], 'colours: system, light, dark', () => setTheme(after(THEMES, document.documentElement.dataset.theme || 'system'))],
  [['?'], 'this list', () => byId('help').showModal()],
];
function otherSession(way) {
  const list = [...byId('sessions').querySelectorAll('[data-session]')].map(e => Number(e.dataset.session));
  const at = list.indexOf(state.session) + way;
  if (list[at] !== undefined) chooseSession(list[at]);
}
function onKey(e) {
  if (e.ctrlKey || e.altKey || e.metaKey || byId('help').open) return;
  if (e.target instanceof HTMLInputElement && e.target.type === 'search') {
    if (e.key === 'Escape') { e.target.blur(); ladder.focus(); }
    if (e.key === 'Enter' && e.target.id === 'search') goHit(e.shiftKey ? -1 : 1);
    return;
  }
  if (e.key === ' ' && e.target instanceof HTMLButtonElement) return;
  const found = KEYS.find(([keys]) => keys.includes(e.key));
  if (!found) return;
  e.preventDefault();
  found[2]();
}

// ---- start ----

function connect() {
  const click = (id, run) => byId(id).addEventListener('click', run);
  click('psn-mode', () => setRelative(!state.relative));
  click('time-mode', () => { state.time = after(TIMES, state.time); showModes(); draw(); });
  click('theme', () => setTheme(after(THEMES, document.documentElement.dataset.theme || 'system')));
  click('ask', () => byId('help').showModal());
  click('tab-diagram', () => setView('diagram'));
  click('tab-lesson', () => setView('lesson'));
  click('row-in', () => zoomRows(1.3));
  click('row-out', () => zoomRows(1 / 1.3));
  click('plot-in', () => zoomTime(0.7));
  click('plot-out', () => zoomTime(1.4));
  click('plot-all', showAll);
  click('plot-fold', foldPlots);
  click('hit-next', () => goHit(1));
  click('hit-back', () => goHit(-1));
  byId('search').addEventListener('input', find);
  byId('only').addEventListener('change', find);
  byId('session-filter').addEventListener('input', drawSessions);
  ladder.addEventListener('scroll', draw, {passive: true});
  canvas.addEventListener('click', e => { const i = packetAt(e.offsetY); if (i >= 0) choosePacket(i, 'near'); });
  canvas.addEventListener('mousemove', e => {
    const i = state.rowHeight < TEXT_ROW ? packetAt(e.offsetY) : -1;    // rows too close for their labels
    ladder.title = i < 0 ? '' : log.number[i] + ': ' + label(i);
  });
  document.addEventListener('keydown', onKey);
  new ResizeObserver(draw).observe(ladder);
  new ResizeObserver(drawPlots).observe(byId('plots'));
  window.addEventListener('hashchange', readHash);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', restyle);
  let before;
  window.addEventListener('beforeprint', () => { before = document.documentElement.dataset.theme; setTheme('light'); drawPlotsNow(); drawPrint(); });
  window.addEventListener('afterprint', () => setTheme(before || 'system'));
  plotMouse();
}
function head() {
  byId('file').textContent = data.file;
  document.title = data.file + ' - rocemu verify';
  for (const [kind, n] of [['error', data.errors], ['warning', data.warnings], ['note', data.notes]]) {
    make(byId('counts'), 'span', {class: 'badge ' + (n ? kind : '')}, count(n) + ' ' + kind + (n === 1 ? '' : 's'));
    const b = make(byId('finding-filter'), 'button', {'data-kind': kind, 'aria-pressed': 'false'}, kind + 's');
    b.addEventListener('click', () => { shown[kind] = !shown[kind]; drawFindingList(); });
  }
  const n = sessions.length, icrc = data.icrc;
  byId('summary').textContent = count(data.packets) + ' packets, ' + count(n) + (n === 1 ? ' connection' : ' connections') + '; ICRC: ' +
    (icrc.wrong ? count(icrc.wrong) + ' wrong' : icrc.checked ? 'right' : 'not checked') +
    (icrc.unchecked ? ', ' + count(icrc.unchecked) + ' not checked (cut)' : '') +
    (data.left_out ? '; the first ' + count(log.n) + ' packets are shown, ' + count(data.left_out) + ' are not' : '');
  byId('summary').title = byId('summary').textContent;
  for (const [keys, what] of KEYS) {
    const tr = make(byId('keys'), 'tr', {}), td = make(tr, 'td', {});
    keys.forEach((key, n) => { if (n) td.append(' '); make(td, 'kbd', {}, key === ' ' ? 'Space' : key); });
    make(tr, 'td', {}, what);
  }
  byId('session-filter').hidden = sessions.length < 20;
}
function start() {
  const hash = location.hash;    // what follows writes another
  readColours();
  head();
  connect();
  legend();
  showModes();
  shown.note = !data.errors && !data.warnings;
  drawSessions();
  drawFindingList();
  setView('diagram');
  // It opens on the worst finding, or else on the largest connection.
  const worst = findingOrder().find(f => f.at >= 0 && f.severity !== 'note');
  const largest = sessions.reduce((a, b) => b.n > a.n || a.kind === 'other' ? b : a, sessions[0]);
  if (sessions.length) chooseSession(worst ? worst.session : largest.index);
  if (hash) history.replaceState(null, '', hash);
  if (!readHash() && worst) chooseFinding(worst);
  document.body.dataset.ready = 'yes';
}
start();
