/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ece-check ME PORT [SERVER]: vendors' options (ECE) through rdma_cm, between two processes.
 *
 * With SERVER it connects from ME to there once for each row of the table below, else it listens at
 * ME, and each compares what it reads with what the other side sends by the same table. Public
 * calls of librdmacm alone, so either end may be any implementation. Most rows have no QP: programs
 * that use options manage their own QPs, and the options can be read without one.
 *
 * Exit code 0 when all was as it should be, else 1 and a line on stderr.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

enum { GUARD_S = 60, BACKLOG = 8, REJECTED_VENDOR_OPTION = 35, RESOLVE_MS = 5000 };

static const struct row {
	const char *name;
	struct ibv_ece offer, answer; /* without vendor: not sent */
	struct ibv_ece seen;	      /* by the server */
	struct ibv_ece back;	      /* by the client: the offer's vendor, the answer's options */
	bool reject;
	bool client_qp; /* the client's ID has a QP of a device that has no options */
} rows[] = {
	{.name = "every bit",
	 .offer = {0xffffff, 0xffffffff, 0},
	 .seen = {0xffffff, 0xffffffff, 0},
	 .answer = {0xffffff, 0xffffffff, 0},
	 .back = {0xffffff, 0xffffffff, 0}},
	{.name = "each byte another",
	 .offer = {0xa1b2c3, 0xd4e5f607, 0},
	 .seen = {0xa1b2c3, 0xd4e5f607, 0},
	 .answer = {0xa1b2c3, 0x18293a4b, 0},
	 .back = {0xa1b2c3, 0x18293a4b, 0}},
	{.name = "answer of another vendor",
	 .offer = {0x2c9, 3, 0},
	 .seen = {0x2c9, 3, 0},
	 .answer = {0x1405, 1, 0},
	 .back = {0x2c9, 1, 0}},
	{.name = "offer without answer",
	 .offer = {0x2c9, 3, 0},
	 .seen = {0x2c9, 3, 0},
	 .back = {0x2c9, 0, 0}},
	{.name = "answer without offer", .answer = {0x2c9, 1, 0}, .back = {0, 1, 0}},
	{.name = "neither"},
	{.name = "ID with a QP", .offer = {0x2c9, 3, 0}, .client_qp = true},
	{.name = "rejected", .offer = {0x2c9, 3, 0}, .seen = {0x2c9, 3, 0}, .reject = true},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char *role, *what = "start";

static void fail(const char *text)
{
	fprintf(stderr, "ece-check: %s, %s: %s\n", role, what, text);
	exit(1);
}

static void must(int ret, const char *call)
{
	char text[128];

	if (ret == 0)
		return;
	snprintf(text, sizeof(text), "%s: %s", call, strerror(errno));
	fail(text);
}

/* What comes when it likes does not count. @return to be acknowledged */
static struct rdma_cm_event *expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;
	char text[128];

	for (;;) {
		must(rdma_get_cm_event(ch, &ev), "rdma_get_cm_event");
		if (ev->event == type)
			return ev;
		if (ev->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			break;
		rdma_ack_cm_event(ev);
	}
	snprintf(text, sizeof(text), "%s (%d) came, not %s", rdma_event_str(ev->event), ev->status,
		 rdma_event_str(type));
	fail(text);
	return NULL;
}

static void expect_done(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(expect(ch, type));
}

static void set_local(struct rdma_cm_id *id, struct ibv_ece ece)
{
	if (ece.vendor_id)
		must(rdma_set_local_ece(id, &ece), "rdma_set_local_ece");
}

static void check_remote(struct rdma_cm_id *id, const struct ibv_ece *want)
{
	struct ibv_ece have = {1, 1, 1};
	char text[128];

	must(rdma_get_remote_ece(id, &have), "rdma_get_remote_ece");
	if (have.vendor_id == want->vendor_id && have.options == want->options && !have.comp_mask)
		return;
	snprintf(text, sizeof(text),
		 "remote options 0x%06" PRIx32 ":0x%08" PRIx32 ", not 0x%06" PRIx32 ":0x%08" PRIx32,
		 have.vendor_id, have.options, want->vendor_id, want->options);
	fail(text);
}

/* A QP number for an ID without QP; no two of a host's last connections have the same. */
static struct rdma_conn_param numbered(unsigned i)
{
	return (struct rdma_conn_param){
		.qp_num = ((uint32_t)getpid() & 0xffff) << 8 | 0x80 | i,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
	};
}

static struct addrinfo *address(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;

	if (getaddrinfo(host, port, &hints, &found) != 0)
		fail(host);
	return found;
}

/* ---- server ---- */

static void serve(struct rdma_event_channel *ch, const struct row *row, unsigned i)
{
	struct rdma_conn_param param = numbered(i);
	struct rdma_cm_event *ev = expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = ev->id;

	rdma_ack_cm_event(ev);
	check_remote(id, &row->seen);
	if (row->reject) {
		must(rdma_reject_ece(id, "no", 2), "rdma_reject_ece");
	} else {
		set_local(id, row->answer);
		must(rdma_accept(id, &param), "rdma_accept");
		expect_done(ch, RDMA_CM_EVENT_ESTABLISHED);
		check_remote(id, &row->seen);
		expect_done(ch, RDMA_CM_EVENT_DISCONNECTED);
		must(rdma_disconnect(id), "rdma_disconnect");
	}
	must(rdma_destroy_id(id), "rdma_destroy_id");
}

static void server(struct rdma_event_channel *ch, const char *me, const char *port)
{
	struct addrinfo *self = address(me, port);
	struct rdma_cm_id *listener;

	must(rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(rdma_bind_addr(listener, self->ai_addr), "rdma_bind_addr");
	must(rdma_listen(listener, BACKLOG), "rdma_listen");
	for (unsigned i = 0; i < ROWS; i++) {
		what = rows[i].name;
		serve(ch, &rows[i], i);
	}
	must(rdma_destroy_id(listener), "rdma_destroy_id");
	freeaddrinfo(self);
}

/* ---- client ---- */

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_ece ece = {0x2c9, 1, 0};

	must(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	if (rdma_set_local_ece(id, &ece) == 0 || errno != EINVAL)
		fail("rdma_set_local_ece of an ID with a QP is not EINVAL");
	if (rdma_get_remote_ece(id, &ece) == 0 || errno != EINVAL)
		fail("rdma_get_remote_ece of an ID with a QP is not EINVAL");
}

static void rejected(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev = expect(ch, RDMA_CM_EVENT_REJECTED);

	if (ev->status != REJECTED_VENDOR_OPTION || memcmp(ev->param.conn.private_data, "no", 2))
		fail("rejected, but not with reason 35 and the server's data");
	rdma_ack_cm_event(ev);
}

static void connect_once(struct rdma_event_channel *ch, const struct row *row, unsigned i,
			 struct sockaddr *from, struct sockaddr *to)
{
	struct rdma_conn_param param = numbered(i);
	struct rdma_cm_id *id;

	must(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(rdma_resolve_addr(id, from, to, RESOLVE_MS), "rdma_resolve_addr");
	expect_done(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	must(rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
	expect_done(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	set_local(id, row->offer);
	if (row->client_qp)
		create_qp(id);
	must(rdma_connect(id, &param), "rdma_connect");
	if (row->reject) {
		rejected(ch);
	} else {
		if (row->client_qp) {
			expect_done(ch, RDMA_CM_EVENT_ESTABLISHED);
		} else {
			expect_done(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
			check_remote(id, &row->back);
			must(rdma_establish(id), "rdma_establish");
		}
		must(rdma_disconnect(id), "rdma_disconnect");
		expect_done(ch, RDMA_CM_EVENT_DISCONNECTED);
	}
	if (row->client_qp)
		rdma_destroy_qp(id);
	must(rdma_destroy_id(id), "rdma_destroy_id");
}

static void client(struct rdma_event_channel *ch, const char *me, const char *port,
		   const char *host)
{
	struct addrinfo *from = address(me, NULL), *to = address(host, port);

	for (unsigned i = 0; i < ROWS; i++) {
		what = rows[i].name;
		connect_once(ch, &rows[i], i, from->ai_addr, to->ai_addr);
	}
	freeaddrinfo(from);
	freeaddrinfo(to);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *ch;

	if (argc < 3 || argc > 4) {
		fputs("usage: ece-check ME PORT [SERVER]\n", stderr);
		return 2;
	}
	role = argc == 4 ? "client" : "server";
	alarm(GUARD_S);
	ch = rdma_create_event_channel();
	if (!ch)
		fail("no event channel");
	if (argc == 4)
		client(ch, argv[1], argv[2], argv[3]);
	else
		server(ch, argv[1], argv[2]);
	rdma_destroy_event_channel(ch);
	printf("%s: %d rows as they should be\n", role, ROWS);
	return 0;
}
