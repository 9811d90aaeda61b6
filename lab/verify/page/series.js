// SPDX-License-Identifier: BSD-2-Clause
// What the plots show of a session, computed from its packets: PSNs, new bytes, bytes on their way, round trips.

// Requests of one direction that have no answer yet, by PSN.
class Outstanding {
  constructor() { this.list = []; this.head = 0; this.bytes = 0; }
  add(psn, last, size, time) {
    const e = {psn, last, size, time, again: false};
    let at = this.list.length;
    while (at > this.head && this.list[at - 1].psn > psn) at--;    // one that closes a gap
    this.list.splice(at, 0, e);
    this.bytes += size;
  }
  again(psn) {
    for (let k = this.list.length - 1; k >= this.head && this.list[k].last >= psn; k--)
      if (this.list[k].psn <= psn) this.list[k].again = true;
  }
  // All up to psn are done. Returns the one that ends with it, if it was sent once: a round trip.
  done(psn) {
    let exact = null;
    while (this.head < this.list.length && this.list[this.head].last <= psn) {
      const e = this.list[this.head++];
      this.bytes -= e.size;
      exact = e.last === psn && !e.again ? e : null;
    }
    if (this.head > 4096) { this.list.splice(0, this.head); this.head = 0; }
    return exact;
  }
}

function seriesOf(s) {
  const psn = {x: [], y: [], i: []};
  const lines = () => [{x: [], y: []}, {x: [], y: []}];
  const out = {psn, rate: lines(), outstanding: lines(), rtt: lines()};
  const pending = [new Outstanding(), new Outstanding()];
  const put = (line, x, y) => { line.x.push(x); line.y.push(y); };
  for (const i of s.packets) {
    if (!decoded(i) || data.mads[i] || s.kind === 'other') continue;
    const t = log.time[i], d = side(i), rel = log.rel[i], op = opcodeOf(i), kind = op.kind, repeated = log.flags[i] & AGAIN;
    if (kind === 'other') continue;
    psn.x.push(t); psn.y.push(rel); psn.i.push(i);
    if (log.len[i] && !repeated && kind !== 'response') put(out.rate[d], t, log.len[i]);
    if (s.kind === 'datagrams') continue;
    if (kind === 'request' || kind === 'read') {
      if (repeated) { pending[d].again(rel); continue; }
      const length = extension(i, 'reth.length') || 0, size = kind === 'read' ? length : log.len[i];
      const spans = kind === 'read' && s.mtu ? Math.max(1, Math.ceil(length / s.mtu)) : 1;
      pending[d].add(rel, rel + spans - 1, size, t);
      put(out.outstanding[d], t, pending[d].bytes);
      continue;
    }
    if (log.flags[i] & HINT) continue;
    const of = 1 - d, nak = isNak(i);
    // An answer means that all before it are done. Of a READ the last packet ends it.
    const e = pending[of].done(nak || (kind === 'data' && !op.last) ? rel - 1 : rel);
    if (e && !nak && !(kind === 'data' && !op.last)) put(out.rtt[of], t, t - e.time);
    put(out.outstanding[of], t, pending[of].bytes);
  }
  return out;
}

// Bits per second in bins that cover [x0, x1).
function binned(line, x0, x1, bins) {
  const sums = new Float64Array(bins), width = (x1 - x0) / bins;
  for (let k = lower(line.x, x0); k < line.x.length && line.x[k] < x1; k++) sums[Math.min(bins - 1, Math.floor((line.x[k] - x0) / width))] += line.y[k];
  for (let k = 0; k < bins; k++) sums[k] *= 8e9 / width;
  return sums;
}
