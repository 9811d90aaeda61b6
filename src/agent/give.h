/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives places and sockets of addresses to clients, within the quotas of a user of a system-wide
 * agent. A place is given to its last owner's user again, or its sockets are replaced first, so
 * that no user gets a socket that another one has had.
 */
#ifndef AGENT_GIVE_H
#define AGENT_GIVE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"

struct group;
struct gsi;
struct server;

/* Of one user, root apart, with a system-wide agent. More: quota.h. */
enum {
	QUOTA_PLACES = 256,    /* slots, and as many numbers */
	QUOTA_CLIENTS = 512,   /* connections */
	QUOTA_ADDRS = 512,     /* that no other user uses */
	QUOTA_SOCKETS = 16384, /* of these addresses */
};

/** Do quotas apply to the user? */
bool give_is_limited(const struct server *s, uint32_t uid);

/** May the user see processes and listeners of another one? */
bool give_may_see(const struct server *s, uint32_t uid, uint32_t other);

/**
 * A place for a user: the requested one, else the lowest free slot or the next number. *token: the
 * client's end, owned by the caller.
 * @return the place, or -errno with one line in errbuf.
 */
int give_place(struct server *s, enum agent_kind kind, uint32_t uid, unsigned wanted, int *token,
	       uint16_t *first_index, char *errbuf, size_t errlen);

/**
 * The group of an address, with at least the places 0 .. slot: made or grown as needed.
 * @return 0, or -errno with one line in errbuf: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EMFILE,
 * -ENOSPC, ...
 */
int give_group(struct server *s, const struct rocemu_gid *addr, uint32_t scope_id, unsigned slot,
	       uint32_t uid, struct group **out, char *errbuf, size_t errlen);

/** QP 1 of a group, and the removal of unused groups. */
void give_watch(struct server *s, struct group *g);

/** Close the groups that are no longer used. */
void give_sweep(struct server *s);

#endif
