/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * What clients and the agent say to each other, and under which names they meet.
 *
 * Messages are packets of a SOCK_SEQPACKET Unix socket: a header (magic, version, type) and a body
 * whose length the type fixes; integers in network order; file descriptors beside them (SCM_RIGHTS),
 * whose number the type fixes too. A client asks, the agent answers each request with one message.
 * The header and AGENT_ERROR are the same in every version, so that two versions can tell each other
 * apart.
 *
 *	client                          agent
 *	HELLO                      ->
 *	                           <-   WELCOME slot, first index; fds: token [, stash read, write]
 *	REJOIN slot; fds: the same ->
 *	                           <-   WELCOME slot, first index; no fds
 *	SOCKET address             ->
 *	                           <-   SOCKET_IS; fd: the slot's socket of that address
 *	PEER address, slot         ->
 *	                           <-   SOCKET_IS; fd: that slot's socket of that address
 *	STATUS from where          ->
 *	                           <-   STATUS_PAGE
 *	anything                   ->
 *	                           <-   ERROR errno, text
 *
 * A client of connection management (QP 1; client-gsi.h) has a connection of its own:
 *
 *	GSI_HELLO 0                 ->
 *	                           <-   GSI_WELCOME number; fds: frames, token
 *	GSI_HELLO number; fd: token ->
 *	                           <-   GSI_WELCOME number; fd: frames
 *	GSI_OPEN address            ->
 *	                           <-   GSI_DONE 0
 *	GSI_BIND key, what          ->
 *	                           <-   GSI_DONE service ID
 *	GSI_LISTEN key              ->
 *	                           <-   GSI_DONE 0
 *	GSI_UNBIND key              ->
 *	                           <-   GSI_DONE 0
 *
 * "frames" is a second Unix socket of packets, for what nobody answers: datagrams in both
 * directions, and exit MADs (protocol-gsi.h). So a datagram never stands between a request and its
 * answer, and one descriptor tells the client both of datagrams and of the agent's death. Whoever
 * asks for GSI_STATUS from where gets a GSI_STATUS_PAGE.
 *
 * A token is a Unix socket bound to the slot's name and held by the client alone: as long as it is
 * open the kernel lets nobody else bind that name. So the kernel knows which slots are in use,
 * whatever happens to the agent, and a token handed over proves that the slot is its owner's. The
 * numbers of connection management have such tokens, too.
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <rocemu/wire.h>

enum {
	AGENT_VERSION = 1,
	AGENT_PORT = 4791,	 /* RoCEv2 */
	AGENT_SLOTS = 1024,	 /* of a QPN's upper 10 bits; 0 is the agent's own */
	AGENT_INDEXES = 1 << 14, /* of a QPN's lower 14 bits */
	AGENT_MSG_MAX = 2048,	 /* bytes */
	AGENT_MSG_FDS = 3,
	AGENT_TEXT_MAX = 400, /* of an error's text */
	AGENT_PAGE_CLIENTS = 64,
	AGENT_PAGE_ADDRS = 16,
	/* Connection management. */
	AGENT_GSI_CLIENTS = 1024, /* of a communication ID's upper 10 bits; 0 is nobody's */
	AGENT_GSI_ID_BITS = 22,	 /* the lower bits of a communication ID */
	AGENT_GSI_PAGE_CLIENTS = 16,
	AGENT_GSI_PAGE_LISTENERS = 24,
	AGENT_GSI_BINDS_MAX = 32768, /* of one client */
	AGENT_GSI_EXITS_MAX = 16384, /* of one client */
};

enum agent_msg_type {
	AGENT_HELLO = 1,
	AGENT_REJOIN,
	AGENT_WELCOME,
	AGENT_SOCKET,
	AGENT_SOCKET_IS,
	AGENT_ERROR,
	AGENT_STATUS,
	AGENT_STATUS_PAGE,
	AGENT_PEER,
	AGENT_GSI_HELLO,
	AGENT_GSI_WELCOME,
	AGENT_GSI_OPEN,
	AGENT_GSI_BIND,
	AGENT_GSI_LISTEN,
	AGENT_GSI_UNBIND,
	AGENT_GSI_DONE,
	AGENT_GSI_STATUS,
	AGENT_GSI_STATUS_PAGE,
};

struct agent_client_info {
	uint32_t pid, uid;
	uint16_t slot;
};

struct agent_addr_info {
	struct rocemu_gid addr;
	uint32_t scope_id;
	uint16_t sockets; /* in the reuseport group */
	uint64_t dropped; /* datagrams to slot 0 or to a slot without socket */
};

/** Part of the agent's state; as many pages as it takes are asked for. */
struct agent_page {
	uint32_t pid, uid; /* the agent's */
	uint64_t uptime_ms;
	bool system;
	bool recovering; /* waits for a client of an earlier agent to hand the stash over */
	uint16_t clients_total, addrs_total;
	uint16_t nclients, naddrs; /* in this page */
	struct agent_client_info clients[AGENT_PAGE_CLIENTS];
	struct agent_addr_info addrs[AGENT_PAGE_ADDRS];
};

enum agent_gsi_bind_flags {
	AGENT_GSI_REUSEADDR = 1, /* may share with others that have it */
	AGENT_GSI_AFONLY = 2,	/* an IPv6 wildcard does not take IPv4 in */
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
	X(rx_form,      "dropped: no MAD of connection management from QP 1")            \
	X(rx_icrc,      "dropped: wrong ICRC")                                           \
	X(rx_key,       "dropped: wrong Q_Key or P_Key")                                 \
	X(rx_overflow,  "dropped: the socket's buffer was full")                         \
	X(delivered,    "given to a client")                                             \
	X(queue_full,   "dropped: a client does not read")                               \
	X(no_listener,  "requests that nobody listens for: rejected")                    \
	X(unknown_id,   "for a communication ID of nobody: answered")                    \
	X(unanswered,   "for nobody, and not answered: no need, or too many")          \
	X(tx,           "sent for clients")                                              \
	X(tx_refused,   "not sent for a client: not what it may send")                   \
	X(tx_failed,    "not sent: the network did not take it")                         \
	X(exit_sent,   "exit MADs sent, each time")                                         \
	X(exit_answered, "exit MADs whose answer came")                                     \
	X(exit_given_up, "exit MADs that nobody answered")
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
	uint64_t delivered, dropped; /* dropped: it did not read */
};

struct agent_gsi_listener_info {
	uint16_t number; /* whose */
	struct agent_gsi_bind bind;
};

/** Part of what the agent knows of connection management. */
struct agent_gsi_page {
	uint64_t counters[AGENT_GSI_COUNTER_COUNT];
	uint32_t lingering; /* exit MADs of dead clients that are still repeated */
	uint16_t clients_total;
	uint32_t listeners_total;
	uint16_t nclients, nlisteners; /* in this page */
	struct agent_gsi_client_info clients[AGENT_GSI_PAGE_CLIENTS];
	struct agent_gsi_listener_info listeners[AGENT_GSI_PAGE_LISTENERS];
};

struct agent_msg {
	enum agent_msg_type type;
	unsigned nfds;
	int fds[AGENT_MSG_FDS]; /* received ones are owned by the message: agent_msg_close_fds() */
	union {
		struct {
			uint16_t slot; /* REJOIN: 0 when only the stash is handed over */
			uint16_t first_index;
		} slot; /* REJOIN, WELCOME */
		struct {
			struct rocemu_gid addr;
			uint32_t scope_id;
			uint16_t slot; /* PEER */
		} socket;	       /* SOCKET, PEER, GSI_OPEN */
		struct {
			int err; /* positive errno */
			char text[AGENT_TEXT_MAX];
		} error; /* ERROR */
		struct {
			uint16_t client, addr; /* how many of each to leave out */
		} from;			       /* STATUS */
		struct agent_page page;	       /* STATUS_PAGE */
		struct {
			uint16_t number;
		} gsi_number; /* GSI_HELLO, GSI_WELCOME */
		struct {
			uint32_t key; /* the client's name for it */
			struct agent_gsi_bind bind;
		} gsi_bind; /* GSI_BIND; GSI_LISTEN, GSI_UNBIND: key only */
		struct {
			uint64_t value;
		} gsi_done; /* GSI_DONE */
		struct {
			uint16_t client;
			uint32_t listener;
		} gsi_from;		      /* GSI_STATUS */
		struct agent_gsi_page gsi_page; /* GSI_STATUS_PAGE */
	} u;
};

/** Write a message's bytes. buf has AGENT_MSG_MAX of them. @return the length. */
size_t agent_msg_encode(const struct agent_msg *m, uint8_t *buf);

/**
 * Read a message. Any bytes are safe. m->nfds says how many descriptors came with it.
 * @return 0, -EPROTO: not this version's (m->type is set), -EBADMSG: no well-formed message.
 */
int agent_msg_decode(const uint8_t *buf, size_t len, struct agent_msg *m);

/** Send with MSG_NOSIGNAL and flags. The descriptors stay the caller's. @return 0 or -errno. */
int agent_msg_send(int sock, const struct agent_msg *m, int flags);

/**
 * Receive and decode. On any error no descriptors are left open.
 * @return 0, -ECONNRESET: the other side is gone, -EAGAIN, agent_msg_decode()'s, or another -errno.
 */
int agent_msg_recv(int sock, struct agent_msg *m, int flags);

void agent_msg_close_fds(struct agent_msg *m);

/** Fill in an ERROR. err: positive errno. */
void agent_msg_set_error(struct agent_msg *m, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Which agent: one per network namespace and user, or the system-wide one. */
struct agent_realm {
	bool system;
	uid_t uid;     /* whose, unless system */
	char name[33]; /* from ROCEMU_AGENT_NAME, or empty */
};

/** The caller's realm. @return 0, or -EINVAL: ROCEMU_AGENT_NAME has other characters than
 * [A-Za-z0-9_.-] or > 32. */
int agent_realm_init(struct agent_realm *r, bool system);

/**
 * The abstract name of a part of the realm: "" is where the agent listens, "stash" the stash's,
 * "slot-N" slot N's token's. @return the address's length.
 */
socklen_t agent_realm_addr(const struct agent_realm *r, const char *part, struct sockaddr_un *sa);

/** Is the local (or, with peer, the remote) name of a Unix socket that part's? */
bool agent_realm_owns(const struct agent_realm *r, int sock, bool peer, const char *part);

#endif
