/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles a received datagram: captures it, injects faults, counts it, and passes it to the
 * endpoint.
 */
#include "base/bytes.h"
#include "base/util.h"
#include "engine/lane-internal.h"
#include "fault/report.h"
#include "wire/ip.h"
#include "wire/opcode.h"

static void tap_received(struct lane *l, rocemu_ns_t now, const struct rocemu_dgram *d)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = d->src,
		.dst = d->dst,
		.sport = d->sport,
		.dport = d->dport,
		.ip_id = d->ip_id,
		.ip_frag = IP_FLAG_DF,
	};
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)d->data, .iov_len = d->len};
	struct tap_addr a = {
		.when_ns = tap_now(),
		.src = d->src,
		.dst = d->dst,
		.sport = d->sport,
		.ip_id = d->ip_id,
		.tclass = d->tclass,
		.hop_limit = d->hop_limit,
		.flow_label = d->flow_label,
	};
	int32_t id = -1;

	/* The identification that the socket does not show, so that the ICRC in the capture can be
	 * checked. */
	if (d->len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN)
		id = rocemu_icrc_check(&ctx, d->ip_id_known, d->data, d->len);
	if (id >= 0)
		a.ip_id = (uint16_t)id;
	tap_write(l->tap, &a, &iov, 1);
	lane_tap_dirty(l, now);
}

/* What a READ requests. Its RETH, whose last field this is, ends the headers. */
static uint32_t read_length(const struct rocemu_dgram *d)
{
	const uint8_t headers = opcode_table[d->data[0]].hdr_len;

	return d->len >= headers ? get_be32(d->data + headers - sizeof(uint32_t)) : 0;
}

/* A request of several packets: is this one the last? */
static void note_message(struct lane_rx *rx, const struct rocemu_dgram *d)
{
	const uint32_t ops = opcode_ops(d->data[0]);

	if (!(ops & ROCEMU_OP_REQUEST))
		return;
	rx->requests = true;
	rx->fetches += !!(ops & (ROCEMU_OP_READ_REQ | ROCEMU_OP_ATOMIC));
	if (ops & ROCEMU_OP_READ_REQ)
		rx->fetch_bytes += read_length(d);
	rx->mid_message = (ops & (ROCEMU_OP_FIRST | ROCEMU_OP_MIDDLE)) && !(ops & ROCEMU_OP_LAST);
}

HOT void lane_input(struct lane *l, rocemu_ns_t now, struct rocemu_dgram *d)
{
	if (unlikely(l->down)) {
		l->stats->impair_down++;
		fault_report_add(FAULT_COUNT_DOWN_RX, 1);
		return;
	}
	l->stats->rx_datagrams++;
	l->stats->rx_octets += d->len;
	l->stats->rx_congested += d->congested;
	note_message(&l->rx, d);
	if (unlikely(l->tap != NULL))
		tap_received(l, now, d);
	if (unlikely(l->faulty_rx))
		lane_impair_input(l, now, d);
	else
		rocemu_ep_input(l->ep, now, d);
}
