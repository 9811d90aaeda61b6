/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Client processes for the agent's tests, driven one command at a time, and a network namespace of
 * its own for each test, so that port 4791 is always free at first and no real agent is met.
 */
#ifndef TEST_AGENT_PEER_H
#define TEST_AGENT_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/client.h"

/** Enter a new network namespace with lo up. Skips the calling test when that is not allowed. */
void env_enter(void);
/** End the namespace's agent, if one runs, and wait until it is gone. */
void env_leave(void);

struct rocemu_gid gid_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);
struct rocemu_gid gid_v6_loopback(void);

/** The agent's PID, 0: there is none. */
pid_t agent_pid(void);
/** The PID of the process that keeps what outlives that one, 0: there is none. */
pid_t agent_holder(void);
/** Wait, at most 10 s, until a process that is not a child is gone. */
void wait_gone(pid_t pid);
/** Kill the agent's worker, the process that answers. */
void kill_agent(void);
/** Kill its holder, and wait until there is another one. */
void kill_holder(void);
/** Kill both at once, as good as it can be done. */
void kill_both(void);

struct peer {
	pid_t pid;
	int ctl;
};

struct peer_reply {
	int r;		/* of the call */
	uint32_t value; /* the slot, or the QPN that was received */
	uint16_t first_index;
	char text[400];
};

/** Fork a process that runs run() with its end of the control socket; uid 0: as we are. */
struct peer peer_spawn(uid_t uid, void (*run)(int ctl));
/** One that is a client. */
struct peer peer_start(uid_t uid);
/** SIGKILL it and reap it. */
void peer_kill(struct peer *p);

/* Give a command; exactly one reply comes for each. */
void peer_send_join(struct peer *p);
void peer_send_socket(struct peer *p, const struct rocemu_gid *addr);
struct peer_reply peer_reply(struct peer *p);

/** The calls themselves, command and reply in one. */
struct peer_reply peer_join(struct peer *p);
int peer_leave(struct peer *p);
int peer_socket(struct peer *p, const struct rocemu_gid *addr);
/** Wait for a datagram on the i-th socket that was opened. @return the QPN in it; ~0: none within
 * 10 s. */
uint32_t peer_receive(struct peer *p, uint8_t i);
/** Wait until the agent sends a message or dies, then service. */
int peer_service(struct peer *p);
/** Service at once, as an engine does whose loop has just found the descriptor readable or not. */
int peer_service_now(struct peer *p);
/** In a forked child that keeps running: forget. */
int peer_fork_and_forget(struct peer *p);
/** How many descriptors it has open. */
int peer_count_fds(struct peer *p);

/** Send a datagram that looks like a packet to a QPN. */
void send_to_qpn(const struct rocemu_gid *addr, uint32_t qpn);

int count_fds(pid_t pid);

#endif
