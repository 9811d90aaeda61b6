// SPDX-License-Identifier: BSD-2-Clause
// The capture as columns. Everything in it comes from the network: it becomes text, never markup.
const byId = id => document.getElementById(id);
const data = JSON.parse(byId('data').textContent);
const BACK = 1, DECODED = 2, CUT = 4, SE = 8, MIGREQ = 16, FECN = 32, BECN = 64, ACKREQ = 128, AGAIN = 256, LATE = 512, HINT = 1024, HIDES = 2048, V1 = 4096;

function make(parent, name, attributes, text) {
  const e = document.createElement(name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}

// One number stands for a column of the same; numbers and times are differences.
function column(name, type, running) {
  const from = data.log[name], to = new type(data.log.n);
  if (typeof from === 'number') return to.fill(from);
  if (!running) { to.set(from); return to; }
  for (let i = 0, sum = 0; i < to.length; i++) to[i] = sum += from[i];
  return to;
}

const log = {n: data.log.n, number: column('number', Float64Array, true), time: column('time', Float64Array, true)};
for (const name of ['session', 'dqpn', 'psn', 'len', 'wire', 'missing', 'icrc']) log[name] = column(name, Uint32Array);
for (const name of ['flags', 'pkey', 'sport', 'ip_id']) log[name] = column(name, Uint16Array);
for (const name of ['opcode', 'pad', 'tver', 'tclass', 'hop_limit']) log[name] = column(name, Uint8Array);
log.rel = column('rel', Int32Array);
log.extensions = Float64Array.from(data.log.extensions);
data.log = null;

// opcode: {name, kind, first, last, fields: [[name, 64 bits?]...], size: numbers in extensions}
const opcodes = new Map(Object.entries(data.opcodes).map(([code, [name, kind, first, last, fields]]) => {
  const list = fields ? fields.split(' ').map(f => [f.replace(':x', ''), f.endsWith(':x')]) : [];
  const at = {};
  let size = 0;
  for (const [field, wide] of list) { at[field] = size; size += wide ? 2 : 1; }
  return [Number(code), {name, kind, first: !!first, last: !!last, fields: list, size, at}];
}));

// Where each packet's extension headers begin.
log.at = new Uint32Array(log.n);
for (let i = 0, at = 0; i < log.n; i++) {
  log.at[i] = at;
  if (log.flags[i] & DECODED) at += opcodes.get(log.opcode[i]).size;
}

const decoded = i => (log.flags[i] & DECODED) !== 0;
const side = i => log.flags[i] & BACK;   // 0: A sent it, 1: B
const opcodeOf = i => opcodes.get(log.opcode[i]);
// A field of an extension header that is one number; undefined: it has none, or it was cut (-1).
function extension(i, field) {
  const at = decoded(i) ? opcodeOf(i).at[field] : undefined, value = log.extensions[log.at[i] + at];
  return at === undefined || value < 0 ? undefined : value;
}
const isNak = i => { const s = extension(i, 'aeth.syndrome'); return s !== undefined && (s & 0x60) !== 0; };
const isRequest = i => { const k = opcodeOf(i).kind; return k === 'request' || k === 'read'; };

// Packets of each session, in order.
const sessions = data.sessions;
for (const s of sessions) s.n = 0;
for (let i = 0; i < log.n; i++) sessions[log.session[i]].n++;
{
  let at = 0;
  const order = new Uint32Array(log.n);
  sessions.forEach((s, index) => { s.index = index; s.packets = order.subarray(at, at + s.n); at += s.n; s.n = 0; s.worst = 0; });
  for (let i = 0; i < log.n; i++) { const s = sessions[log.session[i]]; s.packets[s.n++] = i; }
}

// The packet with a number in the file, or -1; the first at or behind a value of a rising column.
function lower(array, value) {
  let low = 0, high = array.length;
  while (low < high) { const mid = (low + high) >> 1; if (array[mid] < value) low = mid + 1; else high = mid; }
  return low;
}
function packetOf(number) { const i = lower(log.number, number); return log.number[i] === number ? i : -1; }

const SEVERITY = {note: 1, warning: 2, error: 3};
const findingsAt = new Map();    // by packet
const byConnection = new Map(sessions.filter(s => s.connection).map(s => [s.connection, s]));
data.findings.forEach((f, index) => {
  f.index = index;
  f.at = f.packet === null ? -1 : packetOf(f.packet);
  const s = f.at >= 0 ? sessions[log.session[f.at]] : byConnection.get(f.connection);
  f.session = s ? s.index : -1;
  if (s) s.worst = Math.max(s.worst, SEVERITY[f.severity]);
  if (f.at < 0) return;
  if (!findingsAt.has(f.at)) findingsAt.set(f.at, []);
  findingsAt.get(f.at).push(f);
});

// ---- texts ----

const hex = n => '0x' + n.toString(16);
const bytes = n => n + (n === 1 ? ' byte' : ' bytes');
function span(ns) {
  const a = Math.abs(ns);
  return a < 1e3 ? ns + ' ns' : a < 1e6 ? (ns / 1e3).toFixed(1) + ' us' : a < 1e9 ? (ns / 1e6).toFixed(3) + ' ms' : (ns / 1e9).toFixed(6) + ' s';
}
const count = n => n < 1e4 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, '\u2009');    // 100 000

function nameOf(i) {
  const mad = data.mads[i];
  return mad ? mad[0] : isNak(i) ? data.naks[extension(i, 'aeth.syndrome')] : opcodeOf(i).name;
}

// Of a hint the PSN that it is about, though another one stands in the packet.
const shownPsn = i => state.relative ? log.rel[i] : log.flags[i] & HINT ? (log.psn[i] + (1 << 22)) & 0xffffff : log.psn[i];
function label(i) {
  const parts = [nameOf(i)], mad = data.mads[i], length = extension(i, 'reth.length'), msn = extension(i, 'aeth.msn');
  if (!mad) parts.push('PSN ' + shownPsn(i));
  if (length !== undefined && log.len[i] === 0) parts.push('for ' + bytes(length));
  else if (!mad && log.len[i] && !(log.flags[i] & HIDES)) parts.push(bytes(log.len[i]));
  if (msn !== undefined) parts.push('MSN ' + msn);
  const f = log.flags[i];
  return parts.join(', ') + (!decoded(i) ? f & CUT ? ' (cut)' : ' (invalid)' : f & HIDES ? ' (cut, perhaps several)' : f & AGAIN ? ' (again)' : f & LATE ? ' (late)' : f & HINT ? ' (hint: missing)' : '');
}
function missingLabel(i) {
  const n = log.missing[i], last = shownPsn(i) - 1, first = last - n + 1, wrap = x => state.relative ? x : x & 0xffffff;
  return 'PSN ' + wrap(first) + (n > 1 ? '-' + wrap(last) + ' are missing' : ' is missing');
}

// The checker's texts have PSNs as they were sent. The relative PSN is put behind.
function findingText(f) {
  const s = sessions[f.session];
  if (!s || !state.relative) return f.text;
  const bases = s.sides.map(x => x[2]).filter(x => x !== null);
  return f.text.replace(/(PSN |before )(\d+)/g, (all, before, number) => {
    const near = bases.map(b => (Number(number) - b) & 0xffffff).reduce((a, b) => Math.min(a, b), Infinity);
    return near < 1 << 22 ? all + ' [' + near + ']' : all;
  });
}

// All headers of a packet, as [name, text].
function fieldsOf(i) {
  const s = sessions[log.session[i]], from = side(i), f = log.flags[i], out = [];
  const add = (name, value) => out.push([name, String(value)]);
  const both = (name, value) => add(name, value + ' (' + hex(value) + ')');
  add('number', log.number[i]);
  add('time', (log.time[i] / 1e9).toFixed(9) + ' s');
  add('wire length', log.wire[i]);
  if (data.mads[i]) add('message', data.mads[i][1]);
  add('ip.src', s.sides[from][0]);
  add('ip.dst', s.sides[1 - from][0]);
  for (const name of ['ip_id', 'tclass', 'hop_limit']) add('ip.' + name.replace('ip_', ''), log[name][i]);
  if (f & V1) add('RoCE', 'version 1: a GRH, no UDP');
  else add('udp.sport', log.sport[i]);
  add('opcode', hex(log.opcode[i]) + ' ' + opcodeOf(i).name);
  for (const [name, bit] of [['se', SE], ['migreq', MIGREQ], ['fecn', FECN], ['becn', BECN], ['ackreq', ACKREQ]])
    add('bth.' + name, f & bit ? 1 : 0);
  add('bth.pad', log.pad[i]);
  add('bth.tver', log.tver[i]);
  add('bth.pkey', hex(log.pkey[i]));
  both('bth.dqpn', log.dqpn[i]);
  both('bth.psn', log.psn[i]);
  add('psn, relative', log.rel[i]);
  if (!decoded(i)) return out;
  let at = log.at[i];
  for (const [name, wide] of opcodeOf(i).fields) {
    if (log.extensions[at] < 0) add(name, 'not captured');
    else if (wide) add(name, '0x' + (BigInt(log.extensions[at]) << 32n | BigInt(log.extensions[at + 1])).toString(16));
    else both(name, log.extensions[at]);
    at += wide ? 2 : 1;
  }
  add('payload', bytes(log.len[i]) + (f & HIDES ? ', or several packets' : ''));
  if (f & CUT) add('captured', 'not all of it');
  else both('icrc', log.icrc[i]);
  return out;
}

function endName(s, n) {
  const [address, qpn] = s.sides[n];
  return address + (qpn === 0xffffff ? ' (multicast)' : qpn ? ' QP ' + hex(qpn) : '');
}
function sessionName(s) {
  return s.kind === 'cm' ? 'CM exchange' : s.kind === 'datagrams' ? 'UD' : s.kind === 'other' ? 'of no connection' : s.service;
}
