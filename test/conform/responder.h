/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device for the self-test of `rocemu conform`: it answers as IBTA demands, or breaks one rule of
 * it (mutants.h). It has QP 1 with a connection manager, the servers of ibv_rc_pingpong,
 * ibv_uc_pingpong and ibv_ud_pingpong, `rping -s -P` and conform-peer. Of the project it uses the
 * codec alone, so the transport's mistakes are not its own.
 *
 * One thread. Everything that leaves is sent at once; nothing is kept that comes early.
 */
#ifndef TEST_CONFORM_RESPONDER_H
#define TEST_CONFORM_RESPONDER_H

#include <infiniband/verbs.h>

#include <rocemu/cm.h>
#include <rocemu/wire.h>

#include "mutants.h"

enum {
	RECVS = 512, /* of a queue pair, posted */
	WRS = 16,    /* requests of a queue pair, not complete */
	PIECES = 4,
	EARLY = 64,
	KEPT = 16,	    /* READs and atomics that may be repeated */
	BUFFER = 128 << 10, /* bytes of a queue pair */
	QPS = 256,
	DEVICE_MTU = 4096,
};

/** A packet that came. */
struct input {
	struct rocemu_gid src;
	uint16_t sport;
	uint8_t tos, ttl;
	const uint8_t *data; /* from the BTH to the ICRC */
	size_t len;
	struct rocemu_packet p;
};

/* ---- net.c: the address, its sockets, packets ---- */

/** Bind port 4791. @return the socket, or a negative errno value. */
int net_open(const char *address);
struct rocemu_gid net_gid(void);
int net_family(void);
/** The address as a TCP server's, bound to a port. @return the socket, or a negative errno value.
 */
int net_listen(uint16_t port);
/** A socket to send from. ecn: of what leaves. @return it, or a negative errno value. */
int net_sender(uint16_t sport, uint8_t ecn);
/** The next packet with a right format and ICRC. @return false: there is none. */
bool net_receive(struct input *in);
/** Send a packet: pad and ICRC are added. dport: 4791 but for mutants. */
void net_send(int fd, uint16_t sport, const struct rocemu_gid *to, uint16_t dport,
	      struct rocemu_hdrs *h, const uint8_t *payload, uint32_t len);
/** Nanoseconds of the monotonic clock. */
uint64_t net_now(void);

/* ---- queue pairs ---- */

enum qp_kind { QP_RC, QP_UC, QP_UD };

/** Memory that the peer may use: a region, or a window. */
struct region {
	uint32_t key;
	uint64_t va;
	uint32_t len;
	unsigned access; /* enum ibv_access_flags */
	bool other_pd, window;
	uint8_t *at;
};

struct piece {
	uint8_t *at;
	uint32_t len;
};

/** A posted receive. */
struct receive {
	struct piece piece[PIECES];
	unsigned pieces;
	uint32_t len; /* of all */
	uint64_t id;
};

/** A READ or an atomic that was executed: what its repetition is compared with. */
struct kept {
	bool used;
	uint8_t opcode;
	uint32_t psn, n; /* PSNs of its responses */
	uint64_t va, swap_add, compare, original;
	uint32_t rkey, len;
};

struct responder {
	uint32_t epsn, msn;
	bool nak_sent;	       /* for epsn, or an RNR NAK */
	bool stuck;	       /* there was a gap */
	uint32_t early[EARLY]; /* PSN + 1 of what came early: mutants */
	uint32_t message;      /* the message under way: ROCEMU_OP_SEND or _WRITE, else 0 */
	uint32_t bytes;	       /* of it, so far */
	uint64_t va;	       /* WRITE: of its next byte */
	uint32_t rkey;
	uint32_t left;	   /* WRITE: bytes to come */
	bool bad;	   /* UC: what comes of this message is dropped */
	uint8_t rnr_timer; /* code */
	unsigned depth;	   /* READs and atomics that are kept */
	struct kept kept[KEPT];
	unsigned kept_next;
	const struct kept *late;    /* mutants: a READ whose responses are due */
	struct receive recv[RECVS]; /* a ring */
	unsigned recv_first, recv_count;
};

/** A request that was posted. */
struct wr {
	uint64_t id;
	uint8_t opcode; /* RC_SEND_ONLY, RC_WRITE_ONLY, RC_READ_REQUEST and the like */
	bool signaled, fence;
	uint32_t imm;	     /* or the key to invalidate */
	uint32_t dqpn, qkey; /* UD; dqpn 0: those of the queue pair */
	uint32_t psn, n;     /* PSNs: n from psn on */
	uint8_t *at;
	uint32_t len, rkey;
	uint64_t va, swap_add, compare;
	uint32_t got, from; /* READ: responses that came, and the first one of the last request */
};

struct requester {
	struct wr wr[WRS]; /* a ring */
	unsigned first, count;
	uint32_t psn;	 /* of the next request that is posted */
	uint32_t una;	 /* the oldest that is not acknowledged */
	uint32_t next;	 /* to be sent */
	uint32_t end;	 /* behind all that was ever sent */
	bool no_credits; /* mutants: the last ACK had a credit code */
	bool asked;	 /* implied NAK: sent again, and nothing came since */
	uint8_t timeout, retry_cnt, rnr_retry;
	uint8_t retries, rnr_retries; /* that are left */
	unsigned depth;		      /* READs at once */
	uint64_t deadline;	      /* 0: none */
	bool rnr_wait;
};

struct qp;

/** The program that uses a queue pair. */
struct app {
	/* p: the last packet of what was received */
	void (*received)(struct qp *qp, const struct receive *r, uint32_t len,
			 const struct rocemu_packet *p);
	void (*completed)(struct qp *qp, const struct wr *wr);
	/* a completion in error, of a receive or a request */
	void (*ended)(struct qp *qp, bool recv, uint64_t id, enum ibv_wc_status status);
	void (*event)(struct qp *qp, enum ibv_event_type event);
	bool wants_send, wants_recv; /* pingpong: neither: the next SEND is posted */
	unsigned sent, received_count;
	unsigned state;	      /* rping: what is awaited */
	struct cm_conn *conn; /* rping, borrowed */
	uint32_t rkey, len;
	uint64_t va;
	struct peer *peer; /* conform-peer, borrowed */
};

struct qp {
	bool used;
	enum qp_kind kind;
	bool deaf;	  /* not yet in RTR */
	bool quiet;	  /* not yet in RTS */
	bool established; /* a packet came */
	bool error;
	uint32_t qpn;
	int fd;
	uint16_t sport;
	struct rocemu_gid peer;
	uint32_t peer_qpn;
	uint16_t peer_sport; /* of the first packet */
	uint32_t mtu;
	unsigned access; /* enum ibv_access_flags */
	uint32_t qkey;
	struct region *region; /* borrowed */
	unsigned regions;
	uint64_t cnp_at; /* 0: none was sent */
	struct responder resp;
	struct requester req;
	struct app app;
	uint8_t buffer[BUFFER];
};

/** A new queue pair, in RTS. NULL: no socket, or no room. The oldest one of its kind may go. */
struct qp *qp_new(enum qp_kind kind, const struct rocemu_gid *peer, uint32_t peer_qpn);
void qp_destroy(struct qp *qp);
/** A packet that is not for QP 1. @return false: there is no such queue pair. */
bool qp_input(const struct input *in);
/** Timers. @return when the next one is due; 0: none. */
uint64_t qp_timers(uint64_t now);
/** Send a packet: what all packets of a queue pair have is filled in. */
void qp_send(struct qp *qp, struct rocemu_hdrs *h, const uint8_t *payload, uint32_t len);
/** To the error state: what is posted is flushed. */
void qp_error(struct qp *qp);
/** A mutant's: a packet that came in INIT comes again. */
void qp_replay(void);
void qp_post_recv(struct qp *qp, const struct receive *r);
/** Copy to the receive, from its byte `offset` on. */
void qp_scatter(const struct receive *r, uint32_t offset, const uint8_t *data, uint32_t len);
/** Memory of a key, for a right. No bytes: the key is not looked at (C9-88). NULL: refused. */
uint8_t *qp_memory(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t len, unsigned right);

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & ROCEMU_PSN_MASK;
}

static inline uint32_t packets(uint32_t len, uint32_t mtu)
{
	return len ? (len + mtu - 1) / mtu : 1;
}

/* ---- resp.c, unreliable.c: requests that came; req.c: requests that leave ---- */

void resp_input(struct qp *qp, const struct input *in);
void uc_input(struct qp *qp, const struct input *in);
void ud_input(struct qp *qp, const struct input *in);

static inline bool takes_receive(uint32_t ops)
{
	return ops & (ROCEMU_OP_SEND | ROCEMU_OP_IMM);
}

/** What all services check of a request's length. */
bool length_fits(const struct qp *qp, const struct rocemu_packet *p, uint32_t ops);

/** Post a request and send what may be sent. */
void req_post(struct qp *qp, struct wr wr);
void req_input(struct qp *qp, const struct input *in);
void req_timer(struct qp *qp, uint64_t now);

/* ---- app.c: the programs ---- */

void pingpong_start(struct qp *qp, uint32_t size);
void rping_start(struct qp *qp, struct cm_conn *conn);

/* ---- tcp.c: pingpong's exchange; peer.c: conform-peer's; perftest.c: perftest's ---- */

enum { TCP_PEER = QP_UD + 1, TCP_WRITE_BW, TCP_READ_BW, TCP_ATOMIC_BW, TCP_SERVERS };

/** Listen on the port of a server: enum qp_kind, or TCP_*. 0, or a negative errno value. */
int tcp_open(int kind, uint16_t port);

struct pollfd;
/** Add what is to be polled. @return how many. */
unsigned tcp_poll(struct pollfd *p);
void tcp_ready(void);

/** A tester, with its connection. NULL: no memory. */
struct peer *peer_new(int fd);
/** Read what came. @return false: the tester is gone, and p with its socket. */
bool peer_ready(struct peer *p);

/** A client, with its connection. access: of the region, enum ibv_access_flags. NULL: no memory. */
struct perftest *perftest_new(int fd, unsigned access);
/** As peer_ready(). */
bool perftest_ready(struct perftest *p);

/* ---- gsi.c: datagrams to QP 1; cm.c: connections ---- */

int gsi_open(void);
void gsi_input(const struct input *in);
/** Answer from QP 1. */
void gsi_send(const struct rocemu_gid *to, uint16_t dport, const struct rocemu_cm_msg *m);

struct cm_conn;
void cm_input(const struct input *in, const struct rocemu_cm_msg *m);
/** The first packet of the peer: it has the REP. */
void cm_established(struct cm_conn *c);
/** The program ends the connection. */
void cm_disconnect(struct cm_conn *c);
uint64_t cm_timers(uint64_t now);

#endif
