/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client-gsi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/client-regs.h"
#include "agent/link.h"
#include "agent/socket.h"
#include "base/log.h"
#include "base/util.h"

/* Frames that wait for the agent. MADs beyond it are lost, as packets are; exit MADs are not. */
enum { QUEUE_MAX = 16384, QUEUE_MAX_EXIT = 4 * QUEUE_MAX };

struct queued {
	struct list node;
	struct gsi_frame frame;
};

struct agent_gsi {
	struct link link; /* its place is our number */
	pid_t pid;	  /* whose it is */
	struct gsi_regs regs; /* what the next agent is to be told, too */
	bool lost;		  /* a binding, with an agent; text says which */
	struct list queue; /* frames to send, oldest first */
	unsigned queued;
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
	return c->link.place;
}

int agent_gsi_fd(const struct agent_gsi *c)
{
	return c->link.frames;
}

static void drop_queue(struct agent_gsi *c)
{
	list_for_each_safe (it, next, &c->queue)
		free(list_entry(it, struct queued, node));
	list_init(&c->queue);
	c->queued = 0;
}

/* What waits is lost, as on any network; exit MADs are in the registrations. */
static void disconnect(struct agent_gsi *c)
{
	drop_queue(c);
	link_disconnect(&c->link);
}

/* One request over the connection there is. */
static int ask(struct agent_gsi *c, const struct agent_msg *m, uint64_t *value)
{
	struct agent_msg answer;
	int r = link_ask(&c->link, m, AGENT_GSI_DONE, &answer, c->text, sizeof(c->text));

	if (c->link.fd < 0)
		disconnect(c);
	if (!r)
		*value = answer.u.gsi_done.value;
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
	link_init(&c->link, AGENT_GSI);
	list_init(&c->queue);
	gsi_regs_init(&c->regs);
	r = link_join(&c->link, c->text, sizeof(c->text));
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
	link_close(&c->link);
}

void agent_gsi_free(struct agent_gsi *c)
{
	if (!c)
		return;
	agent_gsi_forget(c);
	drop_queue(c);
	gsi_regs_fini(&c->regs);
	free(c);
}

static int enqueue(struct agent_gsi *c, const struct gsi_frame *f, unsigned max)
{
	struct queued *e = c->queued < max ? malloc(sizeof(*e)) : NULL;

	if (!e)
		return fail(c, -EAGAIN, "the agent does not keep up");
	e->frame = *f;
	list_append(&c->queue, &e->node);
	c->queued++;
	return 0;
}

/* @return 0, -EAGAIN: there is no room, or -ENOTCONN. */
static int send_now(struct agent_gsi *c, const struct gsi_frame *f)
{
	ssize_t n;

	do
		n = send(c->link.frames, f, sizeof(*f), MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS ? -EAGAIN : -ENOTCONN;
}

/* Never waits: what the agent has no room for is queued, up to max frames. */
static int send_frame(struct agent_gsi *c, const struct gsi_frame *f, unsigned max)
{
	int r;

	if (c->link.frames < 0)
		return fail(c, -ENOTCONN, "there is no agent now");
	r = c->queued ? -EAGAIN : send_now(c, f);
	if (r == -EAGAIN)
		return enqueue(c, f, max);
	return r ? fail(c, r, "the agent has died") : 0;
}

bool agent_gsi_flush(struct agent_gsi *c)
{
	struct list *first;

	while (c->link.frames >= 0 && (first = list_first(&c->queue))) {
		struct queued *e = list_entry(first, struct queued, node);

		if (send_now(c, &e->frame))
			break;
		list_remove(&e->node);
		free(e);
		c->queued--;
	}
	return c->queued == 0;
}

bool agent_gsi_waits(const struct agent_gsi *c)
{
	return c->queued > 0;
}

static struct agent_msg open_msg(const struct opened *o)
{
	return (struct agent_msg){.type = AGENT_GSI_OPEN, .u.socket = {o->addr, o->scope_id, 0}};
}

static struct agent_msg bind_msg(const struct binding *b)
{
	return (struct agent_msg){.type = AGENT_GSI_BIND, .u.gsi_bind = {b->bind, b->key, 0}};
}

static struct agent_msg key_msg(enum agent_msg_type type, uint32_t key)
{
	return (struct agent_msg){.type = type, .u.gsi_bind.key = key};
}

/* A binding that the next agent refuses: another process has the port by now. */
static void lose(struct agent_gsi *c, struct binding *b)
{
	char name[AGENT_ADDR_STRLEN], why[200];

	snprintf(why, sizeof(why), "%.199s", c->text);
	snprintf(c->text, sizeof(c->text),
		 "service ID 0x%016" PRIx64 " at %s could not be had again from another agent: %s",
		 b->bind.service_id, data_addr_str(&b->bind.addr, b->bind.scope_id, name), why);
	log_warn("%s", c->text);
	c->lost = true;
	gsi_regs_drop_binding(&c->regs, b);
}

static int replay_opened(struct agent_gsi *c, struct opened *o)
{
	struct agent_msg m = open_msg(o);
	uint64_t nothing;
	int r = ask(c, &m, &nothing);

	if (r)
		log_warn("%s", c->text);
	return c->link.fd < 0 ? r : 0;
}

static int replay_binding(struct agent_gsi *c, struct binding *b)
{
	struct agent_msg m = bind_msg(b);
	uint64_t value;
	int r = ask(c, &m, &value);

	m = key_msg(AGENT_GSI_LISTEN, b->key);
	if (!r && b->listens)
		r = ask(c, &m, &value);
	if (c->link.fd < 0)
		return r;
	if (r)
		lose(c, b);
	return 0;
}

/* Show the next agent what we had with the last one. @return 0, or -errno: it has died, too. */
static int replay(struct agent_gsi *c)
{
	int r = 0;

	list_for_each (it, &c->regs.opened) {
		r = replay_opened(c, list_entry(it, struct opened, node));
		if (r)
			return r;
	}
	for (unsigned i = 0; i < REGS_BUCKETS; i++) {
		list_for_each_safe (it, next, &c->regs.bindings[i]) {
			r = replay_binding(c, list_entry(it, struct binding, node));
			if (r)
				return r;
		}
	}
	for (unsigned i = 0; i < REGS_BUCKETS; i++) {
		list_for_each (it, &c->regs.exit_mads[i]) {
			r = send_frame(c, &list_entry(it, struct exit_reg, node)->frame,
				       QUEUE_MAX_EXIT);
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
	r = link_join(&c->link, c->text, sizeof(c->text));
	if (!r)
		r = replay(c);
	if (r)
		disconnect(c);
	return r;
}

/* As ask(), with the next agent if the last one has died. */
static int request(struct agent_gsi *c, const struct agent_msg *m, uint64_t *value)
{
	int r = ask(c, m, value);

	if (r != -ECONNRESET)
		return r;
	r = rejoin(c);
	return r ? r : ask(c, m, value);
}

int agent_gsi_open(struct agent_gsi *c, const struct rocemu_gid *addr, uint32_t scope_id)
{
	struct opened *o;
	struct agent_msg m;
	uint64_t value;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	o = gsi_regs_find_opened(&c->regs, addr, scope_id);
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
		gsi_regs_add_opened(&c->regs, o);
	}
	return 0;
}

int agent_gsi_recv(struct agent_gsi *c, struct gsi_frame *f)
{
	ssize_t n = 0;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	while (c->link.frames >= 0) {
		do
			n = recv(c->link.frames, f, sizeof(*f), MSG_DONTWAIT | MSG_TRUNC);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			break;
		if (gsi_frame_ok(f, (size_t)n) && f->type <= GSI_FRAME_UNREACHED)
			return 1;
	}
	if (c->link.frames < 0 || n == 0 || errno != EAGAIN) {
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

int agent_gsi_send(struct agent_gsi *c, const struct gsi_mad *m, bool echo)
{
	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	return send_frame(c,
			  &(struct gsi_frame){.magic = GSI_FRAME_MAGIC,
					      .type = GSI_FRAME_MAD,
					      .echo = echo,
					      .m = *m},
			  QUEUE_MAX);
}

int agent_gsi_bind(struct agent_gsi *c, struct agent_gsi_bind *bind, uint32_t *key)
{
	struct agent_msg m;
	struct binding *b;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	if (c->regs.nbindings >= AGENT_GSI_BINDS_MAX)
		return fail(c, -ENOBUFS, "this process has as many ports as the agent lets it");
	b = calloc(1, sizeof(*b));
	if (!b)
		return fail(c, -ENOMEM, "out of memory");
	b->bind = *bind;
	b->key = gsi_regs_new_key(&c->regs);
	m = bind_msg(b);
	r = request(c, &m, &b->bind.service_id);
	if (r) {
		free(b);
		return r;
	}
	gsi_regs_add_binding(&c->regs, b);
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
	b = gsi_regs_find_binding(&c->regs, key);
	if (!b)
		return no_such_key(c);
	if (b->listens)
		return 0;
	r = request(c, &m, &nothing);
	/* The binding may have been lost with an agent. */
	b = gsi_regs_find_binding(&c->regs, key);
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
	b = gsi_regs_find_binding(&c->regs, key);
	if (!b)
		return no_such_key(c);
	gsi_regs_drop_binding(&c->regs, b);
	/* An agent that died has forgotten it; the next one will not hear of it. */
	if (c->link.fd >= 0)
		(void)ask(c, &m, &nothing);
	return 0;
}

/* No agent is no error: rejoin() shows the registrations to the next one. */
static void send_exit(struct agent_gsi *c, const struct gsi_frame *f)
{
	if (send_frame(c, f, QUEUE_MAX_EXIT) == -EAGAIN)
		disconnect(c);
}

int agent_gsi_exit_set(struct agent_gsi *c, uint32_t comm_id, const struct agent_exit_mad *exit_mad)
{
	struct exit_reg *e;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	if (comm_id >> AGENT_GSI_ID_BITS != c->link.place)
		return fail(c, -EINVAL, "an exit MAD for an ID of another process");
	e = gsi_regs_find_exit(&c->regs, comm_id);
	if (!e) {
		if (c->regs.nexits >= AGENT_GSI_EXITS_MAX)
			return fail(c, -ENOBUFS, "as many exit MADs as the agent keeps are there");
		e = calloc(1, sizeof(*e));
		if (!e)
			return fail(c, -ENOMEM, "out of memory");
		e->comm_id = comm_id;
		gsi_regs_add_exit(&c->regs, e);
	}
	e->frame = (struct gsi_frame){.magic = GSI_FRAME_MAGIC,
				      .type = GSI_FRAME_EXIT_SET,
				      .comm_id = comm_id,
				      .cm_timeout = exit_mad->cm_timeout & 31,
				      .retries = exit_mad->retries & 15,
				      .m = exit_mad->mad};
	send_exit(c, &e->frame);
	return 0;
}

int agent_gsi_exit_clear(struct agent_gsi *c, uint32_t comm_id)
{
	struct exit_reg *e;

	if (!agent_gsi_is_ours(c))
		return not_ours(c);
	e = gsi_regs_find_exit(&c->regs, comm_id);
	if (!e)
		return 0;
	gsi_regs_drop_exit(&c->regs, e);
	send_exit(c, &(struct gsi_frame){.magic = GSI_FRAME_MAGIC,
					 .type = GSI_FRAME_EXIT_CLEAR,
					 .comm_id = comm_id});
	return 0;
}
