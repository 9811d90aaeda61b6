/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client's connection to the agent, for both kinds of clients, lanes (client.c) and GSI clients
 * (client-gsi.c): finds the agent, spawns it when there is none, gets a place, registers the place
 * with the agent's next worker, and sends requests.
 */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"

enum { LINK_TIMEOUT_MS = 10000 }; /* of each blocking call */

struct link {
	struct agent_instance instance; /* of the agent that gave the place */
	enum agent_kind kind;
	uint16_t place; /* slot or number; 0: none yet */
	uint16_t first_index;
	int fd;	    /* connection; -1: none now */
	int token;  /* holds the place */
	int frames; /* a GSI client's second socket; -1 together with fd */
};

/** Monotonic time. */
uint64_t link_now_ms(void);

/** Close *fd unless it is -1, and make it -1. Async-signal-safe. */
void link_close_fd(int *fd);

/**
 * Does ROCEMU_AGENT in the environment forbid an agent? @return 1: it does, 0, or -EINVAL with
 * errbuf.
 */
int link_agent_is_off(char *errbuf, size_t errlen);

void link_init(struct link *l, enum agent_kind kind);

/**
 * Connect and get a place, or register the one that l has. The system-wide agent has precedence
 * over the user's. One is spawned whenever there is none: an idle agent may end at any moment.
 * @return 0 or -errno with errbuf, as agent_client_new().
 */
int link_join(struct link *l, char *errbuf, size_t errlen);

/** Close the connection; the place stays. */
void link_disconnect(struct link *l);

/** Close everything: the place is free. Async-signal-safe. */
void link_close(struct link *l);

/**
 * Send a request and receive its answer, which must be of the given type. An ERROR becomes its
 * errno and text. When the connection fails it is closed: a late answer must not be taken for the
 * next request's.
 *
 * @return 0 and *answer, whose descriptors the caller owns; -ECONNRESET: the agent has died;
 *	   -EPROTO: another answer; or another -errno; with errbuf.
 */
int link_request(struct link *l, const struct agent_msg *request, enum agent_msg_type type,
		 struct agent_msg *answer, char *errbuf, size_t errlen);

#endif
