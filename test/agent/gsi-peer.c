/* SPDX-License-Identifier: BSD-2-Clause */
#include "gsi-peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/gsi-mad.h"
#include "agent/socket.h"
#include "peer.h"
#include "test.h"

struct command {
	char what;
	uint8_t cm_timeout, retries;
	bool echo;
	uint32_t id; /* key or communication ID */
	struct rocemu_gid addr;
	struct agent_gsi_bind bind;
	struct gsi_mad mad;
};

struct reply {
	int r;
	uint32_t value;
	struct agent_gsi_bind bind;
	struct gsi_mad mad;
	char text[AGENT_TEXT_MAX];
};

/* As the library does: what finds no agent looks for the next one. */
static int recv_or_join(struct agent_gsi *c, struct gsi_frame *f, char text[static AGENT_TEXT_MAX])
{
	int r = agent_gsi_recv(c, f);

	if (r != -ENOTCONN)
		return r;
	r = agent_gsi_join(c, text);
	return r == 1 ? GSI_PEER_LOST_PORT : r;
}

static int do_recv(struct agent_gsi *c, bool wait, struct reply *re)
{
	struct gsi_frame f;
	int r = recv_or_join(c, &f, re->text);

	while (r == 0 && wait) {
		struct pollfd pfd = {.fd = agent_gsi_fd(c), .events = POLLIN};

		if (poll(&pfd, 1, PATIENCE_MS) != 1)
			break;
		r = recv_or_join(c, &f, re->text);
	}
	if (r == 1 && f.type == GSI_FRAME_UNREACHABLE)
		return GSI_PEER_UNREACHABLE + f.error;
	if (r == 1)
		re->mad = f.m;
	return r;
}

/* What a child's call returns. */
static int fork_and_call(struct agent_gsi *c)
{
	struct gsi_frame f;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int r = agent_gsi_recv(c, &f);
		bool ours = agent_gsi_is_ours(c);

		agent_gsi_free(c);
		_exit(ours ? 1 : -r);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -1;
}

/* The child runs until the test closes ctl. */
static int fork_and_forget(struct agent_gsi *c, int ctl)
{
	struct pollfd pfd = {.fd = ctl};
	int done[2];
	char byte;
	pid_t pid;

	if (pipe2(done, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0) {
		agent_gsi_forget(c);
		agent_gsi_free(c);
		if (write(done[1], "", 1) == 1)
			poll(&pfd, 1, -1);
		_exit(0);
	}
	close(done[1]);
	if (read(done[0], &byte, 1) != 1)
		pid = -1;
	close(done[0]);
	return (int)pid;
}

static void obey(struct agent_gsi **c, const struct command *cmd, struct reply *re, int ctl)
{
	struct agent_exit_mad exit_mad = {
		.mad = cmd->mad, .cm_timeout = cmd->cm_timeout, .retries = cmd->retries};

	re->bind = cmd->bind;
	switch (cmd->what) {
	case 'j':
		re->r = agent_gsi_new(c, re->text);
		re->value = re->r ? 0 : agent_gsi_number(*c);
		return;
	case 'o':
		re->r = agent_gsi_open(*c, &cmd->addr, 0, re->text);
		break;
	case 'b':
		re->r = agent_gsi_bind(*c, &re->bind, &re->value, re->text);
		break;
	case 'l':
		re->r = agent_gsi_listen(*c, cmd->id, re->text);
		break;
	case 'u':
		re->r = agent_gsi_unbind(*c, cmd->id);
		break;
	case 's':
		re->r = agent_gsi_send(*c, &cmd->mad, cmd->echo);
		break;
	case 'w':
		re->r = agent_gsi_exit_set(*c, cmd->id, &exit_mad);
		break;
	case 'c':
		re->r = agent_gsi_exit_clear(*c, cmd->id);
		break;
	case 'r':
	case 'R':
		re->r = do_recv(*c, cmd->what == 'r', re);
		break;
	case 'f':
		re->r = fork_and_call(*c);
		break;
	case 'F':
		re->r = fork_and_forget(*c, ctl);
		break;
	case 'q':
		agent_gsi_free(*c);
		_exit(0);
	default:
		_exit(3);
	}
}

/* The client process: obey until the other end of ctl is closed. */
static void peer_main(int ctl)
{
	struct agent_gsi *c = NULL;
	struct command cmd;

	while (read(ctl, &cmd, sizeof(cmd)) == sizeof(cmd)) {
		struct reply re = {0};

		obey(&c, &cmd, &re, ctl);
		if (write(ctl, &re, sizeof(re)) != sizeof(re))
			break;
	}
}

static void peer_send(struct gsi_peer *p, const struct command *cmd)
{
	assert_int_equal(write(p->process.ctl, cmd, sizeof(*cmd)), sizeof(*cmd));
}

static struct reply peer_reply_of(struct gsi_peer *p)
{
	struct pollfd pfd = {.fd = p->process.ctl, .events = POLLIN};
	struct reply re;

	assert_int_equal(poll(&pfd, 1, 3 * PATIENCE_MS), 1);
	assert_int_equal(read(p->process.ctl, &re, sizeof(re)), sizeof(re));
	memcpy(p->text, re.text, sizeof(p->text));
	return re;
}

static struct reply peer_do(struct gsi_peer *p, const struct command *cmd)
{
	peer_send(p, cmd);
	return peer_reply_of(p);
}

struct gsi_peer gsi_peer_start_as(uid_t uid, int *r)
{
	struct gsi_peer p = {.process = peer_spawn(uid, peer_main)};
	struct reply re;

	re = peer_do(&p, &(struct command){.what = 'j'});
	*r = re.r;
	p.number = (uint16_t)re.value;
	return p;
}

struct gsi_peer gsi_peer_start(void)
{
	struct gsi_peer p;
	int r;

	p = gsi_peer_start_as(0, &r);
	if (r)
		fail_msg("cannot join: %s", p.text);
	return p;
}

struct gsi_peer gsi_peer_start_at(const struct rocemu_gid *addr)
{
	struct gsi_peer p = gsi_peer_start();

	if (gsi_peer_open(&p, addr))
		fail_msg("cannot open QP 1: %s", p.text);
	return p;
}

void gsi_peer_kill(struct gsi_peer *p)
{
	peer_kill(&p->process);
}

void gsi_peer_leave(struct gsi_peer *p)
{
	struct command cmd = {.what = 'q'};

	assert_int_equal(write(p->process.ctl, &cmd, sizeof(cmd)), sizeof(cmd));
	wait_gone(p->process.pid);
	assert_int_equal(waitpid(p->process.pid, NULL, 0), p->process.pid);
	close(p->process.ctl);
}

int gsi_peer_open(struct gsi_peer *p, const struct rocemu_gid *addr)
{
	return peer_do(p, &(struct command){.what = 'o', .addr = *addr}).r;
}

int gsi_peer_bind(struct gsi_peer *p, struct agent_gsi_bind *b, uint32_t *key)
{
	struct reply re = peer_do(p, &(struct command){.what = 'b', .bind = *b});

	*b = re.bind;
	*key = re.value;
	return re.r;
}

int gsi_peer_listen(struct gsi_peer *p, uint32_t key)
{
	return peer_do(p, &(struct command){.what = 'l', .id = key}).r;
}

int gsi_peer_unbind(struct gsi_peer *p, uint32_t key)
{
	return peer_do(p, &(struct command){.what = 'u', .id = key}).r;
}

uint32_t gsi_peer_listen_on(struct gsi_peer *p, uint64_t service_id, const struct rocemu_gid *addr)
{
	struct agent_gsi_bind b = {.service_id = service_id, .addr = *addr};
	uint32_t key;

	if (gsi_peer_bind(p, &b, &key) || gsi_peer_listen(p, key))
		fail_msg("cannot listen: %s", p->text);
	return key;
}

int gsi_peer_send_mad(struct gsi_peer *p, const struct gsi_mail *mail)
{
	return peer_do(p, &(struct command){.what = 's', .mad = mail->mad, .echo = mail->echo}).r;
}

int gsi_peer_send(struct gsi_peer *p, const struct gsi_mail *mail)
{
	struct gsi_mail sealed = *mail;

	mail_seal(&sealed);
	return gsi_peer_send_mad(p, &sealed);
}

int gsi_peer_set_exit(struct gsi_peer *p, uint32_t comm_id, const struct gsi_mail *mail,
		      uint8_t cm_timeout, uint8_t retries)
{
	struct gsi_mail sealed = *mail;

	mail_seal(&sealed);
	return peer_do(p, &(struct command){.what = 'w',
					    .id = comm_id,
					    .cm_timeout = cm_timeout,
					    .retries = retries,
					    .mad = sealed.mad})
		.r;
}

int gsi_peer_clear_exit(struct gsi_peer *p, uint32_t comm_id)
{
	return peer_do(p, &(struct command){.what = 'c', .id = comm_id}).r;
}

static void from_mad(struct gsi_mail *mail)
{
	assert_int_equal(rocemu_cm_decode(&mail->m, mail->mad.mad, ROCEMU_MAD_LEN), 0);
	mail->src = mail->mad.src;
	mail->dst = mail->mad.dst;
	mail->sport = mail->mad.sport;
	mail->tclass = mail->mad.tclass;
	mail->hop_limit = mail->mad.hop_limit;
}

static int take_mail(const struct reply *re, struct gsi_mail *mail)
{
	if (re->r != 1)
		return re->r;
	mail->mad = re->mad;
	from_mad(mail);
	return 1;
}

int gsi_peer_recv(struct gsi_peer *p, struct gsi_mail *mail)
{
	struct reply re = peer_do(p, &(struct command){.what = 'r'});

	return take_mail(&re, mail);
}

void gsi_peer_send_recv_now(struct gsi_peer *p)
{
	peer_send(p, &(struct command){.what = 'R'});
}

int gsi_peer_reply(struct gsi_peer *p, struct gsi_mail *mail)
{
	struct reply re = peer_reply_of(p);

	return take_mail(&re, mail);
}

int gsi_peer_recv_now(struct gsi_peer *p, struct gsi_mail *mail)
{
	gsi_peer_send_recv_now(p);
	return gsi_peer_reply(p, mail);
}

int gsi_peer_fork_and_call(struct gsi_peer *p)
{
	return peer_do(p, &(struct command){.what = 'f'}).r;
}

int gsi_peer_fork_and_forget(struct gsi_peer *p)
{
	return peer_do(p, &(struct command){.what = 'F'}).r;
}

int wire_open(const struct rocemu_gid *addr)
{
	int fd = data_socket_open(addr, 0, AGENT_PORT);

	assert_true(fd >= 0);
	return fd;
}

void mail_seal(struct gsi_mail *mail)
{
	struct gsi_mad *m = &mail->mad;

	*m = (struct gsi_mad){.src = mail->src,
			      .dst = mail->dst,
			      .sport = mail->sport,
			      .tclass = mail->tclass,
			      .hop_limit = mail->hop_limit};
	(void)rocemu_cm_encode(&mail->m, m->mad);
	gsi_hdr_encode(m, 7);
	gsi_packet_encode(m, mail->bytes);
}

void wire_send_bytes(int fd, const struct rocemu_gid *dst, const uint8_t *data, size_t len)
{
	union addr to;
	socklen_t to_len = addr_from_gid(&to, dst, AGENT_PORT, 0);

	assert_int_equal(sendto(fd, data, len, 0, &to.sa, to_len), len);
}

void wire_send(int fd, const struct gsi_mail *mail)
{
	struct gsi_mail sealed = *mail;

	sealed.sport = AGENT_PORT;
	mail_seal(&sealed);
	wire_send_bytes(fd, &mail->dst, sealed.bytes, sizeof(sealed.bytes));
}

void wire_recv(int fd, const struct rocemu_gid *addr, struct gsi_mail *mail)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	union addr from;
	socklen_t len = sizeof(from);
	ssize_t n;

	assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
	n = recvfrom(fd, mail->bytes, sizeof(mail->bytes), MSG_TRUNC, &from.sa, &len);
	assert_int_equal(n, GSI_PACKET_LEN);
	assert_int_equal(from.sa.sa_family, AF_INET);
	mail->mad = (struct gsi_mad){.src = {.raw = {[10] = 0xff, [11] = 0xff}},
				     .dst = *addr,
				     .sport = ntohs(from.in.sin_port)};
	memcpy(mail->mad.src.raw + 12, &from.in.sin_addr, 4);
	assert_int_equal(gsi_packet_decode(&mail->mad, mail->bytes, (size_t)n), GSI_OK);
	/* A UDP socket that may not fragment sends identification 0; the ICRC covers it. */
	assert_int_equal(mail->mad.ip_id, 0);
	from_mad(mail);
}

void wire_recv_bytes(int fd, uint8_t packet[static GSI_PACKET_LEN])
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
	assert_int_equal(recv(fd, packet, GSI_PACKET_LEN, MSG_TRUNC), GSI_PACKET_LEN);
}

void wire_assert_silent(int fd)
{
	char byte;

	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

uint64_t gsi_counter(enum agent_gsi_counter which)
{
	struct agent_status *st;
	char text[AGENT_TEXT_MAX];
	uint64_t value;

	if (agent_client_status(false, &st, text, sizeof(text)))
		fail_msg("no status: %s", text);
	value = st->agent.counters[which];
	agent_status_free(st);
	return value;
}

uint32_t gsi_queued(uint16_t number)
{
	struct agent_status *st;
	char text[AGENT_TEXT_MAX];
	uint32_t queued = 0;

	if (agent_client_status(false, &st, text, sizeof(text)))
		fail_msg("no status: %s", text);
	for (size_t i = 0; i < st->agent.ngsi_clients; i++)
		if (st->gsi_clients[i].number == number)
			queued = st->gsi_clients[i].queued;
	agent_status_free(st);
	return queued;
}

void gsi_wait_counter(enum agent_gsi_counter which, uint64_t value)
{
	for (unsigned tries = 0; tries < 1000000 && gsi_counter(which) < value; tries++)
		sched_yield();
	assert_true(gsi_counter(which) >= value);
}

struct gsi_mail mail_req(const struct rocemu_gid *src, const struct rocemu_gid *dst, uint32_t id,
			 uint64_t service_id)
{
	return (struct gsi_mail){.src = *src,
				 .dst = *dst,
				 .m = {.attr_id = ROCEMU_CM_REQ,
				       .tid = 0x1234500000000ull | id,
				       .req = {.local_comm_id = id, .service_id = service_id}}};
}

struct gsi_mail mail_sidr_req(const struct rocemu_gid *src, const struct rocemu_gid *dst,
			      uint32_t id, uint64_t service_id)
{
	return (struct gsi_mail){.src = *src,
				 .dst = *dst,
				 .m = {.attr_id = ROCEMU_CM_SIDR_REQ,
				       .tid = 0x1234500000000ull | id,
				       .sidr_req = {.request_id = id, .service_id = service_id}}};
}

struct gsi_mail mail_ids(const struct rocemu_gid *src, const struct rocemu_gid *dst,
			 enum rocemu_cm_attr attr, uint32_t local_id, uint32_t remote_id)
{
	struct gsi_mail mail = {.src = *src, .dst = *dst, .m = {.attr_id = (uint16_t)attr}};

	mail.m.tid = 0x6789a00000000ull | local_id;
	/* Of all these messages the first two members are the IDs. */
	mail.m.rtu.local_comm_id = local_id;
	mail.m.rtu.remote_comm_id = remote_id;
	return mail;
}
