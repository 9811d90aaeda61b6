/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client's connection to the agent: finding it, spawning it when there is none, and asking it
 * something. Used by both kinds of clients, lanes (client.c) and connection management
 * (client-gsi.c).
 */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"

enum { LINK_TIMEOUT_MS = 10000 }; /* of each blocking call */

/** Monotonic time. */
uint64_t link_now_ms(void);

/** Close *fd unless it is -1, and make it -1. Async-signal-safe. */
void link_close_fd(int *fd);

/**
 * Does the environment's ROCEMU_AGENT forbid an agent? @return 1: it does, 0, or -EINVAL with
 * errbuf.
 */
int link_agent_is_off(char *errbuf, size_t errlen);

/**
 * Connect to the system-wide agent, else to the user's, and spawn one as often as there is none:
 * one may leave, idle, at any moment. *realm: whose it is. again: *realm is given, and only that
 * one will do, since no other could do anything with what we have of the last one.
 *
 * @return a descriptor or -errno with errbuf, as agent_client_new() has it.
 */
int link_connect(struct agent_realm *realm, bool again, uint64_t deadline_ms, char *errbuf,
		 size_t errlen);

/**
 * Send a request and receive its answer. An ERROR becomes its errno and text. When the connection
 * fails it is closed (*fd -1): a late answer must not be taken for the next request's.
 *
 * @return 0 and *answer, whose descriptors are the caller's; -ECONNRESET: the agent has died; or
 *	   another -errno with errbuf.
 */
int link_ask(int *fd, const struct agent_msg *request, struct agent_msg *answer, char *errbuf,
	     size_t errlen);

#endif
