/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells when network interfaces and their addresses change. One thread a process listens to the
 * kernel (rtnetlink) as long as anybody wants to know; what has changed beyond a link's state, the
 * listener reads for himself (netdev.h). The same thread takes ports down, addresses away and devices out of
 * service on purpose, as ROCEMU_IMPAIR says (impair.h); nothing of that is done to the interfaces.
 */
#ifndef ENGINE_NETMON_H
#define ENGINE_NETMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum netmon_what {
	NETMON_LINK,	  /* up or down, MTU: see active */
	NETMON_GONE,	  /* the interface is no more */
	NETMON_ADDRESSES, /* have come or gone */
	NETMON_IMPAIRED,  /* on purpose, ports, addresses or devices came or went: see netmon_faults() */
	NETMON_ANYTHING,  /* news were lost: look at everything (ifindex 0) */
};

struct netmon_news {
	enum netmon_what what;
	unsigned ifindex;
	bool active; /* NETMON_LINK: up and running at that moment */
};

/** A listener, embedded in what listens. */
struct netmon_listener {
	struct list node;
	/** Called on the thread, one at a time, no lock held: news of any interface, in order. */
	void (*tell)(void *user, const struct netmon_news *news);
	void *user;
};

/**
 * Begin to listen; the first starts the thread. tell and user are set. Errors leave the listener
 * out: -errno, the system does not let us listen.
 */
int netmon_add(struct netmon_listener *l);

/** End; when it returns, tell is not called any more. The last ends the thread. Twice is harmless,
 * and so is a listener of which netmon_add() failed, or one from before fork(). */
void netmon_remove(struct netmon_listener *l);

/** The faults on purpose of all devices of the process. None while there is no listener. */
struct netmon_faults {
	bool down;     /* ports */
	bool fatal;    /* devices: for good */
	uint64_t gids; /* bits: GID table indices without their address */
};
struct netmon_faults netmon_faults(void);

/** The devices of the process fail, on purpose and for good: the thread tells all listeners. */
void netmon_fail_devices(void);

#endif
