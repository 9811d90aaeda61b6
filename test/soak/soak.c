/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soak: see soak.h. With --survive the server takes one client after the other, and
 * each may be killed or stopped: then all requests have to complete, in order, and
 * everything can be taken apart.
 *
 *	soak --port N [--device NAME] [--qps N] [--seconds N] [--seed N]
 *	     [--timeout N] [--survive] [--rounds N] [HOST]
 */
#include "soak.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum op { OP_SEND, OP_WRITE, OP_ADD, OP_SWAP, OPS };
enum { HANG_GUARD_S = 180 };
#define WR_RECV UINT32_C(0x80000000) /* in a wr_id: of a receive */
#define WR_BACK UINT32_C(0x40000000) /* ... of the READ that follows a WRITE */

struct slot {
	enum op op;
	unsigned pending; /* completions that are missing */
	uint32_t len;
	uint64_t seed, expect; /* the data; what an atomic has to return */
	bool chained;	       /* the READ was posted together with its WRITE */
};

struct conn {
	struct ibv_qp *qp;
	struct soak_qp_mem *mem;
	struct slot slot[SOAK_SLOTS];
	uint32_t order[4 * SOAK_SLOTS]; /* wr_ids of send requests that are not complete */
	unsigned head, tail;
	uint64_t adds, word, sends, received;
	bool dead;
};

struct soak {
	struct soak_opts opt;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *base;
	size_t len;
	struct soak_hello peer;
	struct conn conn[SOAK_MAX_QPS];
	uint64_t rng, done[OPS], bytes, failed, flushed;
	bool stopping;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t random_below(struct soak *s, uint32_t n)
{
	uint8_t bytes[8];
	uint64_t v;

	soak_fill(bytes, sizeof(bytes), s->rng++);
	memcpy(&v, bytes, sizeof(v));
	return (uint32_t)(v % n);
}

static unsigned index_of(const struct soak *s, const struct conn *c)
{
	return (unsigned)(c - s->conn);
}

/* ---- posting ---- */

static void post(struct soak *s, struct conn *c, struct ibv_send_wr *wr, void *local, uint32_t len,
		 uint32_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = len, .lkey = s->mr->lkey};
	struct ibv_send_wr *bad;
	int rc;

	wr->wr_id = (uint64_t)index_of(s, c) << 32 | id;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	rc = ibv_post_send(c->qp, wr, &bad);
	if (rc)
		soak_die("ibv_post_send: %s", strerror(rc));
	c->order[c->tail++ % (4 * SOAK_SLOTS)] = id;
	c->slot[id & ~WR_BACK].pending++;
}

/** Where an offset of this QP's memory is at the peer. */
static uint64_t remote(const struct soak *s, const struct conn *c, size_t offset)
{
	return s->peer.addr + index_of(s, c) * sizeof(struct soak_qp_mem) + offset;
}

static void post_back(struct soak *s, struct conn *c, uint32_t i)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ};

	wr.wr.rdma.remote_addr =
		remote(s, c, offsetof(struct soak_qp_mem, target) + (size_t)i * SOAK_LEN);
	wr.wr.rdma.rkey = s->peer.rkey;
	post(s, c, &wr, c->mem->back[i], c->slot[i].len, i | WR_BACK);
}

static void post_data(struct soak *s, struct conn *c, uint32_t i)
{
	struct slot *slot = &c->slot[i];
	struct ibv_send_wr wr = {.opcode = slot->op == OP_SEND ? IBV_WR_SEND : IBV_WR_RDMA_WRITE};
	/* Mostly whole packets and more, sometimes a few bytes. */
	uint32_t most = random_below(s, 4) ? SOAK_LEN : 64;

	slot->len = 1 + random_below(s, most);
	slot->chained = random_below(s, 2);
	slot->seed = (uint64_t)random_below(s, UINT32_MAX) << 32;
	if (slot->op == OP_SEND) /* the receiver computes the same */
		slot->seed = ++c->sends << 8 | index_of(s, c);
	soak_fill(c->mem->source[i], slot->len, slot->seed);
	wr.wr.rdma.remote_addr =
		remote(s, c, offsetof(struct soak_qp_mem, target) + (size_t)i * SOAK_LEN);
	wr.wr.rdma.rkey = s->peer.rkey;
	post(s, c, &wr, c->mem->source[i], slot->len, i);
	if (slot->op == OP_WRITE && slot->chained)
		post_back(s, c, i);
}

static void post_atomic(struct soak *s, struct conn *c, uint32_t i)
{
	struct slot *slot = &c->slot[i];
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
	size_t offset = offsetof(struct soak_qp_mem, counter);

	wr.wr.atomic.compare_add = 1;
	slot->expect = c->adds;
	if (slot->op == OP_ADD) {
		c->adds++;
	} else {
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		offset = offsetof(struct soak_qp_mem, word);
		wr.wr.atomic.compare_add = slot->expect = c->word;
		wr.wr.atomic.swap = c->word = c->word * 5 + 1;
	}
	wr.wr.atomic.remote_addr = remote(s, c, offset);
	wr.wr.atomic.rkey = s->peer.rkey;
	slot->len = 8;
	post(s, c, &wr, &c->mem->result[i], 8, i);
}

static void start_slot(struct soak *s, struct conn *c, uint32_t i)
{
	if (s->stopping || c->dead)
		return;
	c->slot[i].op = (enum op)random_below(s, OPS);
	if (c->slot[i].op <= OP_WRITE)
		post_data(s, c, i);
	else
		post_atomic(s, c, i);
}

static void post_recv(struct soak *s, struct conn *c, uint32_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)c->mem->recv[i], .length = SOAK_LEN, .lkey = s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)index_of(s, c) << 32 | WR_RECV | i,
				 .sg_list = &sge,
				 .num_sge = 1};
	struct ibv_recv_wr *bad;
	int rc = ibv_post_recv(c->qp, &wr, &bad);

	if (rc)
		soak_die("ibv_post_recv: %s", strerror(rc));
}

/* ---- completions ---- */

static void on_received(struct soak *s, struct conn *c, const struct ibv_wc *wc, uint32_t i)
{
	uint64_t seed = ++c->received << 8 | index_of(s, c);
	long at = soak_compare(c->mem->recv[i], wc->byte_len, seed);

	if (at >= 0)
		soak_die("QP %u, SEND %" PRIu64 " of %u bytes: wrong from byte %ld on",
			 index_of(s, c), c->received, wc->byte_len, at);
	s->bytes += wc->byte_len;
	post_recv(s, c, i);
}

static void check_slot(struct soak *s, struct conn *c, uint32_t i)
{
	struct slot *slot = &c->slot[i];
	long at = slot->op == OP_WRITE ? soak_compare(c->mem->back[i], slot->len, slot->seed) : -1;

	if (at >= 0)
		soak_die("QP %u, WRITE of %u bytes: read back, it is wrong from byte %ld on",
			 index_of(s, c), slot->len, at);
	if (slot->op >= OP_ADD && c->mem->result[i] != slot->expect)
		soak_die("QP %u, atomic %d: %" PRIu64 " returned, not %" PRIu64, index_of(s, c),
			 slot->op, c->mem->result[i], slot->expect);
	s->done[slot->op]++;
	s->bytes += slot->op == OP_WRITE ? 2 * (uint64_t)slot->len : slot->len;
}

static void on_sent(struct soak *s, struct conn *c, uint32_t id)
{
	uint32_t i = id & ~WR_BACK;
	struct slot *slot = &c->slot[i];

	if (--slot->pending > 0)
		return;
	if (slot->op == OP_WRITE && !slot->chained && id == i) {
		post_back(s, c, i);
		return;
	}
	check_slot(s, c, i);
	start_slot(s, c, i);
}

static void on_failed(struct soak *s, struct conn *c, const struct ibv_wc *wc, bool recv)
{
	if (!s->opt.survive ||
	    (wc->status != IBV_WC_RETRY_EXC_ERR && wc->status != IBV_WC_WR_FLUSH_ERR))
		soak_die("QP %u: %s of a %s", index_of(s, c), ibv_wc_status_str(wc->status),
			 recv ? "receive" : "request");
	if (wc->status == IBV_WC_RETRY_EXC_ERR)
		s->failed++;
	else
		s->flushed++;
	c->dead = true;
}

static void on_completion(struct soak *s, const struct ibv_wc *wc)
{
	struct conn *c = &s->conn[wc->wr_id >> 32];
	uint32_t id = (uint32_t)wc->wr_id;

	if (!(id & WR_RECV)) {
		uint32_t oldest = c->order[c->head % (4 * SOAK_SLOTS)];

		if (c->head == c->tail || oldest != id)
			soak_die("QP %u: request %x completed, not %x", index_of(s, c), id, oldest);
		c->head++;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		on_failed(s, c, wc, id & WR_RECV);
		if (!(id & WR_RECV))
			c->slot[id & ~WR_BACK].pending--;
	} else if (id & WR_RECV) {
		on_received(s, c, wc, id & ~WR_RECV);
	} else if (!c->dead) {
		on_sent(s, c, id);
	} else {
		soak_die("QP %u: a request succeeded after one that failed", index_of(s, c));
	}
}

/** Take what is complete, or wait a little for it. @return how many completions. */
static unsigned progress(struct soak *s)
{
	struct pollfd p = {.fd = s->channel->fd, .events = POLLIN};
	struct ibv_wc wc[32];
	struct ibv_cq *cq;
	unsigned total = 0;
	void *ctx;
	int n;

	while ((n = ibv_poll_cq(s->cq, 32, wc)) > 0) {
		for (int i = 0; i < n; i++)
			on_completion(s, &wc[i]);
		total += (unsigned)n;
	}
	if (n < 0)
		soak_die("ibv_poll_cq failed");
	if (total)
		return total;
	if (poll(&p, 1, 50) == 1 && ibv_get_cq_event(s->channel, &cq, &ctx) == 0)
		ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(s->cq, 0);
	return 0;
}

static bool idle(const struct soak *s)
{
	for (unsigned i = 0; i < s->opt.qps; i++)
		if (s->conn[i].head != s->conn[i].tail)
			return false;
	return true;
}

static bool any_dead(const struct soak *s)
{
	for (unsigned i = 0; i < s->opt.qps; i++)
		if (s->conn[i].dead)
			return true;
	return false;
}

static void report(const struct soak *s, const char *word, double seconds)
{
	printf("%s seconds %.1f sends %" PRIu64 " writes_read_back %" PRIu64 " adds %" PRIu64
	       " swaps %" PRIu64 " bytes %" PRIu64 " failed %" PRIu64 " flushed %" PRIu64 "\n",
	       word, seconds, s->done[OP_SEND], s->done[OP_WRITE], s->done[OP_ADD],
	       s->done[OP_SWAP], s->bytes, s->failed, s->flushed);
	fflush(stdout);
}

/* ---- a round: from connection to the end of either side ---- */

/** Until no request is left. The guard is for a transport that hangs. */
static void drain(struct soak *s)
{
	double end = now_s() + HANG_GUARD_S;

	s->stopping = true;
	while (!idle(s)) {
		if (progress(s))
			end = now_s() + HANG_GUARD_S;
		if (now_s() > end)
			soak_die("requests do not complete");
	}
}

/** The peer has closed, or is gone. */
static bool peer_ended(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void run_traffic(struct soak *s, int sock)
{
	double begin = now_s(), next = begin, last = begin, now;

	for (unsigned i = 0; i < s->opt.qps; i++)
		for (uint32_t k = 0; k < SOAK_SLOTS; k++)
			start_slot(s, &s->conn[i], k);
	while ((now = now_s()) - begin < s->opt.seconds && !any_dead(s) && !peer_ended(sock)) {
		if (progress(s))
			last = now;
		if (now - last > HANG_GUARD_S)
			soak_die("nothing completes");
		if (now >= next) {
			report(s, "progress", now - begin);
			next = now + (s->opt.survive ? 0.1 : 2);
		}
	}
	/* Requests to a peer that is gone fail by themselves. */
	drain(s);
	report(s, any_dead(s) ? "ended" : "done", now_s() - begin);
}

/** A peer that is gone is allowed with --survive only. @return false. */
static bool peer_gone(const struct soak *s)
{
	if (!s->opt.survive)
		soak_die("the peer is gone");
	return false;
}

static void check_totals(const struct soak *s, const struct soak_bye *theirs)
{
	for (unsigned i = 0; i < s->opt.qps; i++) {
		const struct conn *c = &s->conn[i];

		if (c->received != theirs->sends[i])
			soak_die("QP %u: %" PRIu64 " SENDs received of %" PRIu64, i, c->received,
				 theirs->sends[i]);
		if (c->mem->counter != theirs->adds[i] || c->mem->word != theirs->word[i])
			soak_die("QP %u: the atomics left %" PRIu64 " and %" PRIu64 ", not %" PRIu64
				 " and %" PRIu64,
				 i, c->mem->counter, c->mem->word, theirs->adds[i],
				 theirs->word[i]);
	}
}

/** All that this side sent is acknowledged: compare the totals once that is so at the peer. */
static bool say_goodbye(struct soak *s, int sock)
{
	struct soak_bye mine = {{0}}, theirs = {{0}};
	double end = now_s() + HANG_GUARD_S + s->opt.seconds;
	char c;

	for (unsigned i = 0; i < s->opt.qps; i++) {
		mine.sends[i] = s->conn[i].sends;
		mine.adds[i] = s->conn[i].adds;
		mine.word[i] = s->conn[i].word;
	}
	if (send(sock, &mine, sizeof(mine), MSG_NOSIGNAL) != (ssize_t)sizeof(mine))
		return peer_gone(s);
	/* The peer may still be at work: take what it sends. */
	while (!peer_ended(sock)) {
		if (now_s() > end)
			soak_die("the peer does not end");
		progress(s);
	}
	if (recv(sock, &theirs, sizeof(theirs), MSG_WAITALL) != (ssize_t)sizeof(theirs))
		return peer_gone(s);
	while (progress(s))
		;
	check_totals(s, &theirs);
	return soak_swap(sock, "", &c, 1) || peer_gone(s);
}

static bool open_round(struct soak *s, int sock)
{
	struct soak_hello mine = {.qps = s->opt.qps, .timeout = s->opt.timeout};
	struct ibv_qp_init_attr attr = {
		.cap = {4 * SOAK_SLOTS, SOAK_RECVS, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_port_attr port;

	s->len = s->opt.qps * sizeof(struct soak_qp_mem);
	s->base = mmap(NULL, s->len + 2 * SOAK_GUARD, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->base == MAP_FAILED)
		soak_die("memory: %s", strerror(errno));
	memset(s->base, SOAK_GUARD_BYTE, SOAK_GUARD);
	memset(s->base + SOAK_GUARD + s->len, SOAK_GUARD_BYTE, SOAK_GUARD);
	s->pd = ibv_alloc_pd(s->ctx);
	s->channel = ibv_create_comp_channel(s->ctx);
	s->cq = ibv_create_cq(s->ctx, (int)(s->opt.qps * (4 * SOAK_SLOTS + SOAK_RECVS)), NULL,
			      s->channel, 0);
	s->mr = ibv_reg_mr(s->pd, s->base + SOAK_GUARD, s->len,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!s->cq || !s->mr || ibv_query_port(s->ctx, 1, &port) ||
	    ibv_query_gid(s->ctx, 1, 0, &mine.gid))
		soak_die("verbs objects: %s", strerror(errno));
	mine.rkey = s->mr->rkey;
	mine.addr = (uintptr_t)s->base + SOAK_GUARD;
	mine.mtu = (uint8_t)port.active_mtu;
	attr.send_cq = attr.recv_cq = s->cq;
	for (unsigned i = 0; i < s->opt.qps; i++) {
		struct conn *c = &s->conn[i];

		*c = (struct conn){.qp = ibv_create_qp(s->pd, &attr)};
		if (!c->qp)
			soak_die("ibv_create_qp: %s", strerror(errno));
		c->mem = (struct soak_qp_mem *)(void *)(s->base + SOAK_GUARD) + i;
		mine.qpn[i] = c->qp->qp_num;
	}
	ibv_req_notify_cq(s->cq, 0);
	if (!soak_swap(sock, &mine, &s->peer, sizeof(mine)))
		return peer_gone(s);
	if (s->peer.qps != s->opt.qps)
		soak_die("--qps %u here, %u there", s->opt.qps, s->peer.qps);
	/* The client's timeout counts on both sides. */
	if (s->opt.host)
		s->peer.timeout = s->opt.timeout;
	for (unsigned i = 0; i < s->opt.qps; i++) {
		soak_connect_qp(s->conn[i].qp, &s->peer, s->peer.qpn[i],
				mine.mtu < s->peer.mtu ? mine.mtu : s->peer.mtu);
		for (uint32_t k = 0; k < SOAK_RECVS; k++)
			post_recv(s, &s->conn[i], k);
	}
	/* No side sends before the other can receive. */
	return soak_swap(sock, "", &(char){0}, 1) || peer_gone(s);
}

static void close_round(struct soak *s)
{
	for (unsigned i = 0; i < s->opt.qps; i++)
		if (ibv_destroy_qp(s->conn[i].qp))
			soak_die("ibv_destroy_qp failed");
	if (ibv_dereg_mr(s->mr) || ibv_destroy_cq(s->cq) || ibv_destroy_comp_channel(s->channel) ||
	    ibv_dealloc_pd(s->pd))
		soak_die("something is still in use");
	for (size_t i = 0; i < SOAK_GUARD; i++)
		if (s->base[i] != SOAK_GUARD_BYTE ||
		    s->base[SOAK_GUARD + s->len + i] != SOAK_GUARD_BYTE)
			soak_die("a byte outside the registered memory was written");
	munmap(s->base, s->len + 2 * SOAK_GUARD);
}

static unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void run_round(struct soak *s, int sock)
{
	memset(s->done, 0, sizeof(s->done));
	s->bytes = s->failed = s->flushed = 0;
	s->stopping = false;
	if (open_round(s, sock)) {
		run_traffic(s, sock);
		if (!any_dead(s))
			say_goodbye(s, sock);
	}
	close_round(s);
	close(sock);
	printf("round over fds %u\n", count_fds());
	fflush(stdout);
}

static void parse(struct soak_opts *o, int argc, char **argv)
{
	static const struct option options[] = {
		{"port", 1, NULL, 'p'},	   {"device", 1, NULL, 'd'},  {"qps", 1, NULL, 'q'},
		{"seconds", 1, NULL, 's'}, {"seed", 1, NULL, 'r'},    {"timeout", 1, NULL, 't'},
		{"rounds", 1, NULL, 'n'},  {"survive", 0, NULL, 'v'}, {NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		unsigned long v = optarg ? strtoul(optarg, NULL, 10) : 0;

		if (c == '?')
			exit(2);
		*(c == 'p'   ? &o->port
		  : c == 'q' ? &o->qps
		  : c == 's' ? &o->seconds
		  : c == 't' ? &o->timeout
		  : c == 'n' ? &o->rounds
			     : &(unsigned){0}) = (unsigned)v;
		if (c == 'd')
			o->device = optarg;
		else if (c == 'r')
			o->seed = v;
		else if (c == 'v')
			o->survive = true;
	}
	o->host = argv[optind];
	if (o->port == 0 || o->qps == 0 || o->qps > SOAK_MAX_QPS || o->timeout > 31) {
		fprintf(stderr, "soak: --port, --qps 1-%d, --timeout 0-31\n", SOAK_MAX_QPS);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static struct soak s = {
		.opt = {.qps = 4, .seconds = 10, .rounds = 1, .timeout = 16, .seed = 1}};
	int listener = -1;

	parse(&s.opt, argc, argv);
	s.rng = s.opt.seed << 40 | (s.opt.host ? UINT64_C(1) << 39 : 0);
	s.ctx = soak_open(s.opt.device);
	if (s.opt.host) {
		int sock = soak_dial(s.opt.host, s.opt.port);

		puts("connected");
		fflush(stdout);
		run_round(&s, sock);
	} else {
		listener = soak_listen(s.opt.port);
		for (unsigned i = 0; i < s.opt.rounds; i++) {
			int sock = accept(listener, NULL, NULL);

			if (sock < 0)
				soak_die("accept: %s", strerror(errno));
			run_round(&s, sock);
		}
		close(listener);
	}
	if (ibv_close_device(s.ctx))
		soak_die("ibv_close_device failed");
	return 0;
}
