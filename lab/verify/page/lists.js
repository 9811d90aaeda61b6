// SPDX-License-Identifier: BSD-2-Clause
// Lists beside the diagram: connections, findings, the chosen packet's headers, the session in words.
const LIST_MAX = 400, LESSON_MAX = 1000;
const shown = {error: true, warning: true, note: false};

function drawSessions() {
  const box = byId('sessions'), wanted = byId('session-filter').value.trim().toLowerCase();
  const list = sessions.filter(s => s.n && (!wanted || (endName(s, 0) + ' ' + endName(s, 1)).toLowerCase().includes(wanted)));
  // Those with errors and warnings first, then connections; notes are everywhere.
  const rank = s => (s.worst > SEVERITY.note ? 10 * s.worst : 0) + (s.kind === 'connection' ? 1 : s.kind === 'other' ? -1 : 0);
  list.sort((a, b) => rank(b) - rank(a) || a.index - b.index);
  const drawn = list.slice(0, LIST_MAX), chosen = sessions[state.session];
  if (list.includes(chosen) && !drawn.includes(chosen)) drawn.unshift(chosen);
  box.replaceChildren();
  for (const s of drawn) {
    const e = make(box, 'button', {class: 'item' + (s.index === state.session ? ' chosen' : ''), 'data-session': s.index});
    const name = Object.keys(SEVERITY).find(k => SEVERITY[k] === s.worst);
    make(e, 'span', {class: 'id ' + (name || '')}, sessionName(s) + (s.connection ? ' ' + s.connection : '') + ' ');
    e.append(endName(s, 0) + ' \u2194 ' + endName(s, 1));
    make(e, 'small', {}, count(s.n) + (s.n === 1 ? ' packet' : ' packets') + (s.mtu ? ', path MTU ' + s.mtu : ''));
    e.addEventListener('click', () => chooseSession(s.index));
  }
  if (list.length > LIST_MAX) make(box, 'div', {class: 'more'}, count(list.length - LIST_MAX) + ' more: filter by address or QP');
}

function findingOrder() {
  return data.findings.filter(f => shown[f.severity])
    .sort((a, b) => SEVERITY[b.severity] - SEVERITY[a.severity] || (a.packet || Infinity) - (b.packet || Infinity));
}
function drawFindingList() {
  const box = byId('findings'), list = findingOrder();
  box.replaceChildren();
  for (const f of list.slice(0, LIST_MAX)) {
    const e = make(box, 'button', {class: 'item', 'data-finding': f.index, title: data.rules[f.id] ? data.rules[f.id].explanation : ''});
    make(e, 'span', {class: 'id ' + f.severity}, f.id);
    e.append(' ' + findingText(f));
    make(e, 'small', {}, (f.packet === null ? 'at the end' : 'packet ' + f.packet) + (f.connection ? ', connection ' + f.connection : '') +
      (f.clause ? ', ' + f.clause : ''));
    e.addEventListener('click', () => chooseFinding(f));
  }
  if (list.length > LIST_MAX) make(box, 'div', {class: 'more'}, count(list.length - LIST_MAX) + ' more');
  if (!list.length) make(box, 'div', {class: 'more'}, data.findings.length ? 'none of these kinds' : 'none');
  for (const b of byId('finding-filter').children) b.setAttribute('aria-pressed', shown[b.dataset.kind]);
}

function drawPacketFields() {
  const i = state.chosen, body = byId('fields'), found = byId('packet-findings');
  body.replaceChildren();
  found.replaceChildren();
  byId('packet-title').textContent = i < 0 ? 'Packet' : 'Packet ' + log.number[i] + ': ' + nameOf(i);
  if (i < 0) { make(found, 'p', {class: 'more'}, 'A click on a packet shows its headers.'); return; }
  for (const f of findingsAt.get(i) || []) {
    const p = make(found, 'p', {}), rule = data.rules[f.id] || {title: '', explanation: ''};
    make(p, 'span', {class: 'id ' + f.severity}, f.id + ': ');
    p.append(rule.title + ' (' + findingText(f) + '). ' + rule.explanation + (f.clause ? ' ' + f.clause + '.' : ''));
  }
  for (const [name, value] of fieldsOf(i)) {
    const tr = make(body, 'tr', {});
    make(tr, 'td', {}, name);
    make(tr, 'td', {}, value);
  }
}

function drawLesson() {
  const box = byId('lesson'), s = sessions[state.session], start = s.n ? log.time[s.packets[0]] : 0;
  box.replaceChildren();
  make(box, 'li', {class: 'who'}, 'A is ' + endName(s, 0) + ', B is ' + endName(s, 1) + '.');
  const steps = data.steps.filter(x => x[0] === s.index);
  for (const [, first, last, text] of steps.slice(0, LESSON_MAX)) {
    const i = packetOf(first), li = make(box, 'li', {'data-first': first, 'data-last': last});
    make(li, 'span', {class: 'when'}, span(log.time[i] - start));
    make(li, 'span', {class: side(i) ? 'from-b' : 'from-a'}, text);
    li.addEventListener('click', () => choosePacket(i, 'centre'));
  }
  if (data.steps_cut || steps.length > LESSON_MAX) make(box, 'li', {class: 'more'}, 'Later steps are in the diagram only.');
  markLesson();
}
function markLesson() {
  const n = state.chosen < 0 ? -1 : log.number[state.chosen];
  for (const li of byId('lesson').children) li.classList.toggle('chosen', Number(li.dataset.first) <= n && n <= Number(li.dataset.last));
}

function drawFigures() {
  const s = sessions[state.session], c = data.connections.find(x => x.connection === s.connection), body = byId('figure-rows');
  body.replaceChildren();
  byId('figures').hidden = !c;
  if (!c) return;
  for (const d of c.directions) {
    const tr = make(body, 'tr', {}), rtt = d.ack_rtt_ns;
    for (const text of [d.src + ' to ' + d.dst + ' QP ' + hex(d.dqpn), count(d.packets), bytes(d.goodput_bytes),
      (d.goodput_bps / 1e6).toFixed(3) + ' Mbit/s', (d.retransmission_share * 100).toFixed(2) + ' %',
      rtt ? span(rtt.p50) + ', ' + span(rtt.p99) : '', d.naks - d.rnr_naks, d.rnr_naks, d.ce, d.cnps]) make(tr, 'td', {}, text);
  }
}

// Canvases do not flow over pages: on paper the packets around the place of the diagram are a table.
const PRINT_ROWS = 300;
function drawPrint() {
  const box = byId('print'), first = Math.max(0, Math.floor(ladder.scrollTop / state.rowHeight)), table = document.createElement('table');
  box.replaceChildren();
  make(box, 'h2', {}, 'Findings');
  for (const f of findingOrder().slice(0, LIST_MAX)) make(box, 'div', {}, f.severity + ' ' + f.id + ', packet ' + f.packet + ': ' + findingText(f));
  const s = sessions[state.session];
  make(box, 'h2', {}, byId('title').textContent + '. A is ' + endName(s, 0) + ', B is ' + endName(s, 1) + '.');
  box.appendChild(table);
  for (let row = first; row < Math.min(state.rows.length, first + PRINT_ROWS); row++) {
    const r = state.rows[row], i = r < 0 ? ~r : r, tr = make(table, 'tr', {});
    for (const text of [r < 0 ? '' : log.number[i], r < 0 ? '' : timeText(row), side(i) ? 'A \u2190 B' : 'A \u2192 B',
      r < 0 ? missingLabel(i) : label(i), r < 0 ? '' : (findingsAt.get(i) || []).map(f => f.id).join(', ')]) make(tr, 'td', {}, text);
  }
}
