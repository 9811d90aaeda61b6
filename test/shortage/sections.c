/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection of librdmacm and a multicast group, for tests in which calls fail. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "drive.h"
#include "sections.h"

enum { LEN = 64 };

struct ends {
	struct rdma_event_channel *cch, *sch;
	struct rdma_cm_id *listener, *client, *server, *member;
	struct ibv_mr *mr;
	char mem[2 * LEN];
};

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* ---- events ---- */

static void get(struct drive *d, struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	*ev = NULL;
	TRY_RET(d, rdma_get_cm_event(ch, ev));
}

/* That a connection is over for both sides comes when its time has passed, which is short here. */
static bool is_late(struct drive *d, struct rdma_cm_event *ev)
{
	if (ev->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return false;
	FREE(d, rdma_ack_cm_event(ev));
	return true;
}

/*
 * The next event, which is to be of that type and on that channel. Another event means that the
 * expected one does not come: that ends the section. @return its ID, or NULL.
 */
static struct rdma_cm_id *expect(struct drive *d, struct ends *e, struct rdma_event_channel *ch,
				 enum rdma_cm_event_type type)
{
	struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	bool good;

	if (drive_stopped(d))
		return NULL;
	p[0].fd = ch->fd;
	p[1].fd = ch == e->cch ? e->sch->fd : e->cch->fd;
	do {
		if (drive_poll(d, poll, p, 2) <= 0) {
			drive_problem(d, "no %s comes", rdma_event_str(type));
			drive_give_up(d, "no event", 0);
			return NULL;
		}
		get(d, p[0].revents ? ch : ch == e->cch ? e->sch : e->cch, &ev);
		if (drive_stopped(d) || !ev)
			return NULL;
	} while (is_late(d, ev));
	good = p[0].revents && ev->event == type;
	id = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST || good ? ev->id : NULL;
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		e->server = ev->id;
	if (!good)
		drive_give_up(d, rdma_event_str(ev->event), ev->status);
	if (!good && ev->event != RDMA_CM_EVENT_CONNECT_REQUEST && !ev->status &&
	    ev->event != RDMA_CM_EVENT_DISCONNECTED)
		drive_problem(d, "%s without a status", rdma_event_str(ev->event));
	FREE(d, rdma_ack_cm_event(ev));
	return id;
}

/* Requests that were not taken have IDs that must be destroyed. */
static void drain(struct drive *d, struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK);
	while (rdma_get_cm_event(ch, &ev) == 0) {
		id = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ? ev->id : NULL;
		FREE(d, rdma_ack_cm_event(ev));
		if (id)
			FREE(d, rdma_destroy_id(id));
	}
}

/* ---- a connection ---- */

static void make_qp(struct drive *d, struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = LEN},
	};

	TRY_RET(d, rdma_create_qp(id, NULL, &init));
}

static void start(struct drive *d, struct ends *e)
{
	struct sockaddr_in any = loopback(0), to;

	TRY_NEW(d, e->cch, rdma_create_event_channel());
	TRY_NEW(d, e->sch, rdma_create_event_channel());
	TRY_RET(d, rdma_create_id(e->sch, &e->listener, NULL, RDMA_PS_TCP));
	TRY_RET(d, rdma_bind_addr(e->listener, (struct sockaddr *)&any));
	TRY_RET(d, rdma_listen(e->listener, 4));
	TRY_RET(d, rdma_create_id(e->cch, &e->client, NULL, RDMA_PS_TCP));
	if (drive_stopped(d))
		return;
	to = loopback(rdma_get_src_port(e->listener));
	TRY_RET(d, rdma_resolve_addr(e->client, NULL, (struct sockaddr *)&to, 1000));
	expect(d, e, e->cch, RDMA_CM_EVENT_ADDR_RESOLVED);
	TRY_RET(d, rdma_resolve_route(e->client, 1000));
	expect(d, e, e->cch, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void connect_ends(struct drive *d, struct ends *e)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	make_qp(d, e->client, IBV_QPT_RC);
	TRY_RET(d, rdma_connect(e->client, &param));
	expect(d, e, e->sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(d, e->server, IBV_QPT_RC);
	TRY_NEW(d, e->mr,
		ibv_reg_mr(e->server->pd, e->mem, sizeof(e->mem), IBV_ACCESS_LOCAL_WRITE));
	TRY_RET(d, rdma_post_recv(e->server, NULL, e->mem, LEN, e->mr));
	TRY_RET(d, rdma_accept(e->server, &param));
	expect(d, e, e->cch, RDMA_CM_EVENT_ESTABLISHED);
	expect(d, e, e->sch, RDMA_CM_EVENT_ESTABLISHED);
}

static void talk(struct drive *d, struct ends *e)
{
	struct ibv_wc wc = {0};
	int n = 0;

	TRY_RET(d, rdma_post_send(e->client, NULL, e->mem + LEN, LEN, NULL, IBV_SEND_INLINE));
	TRY_RET(d, n = rdma_get_recv_comp(e->server, &wc));
	if (!drive_stopped(d) && (n != 1 || wc.status != IBV_WC_SUCCESS))
		drive_problem(d, "%d completions, %s", n, ibv_wc_status_str(wc.status));
	TRY_RET(d, rdma_disconnect(e->client));
	expect(d, e, e->sch, RDMA_CM_EVENT_DISCONNECTED);
	TRY_RET(d, rdma_disconnect(e->server));
	expect(d, e, e->cch, RDMA_CM_EVENT_DISCONNECTED);
}

static void destroy(struct drive *d, struct rdma_cm_id *id)
{
	if (id && id->qp)
		rdma_destroy_qp(id);
	if (id)
		FREE(d, rdma_destroy_id(id));
}

static void end(struct drive *d, struct ends *e)
{
	if (e->mr)
		FREE(d, ibv_dereg_mr(e->mr));
	destroy(d, e->server);
	destroy(d, e->client);
	destroy(d, e->member);
	if (e->sch)
		drain(d, e->sch);
	destroy(d, e->listener);
	if (e->sch)
		rdma_destroy_event_channel(e->sch);
	if (e->cch)
		rdma_destroy_event_channel(e->cch);
}

void section_connection(struct drive *d)
{
	struct ends e = {0};

	start(d, &e);
	if (!drive_stopped(d))
		connect_ends(d, &e);
	if (!drive_stopped(d))
		talk(d, &e);
	end(d, &e);
}

void section_group(struct drive *d)
{
	struct sockaddr_in any = loopback(0), to = loopback(0);
	struct ends e = {0};

	inet_pton(AF_INET, "239.1.2.3", &to.sin_addr);
	TRY_NEW(d, e.cch, rdma_create_event_channel());
	TRY_NEW(d, e.sch, rdma_create_event_channel());
	TRY_RET(d, rdma_create_id(e.cch, &e.member, NULL, RDMA_PS_UDP));
	TRY_RET(d, rdma_bind_addr(e.member, (struct sockaddr *)&any));
	if (!drive_stopped(d))
		make_qp(d, e.member, IBV_QPT_UD);
	TRY_RET(d, rdma_join_multicast(e.member, (struct sockaddr *)&to, NULL));
	expect(d, &e, e.cch, RDMA_CM_EVENT_MULTICAST_JOIN);
	TRY_RET(d, rdma_leave_multicast(e.member, (struct sockaddr *)&to));
	end(d, &e);
}
