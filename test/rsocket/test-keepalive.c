/* SPDX-License-Identifier: BSD-2-Clause */
/* SO_KEEPALIVE: who is gone is noticed, as TCP would; who is slow is not gone. */
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"
#include "rsocket/stream.h"
#include "sock.h"
#include "verbs/dev.h"

static void set(int fd, int level, int name, int n)
{
	assert_int_equal(rsetsockopt(fd, level, name, &n, sizeof(n)), 0);
}

static int get(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int n = -1;

	assert_int_equal(rgetsockopt(fd, level, name, &n, &len), 0);
	return n;
}

/** Probes from the first second of silence on. */
static void keep_alive(int fd, int count)
{
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/** The thread's state as proc(5) has it: 'S' is asleep. 0: there is no thread. */
static char thread_state(void)
{
	char path[300], name[32], state = 0;
	struct dirent *e;
	DIR *d = opendir("/proc/self/task");
	FILE *f;
	char c;

	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%*d (%31[^)]) %c", name, &c) == 2 &&
		    strcmp(name, "rocemu-keep") == 0)
			state = c;
		fclose(f);
	}
	closedir(d);
	return state;
}

static void until_thread(bool there)
{
	const uint64_t end = rs_now() + (uint64_t)SOCK_GUARD_MS * 1000000;

	while ((thread_state() != 0) != there)
		assert_true(rs_now() < end);
}

/** It has seen what was changed and waits for more. */
static void until_asleep(void)
{
	const uint64_t end = rs_now() + (uint64_t)SOCK_GUARD_MS * 1000000;

	while (thread_state() != 'S')
		assert_true(rs_now() < end);
}

TEST(keepalive, not_set__as_the_system_has_it)
{
	int fd, idle = 0;
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");

	dev_namespace();
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &idle), 1);
	fclose(f);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(get(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
	assert_int_equal(get(fd, IPPROTO_TCP, TCP_KEEPIDLE), idle);
	assert_true(get(fd, IPPROTO_TCP, TCP_KEEPINTVL) > 0);
	assert_true(get(fd, IPPROTO_TCP, TCP_KEEPCNT) > 0);
	assert_int_equal(rclose(fd), 0);
}

TEST(keepalive, thread__is_there_while_a_connection_needs_it)
{
	int fds[2];

	sock_pair(AF_INET, fds);
	assert_int_equal(thread_state(), 0);
	set(fds[0], SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fds[1], SOL_SOCKET, SO_KEEPALIVE, 1);
	until_thread(true);
	set(fds[0], SOL_SOCKET, SO_KEEPALIVE, 0);
	until_asleep();
	assert_int_equal(rclose(fds[1]), 0);
	until_thread(false);
	assert_int_equal(rclose(fds[0]), 0);
}

TEST(keepalive, of_a_listener__is_of_its_connections)
{
	union sock_addr at;
	int listener = sock_bound(AF_INET, SOCK_STREAM, &at), fd, conn;

	keep_alive(listener, 7);
	assert_int_equal(rlisten(listener, 1), 0);
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (rconnect(fd, &at.sa, sock_len(&at)) != 0)
		assert_int_equal(errno, EINPROGRESS);
	conn = raccept(listener, NULL, NULL);
	assert_int_equal(get(conn, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(get(conn, IPPROTO_TCP, TCP_KEEPIDLE), 1);
	assert_int_equal(get(conn, IPPROTO_TCP, TCP_KEEPCNT), 7);
	until_thread(true);
	assert_int_equal(rclose(conn), 0);
	until_thread(false);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(listener), 0);
}

static unsigned unanswered(int fd)
{
	struct rs *rs = rs_get(fd);
	unsigned n;

	assert_non_null(rs);
	n = stream_of(rs)->probing ? stream_of(rs)->unanswered : 0;
	rs_put(rs);
	return n;
}

/* ---- a peer that is another process ---- */

#define PORT_VARIABLE "RSOCKET_TEST_PORT"

TEST(child, told_a_port__echoes)
{
	const char *port = getenv(PORT_VARIABLE);
	union sock_addr to;
	char c;
	int fd;

	if (!port)
		return;
	to = sock_loopback(AF_INET, (uint16_t)atoi(port));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(fd, &to.sa, sock_len(&to)), 0);
	while (rrecv(fd, &c, 1, 0) == 1)
		sock_send_all(fd, &c, 1);
	assert_int_equal(rclose(fd), 0);
}

static pid_t start_child(int *fd)
{
	char port[8], exe[] = "/proc/self/exe", pattern[] = "child__*";
	char *argv[] = {exe, pattern, NULL};
	extern char **environ;
	union sock_addr at;
	int listener = sock_bound(AF_INET, SOCK_STREAM, &at);
	pid_t pid;

	assert_int_equal(rlisten(listener, 1), 0);
	snprintf(port, sizeof(port), "%u", ntohs(at.in.sin_port));
	assert_int_equal(setenv(PORT_VARIABLE, port, 1), 0);
	assert_int_equal(posix_spawn(&pid, exe, NULL, NULL, argv, environ), 0);
	unsetenv(PORT_VARIABLE);
	*fd = raccept(listener, NULL, NULL);
	assert_true(*fd >= 0);
	assert_int_equal(rclose(listener), 0);
	return pid;
}

/* Its adapter stops with it, so that it answers nothing; but it comes back before all probes are
 * used up. */
TEST(keepalive, peer_stopped_for_a_while__lives_on)
{
	int fd, status;
	pid_t pid = start_child(&fd);
	char c = 0;

	keep_alive(fd, 20);
	sock_send_all(fd, "x", 1);
	assert_int_equal(sock_recv_all(fd, &c, 1), 1);
	kill(pid, SIGSTOP);
	while (unanswered(fd) < 2) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		assert_int_equal(rpoll(&p, 1, 50), 0);
	}
	kill(pid, SIGCONT);
	while (unanswered(fd) > 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		assert_int_equal(rpoll(&p, 1, 50), 0);
	}
	sock_send_all(fd, "y", 1);
	assert_int_equal(sock_recv_all(fd, &c, 1), 1);
	assert_int_equal(c, 'y');
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- the network is gone; the last test, for it does not come back ---- */

static void lo_down(void)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = 0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	close(fd);
}

static void *run_reader(void *arg)
{
	char c;

	return (void *)(intptr_t)(rrecv(*(int *)arg, &c, 1, 0) < 0 ? errno : 0);
}

TEST(keepalive, network_gone__both_sides_time_out)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 1};
	int fds[2], other[2];
	pthread_t reader;
	void *ret;

	sock_pair(AF_INET, fds);
	sock_pair(AF_INET, other);
	reader = sock_thread(run_reader, &other[1]);
	keep_alive(fds[0], 2);
	keep_alive(fds[1], 2);
	keep_alive(other[1], 2);
	assert_int_equal(sock_wait(fds[0], POLLOUT), POLLOUT);
	lo_down();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sock_wait(fds[i], POLLIN), POLLIN | POLLERR | POLLHUP);
		assert_int_equal(get(fds[i], SOL_SOCKET, SO_ERROR), ETIMEDOUT);
		assert_int_equal(sock_wait(fds[i], POLLIN), POLLIN | POLLHUP);
	}
	assert_int_equal(pthread_join(reader, &ret), 0);
	assert_int_equal((intptr_t)ret, ETIMEDOUT);
	until_thread(false);
	/* This one has not noticed yet: its last word is not waited for until RC gives up. */
	assert_int_equal(rsetsockopt(other[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rclose(other[i]), 0);
		assert_int_equal(rclose(fds[i]), 0);
	}
}
