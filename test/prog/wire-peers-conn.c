/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection of wire-peers. Both sides do the same: a round writes to the peer's memory and sends
 * FILLED; when the peer's FILLED has come, it checks what the peer has written, and reads the
 * peer's memory and checks that; then it sends TAKEN, and the next round begins when the peer's
 * TAKEN has come. Beside that a stream of WRITEs never pauses, so that requests are outstanding
 * whenever the peer ends.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire-peers.h"

enum { PRINT_EVERY = 16 };

/* ---- data ---- */

static uint32_t seed_of(const struct conn *c, uint32_t round, bool of_peer)
{
	return (round * 2 + (c->serves != of_peer)) * 2654435761u;
}

static void fill(uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((seed + i * 40503u) >> 9);
}

static bool is_filled(const uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)((seed + i * 40503u) >> 9))
			return false;
	return true;
}

/* ---- requests ---- */

static void post_recv(struct conn *c, unsigned i)
{
	struct ibv_sge sge = {(uintptr_t)&c->mem->in[i], sizeof(struct message), c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECV, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(c->qp, &wr, &bad))
		die("ibv_post_recv");
}

/** here, there: offsets in struct memory. */
static void post(struct conn *c, enum kind kind, size_t here, size_t len, size_t there)
{
	static const enum ibv_wr_opcode opcode[] = {
		[WRITE] = IBV_WR_RDMA_WRITE,
		[STREAM] = IBV_WR_RDMA_WRITE,
		[READ] = IBV_WR_RDMA_READ,
		[SEND] = IBV_WR_SEND,
	};
	struct ibv_sge sge = {(uintptr_t)c->mem + here, (uint32_t)len, c->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = kind,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode[kind],
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = c->peers.addr + there, .rkey = c->peers.rkey},
	};
	struct ibv_send_wr *bad;

	if (ibv_post_send(c->qp, &wr, &bad))
		die("ibv_post_send");
}

static void post_stream(struct conn *c)
{
	c->streams++;
	post(c, STREAM, offsetof(struct memory, stream_out), STREAM_LEN,
	     offsetof(struct memory, stream_in));
}

static void send_message(struct conn *c, uint32_t round, enum step step, bool stop)
{
	struct message *m = &c->mem->out[step == TAKEN];

	m->round = round;
	m->step = (uint8_t)step;
	m->stop = stop;
	fill(m->data, sizeof(m->data), seed_of(c, round, false) + (uint32_t)step);
	post(c, SEND, (size_t)((uint8_t *)m - (uint8_t *)c->mem), sizeof(*m), 0);
}

/* ---- completions ---- */

/** Wait for completions. @return how many; 0: of the last event, all were polled before. */
static int take(struct conn *c, struct ibv_wc *wc, int room)
{
	struct ibv_cq *cq;
	void *arg;
	int n = ibv_poll_cq(c->cq, room, wc);

	if (n || c->o->poll)
		return n;
	if (ibv_req_notify_cq(c->cq, 0))
		die("ibv_req_notify_cq");
	n = ibv_poll_cq(c->cq, room, wc);
	if (n)
		return n;
	if (ibv_get_cq_event(c->ch, &cq, &arg))
		die("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return 0;
}

/** @return IBV_WC_SUCCESS, or the first other status. */
static enum ibv_wc_status progress(struct conn *c)
{
	struct ibv_wc wc[8];
	const int n = take(c, wc, 8);

	if (n < 0)
		die("ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return wc[i].status;
		c->done[wc[i].wr_id]++;
		if (wc[i].wr_id != STREAM)
			continue;
		c->streams--;
		if (!c->quiet)
			post_stream(c);
	}
	return IBV_WC_SUCCESS;
}

/** One more of that kind. */
static enum ibv_wc_status await(struct conn *c, enum kind kind)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	c->waited[kind]++;
	while (!status && c->done[kind] < c->waited[kind])
		status = progress(c);
	return status;
}

/* ---- a round ---- */

/** What a round ends by beside IBV_WC_SUCCESS and other statuses. */
enum { WRONG = -1 };

static int wrong(const struct conn *c, const char *what)
{
	if (c->o->careless)
		return 0;
	printf("%s wrong %s\n", c->peers.name, what);
	return WRONG;
}

/** @return 0, a status or WRONG. The message's stop flag is added to *stop. */
static int receive(struct conn *c, uint32_t round, enum step step, bool *stop)
{
	const unsigned i = c->waited[RECV] % RECVS;
	const struct message *m = &c->mem->in[i];
	int ret = (int)await(c, RECV);

	if (ret)
		return ret;
	if (m->round != round || m->step != step)
		ret = wrong(c, "message");
	else if (!is_filled(m->data, sizeof(m->data), seed_of(c, round, true) + (uint32_t)step))
		ret = wrong(c, "data of a SEND");
	if (ret)
		return ret;
	*stop |= m->stop;
	post_recv(c, i);
	return 0;
}

/** The peer has written, and its memory is filled. */
static int check_peer(struct conn *c, uint32_t round)
{
	struct memory *m = c->mem;
	int ret = 0;

	if (!is_filled(m->written, WRITE_LEN, seed_of(c, round, true)))
		ret = wrong(c, "data of a WRITE");
	if (ret)
		return ret;
	post(c, READ, offsetof(struct memory, read), WRITE_LEN, offsetof(struct memory, filled));
	ret = (int)await(c, READ);
	if (!ret && !is_filled(m->read, WRITE_LEN, seed_of(c, round, true)))
		return wrong(c, "data of a READ");
	return ret;
}

static int run_round(struct conn *c, uint32_t round, bool *stop)
{
	int ret;

	fill(c->mem->filled, WRITE_LEN, seed_of(c, round, false));
	post(c, WRITE, offsetof(struct memory, filled), WRITE_LEN,
	     offsetof(struct memory, written));
	send_message(c, round, FILLED, *stop);
	ret = receive(c, round, FILLED, stop);
	if (!ret)
		ret = check_peer(c, round);
	if (!ret)
		send_message(c, round, TAKEN, false);
	if (!ret)
		ret = receive(c, round, TAKEN, stop);
	if (!ret)
		ret = (int)await(c, WRITE);
	for (unsigned i = 0; !ret && i < 2; i++)
		ret = (int)await(c, SEND);
	return ret;
}

/* ---- from the first round to the end ---- */

static bool is_to_stop(struct conn *c)
{
	bool ends;

	pthread_mutex_lock(&c->lock);
	ends = c->ends;
	pthread_mutex_unlock(&c->lock);
	return ends;
}

void conn_stop(struct conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->ends = true;
	if (c->pauses)
		send_message(c, 0, LAST, true);
	pthread_mutex_unlock(&c->lock);
}

/** Until the server stops; its thread waits for the completion of conn_stop()'s message. */
static int pause_until_stopped(struct conn *c)
{
	bool stop;

	if (!c->serves) {
		printf("%s pauses\n", c->peers.name);
		return receive(c, 0, LAST, &stop);
	}
	pthread_mutex_lock(&c->lock);
	c->pauses = true;
	if (c->ends)
		send_message(c, 0, LAST, true);
	pthread_mutex_unlock(&c->lock);
	printf("%s pauses\n", c->peers.name);
	return (int)await(c, SEND);
}

static int end_stream(struct conn *c)
{
	int ret = 0;

	c->quiet = true;
	while (!ret && c->streams)
		ret = (int)progress(c);
	return ret;
}

/** @return 0, a status or WRONG. */
static int run_rounds(struct conn *c, uint32_t *rounds)
{
	const uint32_t most = c->serves ? c->peers.rounds : c->mine.rounds;
	bool stop = false;
	int ret = 0;

	for (unsigned i = 0; i < STREAM_DEPTH; i++)
		post_stream(c);
	while (!ret && !stop && (!most || *rounds < most)) {
		stop = is_to_stop(c);
		ret = run_round(c, *rounds + 1, &stop);
		if (!ret && ++*rounds % PRINT_EVERY == 0)
			printf("%s rounds %" PRIu32 "\n", c->peers.name, *rounds);
	}
	if (!ret)
		ret = end_stream(c);
	return !ret && !stop ? pause_until_stopped(c) : ret;
}

bool conn_run(struct conn *c)
{
	uint32_t rounds = 0;
	const int ret = run_rounds(c, &rounds);
	char byte = 0;

	if (ret > 0)
		printf("%s status %d after %" PRIu32 " rounds\n", c->peers.name, ret, rounds);
	if (ret)
		return false;
	/* The peer's last requests may not have been answered yet. */
	if (send(c->sock, &byte, 1, MSG_NOSIGNAL) != 1 || recv(c->sock, &byte, 1, MSG_WAITALL) != 1)
		die("the peer's end");
	printf("%s ended after %" PRIu32 " rounds\n", c->peers.name, rounds);
	return true;
}

/* ---- opening ---- */

static void to_rts(struct conn *c, uint8_t timeout)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr a = {
		.dest_qp_num = c->peers.qpn,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = c->peers.gid,
				    .sgid_index = c->o->gid_index,
				    .hop_limit = 64}},
	};

	if (ibv_query_port(c->ctx, 1, &port))
		die("ibv_query_port");
	a.path_mtu = port.active_mtu;
	a.qp_state = IBV_QPS_INIT;
	if (ibv_modify_qp(c->qp, &a,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(c->qp, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	for (unsigned i = 0; i < RECVS; i++)
		post_recv(c, i);
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(c->qp, &a,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static void swap(const struct conn *c, const void *mine, void *peers, size_t len)
{
	if (send(c->sock, mine, len, MSG_NOSIGNAL) != (ssize_t)len ||
	    recv(c->sock, peers, len, MSG_WAITALL) != (ssize_t)len)
		die("the peer's address");
}

void conn_open(struct conn *c)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	};
	char byte = 0;

	c->mem = calloc(1, sizeof(*c->mem));
	c->ch = ibv_create_comp_channel(c->ctx);
	c->cq = ibv_create_cq(c->ctx, 32, NULL, c->ch, 0);
	init.send_cq = init.recv_cq = c->cq;
	c->qp = c->cq ? ibv_create_qp(c->pd, &init) : NULL;
	c->mr = ibv_reg_mr(c->pd, c->mem, sizeof(*c->mem),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	if (!c->mem || !c->qp || !c->mr || ibv_query_gid(c->ctx, 1, c->o->gid_index, &c->mine.gid))
		die("QP");
	snprintf(c->mine.name, sizeof(c->mine.name), "%s", c->serves ? "server" : c->o->name);
	c->mine.addr = (uintptr_t)c->mem;
	c->mine.qpn = c->qp->qp_num;
	c->mine.rkey = c->mr->rkey;
	c->mine.rounds = c->o->rounds;
	c->mine.timeout = c->o->timeout;
	swap(c, &c->mine, &c->peers, sizeof(c->mine));
	c->peers.name[NAME_LEN - 1] = 0;
	to_rts(c, c->serves ? c->peers.timeout : c->mine.timeout);
	swap(c, &byte, &byte, 1); /* both are ready */
	printf("%s connected to QP 0x%" PRIx32 "\n", c->peers.name, c->peers.qpn);
}

void conn_close(struct conn *c)
{
	if (ibv_destroy_qp(c->qp) || ibv_destroy_cq(c->cq) || ibv_destroy_comp_channel(c->ch) ||
	    ibv_dereg_mr(c->mr))
		die("the end");
	free(c->mem);
	close(c->sock);
}
