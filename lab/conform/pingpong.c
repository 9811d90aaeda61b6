/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The servers ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong. Each serves one connection and
 * ends, so they run in a loop at the device. Queue pairs are exchanged by TCP as text: LID, QPN,
 * PSN and GID.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "conform/session.h"

enum {
	TEXT_LEN = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1, /* with its zero */
	CONNECT_MS = 15000,			   /* until the next server runs */
	AGAIN_MS = 5,
	EXCHANGE_MS = 5000,
	QKEY = 0x11111111, /* of UD */
	BURST = 64,	   /* SENDs, to let a server without acknowledgements come to its end */
	TIMEOUT = 14,
	RETRIES = 7,
	RNR_TIMER = 12,
};

/* ---- TCP ---- */

static socklen_t tcp_address(const struct rocemu_gid *gid, uint16_t port,
			     struct sockaddr_storage *to)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
	struct sockaddr_in *four = (struct sockaddr_in *)to;

	memset(to, 0, sizeof(*to));
	if (rocemu_gid_is_ipv4(gid)) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		memcpy(&four->sin_addr, gid->raw + 12, sizeof(four->sin_addr));
		return sizeof(*four);
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	memcpy(&six->sin6_addr, gid->raw, sizeof(six->sin6_addr));
	return sizeof(*six);
}

/** Wait until fd is ready for events. */
static int ready(int fd, short events, unsigned ms)
{
	struct pollfd p = {.fd = fd, .events = events};
	const int n = poll(&p, 1, (int)ms);

	return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

/** One try. @return a socket or a negative errno value. */
static int try_connect(const struct rocemu_gid *gid, uint16_t port)
{
	struct sockaddr_storage to;
	const socklen_t len = tcp_address(gid, port, &to);
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;
	socklen_t size = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, len) < 0)
		error = -errno;
	if (error == -EINPROGRESS) {
		error = ready(fd, POLLOUT, EXCHANGE_MS);
		if (!error && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
			error = -error;
	}
	if (!error)
		return fd;
	close(fd);
	return error;
}

static int read_all(int fd, char *to, size_t len)
{
	while (len) {
		int error = ready(fd, POLLIN, EXCHANGE_MS);
		ssize_t n = error ? 0 : read(fd, to, len);

		if (error || n < 0)
			return error ? error : -errno;
		if (n == 0)
			return -ECONNRESET;
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

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
	error = read_all(fd, text, sizeof(text));
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
	return try_connect(&s->o.target, s->o.port[kind]);
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
		const int fd = take_connection(w->s, w->s->c->about.peer);

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
	const int fd = try_connect(&s->o.target, s->o.port[s->c->about.peer]);

	if (fd < 0)
		return false;
	s->tcp = fd;
	s->tcp_kind = s->c->about.peer;
	return true;
}

static void send_one(struct conform_world *w, uint8_t opcode, uint32_t psn)
{
	const bool read = opcode == ROCEMU_RC_READ_REQUEST;
	struct scenario_packet p = {
		.h = {.opcode = opcode, .psn = psn, .ackreq = read, .reth.length = 1},
		.given = 1u << SCENARIO_PACKET_ACKREQ | 1u << SCENARIO_PACKET_DMALEN,
		.len = !read};

	conform_send(w, &p);
}

/**
 * RC: a READ that its queue pair has no right to, at the PSN that it expects. The NAK that names
 * this PSN comes for one that is ahead. UC and UD: the server ends after its number of messages.
 */
void pingpong_end(struct conform_world *w)
{
	const uint64_t until = conform_now() + CONNECT_MS * (uint64_t)NS_PER_MS;
	const bool rc = w->setup.type == IBV_QPT_RC;
	uint32_t psn = w->ahead;

	w->answers = true;
	while (!next_is_there(w->s) && conform_now() < until) {
		if (rc) {
			send_one(w, ROCEMU_RC_READ_REQUEST, psn);
			ready(wire_fd(w->s->wire), POLLIN, AGAIN_MS);
		} else {
			for (unsigned i = 0; i < BURST; i++)
				send_one(w,
					 w->setup.type == IBV_QPT_UC ? ROCEMU_UC_SEND_ONLY
								     : ROCEMU_UD_SEND_ONLY,
					 psn++);
			poll(NULL, 0, 1);
		}
		for (const char *came; (came = conform_next(w));)
			if (w->s->o.log)
				fprintf(w->s->o.log, "      end > %s\n", came);
		psn = rc ? w->ahead : psn;
	}
}
