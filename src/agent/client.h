/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's side of the agent: gets a slot and its sockets, and survives the agent's death.
 *
 * The agent is found, or spawned, on an abstract Unix socket (so there is one per network namespace
 * and user). With the slot comes a token, one end of a socket pair: as long as it is open, the
 * client owns the slot; so a process killed with SIGKILL leaves nothing behind. When the agent's
 * worker dies, its holder starts the next one, which has all slots and sockets (agent/holder.h);
 * the client finds it by the same name and proves its ownership with the token.
 *
 * agent_client_socket(), _service(), _fd() and agent_peer_request() may be called by several
 * threads at once; all else is serialised by the lane's lock or its thread. Blocking calls time out
 * (10 s).
 */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/wire.h>

#include "agent/protocol.h"

struct agent_client;

/**
 * Connect to the agent of this network namespace and user, spawning it when there is none, and take
 * a slot. With ROCEMU_AGENT=off in the environment no agent is used: slot 1, and
 * agent_client_socket() binds the port itself (one process per address).
 *
 * A system-wide agent (`rocemu agent --system`) has precedence over the user's own. No fork()
 * happens in the caller (the agent is spawned with posix_spawn()), so pthread_atfork handlers do
 * not run.
 *
 * errbuf gets one line with the error and the remedy.
 * @return 0, or -errno: -ECONNREFUSED no agent and none could be spawned, -ENOSPC no slot free,
 * -EPERM an agent of another user that does not serve us, -EPROTO another version, -ETIMEDOUT,
 * -EINVAL a wrong ROCEMU_AGENT or ROCEMU_AGENT_NAME.
 */
int agent_client_new(struct agent_client **out, char *errbuf, size_t errlen);

/** Close the connection: the slot and its sockets go back to the agent. NULL is allowed. */
void agent_client_free(struct agent_client *c);

/**
 * In a forked child: close the child's copies; the parent keeps its slot. Async-signal-safe, so fit
 * for pthread_atfork. Nothing but agent_client_free() may be called afterwards.
 */
void agent_client_forget(struct agent_client *c);

/** The agent instance that the slot is of, as text: "system:NAME", ":NAME" (at most 40 bytes). */
void agent_client_instance(const struct agent_client *c, char *buf, size_t len);
uint16_t agent_client_slot(const struct agent_client *c);
/** Where QP index allocation should start (rocemu_ep_set_slot()). */
uint16_t agent_client_first_index(const struct agent_client *c);

/**
 * The slot's receive socket on port 4791 of an address of this host: a non-connected UDP socket,
 * member of the address's reuseport group, steered by QPN, GRO on where the kernel has it,
 * don't-fragment, zero checksum taken on IPv6, receive buffer as large as allowed, TOS/TTL/hop
 * limit delivered as control messages (see agent/protocol.h). Without an agent
 * (ROCEMU_AGENT=off): not in a group.
 *
 * @param scope_id interface index for link-local IPv6 addresses, else 0.
 * @return a file descriptor owned by the caller, or -errno with errbuf: -EADDRINUSE port 4791 of
 * that address is taken by another program, -EADDRNOTAVAIL, -EACCES.
 */
int agent_client_socket(struct agent_client *c, const struct rocemu_gid *addr, uint32_t scope_id,
			char *errbuf, size_t errlen);

/**
 * A receive socket for a multicast group's address, like the others, but not a member of a
 * reuseport group: the kernel delivers a copy of each packet to every such socket. No agent is
 * involved. It has joined the group on that interface (0: the kernel's choice), and leaves it when
 * closed.
 * @return a file descriptor owned by the caller, or -errno with errbuf.
 */
int agent_group_socket(const struct rocemu_gid *group, unsigned ifindex, char *errbuf,
		       size_t errlen);

/**
 * Request a copy of the receive socket that another slot of this host has for an address: to read
 * its options, never its data. Uses a separate connection, so it may run beside
 * agent_client_service(); does not wait for the answer.
 * @return a connection to be watched for readability and given to agent_peer_take(), or -errno.
 */
int agent_peer_request(const struct agent_client *c, const struct rocemu_gid *addr,
		       uint32_t scope_id, uint16_t slot);

/**
 * The answer to agent_peer_request(), which came over fd; the caller closes fd when it no longer
 * watches it: other threads may get the number at once.
 * @return a file descriptor owned by the caller, or -errno: -EAGAIN no answer yet, -ENOENT no such
 *         socket on this host, -EPERM another user's, -ECONNRESET the agent has died.
 */
int agent_peer_take(int fd);

/**
 * A copy of the connection's descriptor, the caller's, to be watched for readability by the lane's
 * loop: the agent has died, or sent a message. A copy, because the connection's own is closed by
 * the thread that finds the agent dead, and other descriptors may get its number at once.
 * @return the descriptor, or -errno: -ENOENT works without an agent, -ENOTCONN has none at the
 * moment, since agent_client_service() or _socket() failed.
 */
int agent_client_fd(struct agent_client *c);

/**
 * agent_client_fd() is readable: receive pending messages. When the agent has died, find or spawn
 * the next one and register the slot there; there may be another connection afterwards.
 * @return 0, or -errno: there is no agent now (data paths go on; call again later, with a growing
 * pause).
 */
int agent_client_service(struct agent_client *c);

/**
 * Request the status of the user's agent, or of the system-wide one. Spawns none.
 * @return 0 and *out owned by the caller, or -errno with errbuf: -ECONNREFUSED there is none.
 */
int agent_client_status(bool system, struct agent_status **out, char *errbuf, size_t errlen);
void agent_status_free(struct agent_status *st);

#endif
