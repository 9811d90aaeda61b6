/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of connection management, inside: which half of it has which lock. client-gsi.c has the
 * calls that wait for the agent, client-frames.c those that never do.
 */
#ifndef AGENT_CLIENT_FRAMES_H
#define AGENT_CLIENT_FRAMES_H

#include <sys/types.h>

#include "agent/client-gsi.h"
#include "agent/client-regs.h"
#include "agent/link.h"
#include "base/mutex.h"

struct agent_gsi {
	pid_t pid; /* whose it is */
	uint16_t number;
	int watch; /* owned: an epoll instance with the socket of frames in it */

	/* One request at a time: its owner waits for the agent. Guards what follows. */
	struct mutex requests;
	struct link link;     /* its frames: only until they are installed */
	struct list opened;   /* of struct opened, owned */
	struct regs bindings; /* of struct binding */
	uint32_t last_key;    /* of a binding */

	/* Guards what follows. Nothing is waited for under it. Taken after requests. */
	struct mutex lock;
	int frames;	   /* owned; -1: there is no agent now */
	struct list queue; /* frames to send, oldest first */
	unsigned queued;
	struct regs exits; /* of struct exit_reg */
};

/** -errno, frames_forget() and frames_fini() are due then, too. */
int frames_init(struct agent_gsi *c);
/** After frames_forget(). */
void frames_fini(struct agent_gsi *c);
/** Close the process's copies of the descriptors. Async-signal-safe. */
void frames_forget(struct agent_gsi *c);
/** There is no agent now: what waits is lost, as on any network; exit MADs are in the
 * registrations. */
void frames_drop(struct agent_gsi *c);
/** From here on frames come and go by the socket in the link; exit MADs are shown to the agent.
 * -errno. */
int frames_install(struct agent_gsi *c);

#endif
