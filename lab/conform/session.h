/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session with a device: the socket, QP 1, and the queue pair that the case at hand has. The
 * parts of the folder among themselves.
 */
#ifndef CONFORM_SESSION_H
#define CONFORM_SESSION_H

#include <rocemu/cm.h>

#include "conform/conform.h"

enum { CONFORM_KEPT = 64, CONFORM_MESSAGES = 64 };

/** A message to QP 1 that came, and was not read. */
struct conform_mad {
	struct wire_packet p; /* data: NULL */
	uint8_t mad[ROCEMU_MAD_LEN];
};

/** What is known of a peer at the device. */
struct conform_reach {
	bool asked, there;
	char why[128]; /* not: in words */
};

struct conform_session {
	struct conform_options o;
	struct wire *wire; /* owned */
	struct conform_reach reach[CONFORM_PEER_COUNT];
	uint32_t qpn;	       /* of the newest queue pair of the tester */
	uint32_t comm_id, psn; /* of QP 1: the next */
	uint64_t service;      /* that nobody has */
	uint32_t case_id;      /* comm_id before the case at hand */
	bool gsi;	       /* the case at hand sees what comes to QP 1 */
	/* Messages to QP 1: a ring. */
	struct conform_mad mad[CONFORM_KEPT];
	unsigned first, count;
	int tcp; /* of a pingpong server, connected and not used; or -1 */
	enum scenario_peer_program tcp_kind;   /* of tcp */
	const struct conform_case *c;	       /* at hand */
	enum scenario_peer_program kind;       /* of the peer that it has */
	const struct conform_world *world;     /* its queue pair, borrowed; or NULL */
	uint64_t hello_sent_ns, hello_came_ns; /* of the last question, and of its answer */
	unsigned line;			       /* of the case, whose packets leave; or 0 */
	uint32_t hello;	    /* communication ID of the question to QP 1 while it is asked, or 0 */
	bool ending;	    /* packets from now on are none of the case */
	uint64_t window_ns; /* since when sent packets were sent */
	unsigned sent;
	struct conform_packet *packet; /* owned; of the case at hand */
	unsigned packets, room;
};

/** Requests of the device. PSNs count from the first one. */
struct conform_requests {
	uint32_t next;			/* of the next that is new */
	uint32_t messages;		/* that have ended; a READ has when its request came */
	uint32_t end[CONFORM_MESSAGES]; /* of the newest: the PSN behind the last packet */
};

/** The queue pair of a case: the scenario's world. */
struct conform_world {
	struct conform_session *s;
	struct scenario_setup setup; /* as it came to be */
	struct scenario_peer peer;
	/* The device's requests are acknowledged, and are no effects; those that came before; these
	 * are no effects. */
	bool answers, answers_repeats, ignores_repeats;
	bool takes_cnps; /* CNPs are effects: the case names them */
	struct conform_requests requests;
	unsigned pings;	 /* SENDs to rping by post_send(); their ACKs are no effects */
	bool left;	 /* rping has disconnected */
	uint16_t reason; /* of its REJ, or 0 */
	uint32_t ahead;	 /* PSN, from the first on, that the device expects, as far as is known */
	uint32_t comm_id, remote_comm_id; /* of the CM */
	int tcp;			  /* of a server of perftest; or -1 */
	struct remote *remote;		  /* owned; of conform-peer, or NULL */
	struct rocemu_packet last;	  /* effect; payload: NULL */
	struct ip_udp last_ip;
	bool any_last;
	uint8_t payload[ROCEMU_MAX_MTU]; /* of last */
	char text[SCENARIO_EFFECTS_MAX]; /* effects */
	size_t len;
	unsigned count; /* how many */
	bool shown;	/* a line has seen them */
};

/* ---- gsi.c: QP 1 ---- */

/** Fill what each REQ has. */
void gsi_req(struct conform_session *s, struct rocemu_cm_msg *m);
/** @return 0 or a negative errno value. */
int gsi_send(struct conform_session *s, const struct rocemu_cm_msg *m);
/** Take the message with this remote communication ID out of those that came. @return false: there
 * is none. *ns: when it came. */
bool gsi_find(struct conform_session *s, uint32_t comm_id, struct rocemu_cm_msg *m, uint64_t *ns);
/** Wait for a message with this remote communication ID. @return 0, -ETIMEDOUT. */
int gsi_wait(struct conform_session *s, uint32_t comm_id, unsigned ms, struct rocemu_cm_msg *m);
/** Ask QP 1: a REQ for a service that nobody has, and its REJ. @return 0, -ETIMEDOUT. */
int gsi_hello(struct conform_session *s);
/** Takes packets to QP 1: for wire_take(). */
bool gsi_take(void *session, const struct wire_packet *p);

/* ---- tcp.c ---- */

/** One try. @return a socket that does not block, or a negative errno value. */
int tcp_connect(const struct rocemu_gid *gid, uint16_t port);
/** Wait until fd is ready for events (POLLIN). @return 0, -ETIMEDOUT or another. */
int tcp_ready(int fd, short events, unsigned ms);
/** All len bytes. @return 0, -ETIMEDOUT, -ECONNRESET or another. */
int tcp_read(int fd, void *to, size_t len);

/* ---- pingpong.c: the servers of rdma-core's examples ---- */

/** The world's queue pair is connected to that of a server. @return 0 or a negative errno value. */
int pingpong_connect(struct conform_world *w);
/** The server is made to end, so that the next one begins. */
void pingpong_end(struct conform_world *w);
/** Does one run? */
bool pingpong_there(struct conform_session *s, enum scenario_peer_program kind, char *why,
		    size_t size);

/* ---- rping.c: a listener of rdma_cm ---- */

int rping_connect(struct conform_world *w);
void rping_end(struct conform_world *w);
bool rping_there(struct conform_session *s, char *why, size_t size);
/** Let it post a READ, or, the next time, a WRITE. @return 0 or a negative errno value. */
int rping_post(struct conform_world *w, const struct scenario_request *r);
/** The RTU that rping_connect() left out, as the queue pair was to be in RTR. */
int rping_establish(struct conform_world *w);
/** An ACK of what rping_post() sent. */
bool rping_is_own_ack(const struct conform_world *w, const struct rocemu_hdrs *h);
/** It disconnects: its DREQ came, and is answered. @return true: the first one. */
bool rping_leaves(struct conform_world *w);

/* ---- requests.c: those of the device ---- */

/** A request packet came. @return true: its PSN came before. */
bool requests_note(struct conform_world *w, const struct rocemu_hdrs *h);
/** The MSN of an answer that acknowledges all up to a PSN. */
uint32_t requests_msn(const struct conform_world *w, uint32_t psn);
/** Acknowledge a request packet, or send all responses to a READ: bytes of 0. */
void requests_answer(struct conform_world *w, const struct rocemu_hdrs *h);

/* ---- perftest.c: servers that tell a key ---- */

int perftest_connect(struct conform_world *w);
void perftest_end(struct conform_world *w);
bool perftest_there(struct conform_session *s, enum scenario_peer_program kind, char *why,
		    size_t size);

/* ---- peer-remote.c: conform-peer ---- */

int remote_connect(struct conform_world *w);
void remote_end(struct conform_world *w);
bool remote_there(struct conform_session *s, char *why, size_t size);
/** conform_backend, and what verbs do at the device. */
const struct scenario_backend *remote_backend(void);

/* ---- backend.c ---- */

extern const struct scenario_backend conform_backend;

/** The session whose cases are carried out from now on. */
void conform_use(struct conform_session *s);
/** The UDP source port that a connection of two queue pairs has. */
void conform_choose_port(struct scenario_peer *peer);
/** Before a packet is sent: no more than 50,000 of them in a second. */
void conform_pace(struct conform_session *s);
/** The text of a packet that came, or NULL: none. Its requests are answered, if they have to be. */
const char *conform_next(struct conform_world *w);
/** Send a packet; what is not given is right. p is changed. @return 0 or a negative errno value. */
int conform_send(struct conform_world *w, struct scenario_packet *p);

static inline uint64_t conform_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
