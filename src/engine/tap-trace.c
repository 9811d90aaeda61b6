/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/tap-trace.h"

#include <string.h>

#include <rocemu/cm.h>

#include "base/trace.h"
#include "base/util.h"
#include "wire/opcode.h"

/* BTH, DETH, and of the MAD as far as its attribute. */
enum {
	HEAD_LEN = 12 + 8 + 24,
	MAD_AT = 20,
	MAD_ATTR_AT = MAD_AT + 16,
	MAD_CLASS_AT = MAD_AT + 1,
	CLASS_CM = 7,
	AETH_AT = 12
};

#define OUT "\u2192 " /* an arrow to the right */
#define IN  "\u2190 "

static const struct trace_kind sent = {
	"packet", TRACE_INSTANT, OUT, {"x:to", "psn", "bytes", "again"}};
static const struct trace_kind received = {"packet", TRACE_INSTANT, IN, {"x:to", "psn", "bytes"}};
static const struct trace_kind ack_sent = {
	"packet", TRACE_INSTANT, OUT, {"x:to", "psn", "x:syndrome", "msn"}};
static const struct trace_kind ack_received = {
	"packet", TRACE_INSTANT, IN, {"x:to", "psn", "x:syndrome", "msn"}};

static uint32_t read24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/** The first bytes of a packet. @return of how many it has, at most HEAD_LEN. */
static size_t head(const struct iovec *iov, unsigned niov, uint8_t to[static HEAD_LEN])
{
	size_t n = 0;

	for (unsigned i = 0; i < niov && n < HEAD_LEN; i++) {
		const size_t take = MIN(iov[i].iov_len, HEAD_LEN - n);

		memcpy(to + n, iov[i].iov_base, take);
		n += take;
	}
	return n;
}

static size_t length(const struct iovec *iov, unsigned niov)
{
	size_t n = 0;

	for (unsigned i = 0; i < niov; i++)
		n += iov[i].iov_len;
	return n;
}

/** A static text. */
static const char *name_of(const uint8_t *p, size_t len, uint32_t dqpn)
{
	const uint16_t attr = (uint16_t)(p[MAD_ATTR_AT] << 8 | p[MAD_ATTR_AT + 1]);
	const char *name = NULL;

	if (dqpn == TRACE_TRACK_GSI && len == HEAD_LEN && p[MAD_CLASS_AT] == CLASS_CM)
		name = rocemu_cm_name(attr);
	return name ? name : rocemu_opcode_name(p[0]);
}

/** That of the QP that sends or receives. */
static uint32_t track(const struct tap_addr *a, uint32_t dqpn)
{
	if (!a->sent || dqpn == TRACE_TRACK_GSI)
		return dqpn;
	return a->lqpn ? a->lqpn : TRACE_TRACK_LATE;
}

void tap_trace(const struct tap_addr *a, uint64_t when_ns, const struct iovec *iov, unsigned niov)
{
	uint8_t p[HEAD_LEN];
	const size_t len = head(iov, niov, p);
	const struct trace_kind *kind = a->sent ? &sent : &received;
	uint64_t arg[TRACE_ARGS];
	uint32_t dqpn;

	if (len < AETH_AT + 4)
		return;
	dqpn = read24(p + 5);
	arg[0] = dqpn;
	arg[1] = read24(p + 9);
	arg[2] = length(iov, niov);
	arg[3] = a->again;
	if (rocemu_opcode_ops(p[0]) & ROCEMU_OP_ACK) {
		kind = a->sent ? &ack_sent : &ack_received;
		arg[2] = p[AETH_AT];
		arg[3] = read24(p + AETH_AT + 1);
	}
	trace_add(kind, name_of(p, len, dqpn), when_ns, track(a, dqpn), 0, arg);
}
