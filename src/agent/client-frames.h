/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A GSI client's members and their locks. client-gsi.c has the calls that wait for the agent,
 * client-frames.c those that never wait. Each keeps what it has registered for the next agent.
 */
#ifndef AGENT_CLIENT_FRAMES_H
#define AGENT_CLIENT_FRAMES_H

#include <sys/types.h>

#include "agent/client-gsi.h"
#include "agent/link.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mutex.h"

struct agent_gsi {
	pid_t pid; /* whose it is */
	uint16_t number;
	int watch; /* owned: an epoll instance with the socket of frames in it */

	/* One request at a time: the lock's owner waits for the agent. Guards the members below. */
	struct mutex requests;
	struct link link; /* its frames: only until they are installed */
	/* Of struct opened, owned: in turn, and by address. */
	struct list opened;
	struct hash by_address;
	struct hash bindings; /* of struct binding; owned */
	uint32_t last_key;    /* of a binding */

	/* Guards the members below. Nothing waits under it. Taken after requests. */
	struct mutex lock;
	int frames;	   /* owned; -1: there is no agent now */
	struct list queue; /* frames to send, oldest first */
	unsigned queued;
	unsigned taken;	   /* frames that have left the queue, modulo 2^32 */
	bool stalled;	   /* agent_gsi_drain() has waited in vain */
	struct hash exits; /* of struct exit_reg; owned */
};

/** -errno, frames_forget() and frames_fini() are due then, too. */
int frames_init(struct agent_gsi *c);
/** After frames_forget(). */
void frames_fini(struct agent_gsi *c);
/** Close the process's copies of the descriptors. Async-signal-safe. */
void frames_forget(struct agent_gsi *c);
/**
 * There is no agent now: queued frames are lost, as on any network; exit MADs are in the
 * registrations.
 */
void frames_drop(struct agent_gsi *c);
/** From now on frames use the socket in the link; exit MADs are sent to the agent.
 * -errno. */
int frames_install(struct agent_gsi *c);

#endif
