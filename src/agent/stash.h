/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stash: copies of all data sockets, in the queue of a Unix socket pair whose ends the agent
 * and its clients hold. It outlives the agent, so that the next one finds every socket of every
 * group in the order of its places. Sockets are only ever added; reading does not take them out.
 *
 * A stream pair, because a queue of packets holds no more than net.unix.max_dgram_qlen (10) of
 * them; records of up to 253 sockets, because each record costs send buffer. The read end is bound
 * to the realm's name "stash": who holds a socket with that name holds the stash, and as long as it
 * lives no second one can be made.
 */
#ifndef AGENT_STASH_H
#define AGENT_STASH_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

enum { STASH_BATCH = 253 }; /* most sockets in a record: the kernel's SCM_MAX_FD */

struct stash {
	int r, w; /* owned; -1 when there is none */
};

/** @return 0, -EADDRINUSE: another stash lives, or another -errno. */
int stash_init(struct stash *s, const struct agent_realm *realm);
void stash_fini(struct stash *s);

/** Are these the two ends of the realm's stash? */
bool stash_is(int r, int w, const struct agent_realm *realm);

/**
 * Add the sockets of an address's places first .. first + n - 1, n <= STASH_BATCH. All or nothing.
 * @return 0, -ENOBUFS: full, -ETOOMANYREFS, -EMFILE, ...
 */
int stash_append(struct stash *s, const struct rocemu_gid *addr, uint32_t scope_id, unsigned first,
		 const int *fds, unsigned n);

/** Called by stash_load() for each record: n sockets of an address, places from first on. */
typedef int stash_record_fn(void *user, const struct rocemu_gid *addr, uint32_t scope_id,
			    unsigned first, const int *fds, unsigned n);

/**
 * Read all records, oldest first, without taking them out. fn owns the sockets when it returns 0;
 * when it returns an error they are closed and reading ends with it. @return 0 or -errno, -EBADMSG:
 * not a stash.
 */
int stash_load(struct stash *s, stash_record_fn *fn, void *user);

#endif
