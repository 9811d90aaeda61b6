/* SPDX-License-Identifier: BSD-2-Clause */
/* What no client does, ends of clients, and frames: fuzz-users.c. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/client-gsi.h"
#include "agent/gsi-frame.h"
#include "agent/gsi-mad.h"
#include "agent/quota.h"
#include "base/util.h"
#include "fuzz-users.h"
#include "gsi-peer.h"
#include "test.h"
#include "users.h"

enum {
	EXIT_CODE_MAX = 14, /* of the time between exit MADs: 67 ms */
	FLOOD_EXITS = 17000,
	FRAMES_MAX = 60, /* so many are read at once */
	FDS_MAX = 5,
	MUTE = 600, /* more than wait in a socket */
};

/* ---- messages that are none ---- */

static struct agent_msg random_message(void)
{
	struct agent_msg m = {.type = (enum agent_msg_type)(1 + below(AGENT_GSI_DONE))};
	uint8_t *u = (uint8_t *)&m.u;

	for (unsigned i = 0; i < sizeof(m.u); i++)
		u[i] = (uint8_t)(one_in(2) ? below(4) : below(256));
	return m;
}

/* Kinds and places out of range, wrong lengths, types, versions; descriptors beside them. */
static void send_garbage(int fd)
{
	const struct agent_msg m = random_message();
	uint8_t buf[2 * AGENT_MSG_MAX] = {0};
	size_t len = agent_msg_encode(&m, buf);
	const unsigned nfds = one_in(3) ? 1 + below(FDS_MAX) : 0;
	int fds[FDS_MAX];

	for (unsigned i = 0; i < nfds; i++)
		fds[i] = fz.wire;
	if (one_in(3))
		buf[below(8)] ^= (uint8_t)(1u << below(8));
	if (one_in(3))
		len = one_in(2) ? below((unsigned)len) : len + 1 + below(AGENT_MSG_MAX);
	if (one_in(6))
		len = 0;
	(void)agent_fds_send(fd, buf, len, fds, nfds, MSG_DONTWAIT);
}

/* All answers until the agent has hung up. A place may have been given: for a moment. */
static void read_to_end(const struct party *p)
{
	struct agent_msg a;
	int r;

	while ((r = agent_msg_recv(p->fd, &a, 0)) == 0) {
		if (a.type == AGENT_WELCOME)
			fz.m.owner[a.u.welcome.kind][a.u.welcome.place] = (uint8_t)(p->user + 1);
		agent_msg_close_fds(&a);
	}
	if (r != -ECONNRESET)
		wrong("the agent does not hang up: %s", strerror(-r));
}

static void act_garbage(void)
{
	struct party *p = act_placeless();

	if (!p)
		return;
	note("user %u: garbage", p->user);
	for (unsigned i = 1 + below(3); i; i--)
		send_garbage(p->fd);
	shutdown(p->fd, SHUT_WR);
	read_to_end(p);
	act_hung_up(p);
}

/* A client that has a place, or none, sends what it may not. */
static void act_out_of_order(void)
{
	struct party *p = act_pick(PLACELESS | LANE | GSI | HERE);
	struct agent_msg m = {.type = AGENT_HELLO}, a;
	int r;

	if (!p)
		return;
	note("user %u: a message out of order", p->user);
	if (!p->place)
		m.type = one_in(2) ? AGENT_SOCKET : AGENT_GSI_BIND;
	else if (one_in(2))
		m.type = p->kind == AGENT_LANE ? AGENT_GSI_LISTEN : AGENT_SOCKET;
	else if (one_in(2))
		m = (struct agent_msg){.type = AGENT_REJOIN, .u.rejoin = {p->kind, p->place, 7}};
	r = request(p->fd, &m, &a);
	if (r != -ECONNRESET)
		wrong("message %u is answered: %d", m.type, r);
	act_hung_up(p);
}

/* Requests without reading the answers: the agent may hang up. */
static void act_mute(void)
{
	const struct agent_msg m = {.type = AGENT_STATUS};
	struct party *p = act_pick(LANE | GSI | PLACELESS | HERE);
	unsigned sent = 0, got = 0;
	struct agent_msg a;

	if (!p)
		return;
	note("user %u: does not read", p->user);
	while (sent < MUTE && !agent_msg_send(p->fd, &m, 0))
		sent++;
	while (got < sent && !agent_msg_recv(p->fd, &a, 0)) {
		agent_msg_close_fds(&a);
		got++;
	}
	if (got < sent || sent < MUTE)
		act_hung_up(p);
}

/* ---- ends ---- */

/* In parts: a connection, a token, frames. */
static void act_leave(void)
{
	struct party *p = act_pick(LANE | GSI | PLACELESS);
	const unsigned how = below(8);

	if (!p)
		return;
	note("user %u: kind %u place %u leaves (%u)", p->user, p->kind, p->place, how);
	if (how == 0 && p->fd >= 0) {
		shutdown(p->fd, SHUT_WR);
		read_to_end(p);
		act_hung_up(p);
	} else if (how == 1 && p->fd >= 0 && p->place) {
		act_hung_up(p);
	} else if (how == 2 && p->frames >= 0) {
		close(p->frames);
		p->frames = -1;
		read_to_end(p);
		act_hung_up(p);
	} else if (how == 3 && p->token >= 0 && p->fd >= 0 && !p->nports && !p->nexits) {
		close(p->token);
		/* A copy of a socket would keep its port: docs/security.md. */
		if (p->data >= 0)
			close(p->data);
		p->token = p->data = -1;
		p->held = false;
	} else {
		act_gone(p);
	}
}

/* keep: in order; -1 is none. */
static void close_but(const int *keep, unsigned n)
{
	unsigned from = 3;

	for (unsigned i = 0; i < n; i++)
		if (keep[i] >= 0) {
			if ((unsigned)keep[i] > from)
				close_range(from, (unsigned)keep[i] - 1, 0);
			from = (unsigned)keep[i] + 1;
		}
	close_range(from, ~0u, 0);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Another process has all of a client's. One that has it already is killed. */
static void act_keeper(void)
{
	struct party *p = act_pick(LANE | GSI | TOKEN);
	int keep[] = {p ? p->fd : -1, p ? p->token : -1, p ? p->frames : -1, 0}, pair[2];
	char byte;

	for (unsigned i = 0; i < fz.m.n; i++)
		if (fz.m.all[i]->keeper && one_in(2)) {
			note("user %u's process with place %u is killed", fz.m.all[i]->user,
			     fz.m.all[i]->place);
			act_gone(fz.m.all[i]);
			return;
		}
	if (!p)
		return;
	note("user %u: another process has place %u", p->user, p->place);
	assert_int_equal(pipe(pair), 0);
	keep[3] = pair[1];
	qsort(keep, ARRAY_LEN(keep), sizeof(keep[0]), compare);
	p->keeper = fork();
	assert_true(p->keeper >= 0);
	if (p->keeper == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_but(keep, ARRAY_LEN(keep));
		while (write(pair[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	/* It has closed the others' tokens. */
	assert_int_equal(read(pair[0], &byte, 1), 1);
	close(pair[0]);
	for (unsigned i = 0; i < ARRAY_LEN(keep); i++)
		if (keep[i] >= 0)
			close(keep[i]);
	p->fd = p->token = p->frames = -1;
}

/* ---- frames ---- */

static bool any_addr(const struct party *p, struct rocemu_gid *gid)
{
	const unsigned first = below(MODEL_ADDRS);

	for (unsigned i = 0; i < MODEL_ADDRS; i++) {
		const unsigned a = (first + i) % MODEL_ADDRS;

		if (p->addrs[a / 64] >> a % 64 & 1) {
			*gid = act_addr_of(a);
			return true;
		}
	}
	return false;
}

static void send_frame(struct party *p, const struct gsi_frame *f, size_t len)
{
	(void)send(p->frames, f, len, MSG_NOSIGNAL);
}

static struct gsi_frame frame_of(enum gsi_frame_type type, uint32_t id, const struct gsi_mail *mail)
{
	struct gsi_frame f = {.magic = GSI_FRAME_MAGIC,
			      .type = (uint8_t)type,
			      .comm_id = id,
			      .cm_timeout = (uint8_t)below(EXIT_CODE_MAX + 1),
			      .retries = (uint8_t)below(3),
			      .m = {.src = mail->src, .dst = mail->dst}};

	(void)rocemu_cm_encode(&mail->m, f.m.mad);
	return f;
}

static void send_exit(struct party *p, const struct rocemu_gid *src, uint16_t number, uint32_t n)
{
	const struct rocemu_gid nobody = gid_v4(127, 200, 0, 1), busy = act_addr_of(0);
	const uint32_t id = agent_comm_id(number, n);
	const struct gsi_mail mail = mail_ids(src, one_in(8) ? &busy : &nobody,
					      one_in(4) ? ROCEMU_CM_REJ : ROCEMU_CM_DREQ,
					      one_in(16) ? agent_comm_id(p->place, n) : id, 77);
	const struct gsi_frame f = frame_of(GSI_FRAME_EXIT_SET, id, &mail);

	send_frame(p, &f, sizeof(f));
}

/* What the agent has after a flood is known as a limit only when the user's quota is near. */
static void set_exits(struct party *p, const struct rocemu_gid *src, unsigned n)
{
	const unsigned user = p->user;
	const bool near =
		model_exits(&fz.m, user) + n + fz.m.lingering_most[user] > QUOTA_EXIT_MADS_MAX ||
		p->nexits + n > AGENT_GSI_EXITS_MAX;

	for (unsigned i = 1; i <= n; i++)
		send_exit(p, src, p->place, p->nexits + i);
	p->nexits = MIN(p->nexits + n, (unsigned)AGENT_GSI_EXITS_MAX);
	p->vague |= near;
}

static void clear_exit(struct party *p, uint16_t number, uint32_t n)
{
	const struct gsi_mail mail = {0};
	const struct gsi_frame f = frame_of(GSI_FRAME_EXIT_CLEAR, agent_comm_id(number, n), &mail);

	send_frame(p, &f, sizeof(f));
}

/* By each client of the user's that may. */
static void flood_exits(unsigned user)
{
	struct rocemu_gid src;

	note("user %u: as many exit MADs as it may have, and more", user);
	for (unsigned i = 0, n = 0; i < fz.m.n && n < 3; i++) {
		struct party *p = fz.m.all[i];

		if (p->user != user || !p->conn || p->kind != AGENT_GSI || p->frames < 0 ||
		    party_is_tokenless(p) || p->vague || !any_addr(p, &src))
			continue;
		set_exits(p, &src, FLOOD_EXITS);
		n++;
	}
}

static void act_exits(void)
{
	struct party *p = act_pick(GSI | HERE);
	unsigned n = 1 + below(3);
	struct rocemu_gid src;

	if (!p || p->vague || party_is_tokenless(p) || p->frames < 0 || !any_addr(p, &src))
		return;
	note("user %u: number %u sets %u exit MADs", p->user, p->place, n);
	if (one_in(12))
		flood_exits(p->user);
	else if (p->nexits && one_in(3))
		clear_exit(p, p->place, p->nexits--);
	else if (p->nexits && one_in(2))
		send_exit(p, &src, p->place, 1 + below(p->nexits));
	else
		set_exits(p, &src, n);
}

/* Of others' connections, or of addresses that it has not. */
static void act_forged_frames(void)
{
	struct party *p = act_pick(GSI | HERE), *victim = act_pick(GSI);
	struct rocemu_gid src;

	if (!p || p->frames < 0 || p == victim)
		return;
	note("user %u: number %u forges frames of number %u", p->user, p->place, victim->place);
	if (!any_addr(victim, &src))
		src = act_addr_of(below(BUSY_ADDRS));
	if (one_in(2))
		clear_exit(p, victim->place, 1 + below(victim->nexits + 1));
	else
		send_exit(p, &src, victim->place, 1 + below(victim->nexits + 1));
}

static void act_garbage_frames(void)
{
	struct party *p = act_pick(GSI | HERE);
	struct gsi_frame f;
	uint8_t *bytes = (uint8_t *)&f;

	if (!p || p->frames < 0)
		return;
	note("user %u: number %u sends garbage frames", p->user, p->place);
	for (unsigned i = 0; i < sizeof(f); i++)
		bytes[i] = (uint8_t)below(256);
	if (one_in(2))
		f.magic = GSI_FRAME_MAGIC;
	f.type = one_in(2) ? GSI_FRAME_SENT : (uint8_t)(6 + below(200));
	send_frame(p, &f, one_in(2) ? sizeof(f) : 1 + below(sizeof(f) - 1));
}

/* A new one, or a repeated one. */
static struct gsi_mail random_req(const struct rocemu_gid *src, const struct rocemu_gid *dst,
				  uint32_t id)
{
	const unsigned service = below(SERVICES);
	struct gsi_mail mail = mail_req(src, dst, id, act_service(service));

	mail.m.tid ^= (uint64_t)service << 56;
	return mail;
}

/* Requests to those that listen, and messages to connections. */
static void act_mads(void)
{
	struct party *p = act_pick(GSI | HERE);
	const struct party *to = act_pick(GSI);
	const struct rocemu_gid dst = act_addr_of(below(BUSY_ADDRS));
	const unsigned n = one_in(20) ? 3000 : 1 + below(3);
	struct rocemu_gid src;

	if (!p || p->frames < 0 || !any_addr(p, &src))
		return;
	note("user %u: number %u sends %u MADs", p->user, p->place, n);
	for (unsigned i = 0; i < n; i++) {
		const uint32_t id = agent_comm_id(p->place, n > 3 ? i : below(4));
		struct gsi_mail mail = random_req(&src, &dst, id);
		struct gsi_frame f;

		if (one_in(3))
			mail = mail_ids(&src, &dst, ROCEMU_CM_REP, id, agent_comm_id(to->place, 1));
		f = frame_of(GSI_FRAME_MAD, 0, &mail);
		f.cm_timeout = f.retries = 0;
		f.echo = one_in(2);
		send_frame(p, &f, sizeof(f));
	}
}

/* From the network. */
static void act_packets(void)
{
	const struct rocemu_gid src = gid_v4(127, 77, 0, 9), dst = act_addr_of(below(BUSY_ADDRS));
	struct gsi_mail mail = random_req(&src, &dst, 1 + below(4));
	uint8_t bytes[GSI_PACKET_LEN];

	note("packets from the network");
	/* Without an agent there it is lost. */
	if (one_in(2)) {
		mail.sport = AGENT_PORT;
		mail_seal(&mail);
		memcpy(bytes, mail.bytes, sizeof(bytes));
	} else {
		for (unsigned i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)below(256);
		bytes[5] = bytes[6] = 0;
	}
	wire_send_bytes(fz.wire, &dst, bytes, sizeof(bytes));
}

/* A request is for one that the user of the client has had; others are for the client's number. */
static void check_frame(const struct party *p, const struct gsi_frame *f)
{
	struct rocemu_cm_msg m;
	uint64_t service_id;

	if (f->type != GSI_FRAME_MAD || rocemu_cm_decode(&m, f->m.mad, sizeof(f->m.mad)))
		return;
	if (!gsi_mad_service(&m, &service_id)) {
		const uint32_t to = gsi_mad_receiver_id(&m);

		if (to && to >> AGENT_GSI_ID_BITS != p->place)
			wrong("number %u gets a message for number %u", p->place,
			      to >> AGENT_GSI_ID_BITS);
		return;
	}
	for (unsigned i = 0; i < SERVICES; i++)
		if (act_service(i) == service_id && !(p->listened >> i & 1))
			wrong("number %u of user %u gets a request for a service that it never had",
			      p->place, p->user);
}

static void act_read(void)
{
	struct party *p = act_pick(GSI | HERE);
	struct gsi_frame f;

	if (!p || p->frames < 0)
		return;
	note("user %u: number %u reads its frames", p->user, p->place);
	while (recv(p->frames, &f, sizeof(f), MSG_DONTWAIT) == sizeof(f))
		check_frame(p, &f);
}

const struct act acts_mess[] = {
	{6, act_garbage}, {2, act_out_of_order}, {1, act_mute},		 {10, act_leave},
	{4, act_keeper},  {8, act_exits},	 {4, act_forged_frames}, {3, act_garbage_frames},
	{8, act_mads},	  {4, act_packets},	 {6, act_read},		 {0, NULL},
};
