// SPDX-License-Identifier: BSD-2-Clause
// Four plots over one time axis: what is zoomed or moved in one is so in all.
const PLOT_LEFT = 84, PLOT_RIGHT = 16;
let series = null, whole = {x0: 0, x1: 1}, plotsDue = false;

let plotPixels = 1;    // set before each drawing: reading it from the document for each point is slow
const plotWidth = () => plotPixels;
const plotX = t => PLOT_LEFT + (t - state.x0) / (state.x1 - state.x0) * plotWidth();
const plotTime = x => state.x0 + (x - PLOT_LEFT) / plotWidth() * (state.x1 - state.x0);

// Round numbers that divide a range into about n parts.
function ticks(low, high, n, least) {
  const rough = Math.max(least || 0, (high - low) / n), power = Math.pow(10, Math.floor(Math.log10(rough))), f = rough / power;
  const step = power * (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10), out = [];
  for (let k = Math.ceil(low / step); k * step <= high && out.length < 50; k++) out.push(k * step);
  return out;
}
// A scale for values up to most: [unit, divisor].
function unit(most, units) {
  let best = units[0];
  for (const u of units) if (most >= u[1]) best = u;
  return best;
}
const TIME = [['ns', 1], ['us', 1e3], ['ms', 1e6], ['s', 1e9]];
const BITS = [['bit/s', 1], ['kbit/s', 1e3], ['Mbit/s', 1e6], ['Gbit/s', 1e9]];
const BYTES = [['bytes', 1], ['KiB', 1024], ['MiB', 1 << 20], ['GiB', 1 << 30]];
const NUMBER = [['', 1]];

function tickText(value, divisor) {
  const v = value / divisor;
  return Math.abs(v) >= 1e6 ? v.toExponential(1) : String(Number(v.toPrecision(10)));
}

// Axes of a plot. Returns what places a value; the x axis has its numbers under the last plot only.
function axes(p, title, units, low, high, last, log10) {
  const {g, width, height} = p, bottom = height - (last ? 34 : 8), top = 16, scale = log10 ? Math.log10 : v => v;
  if (!(high > low)) high = low + 1;
  high += log10 ? 0.4 * high : 0.06 * (high - low);    // room above the highest
  const [name, divisor] = unit(Math.max(Math.abs(low), Math.abs(high)), units);
  const y = value => bottom - (scale(value) - scale(low)) / (scale(high) - scale(low)) * (bottom - top);
  const parts = Math.max(1, (bottom - top) / 20);
  const lines = log10 ? ticks(Math.log10(low), Math.log10(high), parts, 1).filter(Number.isInteger).map(v => Math.pow(10, v) / divisor)
    : ticks(low / divisor, high / divisor, parts, units === NUMBER ? 1 : 0);
  g.lineWidth = 1;
  g.font = '11px system-ui, sans-serif';
  g.strokeStyle = colours.line;
  g.fillStyle = colours.dim;
  g.textAlign = 'right';
  for (const value of lines) {
    const at = Math.round(y(value * divisor)) + 0.5;
    g.beginPath(); g.moveTo(PLOT_LEFT, at); g.lineTo(width - PLOT_RIGHT, at); g.stroke();
    g.fillText(tickText(value, 1), PLOT_LEFT - 6, at + 4, PLOT_LEFT - 8);
  }
  g.textAlign = 'center';
  const [timeName, timeDivisor] = unit(state.x1 - state.x0, TIME);
  for (const value of ticks(state.x0 / timeDivisor, state.x1 / timeDivisor, Math.max(2, width / 130))) {
    const at = Math.round(plotX(value * timeDivisor)) + 0.5;
    g.beginPath(); g.moveTo(at, top); g.lineTo(at, bottom); g.stroke();
    if (last) g.fillText(tickText(value, 1), at, bottom + 14);
  }
  g.strokeStyle = colours.gap;
  g.strokeRect(PLOT_LEFT + 0.5, top + 0.5, width - PLOT_LEFT - PLOT_RIGHT, bottom - top);
  if (last) g.fillText('time since the first packet of the capture (' + timeName + ')', PLOT_LEFT + plotWidth() / 2, bottom + 28);
  g.textAlign = 'left';
  g.fillStyle = colours.text;
  g.fillText(title + (name ? ' (' + name + ')' : ''), PLOT_LEFT + 4, 11);
  p.y = y;
  p.bottom = bottom;
  g.save();
  g.beginPath(); g.rect(PLOT_LEFT, top - 3, plotWidth(), bottom - top + 6); g.clip();
}

function seen(line) {
  return [lower(line.x, state.x0), lower(line.x, state.x1 + 1)];
}
function extent(lines) {
  let low = Infinity, high = -Infinity;
  for (const line of lines) {
    const [from, to] = seen(line);
    for (let k = from; k < to; k++) { const v = line.y[k]; if (v < low) low = v; if (v > high) high = v; }
  }
  return high >= low ? [low, high] : [0, 1];
}

function drawPsn() {
  const p = fit(byId('plot-psn')), line = series.psn, [low, high] = extent([line]), [from, to] = seen(line), marks = [];
  axes(p, 'PSN, relative', NUMBER, low, high, false);
  let lastX = -1, lastY = -1, lastColour = '';
  for (let k = from; k < to; k++) {
    const i = line.i[k], x = Math.round(plotX(line.x[k])), y = Math.round(p.y(line.y[k]));
    if (isNak(i) || log.flags[i] & HINT) { marks.push([x, y]); continue; }
    const again = (log.flags[i] & AGAIN) !== 0, colour = again ? colours.again : isRequest(i) ? (side(i) ? colours.b : colours.a) : colours.resp;
    if (x === lastX && y === lastY && colour === lastColour) continue;    // the same dot
    lastX = x; lastY = y;
    if (colour !== lastColour) p.g.fillStyle = lastColour = colour;
    p.g.fillRect(x - 1, y - 1, again ? 5 : 3, again ? 5 : 3);
  }
  p.g.strokeStyle = colours.nak;
  p.g.lineWidth = 2;
  p.g.beginPath();
  for (const [x, y] of marks) { p.g.moveTo(x - 4, y - 4); p.g.lineTo(x + 4, y + 4); p.g.moveTo(x - 4, y + 4); p.g.lineTo(x + 4, y - 4); }
  p.g.stroke();
  p.g.restore();
}

function drawRate(last) {
  const bins = Math.max(10, Math.floor(plotWidth() / 5)), rates = series.rate.map(line => binned(line, state.x0, state.x1, bins));
  const p = fit(byId('plot-rate'));
  axes(p, 'Goodput', BITS, 0, Math.max(1, ...rates.map(r => r.reduce((a, b) => Math.max(a, b), 0))), last);
  rates.forEach((sums, d) => {
    if (!series.rate[d].x.length) return;
    p.g.strokeStyle = d ? colours.b : colours.a;
    p.g.lineWidth = 1.4;
    p.g.beginPath();
    for (let k = 0; k < bins; k++)
      for (const at of [k, k + 1]) p.g.lineTo(PLOT_LEFT + at / bins * plotWidth(), p.y(sums[k]));
    p.g.stroke();
  });
  p.g.restore();
}

// A line of steps. Of many in one column of pixels, from the lowest to the highest.
function drawSteps(p, line, d) {
  const [from, to] = seen(line), g = p.g, end = Math.min(PLOT_LEFT + plotWidth(), plotX(whole.x1));
  let value = from > 0 ? line.y[from - 1] : 0, column = -1, low = 0, high = 0;
  const flush = () => { if (column >= 0 && high > low) { g.moveTo(column, p.y(low)); g.lineTo(column, p.y(high)); } };
  let x0 = PLOT_LEFT;
  g.strokeStyle = d ? colours.b : colours.a;
  g.lineWidth = 1.4;
  g.beginPath();
  for (let k = from; k < to; k++) {
    const x = Math.round(plotX(line.x[k])), v = line.y[k];
    if (x !== column) {
      flush();
      g.moveTo(x0, p.y(value)); g.lineTo(x, p.y(value));
      column = x0 = x;
      low = high = value;
    }
    low = Math.min(low, v);
    high = Math.max(high, v);
    value = v;
  }
  flush();
  if (line.x.length) { g.moveTo(x0, p.y(value)); g.lineTo(end, p.y(value)); }
  g.stroke();
}

function drawOutstanding() {
  const p = fit(byId('plot-outstanding'));
  axes(p, 'Sent and not acknowledged', BYTES, 0, Math.max(1, extent(series.outstanding)[1]), false);
  series.outstanding.forEach((line, d) => drawSteps(p, line, d));
  p.g.restore();
}

function drawRtt() {
  const p = fit(byId('plot-rtt')), [low, high] = extent(series.rtt);
  // Timeouts are thousands of round trips: then the axis is logarithmic.
  if (low > 0 && high > 50 * low) axes(p, 'Round trip, request to answer, logarithmic', TIME, low / 2, high, true, true);
  else axes(p, 'Round trip, request to answer', TIME, 0, Math.max(1, high), true);
  series.rtt.forEach((line, d) => {
    const [from, to] = seen(line);
    let lastX = -1, lastY = -1;
    p.g.fillStyle = d ? colours.b : colours.a;
    for (let k = from; k < to; k++) {
      const x = Math.round(plotX(line.x[k])), y = Math.round(p.y(line.y[k]));
      if (x !== lastX || y !== lastY) p.g.fillRect(x - 1, y - 1, 3, 3);
      lastX = x; lastY = y;
    }
  });
  p.g.restore();
}

function drawPlotsNow() {
  plotsDue = false;
  if (byId('plots').classList.contains('folded')) return;
  if (!series) series = seriesOf(sessions[state.session]);
  byId('plot-area').hidden = !series.psn.x.length;    // CM messages alone
  if (!series.psn.x.length) return;
  const reliable = series.outstanding.some(line => line.x.length);
  byId('plot-outstanding').hidden = byId('plot-rtt').hidden = !reliable;    // datagrams have no answers
  plotPixels = Math.max(1, byId('plot-area').clientWidth - PLOT_LEFT - PLOT_RIGHT);
  drawPsn();
  drawRate(!reliable);
  if (reliable) { drawOutstanding(); drawRtt(); }
  draw();    // and the part of the time that the diagram shows
}
function drawPlots() {
  if (!plotsDue) requestAnimationFrame(drawPlotsNow);
  plotsDue = true;
}

function plotsOf(s) {
  series = null;
  const times = Array.from(s.packets, i => log.time[i]);
  const [low, high] = times.reduce(([a, b], t) => [Math.min(a, t), Math.max(b, t)], [Infinity, -Infinity]);
  const room = Math.max(1000, (high - low) * 0.01);
  whole = {x0: low - room, x1: high + room};
  showAll();
}
function showAll() { state.x0 = whole.x0; state.x1 = whole.x1; drawPlots(); }
function zoomTime(factor, at) {
  if (at === undefined) at = (state.x0 + state.x1) / 2;
  const x0 = at - (at - state.x0) * factor, x1 = at + (state.x1 - at) * factor;
  if (x1 - x0 < 20) return;
  state.x0 = Math.max(whole.x0, x0);
  state.x1 = Math.min(whole.x1, x1);
  drawPlots();
}
function moveTime(by) {
  by = Math.min(whole.x1 - state.x1, Math.max(whole.x0 - state.x0, by));
  state.x0 += by; state.x1 += by;
  drawPlots();
}

function showChosen() {
  const x = state.chosen < 0 ? -1 : plotX(log.time[state.chosen]), line = byId('plot-chosen');
  line.style.display = x >= PLOT_LEFT && x <= PLOT_LEFT + plotWidth() ? 'block' : 'none';
  line.style.left = x + 'px';
}

// The part of the time that the diagram shows.
function showWindow(first, last) {
  const i = state.rows[first], k = state.rows[Math.max(first, last)], area = byId('plot-window');
  if (i === undefined || k === undefined) { area.style.width = '0'; return; }
  const clamp = x => Math.min(PLOT_LEFT + plotWidth(), Math.max(PLOT_LEFT, x));
  const x0 = clamp(plotX(log.time[i < 0 ? ~i : i])), x1 = clamp(plotX(log.time[k < 0 ? ~k : k]));
  area.style.left = x0 + 'px';
  area.style.width = Math.max(2, x1 - x0) + 'px';
}

function plotMouse() {
  const area = byId('plot-area'), place = e => e.clientX - area.getBoundingClientRect().left;
  let from = null, moved = 0;
  area.addEventListener('wheel', e => { e.preventDefault(); zoomTime(e.deltaY > 0 ? 1.25 : 0.8, plotTime(place(e))); }, {passive: false});
  area.addEventListener('pointerdown', e => { from = e.clientX; moved = 0; area.setPointerCapture(e.pointerId); });
  area.addEventListener('pointermove', e => {
    const x = place(e), line = byId('plot-line');
    line.style.display = x >= PLOT_LEFT ? 'block' : 'none';
    line.style.left = x + 'px';
    byId('plot-cursor').textContent = x >= PLOT_LEFT ? span(Math.round(plotTime(x))) : '';
    if (from === null) return;
    moved += Math.abs(e.clientX - from);
    moveTime((from - e.clientX) / plotWidth() * (state.x1 - state.x0));
    from = e.clientX;
  });
  area.addEventListener('pointerup', e => {
    if (from !== null && moved < 4 && e.detail < 2) choosePacket(nearest(plotTime(place(e))), 'centre');
    from = null;
  });
  area.addEventListener('pointerleave', () => { byId('plot-line').style.display = 'none'; byId('plot-cursor').textContent = ''; });
  area.addEventListener('dblclick', showAll);
}
function nearest(t) {
  let best = -1, away = Infinity;
  for (const i of sessions[state.session].packets) { const d = Math.abs(log.time[i] - t); if (d < away) { away = d; best = i; } }
  return best;
}
