/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of connections, controlled line by line on its standard input: so a test can bring two
 * processes to any point of a connection, and end one of them there. Public calls of rdma_cm only.
 * IDs are identified by numbers; each line is answered by one: "ok", the requested value, or
 * "error" and errno's name.
 *
 *     listen ADDRESS PORT BACKLOG [tcp|udp]              ok ID
 *     bind ADDRESS PORT [tcp|udp]                        ok ID
 *     resolve ADDRESS PORT [tcp|udp]                     ok ID: it has address and route
 *     qp|connect|accept|reject|disconnect|destroy ID     ok
 *     event MS                                           EVENT STATUS ID; none after so many
 * milliseconds
 *     serve ADDRESS                                      ok; then nothing more is read: requests of
 * that address are accepted, others rejected, without end
 *
 * An ID that a CONNECT_REQUEST brings gets the next number.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

enum { IDS_MAX = 32768 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *ids[IDS_MAX];
static unsigned nids;

static int add(struct rdma_cm_id *id)
{
	if (nids == IDS_MAX) {
		errno = EMFILE;
		return -1;
	}
	ids[nids] = id;
	return (int)nids++;
}

static int number_of(const struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < nids; i++)
		if (ids[i] == id)
			return (int)i;
	return -1;
}

static struct sockaddr *address(const char *node, const char *port)
{
	static struct sockaddr_storage ss;
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_DGRAM},
			*res;

	if (!node || !port || getaddrinfo(node, port, &hints, &res)) {
		fprintf(stderr, "cm-actor: no address: %s\n", node ? node : "");
		exit(2);
	}
	memcpy(&ss, res->ai_addr, res->ai_addrlen);
	freeaddrinfo(res);
	return (struct sockaddr *)&ss;
}

/* Wait for the next event; 0: it is of that type. */
static int expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;
	int same;

	if (rdma_get_cm_event(channel, &ev))
		return -1;
	same = ev->event == type;
	rdma_ack_cm_event(ev);
	if (!same)
		errno = EPROTO;
	return same ? 0 : -1;
}

static enum rdma_port_space space_of(const char *name)
{
	return name && !strcmp(name, "udp") ? RDMA_PS_UDP : RDMA_PS_TCP;
}

static int do_listen(const char *node, const char *port, const char *backlog, const char *space)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, space_of(space)))
		return -1;
	if (rdma_bind_addr(id, address(node, port)) ||
	    rdma_listen(id, backlog ? atoi(backlog) : 0)) {
		int err = errno;

		rdma_destroy_id(id);
		errno = err;
		return -1;
	}
	return add(id);
}

static int do_bind(const char *node, const char *port, const char *space)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, space_of(space)) ||
	    rdma_bind_addr(id, address(node, port)))
		return -1;
	return add(id);
}

static int do_resolve(const char *node, const char *port, const char *space)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, space_of(space)) ||
	    rdma_resolve_addr(id, NULL, address(node, port), 2000) ||
	    expect(RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 2000) ||
	    expect(RDMA_CM_EVENT_ROUTE_RESOLVED))
		return -1;
	return add(id);
}

static int do_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = id->qp_type,
	};

	return rdma_create_qp(id, NULL, &attr);
}

static int do_destroy(struct rdma_cm_id *id)
{
	ids[number_of(id)] = NULL;
	if (id->qp)
		rdma_destroy_qp(id);
	return rdma_destroy_id(id);
}

static int do_connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	return rdma_connect(id, &param);
}

static int do_accept(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7};

	return rdma_accept(id, &param);
}

static int do_reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static void do_event(const char *ms)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	if (poll(&p, 1, ms ? atoi(ms) : -1) == 0) {
		printf("none\n");
	} else if (rdma_get_cm_event(channel, &ev)) {
		printf("error %s\n", strerrorname_np(errno));
	} else {
		int n = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ? add(ev->id)
								   : number_of(ev->id);

		printf("%s %d %d\n", rdma_event_str(ev->event) + strlen("RDMA_CM_EVENT_"),
		       ev->status, n);
		rdma_ack_cm_event(ev);
	}
}

/* A request: accept it, or not. */
static void decide(struct rdma_cm_id *id, in_addr_t friend)
{
	const struct sockaddr_in *peer = (const void *)rdma_get_peer_addr(id);
	int accepted = 0;

	if (peer->sin_addr.s_addr == friend && !do_qp(id)) {
		struct rdma_conn_param param = {.rnr_retry_count = 7, .qp_num = id->qp->qp_num};

		accepted = !rdma_accept(id, &param);
	} else {
		rdma_reject(id, NULL, 0);
	}
	if (!accepted || id->ps == RDMA_PS_UDP) {
		if (id->qp)
			rdma_destroy_qp(id);
		rdma_destroy_id(id);
	}
}

static void serve(const char *node)
{
	const in_addr_t friend = inet_addr(node ? node : "");
	struct rdma_cm_event *ev;

	while (!rdma_get_cm_event(channel, &ev)) {
		const enum rdma_cm_event_type type = ev->event;
		struct rdma_cm_id *id = ev->id;

		rdma_ack_cm_event(ev);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			decide(id, friend);
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			rdma_disconnect(id);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
		}
	}
	perror("cm-actor: rdma_get_cm_event");
	exit(1);
}

/* Commands about one ID. */
static int on_id(const char *verb, struct rdma_cm_id *id)
{
	static const struct {
		const char *verb;
		int (*call)(struct rdma_cm_id *id);
	} calls[] = {
		{"qp", do_qp},	       {"connect", do_connect},		{"accept", do_accept},
		{"reject", do_reject}, {"disconnect", rdma_disconnect}, {"destroy", do_destroy},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(verb, calls[i].verb))
			return calls[i].call(id);
	fprintf(stderr, "cm-actor: what is %s?\n", verb);
	exit(2);
}

static void answer(int ret, int is_id)
{
	if (ret < 0)
		printf("error %s\n", strerrorname_np(errno));
	else if (is_id)
		printf("ok %d\n", ret);
	else
		printf("ok\n");
}

int main(void)
{
	char line[256];

	channel = rdma_create_event_channel();
	if (!channel) {
		perror("cm-actor: rdma_create_event_channel");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		char *verb = strtok(line, " \n"), *a = strtok(NULL, " \n"),
		     *b = strtok(NULL, " \n"), *c = strtok(NULL, " \n"), *d = strtok(NULL, " \n");
		unsigned n = a ? (unsigned)atoi(a) : IDS_MAX;

		if (!verb)
			continue;
		if (!strcmp(verb, "listen"))
			answer(do_listen(a, b, c, d), 1);
		else if (!strcmp(verb, "bind"))
			answer(do_bind(a, b, c), 1);
		else if (!strcmp(verb, "serve")) {
			answer(0, 0);
			serve(a);
		} else if (!strcmp(verb, "resolve"))
			answer(do_resolve(a, b, c), 1);
		else if (!strcmp(verb, "event"))
			do_event(a);
		else if (n < nids && ids[n])
			answer(on_id(verb, ids[n]), 0);
		else
			return 2;
	}
	return 0;
}
