/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The programs: the server of ibv_*_pingpong, which answers each SEND by one, and `rping -s -P`,
 * which READs the peer's buffer, SENDs, WRITEs and SENDs, in turns.
 */
#include "base/bytes.h"
#include "responder.h"

enum {
	PINGPONG_RECVS = 500,
	PINGPONG_ITERATIONS = 1000,
	PINGPONG_FILL = 0x7b,
	RNR_TIMER = 12,
	RPING_MESSAGE = 16,
	RPING_DATA = 1024, /* in the buffer: behind the messages */
	RPING_SIZE_MAX = 65535,
};

static void post_buffer(struct qp *qp, uint32_t len)
{
	const struct receive r = {.piece = {{qp->buffer, len}}, .pieces = 1, .len = len};

	qp_post_recv(qp, &r);
}

/* ---- pingpong ---- */

/** The next SEND is posted when the last one is complete and another one came. */
static void pingpong_step(struct qp *qp)
{
	struct app *a = &qp->app;
	const uint32_t grh = qp->kind == QP_UD ? 40 : 0;

	if (a->received_count >= PINGPONG_ITERATIONS && a->sent >= PINGPONG_ITERATIONS) {
		qp_destroy(qp);
		return;
	}
	if (a->wants_recv || a->wants_send || a->sent >= PINGPONG_ITERATIONS)
		return;
	a->wants_recv = a->wants_send = true;
	req_post(qp,
		 (struct wr){.opcode = ROCEMU_RC_SEND_ONLY, .at = qp->buffer + grh, .len = a->len});
}

static void pingpong_received(struct qp *qp, const struct receive *r, uint32_t len,
			      const struct rocemu_packet *p)
{
	(void)len, (void)p;
	qp->app.received_count++;
	qp->app.wants_recv = false;
	qp_post_recv(qp, r);
	pingpong_step(qp);
}

static void pingpong_completed(struct qp *qp, const struct wr *wr)
{
	(void)wr;
	qp->app.sent++;
	qp->app.wants_send = false;
	pingpong_step(qp);
}

/** The program ends. Whether its queue pair is in error or gone shows no difference. */
static void pingpong_ended(struct qp *qp, bool recv, uint64_t id, enum ibv_wc_status status)
{
	(void)qp, (void)recv, (void)id, (void)status;
}

static void no_event(struct qp *qp, enum ibv_event_type event)
{
	(void)qp, (void)event;
}

void pingpong_start(struct qp *qp, uint32_t size)
{
	qp->app = (struct app){pingpong_received, pingpong_completed, pingpong_ended, no_event};
	qp->app.wants_recv = true;
	qp->app.len = size;
	qp->resp.rnr_timer = RNR_TIMER;
	qp->resp.depth = 1;
	qp->req.timeout = 14;
	qp->req.retry_cnt = qp->req.retries = 7;
	qp->req.rnr_retry = qp->req.rnr_retries = 7;
	qp->req.depth = 1;
	memset(qp->buffer, PINGPONG_FILL, size + ROCEMU_GRH_LEN);
	for (unsigned i = 0; i < PINGPONG_RECVS; i++)
		post_buffer(qp, size + (qp->kind == QP_UD ? 40 : 0));
}

/* ---- rping ---- */

/** What is waited for. */
enum { RPING_SOURCE, RPING_READ, RPING_SINK, RPING_WRITE };

static void rping_fails(struct qp *qp)
{
	struct cm_conn *c = qp->app.conn;

	if (!c)
		return;

	qp->app.conn = NULL;
	qp_error(qp);
	cm_disconnect(c);
}

/** Flushed requests do not end the program. */
static void rping_ended(struct qp *qp, bool recv, uint64_t id, enum ibv_wc_status status)
{
	(void)id;
	if (!recv && status != IBV_WC_WR_FLUSH_ERR)
		rping_fails(qp);
}

static void rping_request(struct qp *qp, uint8_t opcode, uint32_t len)
{
	req_post(qp, (struct wr){.opcode = opcode,
				 .at = qp->buffer + RPING_DATA,
				 .len = len,
				 .va = qp->app.va,
				 .rkey = qp->app.rkey});
}

static void rping_go_ahead(struct qp *qp)
{
	req_post(qp, (struct wr){.opcode = ROCEMU_RC_SEND_ONLY,
				 .at = qp->buffer + RPING_MESSAGE,
				 .len = RPING_MESSAGE});
}

/** The peer's buffer: address, key, size. */
static void rping_received(struct qp *qp, const struct receive *r, uint32_t len,
			   const struct rocemu_packet *p)
{
	struct app *a = &qp->app;

	(void)p;
	qp_post_recv(qp, r);
	a->va = get_be64(qp->buffer);
	a->rkey = get_be32(qp->buffer + 8);
	a->len = get_be32(qp->buffer + 12);
	if (len != RPING_MESSAGE || a->len > RPING_SIZE_MAX) {
		rping_fails(qp);
	} else if (a->state == RPING_SOURCE) {
		a->state = RPING_READ;
		rping_request(qp, ROCEMU_RC_READ_REQUEST, a->len);
	} else if (a->state == RPING_SINK) {
		a->state = RPING_WRITE;
		rping_request(qp, ROCEMU_RC_WRITE_ONLY,
			      (uint32_t)strlen((char *)qp->buffer + RPING_DATA) + 1);
	} else {
		rping_fails(qp);
	}
}

static void rping_completed(struct qp *qp, const struct wr *wr)
{
	struct app *a = &qp->app;

	if (wr->opcode == ROCEMU_RC_SEND_ONLY)
		return;
	a->state = a->state == RPING_READ ? RPING_SINK : RPING_SOURCE;
	rping_go_ahead(qp);
}

void rping_start(struct qp *qp, struct cm_conn *conn)
{
	qp->app = (struct app){rping_received, rping_completed, rping_ended, no_event};
	qp->app.conn = conn;
	qp->resp.rnr_timer = RNR_TIMER;
	memset(qp->buffer, 0, RPING_DATA + RPING_SIZE_MAX + 1);
	post_buffer(qp, RPING_MESSAGE);
	post_buffer(qp, RPING_MESSAGE);
}
