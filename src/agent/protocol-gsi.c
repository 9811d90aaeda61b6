/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/protocol-gsi.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"

enum { NUMBER = GSI_MSG_HDR_LEN };
enum { BIND_KEY = GSI_MSG_HDR_LEN, BIND_BIND = BIND_KEY + 4 };
/* Of a binding, wherever it stands. */
enum { B_SERVICE = 0, B_ADDR = 8, B_SCOPE = 24, B_FLAGS = 28, B_LEN = 32 };
enum { DONE_VALUE = GSI_MSG_HDR_LEN };
enum { FROM_CLIENT = GSI_MSG_HDR_LEN, FROM_LISTENER = FROM_CLIENT + 2 };
enum {
	PAGE_LINGERING = GSI_MSG_HDR_LEN,
	PAGE_CLIENTS_TOTAL = PAGE_LINGERING + 4,
	PAGE_LISTENERS_TOTAL = PAGE_CLIENTS_TOTAL + 2,
	PAGE_NCLIENTS = PAGE_LISTENERS_TOTAL + 4,
	PAGE_NLISTENERS = PAGE_NCLIENTS + 2,
	PAGE_COUNTERS = PAGE_NLISTENERS + 2,
	PAGE_ENTRIES = PAGE_COUNTERS + 8 * AGENT_GSI_COUNTER_COUNT,
};
enum {
	C_PID = 0,
	C_UID = 4,
	C_NUMBER = 8,
	C_ADDRS = 10,
	C_BINDS = 12,
	C_WILLS = 16,
	C_QUEUED = 20,
	C_DELIVERED = 24,
	C_DROPPED = 32,
	C_LEN = 40,
};
enum { L_NUMBER = 0, L_BIND = 2, L_LEN = L_BIND + B_LEN };

_Static_assert((int)GSI_BIND_LEN == BIND_BIND + B_LEN, "a GSI_BIND's length");
_Static_assert((int)GSI_PAGE_MIN_LEN == PAGE_ENTRIES, "an empty page's length");
_Static_assert(PAGE_ENTRIES + AGENT_GSI_PAGE_CLIENTS * C_LEN + AGENT_GSI_PAGE_LISTENERS * L_LEN <=
		       AGENT_MSG_MAX,
	       "a page fits in a message");

static void put_bind(uint8_t *p, const struct agent_gsi_bind *b)
{
	put_be64(p + B_SERVICE, b->service_id);
	memcpy(p + B_ADDR, b->addr.raw, 16);
	put_be32(p + B_SCOPE, b->scope_id);
	put_be32(p + B_FLAGS, b->flags);
}

static int get_bind(const uint8_t *p, struct agent_gsi_bind *b)
{
	b->service_id = get_be64(p + B_SERVICE);
	memcpy(b->addr.raw, p + B_ADDR, 16);
	b->scope_id = get_be32(p + B_SCOPE);
	b->flags = get_be32(p + B_FLAGS);
	return b->flags & ~(uint32_t)(AGENT_GSI_REUSEADDR | AGENT_GSI_AFONLY) ? -EBADMSG : 0;
}

static size_t encode_page(const struct agent_gsi_page *pg, uint8_t *buf)
{
	uint8_t *p = buf + PAGE_ENTRIES;

	put_be32(buf + PAGE_LINGERING, pg->lingering);
	put_be16(buf + PAGE_CLIENTS_TOTAL, pg->clients_total);
	put_be32(buf + PAGE_LISTENERS_TOTAL, pg->listeners_total);
	put_be16(buf + PAGE_NCLIENTS, pg->nclients);
	put_be16(buf + PAGE_NLISTENERS, pg->nlisteners);
	for (unsigned i = 0; i < AGENT_GSI_COUNTER_COUNT; i++)
		put_be64(buf + PAGE_COUNTERS + 8 * i, pg->counters[i]);
	for (unsigned i = 0; i < pg->nclients; i++, p += C_LEN) {
		const struct agent_gsi_client_info *c = &pg->clients[i];

		put_be32(p + C_PID, c->pid);
		put_be32(p + C_UID, c->uid);
		put_be16(p + C_NUMBER, c->number);
		put_be16(p + C_ADDRS, c->addrs);
		put_be32(p + C_BINDS, c->binds);
		put_be32(p + C_WILLS, c->exit_mads);
		put_be32(p + C_QUEUED, c->queued);
		put_be64(p + C_DELIVERED, c->delivered);
		put_be64(p + C_DROPPED, c->dropped);
	}
	for (unsigned i = 0; i < pg->nlisteners; i++, p += L_LEN) {
		put_be16(p + L_NUMBER, pg->listeners[i].number);
		put_bind(p + L_BIND, &pg->listeners[i].bind);
	}
	return (size_t)(p - buf);
}

static int decode_page(const uint8_t *buf, size_t len, struct agent_gsi_page *pg)
{
	const uint8_t *p = buf + PAGE_ENTRIES;
	int r = 0;

	pg->lingering = get_be32(buf + PAGE_LINGERING);
	pg->clients_total = get_be16(buf + PAGE_CLIENTS_TOTAL);
	pg->listeners_total = get_be32(buf + PAGE_LISTENERS_TOTAL);
	pg->nclients = get_be16(buf + PAGE_NCLIENTS);
	pg->nlisteners = get_be16(buf + PAGE_NLISTENERS);
	if (pg->nclients > AGENT_GSI_PAGE_CLIENTS || pg->nlisteners > AGENT_GSI_PAGE_LISTENERS ||
	    len != PAGE_ENTRIES + pg->nclients * (size_t)C_LEN + pg->nlisteners * (size_t)L_LEN)
		return -EBADMSG;
	for (unsigned i = 0; i < AGENT_GSI_COUNTER_COUNT; i++)
		pg->counters[i] = get_be64(buf + PAGE_COUNTERS + 8 * i);
	for (unsigned i = 0; i < pg->nclients; i++, p += C_LEN)
		pg->clients[i] = (struct agent_gsi_client_info){
			.pid = get_be32(p + C_PID),
			.uid = get_be32(p + C_UID),
			.number = get_be16(p + C_NUMBER),
			.addrs = get_be16(p + C_ADDRS),
			.binds = get_be32(p + C_BINDS),
			.exit_mads = get_be32(p + C_WILLS),
			.queued = get_be32(p + C_QUEUED),
			.delivered = get_be64(p + C_DELIVERED),
			.dropped = get_be64(p + C_DROPPED),
		};
	for (unsigned i = 0; i < pg->nlisteners && !r; i++, p += L_LEN) {
		pg->listeners[i].number = get_be16(p + L_NUMBER);
		r = get_bind(p + L_BIND, &pg->listeners[i].bind);
	}
	return r;
}

size_t gsi_msg_encode(const struct agent_msg *m, uint8_t *buf)
{
	switch (m->type) {
	case AGENT_GSI_HELLO:
	case AGENT_GSI_WELCOME:
		put_be16(buf + NUMBER, m->u.gsi_number.number);
		return GSI_NUMBER_LEN;
	case AGENT_GSI_BIND:
		put_be32(buf + BIND_KEY, m->u.gsi_bind.key);
		put_bind(buf + BIND_BIND, &m->u.gsi_bind.bind);
		return GSI_BIND_LEN;
	case AGENT_GSI_LISTEN:
	case AGENT_GSI_UNBIND:
		put_be32(buf + BIND_KEY, m->u.gsi_bind.key);
		return GSI_KEY_LEN;
	case AGENT_GSI_DONE:
		put_be64(buf + DONE_VALUE, m->u.gsi_done.value);
		return GSI_DONE_LEN;
	case AGENT_GSI_STATUS:
		put_be16(buf + FROM_CLIENT, m->u.gsi_from.client);
		put_be32(buf + FROM_LISTENER, m->u.gsi_from.listener);
		return GSI_FROM_LEN;
	case AGENT_GSI_STATUS_PAGE:
		return encode_page(&m->u.gsi_page, buf);
	default:
		return GSI_MSG_HDR_LEN;
	}
}

int gsi_msg_decode(const uint8_t *buf, size_t len, struct agent_msg *m)
{
	switch (m->type) {
	case AGENT_GSI_HELLO:
	case AGENT_GSI_WELCOME:
		m->u.gsi_number.number = get_be16(buf + NUMBER);
		if (m->u.gsi_number.number >= AGENT_GSI_CLIENTS)
			return -EBADMSG;
		/* A token comes with the number that it stands for. */
		if (m->type == AGENT_GSI_HELLO)
			return (m->u.gsi_number.number != 0) == (m->nfds == 1) ? 0 : -EBADMSG;
		return m->u.gsi_number.number ? 0 : -EBADMSG;
	case AGENT_GSI_BIND:
		m->u.gsi_bind.key = get_be32(buf + BIND_KEY);
		return get_bind(buf + BIND_BIND, &m->u.gsi_bind.bind);
	case AGENT_GSI_LISTEN:
	case AGENT_GSI_UNBIND:
		m->u.gsi_bind.key = get_be32(buf + BIND_KEY);
		return 0;
	case AGENT_GSI_DONE:
		m->u.gsi_done.value = get_be64(buf + DONE_VALUE);
		return 0;
	case AGENT_GSI_STATUS:
		m->u.gsi_from.client = get_be16(buf + FROM_CLIENT);
		m->u.gsi_from.listener = get_be32(buf + FROM_LISTENER);
		return 0;
	case AGENT_GSI_STATUS_PAGE:
		return decode_page(buf, len, &m->u.gsi_page);
	default:
		return -EBADMSG;
	}
}
