/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process requests many connections at once, and ends by _exit() as soon as it has taken the last
 * ESTABLISHED. The listener must see each connection established and disconnected, and nothing
 * else.
 */
#include <arpa/inet.h>
#include <unistd.h>

#include "habits.h"

enum {
	CONNECTIONS = 4000, /* more MADs than the agent's sockets hold */
	RESOLVE_MS = 10000,
};

static struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

struct objects {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static void add_qp(struct objects *o, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};

	if (!o->pd) {
		CHECK((o->pd = ibv_alloc_pd(id->verbs)));
		CHECK((o->cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0)));
	}
	init.send_cq = init.recv_cq = o->cq;
	CHECK(!rdma_create_qp(id, o->pd, &init));
}

/* ---- the side that connects ---- */

static void connect_all(struct sockaddr_in *to)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct objects o = {0};
	struct rdma_cm_id *id;

	CHECK(channel);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)to, RESOLVE_MS));
	}
	for (unsigned established = 0; established < CONNECTIONS;) {
		CHECK(!rdma_get_cm_event(channel, &event));
		id = event->id;
		switch (event->event) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			CHECK(!rdma_resolve_route(id, RESOLVE_MS));
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			add_qp(&o, id);
			CHECK(!rdma_connect(id, &param));
			break;
		default:
			CHECK(event->event == RDMA_CM_EVENT_ESTABLISHED);
			established++;
		}
		CHECK(!rdma_ack_cm_event(event));
	}
	_exit(0);
}

/* ---- the listener ---- */

static void accept_all(struct rdma_event_channel *channel)
{
	unsigned requests = 0, established = 0, disconnected = 0;
	struct rdma_cm_event *event;
	struct objects o = {0};

	while (disconnected < CONNECTIONS) {
		CHECK(!rdma_get_cm_event(channel, &event));
		switch (event->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			requests++;
			add_qp(&o, event->id);
			CHECK(!rdma_accept(event->id, &param));
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			established++;
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			disconnected++;
			break;
		default:
			printf("%s, status %d, after %u requests: %u established, %u "
			       "disconnected\n",
			       rdma_event_str(event->event), event->status, requests, established,
			       disconnected);
			CHECK(event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT);
		}
		CHECK(!rdma_ack_cm_event(event));
	}
	CHECK(requests == CONNECTIONS && established == CONNECTIONS);
}

int run_storm(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	int link[2];
	pid_t child;

	/* Before the first object, which would be the parent's alone. */
	CHECK(!pipe(link));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(read(link[0], &at.sin_port, sizeof(at.sin_port)) == sizeof(at.sin_port));
		connect_all(&at);
	}
	CHECK((channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, 1));
	at.sin_port = rdma_get_src_port(listener);
	CHECK(write(link[1], &at.sin_port, sizeof(at.sin_port)) == sizeof(at.sin_port));
	accept_all(channel);
	wait_for(child);
	return 0;
}
