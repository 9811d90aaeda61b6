// SPDX-License-Identifier: BSD-2-Clause
// The ladder: a canvas as large as what is seen of it, drawn anew for each scroll position. A row is a packet, or
// (as ~packet) the PSNs that are missing before it.
const state = {session: 0, chosen: -1, rowHeight: 24, relative: true, time: 'difference', rows: new Int32Array(0),
  hits: [], hitSet: new Set(), query: '', only: false, view: 'diagram', x0: 0, x1: 1};
const ladder = byId('ladder'), canvas = byId('ladder-canvas');
const PAD = 8, MIN_ROW = 3, MAX_ROW = 60, TEXT_ROW = 15;
let colours = {}, drawDue = false;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['bg', 'panel', 'text', 'dim', 'line', 'chosen', 'hit', 'req', 'resp', 'nak', 'again', 'cm', 'gap', 'error', 'warning',
    'note', 'a', 'b']) colours[name] = style.getPropertyValue('--' + name).trim();
}
function colourOf(i) {
  if (!decoded(i) || log.flags[i] & AGAIN) return colours.again;
  if (data.mads[i]) return colours.cm;
  if (isNak(i)) return colours.nak;
  return isRequest(i) ? colours.req : colours.resp;
}

function makeRows() {
  const rows = [];
  for (const i of sessions[state.session].packets) {
    if (state.only && state.query && !state.hitSet.has(i)) continue;
    if (log.missing[i]) rows.push(~i);
    rows.push(i);
  }
  state.rows = Int32Array.from(rows);
  byId('ladder-space').style.height = rows.length * state.rowHeight + 2 * PAD + 'px';
  draw();
}

function rowOf(i) {
  let low = 0, high = state.rows.length;
  while (low < high) {
    const mid = (low + high) >> 1, r = state.rows[mid];
    if ((r < 0 ? ~r - 0.5 : r) < i) low = mid + 1; else high = mid;
  }
  return state.rows[low] === i ? low : -1;
}

// Columns, in pixels of the canvas.
function columns(width) {
  const wide = width > 640;
  return {number: wide ? 58 : 44, time: wide ? 158 : 120, a: wide ? 178 : 130, b: width - (wide ? 150 : 16), wide};
}

function fit(c) {
  const ratio = window.devicePixelRatio || 1, box = c.parentElement;
  const width = box.clientWidth, height = c === canvas ? box.clientHeight : c.clientHeight;
  if (c.width !== Math.round(width * ratio) || c.height !== Math.round(height * ratio)) {
    c.width = Math.round(width * ratio);
    c.height = Math.round(height * ratio);
    // It takes no height of the list's, and stays in view.
    if (c === canvas) { c.style.width = width + 'px'; c.style.height = height + 'px'; c.style.marginBottom = -height + 'px'; }
  }
  const g = c.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return {g, width, height};
}

function timeText(row) {
  const i = state.rows[row];
  if (state.time === 'since start') return span(log.time[i]);
  if (state.time === 'seconds') return (data.first_ns / 1e9 + log.time[i] / 1e9).toFixed(6);
  for (let r = row - 1; r >= 0; r--)
    if (state.rows[r] >= 0) { const d = log.time[i] - log.time[state.rows[r]]; return (d < 0 ? '' : '+') + span(d); }
  return '+0 ns';
}

function arrowHead(g, x, y, way) {
  g.beginPath();
  g.moveTo(x, y); g.lineTo(x - way * 8, y - 4); g.lineTo(x - way * 8, y + 4);
  g.fill();
}

// What a lost packet would have looked like: a line that ends on its way.
function drawMissing(g, i, y, col, text) {
  const from = side(i) ? col.b : col.a, middle = (col.a + col.b) / 2;
  g.strokeStyle = colours.gap;
  g.setLineDash([5, 4]);
  g.beginPath(); g.moveTo(from, y); g.lineTo(middle, y + 3); g.stroke();
  g.setLineDash([]);
  g.strokeStyle = g.fillStyle = colours.again;
  g.beginPath();
  g.moveTo(middle - 4, y - 1); g.lineTo(middle + 4, y + 7); g.moveTo(middle - 4, y + 7); g.lineTo(middle + 4, y - 1);
  g.stroke();
  if (text) g.fillText(missingLabel(i), middle, y - 3);
}

function drawPacket(g, i, y, col, text) {
  const back = side(i), from = back ? col.b : col.a, to = back ? col.a : col.b, slant = Math.min(7, state.rowHeight * 0.3);
  g.strokeStyle = g.fillStyle = colourOf(i);
  g.lineWidth = i === state.chosen ? 2.5 : 1.4;
  g.beginPath(); g.moveTo(from, y); g.lineTo(to, y + slant); g.stroke();
  if (state.rowHeight >= 8) arrowHead(g, to, y + slant, back ? -1 : 1);
  g.lineWidth = 1.4;
  if (text) g.fillText(label(i), (col.a + col.b) / 2, y - 3, col.b - col.a - 12);
}

function drawFindings(g, i, y, col, width) {
  const found = findingsAt.get(i);
  if (!found) return;
  const worst = found.reduce((a, b) => SEVERITY[b.severity] > SEVERITY[a.severity] ? b : a);
  g.fillStyle = colours[worst.severity];
  g.beginPath(); g.arc(col.wide ? 8 : 5, y, Math.min(4, state.rowHeight / 2), 0, 7); g.fill();
  if (!col.wide || state.rowHeight < TEXT_ROW) return;
  g.textAlign = 'left';
  g.fillText(worst.id + (found.length > 1 ? ' +' + (found.length - 1) : ''), col.b + 8, y + 5, width - col.b - 12);
}

function drawRow(g, row, y, col, width) {
  const r = state.rows[row], i = r < 0 ? ~r : r, text = state.rowHeight >= TEXT_ROW;
  const top = y - state.rowHeight * 0.62;
  if (r >= 0 && (i === state.chosen || state.hitSet.has(i))) {
    g.fillStyle = i === state.chosen ? colours.chosen : colours.hit;
    g.fillRect(0, top, width, state.rowHeight);
  }
  g.font = '12px system-ui, sans-serif';
  g.textAlign = 'center';
  if (r < 0) { drawMissing(g, i, y, col, text); return; }
  drawPacket(g, i, y, col, text);
  drawFindings(g, i, y, col, width);
  if (!text) return;
  g.font = '11px ui-monospace, monospace';
  g.textAlign = 'right';
  g.fillStyle = colours.dim;
  g.fillText(log.number[i], col.number, y + 4);
  g.fillText(timeText(row), col.time, y + 4, col.time - col.number - 6);
}

const rowY = row => PAD + (row + 0.62) * state.rowHeight - ladder.scrollTop;

function drawNow() {
  drawDue = false;
  if (state.view !== 'diagram') return;
  const {g, width, height} = fit(canvas), col = columns(width);
  const first = Math.max(0, Math.floor((ladder.scrollTop - PAD) / state.rowHeight) - 1);
  const last = Math.min(state.rows.length - 1, Math.ceil((ladder.scrollTop + height) / state.rowHeight));
  // Backgrounds of rows must not cover the lines of life: those come last, but thin.
  for (let row = first; row <= last; row++) drawRow(g, row, rowY(row), col, width);
  g.strokeStyle = colours.gap;
  g.lineWidth = 1;
  for (const x of [col.a, col.b]) { g.beginPath(); g.moveTo(x + 0.5, 0); g.lineTo(x + 0.5, height); g.stroke(); }
  byId('end-a').style.left = col.a + 'px';
  byId('end-b').style.left = Math.min(col.b, width - 70) + 'px';
  showWindow(first, last);
  showChosen();
}
function draw() {
  if (!drawDue) requestAnimationFrame(drawNow);
  drawDue = true;
}

// The row at a place of the canvas; the packet there is the row's own, or the one behind what is missing.
function packetAt(y) {
  const row = Math.round((y + ladder.scrollTop - PAD) / state.rowHeight - 0.5), r = state.rows[row];
  return r === undefined ? -1 : r < 0 ? ~r : r;
}

function showRow(row, how) {
  const y = PAD + row * state.rowHeight, height = ladder.clientHeight;
  if (how === 'near' && y >= ladder.scrollTop + state.rowHeight && y <= ladder.scrollTop + height - 2 * state.rowHeight) return;
  ladder.scrollTop = Math.max(0, y - height / 3);
}

function zoomRows(factor) {
  const middle = (ladder.scrollTop + ladder.clientHeight / 2 - PAD) / state.rowHeight;
  state.rowHeight = Math.min(MAX_ROW, Math.max(MIN_ROW, Math.round(state.rowHeight * factor)));
  makeRows();
  ladder.scrollTop = middle * state.rowHeight + PAD - ladder.clientHeight / 2;
  draw();
}
