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
 *	send ID, write ID, read ID len N, comp_swap ID len N, fetch_add ID len N, flush ID,
 *	atomic_write ID, bind_mw ID, local_inv ID    a send request completed
 *	send ID STATUS             one of any kind, in error: IBV_WC_ left out
 *	recv ID len N [inv] [imm N] [grh from QPN] [sl N] [sol] [write]
 *	recv ID STATUS
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

static const char *status_name(enum ibv_wc_status status)
{
	static const char *const names[] = {
#define N(name) [IBV_WC_##name] = #name
		N(SUCCESS),	   N(LOC_LEN_ERR),	 N(LOC_QP_OP_ERR),  N(LOC_EEC_OP_ERR),
		N(LOC_PROT_ERR),   N(WR_FLUSH_ERR),	 N(MW_BIND_ERR),    N(BAD_RESP_ERR),
		N(LOC_ACCESS_ERR), N(REM_INV_REQ_ERR),	 N(REM_ACCESS_ERR), N(REM_OP_ERR),
		N(RETRY_EXC_ERR),  N(RNR_RETRY_EXC_ERR),
#undef N
	};

	return (size_t)status < ARRAY_LEN(names) && names[status] ? names[status] : "?";
}

static const char *event_name(enum ibv_event_type type)
{
	static const char *const names[] = {
#define N(name) [IBV_EVENT_##name] = #name
		N(CQ_ERR),   N(QP_FATAL),   N(QP_REQ_ERR),	  N(QP_ACCESS_ERR),
		N(COMM_EST), N(SQ_DRAINED), N(SRQ_LIMIT_REACHED), N(QP_LAST_WQE_REACHED),
#undef N
	};

	return (size_t)type < ARRAY_LEN(names) && names[type] ? names[type] : "?";
}

static void say_recv(struct end *e, const struct rocemu_cqe *c, unsigned long long id)
{
	char imm[24] = "", grh[32] = "", sl[16] = "";

	if (c->wc_flags & IBV_WC_WITH_IMM)
		snprintf(imm, sizeof(imm), " imm %x", c->imm);
	if (c->wc_flags & IBV_WC_GRH)
		snprintf(grh, sizeof(grh), " grh from %x", c->src_qp);
	if (c->sl)
		snprintf(sl, sizeof(sl), " sl %u", c->sl);
	say(e, "recv %llu len %u%s%s%s%s%s%s", id, c->byte_len,
	    c->wc_flags & IBV_WC_WITH_INV ? " inv" : "", imm, grh, sl, c->solicited ? " sol" : "",
	    c->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? " write" : "");
}

static const char *request_name(enum ibv_wc_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WC_SEND:
		return "send";
	case IBV_WC_RDMA_WRITE:
		return "write";
	case IBV_WC_RDMA_READ:
		return "read";
	case IBV_WC_COMP_SWAP:
		return "comp_swap";
	case IBV_WC_FETCH_ADD:
		return "fetch_add";
	case IBV_WC_BIND_MW:
		return "bind_mw";
	case IBV_WC_LOCAL_INV:
		return "local_inv";
	case ROCEMU_WC_FLUSH:
		return "flush";
	case ROCEMU_WC_ATOMIC_WRITE:
		return "atomic_write";
	default:
		return "?";
	}
}

static void say_cqe(struct end *e, const struct rocemu_cqe *c)
{
	const bool recv = c->wr_id >> RECV_ID_BIT;
	const unsigned long long id = c->wr_id & ~(1ull << RECV_ID_BIT);

	if (c->qpn != rocemu_qp_num(e->qp))
		say(e, "completion of QP %x", c->qpn);
	if (c->status != IBV_WC_SUCCESS)
		say(e, "%s %llu %s", recv ? "recv" : "send", id, status_name(c->status));
	else if (recv)
		say_recv(e, c, id);
	else if (c->opcode == IBV_WC_RDMA_READ || c->opcode == IBV_WC_COMP_SWAP ||
		 c->opcode == IBV_WC_FETCH_ADD)
		say(e, "%s %llu len %u", request_name(c->opcode), id, c->byte_len);
	else
		say(e, "%s %llu", request_name(c->opcode), id);
}

void say_rest(struct end *e)
{
	struct rocemu_event ev;
	struct rocemu_cqe cqe;

	while (rocemu_cq_poll(e->cq, &cqe, 1))
		say_cqe(e, &cqe);
	while (rocemu_ep_next_event(e->ep, &ev))
		if (ev.type != ROCEMU_EVENT_CQ)
			say(e, "event %s", event_name(ev.async));
	if (rocemu_qp_state(e->qp) == IBV_QPS_ERR && !e->told_error) {
		e->told_error = true;
		say(e, "ERR");
	}
}
