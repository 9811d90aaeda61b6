/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a system-wide agent should have of each of its users, for fuzz-users.c: the clients with
 * their places, addresses, ports and exit MADs, and who owned which place and socket. What the
 * agent answers is compared with it.
 */
#ifndef TEST_AGENT_USERS_MODEL_H
#define TEST_AGENT_USERS_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/protocol.h"

enum {
	MODEL_USERS = 3,
	MODEL_ROOT = MODEL_USERS, /* has no quota */
	MODEL_ALL,
	MODEL_ADDRS = 1024,
	MODEL_WORDS = MODEL_ADDRS / 64,
};

struct model_port {
	uint32_t key;
	bool listens;
	struct agent_gsi_bind bind;
};

/** A client, as long as the agent has its connection or its token is open. */
struct party {
	unsigned user;
	bool conn;		     /* the agent has its connection */
	bool held;		     /* its token is open, in this process or the keeper */
	bool vague;		     /* the number of its exit MADs is known as a limit only */
	unsigned listened;	     /* set of shared services on which it has listened */
	int fd, token, frames, data; /* -1: not here */
	unsigned data_addr;
	pid_t keeper; /* a process that has the descriptors instead; 0: none */
	enum agent_kind kind;
	uint16_t place; /* 0: none */
	uint64_t addrs[MODEL_WORDS];
	struct model_port *ports; /* owned */
	unsigned nports, nexits;
};

struct model {
	struct party **all; /* owned */
	unsigned n;
	uint8_t owner[AGENT_KIND_COUNT][AGENT_SEATS]; /* 1 + the last user; 0: none yet */
	unsigned lingering_most[MODEL_ALL];	      /* exit MADs of ended clients */
	struct {
		uint64_t cookie;
		unsigned user;
	} * sockets; /* owned: that were given */
	unsigned nsockets;
};

void model_init(struct model *m);
void model_fini(struct model *m);

struct party *model_add(struct model *m, unsigned user);
/** Forget it when its connection and its token are gone. */
void model_settle(struct model *m, struct party *p);
/** Its connection has ended: the agent has given up what depends on that. */
void model_hang_up(struct model *m, struct party *p);
/** The client with that place whose token is open; NULL: there is none. */
struct party *model_holder(const struct model *m, enum agent_kind kind, unsigned place);

/** Has it given its token back, and not its connection? The agent may end that at any time. */
static inline bool party_is_tokenless(const struct party *p)
{
	return p->conn && p->place && !p->held;
}

unsigned model_places(const struct model *m, enum agent_kind kind, unsigned user);
unsigned model_used(const struct model *m, enum agent_kind kind);
/** all: also those without a token. */
unsigned model_conns(const struct model *m, unsigned user, bool all);
unsigned model_ports(const struct model *m, unsigned user);
unsigned model_exits(const struct model *m, unsigned user);
/** Places that the user has or was the last to have. */
unsigned model_owned(const struct model *m, enum agent_kind kind, unsigned user);
/** Addresses that the user has alone; *uses: is one of these, or shared, the given one; *others: do
 * other users use that. */
unsigned model_alone(const struct model *m, unsigned user, unsigned addr, bool *uses, bool *others);
unsigned model_addrs(const struct model *m);

/** A user got a socket. @return false: it was another user's. */
bool model_give_socket(struct model *m, uint64_t cookie, unsigned user);

struct model_port *party_port(const struct party *p, uint32_t key);
/** Has another user the port where the binding would get it or take it away? any: any at all. */
bool model_collides(const struct model *m, unsigned user, const struct agent_gsi_bind *b,
		    bool *any);

/** How a status that a user got differs; NULL: it does not. uids: of the users. */
const char *model_differs(const struct model *m, unsigned user, const unsigned uids[MODEL_ALL],
			  const struct agent_status *st);

#endif
