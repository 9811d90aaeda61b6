/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an end did, as text. The words, joined by "; ":
 *	drop WHY                   a packet was not taken
 *	SEND_FIRST PSN [A] [S]     a request packet; A: AckReq, S: solicited event
 *	READ_REQUEST PSN+LEN A
 *	ack PSN/MSN                positive acknowledgement
 *	nak SYNDROME PSN/MSN       (hexadecimal)
 *	rnr TIMER PSN/MSN
 *	first|middle|last|only PSN+LEN   READ responses
 *	atomic PSN/MSN =VALUE      atomic response
 *	cnp                        congestion notification
 *	send 1, recv 1 len 8, ...  completions: scenario_completion_text()
 *	event NAME                 asynchronous event, IBV_EVENT_ left out
 *	ERR                        the QP is in the error state (once)
 * PSNs count from the first of their direction. Packets come in the order in which they were
 * taken or sent, then completions, then events.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

#include "base/util.h"

void say(struct end *e, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (e->log_len && e->log_len + 3 < LOG_LEN) {
		memcpy(e->log + e->log_len, "; ", 3);
		e->log_len += 2;
	}
	va_start(ap, fmt);
	n = vsnprintf(e->log + e->log_len, LOG_LEN - e->log_len, fmt, ap);
	va_end(ap);
	e->log_len = MIN(e->log_len + (size_t)n, (size_t)LOG_LEN - 1);
}

void say_drop(struct end *e, enum rocemu_drop why)
{
	static const char *const names[] = {
#define X(name, text) #name,
		ROCEMU_DROPS(X)
#undef X
	};

	if (why)
		say(e, "drop %s", names[why]);
}

/* ---- packets ---- */

static void aeth_text(const struct rocemu_hdrs *h, uint32_t psn, char *to, size_t size)
{
	switch (h->aeth.syndrome & ROCEMU_AETH_CLASS_MASK) {
	case ROCEMU_AETH_ACK:
		if (h->aeth.syndrome == ROCEMU_AETH_NO_CREDITS)
			snprintf(to, size, "ack %u/%u", psn, h->aeth.msn);
		else
			snprintf(to, size, "ack %u/%u credits %u", psn, h->aeth.msn,
				 h->aeth.syndrome);
		break;
	case ROCEMU_AETH_RNR:
		snprintf(to, size, "rnr %u %u/%u", h->aeth.syndrome & ROCEMU_AETH_VALUE_MASK, psn,
			 h->aeth.msn);
		break;
	default:
		snprintf(to, size, "nak %x %u/%u", h->aeth.syndrome, psn, h->aeth.msn);
		break;
	}
}

static void request_text(const struct rocemu_hdrs *h, uint32_t psn, char *to, size_t size)
{
	const char *name = rocemu_opcode_name(h->opcode);
	char bytes[16] = "";

	if (rocemu_opcode_ops(h->opcode) & ROCEMU_OP_READ_REQ)
		snprintf(bytes, sizeof(bytes), "+%u", h->reth.length);
	snprintf(to, size, "%s %u%s%s%s", strchr(name, '_') + 1, psn, bytes, h->ackreq ? " A" : "",
		 h->se ? " S" : "");
}

static const char *response_place(uint32_t ops)
{
	if (ops & ROCEMU_OP_MIDDLE)
		return "middle";
	if (!(ops & ROCEMU_OP_LAST))
		return "first";
	return ops & ROCEMU_OP_FIRST ? "only" : "last";
}

void packet_text(const struct world *w, unsigned end, const struct rocemu_packet *p, char *to,
		 size_t size)
{
	const uint32_t ops = rocemu_opcode_ops(p->h.opcode);
	/* Of a pair, each sends from the PSN on that the other receives from. */
	const bool from_sq = (ops & ROCEMU_OP_REQUEST) != 0;
	const uint32_t base = from_sq != (end == 1) ? w->setup.sq_psn : w->setup.rq_psn;
	const uint32_t psn = (p->h.psn - base) & ROCEMU_PSN_MASK;

	if (ops & ROCEMU_OP_CNP)
		snprintf(to, size, "cnp");
	else if (ops & ROCEMU_OP_REQUEST)
		request_text(&p->h, psn, to, size);
	else if (ops & ROCEMU_OP_READ_RESP)
		snprintf(to, size, "%s %u+%u", response_place(ops), psn, p->payload_len);
	else if (ops & ROCEMU_OP_ATOMIC_ACK)
		snprintf(to, size, "atomic %u/%u =%llu", psn, p->h.aeth.msn,
			 (unsigned long long)p->h.atomicack);
	else
		aeth_text(&p->h, psn, to, size);
}

/* ---- completions and events ---- */

void say_completions(struct end *e)
{
	struct rocemu_cqe cqe;

	while (rocemu_cq_poll(e->cq, &cqe, 1)) {
		const struct scenario_completion c = {
			.id = cqe.wr_id,
			.status = cqe.status,
			.opcode = cqe.opcode,
			.byte_len = cqe.byte_len,
			.imm = cqe.imm,
			.src_qp = cqe.src_qp,
			.flags = cqe.wc_flags,
			.sl = cqe.sl,
			.solicited = cqe.solicited,
		};
		char text[160];

		if (cqe.qpn != rocemu_qp_num(e->qp))
			say(e, "completion of QP %x", cqe.qpn);
		scenario_completion_text(&c, text, sizeof(text));
		say(e, "%s", text);
	}
}

void say_rest(struct end *e)
{
	struct rocemu_event ev;

	say_completions(e);
	while (rocemu_ep_next_event(e->ep, &ev))
		if (ev.type != ROCEMU_EVENT_CQ)
			say(e, "event %s", scenario_event_name(ev.async));
	if (rocemu_qp_state(e->qp) == IBV_QPS_ERR && !e->told_error) {
		e->told_error = true;
		say(e, "ERR");
	}
}
