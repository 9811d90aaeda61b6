/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent as a program and as a server of clients that do not behave. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/launch.h"
#include "base/bytes.h"
#include "base/rng.h"
#include "peer.h"
#include "test.h"
#include "user.h"

enum { NOBODY = 65534 };

#define QPN(slot, index) ((uint32_t)(slot) << 14 | (index))

static pid_t exec_agent(const char *const *args)
{
	char *argv[8] = {strdup(AGENT_BIN)};
	pid_t pid;

	for (unsigned i = 0; args[i] && i < 6; i++)
		argv[i + 1] = strdup(args[i]);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Its message does not matter here. */
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(9);
		execv(argv[0], argv);
		_exit(8);
	}
	for (unsigned i = 0; argv[i]; i++)
		free(argv[i]);
	return pid;
}

static int exit_code(pid_t pid)
{
	int status;

	wait_gone(pid);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* @return a connection to it. */
static int wait_up(bool system)
{
	struct agent_instance instance;
	int fd;

	assert_int_equal(agent_instance_init(&instance, system), 0);
	for (unsigned tries = 0; tries < 1000000; tries++) {
		fd = agent_connect(&instance, 1000);
		if (fd >= 0)
			return fd;
		sched_yield();
	}
	fail_msg("the agent does not come up");
	return -1;
}

static int raw_connect(void)
{
	struct agent_instance instance;
	int fd;

	assert_int_equal(agent_instance_init(&instance, false), 0);
	fd = agent_connect(&instance, 10000);
	assert_true(fd >= 0);
	return fd;
}

/* Wait for an answer or the end. @return an answer's errno, 0: another message, -1: the connection
 * has ended. */
static int raw_answer(int fd)
{
	struct agent_msg m;
	int r = agent_msg_recv(fd, &m, 0);

	if (r) {
		assert_int_equal(r, -ECONNRESET);
		return -1;
	}
	agent_msg_close_fds(&m);
	return m.type == AGENT_ERROR ? (int)m.u.error.err : 0;
}

/*
 * How many descriptors the agent has once it has seen all that was done before. It accepts in
 * order, and handles what is ready at the same time in any order; by its second answer, it has
 * handled all that was ready before the first.
 */
static int settled_fds(pid_t pid)
{
	/* The answer brings no descriptor, which the agent would still have for a moment. */
	struct agent_msg m = {.type = AGENT_PEER};
	int fd = raw_connect(), n;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(agent_msg_send(fd, &m, 0), 0);
		assert_int_equal(raw_answer(fd), ENOENT);
	}
	n = count_fds(pid);
	close(fd);
	return n;
}

static struct agent_client *join(void)
{
	struct agent_client *c;
	char text[400];

	if (agent_client_new(&c, text, sizeof(text)))
		fail_msg("%s", text);
	return c;
}

TEST(agent, hostile_bytes__answered_or_cut_off_and_nothing_leaks)
{
	struct agent_msg m = {.type = AGENT_HELLO};
	struct agent_client *c;
	uint8_t buf[8192] = {0}, good[AGENT_MSG_MAX];
	struct agent_msg_header h;
	size_t len = agent_msg_encode(&m, good);
	pid_t pid;
	int before, fd;

	env_enter();
	c = join();
	pid = agent_pid();
	before = settled_fds(pid);
	for (unsigned i = 0; i < 200; i++) {
		size_t n = i < 20 ? i : (i * 41) % sizeof(buf);

		fd = raw_connect();
		if (i % 3)
			memcpy(buf, good, len);
		h = (struct agent_msg_header){.type = AGENT_HELLO, .version = AGENT_VERSION};
		memcpy(&h.magic, good, sizeof(h.magic));
		if (i % 3 == 1)
			h.type = (uint16_t)i;
		if (i == 1)
			n = 0;
		if (i % 3 == 2)
			h.version = (uint16_t)(i + 2);
		if (i % 3)
			memcpy(buf, &h, sizeof(h));
		assert_int_equal(send(fd, buf, n, MSG_NOSIGNAL), n);
		close(fd);
	}
	assert_int_equal(settled_fds(pid), before);
	assert_int_equal(agent_pid(), pid);
	agent_client_free(c);
	env_leave();
}

TEST(agent, other_version__told_so)
{
	struct agent_msg m = {.type = AGENT_HELLO};
	struct agent_client *c;
	uint8_t buf[AGENT_MSG_MAX];
	size_t len = agent_msg_encode(&m, buf);
	struct agent_msg_header h;
	int fd;

	env_enter();
	c = join();
	fd = raw_connect();
	memcpy(&h, buf, sizeof(h));
	h.version = AGENT_VERSION + 1;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(send(fd, buf, len, 0), len);
	assert_int_equal(raw_answer(fd), EPROTO);
	assert_int_equal(raw_answer(fd), -1);
	close(fd);
	agent_client_free(c);
	env_leave();
}

TEST(agent, requests_out_of_order__cut_off)
{
	struct agent_msg hello = {.type = AGENT_HELLO},
			 answer = {.type = AGENT_SOCKET_IS, .nfds = 1};
	struct agent_msg sock = {.type = AGENT_SOCKET, .u.socket.addr = gid_v4(127, 0, 0, 1)};
	struct agent_client *c;
	int fd;

	env_enter();
	c = join();
	fd = raw_connect();
	assert_int_equal(agent_msg_send(fd, &sock, 0), 0);
	assert_int_equal(raw_answer(fd), -1);
	close(fd);

	fd = raw_connect();
	assert_int_equal(agent_msg_send(fd, &hello, 0), 0);
	assert_int_equal(raw_answer(fd), 0);
	assert_int_equal(agent_msg_send(fd, &hello, 0), 0);
	assert_int_equal(raw_answer(fd), -1);
	close(fd);

	fd = raw_connect();
	answer.fds[0] = fd;
	assert_int_equal(agent_msg_send(fd, &answer, 0), 0);
	assert_int_equal(raw_answer(fd), -1);
	close(fd);
	agent_client_free(c);
	env_leave();
}

TEST(agent, descriptors_where_none_belong__refused_and_closed)
{
	struct agent_msg m = {.type = AGENT_HELLO, .nfds = 2};
	struct agent_client *c;
	pid_t pid;
	int before, fd;

	env_enter();
	c = join();
	pid = agent_pid();
	before = settled_fds(pid);
	fd = raw_connect();
	m.fds[0] = m.fds[1] = fd;
	assert_int_equal(agent_msg_send(fd, &m, 0), 0);
	assert_int_equal(raw_answer(fd), EBADMSG);
	assert_int_equal(raw_answer(fd), -1);
	close(fd);
	assert_int_equal(settled_fds(pid), before);
	agent_client_free(c);
	env_leave();
}

TEST(agent, rejoin_without_the_token__refused_and_the_owner_is_not_disturbed)
{
	struct agent_msg m = {.type = AGENT_REJOIN, .u.rejoin = {AGENT_LANE, 1, 0}};
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_client *c;
	int fd, before;
	char text[400];
	pid_t pid;

	env_enter();
	c = join();
	assert_int_equal(agent_client_slot(c), 1);
	for (unsigned round = 0; round < 2; round++) {
		pid = agent_pid();
		before = settled_fds(pid);
		fd = raw_connect();
		for (unsigned i = 0; i < 100; i++) {
			m.u.rejoin.nonce = i * 0x0101010101010101u;
			assert_int_equal(agent_msg_send(fd, &m, 0), 0);
			assert_int_equal(raw_answer(fd), EBADMSG);
		}
		close(fd);
		assert_int_equal(settled_fds(pid), before);
		fd = agent_client_socket(c, &addr, 0, text, sizeof(text));
		assert_true(fd >= 0);
		close(fd);
		/* And by the next worker, which the owner has not met. */
		if (round == 0)
			kill_agent();
	}
	agent_client_free(c);
	env_leave();
}

/* Messages whose form is right and whose contents are random, with and without descriptors. */
static void fill_random(struct agent_msg *m, struct rng *rng, int some_fd)
{
	uint8_t *body = (uint8_t *)&m->u;

	m->type = (enum agent_msg_type)(1 + rng_below(rng, AGENT_GSI_DONE));
	for (size_t i = 0; i < sizeof(m->u); i++)
		/* Mostly small numbers, so that places, kinds and keys are met. */
		body[i] = (uint8_t)(rng_chance(rng, 0.8)
					    ? 0
					    : rng_below(rng, rng_chance(rng, 0.8) ? 4 : 256));
	m->nfds = rng_chance(rng, 0.8) ? 0 : rng_below(rng, AGENT_MSG_FDS + 1);
	for (unsigned i = 0; i < m->nfds; i++)
		m->fds[i] = some_fd;
}

TEST(agent, random_messages__agent_serves_on_and_nothing_leaks)
{
	enum { CONNECTIONS = 300, MESSAGES = 12 };
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_client *c;
	char text[400];
	struct rng rng;
	pid_t pid;
	int before, fd;

	env_enter();
	rng_init(&rng, 12);
	c = join();
	assert_true((fd = agent_client_socket(c, &addr, 0, text, sizeof(text))) >= 0);
	close(fd);
	pid = agent_pid();
	before = settled_fds(pid);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		struct agent_msg m = {.type = AGENT_HELLO};

		fd = raw_connect();
		/* Half of them are clients of either kind, to begin with. */
		m.u.hello.kind = i % 4;
		if (i % 4 < AGENT_KIND_COUNT) {
			assert_int_equal(agent_msg_send(fd, &m, 0), 0);
			assert_int_equal(raw_answer(fd), 0);
		}
		for (unsigned k = 0; k < MESSAGES; k++) {
			fill_random(&m, &rng, fd);
			/* A group on each address of 127.0.0.0/8 would take its time to go. */
			if (m.type == AGENT_SOCKET || m.type == AGENT_GSI_OPEN)
				m.u.socket.addr.raw[0] |= 1;
			if (agent_msg_send(fd, &m, 0) || raw_answer(fd) < 0)
				break;
		}
		close(fd);
	}
	/* Tokens of places that had owners stay until the next owner comes. */
	assert_in_range(settled_fds(pid), before, before + CONNECTIONS);
	assert_int_equal(agent_pid(), pid);
	assert_true((fd = agent_client_socket(c, &addr, 0, text, sizeof(text))) >= 0);
	send_to_qpn(&addr, QPN(agent_client_slot(c), 3));
	close(fd);
	agent_client_free(c);
	env_leave();
}

TEST(agent, client_that_reads_no_answers__cut_off)
{
	struct agent_msg m = {.type = AGENT_STATUS};
	struct agent_client *c;
	int fd, before, r;
	pid_t pid;

	env_enter();
	c = join();
	pid = agent_pid();
	before = settled_fds(pid);
	fd = raw_connect();
	do
		r = agent_msg_send(fd, &m, 0);
	while (!r);
	assert_true(r == -EPIPE || r == -ECONNRESET);
	assert_int_equal(settled_fds(pid), before);
	close(fd);
	agent_client_free(c);
	env_leave();
}

TEST(agent, all_slots_taken__refused_then_served_and_the_last_one_is_steered)
{
	static struct agent_client *c[1024];
	struct rlimit rl = {.rlim_cur = 8192, .rlim_max = 8192}, had;
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_client *extra;
	struct pollfd pfd;
	uint8_t packet[16];
	char text[400];
	int fd, fd2;

	getrlimit(RLIMIT_NOFILE, &had);
	rl.rlim_max = had.rlim_max;
	if (had.rlim_max < 8192 || setrlimit(RLIMIT_NOFILE, &rl)) {
		print_message("skipped: the hard limit of open files is below 8192\n");
		skip();
	}
	env_enter();
	for (unsigned i = 1; i < 1024; i++) {
		c[i] = join();
		assert_int_equal(agent_client_slot(c[i]), i);
	}
	assert_int_equal(agent_client_new(&extra, text, sizeof(text)), -ENOSPC);
	assert_non_null(strstr(text, "1023"));
	fd = agent_client_socket(c[1023], &addr, 0, text, sizeof(text));
	assert_true(fd >= 0);
	kill_agent();
	assert_int_equal(agent_client_service(c[1023]), 0);
	agent_client_free(c[700]);
	c[700] = join();
	assert_int_equal(agent_client_slot(c[700]), 700);
	fd2 = agent_client_socket(c[700], &addr, 0, text, sizeof(text));
	assert_true(fd2 >= 0);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t qpn = i ? QPN(700, 1) : QPN(1023, 1);

		send_to_qpn(&addr, qpn);
		pfd = (struct pollfd){.fd = i ? fd2 : fd, .events = POLLIN};
		assert_int_equal(poll(&pfd, 1, 10000), 1);
		assert_int_equal(recv(pfd.fd, packet, sizeof(packet), 0), 16);
		assert_int_equal(get_be32(packet + 4) & 0xffffff, qpn);
	}
	close(fd);
	close(fd2);
	for (unsigned i = 1; i < 1024; i++)
		agent_client_free(c[i]);
	env_leave();
	setrlimit(RLIMIT_NOFILE, &had);
}

TEST(agent, packets_for_nobody__dropped_and_counted)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_client *c;
	struct agent_status *st;
	uint64_t dropped = 0;
	char text[400];
	int fd;

	env_enter();
	c = join();
	fd = agent_client_socket(c, &addr, 0, text, sizeof(text));
	assert_true(fd >= 0);
	send_to_qpn(&addr, 0);
	send_to_qpn(&addr, QPN(900, 5)); /* beyond the group's places */
	for (unsigned tries = 0; tries < 1000 && dropped < 2; tries++) {
		assert_int_equal(agent_client_status(false, &st, text, sizeof(text)), 0);
		assert_int_equal(st->agent.naddrs, 1);
		dropped = st->addrs[0].dropped;
		agent_status_free(st);
	}
	assert_int_equal(dropped, 2);
	close(fd);
	agent_client_free(c);
	env_leave();
}

TEST(agent, idle__leaves_when_the_last_client_has_left)
{
	struct agent_client *c;
	struct pollfd pfd;
	pid_t pid;
	int fd;

	env_enter();
	pid = exec_agent((const char *[]){"--foreground", "--idle-timeout", "0.5", NULL});
	fd = wait_up(false);
	c = join();
	close(fd);
	assert_int_equal(agent_holder(), pid);
	/* With a client it stays, past its time. */
	pfd = (struct pollfd){.fd = agent_client_fd(c), .events = POLLIN};
	assert_int_equal(poll(&pfd, 1, 700), 0);
	close(pfd.fd);
	agent_client_free(c);
	assert_int_equal(exit_code(pid), 0);
}

TEST(agent, sigterm__leaves_cleanly_and_clients_find_the_next_one)
{
	struct agent_client *c;
	struct pollfd pfd;
	pid_t pid;

	env_enter();
	pid = exec_agent((const char *[]){"--foreground", NULL});
	close(wait_up(false));
	c = join();
	kill(pid, SIGTERM);
	assert_int_equal(exit_code(pid), 0);
	pfd = (struct pollfd){.fd = agent_client_fd(c), .events = POLLIN};
	assert_int_equal(poll(&pfd, 1, 10000), 1);
	close(pfd.fd);
	assert_int_equal(agent_client_service(c), 0);
	assert_int_not_equal(agent_pid(), pid);
	agent_client_free(c);
	env_leave();
}

TEST(agent, options__exit_codes)
{
	pid_t pid;

	env_enter();
	assert_int_equal(exit_code(exec_agent((const char *[]){"--help", NULL})), 0);
	assert_int_equal(exit_code(exec_agent((const char *[]){"--version", NULL})), 0);
	assert_int_equal(exit_code(exec_agent((const char *[]){"--status", NULL})), 1);
	assert_int_equal(exit_code(exec_agent((const char *[]){"--nonsense", NULL})), 2);
	assert_int_equal(exit_code(exec_agent((const char *[]){"--idle-timeout", "soon", NULL})),
			 2);
	assert_int_equal(exit_code(exec_agent((const char *[]){"surplus", NULL})), 2);
	pid = exec_agent((const char *[]){"--foreground", NULL});
	close(wait_up(false));
	assert_int_equal(exit_code(exec_agent((const char *[]){"--status", "--json", NULL})), 0);
	assert_int_equal(exit_code(exec_agent((const char *[]){"--foreground", NULL})), 1);
	kill(pid, SIGTERM);
	assert_int_equal(exit_code(pid), 0);
}

TEST(agent, other_user__refused_and_told_of_the_system_wide_agent)
{
	struct agent_msg m;
	struct agent_instance instance;
	struct agent_client *c;
	int status;
	pid_t pid;

	user_need(NOBODY, NULL);
	env_enter();
	c = join();
	assert_int_equal(agent_instance_init(&instance, false), 0);
	pid = fork();
	if (pid == 0) {
		int fd;

		if (user_become(NOBODY))
			_exit(1);
		fd = agent_connect(&instance, 1000);
		/* It refuses without a request. */
		if (fd < 0 || agent_msg_recv(fd, &m, 0))
			_exit(2);
		_exit(m.type == AGENT_ERROR && m.u.error.err == EPERM &&
				      strstr(m.u.error.text, "--system")
			      ? 0
			      : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	agent_client_free(c);
	env_leave();
}

TEST(agent, system_wide__serves_all_users_and_outlives_itself)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct peer user, root, fresh;
	struct agent_status *st;
	char text[400];
	int before;
	pid_t pid;

	user_need(NOBODY, NULL);
	env_enter();
	pid = exec_agent((const char *[]){"--foreground", "--system", NULL});
	close(wait_up(true));
	root = peer_start(0);
	user = peer_start(NOBODY);
	fresh = peer_start(NOBODY);
	assert_int_equal(peer_join(&root).value, 1);
	before = peer_count_fds(&user);
	assert_int_equal(peer_join(&user).value, 2);
	/* Connection and token. */
	assert_int_equal(peer_count_fds(&user), before + 2);
	assert_int_equal(peer_socket(&root, &addr), 0);
	assert_int_equal(peer_socket(&user, &addr), 0);
	peer_kill(&root);
	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	assert_int_equal(st->agent.holder, pid);
	kill((pid_t)st->agent.pid, SIGKILL);
	wait_gone((pid_t)st->agent.pid);
	agent_status_free(st);
	send_to_qpn(&addr, QPN(2, 1));
	assert_int_equal(peer_receive(&user, 0), QPN(2, 1));
	assert_int_equal(peer_service(&user), 0);
	/* Slot 1 was root's; others were never used. */
	assert_int_equal(peer_join(&fresh).value, 3);
	assert_int_equal(peer_socket(&fresh, &addr), 0);
	send_to_qpn(&addr, QPN(3, 7));
	assert_int_equal(peer_receive(&fresh, 0), QPN(3, 7));
	send_to_qpn(&addr, QPN(2, 8));
	assert_int_equal(peer_receive(&user, 0), QPN(2, 8));
	peer_kill(&user);
	peer_kill(&fresh);
	kill(pid, SIGTERM);
	assert_int_equal(exit_code(pid), 0);
}
