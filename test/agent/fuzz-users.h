/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between fuzz-users.c, which checks, and the three users: how they come (fuzz-users-acts.c), what
 * they do with sockets (-sockets.c) and ports (-ports.c), and what no client should do (-mess.c).
 */
#ifndef TEST_AGENT_FUZZ_USERS_H
#define TEST_AGENT_FUZZ_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <rocemu/wire.h>

#include "base/rng.h"
#include "users-model.h"

enum { SERVICES = 6 /* that users share */, BUSY_ADDRS = 6 };

struct fuzz {
	struct rng rng;
	struct model m;
	unsigned uids[MODEL_ALL];
	int root, wire; /* a connection of root's; a plain socket at port 4791 */
	pid_t worker, holder;
	bool crowded; /* root has most places */
	uint64_t slowest_us;
	uint64_t done, refused;
};

extern struct fuzz fz;

/** What is being done, to be printed when something is wrong. */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** The agent has done something that it should not: ends it and fails the test. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static inline unsigned below(unsigned n)
{
	return rng_below(&fz.rng, n);
}

static inline bool one_in(unsigned n)
{
	return below(n) == 0;
}

/** Send, and take the answer. @return an error's errno, 0, or -ECONNRESET: it has hung up. */
int request(int fd, const struct agent_msg *m, struct agent_msg *answer);
/** The agent's status as the connection's user sees it; freed with agent_status_free(). */
struct agent_status *status_by(int fd);

/** One thing that a user does, and how often. The last one's run is NULL. */
struct act {
	unsigned weight;
	void (*run)(void);
};

extern const struct act acts_sockets[], acts_ports[], acts_mess[];

/* Which clients are wanted: any of these, ... */
enum {
	PLACELESS = 1,
	LANE = 2,
	GSI = 4,
	TOKEN = 8, /* ... but only with a token here, */
	HERE = 16, /* and with a connection here */
};
/** One of these, at random. @return NULL: there is none. */
struct party *act_pick(unsigned want);
/** A connection without a place. @return NULL: refused. */
struct party *act_placeless(void);
/** All of a client is closed. */
void act_gone(struct party *p);
/** The connection is closed, by either side. The token keeps the place. */
void act_hung_up(struct party *p);
struct rocemu_gid act_addr_of(unsigned i);
uint64_t act_service(unsigned i);

/** Root takes most places. */
void acts_crowd(void);
/** One of the users does something. */
void acts_step(void);
/** Close what is here of a client. The agent's side is the model's. */
void acts_close(struct party *p);
void acts_close_all(void);

#endif
