/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that scenarios are made of: post, poll, wait, print. All waits are bounded; a
 * missing event is printed, and the scenario continues.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "parity.h"

enum {
	WAIT_MS = 4000,	 /* for what should come */
	SETTLE_MS = 200, /* for what may come: a state, an event */
	ARRIVE_MS = 50,	 /* for events without a notification */
	QUIET_MS = 3,	 /* for what should not come */
	MAX_PIECES = 16,
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- output ---- */

void say(const struct end *e, const char *fmt, ...)
{
	va_list ap;

	if (e)
		printf("%s ", e->tag);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

int say_result(const struct end *e, const char *what, int err)
{
	say(e, "%s: %s", what, err ? text_errno(err) : "ok");
	return err;
}

void unsupported(const struct end *e, const char *fmt, ...)
{
	va_list ap;

	(void)e;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	exit(RUN_UNSUPPORTED);
}

void failed(const struct end *e, const char *what)
{
	int err = errno;

	if (err == EOPNOTSUPP || err == ENOSYS || err == EPROTONOSUPPORT)
		unsupported(e, "%s: %s", what, text_errno(err));
	say_result(e, what, err);
	exit(RUN_OK);
}

void broken(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	exit(RUN_BROKEN);
}

/* ---- posting ---- */

static unsigned cut(struct ibv_sge *sge, uint64_t addr, uint32_t lkey, uint32_t len,
		    uint32_t pieces)
{
	if (pieces > MAX_PIECES)
		broken("%u pieces", pieces);
	for (uint32_t i = 0, at = 0; i < pieces; i++) {
		uint32_t n = i + 1 == pieces ? len - at : len / pieces;

		sge[i] = (struct ibv_sge){.addr = addr + at, .length = n, .lkey = lkey};
		at += n;
	}
	return pieces;
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static uint64_t address(const struct end *e, int64_t at)
{
	return (uint64_t)(uintptr_t)e->mem + (uint64_t)at;
}

static uint64_t local_address(const struct end *e, const struct msg *m)
{
	return address(e, (m->op == IBV_WR_RDMA_READ ? DST : SRC) + m->local);
}

static uint64_t remote_address(const struct end *peer, const struct msg *m)
{
	return address(peer, (m->op == IBV_WR_RDMA_READ ? SRC : DST) + m->remote);
}

int msg_post(struct end *e, struct end *peer, const struct msg *m)
{
	struct ibv_sge sge[MAX_PIECES];
	struct ibv_send_wr *bad, wr = {
					 .wr_id = m->id,
					 .sg_list = sge,
					 .opcode = m->op,
					 .send_flags = m->flags,
				 };
	uint32_t rkey = m->rkey ? m->rkey : peer->mr->rkey;
	int err;

	wr.num_sge = (int)cut(sge, local_address(e, m), m->lkey ? m->lkey : e->mr->lkey, m->len,
			      m->pieces ? m->pieces : m->len > 0);
	if (m->op == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = rkey;
	else if (has_imm(m->op))
		wr.imm_data = htonl(IMM);
	if (e->qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = e->ah;
		wr.wr.ud.remote_qpn = m->remote_qpn ? m->remote_qpn : peer->qp->qp_num;
		wr.wr.ud.remote_qkey = m->remote_qkey ? m->remote_qkey : QKEY;
	} else if (m->op == IBV_WR_ATOMIC_CMP_AND_SWP || m->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote_address(peer, m);
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = m->compare_add;
		wr.wr.atomic.swap = m->swap;
	} else {
		wr.wr.rdma.remote_addr = remote_address(peer, m);
		wr.wr.rdma.rkey = rkey;
	}
	wr.qp_type.xrc.remote_srqn = m->srqn;
	err = ibv_post_send(e->qp, &wr, &bad);
	if (err)
		say(e, "post %s %llu: %s", text_op(m->op), (unsigned long long)m->id,
		    text_errno(err));
	return err;
}

static void wr_operation(struct ibv_qp_ex *q, struct end *peer, const struct msg *m)
{
	uint32_t rkey = m->rkey ? m->rkey : peer->mr->rkey;
	uint64_t to = remote_address(peer, m);

	switch (m->op) {
	case IBV_WR_SEND:
		ibv_wr_send(q);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(q, htonl(IMM));
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(q, rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(q, rkey, to);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(q, rkey, to, htonl(IMM));
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(q, rkey, to);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(q, rkey, to, m->compare_add, m->swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(q, rkey, to, m->compare_add);
		break;
	default:
		broken("%s has no ibv_wr_ function here", text_op(m->op));
	}
}

int msg_post_wr(struct end *e, struct end *peer, const struct msg *m)
{
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(e->qp);
	uint32_t lkey = m->lkey ? m->lkey : e->mr->lkey;
	uint8_t *from = e->mem + (m->op == IBV_WR_RDMA_READ ? DST : SRC) + m->local;
	struct ibv_sge sge[MAX_PIECES];
	int err;

	if (!q)
		failed(e, "ibv_qp_to_qp_ex");
	ibv_wr_start(q);
	q->wr_id = m->id;
	q->wr_flags = m->flags & ~(unsigned)IBV_SEND_INLINE;
	wr_operation(q, peer, m);
	if (e->qp->qp_type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(q, e->ah, peer->qp->qp_num, QKEY);
	if (m->flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(q, from, m->len);
	else if (m->pieces > 1)
		ibv_wr_set_sge_list(q, cut(sge, (uintptr_t)from, lkey, m->len, m->pieces), sge);
	else
		ibv_wr_set_sge(q, lkey, (uintptr_t)from, m->len);
	err = ibv_wr_complete(q);
	if (err)
		say(e, "ibv_wr_complete %s: %s", text_op(m->op), text_errno(err));
	return err;
}

int recv_post_pieces(struct end *e, uint64_t id, uint32_t at, uint32_t len, uint32_t pieces)
{
	struct ibv_sge sge[MAX_PIECES];
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = sge};
	int err;

	wr.num_sge = (int)cut(sge, address(e, DST + at), e->mr->lkey, len, pieces);
	err = e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
	if (err)
		say(e, "post receive %llu: %s", (unsigned long long)id, text_errno(err));
	return err;
}

int recv_post(struct end *e, uint64_t id, uint32_t at, uint32_t len)
{
	return recv_post_pieces(e, id, at, len, len > 0);
}

/* ---- polling ---- */

/** Only the fields that are valid in a completion of that kind (ibv_poll_cq(3)). */
static void wc_say(const struct end *e, const char *queue, const struct ibv_wc *wc)
{
	printf("%s %s %llu: %s", e->tag, queue, (unsigned long long)wc->wr_id,
	       text_status(wc->status));
	if (wc->status == IBV_WC_SUCCESS) {
		printf(" %s", text_wc_opcode(wc->opcode));
		if (wc->opcode & IBV_WC_RECV || wc->opcode == IBV_WC_RDMA_READ)
			printf(" %u bytes", wc->byte_len);
		/* Set by some devices on RC, too; it is defined for UD only. */
		if (e->qp->qp_type == IBV_QPT_UD && wc->wc_flags & IBV_WC_GRH)
			printf(" GRH");
		if (wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
			printf(" imm %08x", ntohl(wc->imm_data));
		if (wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_INV)
			printf(" invalidated");
	}
	if (wc->qp_num != e->qp->qp_num)
		printf(" (of another QP)");
	putchar('\n');
}

/** One completion, within that time. */
static bool take(struct end *e, struct ibv_cq *cq, const char *queue, int wait_ms)
{
	int64_t end = now_ms() + wait_ms;
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (n == 0 && now_ms() < end);
	if (n < 0)
		say(e, "%s: ibv_poll_cq: error", queue);
	else if (n > 0)
		wc_say(e, queue, &wc);
	return n > 0;
}

static void poll_cq(struct end *e, struct ibv_cq *cq, const char *queue, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (take(e, cq, queue, WAIT_MS))
			continue;
		say(e, "%s: %u of %u completions did not come", queue, n - i, n);
		return;
	}
}

void poll_send(struct end *e, unsigned n)
{
	poll_cq(e, e->scq, "send", n);
}

void poll_recv(struct end *e, unsigned n)
{
	poll_cq(e, e->rcq, "recv", n);
}

void poll_nothing(struct end *e)
{
	while (take(e, e->scq, "further send", QUIET_MS) ||
	       take(e, e->rcq, "further recv", QUIET_MS))
		;
}

void arrive_say(struct end *e)
{
	take(e, e->rcq, "recv", ARRIVE_MS);
}

/* ---- states and events ---- */

/** Let the other side make progress: some devices are driven by their callers. */
static void drive(struct end *e)
{
	poll(NULL, 0, 1);
	(void)e;
}

void state_say(struct end *e, enum ibv_qp_state want)
{
	int64_t end = now_ms() + SETTLE_MS;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err;

	do {
		memset(&attr, 0, sizeof(attr));
		err = ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init);
		if (err || attr.qp_state == want)
			break;
		drive(e);
	} while (now_ms() < end);
	say(e, "state %s", err ? text_errno(err) : text_state(attr.qp_state));
}

int modify_say(struct end *e, const char *what, struct ibv_qp_attr *attr, int mask)
{
	return say_result(e, what, ibv_modify_qp(e->qp, attr, mask));
}

int modify_state(struct end *e, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};
	char what[32];

	snprintf(what, sizeof(what), "modify to %s", text_state(to));
	return modify_say(e, what, &attr, IBV_QP_STATE);
}

void setup_receiver_in_rtr(struct pair *p)
{
	static const struct setup usual = {0};
	struct ibv_qp_attr attr;
	int mask;

	pair_setup(p, &(struct setup){.state = IBV_QPS_RTR});
	mask = step_attr(&p->req, &p->rsp, &usual, TO_RTS, &attr);
	modify_say(&p->req, "modify to RTS", &attr, mask);
}

static bool readable(int fd, int wait_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, wait_ms) > 0;
}

void async_say(struct end *e)
{
	struct ibv_async_event ev;

	if (!readable(e->ctx->async_fd, SETTLE_MS)) {
		say(e, "no async event");
		return;
	}
	if (ibv_get_async_event(e->ctx, &ev)) {
		say(e, "ibv_get_async_event: %s", text_errno(errno));
		return;
	}
	say(e, "async event %s", text_event(ev.event_type));
	ibv_ack_async_event(&ev);
}

void comp_event_say(struct end *e, bool expected)
{
	struct ibv_cq *cq;
	void *context;

	if (!readable(e->channel->fd, expected ? WAIT_MS : 20)) {
		say(e, "no completion event");
		return;
	}
	if (ibv_get_cq_event(e->channel, &cq, &context)) {
		say(e, "ibv_get_cq_event: %s", text_errno(errno));
		return;
	}
	say(e, "completion event of the %s CQ%s", cq == e->scq ? "send" : "receive",
	    context == e ? "" : ", with another's cq_context");
	ibv_ack_cq_events(cq, 1);
}

/** FNV-1a over words: sufficient to compare two memories. */
static uint64_t digest(const uint8_t *p, size_t len)
{
	uint64_t h = 0xcbf29ce484222325, word;

	for (size_t i = 0; i + sizeof(word) <= len; i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		h = (h ^ le64toh(word)) * 0x100000001b3;
		h ^= h >> 29;
	}
	return h;
}

void memory_say(struct pair *p)
{
	/* What stands in the space for the GRH is addresses, or undefined. */
	if (p->req.qp->qp_type == IBV_QPT_UD)
		memset(p->rsp.mem + DST, 0, GRH);
	say(&p->req, "memory %016llx", (unsigned long long)digest(p->req.mem, MEM_SIZE));
	say(&p->rsp, "memory %016llx", (unsigned long long)digest(p->rsp.mem, MEM_SIZE));
}
