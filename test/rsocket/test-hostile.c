/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests peers that use rdma_cm and verbs, but not the protocol of rsockets: their connection data
 * is refused, their messages end that socket with an error, and the server serves the next one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/util.h"
#include "lib/test.h"
#include "sock.h"
#include "verbs/dev.h"

enum {
	CONN_DATA = 40,
	VERSION = 0,
	TABLE = 8,
	BUFFER = 24,
	OP_SHIFT = 29,
	OP_CREDIT = 4,
};

/** What a peer has sent with its REP; keys of its table and its buffer. */
struct theirs {
	uint64_t table, buffer;
	uint32_t table_key, buffer_key, buffer_len;
};

struct hostile {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t mem[4096];
	struct theirs peer;
};

/** As a good client would have it. */
static void conn_data(const struct hostile *h, uint8_t data[CONN_DATA])
{
	memset(data, 0, CONN_DATA);
	data[VERSION] = 1;
	data[1] = htonl(1) == 1;
	put_be16(data + 2, 16);
	put_be64(data + TABLE, (uintptr_t)h->mem);
	put_be32(data + TABLE + 8, h->mr->rkey);
	put_be32(data + TABLE + 12, 2);
	put_be64(data + BUFFER, (uintptr_t)h->mem + 2048);
	put_be32(data + BUFFER + 8, h->mr->rkey);
	put_be32(data + BUFFER + 12, 2048);
}

static void hostile_open(struct hostile *h, const union sock_addr *to)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 64,
			.max_recv_wr = 64,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 64},
	};
	union sock_addr at = *to;

	memset(h, 0, sizeof(*h));
	assert_int_equal(rdma_create_id(NULL, &h->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(h->id, NULL, &at.sa, 2000), 0);
	assert_int_equal(rdma_resolve_route(h->id, 2000), 0);
	assert_int_equal(rdma_create_qp(h->id, NULL, &attr), 0);
	h->mr = ibv_reg_mr(h->id->pd, h->mem, sizeof(h->mem),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(h->mr);
}

/** After the server has closed its end: it waits for that. */
static void hostile_close(struct hostile *h)
{
	rdma_disconnect(h->id);
	rdma_destroy_qp(h->id);
	ibv_dereg_mr(h->mr);
	rdma_destroy_id(h->id);
}

/** 0, or -errno. */
static int hostile_connect(struct hostile *h, const void *data, uint8_t len)
{
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = len,
					.retry_count = 7,
					.rnr_retry_count = 7};
	const uint8_t *p;

	for (int i = 0; i < 32; i++)
		assert_int_equal(rdma_post_recv(h->id, NULL, h->mem, 0, h->mr), 0);
	if (rdma_connect(h->id, &param))
		return -errno;
	assert_non_null(h->id->event);
	assert_true(h->id->event->param.conn.private_data_len >= CONN_DATA);
	p = h->id->event->param.conn.private_data;
	h->peer = (struct theirs){.table = get_be64(p + TABLE),
				  .table_key = get_be32(p + TABLE + 8),
				  .buffer = get_be64(p + BUFFER),
				  .buffer_key = get_be32(p + BUFFER + 8),
				  .buffer_len = get_be32(p + BUFFER + 12)};
	return 0;
}

/** Posts one, and waits until it is done, well or not. */
static enum ibv_wc_status post(struct hostile *h, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(h->id->qp, wr, &bad), 0);
	assert_int_equal(rdma_get_send_comp(h->id, &wc), 1);
	return wc.status;
}

static enum ibv_wc_status say(struct hostile *h, uint32_t word)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(word)};

	return post(h, &wr);
}

/* ---- the server: takes connections, and prints the result of each ---- */

struct server {
	int listener;
	int conn;
};

static void *run_accept(void *arg)
{
	struct server *s = arg;

	s->conn = raccept(s->listener, NULL, NULL);
	return NULL;
}

/** A connection whose client is hostile; the server's end. */
static int connect_to(int listener, struct hostile *h, const union sock_addr *at)
{
	struct server s = {.listener = listener};
	uint8_t data[CONN_DATA];
	pthread_t t = sock_thread(run_accept, &s);

	hostile_open(h, at);
	conn_data(h, data);
	assert_int_equal(hostile_connect(h, data, sizeof(data)), 0);
	sock_join(t);
	assert_true(s.conn >= 0);
	return s.conn;
}

static void expect_good_client(int listener, const union sock_addr *at)
{
	struct server s = {.listener = listener};
	pthread_t t = sock_thread(run_accept, &s);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	char buf[4];

	assert_int_equal(rconnect(fd, &at->sa, sock_len(at)), 0);
	sock_join(t);
	sock_send_all(fd, "good", 4);
	assert_int_equal(sock_recv_all(s.conn, buf, 4), 4);
	assert_memory_equal(buf, "good", 4);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(s.conn), 0);
}

static int listening(union sock_addr *at)
{
	int listener = sock_bound(AF_INET, SOCK_STREAM, at);

	assert_int_equal(rlisten(listener, 8), 0);
	return listener;
}

/** Reading fails, and poll() reports it. */
static void expect_error(int fd)
{
	char c;

	assert_true(sock_wait(fd, POLLIN) & POLLERR);
	assert_int_equal(rrecv(fd, &c, 1, 0), -1);
	assert_true(errno == EPROTO || errno == ECONNRESET);
	assert_int_equal(rsend(fd, "x", 1, 0), -1);
	assert_int_equal(rclose(fd), 0);
}

TEST(connection_data, of_no_peer_of_ours__refused_and_next_is_served)
{
	union sock_addr at;
	int listener = listening(&at);
	struct server s = {.listener = listener};
	uint8_t data[CONN_DATA + 16] = {0};
	pthread_t t = sock_thread(run_accept, &s);
	static struct hostile h;

	for (unsigned i = 0; i < 3; i++) {
		uint8_t len = CONN_DATA;

		hostile_open(&h, &at);
		conn_data(&h, data);
		if (i == 0)
			len = 0; /* which comes as zeros */
		else if (i == 1)
			data[VERSION] = 2;
		else
			memset(data + TABLE + 12, 0, 4); /* a table without entries */
		assert_int_equal(hostile_connect(&h, len ? data : NULL, len), -ECONNREFUSED);
		hostile_close(&h);
	}
	/* The same raccept() is still waiting, undisturbed. */
	hostile_open(&h, &at);
	conn_data(&h, data);
	assert_int_equal(hostile_connect(&h, data, sizeof(data)), 0);
	sock_join(t);
	assert_int_equal(rclose(s.conn), 0);
	hostile_close(&h);
	expect_good_client(listener, &at);
	assert_int_equal(rclose(listener), 0);
}

TEST(words, that_mean_nothing_or_too_much__end_that_socket)
{
	union sock_addr at;
	int listener = listening(&at), conn;
	static struct hostile h;
	const uint32_t words[] = {
		0,		      /* no data */
		(1u << OP_SHIFT) - 1, /* more than was given */
		128 * 1024 + 1,	      /* by one */
		1u << OP_SHIFT | 4,   /* there is no such message */
		2u << OP_SHIFT | 4,
		3u << OP_SHIFT | 4,
		5u << OP_SHIFT | 4,
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		conn = connect_to(listener, &h, &at);
		assert_int_equal(say(&h, words[i]), IBV_WC_SUCCESS);
		expect_error(conn);
		hostile_close(&h);
	}
	expect_good_client(listener, &at);
	assert_int_equal(rclose(listener), 0);
}

TEST(words, harmless_ones__passed_over)
{
	union sock_addr at;
	int listener = listening(&at), conn;
	static struct hostile h;
	char c;

	conn = connect_to(listener, &h, &at);
	assert_int_equal(say(&h, 6u << OP_SHIFT | 0xffff),
			 IBV_WC_SUCCESS); /* an iomap that is none */
	assert_int_equal(say(&h, 7u << OP_SHIFT | 0xffffff),
			 IBV_WC_SUCCESS);			       /* an unknown control */
	assert_int_equal(say(&h, 7u << OP_SHIFT | 1), IBV_WC_SUCCESS); /* keepalive */
	assert_int_equal(say(&h, (uint32_t)OP_CREDIT << OP_SHIFT | 17), IBV_WC_SUCCESS);
	assert_int_equal(rrecv(conn, &c, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(say(&h, 1), IBV_WC_SUCCESS); /* a byte, whatever it is */
	assert_int_equal(rrecv(conn, &c, 1, 0), 1);
	assert_int_equal(say(&h, 7u << OP_SHIFT), IBV_WC_SUCCESS); /* the end */
	assert_int_equal(rrecv(conn, &c, 1, 0), 0);
	assert_int_equal(rclose(conn), 0);
	hostile_close(&h);
	assert_int_equal(rclose(listener), 0);
}

TEST(table, points_where_nothing_is__senders_write_fails)
{
	union sock_addr at;
	int listener = listening(&at), conn;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1};
	static uint8_t buf[4096];
	static struct hostile h;
	uint8_t entry[32];

	conn = connect_to(listener, &h, &at);
	memset(entry, 0xff, sizeof(entry)); /* 4 GiB at the end of the address space */
	sge = (struct ibv_sge){.addr = (uintptr_t)entry, .length = sizeof(entry)};
	wr.wr.rdma.remote_addr = h.peer.table;
	wr.wr.rdma.rkey = h.peer.table_key;
	assert_int_equal(post(&h, &wr), IBV_WC_SUCCESS);
	assert_int_equal(rsend(conn, buf, sizeof(buf), 0), sizeof(buf));
	expect_error(conn);
	hostile_close(&h);
	expect_good_client(listener, &at);
	assert_int_equal(rclose(listener), 0);
}

TEST(write, outside_of_the_buffer__refused_and_told)
{
	union sock_addr at;
	int listener = listening(&at), conn;
	struct ibv_sge sge = {.length = 16};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = htonl(16),
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1};
	static struct hostile h;
	char c;

	conn = connect_to(listener, &h, &at);
	sge.addr = (uintptr_t)h.mem;
	wr.wr.rdma.remote_addr = h.peer.buffer + h.peer.buffer_len - 8;
	wr.wr.rdma.rkey = h.peer.buffer_key;
	assert_int_equal(post(&h, &wr), IBV_WC_REM_ACCESS_ERR);
	assert_true(sock_wait(conn, POLLIN) & (POLLERR | POLLHUP));
	assert_true(rrecv(conn, &c, 1, 0) <= 0);
	assert_int_equal(rclose(conn), 0);
	hostile_close(&h);
	expect_good_client(listener, &at);
	assert_int_equal(rclose(listener), 0);
}

TEST(send, that_finds_no_buffer__ends_that_socket)
{
	union sock_addr at;
	int listener = listening(&at), conn;
	struct ibv_sge sge = {.length = 16};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1};
	static struct hostile h;
	char c;

	conn = connect_to(listener, &h, &at);
	sge.addr = (uintptr_t)h.mem;
	assert_int_not_equal(post(&h, &wr), IBV_WC_SUCCESS);
	assert_true(sock_wait(conn, POLLIN) & (POLLERR | POLLHUP));
	assert_true(rrecv(conn, &c, 1, 0) <= 0);
	assert_int_equal(rclose(conn), 0);
	hostile_close(&h);
	expect_good_client(listener, &at);
	assert_int_equal(rclose(listener), 0);
}
