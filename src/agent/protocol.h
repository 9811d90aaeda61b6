/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * Defines the messages between clients and the agent, and the agent's names.
 *
 * Messages are packets of a SOCK_SEQPACKET Unix socket: struct agent_msg_header and a struct that
 * the type names (struct agent_body), both in the host's byte order, since both sides are on the
 * same host; file descriptors beside them (SCM_RIGHTS), whose number the type fixes too. A client
 * sends a request, the agent answers each with one message. The header and AGENT_ERROR are the same
 * in every version.
 *
 *	client                          agent
 *	HELLO kind                 ->
 *	                           <-   WELCOME place, first index; fds: [frames,] token
 *	REJOIN place, nonce        ->
 *	                           <-   WELCOME place, first index; fds: [frames] [, token]
 *	STATUS                     ->
 *	                           <-   STATUS_IS; fd: a file: struct agent_status_head, ...
 *	anything                   ->
 *	                           <-   ERROR errno, text
 *
 * There are two kinds of clients. A lane has a slot, and requests sockets:
 *
 *	SOCKET address             ->
 *	                           <-   SOCKET_IS; fd: the slot's socket of that address
 *	PEER address, slot         ->
 *	                           <-   SOCKET_IS; fd: that slot's socket of that address
 *
 * A client of the general services interface (QP 1; client-gsi.h) has a number:
 *
 *	GSI_OPEN address           ->
 *	                           <-   GSI_DONE 0
 *	GSI_CLOSE address          ->
 *	                           <-   GSI_DONE 0
 *	GSI_BIND key, what         ->
 *	                           <-   GSI_DONE service ID
 *	GSI_LISTEN key             ->
 *	                           <-   GSI_DONE 0
 *	GSI_UNBIND key             ->
 *	                           <-   GSI_DONE 0
 *
 * "frames" is its second Unix socket of packets, for messages without an answer: datagrams in both
 * directions, and exit MADs (gsi-frame.h). So no datagram comes between a request and its answer,
 * and one descriptor shows the client both datagrams and the agent's death.
 *
 * The token holds the place, a slot or number (seats.h). REJOIN shows that the place is the
 * client's: it writes the nonce to the token first. An agent without a record of the place, or
 * where the place is free, treats REJOIN as a HELLO that requests this place; then the answer has a
 * token.
 *
 * The data sockets that SOCKET_IS carries deliver these control messages:
 *	SOL_UDP, UDP_GRO (int)              segment size, when datagrams were merged
 *	SOL_SOCKET, SO_RXQ_OVFL (uint32_t)  datagrams dropped so far for want of buffer, when not 0
 *	SOL_IP, IP_TOS (uint8_t), IP_TTL (int)                      on IPv4
 *	SOL_IPV6, IPV6_TCLASS (int), IPV6_HOPLIMIT (int)            on IPv6
 * There is no packet info: each socket is bound to one address, which is the destination.
 */
/* clang-format on */
#ifndef AGENT_PROTOCOL_H
#define AGENT_PROTOCOL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <rocemu/wire.h>

enum {
	AGENT_VERSION = 4,
	AGENT_PORT = 4791,	   /* RoCEv2 */
	AGENT_SEATS = 1024,	   /* places of a kind */
	AGENT_SLOTS = AGENT_SEATS, /* of a QPN's upper 10 bits; 0 is the agent's own */
	AGENT_INDEXES = 1 << 14,   /* of a QPN's lower 14 bits */
	AGENT_MSG_FDS = 2,
	AGENT_TEXT_MAX = 400, /* of an error's text */
	/* Connection management. */
	AGENT_GSI_CLIENTS = AGENT_SEATS, /* of a communication ID's upper 10 bits; 0 is unused */
	AGENT_GSI_ID_BITS = 22,		 /* the lower bits of a communication ID */
	AGENT_GSI_BINDS_MAX = 32768,	 /* of one client */
	AGENT_GSI_EXITS_MAX = 16384,	 /* of one client */
};

enum agent_kind {
	AGENT_LANE,
	AGENT_GSI,
	AGENT_KIND_COUNT,
};

enum agent_msg_type {
	AGENT_HELLO = 1,
	AGENT_REJOIN,
	AGENT_WELCOME,
	AGENT_SOCKET,
	AGENT_SOCKET_IS,
	AGENT_ERROR,
	AGENT_STATUS,
	AGENT_STATUS_IS,
	AGENT_PEER,
	AGENT_GSI_OPEN,
	AGENT_GSI_CLOSE,
	AGENT_GSI_BIND,
	AGENT_GSI_LISTEN,
	AGENT_GSI_UNBIND,
	AGENT_GSI_DONE,
};

/* Structs of messages have no padding, which would leak the sender's memory. */

struct agent_client_info {
	uint32_t pid, uid;
	uint32_t slot;
};

struct agent_addr_info {
	struct rocemu_gid addr;
	uint32_t scope_id;
	uint32_t sockets; /* in the reuseport group */
	uint64_t dropped; /* datagrams to slot 0 or to a slot without socket */
};

enum agent_gsi_bind_flags {
	AGENT_GSI_REUSEADDR = 1, /* may share with others of the user that have it */
	AGENT_GSI_AFONLY = 2,	 /* an IPv6 wildcard does not take IPv4 in */
};

/** The use of a port or service ID. */
struct agent_gsi_bind {
	uint64_t service_id;
	struct rocemu_gid addr; /* ::, ::ffff:0.0.0.0: wildcards */
	uint32_t scope_id;
	uint32_t flags; /* enum agent_gsi_bind_flags */
};

/** What connection management counts. */
/* clang-format off */
#define AGENT_GSI_COUNTERS(X)                                                              \
	X(rx,           "datagrams for QP 1")                                            \
	X(rx_form,      "dropped: not a MAD of connection management from QP 1; IP options, fragments") \
	X(rx_icrc,      "dropped: wrong ICRC")                                           \
	X(rx_key,       "dropped: wrong Q_Key or P_Key")                                 \
	X(rx_overflow,  "dropped: the socket's buffer was full")                         \
	X(delivered,    "given to a client")                                             \
	X(queue_full,   "dropped: a client does not read")                               \
	X(no_listener,  "requests without a listener: rejected")                    \
	X(unknown_id,   "for an unknown communication ID: answered")                    \
	X(unanswered,   "without a receiver, and not answered: no need, or too many")          \
	X(tx,           "sent for clients")                                              \
	X(tx_refused,   "not sent for a client: not allowed")                   \
	X(tx_failed,    "not sent: the network did not take it")                         \
	X(exit_sent,   "exit MADs sent, each time")                                         \
	X(exit_answered, "exit MADs whose answer came")                                     \
	X(exit_given_up, "exit MADs without an answer")
/* clang-format on */

enum agent_gsi_counter {
#define X(name, text) AGENT_GSI_COUNT_##name,
	AGENT_GSI_COUNTERS(X)
#undef X
		AGENT_GSI_COUNTER_COUNT
};

struct agent_gsi_client_info {
	uint32_t pid, uid;
	uint16_t number;
	uint16_t addrs; /* opened */
	uint32_t binds, exit_mads;
	uint32_t queued;	     /* datagrams that it has not read */
	uint64_t delivered, dropped; /* dropped because it did not read */
};

struct agent_gsi_listener_info {
	struct agent_gsi_bind bind;
	uint32_t number; /* whose */
	uint32_t zero;
};

/**
 * An agent's status, in a file. It is followed by the addresses, the clients of connection
 * management, the listeners and the lanes' clients. Of a system-wide agent's clients and listeners
 * a user sees the own ones and the number of the others; root sees all.
 */
struct agent_status_head {
	uint64_t uptime_ms;
	uint32_t pid, uid; /* the agent's */
	uint32_t system;   /* 1: serves all users */
	uint32_t holder;   /* PID of the holder; 0: none */
	uint32_t naddrs, ngsi_clients, nlisteners, nclients;
	uint32_t other_gsi_clients, other_listeners, other_clients;
	uint32_t lingering; /* exit MADs of dead clients that are still repeated */
	uint64_t counters[AGENT_GSI_COUNTER_COUNT];
};

/** Such a file in memory. */
struct agent_status {
	struct agent_status_head agent;
	const struct agent_addr_info *addrs;
	const struct agent_gsi_client_info *gsi_clients;
	const struct agent_gsi_listener_info *listeners;
	const struct agent_client_info *clients;
	void *data; /* owned: what the others are in; aligned as by malloc() */
};

/** Find all parts of st->data[0..len). @return 0, or -EPROTO: it is no such file. */
int agent_status_parse(struct agent_status *st, size_t len);

union agent_body {
	struct {
		uint32_t kind; /* enum agent_kind */
	} hello;	       /* HELLO */
	struct {
		uint32_t kind;
		uint32_t place;
		uint64_t nonce;
	} rejoin; /* REJOIN */
	struct {
		uint32_t kind;
		uint16_t place;
		uint16_t first_index; /* of a lane's QPNs */
	} welcome;		      /* WELCOME */
	struct {
		struct rocemu_gid addr;
		uint32_t scope_id;
		uint32_t slot; /* PEER */
	} socket;	       /* SOCKET, PEER, GSI_OPEN, GSI_CLOSE */
	struct {
		uint32_t err; /* positive errno */
		char text[AGENT_TEXT_MAX];
	} error; /* ERROR */
	struct {
		struct agent_gsi_bind bind; /* BIND */
		uint32_t key;		    /* the client's name for it */
		uint32_t zero;
	} gsi_bind; /* GSI_BIND, GSI_LISTEN, GSI_UNBIND */
	struct {
		uint64_t value;
	} gsi_done; /* GSI_DONE */
};

struct agent_msg_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type; /* enum agent_msg_type */
};

struct agent_msg {
	enum agent_msg_type type;
	unsigned nfds;
	int fds[AGENT_MSG_FDS]; /* received ones are owned by the message: agent_msg_close_fds() */
	union agent_body u;
};

/** What the longest message takes. */
enum { AGENT_MSG_MAX = sizeof(struct agent_msg_header) + sizeof(union agent_body) };

/** Write a message's bytes. buf has AGENT_MSG_MAX of them. @return the length. */
size_t agent_msg_encode(const struct agent_msg *m, uint8_t *buf);

/**
 * Read a message. Any bytes are safe. m->nfds: number of descriptors that came with it.
 * @return 0, -EPROTO: not this version's (m->type is set), -EBADMSG: no well-formed message.
 */
int agent_msg_decode(const uint8_t *buf, size_t len, struct agent_msg *m);

enum { AGENT_FDS_MAX = 253 }; /* the kernel's SCM_MAX_FD */

/** Send a packet with descriptors, which stay the caller's, with MSG_NOSIGNAL and flags. @return 0
 * or -errno. */
int agent_fds_send(int sock, const void *data, size_t len, const int *fds, unsigned n, int flags);

/**
 * Receive one. max: an even number, or AGENT_FDS_MAX. *n: the number received, owned by the caller
 * even with an error.
 * @return the length; -ECONNRESET: the other side is gone, -EBADMSG: longer, or more descriptors,
 *	   -EMFILE: no room for them here, -EAGAIN, or another -errno.
 */
ssize_t agent_fds_recv(int sock, void *data, size_t len, int *fds, unsigned max, unsigned *n,
		       int flags);

/** Send with MSG_NOSIGNAL and flags. The caller keeps the descriptors. @return 0 or -errno. */
int agent_msg_send(int sock, const struct agent_msg *m, int flags);

/**
 * Receive and decode. On any error no descriptors are left open.
 * @return 0, -ECONNRESET: the other side is gone, -EAGAIN, agent_msg_decode()'s, or another -errno.
 */
int agent_msg_recv(int sock, struct agent_msg *m, int flags);

void agent_msg_close_fds(struct agent_msg *m);

/**
 * Does this errno of send() or recv() on a local socket mean "later", and not an error of the other
 * side?
 */
static inline bool agent_io_is_late(int err)
{
	return err == EAGAIN || err == ENOMEM || err == ENOBUFS || err == ETOOMANYREFS;
}

/** Fill in an ERROR. err: positive errno. */
void agent_msg_set_error(struct agent_msg *m, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** An agent instance: one per network namespace and user, or the system-wide one. */
struct agent_instance {
	bool system;
	uid_t uid;     /* whose, unless system */
	char name[33]; /* from ROCEMU_AGENT_NAME, or empty */
};

/** The caller's instance. @return 0, or -EINVAL: ROCEMU_AGENT_NAME has other characters than
 * [A-Za-z0-9_.-] or > 32. */
int agent_instance_init(struct agent_instance *r, bool system);

/**
 * The abstract name on which the instance's agent listens: suffix is "" or, when that name is
 * taken, '+' and random digits. @return the address's length.
 */
socklen_t agent_instance_addr(const struct agent_instance *r, const char *suffix,
			      struct sockaddr_un *sa);

#endif
