/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The abstract names by which lanes find each other's sockets (forward.h).
 *
 * Any user may take any free name. A lane whose name is taken listens on another one, which ends
 * with a random number; others find it in the kernel's list of sockets. Both ends check by the
 * kernel's credentials that the other one is of the same user.
 */
#ifndef ENGINE_FORWARD_NAME_H
#define ENGINE_FORWARD_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/objects.h>

enum {
	FORWARD_INSTANCE_LEN = 48,
	FORWARD_SLOTS = 1 << (24 - ROCEMU_QPN_INDEX_BITS),
};

/** One lane's search for others. Zero except for the instance. */
struct forward_finder {
	char instance[FORWARD_INSTANCE_LEN]; /* of the agent, whose slots these are */
	uint64_t search_at;		     /* ns: no search of the list before */
	uint64_t slot_at[FORWARD_SLOTS];     /* ns: not for that slot before */
};

/** @return a listening socket, owned by the caller, or -errno. It does not block. */
int forward_name_listen(const char *instance, uint16_t slot);

/**
 * Connect to the lane of slot. Never waits. Searches of the list for lanes that do not exist take
 * 2 % of the time at most.
 * @return a socket, owned by the caller, that does not block; or -errno: -ECONNREFUSED there is no
 *         such lane, -EPERM: nor that, but another user has its name, -EAGAIN: it is busy.
 */
int forward_name_connect(struct forward_finder *f, uint16_t slot);

/** Is the other end of a connection of this user? For a listener, of the process that called
 * listen(). */
bool forward_is_same_user(int fd);

#endif
