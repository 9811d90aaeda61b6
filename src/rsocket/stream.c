/* SPDX-License-Identifier: BSD-2-Clause */
/* Stream sockets: life, sending and receiving, readiness. */
#include "base/why.h"
#include "base/util.h"
#include "rsocket/stream.h"

#include <stdlib.h>
#include <string.h>

enum { DRAIN_MS = 1000 };

/* ---- readiness ---- */

static bool cm_event_waits(const struct stream *s)
{
	struct pollfd fd = {.fd = s->channel->fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static short conn_ready(const struct stream *s)
{
	short r = 0;

	if (s->r_ready > 0 || !s->readable)
		r |= POLLIN;
	if (stream_can_send(s) || !s->writable)
		r |= POLLOUT;
	return r;
}

static short stream_ready(struct rs *rs, short events)
{
	struct stream *s = stream_of(rs);
	short r = 0;

	if (s->state == STREAM_IDLE)
		return (short)((events & POLLOUT) | POLLHUP); /* as TCP has it */
	if (s->state == STREAM_LISTENING)
		return cm_event_waits(s) ? events & POLLIN : 0;
	stream_progress(s);
	if (s->state == STREAM_CONNECTED || s->state == STREAM_DEAD)
		r = conn_ready(s) & events;
	if (r == 0) {
		stream_cm_progress(s);
		if (s->state == STREAM_CONNECTED || s->state == STREAM_DEAD)
			r = conn_ready(s) & events;
	}
	if (rs->error)
		r |= POLLERR;
	/* No POLLHUP while there is data to read. */
	if (s->r_ready == 0 && (s->state == STREAM_DEAD ||
				(s->state == STREAM_CONNECTED && !s->readable && !s->writable)))
		r |= POLLHUP;
	return r;
}

static unsigned stream_arm(struct rs *rs, short events, struct pollfd *fds)
{
	struct stream *s = stream_of(rs);
	unsigned n = 0;

	(void)events;
	fds[n++] = (struct pollfd){.fd = s->channel->fd, .events = POLLIN};
	if (s->comp) {
		ibv_req_notify_cq(s->cq, 0);
		fds[n++] = (struct pollfd){.fd = s->comp->fd, .events = POLLIN};
	}
	return n;
}

static void stream_woken(struct rs *rs)
{
	struct stream *s = stream_of(rs);
	struct ibv_cq *cq;
	void *ctx;

	while (s->comp && ibv_get_cq_event(s->comp, &cq, &ctx) == 0)
		s->unacked++;
	if (s->unacked >= 256) {
		ibv_ack_cq_events(s->cq, s->unacked);
		s->unacked = 0;
	}
}

/* ---- receiving ---- */

/** Copy available data into iov, from offset done on. */
static size_t copy_out(struct stream *s, const struct iovec *iov, int n, size_t done, bool peek)
{
	uint32_t at = s->r_at, left = s->r_ready, got = 0;

	for (int i = 0; i < n && left > 0; i++) {
		size_t off = MIN(done, iov[i].iov_len);

		done -= off;
		while (off < iov[i].iov_len && left > 0) {
			const uint32_t piece =
				(uint32_t)MIN(MIN(iov[i].iov_len - off, (size_t)left),
					      (size_t)(s->rs.set.rcvbuf - at));

			memcpy((uint8_t *)iov[i].iov_base + off, s->rbuf + at, piece);
			at = (at + piece) % s->rs.set.rcvbuf;
			off += piece;
			left -= piece;
			got += piece;
		}
	}
	if (!peek)
		stream_consume(s, got);
	return got;
}

static size_t total(const struct iovec *iov, int n)
{
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

/** Nothing to read now: the end, an error, or a reason to wait (1). */
static ssize_t why_not(struct stream *s)
{
	int err = s->rs.error;

	if (err) {
		s->rs.error = 0;
		return -err;
	}
	if (s->state != STREAM_CONNECTED && s->state != STREAM_DEAD)
		return s->state == STREAM_RESOLVING || s->state == STREAM_CONNECTING ? 1
										     : -ENOTCONN;
	return s->readable ? 1 : 0;
}

static ssize_t stream_recv(struct rs *rs, const struct iovec *iov, int n, int flags,
			   struct sockaddr_storage *from, socklen_t *from_len)
{
	struct stream *s = stream_of(rs);
	const size_t want = total(iov, n);
	size_t done = 0;
	ssize_t ret;

	if (from)
		*from_len = 0; /* a stream's peer is known */
	while (done < want) {
		/* Make progress also for a peek that needs more data than is ready. */
		if (s->r_ready == 0 || ((flags & MSG_PEEK) && s->r_ready < want))
			stream_progress(s);
		if (s->r_ready > 0) {
			done += copy_out(s, iov, n, done, flags & MSG_PEEK);
			if (!(flags & MSG_WAITALL) || (flags & MSG_PEEK))
				break;
			continue;
		}
		ret = done ? s->readable : why_not(s);
		if (ret <= 0)
			return done ? (ssize_t)done : ret;
		ret = rs_wait(rs, POLLIN, flags, -1);
		if (ret < 0)
			return done ? (ssize_t)done : ret;
	}
	return (ssize_t)done;
}

/* ---- sending ---- */

static int why_not_send(struct stream *s)
{
	int err = s->rs.error;

	s->rs.error = 0;
	if (err)
		return -err;
	if (s->state != STREAM_CONNECTED && s->state != STREAM_DEAD)
		return -ENOTCONN;
	return s->state == STREAM_DEAD ? -ECONNRESET : -EPIPE;
}

enum { MOST_IOV = 1024 };

static ssize_t send_all(struct rs *rs, struct iovec *iov, int n, int flags)
{
	struct stream *s = stream_of(rs);
	const size_t want = total(iov, n);
	size_t done = 0;
	ssize_t ret;

	while (done < want) {
		if (!stream_can_send(s))
			stream_progress(s);
		if (!stream_can_send(s)) {
			const bool may_come = s->writable || s->state == STREAM_RESOLVING ||
					      s->state == STREAM_CONNECTING;

			if (!may_come || rs->error)
				return done ? (ssize_t)done : why_not_send(s);
			ret = rs_wait(rs, POLLOUT, flags, -1);
			if (ret < 0)
				return done ? (ssize_t)done : ret;
			continue;
		}
		ret = stream_post_data(s, &iov, &n);
		if (ret < 0) {
			stream_die(s, (int)-ret);
			return done ? (ssize_t)done : ret;
		}
		done += (size_t)ret;
	}
	return (ssize_t)done;
}

static ssize_t stream_send(struct rs *rs, const struct iovec *iov, int n, int flags,
			   const struct sockaddr *to, socklen_t to_len)
{
	struct iovec *copy;
	ssize_t ret;

	(void)to; /* a stream ignores the destination address */
	(void)to_len;
	if (n < 0 || n > MOST_IOV)
		return REFUSE(
			-EINVAL, (unsigned)rs->fd,
			"rsend: %d buffers: the number must be 0 to %d: send in several calls", n,
			(int)MOST_IOV);
	copy = malloc((size_t)MAX(n, 1) * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, iov, (size_t)n * sizeof(*copy));
	ret = send_all(rs, copy, n, flags);
	free(copy);
	return ret;
}

/* ---- the end ---- */

static int stream_shutdown(struct rs *rs, int how)
{
	struct stream *s = stream_of(rs);

	if (s->state != STREAM_CONNECTED)
		return s->state == STREAM_DEAD ? 0 : -ENOTCONN;
	if (how != SHUT_RD && s->writable) {
		s->writable = false;
		if (how == SHUT_RDWR)
			s->bye_due = true;
		else
			s->fin_due = true;
	}
	if (how != SHUT_WR)
		s->readable = false;
	stream_progress(s);
	return 0;
}

/**
 * Sent data has to arrive before the QP is destroyed: completions of RC show when, or that it
 * cannot. SO_LINGER may limit the time.
 */
static void drain(struct stream *s)
{
	const struct linger *l = &s->rs.linger;
	const uint64_t end =
		l->l_onoff ? rs_now() + (uint64_t)MAX(l->l_linger, 0) * NS_PER_S : UINT64_MAX;
	struct pollfd fds[RS_WAIT_FDS];
	uint64_t now;
	unsigned n;

	stream_progress(s);
	while (s->state == STREAM_CONNECTED && !stream_is_idle(s)) {
		now = rs_now();
		if (now >= end)
			break;
		n = stream_arm(&s->rs, POLLOUT, fds);
		stream_progress(s);
		if (s->state != STREAM_CONNECTED || stream_is_idle(s))
			break;
		poll(fds, n, (int)MIN((end - now) / 1000000 + 1, (uint64_t)DRAIN_MS));
		stream_woken(&s->rs);
		stream_progress(s);
		stream_cm_progress(s);
	}
}

static void stream_close(struct rs *rs)
{
	struct stream *s = stream_of(rs);
	const bool abort = rs->linger.l_onoff && rs->linger.l_linger == 0;

	if (s->state == STREAM_CONNECTED && !abort) {
		/* Also after a shutdown of one direction: this is the end of both. */
		s->bye_due = true;
		s->writable = false;
		drain(s);
	}
	if (s->state == STREAM_CONNECTED || s->state == STREAM_DEAD)
		rdma_disconnect(s->id);
	stream_conn_fini(s);
	mutex_unlock(&rs->lock);
	rs_fini(rs);
	free(s);
}

/* ---- keepalive ---- */

/** While data is being sent RC itself detects a dead peer. */
static uint64_t stream_tick(struct rs *rs)
{
	struct stream *s = stream_of(rs);
	const uint64_t now = rs_now(), idle = rs_keepalive_idle(rs);

	stream_progress(s);
	if (s->state == STREAM_CONNECTED && s->probing) {
		if (++s->unanswered < rs_keepalive_count(rs))
			return now + rs_keepalive_interval(rs);
		stream_die(s, ETIMEDOUT);
	}
	if (s->state != STREAM_CONNECTED) {
		rs_wake(rs);
		return 0;
	}
	if (now < s->heard + idle)
		return s->heard + idle;
	if (!stream_is_idle(s))
		return now + idle;
	s->unanswered = 0;
	if (stream_post_probe(s) < 0)
		return 0; /* the QP reports the reason */
	return now + rs_keepalive_interval(rs);
}

/* ---- names ---- */

static int stream_getname(struct rs *rs, bool peer, struct sockaddr_storage *addr, socklen_t *len)
{
	struct stream *s = stream_of(rs);
	const struct sockaddr *a;

	if (peer && s->state != STREAM_CONNECTED)
		return -ENOTCONN;
	a = peer ? rdma_get_peer_addr(s->id) : rdma_get_local_addr(s->id);
	memset(addr, 0, sizeof(*addr));
	if (a->sa_family == AF_UNSPEC) {
		addr->ss_family = (sa_family_t)rs->domain;
		*len = rs_addr_len(rs->domain);
		return 0;
	}
	*len = rs_addr_len(a->sa_family);
	memcpy(addr, a, *len);
	return 0;
}

static struct rdma_cm_id *stream_id(struct rs *rs)
{
	return stream_of(rs)->id;
}

static const struct rs_ops stream_ops = {
	.bind = stream_bind,
	.listen = stream_listen,
	.accept = stream_accept,
	.connect = stream_connect,
	.shutdown = stream_shutdown,
	.close = stream_close,
	.recv = stream_recv,
	.send = stream_send,
	.ready = stream_ready,
	.arm = stream_arm,
	.woken = stream_woken,
	.getname = stream_getname,
	.id = stream_id,
	.tick = stream_tick,
};

int rs_stream_new(int domain, struct rs **out)
{
	struct stream *s = stream_alloc(domain);

	if (!s)
		return -errno;
	rs_init(&s->rs, &stream_ops, domain, SOCK_STREAM);
	s->rs.fd = s->channel->fd;
	if (rdma_create_id(s->channel, &s->id, s, RDMA_PS_TCP)) {
		int err = errno;

		s->id = NULL;
		stream_conn_fini(s);
		rs_fini(&s->rs);
		free(s);
		return -err;
	}
	*out = &s->rs;
	return 0;
}

bool rs_is_stream(const struct rs *rs)
{
	return rs->ops == &stream_ops;
}
