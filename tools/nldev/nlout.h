/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Netlink messages being written: one or more in a datagram, handed to a function when it is full.
 * A message that does not fit is dropped whole by its writer, or divided. Sizes and order of bytes
 * are <linux/netlink.h>'s.
 */
#ifndef TOOLS_NLOUT_H
#define TOOLS_NLOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Programs receive into a page. */
enum { NLOUT_MAX = 4096 };

/** Messages and attributes start at multiples of 4. */
static inline size_t nlout_align(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

/** Take a datagram. data is borrowed for the call. */
typedef void nlout_send(void *user, const void *data, size_t len);

struct nlout {
	uint8_t data[NLOUT_MAX] __attribute__((aligned(4)));
	size_t len;
	size_t message;	    /* where the message under way starts */
	bool full;	    /* something of it had no room; it was left out */
	uint32_t seq, port; /* of the request */
	nlout_send *send;
	void *user;
};

/** Start a message; what was ended before stays before it in the datagram. */
void nlout_begin(struct nlout *o, uint16_t type, uint16_t flags);
void nlout_put(struct nlout *o, uint16_t attr, const void *value, size_t len);
void nlout_u8(struct nlout *o, uint16_t attr, uint8_t value);
void nlout_u32(struct nlout *o, uint16_t attr, uint32_t value);
void nlout_u64(struct nlout *o, uint16_t attr, uint64_t value);
void nlout_text(struct nlout *o, uint16_t attr, const char *value);
/** Bytes without an attribute's header. */
void nlout_raw(struct nlout *o, const void *data, size_t len);
/** An attribute that has attributes. @return its place, for nlout_nest_end(). */
size_t nlout_nest(struct nlout *o, uint16_t attr);
void nlout_nest_end(struct nlout *o, size_t at);
/** Take back all from at on. */
void nlout_cut(struct nlout *o, size_t at);
/** The message is complete. */
void nlout_end(struct nlout *o);
/** Send what has been ended. */
void nlout_flush(struct nlout *o);

#endif
