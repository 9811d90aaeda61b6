/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The servers ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong. Each serves one connection and
 * ends, so they run in a loop at the device. Queue pairs are exchanged by TCP as text: LID, QPN,
 * PSN and GID.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "conform/session.h"

enum {
	TEXT_LEN = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1, /* with its zero */
	CONNECT_MS = 15000,			   /* until the next server runs */
	AGAIN_MS = 5,
	QKEY = 0x11111111, /* of UD */
	BURST_MS = 50,	   /* for the answers to a burst */
	QUIET_MS = 10,	   /* behind answers: no more will come */
	BURST = 64,	   /* SENDs, to let a server without acknowledgements come to its end */
	TIMEOUT = 14,
	RETRIES = 7,
	RNR_TIMER = 12,
};

/** What a pingpong program tells of its queue pair. */
struct told {
	unsigned qpn, psn;
	struct rocemu_gid gid;
};

static bool read_told(const char *text, struct told *t)
{
	unsigned lid, byte;
	int at = 0;

	if (sscanf(text, "%4x:%6x:%6x:%n", &lid, &t->qpn, &t->psn, &at) != 3 ||
	    strlen(text + at) != 2 * sizeof(t->gid.raw))
		return false;
	for (unsigned i = 0; i < sizeof(t->gid.raw); i++) {
		if (sscanf(text + at + 2 * i, "%2x", &byte) != 1)
			return false;
		t->gid.raw[i] = (uint8_t)byte;
	}
	return true;
}

static int exchange(int fd, const struct told *own, struct told *other)
{
	char text[TEXT_LEN];
	int n = snprintf(text, sizeof(text), "%04x:%06x:%06x:", 0, own->qpn, own->psn), error;

	for (unsigned i = 0; i < sizeof(own->gid.raw); i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", own->gid.raw[i]);
	if (write(fd, text, sizeof(text)) != (ssize_t)sizeof(text))
		return -EPIPE;
	error = tcp_read(fd, text, sizeof(text));
	if (error)
		return error;
	text[TEXT_LEN - 1] = 0;
	if (write(fd, "done", sizeof("done")) != (ssize_t)sizeof("done"))
		return -EPIPE;
	return read_told(text, other) ? 0 : -EPROTO;
}

/* ---- a server's begin ---- */

/** The session's connection to a server that has not begun. */
static int take_connection(struct conform_session *s, enum scenario_peer_program kind)
{
	const int fd = s->tcp;

	s->tcp = -1;
	if (fd >= 0 && s->tcp_kind == kind)
		return fd;
	if (fd >= 0)
		close(fd);
	return tcp_connect(&s->o.target, s->o.port[kind]);
}

bool pingpong_there(struct conform_session *s, enum scenario_peer_program kind, char *why,
		    size_t size)
{
	const int fd = take_connection(s, kind);

	if (fd < 0) {
		snprintf(why, size, "TCP port %u: %s", s->o.port[kind], strerror(-fd));
		return false;
	}
	s->tcp = fd;
	s->tcp_kind = kind;
	return true;
}

static void take_attributes(struct conform_world *w, const struct told *own,
			    const struct told *other)
{
	struct scenario_setup *u = &w->setup;

	u->mtu = w->s->o.mtu;
	u->timeout = TIMEOUT;
	u->retry_cnt = u->rnr_retry = RETRIES;
	u->min_rnr_timer = RNR_TIMER;
	u->qkey = QKEY;
	u->sq_psn = other->psn & ROCEMU_PSN_MASK;
	u->rq_psn = own->psn;
	w->peer.device_qpn = other->qpn & ROCEMU_QPN_MASK;
	w->peer.device_gid = other->gid;
}

static bool waits_for_next(int error)
{
	return error == -ECONNREFUSED || error == -ECONNRESET || error == -EPIPE;
}

int pingpong_connect(struct conform_world *w)
{
	const uint64_t until = conform_now() + CONNECT_MS * (uint64_t)NS_PER_MS;
	const struct told own = {w->peer.qpn, w->setup.rq_psn, w->peer.gid};
	struct told other;
	int error;

	do {
		const int fd = take_connection(w->s, w->s->kind);

		error = fd < 0 ? fd : exchange(fd, &own, &other);
		if (fd >= 0)
			close(fd);
		if (waits_for_next(error))
			poll(NULL, 0, AGAIN_MS);
	} while (waits_for_next(error) && conform_now() < until);
	if (!error)
		take_attributes(w, &own, &other);
	return error;
}

/* ---- its end ---- */

/** Is the next server there? */
static bool next_is_there(struct conform_session *s)
{
	const int fd = tcp_connect(&s->o.target, s->o.port[s->kind]);

	if (fd < 0)
		return false;
	s->tcp = fd;
	s->tcp_kind = s->kind;
	return true;
}

static void send_one(struct conform_world *w, uint8_t opcode, uint32_t psn)
{
	struct scenario_packet p = {.h = {.opcode = opcode, .psn = psn, .reth.length = 1},
				    .given = 1u << SCENARIO_PACKET_DMALEN,
				    .len = opcode != ROCEMU_RC_READ_REQUEST};

	conform_send(w, &p);
}

/** Wait for an answer, and log what comes. *messages: plus those that ended. @return how many
 * packets came. */
static unsigned look(struct conform_world *w, unsigned ms, unsigned *messages)
{
	const char *came;
	unsigned n = 0;

	tcp_ready(wire_fd(w->s->wire), POLLIN, ms);
	for (; (came = conform_next(w)); n++) {
		*messages +=
			strncmp(came, "SEND_LAST", 9) == 0 || strncmp(came, "SEND_ONLY", 9) == 0;
		if (w->s->o.log)
			fprintf(w->s->o.log, "      end > %s\n", came);
	}
	return n;
}

/**
 * SENDs without acknowledgements. More before the server has answered would only keep it from that;
 * of some that came together it answers one.
 */
static uint32_t send_burst(struct conform_world *w, uint32_t psn)
{
	const uint64_t until = conform_now() + BURST_MS * (uint64_t)NS_PER_MS;
	const bool uc = w->setup.type == IBV_QPT_UC;
	unsigned messages = 0;
	bool any = false;

	for (unsigned i = 0; i < BURST; i++)
		send_one(w, uc ? ROCEMU_UC_SEND_ONLY : ROCEMU_UD_SEND_ONLY, psn++);
	while (messages < BURST && conform_now() < until) {
		const unsigned came = look(w, QUIET_MS, &messages);

		if (!came && any)
			break;
		any |= came;
	}
	return psn;
}

/**
 * RC: a READ that its queue pair has no right to, at the PSN that it expects. Without an answer
 * that was another one: that for a SEND names it, be it a duplicate or ahead. It is sent even if
 * the next server is there at once, as one process may serve all: what is not acknowledged would
 * still come in the next run. UC and UD: the server ends after its number of messages.
 */
void pingpong_end(struct conform_world *w)
{
	const uint64_t until = conform_now() + CONNECT_MS * (uint64_t)NS_PER_MS;
	const bool rc = w->setup.type == IBV_QPT_RC;
	uint32_t psn = w->ahead;
	unsigned messages = 0;

	w->answers = true;
	for (unsigned tries = 0; (rc && !tries) || (!next_is_there(w->s) && conform_now() < until);
	     tries++) {
		if (rc) {
			if (tries % 2) {
				send_one(w, ROCEMU_RC_SEND_ONLY, w->ahead);
				look(w, AGAIN_MS, &messages);
			}
			send_one(w, ROCEMU_RC_READ_REQUEST, w->ahead);
			look(w, AGAIN_MS, &messages);
			continue;
		}
		psn = send_burst(w, psn);
	}
}
