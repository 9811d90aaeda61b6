/* SPDX-License-Identifier: BSD-2-Clause */
/* Connects streams, and handles later events of the connection manager. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "rsocket/stream.h"

enum { RESOLVE_MS = 2000, DEFAULT_BACKLOG = 128 };

static int cm_ret(int ret)
{
	return ret ? -errno : 0;
}

struct stream *stream_alloc(int domain)
{
	struct stream *s = calloc(1, sizeof(*s));
	int err;

	(void)domain;
	if (!s) {
		errno = ENOMEM;
		return NULL;
	}
	s->channel = rdma_create_event_channel();
	if (!s->channel || fcntl(s->channel->fd, F_SETFL, O_NONBLOCK) < 0) {
		err = errno;
		stream_conn_fini(s);
		free(s);
		errno = err;
		return NULL;
	}
	return s;
}

void stream_conn_fini(struct stream *s)
{
	stream_teardown(s);
	if (s->id)
		rdma_destroy_id(s->id);
	s->id = NULL;
	if (s->channel)
		rdma_destroy_event_channel(s->channel);
	s->channel = NULL;
}

/** Set options that must be set before binding. */
static void set_id_options(struct stream *s)
{
	int on = 1;

	if (s->rs.reuseaddr)
		rdma_set_option(s->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (s->rs.v6only)
		rdma_set_option(s->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
}

static int used(const struct rs *rs, const char *call)
{
	return REFUSE(-EINVAL, (unsigned)rs->fd,
		      "%s: rsocket %d listens, or is or was connected: the call needs a new "
		      "socket: make another",
		      call, rs->fd);
}

int stream_bind(struct rs *rs, const struct sockaddr *addr, socklen_t len)
{
	struct stream *s = stream_of(rs);

	(void)len;
	if (s->state != STREAM_IDLE)
		return used(rs, "rbind");
	set_id_options(s);
	return cm_ret(rdma_bind_addr(s->id, (struct sockaddr *)(uintptr_t)addr));
}

int stream_listen(struct rs *rs, int backlog)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)rs->domain};
	struct stream *s = stream_of(rs);
	int ret = 0;

	if (s->state == STREAM_LISTENING)
		return 0;
	if (s->state != STREAM_IDLE)
		return used(rs, "rlisten");
	if (rdma_get_local_addr(s->id)->sa_family == AF_UNSPEC)
		ret = stream_bind(rs, (struct sockaddr *)&any, sizeof(any));
	if (ret == 0)
		ret = cm_ret(rdma_listen(s->id, backlog > 0 ? backlog : DEFAULT_BACKLOG));
	if (ret == 0)
		s->state = STREAM_LISTENING;
	return ret;
}

static struct rdma_conn_param conn_param(const struct stream *s, uint8_t data[STREAM_CONN_DATA])
{
	stream_fill_conn_data(s, data);
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = STREAM_CONN_DATA,
		.responder_resources = 1,
		.initiator_depth = 1,
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static void connected(struct stream *s)
{
	s->state = STREAM_CONNECTED;
	s->readable = s->writable = true;
	s->heard = rs_now();
	rs_keepalive_update(&s->rs);
}

/** As with TCP, a connection inherits the listener's options. */
static void inherit(struct rs *rs, const struct rs *from)
{
	rs->set = from->set;
	rs->linger = from->linger;
	rs->nodelay = from->nodelay;
	rs->oobinline = from->oobinline;
	rs->keep.on = from->keep.on;
	rs->keep.idle = from->keep.idle;
	rs->keep.interval = from->keep.interval;
	rs->keep.count = from->keep.count;
}

/* ---- the passive side ---- */

/** Make a socket of a request's ID; its parameters are a copy. -errno: the request is refused. */
static int stream_of_request(struct stream *listener, struct rdma_cm_id *id, const uint8_t *data,
			     size_t len, struct rs **out)
{
	struct stream *s = stream_alloc(listener->rs.domain);
	uint8_t mine[STREAM_CONN_DATA];
	struct rdma_conn_param param;
	int ret;

	if (!s)
		return -errno;
	rs_init(&s->rs, listener->rs.ops, listener->rs.domain, SOCK_STREAM);
	inherit(&s->rs, &listener->rs);
	s->rs.fd = s->channel->fd;
	s->id = id;
	ret = cm_ret(rdma_migrate_id(id, s->channel));
	if (ret == 0)
		ret = stream_setup(s);
	if (ret == 0)
		ret = stream_take_conn_data(s, data, len);
	if (ret == 0) {
		param = conn_param(s, mine);
		ret = cm_ret(rdma_accept(id, &param));
	}
	if (ret < 0) {
		/* The caller refuses the ID; its QP is freed here. */
		stream_teardown(s);
		s->id = NULL;
		stream_conn_fini(s);
		rs_fini(&s->rs);
		free(s);
		return ret;
	}
	connected(s);
	*out = &s->rs;
	return 0;
}

static int take_request(struct stream *s, struct rdma_cm_event *ev, struct rs **conn)
{
	uint8_t data[STREAM_CONN_DATA];
	struct rdma_cm_id *id = ev->id;
	const size_t len = MIN(sizeof(data), (size_t)ev->param.conn.private_data_len);
	int ret;

	if (len)
		memcpy(data, ev->param.conn.private_data, len);
	rdma_ack_cm_event(ev);
	ret = stream_of_request(s, id, data, len, conn);
	if (ret < 0) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
	}
	return ret;
}

/* An error of this host, not of the peer: accept() of a kernel socket reports it, too. */
static bool is_shortage(int ret)
{
	return ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM || ret == -ENOBUFS;
}

int stream_accept(struct rs *rs, struct rs **conn)
{
	struct stream *s = stream_of(rs);
	struct rdma_cm_event *ev;
	int ret;

	if (s->state != STREAM_LISTENING)
		return REFUSE(-EINVAL, (unsigned)rs->fd,
			      "raccept: rsocket %d does not listen: only a listening socket "
			      "accepts: call rlisten() first",
			      rs->fd);
	for (;;) {
		if (rdma_get_cm_event(s->channel, &ev)) {
			if (errno != EAGAIN)
				return -errno;
			ret = rs_wait(rs, POLLIN, 0, -1);
			if (ret < 0)
				return ret;
			continue;
		}
		if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
			rdma_ack_cm_event(ev);
			continue;
		}
		ret = take_request(s, ev, conn);
		/* An incompatible peer is not reported to the program. */
		if (ret == 0 || is_shortage(ret))
			return ret;
	}
}

/* ---- the active side ---- */

static int begin_connect(struct stream *s)
{
	uint8_t mine[STREAM_CONN_DATA];
	struct rdma_conn_param param;
	int ret = stream_setup(s);

	if (ret < 0)
		return ret;
	param = conn_param(s, mine);
	s->state = STREAM_CONNECTING;
	return cm_ret(rdma_connect(s->id, &param));
}

/** The errno for a failed connection. */
static int error_of(const struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return ev->status < 0 ? -ev->status : EHOSTUNREACH;
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return ETIMEDOUT;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENODEV;
	default:
		return ECONNABORTED;
	}
}

static int take_event(struct stream *s, const struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return cm_ret(rdma_resolve_route(s->id, RESOLVE_MS));
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return begin_connect(s);
	case RDMA_CM_EVENT_ESTABLISHED:
		s->established = true;
		if (s->state != STREAM_CONNECTING)
			return 0;
		connected(s);
		return stream_take_conn_data(s, ev->param.conn.private_data,
					     ev->param.conn.private_data_len);
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return -ESHUTDOWN;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return 0;
	default:
		return -error_of(ev);
	}
}

void stream_cm_progress(struct stream *s)
{
	struct rdma_cm_event *ev;
	int ret;

	if (s->state == STREAM_IDLE || s->state == STREAM_LISTENING)
		return;
	while (rdma_get_cm_event(s->channel, &ev) == 0) {
		ret = take_event(s, ev);
		rdma_ack_cm_event(ev);
		/* Other threads may be about to poll for the event that has just been taken. */
		rs_wake(&s->rs);
		if (ret == -ESHUTDOWN) {
			/* Data that the peer sent before it closed can still be read. */
			stream_progress(s);
			stream_die(s, 0);
		} else if (ret < 0) {
			if (s->state != STREAM_CONNECTED && s->state != STREAM_DEAD)
				s->rs.error = -ret;
			stream_die(s, -ret);
		}
	}
}

int stream_connect(struct rs *rs, const struct sockaddr *addr, socklen_t len)
{
	struct stream *s = stream_of(rs);
	int ret;

	(void)len;
	if (s->state == STREAM_CONNECTED)
		return -EISCONN;
	if (s->state == STREAM_RESOLVING || s->state == STREAM_CONNECTING)
		return -EALREADY;
	if (s->state != STREAM_IDLE)
		return used(rs, "rconnect");
	set_id_options(s);
	ret = cm_ret(
		rdma_resolve_addr(s->id, NULL, (struct sockaddr *)(uintptr_t)addr, RESOLVE_MS));
	if (ret < 0)
		return ret;
	s->state = STREAM_RESOLVING;
	while (s->state == STREAM_RESOLVING || s->state == STREAM_CONNECTING) {
		ret = rs_wait(rs, POLLOUT, 0, -1);
		if (ret < 0)
			return ret == -EAGAIN ? -EINPROGRESS : ret;
	}
	ret = -rs->error;
	rs->error = 0;
	return ret;
}
