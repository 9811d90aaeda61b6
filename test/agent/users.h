/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several users of one machine, for the agent's tests: a system-wide agent, and requests of other
 * users. Needs root, to change users.
 */
#ifndef TEST_AGENT_USERS_H
#define TEST_AGENT_USERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/client.h"
#include "agent/protocol.h"

enum { ANN = 65534, BOB = 65533 };

#define QPN(slot, index) ((uint32_t)(slot) << 14 | (index))

/**
 * Enter a network namespace. Skips the calling test without enough descriptors, or where program
 * (NULL: none) cannot be run as ANN and BOB.
 */
void need_users(const char *program);
/** Start a system-wide agent, and wait until it answers. */
void run_system(void);
/** need_users(NULL) and run_system(). */
void start_system(void);
void stop_system(void);

/** A slot of the test's own user. */
struct agent_client *join(void);

/** A connection to the agent as another user. The calling process keeps its user. */
int connect_as(uid_t uid, bool system);
/** Send, and take the answer. @return an error's errno, or 0. */
int ask(int fd, const struct agent_msg *m, struct agent_msg *answer);
int hello(int fd, enum agent_kind kind, struct agent_msg *answer);
/** The socket of a connection's slot. */
int take_socket(int fd, const struct rocemu_gid *addr);

/** A client of root's is served, and its slot is that one. */
void expect_service(unsigned slot);

#endif
