/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/globals.h"
#include "rdmacm/id.h"

struct rcm_address {
	struct list node;
	struct hash_node by_address;
	struct rcm_local local;
	bool ready;	/* the agent has it; MADs may come before we have that answer */
	bool is_listed; /* see rcm_agent_close_others() */
};

static struct rcm_agent *const agent = &rcm_globals.agent;

/* ---- calls ---- */

void rcm_call_begin(struct rcm_call *call, const struct rcm_id *id)
{
	call->id = id;
	list_append(&agent->calls, &call->node);
}

void rcm_call_end(struct rcm_call *call)
{
	list_remove(&call->node);
	rcm_lock_wake_all();
}

static bool has_call(const struct rcm_id *id) REQUIRES(rcm_lock)
{
	list_for_each (n, &agent->calls)
		if (list_entry(n, struct rcm_call, node)->id == id)
			return true;
	return false;
}

void rcm_calls_wait(const struct rcm_id *id)
{
	while (has_call(id))
		rcm_lock_wait();
}

/* ---- addresses ---- */

static uint64_t key(const struct rocemu_gid *gid, uint32_t scope_id)
{
	return hash_bytes(gid, sizeof(*gid)) ^ scope_id;
}

static struct rcm_address *find(const struct rocemu_gid *gid, uint32_t scope_id) REQUIRES(rcm_lock)
{
	hash_for_each (a, struct rcm_address, by_address, &agent->by_address, key(gid, scope_id))
		if (rocemu_gid_equal(&a->local.gid, gid) && a->local.scope_id == scope_id)
			return a;
	return NULL;
}

const struct rcm_local *rcm_agent_local(const struct rocemu_gid *gid, uint32_t scope_id)
{
	const struct rcm_address *a = find(gid, scope_id);

	return a ? &a->local : NULL;
}

/* @return NULL: out of memory. */
static struct rcm_address *find_or_add(const struct rcm_local *local) REQUIRES(rcm_lock)
{
	struct rcm_address *a = find(&local->gid, local->scope_id);

	if (!a) {
		a = calloc(1, sizeof(*a));
		if (!a)
			return NULL;
		list_append(&agent->opened, &a->node);
		hash_add(&agent->by_address, &a->by_address, key(&local->gid, local->scope_id));
	}
	a->local = *local; /* it may have moved to another device */
	return a;
}

static void forget(struct rcm_address *a) REQUIRES(rcm_lock)
{
	hash_remove(&agent->by_address, &a->by_address);
	list_remove(&a->node);
	free(a);
}

static int open_one(const struct rcm_local *local, char text[static AGENT_TEXT_MAX])
	REQUIRES(rcm_lock)
{
	struct rcm_address *a = find_or_add(local);
	int err;

	if (a && a->ready)
		return 0;
	snprintf(text, AGENT_TEXT_MAX, "out of memory");
	if (!a)
		return -ENOMEM;
	rcm_lock_drop();
	err = agent_gsi_open(agent->client, &local->gid, local->scope_id, text);
	rcm_lock_take();
	/* Other threads may have changed the table. */
	a = err ? find(&local->gid, local->scope_id) : find_or_add(local);
	if (a && err && !a->ready)
		forget(a);
	else if (a)
		a->ready = true;
	return err;
}

int rcm_agent_open(const struct rcm_local *locals, int n, enum log_level level)
{
	char text[AGENT_TEXT_MAX];
	int err = 0, good = 0;

	for (int i = 0; i < n; i++) {
		int ret = open_one(&locals[i], text);

		good += !ret;
		if (!ret)
			continue;
		log_msg(level, "%s", text);
		err = ret;
	}
	/* A wildcard does without addresses that cannot be had. */
	return good ? 0 : err;
}

void rcm_agent_found(const struct rcm_local *local)
{
	struct rcm_address *a = find(&local->gid, local->scope_id);

	if (a)
		a->local = *local;
}

/*
 * Close addresses that are in no table any more. The lock is released at each one: another thread
 * may need the address meanwhile, and have it open before it is closed.
 */
static void close_all(struct list *closing) REQUIRES(rcm_lock)
{
	char text[AGENT_TEXT_MAX];
	struct list *first;

	while ((first = list_first(closing)) != NULL) {
		struct rcm_address *a = list_entry(first, struct rcm_address, node);
		const struct rcm_local local = a->local;
		struct rcm_local again;

		list_remove(&a->node);
		free(a);
		rcm_lock_drop();
		agent_gsi_close(agent->client, &local.gid, local.scope_id);
		rcm_lock_take();
		a = find(&local.gid, local.scope_id);
		if (!a)
			continue;
		a->ready = false;
		again = a->local;
		if (open_one(&again, text))
			log_info("%s", text);
	}
}

static void take_out(struct rcm_address *a, struct list *closing) REQUIRES(rcm_lock)
{
	hash_remove(&agent->by_address, &a->by_address);
	list_remove(&a->node);
	list_append(closing, &a->node);
}

void rcm_agent_close(const struct rcm_device *dev)
{
	struct list closing = {&closing, &closing};

	list_for_each_entry (a, struct rcm_address, node, &agent->opened)
		if (a->local.dev == dev)
			take_out(a, &closing);
	close_all(&closing);
}

void rcm_agent_close_others(const struct rcm_local *locals, int n)
{
	struct list closing = {&closing, &closing};

	list_for_each_entry (a, struct rcm_address, node, &agent->opened)
		a->is_listed = false;
	for (int i = 0; i < n; i++) {
		struct rcm_address *a = find(&locals[i].gid, locals[i].scope_id);

		if (a)
			a->is_listed = true;
	}
	/* One that is not ready is being opened now. */
	list_for_each_entry (a, struct rcm_address, node, &agent->opened)
		if (a->ready && !a->is_listed)
			take_out(a, &closing);
	close_all(&closing);
}

/* ---- ports ---- */

int rcm_agent_bind(struct rcm_id *id, const struct sockaddr *ip, const struct rcm_local *local,
		   uint64_t *service_id)
{
	static const struct rocemu_gid any_v4 = {.raw = {[10] = 0xff, [11] = 0xff}}, any_v6;
	bool v4 = ip->sa_family == AF_INET;
	/* An IPv4 wildcard has never been one of IPv6, so the two may stand side by side. */
	bool afonly = id->afonly < 0 ? v4 : id->afonly;
	struct agent_gsi_bind b = {
		.service_id = *service_id,
		.addr = local ? local->gid
			: v4  ? any_v4
			      : any_v6,
		/* It may have been left open. */
		.scope_id = local ? local->scope_id : rcm_addr_scope(ip),
		.flags =
			(id->reuseaddr ? AGENT_GSI_REUSEADDR : 0) | (afonly ? AGENT_GSI_AFONLY : 0),
	};
	char text[AGENT_TEXT_MAX];
	int err;

	rcm_lock_drop();
	err = agent_gsi_bind(agent->client, &b, &id->bind_key, text);
	rcm_lock_take();
	if (err)
		return err;
	id->bound = true;
	*service_id = b.service_id;
	return 0;
}

int rcm_agent_listen(struct rcm_id *id)
{
	char text[AGENT_TEXT_MAX];
	int err;

	if (!id->bound)
		return REFUSE(-EINVAL, 0,
			      "rdma_listen: the ID has no port: it must be bound first: call "
			      "rdma_bind_addr()");
	rcm_lock_drop();
	err = agent_gsi_listen(agent->client, id->bind_key, text);
	rcm_lock_take();
	return err;
}

void rcm_agent_unbind(struct rcm_id *id)
{
	if (!id->bound)
		return;
	id->bound = false;
	rcm_lock_drop();
	agent_gsi_unbind(agent->client, id->bind_key);
	rcm_lock_take();
}
