/* SPDX-License-Identifier: BSD-2-Clause */
#include "nlout.h"

#include <linux/netlink.h>
#include <string.h>

/** Room for len bytes, zeroed, and what aligns the next ones. NULL: none. */
static uint8_t *reserve(struct nlout *o, size_t len)
{
	uint8_t *p = o->data + o->len;
	const size_t whole = nlout_align(len);

	if (o->full || len > NLOUT_MAX || whole > NLOUT_MAX - o->len) {
		o->full = true;
		return NULL;
	}
	memset(p, 0, whole);
	o->len += whole;
	return p;
}

void nlout_begin(struct nlout *o, uint16_t type, uint16_t flags)
{
	struct nlmsghdr h = {
		.nlmsg_type = type,
		.nlmsg_flags = flags,
		.nlmsg_seq = o->seq,
		.nlmsg_pid = o->port,
	};
	uint8_t *p;

	o->full = false;
	o->message = o->len;
	p = reserve(o, sizeof(h));
	if (!p) {
		nlout_flush(o);
		o->full = false;
		p = reserve(o, sizeof(h));
	}
	memcpy(p, &h, sizeof(h));
}

void nlout_put(struct nlout *o, uint16_t attr, const void *value, size_t len)
{
	const struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + len), .nla_type = attr};
	uint8_t *p = len <= NLOUT_MAX ? reserve(o, sizeof(a) + len) : NULL;

	if (!p) {
		o->full = true;
		return;
	}
	memcpy(p, &a, sizeof(a));
	if (len)
		memcpy(p + sizeof(a), value, len);
}

void nlout_u8(struct nlout *o, uint16_t attr, uint8_t value)
{
	nlout_put(o, attr, &value, sizeof(value));
}

void nlout_u32(struct nlout *o, uint16_t attr, uint32_t value)
{
	nlout_put(o, attr, &value, sizeof(value));
}

void nlout_u64(struct nlout *o, uint16_t attr, uint64_t value)
{
	nlout_put(o, attr, &value, sizeof(value));
}

void nlout_text(struct nlout *o, uint16_t attr, const char *value)
{
	nlout_put(o, attr, value, strlen(value) + 1);
}

void nlout_raw(struct nlout *o, const void *data, size_t len)
{
	uint8_t *p = reserve(o, len);

	if (p)
		memcpy(p, data, len);
}

size_t nlout_nest(struct nlout *o, uint16_t attr)
{
	const size_t at = o->len;

	nlout_put(o, attr, NULL, 0);
	return at;
}

void nlout_nest_end(struct nlout *o, size_t at)
{
	const uint16_t len = (uint16_t)(o->len - at);

	if (o->len >= at + sizeof(struct nlattr))
		memcpy(o->data + at + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

void nlout_cut(struct nlout *o, size_t at)
{
	o->len = at;
	o->full = false;
}

void nlout_end(struct nlout *o)
{
	const uint32_t len = (uint32_t)(o->len - o->message);

	memcpy(o->data + o->message + offsetof(struct nlmsghdr, nlmsg_len), &len, sizeof(len));
	o->message = o->len;
}

/** A message under way moves to the datagram's beginning. */
void nlout_flush(struct nlout *o)
{
	const size_t left = o->len - o->message;

	if (o->message)
		o->send(o->user, o->data, o->message);
	memmove(o->data, o->data + o->message, left);
	o->len = left;
	o->message = 0;
}
