/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs-check: order and notification: many requests in flight both ways, unsignaled ones, fences,
 * solicited events, more READs than the connection has room for. See vc.h.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "vc.h"

enum {
	SLOT = 16384, /* bytes; a request of the storm has one of its own */
	STORM = 48,   /* requests a round, each way */
	STORM_ROUNDS = 4,
	COUNTER = STORM * SLOT, /* offset of the word for atomics in `in` */
	RESULTS = COUNTER + 64, /* offset of what READs and atomics bring back */
};

struct flow {
	struct vc_conn c;
	unsigned round;
};

static unsigned next_random(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/** What request i of a round is: both sides work it out for themselves. */
struct plan {
	enum ibv_wr_opcode opcode;
	size_t size;
};

static struct plan plan_of(const struct vc *vc, unsigned round, bool by_server, int i)
{
	static const enum ibv_wr_opcode kinds[] = {
		IBV_WR_SEND,	  IBV_WR_RDMA_WRITE,	       IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_IMM,
	};
	unsigned state = round * 1000 + (unsigned)i * 2 + by_server;
	/* Nothing holds UC and UD back, and nothing sends again: all of it must fit a socket
	 * buffer. */
	size_t limit = vc->opt.type == IBV_QPT_RC ? SLOT - VC_GRH : vc->mtu < 1024 ? vc->mtu : 1024;
	struct plan p;

	next_random(&state);
	p.opcode = kinds[next_random(&state) % 6];
	p.size = next_random(&state) % (limit + 1);
	if (vc->opt.type == IBV_QPT_UD ||
	    (vc->opt.type == IBV_QPT_UC && p.opcode != IBV_WR_RDMA_WRITE))
		p.opcode = IBV_WR_SEND;
	if (p.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		p.size = 8;
	/* The last one shows the peer that a UC WRITE before it has arrived. */
	if (i == STORM - 1 && p.opcode == IBV_WR_RDMA_WRITE)
		p.opcode = IBV_WR_SEND;
	return p;
}

static unsigned seed_of(unsigned round, bool by_server, int i)
{
	return round * 100 + (unsigned)i * 2 + by_server;
}

static bool takes_recv(enum ibv_wr_opcode o)
{
	return o == IBV_WR_SEND || o == IBV_WR_SEND_WITH_IMM || o == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool storm_receives(struct vc *vc, struct flow *f, size_t grh)
{
	for (int i = 0; i < STORM; i++) {
		struct plan p = plan_of(vc, f->round, !vc->opt.server, i);
		struct ibv_sge sge;

		if (p.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			VC_TRY(vc_post_recv(&f->c, (uint64_t)i, NULL, 0));
		else if (takes_recv(p.opcode))
			VC_TRY(vc_post_recv(
				&f->c, (uint64_t)i, &sge,
				vc_cut(&sge, 1, &vc->in, (size_t)i * SLOT, grh + p.size)));
	}
	return true;
}

static struct vc_op storm_op(struct vc *vc, struct flow *f, int i)
{
	struct plan p = plan_of(vc, f->round, vc->opt.server, i);
	size_t at = (size_t)i * SLOT;
	struct vc_op op = {
		.opcode = p.opcode,
		.wr_id = (uint64_t)i,
		.flags = IBV_SEND_SIGNALED,
		.imm = (uint32_t)i,
		.raddr = f->c.peer.in_addr + at,
		.rkey = f->c.peer.in_rkey,
		.compare_add = 1,
	};

	op.nsge = vc_cut(op.sge, 1 + i % 3, &vc->out, at, p.size);
	if (p.opcode == IBV_WR_RDMA_READ) {
		op.raddr = f->c.peer.out_addr + at;
		op.rkey = f->c.peer.out_rkey;
		op.nsge = vc_cut(op.sge, 1 + i % 3, &vc->in, RESULTS + at, p.size);
	} else if (p.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		op.raddr = f->c.peer.in_addr + COUNTER;
		op.nsge = vc_cut(op.sge, 1, &vc->in, RESULTS + at, 8);
	}
	return op;
}

/** Everything that was to arrive here has, byte by byte. */
static bool storm_check(struct vc *vc, struct flow *f, size_t grh)
{
	uint64_t adds = 0, counter, old, last = 0;

	for (int i = 0; i < STORM; i++) {
		struct plan theirs = plan_of(vc, f->round, !vc->opt.server, i);
		struct plan mine = plan_of(vc, f->round, vc->opt.server, i);
		size_t at = (size_t)i * SLOT;

		if (theirs.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			adds++;
		else if (theirs.opcode != IBV_WR_RDMA_READ)
			VC_TRY(vc_same(vc,
				       vc->in.data + at + (theirs.opcode == IBV_WR_SEND ? grh : 0),
				       theirs.size, seed_of(f->round, !vc->opt.server, i),
				       "storm: arrived"));
		if (mine.opcode == IBV_WR_RDMA_READ)
			VC_TRY(vc_same(vc, vc->in.data + RESULTS + at, mine.size,
				       seed_of(f->round, !vc->opt.server, i), "storm: read"));
		if (mine.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			memcpy(&old, vc->in.data + RESULTS + at, 8);
			VC_CHECK(vc, old == last, "storm: FETCH_ADD returned %llu, not %llu",
				 (unsigned long long)old, (unsigned long long)last);
			last++;
		}
	}
	memcpy(&counter, vc->in.data + COUNTER, 8);
	VC_CHECK(vc, counter == adds, "storm: the counter is %llu, not %llu",
		 (unsigned long long)counter, (unsigned long long)adds);
	return true;
}

/** Both sides post STORM requests of all kinds in lists of 1 to 8, and each checks order and bytes.
 */
static bool case_storm(struct vc *vc, void *arg)
{
	struct flow *f = arg;
	size_t grh = vc->opt.type == IBV_QPT_UD ? VC_GRH : 0;
	struct vc_op ops[8];
	struct vc_done d;
	unsigned state = f->round;

	vc_buf_clear(&vc->in, RESULTS + STORM * SLOT);
	memset(vc->in.data + COUNTER, 0, 8);
	for (int i = 0; i < STORM; i++)
		vc_fill(vc->out.data + i * SLOT, SLOT, seed_of(f->round, vc->opt.server, i));
	VC_TRY(storm_receives(vc, f, grh));
	VC_TRY(vc_sync(vc));
	for (int i = 0; i < STORM;) {
		int n = 1 + (int)(next_random(&state) % 8), rc;

		if (n > STORM - i)
			n = STORM - i;
		for (int k = 0; k < n; k++)
			ops[k] = storm_op(vc, f, i + k);
		rc = vc_post(&f->c, ops, n);
		VC_CHECK(vc, rc == 0, "post: %s", strerror(rc));
		i += n;
	}
	for (int i = 0; i < STORM; i++)
		VC_TRY(vc_wait_ok(&f->c, f->c.scq, (uint64_t)i, &d));
	for (int i = 0; i < STORM; i++) {
		struct plan p = plan_of(vc, f->round, !vc->opt.server, i);

		if (!takes_recv(p.opcode))
			continue;
		VC_TRY(vc_wait_ok(&f->c, f->c.rcq, (uint64_t)i, &d));
	}
	VC_TRY(vc_sync(vc));
	VC_TRY(storm_check(vc, f, grh));
	return vc_sync(vc);
}

/* ---- one thing each ---- */

static bool case_unsignaled(struct vc *vc, void *arg)
{
	struct vc_conn *c = arg;
	struct vc_op ops[8];
	struct ibv_sge sge;
	struct vc_done d;
	int rc;

	if (!vc->active) {
		for (int i = 0; i < 8; i++)
			VC_TRY(vc_post_recv(c, (uint64_t)i, &sge,
					    vc_cut(&sge, 1, &vc->in, 0, 128)));
		VC_TRY(vc_sync(vc));
		for (int i = 0; i < 8; i++)
			VC_TRY(vc_wait_ok(c, c->rcq, (uint64_t)i, &d));
		return vc_sync(vc);
	}
	for (int i = 0; i < 8; i++) {
		ops[i] = (struct vc_op){
			.opcode = IBV_WR_SEND,
			.wr_id = (uint64_t)i,
			.flags = i == 5 ? IBV_SEND_SIGNALED : 0,
		};
		ops[i].nsge = vc_cut(ops[i].sge, 1, &vc->out, 0, 64);
	}
	VC_TRY(vc_sync(vc));
	rc = vc_post(c, ops, 8);
	VC_CHECK(vc, rc == 0, "post: %s", strerror(rc));
	VC_TRY(vc_wait_ok(c, c->scq, 5, &d));
	VC_TRY(vc_sync(vc)); /* all have arrived */
	VC_CHECK(vc, !vc_poll(c, c->scq, &d), "a completion of unsignaled request %llu",
		 (unsigned long long)d.wr_id);
	return true;
}

/** Far more requests than the queue holds, nearly all unsignaled: the places come back all the
 * same. */
static bool case_many_unsignaled(struct vc *vc, void *arg)
{
	enum { BATCH = VC_DEPTH / 2, BATCHES = 12 };
	struct vc_conn *c = arg;
	struct vc_done d;

	VC_TRY(vc_sync(vc));
	for (int b = 0; vc->active && b < BATCHES; b++) {
		for (int i = 0; i < BATCH; i++) {
			struct vc_op op = {
				.opcode = IBV_WR_RDMA_WRITE,
				.wr_id = (uint64_t)b,
				.flags = i == BATCH - 1 ? IBV_SEND_SIGNALED : 0,
				.raddr = c->peer.in_addr,
				.rkey = c->peer.in_rkey,
			};
			int rc;

			op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 32);
			rc = vc_post(c, &op, 1);
			VC_CHECK(vc, rc == 0, "batch %d request %d: %s", b, i, strerror(rc));
		}
		VC_TRY(vc_wait_ok(c, c->scq, (uint64_t)b, &d));
	}
	return vc_sync(vc);
}

/** READ, then a fenced SEND of what the READ brings: the SEND must carry the new bytes. */
static bool case_fence(struct vc *vc, void *arg)
{
	struct vc_conn *c = arg;
	const size_t size = 20000;
	struct vc_op ops[2];
	struct ibv_sge sge;
	struct vc_done d;
	int rc;

	vc_buf_clear(&vc->in, size);
	if (!vc->active) {
		vc_fill(vc->out.data, size, 42);
		VC_TRY(vc_post_recv(c, 1, &sge, vc_cut(&sge, 1, &vc->in, 0, size)));
		VC_TRY(vc_sync(vc));
		VC_TRY(vc_wait_ok(c, c->rcq, 1, &d));
		VC_TRY(vc_same(vc, vc->in.data, size, 42, "sent behind the fence"));
		return vc_sync(vc);
	}
	ops[0] = (struct vc_op){.opcode = IBV_WR_RDMA_READ,
				.wr_id = 1,
				.raddr = c->peer.out_addr,
				.rkey = c->peer.out_rkey};
	ops[0].nsge = vc_cut(ops[0].sge, 1, &vc->in, 0, size);
	ops[1] = (struct vc_op){
		.opcode = IBV_WR_SEND, .wr_id = 2, .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE};
	ops[1].nsge = vc_cut(ops[1].sge, 1, &vc->in, 0, size);
	VC_TRY(vc_sync(vc));
	rc = vc_post(c, ops, 2);
	VC_CHECK(vc, rc == 0, "post: %s", strerror(rc));
	VC_TRY(vc_wait_ok(c, c->scq, 2, &d));
	return vc_sync(vc);
}

static bool case_many_reads(struct vc *vc, void *arg)
{
	enum { READS = 8 * VC_RD_ATOMIC, SIZE = 9000 };
	struct vc_conn *c = arg;
	struct vc_op ops[READS];
	struct vc_done d;
	int rc;

	vc_fill(vc->out.data, READS * SIZE, 3);
	vc_buf_clear(&vc->in, READS * SIZE);
	VC_TRY(vc_sync(vc));
	if (vc->active) {
		for (int i = 0; i < READS; i++) {
			size_t at = (size_t)i * SIZE;

			ops[i] = (struct vc_op){
				.opcode = IBV_WR_RDMA_READ,
				.wr_id = (uint64_t)i,
				.flags = IBV_SEND_SIGNALED,
				.raddr = c->peer.out_addr + at,
				.rkey = c->peer.out_rkey,
			};
			ops[i].nsge = vc_cut(ops[i].sge, 1, &vc->in, at, SIZE);
		}
		rc = vc_post(c, ops, READS);
		VC_CHECK(vc, rc == 0, "post: %s", strerror(rc));
		for (int i = 0; i < READS; i++)
			VC_TRY(vc_wait_ok(c, c->scq, (uint64_t)i, &d));
		VC_TRY(vc_same(vc, vc->in.data, READS * SIZE, 3, "read"));
		VC_TRY(vc_buf_guards(vc, &vc->in, READS * SIZE));
	}
	return vc_sync(vc);
}

static bool event_now(struct ibv_comp_channel *channel)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static bool take_event(struct vc *vc, struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *which;
	void *context;

	VC_CHECK(vc, poll(&p, 1, VC_WAIT_S * 1000) == 1, "no event");
	VC_CHECK(vc, ibv_get_cq_event(channel, &which, &context) == 0 && which == cq,
		 "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

/**
 * A CQ armed for solicited completions only: silent for an ordinary SEND (the RC acknowledgement
 * proves that it was completed), an event for a solicited one; and nothing at all when it is not
 * armed.
 */
static bool case_solicited(struct vc *vc, void *arg)
{
	struct vc_conn *c = arg;
	struct ibv_sge sge;
	struct vc_done d;

	if (!vc->active) {
		for (int i = 0; i < 3; i++)
			VC_TRY(vc_post_recv(c, (uint64_t)i, &sge, vc_cut(&sge, 1, &vc->in, 0, 64)));
		VC_CHECK(vc, ibv_req_notify_cq(c->rcq, 1) == 0, "ibv_req_notify_cq");
		VC_TRY(vc_sync(vc)); /* armed */
		VC_TRY(vc_sync(vc)); /* an ordinary one is here */
		VC_CHECK(vc, !event_now(c->rchannel), "an event for an unsolicited completion");
		VC_TRY(vc_sync(vc));
		VC_TRY(take_event(vc, c->rchannel, c->rcq));
		VC_TRY(vc_sync(vc));
		VC_TRY(vc_sync(vc)); /* another solicited one is here, but the CQ is not armed */
		VC_CHECK(vc, !event_now(c->rchannel), "a second event for one request");
		for (int i = 0; i < 3; i++)
			VC_TRY(vc_wait_ok(c, c->rcq, (uint64_t)i, &d));
		return vc_sync(vc);
	}
	for (int i = 0; i < 3; i++) {
		struct vc_op op = {
			.opcode = IBV_WR_SEND,
			.wr_id = (uint64_t)i,
			.flags = IBV_SEND_SIGNALED | (i > 0 ? IBV_SEND_SOLICITED : 0),
		};
		int rc;

		VC_TRY(vc_sync(vc));
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 8);
		rc = vc_post(c, &op, 1);
		VC_CHECK(vc, rc == 0, "post: %s", strerror(rc));
		VC_TRY(vc_wait_ok(c, c->scq, (uint64_t)i, &d));
		if (i != 1)
			VC_TRY(vc_sync(vc));
	}
	return vc_sync(vc);
}

static bool case_new(struct vc *vc, void *arg)
{
	return vc_conn_new(vc, arg, NULL);
}

void vc_group_flow(struct vc *vc)
{
	struct flow f = {.c = {.vc = vc}};
	bool ok = vc_case(vc, "connect", false, case_new, &f.c);
	char name[40];

	for (f.round = 0; ok && f.round < STORM_ROUNDS; f.round++) {
		snprintf(name, sizeof(name), "storm %u", f.round);
		ok = vc_case(vc, name, false, case_storm, &f);
	}
	if (ok)
		ok = vc_case(vc, "unsignaled", false, case_unsignaled, &f.c);
	if (ok && vc->opt.type != IBV_QPT_UD)
		ok = vc_case(vc, "many_unsignaled", false, case_many_unsignaled, &f.c);
	if (ok && vc->opt.type == IBV_QPT_RC) {
		ok = vc_case(vc, "fence", false, case_fence, &f.c);
		ok = ok && vc_case(vc, "many_reads", false, case_many_reads, &f.c);
		/*
		 * With CQs that were not armed yet: a weaker request does not cancel a stronger
		 * one.
		 */
		vc_conn_free(&f.c);
		ok = ok && vc_case(vc, "connect again", false, case_new, &f.c);
		ok = ok && vc_case(vc, "solicited", false, case_solicited, &f.c);
	}
	vc_conn_free(&f.c);
}
