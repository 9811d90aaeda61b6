/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client-gsi.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/client-frames.h"
#include "agent/socket.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

struct opened {
	struct list node;
	struct hash_node by_address;
	struct rocemu_gid addr;
	uint32_t scope_id;
};

struct binding {
	struct hash_node node; /* in agent_gsi.bindings, by key */
	uint32_t key;
	bool listens;
	struct agent_gsi_bind bind;
};

static int fail(int err, char text[static AGENT_TEXT_MAX], const char *why)
{
	snprintf(text, AGENT_TEXT_MAX, "%s", why);
	return err;
}

static int not_ours(char text[static AGENT_TEXT_MAX])
{
	return fail(-ECHILD, text,
		    "the connection to the agent is that of the process this one was "
		    "forked from");
}

/* ---- life ---- */

int agent_gsi_new(struct agent_gsi **out, char text[static AGENT_TEXT_MAX])
{
	int off = link_agent_is_off(text, AGENT_TEXT_MAX), r;
	struct agent_gsi *c;

	if (off < 0)
		return off;
	if (off)
		return fail(
			-EOPNOTSUPP, text,
			"connection management (rdma_cm) needs the agent: unset ROCEMU_AGENT=off");
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(-ENOMEM, text, "out of memory");
	c->pid = getpid();
	mutex_init(&c->requests);
	link_init(&c->link, AGENT_GSI);
	list_init(&c->opened);
	*out = c;
	r = frames_init(c);
	r = r ? fail(r, text, strerror(-r)) : agent_gsi_join(c, text);
	if (r) {
		*out = NULL;
		agent_gsi_free(c);
		return r;
	}
	text[0] = '\0'; /* a first try may have failed */
	return 0;
}

void agent_gsi_forget(struct agent_gsi *c)
{
	link_close(&c->link);
	frames_forget(c);
}

void agent_gsi_free(struct agent_gsi *c)
{
	if (!c)
		return;
	agent_gsi_forget(c);
	frames_fini(c);
	hash_fini(&c->by_address);
	list_for_each_safe (it, next, &c->opened)
		free(list_entry(it, struct opened, node));
	hash_for_all (b, struct binding, node, &c->bindings)
		free(b);
	hash_fini(&c->bindings);
	free(c);
}

/* ---- requests ---- */

/* One request over the current connection. */
static int send_request(struct agent_gsi *c, const struct agent_msg *m, uint64_t *value,
			char text[static AGENT_TEXT_MAX])
{
	struct agent_msg answer;
	int r = link_request(&c->link, m, AGENT_GSI_DONE, &answer, text, AGENT_TEXT_MAX);

	if (c->link.fd < 0)
		frames_drop(c);
	if (!r)
		*value = answer.u.gsi_done.value;
	return r;
}

static struct agent_msg address_msg(enum agent_msg_type type, const struct opened *o)
{
	return (struct agent_msg){.type = type, .u.socket = {o->addr, o->scope_id, 0}};
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
static void lose(struct agent_gsi *c, struct binding *b, char text[static AGENT_TEXT_MAX])
{
	char name[AGENT_ADDR_STRLEN], why[200];

	snprintf(why, sizeof(why), "%.199s", text);
	snprintf(text, AGENT_TEXT_MAX,
		 "service ID 0x%016" PRIx64
		 " at %s could not be registered again with the next agent: %s",
		 b->bind.service_id, data_addr_str(&b->bind.addr, b->bind.scope_id, name), why);
	log_error("%s", text);
	hash_remove(&c->bindings, &b->node);
	free(b);
}

static int replay_opened(struct agent_gsi *c, struct opened *o, char text[static AGENT_TEXT_MAX])
{
	struct agent_msg m = address_msg(AGENT_GSI_OPEN, o);
	uint64_t nothing;
	int r = send_request(c, &m, &nothing, text);

	if (r)
		log_warn("%s", text);
	return c->link.fd < 0 ? r : 0;
}

/* @return 0; 1: it is lost; or -errno: the agent has died, too. */
static int replay_binding(struct agent_gsi *c, struct binding *b, char text[static AGENT_TEXT_MAX])
{
	struct agent_msg m = bind_msg(b);
	uint64_t value;
	int r = send_request(c, &m, &value, text);

	m = key_msg(AGENT_GSI_LISTEN, b->key);
	if (!r && b->listens)
		r = send_request(c, &m, &value, text);
	if (!r || c->link.fd < 0)
		return r;
	lose(c, b, text);
	return 1;
}

/* Register with the next agent all that the last one had. @return as replay_binding(). */
static int replay(struct agent_gsi *c, char text[static AGENT_TEXT_MAX])
{
	int r = 0, lost = 0;

	list_for_each (it, &c->opened) {
		r = replay_opened(c, list_entry(it, struct opened, node), text);
		if (r)
			return r;
	}
	hash_for_all (b, struct binding, node, &c->bindings) {
		r = replay_binding(c, b, text);
		if (r < 0)
			return r;
		lost |= r;
	}
	return lost;
}

/* @return as agent_gsi_join(). */
static int join(struct agent_gsi *c, char text[static AGENT_TEXT_MAX])
{
	int r, lost = 0;

	frames_drop(c);
	r = link_join(&c->link, text, AGENT_TEXT_MAX);
	if (!r)
		r = lost = replay(c, text);
	if (r >= 0) {
		r = frames_install(c);
		if (r)
			(void)fail(r, text, "the agent has died");
	}
	if (r)
		link_disconnect(&c->link);
	return r ? r : lost;
}

int agent_gsi_join(struct agent_gsi *c, char text[static AGENT_TEXT_MAX])
{
	if (!agent_gsi_is_ours(c))
		return not_ours(text);
	MUTEX_HELD(&c->requests);
	return c->link.fd < 0 || !agent_gsi_connected(c) ? join(c, text) : 0;
}

/* As send_request(), with the next agent if the last one has died. */
static int request(struct agent_gsi *c, const struct agent_msg *m, uint64_t *value,
		   char text[static AGENT_TEXT_MAX])
{
	int r = send_request(c, m, value, text);

	if (r != -ECONNRESET)
		return r;
	r = join(c, text);
	return r < 0 ? r : send_request(c, m, value, text);
}

static uint64_t address_key(const struct rocemu_gid *addr, uint32_t scope_id)
{
	return hash_bytes(addr, sizeof(*addr)) ^ scope_id;
}

static struct opened *find_opened(const struct agent_gsi *c, const struct rocemu_gid *addr,
				  uint32_t scope_id)
{
	hash_for_each (o, struct opened, by_address, &c->by_address, address_key(addr, scope_id))
		if (o->scope_id == scope_id && rocemu_gid_equal(&o->addr, addr))
			return o;
	return NULL;
}

int agent_gsi_open(struct agent_gsi *c, const struct rocemu_gid *addr, uint32_t scope_id,
		   char text[static AGENT_TEXT_MAX])
{
	struct agent_msg m;
	struct opened *o;
	uint64_t nothing;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(text);
	MUTEX_HELD(&c->requests);
	if (find_opened(c, addr, scope_id))
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o)
		return fail(-ENOMEM, text, "out of memory");
	o->addr = *addr;
	o->scope_id = scope_id;
	m = address_msg(AGENT_GSI_OPEN, o);
	r = request(c, &m, &nothing, text);
	if (r) {
		free(o);
		return r;
	}
	list_append(&c->opened, &o->node);
	hash_add(&c->by_address, &o->by_address, address_key(addr, scope_id));
	return 0;
}

void agent_gsi_close(struct agent_gsi *c, const struct rocemu_gid *addr, uint32_t scope_id)
{
	char ignored[AGENT_TEXT_MAX];
	struct agent_msg m;
	struct opened *o;
	uint64_t nothing;

	if (!agent_gsi_is_ours(c))
		return;
	MUTEX_HELD(&c->requests);
	o = find_opened(c, addr, scope_id);
	if (!o)
		return;
	m = address_msg(AGENT_GSI_CLOSE, o);
	list_remove(&o->node);
	hash_remove(&c->by_address, &o->by_address);
	free(o);
	/* An agent that died has lost it, and the next one does not get it. */
	if (c->link.fd >= 0)
		(void)send_request(c, &m, &nothing, ignored);
}

static struct binding *find_binding(const struct agent_gsi *c, uint32_t key)
{
	return hash_entry(hash_find(&c->bindings, key), struct binding, node);
}

int agent_gsi_bind(struct agent_gsi *c, struct agent_gsi_bind *bind, uint32_t *key,
		   char text[static AGENT_TEXT_MAX])
{
	struct agent_msg m;
	struct binding *b;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(text);
	MUTEX_HELD(&c->requests);
	if (c->bindings.n >= AGENT_GSI_BINDS_MAX)
		return fail(-ENOBUFS, text,
			    "this process has reached the agent's limit of ports per client");
	b = calloc(1, sizeof(*b));
	if (!b)
		return fail(-ENOMEM, text, "out of memory");
	b->bind = *bind;
	do
		b->key = ++c->last_key;
	while (find_binding(c, b->key));
	m = bind_msg(b);
	r = request(c, &m, &b->bind.service_id, text);
	if (r) {
		free(b);
		return r;
	}
	hash_add(&c->bindings, &b->node, b->key);
	*bind = b->bind;
	*key = b->key;
	return 0;
}

int agent_gsi_listen(struct agent_gsi *c, uint32_t key, char text[static AGENT_TEXT_MAX])
{
	struct agent_msg m = key_msg(AGENT_GSI_LISTEN, key);
	struct binding *b;
	uint64_t nothing;
	int r;

	if (!agent_gsi_is_ours(c))
		return not_ours(text);
	MUTEX_HELD(&c->requests);
	b = find_binding(c, key);
	if (!b)
		return fail(-ENOENT, text, "no such binding");
	if (b->listens)
		return 0;
	r = request(c, &m, &nothing, text);
	/* The binding may have been lost with an agent. */
	b = find_binding(c, key);
	if (!r && b)
		b->listens = true;
	return r;
}

int agent_gsi_unbind(struct agent_gsi *c, uint32_t key)
{
	struct agent_msg m = key_msg(AGENT_GSI_UNBIND, key);
	char ignored[AGENT_TEXT_MAX];
	struct binding *b;
	uint64_t nothing;

	if (!agent_gsi_is_ours(c))
		return -ECHILD;
	MUTEX_HELD(&c->requests);
	b = find_binding(c, key);
	if (!b)
		return -ENOENT;
	hash_remove(&c->bindings, &b->node);
	free(b);
	/* An agent that died has lost it, and it is not registered with the next one. */
	if (c->link.fd >= 0)
		(void)send_request(c, &m, &nothing, ignored);
	return 0;
}

/* ---- frames ---- */

struct drain {
	unsigned end; /* the value of c->taken to wait for */
	unsigned taken;
	uint64_t since; /* it has this value, in ms */
};

/* Begin, or go on. @return the descriptor to wait for; -1: there is nothing to wait for. */
static int drain_fd(struct agent_gsi *c, struct drain *d, bool begin)
{
	const uint64_t now = monotonic_ms();

	MUTEX_HELD(&c->lock);
	if (begin)
		d->end = c->taken + c->queued;
	if (begin || d->taken != c->taken) {
		d->taken = c->taken;
		d->since = now;
	} else if (now - d->since >= AGENT_GSI_DRAIN_MS) {
		c->stalled = c->queued > 0;
	}
	return c->stalled || (int)(d->end - c->taken) <= 0 ? -1 : c->frames;
}

void agent_gsi_drain(struct agent_gsi *c)
{
	struct drain d;
	int fd;

	if (!agent_gsi_is_ours(c))
		return;
	for (fd = drain_fd(c, &d, true); fd >= 0; fd = drain_fd(c, &d, false)) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};

		(void)poll(&p, 1, AGENT_GSI_DRAIN_MS);
		agent_gsi_flush(c);
	}
}
