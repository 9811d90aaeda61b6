/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client-gsi.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/client-book.h"
#include "agent/link.h"
#include "agent/socket.h"
#include "base/log.h"
#include "base/util.h"

enum { SEND_WAIT_MS = 50 }; /* a burst of a thousand takes the agent less */

struct agent_gsi {
	struct agent_realm realm; /* of the agent that gave the number */
	pid_t pid;		  /* whose it is */
	int fd;			  /* connection for requests; -1: none now */
	int frames;		  /* second socket; -1 together with fd */
	int token;		  /* holds the number */
	uint16_t number;
	struct gsi_book book; /* what the next agent is to be told, too */
	bool lost;		  /* a binding, with an agent; text says which */
	uint8_t rx[GSI_FRAME_MAX]; /* what agent_gsi_recv() lends */
	uint32_t unreached_id;	  /* see agent_gsi_unreached() */
	int unreached_error;
	char text[AGENT_TEXT_MAX];
};

static int fail(struct agent_gsi *c, int err, const char *text)
{
	snprintf(c->text, sizeof(c->text), "%s", text);
	return err;
}

static int not_ours(struct agent_gsi *c)
{
	return fail(c, -ECHILD,
		    "the connection to the agent is that of the process this one was "
		    "forked from");
}

bool agent_gsi_is_ours(const struct agent_gsi *c)
{
	return c->pid == getpid();
}

const char *agent_gsi_text(const struct agent_gsi *c)
{
	return c->text;
}

uint16_t agent_gsi_number(const struct agent_gsi *c)
{
	return c->number;
}

int agent_gsi_fd(const struct agent_gsi *c)
{
	return c->frames;
}

static void disconnect(struct agent_gsi *c)
{
	link_close_fd(&c->frames);
	link_close_fd(&c->fd);
}

/* One request over the connection there is. */
static int ask(struct agent_gsi *c, const struct agent_msg *m, uint64_t *value)
{
	struct agent_msg answer;
	int r = link_ask(&c->fd, m, &answer, c->text, sizeof(c->text));

	if (c->fd < 0)
		disconnect(c);
	if (r)
		return r;
	if (answer.type != AGENT_GSI_DONE) {
		agent_msg_close_fds(&answer);
		return fail(c, -EPROTO, "the agent's answer makes no sense");
	}
	*value = answer.u.gsi_done.value;
	return 0;
}

/* HELLO and what comes of it. number 0: the first time. */
static int hello(struct agent_gsi *c)
{
	struct agent_msg m = {.type = AGENT_GSI_HELLO, .u.gsi_number.number = c->number}, answer;
	struct timeval tv = {.tv_sec = LINK_TIMEOUT_MS / 1000};
	int r;

	if (c->number)
		m.fds[m.nfds++] = c->token;
	r = link_ask(&c->fd, &m, &answer, c->text, sizeof(c->text));
	if (!r && (answer.type != AGENT_GSI_WELCOME || answer.nfds != (c->number ? 1 : 2) ||
		   (c->number && answer.u.gsi_number.number != c->number))) {
		agent_msg_close_fds(&answer);
		r = fail(c, -EPROTO, "the agent's answer makes no sense");
	}
	if (r) {
		disconnect(c);
		return r;
	}
	c->frames = answer.fds[0];
	if (!c->number) {
		c->number = answer.u.gsi_number.number;
		c->token = answer.fds[1];
	}
	(void)setsockopt(c->frames, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	return 0;
}

static int join(struct agent_gsi *c)
{
	uint64_t deadline = link_now_ms() + LINK_TIMEOUT_MS;
	int r;

	do {
		r = link_connect(&c->realm, c->number != 0, deadline, c->text, sizeof(c->text));
		if (r < 0)
			return r;
		c->fd = r;
		r = hello(c);
		/* An agent that left between connect and answer: the next one. */
	} while (r == -ECONNRESET && link_now_ms() < deadline);
	return r;
}

int agent_gsi_new(struct agent_gsi **out, char *errbuf, size_t errlen)
{
	int off = link_agent_is_off(errbuf, errlen), r;
	struct agent_gsi *c;

	if (off < 0)
		return off;
	if (off) {
		snprintf(errbuf, errlen,
			 "connection management (rdma_cm) needs the agent: unset ROCEMU_AGENT=off");
		return -EOPNOTSUPP;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		snprintf(errbuf, errlen, "out of memory");
		return -ENOMEM;
	}
	c->pid = getpid();
	c->fd = c->frames = c->token = -1;
	gsi_book_init(&c->book);
	r = join(c);
	if (r) {
		snprintf(errbuf, errlen, "%s", c->text);
		free(c);
		return r;
	}
	c->text[0] = '\0';
	if (errlen)
		errbuf[0] = '\0'; /* a first try may have failed */
	*out = c;
	return 0;
}

void agent_gsi_forget(struct agent_gsi *c)
{
	link_close_fd(&c->frames);
	link_close_fd(&c->fd);
	link_close_fd(&c->token);
}

void agent_gsi_free(struct agent_gsi *c)
{
	if (!c)
		return;
	agent_gsi_forget(c);
	gsi_book_fini(&c->book);
	free(c);
}

/* Wait, if need be, until the agent has taken what came before: for a moment only, or as for an
 * answer. */
static int send_frame(struct agent_gsi *c, const uint8_t *buf, size_t len, bool patient)
{
	struct pollfd pfd = {.fd = c->frames, .events = POLLOUT};
	int flags = MSG_NOSIGNAL | (patient ? 0 : MSG_DONTWAIT);
	ssize_t n;

	if (c->frames < 0)
		return fail(c, -ENOTCONN, "there is no agent now");
	do
		n = send(c->frames, buf, len, flags);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN && !patient && poll(&pfd, 1, SEND_WAIT_MS) > 0)
		n = send(c->frames, buf, len, flags);
	if (n >= 0)
		return 0;
	if (errno == EAGAIN || errno == ENOBUFS)
		return fail(c, -EAGAIN, "the agent does not keep up");
	return fail(c, -ENOTCONN, "the agent has died");
}

static struct agent_msg open_msg(const struct opened *o)
{
	return (struct agent_msg){.type = AGENT_GSI_OPEN, .u.socket = {o->addr, o->scope_id, 0}};
}

static struct agent_msg bind_msg(const struct binding *b)
{
	return (struct agent_msg){.type = AGENT_GSI_BIND, .u.gsi_bind = {b->key, b->bind}};
}

static struct agent_msg key_msg(enum agent_msg_type type, uint32_t key)
{
	return (struct agent_msg){.type = type, .u.gsi_bind.key = key};
}

/* A binding that the next agent does not give us again: somebody was quicker. */
static void lose(struct agent_gsi *c, struct binding *b)
{
	char name[AGENT_ADDR_STRLEN], why[200];

	snprintf(why, sizeof(why), "%.199s", c->text);
	snprintf(c->text, sizeof(c->text),
		 "service ID 0x%016" PRIx64 " at %s could not be had again from another agent: %s",
		 b->bind.service_id, data_addr_str(&b->bind.addr, b->bind.scope_id, name), why);
	log_warn("%s", c->text);
	c->lost = true;
	gsi_book_drop_binding(&c->book, b);
}

static int replay_opened(struct agent_gsi *c, struct opened *o)
{
	struct agent_msg m = open_msg(o);
	uint64_t sport;
	int r = ask(c, &m, &sport);

	if (r)
		log_warn("%s", c->text);
	else
		o->sport = (uint16_t)sport;
	return c->fd < 0 ? r : 0;
}

static int replay_binding(struct agent_gsi *c, struct binding *b)
{
	struct agent_msg m = bind_msg(b);
	uint64_t value;
	int r = ask(c, &m, &value);

	m = key_msg(AGENT_GSI_LISTEN, b->key);
	if (!r && b->listens)
		r = ask(c, &m, &value);
	if (c->fd < 0)
		return r;
	if (r)
		lose(c, b);
	return 0;
}

/* Show the next agent what we had with the last one. @return 0, or -errno: it has died, too. */
static int replay(struct agent_gsi *c)
{
	int r = 0;

	list_for_each (it, &c->book.opened) {
		r = replay_opened(c, list_entry(it, struct opened, node));
		if (r)
			return r;
	}
	for (unsigned i = 0; i < BOOK_BUCKETS; i++) {
		list_for_each_safe (it, next, &c->book.bindings[i]) {
			r = replay_binding(c, list_entry(it, struct binding, node));
			if (r)
				return r;
		}
	}
	for (unsigned i = 0; i < BOOK_BUCKETS; i++) {
		list_for_each (it, &c->book.exit_mads[i]) {
			const struct will *w = list_entry(it, struct will, node);

			r = send_frame(c, w->frame, w->len, true);
			if (r)
				return r;
		}
	}
	return 0;
}

static int rejoin(struct agent_gsi *c)
{
	int r;

	disconnect(c);
	r = join(c);
	if (!r)
		r = replay(c);
	if (r)
		disconnect(c);
	return r;
}

/* As ask(), with the next agent if the last one has died. */
static int request(struct agent_gsi *c, const struct agent_msg *m, uint64_t *value)
{
	int r = c->fd >= 0 ? ask(c, m, value) : -ECONNRESET;

	if (r != -ECONNRESET)
		return r;
	r = rejoin(c);
	return r ? r : ask(c, m, value);
}

int agent_gsi_open(struct agent_gsi *c, const struct rocemu_gid *addr, uint32_t scope_id,
		   uint16_t *sport)
{
	struct opened *o;
	struct agent_msg m;
	uint64_t value;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	o = gsi_book_find_opened(&c->book, addr, scope_id);
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return fail(c, -ENOMEM, "out of memory");
		o->addr = *addr;
		o->scope_id = scope_id;
		m = open_msg(o);
		r = request(c, &m, &value);
		if (r) {
			free(o);
			return r;
		}
		o->sport = (uint16_t)value;
		gsi_book_add_opened(&c->book, o);
	}
	if (sport)
		*sport = o->sport;
	return 0;
}

int agent_gsi_recv(struct agent_gsi *c, struct agent_gsi_dgram *d)
{
	struct gsi_frame f;
	ssize_t n = 0;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	while (c->frames >= 0) {
		do
			n = recv(c->frames, c->rx, sizeof(c->rx), MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			break;
		if (gsi_frame_decode(c->rx, (size_t)n, &f) || f.type == GSI_FRAME_EXIT)
			continue;
		if (f.type == GSI_FRAME_UNREACHED) {
			c->unreached_id = f.comm_id;
			c->unreached_error = f.error;
			return 2;
		}
		*d = f.d;
		return 1;
	}
	if (c->frames < 0 || n == 0 || errno != EAGAIN) {
		r = rejoin(c);
		if (r)
			return r;
	}
	if (c->lost) {
		c->lost = false;
		return -EADDRINUSE;
	}
	return 0;
}

int agent_gsi_unreached(const struct agent_gsi *c, uint32_t *comm_id)
{
	*comm_id = c->unreached_id;
	return c->unreached_error;
}

int agent_gsi_send(struct agent_gsi *c, const struct agent_gsi_dgram *d)
{
	struct gsi_frame f = {.type = GSI_FRAME_DGRAM, .d = *d};
	uint8_t buf[GSI_FRAME_MAX];

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	if (d->len != AGENT_GSI_DGRAM_LEN)
		return fail(c, -EINVAL, "no packet of QP 1 has that length");
	return send_frame(c, buf, gsi_frame_encode(&f, buf), false);
}

int agent_gsi_bind(struct agent_gsi *c, struct agent_gsi_bind *bind, uint32_t *key)
{
	struct agent_msg m;
	struct binding *b;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	if (c->book.nbindings >= AGENT_GSI_BINDS_MAX)
		return fail(c, -ENOBUFS, "this process has as many ports as the agent lets it");
	b = calloc(1, sizeof(*b));
	if (!b)
		return fail(c, -ENOMEM, "out of memory");
	b->bind = *bind;
	b->key = gsi_book_new_key(&c->book);
	m = bind_msg(b);
	r = request(c, &m, &b->bind.service_id);
	if (r) {
		free(b);
		return r;
	}
	gsi_book_add_binding(&c->book, b);
	*bind = b->bind;
	*key = b->key;
	return 0;
}

static int no_such_key(struct agent_gsi *c)
{
	return fail(c, -ENOENT, "no such binding");
}

int agent_gsi_listen(struct agent_gsi *c, uint32_t key)
{
	struct agent_msg m = key_msg(AGENT_GSI_LISTEN, key);
	struct binding *b;
	uint64_t nothing;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	b = gsi_book_find_binding(&c->book, key);
	if (!b)
		return no_such_key(c);
	if (b->listens)
		return 0;
	r = request(c, &m, &nothing);
	/* The binding may have been lost with an agent. */
	b = gsi_book_find_binding(&c->book, key);
	if (!r && b)
		b->listens = true;
	return r;
}

int agent_gsi_unbind(struct agent_gsi *c, uint32_t key)
{
	struct agent_msg m = key_msg(AGENT_GSI_UNBIND, key);
	struct binding *b;
	uint64_t nothing;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	b = gsi_book_find_binding(&c->book, key);
	if (!b)
		return no_such_key(c);
	gsi_book_drop_binding(&c->book, b);
	/* An agent that died has forgotten it; the next one will not hear of it. */
	if (c->fd >= 0)
		(void)ask(c, &m, &nothing);
	return 0;
}

/*
 * Wills are waited with when the agent is behind, since one that is missing is noticed too late. No
 * agent is no error: rejoin() shows them to the next one.
 */
static void send_will(struct agent_gsi *c, const uint8_t *frame, size_t len)
{
	if (send_frame(c, frame, len, true) == -EAGAIN)
		disconnect(c);
}

int agent_gsi_exit_set(struct agent_gsi *c, uint32_t comm_id, const struct agent_exit_mad *will)
{
	struct gsi_frame f = {.type = GSI_FRAME_EXIT,
			     .comm_id = comm_id,
			     .cm_timeout = will->cm_timeout,
			     .retries = will->retries,
			     .d = will->dgram};
	struct will *w;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	if (comm_id >> AGENT_GSI_ID_BITS != c->number || will->dgram.len != AGENT_GSI_DGRAM_LEN)
		return fail(c, -EINVAL, "a will for an ID that is not ours, or without a packet");
	w = gsi_book_find_will(&c->book, comm_id);
	if (!w) {
		if (c->book.nexits >= AGENT_GSI_EXITS_MAX)
			return fail(c, -ENOBUFS, "as many wills as the agent keeps are there");
		w = calloc(1, sizeof(*w));
		if (!w)
			return fail(c, -ENOMEM, "out of memory");
		w->comm_id = comm_id;
		gsi_book_add_will(&c->book, w);
	}
	w->len = gsi_frame_encode(&f, w->frame);
	send_will(c, w->frame, w->len);
	return 0;
}

int agent_gsi_exit_clear(struct agent_gsi *c, uint32_t comm_id)
{
	struct gsi_frame f = {.type = GSI_FRAME_EXIT, .comm_id = comm_id};
	uint8_t buf[GSI_FRAME_MAX];
	struct will *w;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	w = gsi_book_find_will(&c->book, comm_id);
	if (!w)
		return 0;
	gsi_book_drop_will(&c->book, w);
	send_will(c, buf, gsi_frame_encode(&f, buf));
	return 0;
}
