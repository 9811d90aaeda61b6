/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process's side of connection management: QP 1 through the agent.
 *
 * The agent owns slot 0 of UDP port 4791 and with it QP 1 of every address. A process that makes or
 * accepts connections has one connection to the agent beside those of its lanes, and gets a number
 * from it: the upper 10 bits of every communication ID and SIDR request ID the process makes up
 * (agent_comm_id()), by which answers find their way back. State machines, timeouts and retries are
 * the process's; the agent routes, and keeps what must outlive a process: its number, the ports in
 * use, and its exit MADs.
 *
 * When the agent dies, agent_gsi_join(), or the next request, finds or spawns the next agent and
 * registers number, addresses, bindings and exit MADs again. Lost are MADs in flight (peers repeat
 * them), exit MADs of processes that died before, and, if another process took its port in the
 * meantime, a binding.
 *
 * There are two kinds of calls, each for any thread. Requests wait for the agent's answer, one
 * after another, and each gives up after 10 s: agent_gsi_new(), join, open, close, bind, listen,
 * unbind. Of the others only agent_gsi_drain() waits. text gets one line with the error and
 * the remedy.
 *
 * A forked child cannot use it: every call of another process than the one that made the client
 * fails with -ECHILD and sends nothing; see agent_gsi_forget().
 */
#ifndef AGENT_CLIENT_CM_H
#define AGENT_CLIENT_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/wire.h>

#include "agent/gsi-frame.h"
#include "agent/protocol.h"

struct agent_gsi;

/**
 * Connect to the agent as agent_client_new() does, spawning it when there is none, and get a
 * number.
 *
 * @param out set before the request to the agent, so that a child forked meanwhile can drop it.
 *	      NULL after an error.
 * @return 0, or -errno as for agent_client_new(); -ENOSPC: all 1023 numbers are in use;
 *	   -EOPNOTSUPP: ROCEMU_AGENT=off, and there is no QP 1 without an agent.
 */
int agent_gsi_new(struct agent_gsi **out, char text[static AGENT_TEXT_MAX]);

/**
 * Connect to the next agent if the last one has died.
 *
 * @return 0; 1: a binding could not be restored (it is gone, text names it; all others are
 * restored);
 *	   or -errno: there is no agent now; call again later, with a growing pause.
 */
int agent_gsi_join(struct agent_gsi *c, char text[static AGENT_TEXT_MAX]);

/** Is there a connection to an agent? */
bool agent_gsi_connected(struct agent_gsi *c);

/**
 * Close the connection. Bindings are gone; exit MADs that are still set are sent. NULL is allowed.
 * In a forked child it only frees the memory.
 */
void agent_gsi_free(struct agent_gsi *c);

/**
 * In a forked child: close the child's copies, so that the agent sees when the parent ends.
 * Async-signal-safe, so fit for pthread_atfork. Nothing but agent_gsi_free() may be called
 * afterwards.
 */
void agent_gsi_forget(struct agent_gsi *c);

/** False in a process forked from the one that made the client, which needs its own client. */
bool agent_gsi_is_ours(const struct agent_gsi *c);

/** The process's number, 1..1023. It stays the same for the client's life. */
uint16_t agent_gsi_number(const struct agent_gsi *c);

/** A communication ID or SIDR request ID of this client; counter is cut to 22 bits. */
static inline uint32_t agent_comm_id(uint16_t number, uint32_t counter)
{
	return (uint32_t)number << AGENT_GSI_ID_BITS | (counter & ((1u << AGENT_GSI_ID_BITS) - 1));
}

/**
 * Use QP 1 of an address of this host: allows sending from it, and passes requests to it to
 * wildcard listeners. Idempotent.
 *
 * @param scope_id interface index for link-local IPv6 addresses, else 0.
 * @return 0, or -errno as for agent_client_socket() (-EADDRINUSE: port 4791 is another
 *	   program's, -EADDRNOTAVAIL, -EPERM, ...).
 */
int agent_gsi_open(struct agent_gsi *c, const struct rocemu_gid *addr, uint32_t scope_id,
		   char text[static AGENT_TEXT_MAX]);

/**
 * Do not use QP 1 of an address any more: the host may have lost it. MADs to it come no more, and
 * none can be sent from it. No effect on an address that is not open.
 */
void agent_gsi_close(struct agent_gsi *c, const struct rocemu_gid *addr, uint32_t scope_id);

/**
 * To be watched for readability: call agent_gsi_flush(), and agent_gsi_recv() until it returns no
 * frame. The same one for the client's life.
 */
int agent_gsi_fd(const struct agent_gsi *c);

/**
 * Take the next frame, without waiting: a MAD of communication management, whose communication ID
 * is this client's or whose service ID it listens on (or did when the request first came), or a REJ
 * of a request that came to it (GSI_FRAME_MAD); one of its MADs as it was sent (GSI_FRAME_SENT); a
 * request of it did not arrive (GSI_FRAME_UNREACHABLE: comm_id of the REQ, or request ID of the
 * SIDR_REQ; error ECONNREFUSED: the port is closed there, EHOSTUNREACH, ENETUNREACH).
 *
 * @return 1: *f is filled; 0: there is none now; -ENOTCONN: there is no agent now.
 */
int agent_gsi_recv(struct agent_gsi *c, struct gsi_frame *f);

/**
 * Send a MAD from QP 1 of an address that was opened; the agent fills in m->sport, ip_id and hdr.
 * Communication IDs in it must be this client's. As on any network there is no answer: MADs that
 * the agent refuses are counted and dropped (rocemu-agent --status). Never waits: when the agent
 * does not keep up, MADs are queued here until agent_gsi_flush().
 *
 * @param echo the agent returns it as it was sent (GSI_FRAME_SENT).
 * @return 0: sent or queued; -EAGAIN: the queue is full, to be treated as a packet lost;
 *	   -ENOTCONN: there is no agent now, likewise.
 */
int agent_gsi_send(struct agent_gsi *c, const struct gsi_mad *m, bool echo);

/** Send what is queued, as far as the agent has room. @return nothing is left. */
bool agent_gsi_flush(struct agent_gsi *c);
/** Is anything queued? */
bool agent_gsi_waits(struct agent_gsi *c);
enum { AGENT_GSI_DRAIN_MS = 200 };
/**
 * Wait until the agent has what is queued now. It is not waited for when it takes nothing for
 * AGENT_GSI_DRAIN_MS: then calls do not wait until the queue is empty.
 */
void agent_gsi_drain(struct agent_gsi *c);

/**
 * Take a port or service ID. A binding with port 0 in one of the port spaces of
 * rocemu_cm_service_id() gets a free port (of net.ipv4.ip_local_port_range) that is unused on this
 * host in that port space at all addresses.
 *
 * Two bindings of the same service ID conflict when their addresses are equal or one of them is a
 * wildcard, unless both have AGENT_GSI_REUSEADDR and are of one user, or both have
 * AGENT_GSI_AFONLY and are of different families. It does not matter whether they are of one
 * process or two, and whether they listen.
 *
 * @param b   b->addr: ::ffff:0.0.0.0 is the IPv4 wildcard, :: the wildcard of both (with
 *	      AGENT_GSI_AFONLY: of IPv6). On success b->service_id is the one that was taken.
 * @param key names the binding in other calls.
 * @return 0, -EADDRINUSE, -EADDRNOTAVAIL: no port is free, -ENOBUFS: the client has
 * AGENT_GSI_BINDS_MAX, or another -errno of the connection.
 */
int agent_gsi_bind(struct agent_gsi *c, struct agent_gsi_bind *b, uint32_t *key,
		   char text[static AGENT_TEXT_MAX]);

/**
 * Receive requests (REQ, SIDR_REQ) for a binding's service ID: at its address, or, when it is a
 * wildcard, at all addresses opened now or later without a more specific listener. One listener per
 * service ID and address, with or without AGENT_GSI_REUSEADDR.
 *
 * @return 0 (also when it listens already), -EADDRINUSE, -ENOENT: no such key, or -errno.
 */
int agent_gsi_listen(struct agent_gsi *c, uint32_t key, char text[static AGENT_TEXT_MAX]);

/**
 * Release a binding; the port is free at once. New requests find no listener, but repetitions of
 * earlier ones still come to this client. @return 0, -ENOENT, or -errno.
 */
int agent_gsi_unbind(struct agent_gsi *c, uint32_t key);

/** The MAD to send for a connection when this process ends. */
struct agent_exit_mad {
	struct gsi_mad mad; /* a REJ, or a DREQ, as for agent_gsi_send() */
	uint8_t cm_timeout; /* DREQ: repeated every 4.096 us * 2^cm_timeout, ... */
	uint8_t retries;    /* ... so often, 0-15, until DREP, REJ or DREQ comes */
};

/**
 * Set or replace the exit MAD of a communication ID of this client. The agent sends it when the
 * connection to the client ends for any reason, SIGKILL included. Does not wait. At most
 * AGENT_GSI_EXITS_MAX at a time.
 *
 * @return 0, -EINVAL: comm_id is not of this client; -ENOBUFS: too many; -ENOMEM. No connection is
 * not an error: the next agent gets it.
 */
int agent_gsi_exit_set(struct agent_gsi *c, uint32_t comm_id,
		       const struct agent_exit_mad *exit_mad);

/** The ID has none any more. @return 0, also when there is none. */
int agent_gsi_exit_clear(struct agent_gsi *c, uint32_t comm_id);

#endif
