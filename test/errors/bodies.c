/* SPDX-License-Identifier: BSD-2-Clause */
/* The errors table: what is more than one request. See errors.h. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "errors.h"

#define EVENT(name) (1u << IBV_EVENT_##name)
#define NOTHING                                                                        \
	.first = ERR_NONE, .behind = ERR_NONE, .recv_req = ERR_NONE, .recv = ERR_NONE, \
	.recv_behind = ERR_NONE

static int send(struct err_bench *b, enum err_end from, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = err_wr(b, from, &sge, wr_id, len);

	return b->ops->post(b, from, &wr);
}

static int to_state(struct err_bench *b, enum err_end end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return b->ops->modify(b, end, &attr, IBV_QP_STATE);
}

/* ---- no answer ---- */

static const char *peer_destroyed(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	b->ops->vanish(b, RSP);
	if (err_post_recv(b, REQ, WR_RECV_REQ, 8) || send(b, REQ, WR_FIRST, 100) ||
	    send(b, REQ, WR_BEHIND, 8))
		return "a request was refused";
	return NULL;
}

static const char *peer_in_reset(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (to_state(b, RSP, IBV_QPS_RESET))
		return "the responder does not go to RESET";
	if (err_post_recv(b, REQ, WR_RECV_REQ, 8) || send(b, REQ, WR_FIRST, 100) ||
	    send(b, REQ, WR_BEHIND, 8))
		return "a request was refused";
	return NULL;
}

static const char *peer_in_error(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (to_state(b, RSP, IBV_QPS_ERR))
		return "the responder does not go to ERR";
	if (err_post_recv(b, REQ, WR_RECV_REQ, 8) || send(b, REQ, WR_FIRST, 100) ||
	    send(b, REQ, WR_BEHIND, 8))
		return "a request was refused";
	return NULL;
}

/* ---- flush ---- */

enum { MANY = 8 };

/** Completions with these wr_ids, in this order among themselves, all flushed. */
static const char *expect_flushed(const struct err_wc *wc, unsigned n, uint64_t first,
				  unsigned count)
{
	uint64_t next = first;

	for (unsigned i = 0; i < n; i++) {
		if (wc[i].wr_id < first || wc[i].wr_id >= first + count)
			continue;
		if (wc[i].wr_id != next++)
			return "out of order";
		if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
			return "not flushed";
	}
	return next == first + count ? NULL : "not all completed";
}

/* No receive at the other end, so that nothing gets done. */
static const char *all_flushed(struct err_bench *b, const struct err_row *row)
{
	struct err_wc wc[ERR_COMPLETIONS];
	const char *wrong;
	uint32_t events;
	unsigned n;

	(void)row;
	for (unsigned i = 0; i < MANY; i++)
		if (send(b, REQ, 100 + i, 100) || err_post_recv(b, REQ, 200 + i, 100))
			return "a request was refused";
	if (to_state(b, REQ, IBV_QPS_ERR))
		return "it does not go to ERR";
	n = b->ops->collect(b, REQ, 2 * MANY, 0, wc, &events);
	wrong = n == 2 * MANY ? expect_flushed(wc, n, 100, MANY)
			      : "not as many completions as requests";
	return wrong ? wrong : expect_flushed(wc, n, 200, MANY);
}

static const char *posted_in_error(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (to_state(b, REQ, IBV_QPS_ERR))
		return "it does not go to ERR";
	if (send(b, REQ, WR_FIRST, 100) || err_post_recv(b, REQ, WR_RECV_REQ, 8))
		return "a request was refused";
	return NULL;
}

static const char *reset_forgets(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	for (unsigned i = 0; i < MANY; i++)
		if (send(b, REQ, 100 + i, 100) || err_post_recv(b, REQ, 200 + i, 100))
			return "a request was refused";
	if (to_state(b, REQ, IBV_QPS_RESET))
		return "it does not go to RESET";
	return send(b, REQ, WR_FIRST, 8) == EINVAL ? NULL : "a send in RESET was not refused";
}

/* ---- refused when posted ---- */

static const char *queue_full(struct err_bench *b, const struct err_row *row)
{
	int err = 0;

	(void)row;
	if (to_state(b, REQ, IBV_QPS_SQD))
		return "it does not go to SQD";
	for (unsigned i = 0; i < 100000 && !err; i++)
		err = send(b, REQ, 1000 + i, 8);
	if (err != ENOMEM)
		return "the send queue has no end";
	err = 0;
	for (unsigned i = 0; i < 100000 && !err; i++)
		err = err_post_recv(b, REQ, 200000 + i, 8);
	if (err != ENOMEM)
		return "the receive queue has no end";
	return to_state(b, REQ, IBV_QPS_RESET) ? "it does not go to RESET" : NULL;
}

static const char *too_many_sges(struct err_bench *b, const struct err_row *row)
{
	struct ibv_sge sge[64];
	struct ibv_send_wr wr = err_wr(b, REQ, &sge[0], WR_FIRST, 8);
	struct ibv_recv_wr recv = {.wr_id = WR_RECV_REQ, .sg_list = sge, .num_sge = 64};

	(void)row;
	for (unsigned i = 1; i < 64; i++)
		sge[i] = sge[0];
	wr.num_sge = 64;
	if (b->ops->post(b, REQ, &wr) != EINVAL)
		return "a send of 64 SGEs was not refused";
	return b->ops->recv(b, REQ, &recv) == EINVAL ? NULL
						     : "a receive of 64 SGEs was not refused";
}

static const char *wrong_transitions(struct err_bench *b, const struct err_row *row)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	(void)row;
	if (to_state(b, REQ, IBV_QPS_INIT) != EINVAL || to_state(b, REQ, IBV_QPS_RTR) != EINVAL)
		return "RTS to INIT or RTR was not refused";
	if (b->ops->modify(b, REQ, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
	    EINVAL)
		return "RTS to INIT was not refused";
	attr.qp_state = IBV_QPS_RTS;
	return b->ops->modify(b, REQ, &attr, IBV_QP_STATE | IBV_QP_RQ_PSN) == EINVAL
		       ? NULL
		       : "a PSN in RTS was not refused";
}

/* ---- events ---- */

static const char *message_in_rtr(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (err_post_recv(b, RSP, WR_RECV, 100) || send(b, REQ, WR_FIRST, 100))
		return "a request was refused";
	return NULL;
}

static const char *drained(struct err_bench *b, const struct err_row *row)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct err_wc wc[ERR_COMPLETIONS];
	uint32_t events;

	(void)row;
	if (err_post_recv(b, RSP, WR_RECV, 100) || err_post_recv(b, RSP, WR_RECV_BEHIND, 100) ||
	    send(b, REQ, WR_FIRST, 100))
		return "a request was refused";
	if (b->ops->collect(b, REQ, 1, 0, wc, &events) != 1 || wc[0].status != IBV_WC_SUCCESS)
		return "the first request did not complete";
	if (b->ops->modify(b, REQ, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY))
		return "it does not go to SQD";
	/* Not executed before the queue is in RTS again. */
	return send(b, REQ, WR_BEHIND, 8) ? "a request in SQD was refused" : NULL;
}

static const char *srq_limit(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (err_post_recv(b, RSP, WR_RECV, 100) || err_post_recv(b, RSP, WR_RECV_BEHIND, 100) ||
	    b->ops->arm_srq(b, 2))
		return "a request was refused";
	return send(b, REQ, WR_FIRST, 100) ? "the send was refused" : NULL;
}

static const char *last_wqe(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (err_post_recv(b, RSP, WR_RECV, 100))
		return "a receive was refused";
	return to_state(b, RSP, IBV_QPS_ERR) ? "it does not go to ERR" : NULL;
}

static const char *cq_overrun(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (err_post_recv(b, RSP, WR_RECV, 100) || err_post_recv(b, RSP, WR_RECV_BEHIND, 100))
		return "a receive was refused";
	if (send(b, REQ, WR_FIRST, 100) || send(b, REQ, WR_BEHIND, 100))
		return "a send was refused";
	return NULL;
}

static const char *window_without_right(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (err_post_recv(b, REQ, WR_RECV_REQ, 8) || b->ops->bind(b, REQ, WR_FIRST))
		return "the bind was refused";
	return send(b, REQ, WR_BEHIND, 8) ? "the send was refused" : NULL;
}

static const char *nonsense_from_peer(struct err_bench *b, const struct err_row *row)
{
	(void)row;
	if (err_post_recv(b, REQ, WR_RECV_REQ, 8) || err_post_recv(b, RSP, WR_RECV, 100) ||
	    err_post_recv(b, RSP, WR_RECV_BEHIND, 100) || send(b, REQ, WR_FIRST, 100) ||
	    send(b, REQ, WR_BEHIND, 8))
		return "a request was refused";
	return b->ops->bad_response(b) ? "no nonsense to be had" : NULL;
}

#define GONE(peer_state)                                                                    \
	{                                                                                   \
		.first = IBV_WC_RETRY_EXC_ERR, .behind = IBV_WC_WR_FLUSH_ERR,               \
		.recv_req = IBV_WC_WR_FLUSH_ERR, .recv = ERR_NONE, .recv_behind = ERR_NONE, \
		.state = {IBV_QPS_ERR, IBV_QPS_##peer_state},                               \
	}
#define RC .type = IBV_QPT_RC
/* clang-format off */
const struct err_row err_bodies[] = {
	{"rc/peer-destroyed", "SEND to a QP that is destroyed: retries exceeded", RC, .config.retry_cnt = 1, .body = peer_destroyed, .want = GONE(UNKNOWN)},
	{"rc/peer-in-reset", "SEND to a QP in RESET: retries exceeded", RC, .config.retry_cnt = 1, .body = peer_in_reset, .want = GONE(RESET)},
	{"rc/peer-in-error", "SEND to a QP in ERR: retries exceeded", RC, .config.retry_cnt = 1, .body = peer_in_error, .want = GONE(ERR)},
	{"rc/flush-all", "to ERR with requests outstanding: all flushed, in order", RC, .body = all_flushed, .want = {NOTHING, .state = {IBV_QPS_ERR, IBV_QPS_RTS}}},
	{"rc/posted-in-error", "posted in ERR: flushed", RC, .body = posted_in_error,
	 .want = {.first = IBV_WC_WR_FLUSH_ERR, .behind = ERR_NONE, .recv_req = IBV_WC_WR_FLUSH_ERR, .recv = ERR_NONE, .recv_behind = ERR_NONE, .state = {IBV_QPS_ERR, IBV_QPS_RTS}}},
	{"rc/reset", "to RESET with requests outstanding: forgotten; sends are refused (EINVAL)", RC, .body = reset_forgets, .want = {NOTHING, .state = {IBV_QPS_RESET, IBV_QPS_RTS}}},
	{"rc/queue-full", "more requests than the queue holds: ENOMEM", RC, .body = queue_full, .want = {NOTHING, .state = {IBV_QPS_RESET, IBV_QPS_RTS}}},
	{"rc/too-many-sges", "more SGEs than the queue allows: EINVAL", RC, .body = too_many_sges, .want = {NOTHING, .state = {IBV_QPS_RTS, IBV_QPS_RTS}}},
	{"rc/wrong-transition", "a transition that does not exist, or an attribute that it does not take: EINVAL, state as before", RC, .body = wrong_transitions, .want = {NOTHING, .state = {IBV_QPS_RTS, IBV_QPS_RTS}}},
	{"rc/bind-without-right", "bind a window to a region without IBV_ACCESS_MW_BIND", RC, .body = window_without_right,
	 .want = {.first = IBV_WC_MW_BIND_ERR, .behind = IBV_WC_WR_FLUSH_ERR, .recv_req = IBV_WC_WR_FLUSH_ERR, .recv = ERR_NONE, .recv_behind = ERR_NONE, .state = {IBV_QPS_ERR, IBV_QPS_RTS}}},
	{"rc/bad-response", "SEND, answered by an atomic's response", RC, .body = nonsense_from_peer, .sim_only = true,
	 .want = {.first = IBV_WC_BAD_RESP_ERR, .behind = IBV_WC_WR_FLUSH_ERR, .recv_req = IBV_WC_WR_FLUSH_ERR, .recv = IBV_WC_SUCCESS, .recv_behind = IBV_WC_SUCCESS, .state = {IBV_QPS_ERR, IBV_QPS_RTS}}},
	{"rc/comm-est", "a message comes while the QP is in RTR", RC, .config.stay_rtr = true, .body = message_in_rtr,
	 .want = {.first = IBV_WC_SUCCESS, .behind = ERR_NONE, .recv_req = ERR_NONE, .recv = IBV_WC_SUCCESS, .recv_behind = ERR_NONE, .state = {IBV_QPS_RTS, IBV_QPS_RTR}, .events = {0, EVENT(COMM_EST)}}},
	{"rc/sq-drained", "to SQD with notification: what is posted after it waits", RC, .body = drained,
	 .want = {.first = ERR_NONE, .behind = ERR_NONE, .recv_req = ERR_NONE, .recv = IBV_WC_SUCCESS, .recv_behind = ERR_NONE, .state = {IBV_QPS_SQD, IBV_QPS_RTS}, .events = {EVENT(SQ_DRAINED), 0}}},
	{"rc/srq-limit", "fewer receives in the SRQ than its limit", RC, .config.srq = true, .body = srq_limit,
	 .want = {.first = IBV_WC_SUCCESS, .behind = ERR_NONE, .recv_req = ERR_NONE, .recv = IBV_WC_SUCCESS, .recv_behind = ERR_NONE, .state = {IBV_QPS_RTS, IBV_QPS_RTS}, .events = {0, EVENT(SRQ_LIMIT_REACHED)}}},
	{"rc/last-wqe", "a QP with an SRQ goes to ERR: the SRQ keeps its receives", RC, .config.srq = true, .body = last_wqe,
	 .want = {NOTHING, .state = {IBV_QPS_RTS, IBV_QPS_ERR}, .events = {0, EVENT(QP_LAST_WQE_REACHED)}}},
	{"rc/cq-overrun", "more completions than the CQ holds: those that fit stay", RC, .config.cqe = 1, .body = cq_overrun,
	 .want = {.first = IBV_WC_SUCCESS, .behind = IBV_WC_SUCCESS, .recv_req = ERR_NONE, .recv = IBV_WC_SUCCESS, .recv_behind = ERR_NONE, .state = {IBV_QPS_RTS, IBV_QPS_RTS}, .events = {0, EVENT(CQ_ERR)}}},
};
/* clang-format on */
const unsigned err_nbodies = sizeof(err_bodies) / sizeof(err_bodies[0]);

/* clang-format off */
#define STATUS(name) IBV_WC_##name, "IBV_WC_" #name
const struct err_absent err_absent_statuses[] = {
	{STATUS(LOC_EEC_OP_ERR), "of the RD service, which verbs does not have"},
	{STATUS(LOC_RDD_VIOL_ERR), "of the RD service"},
	{STATUS(REM_INV_RD_REQ_ERR), "of the RD service"},
	{STATUS(REM_ABORT_ERR), "of the RD service"},
	{STATUS(INV_EECN_ERR), "of the RD service"},
	{STATUS(INV_EEC_STATE_ERR), "of the RD service"},
	{STATUS(RESP_TIMEOUT_ERR), "an adapter's own timeout; a peer that does not answer is IBV_WC_RETRY_EXC_ERR"},
	{STATUS(FATAL_ERR), "a failure of the adapter; an emulated device fails only with its process"},
	{STATUS(GENERAL_ERR), "an adapter's failure"},
	{STATUS(TM_ERR), "tag matching, which is refused (EOPNOTSUPP)"},
	{STATUS(TM_RNDV_INCOMPLETE), "tag matching"},
};
const unsigned err_nabsent_statuses = sizeof(err_absent_statuses) / sizeof(err_absent_statuses[0]);

#define ASYNC(name) IBV_EVENT_##name, "IBV_EVENT_" #name
const struct err_absent err_absent_events[] = {
	{ASYNC(QP_FATAL), "a catastrophic error of the work queue itself: nothing on the wire leads to it"},
	{ASYNC(PATH_MIG), "automatic path migration, which RoCE does not have"},
	{ASYNC(PATH_MIG_ERR), "automatic path migration"},
	{ASYNC(DEVICE_FATAL), "its interface is gone: `test/verbs`, run-time changes"},
	{ASYNC(PORT_ACTIVE), "the interface comes up: `test/verbs`, run-time changes"},
	{ASYNC(PORT_ERR), "the interface goes down: `test/verbs`, run-time changes"},
	{ASYNC(GID_CHANGE), "an address comes or goes: `test/verbs`, run-time changes"},
	{ASYNC(LID_CHANGE), "InfiniBand's subnet management"},
	{ASYNC(PKEY_CHANGE), "InfiniBand's subnet management"},
	{ASYNC(SM_CHANGE), "InfiniBand's subnet management"},
	{ASYNC(CLIENT_REREGISTER), "InfiniBand's subnet management"},
	{ASYNC(SRQ_ERR), "a catastrophic error of the SRQ itself: nothing leads to it"},
	{ASYNC(WQ_FATAL), "WQ objects, which are refused (EOPNOTSUPP)"},
};
const unsigned err_nabsent_events = sizeof(err_absent_events) / sizeof(err_absent_events[0]);
/* clang-format on */
