/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/cm.h>

#include "base/util.h"

/* How specifically a binding matches an address; 0: no match. */
enum fit { FIT_NONE, FIT_ANY_BOTH, FIT_ANY, FIT_ADDR };

/* The first word of a table's key: of which table. */
enum { OF_SERVICE, OF_KEY };

static const struct rocemu_gid any_v4 = {.raw = {[10] = 0xff, [11] = 0xff}}, any_v6;

static bool is_any(const struct agent_gsi_bind *b)
{
	return rocemu_gid_equal(&b->addr, &any_v4) || rocemu_gid_equal(&b->addr, &any_v6);
}

static bool same_addr(const struct agent_gsi_bind *a, const struct agent_gsi_bind *b)
{
	return a->scope_id == b->scope_id && rocemu_gid_equal(&a->addr, &b->addr);
}

static bool both_have(const struct agent_gsi_bind *a, const struct agent_gsi_bind *b, uint32_t flag)
{
	return a->flags & b->flags & flag;
}

/* May two not have the same service ID? */
static bool conflict(const struct agent_gsi_bind *a, const struct agent_gsi_bind *b, bool same_user)
{
	/* Another user's more specific listener would get the first one's requests. */
	if (same_user && both_have(a, b, AGENT_GSI_REUSEADDR))
		return false;
	if (both_have(a, b, AGENT_GSI_AFONLY) &&
	    rocemu_gid_is_ipv4(&a->addr) != rocemu_gid_is_ipv4(&b->addr))
		return false;
	return is_any(a) || is_any(b) || same_addr(a, b);
}

static uint64_t service_key(const struct gsi_ports *p, uint64_t service_id)
{
	const uint64_t words[] = {OF_SERVICE, service_id};

	return prf_hash(&p->prf, words, ARRAY_LEN(words));
}

static uint64_t key_key(const struct gsi_ports *p, uint16_t number, uint32_t key)
{
	const uint64_t words[] = {OF_KEY, (uint64_t)number << 32 | key};

	return prf_hash(&p->prf, words, ARRAY_LEN(words));
}

void gsi_ports_init(struct gsi_ports *p, uint16_t first, uint16_t last, struct prf prf)
{
	*p = (struct gsi_ports){.first = first, .last = last, .prf = prf};
}

/*
 * The next binding of a service ID after another one, which is newer; NULL: the first. @return
 * NULL: no more.
 */
static struct gsi_port *next_of(const struct gsi_ports *p, const struct gsi_port *last,
				uint64_t service_id)
{
	struct hash_node *n = last ? hash_next(&last->by_service)
				   : hash_find(&p->by_service, service_key(p, service_id));

	for (; n; n = hash_next(n)) {
		struct gsi_port *port = container_of(n, struct gsi_port, by_service);

		if (port->bind.service_id == service_id)
			return port;
	}
	return NULL;
}

/* From a random place on, so that a port is not given out again soon. */
static int pick_port(struct gsi_ports *p, struct agent_gsi_bind *b)
{
	uint32_t n = (uint32_t)p->last - p->first + 1, at = prf_below(&p->prf, n);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t service_id = b->service_id | (uint64_t)(p->first + (at + i) % n);

		if (!next_of(p, NULL, service_id)) {
			b->service_id = service_id;
			return 0;
		}
	}
	return -EADDRNOTAVAIL;
}

static struct gsi_port *find_key(struct gsi_ports *p, uint16_t number, uint32_t key)
{
	hash_for_each (port, struct gsi_port, by_key, &p->by_key, key_key(p, number, key))
		if (port->number == number && port->key == key)
			return port;
	return NULL;
}

static int check(struct gsi_ports *p, uint32_t uid, const struct agent_gsi_bind *b)
{
	for (const struct gsi_port *o = NULL; (o = next_of(p, o, b->service_id));)
		if (conflict(b, &o->bind, o->uid == uid))
			return -EADDRINUSE;
	return 0;
}

int gsi_ports_bind(struct gsi_ports *p, uint16_t number, uint32_t uid, uint32_t key,
		   struct agent_gsi_bind *b, struct list *of_client)
{
	enum rocemu_port_space ps;
	struct gsi_port *port;
	uint16_t wanted;
	int r;

	if (find_key(p, number, key))
		return -EEXIST;
	if (rocemu_cm_service_port(b->service_id, &ps, &wanted) && wanted == 0)
		r = pick_port(p, b);
	else
		r = check(p, uid, b);
	if (r)
		return r;
	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	port->number = number;
	port->uid = uid;
	port->key = key;
	port->bind = *b;
	hash_add(&p->by_service, &port->by_service, service_key(p, b->service_id));
	hash_add(&p->by_key, &port->by_key, key_key(p, number, key));
	list_append(of_client, &port->of_client);
	return 0;
}

int gsi_ports_listen(struct gsi_ports *p, uint16_t number, uint32_t key)
{
	struct gsi_port *port = find_key(p, number, key);

	if (!port)
		return -ENOENT;
	for (const struct gsi_port *o = NULL; (o = next_of(p, o, port->bind.service_id));)
		if (o != port && o->listens && same_addr(&o->bind, &port->bind))
			return -EADDRINUSE;
	if (!port->listens)
		p->listeners++;
	port->listens = true;
	return 0;
}

static void port_free(struct gsi_ports *p, struct gsi_port *port)
{
	if (port->listens)
		p->listeners--;
	hash_remove(&p->by_service, &port->by_service);
	hash_remove(&p->by_key, &port->by_key);
	list_remove(&port->of_client);
	free(port);
}

int gsi_ports_unbind(struct gsi_ports *p, uint16_t number, uint32_t key)
{
	struct gsi_port *port = find_key(p, number, key);

	if (!port)
		return -ENOENT;
	port_free(p, port);
	return 0;
}

void gsi_ports_drop(struct gsi_ports *p, struct list *of_client)
{
	list_for_each_entry (port, struct gsi_port, of_client, of_client)
		port_free(p, port);
}

/* open: the clients whose wildcards count, NULL: all. */
static enum fit fit_of(const struct gsi_port *port, const struct rocemu_gid *addr,
		       uint32_t scope_id, const struct seat_set *open)
{
	const struct agent_gsi_bind *b = &port->bind;
	bool ipv4 = rocemu_gid_is_ipv4(addr);

	if (!is_any(b))
		return b->scope_id == scope_id && rocemu_gid_equal(&b->addr, addr) ? FIT_ADDR
										   : FIT_NONE;
	if (open && !seat_set_has(open, port->number))
		return FIT_NONE;
	if (rocemu_gid_is_ipv4(&b->addr) == ipv4)
		return FIT_ANY;
	return ipv4 && !(b->flags & AGENT_GSI_AFONLY) ? FIT_ANY_BOTH : FIT_NONE;
}

const struct gsi_port *gsi_ports_find(const struct gsi_ports *p, uint64_t service_id,
				      const struct rocemu_gid *addr, uint32_t scope_id,
				      const struct seat_set *open)
{
	const struct gsi_port *best = NULL;
	enum fit best_fit = FIT_NONE;

	for (const struct gsi_port *port = NULL; (port = next_of(p, port, service_id));) {
		enum fit fit = port->listens ? fit_of(port, addr, scope_id, open) : FIT_NONE;

		/* Of equal ones the oldest, which comes last. */
		if (fit != FIT_NONE && fit >= best_fit) {
			best = port;
			best_fit = fit;
		}
	}
	return best;
}

bool gsi_ports_is_bound(const struct gsi_ports *p, uint64_t service_id,
			const struct rocemu_gid *addr, uint32_t scope_id)
{
	for (const struct gsi_port *port = NULL; (port = next_of(p, port, service_id));)
		if (!port->listens && fit_of(port, addr, scope_id, NULL) != FIT_NONE)
			return true;
	return false;
}
