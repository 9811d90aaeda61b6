/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams between two threads, and between two processes where one has to die. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/test.h"
#include "rsocket/rs.h"
#include "rsocket/stream.h"
#include "sock.h"
#include "verbs/dev.h"

/* ---- data ---- */

/** Echo until the end of what comes. */
static void *run_echo(void *arg)
{
	const int fd = *(int *)arg;
	uint8_t buf[20000];
	ssize_t n;

	while ((n = rrecv(fd, buf, sizeof(buf), 0)) > 0)
		sock_send_all(fd, buf, (size_t)n);
	assert_int_equal(n, 0);
	assert_int_equal(rshutdown(fd, SHUT_WR), 0);
	return NULL;
}

static void echo_sizes(int domain)
{
	static const size_t sizes[] = {1,     7,     64,    65,	    1000,   4096,
				       65535, 65536, 65537, 131072, 131073, 300001};
	static uint8_t out[300001], in[300001];
	int fds[2];
	pthread_t t;

	sock_pair(domain, fds);
	t = sock_thread(run_echo, &fds[1]);
	for (uint32_t round = 0; round < 60; round++) {
		const size_t len =
			round < ARRAY_LEN(sizes) ? sizes[round] : (round * 7919u) % 5000 + 1;

		/* More than both sides' buffers hold is sent in parts. */
		sock_fill(out, len, round);
		for (size_t done = 0; done < len;) {
			const size_t part = MIN(len - done, (size_t)60000);

			sock_send_all(fds[0], out + done, part);
			assert_int_equal(sock_recv_all(fds[0], in + done, part), part);
			done += part;
		}
		assert_memory_equal(in, out, len);
	}
	assert_int_equal(rshutdown(fds[0], SHUT_WR), 0);
	assert_int_equal(rrecv(fds[0], in, 1, 0), 0);
	sock_join(t);
	assert_int_equal(rclose(fds[0]), 0);
	assert_int_equal(rclose(fds[1]), 0);
}

TEST(stream, echo_of_any_size__same_bytes)
{
	echo_sizes(AF_INET);
}

TEST(stream, echo_over_ipv6__same_bytes)
{
	echo_sizes(AF_INET6);
}

enum { MUCH = 8 << 20 };

struct mover {
	int fd;
	uint32_t seed;
	uint8_t *buf;
};

static void *run_sender(void *arg)
{
	const struct mover *m = arg;

	sock_fill(m->buf, MUCH, m->seed);
	for (size_t done = 0, n; done < MUCH; done += n) {
		n = MIN((size_t)MUCH - done, 1 + (done * 31) % 200000);
		sock_send_all(m->fd, m->buf + done, n);
	}
	return NULL;
}

static void *run_receiver(void *arg)
{
	const struct mover *m = arg;
	uint8_t *want = malloc(MUCH);

	assert_non_null(want);
	assert_int_equal(sock_recv_all(m->fd, m->buf, MUCH), MUCH);
	sock_fill(want, MUCH, m->seed);
	assert_memory_equal(m->buf, want, MUCH);
	free(want);
	return NULL;
}

TEST(stream, much_in_both_directions_at_once__same_bytes)
{
	struct mover m[4];
	pthread_t t[4];
	int fds[2];

	sock_pair(AF_INET, fds);
	for (int i = 0; i < 4; i++) {
		m[i] = (struct mover){.fd = fds[i / 2],
				      .seed = (uint32_t)(i == 0 || i == 3),
				      .buf = malloc(MUCH)};
		t[i] = sock_thread(i % 2 ? run_receiver : run_sender, &m[i]);
	}
	for (int i = 0; i < 4; i++) {
		sock_join(t[i]);
		free(m[i].buf);
	}
	assert_int_equal(rclose(fds[0]), 0);
	assert_int_equal(rclose(fds[1]), 0);
}

TEST(stream, vectors_peek_and_waitall__as_sockets)
{
	char a[4], b[4], c[9] = "";
	struct iovec out[] = {
		{(void *)(uintptr_t) "abc", 3}, {NULL, 0}, {(void *)(uintptr_t) "defgh", 5}};
	struct iovec in[] = {{a, 4}, {b, 4}};
	struct msghdr msg = {.msg_iov = in, .msg_iovlen = 2};
	int fds[2];

	sock_pair(AF_INET, fds);
	assert_int_equal(rwritev(fds[0], out, 3), 8);
	assert_int_equal(rrecv(fds[1], c, 8, MSG_WAITALL), 8);
	assert_string_equal(c, "abcdefgh");
	assert_int_equal(rwritev(fds[0], out, 3), 8);
	sock_wait(fds[1], POLLIN);
	assert_int_equal(rrecv(fds[1], c, 2, MSG_PEEK), 2);
	assert_int_equal(rrecvmsg(fds[1], &msg, MSG_WAITALL), 8);
	assert_memory_equal(a, "abcd", 4);
	assert_memory_equal(b, "efgh", 4);
	assert_int_equal(msg.msg_flags, 0);
	assert_int_equal(rrecv(fds[1], c, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rclose(fds[0]), 0);
	assert_int_equal(rclose(fds[1]), 0);
}

/* ---- without waiting ---- */

TEST(stream, nonblocking__polled_through_its_life)
{
	union sock_addr at;
	int listener = sock_bound(AF_INET, SOCK_STREAM, &at), fd, conn, err;
	socklen_t len = sizeof(err);
	static uint8_t buf[65536];
	size_t sent = 0, got = 0;
	ssize_t n;

	assert_int_equal(rlisten(listener, 5), 0);
	assert_int_equal(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(raccept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (rconnect(fd, &at.sa, sock_len(&at)) != 0)
		assert_int_equal(errno, EINPROGRESS);
	sock_wait(listener, POLLIN);
	conn = raccept(listener, &at.sa, NULL);
	assert_true(conn >= 0);
	assert_true(sock_wait(fd, POLLOUT) & POLLOUT);
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, 0);
	/* Without a reader it fills up; it continues when the peer reads. */
	while ((n = rsend(fd, buf, sizeof(buf), 0)) > 0)
		sent += (size_t)n;
	assert_int_equal(errno, EAGAIN);
	assert_true(sent >= 128 << 10);
	while (got < sent) {
		n = rrecv(conn, buf, sizeof(buf), 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
	assert_true(sock_wait(fd, POLLOUT) & POLLOUT);
	assert_int_equal(rclose(conn), 0);
	assert_true(sock_wait(fd, POLLIN) & POLLIN);
	assert_int_equal(rrecv(fd, buf, 1, 0), 0);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(listener), 0);
}

TEST(stream, nobody_listens__econnrefused)
{
	union sock_addr at;
	int bound = sock_bound(AF_INET, SOCK_STREAM, &at), fd = rsocket(AF_INET, SOCK_STREAM, 0),
	    err;
	socklen_t len = sizeof(err);

	assert_int_equal(rconnect(fd, &at.sa, sock_len(&at)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(rclose(fd), 0);
	/* The same, by SO_ERROR, or at once if the refusal is quick. */
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(rconnect(fd, &at.sa, sock_len(&at)), -1);
	err = errno;
	if (err == EINPROGRESS) {
		assert_true(sock_wait(fd, POLLOUT) & (POLLERR | POLLHUP));
		assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	}
	assert_int_equal(err, ECONNREFUSED);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(bound), 0);
}

TEST(stream, select__readable_when_data_comes)
{
	struct timeval none = {0};
	int fds[2];
	fd_set r;

	sock_pair(AF_INET, fds);
	FD_ZERO(&r);
	FD_SET(fds[1], &r);
	assert_int_equal(rselect(fds[1] + 1, &r, NULL, NULL, &none), 0);
	sock_send_all(fds[0], "x", 1);
	FD_SET(fds[1], &r);
	assert_int_equal(rselect(fds[1] + 1, &r, NULL, NULL, NULL), 1);
	assert_true(FD_ISSET(fds[1], &r));
	assert_int_equal(rclose(fds[0]), 0);
	assert_int_equal(rclose(fds[1]), 0);
}

/* ---- ends ---- */

TEST(stream, half_closed__other_half_goes_on)
{
	char buf[8];
	int fds[2];

	sock_pair(AF_INET, fds);
	sock_send_all(fds[0], "abc", 3);
	assert_int_equal(rshutdown(fds[0], SHUT_WR), 0);
	assert_int_equal(rsend(fds[0], "x", 1, 0), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(sock_recv_all(fds[1], buf, sizeof(buf)), 3);
	assert_int_equal(rrecv(fds[1], buf, 1, 0), 0);
	sock_send_all(fds[1], "defg", 4);
	assert_int_equal(rclose(fds[1]), 0);
	assert_int_equal(sock_recv_all(fds[0], buf, sizeof(buf)), 4);
	assert_memory_equal(buf, "defg", 4);
	assert_int_equal(rclose(fds[0]), 0);
}

TEST(stream, closed_with_data_unread__data_then_the_end)
{
	static uint8_t out[100000], in[100001];
	int fds[2];

	sock_pair(AF_INET, fds);
	sock_fill(out, sizeof(out), 5);
	sock_send_all(fds[0], out, sizeof(out));
	assert_int_equal(rclose(fds[0]), 0);
	assert_int_equal(sock_recv_all(fds[1], in, sizeof(in)), sizeof(out));
	assert_memory_equal(in, out, sizeof(out));
	assert_true(sock_wait(fds[1], POLLIN) & POLLHUP);
	assert_int_equal(rclose(fds[1]), 0);
}

/* Another process: it connects to the port in this variable and waits to be killed. */
#define PORT_VARIABLE "RSOCKET_TEST_PORT"

TEST(child, told_a_port__connects_and_waits)
{
	const char *port = getenv(PORT_VARIABLE);
	union sock_addr to;
	int fd;

	if (!port)
		return;
	to = sock_loopback(AF_INET, (uint16_t)atoi(port));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(fd, &to.sa, sock_len(&to)), 0);
	sock_send_all(fd, "here", 4);
	for (;;)
		pause();
}

TEST(stream, peer_killed__end_comes)
{
	union sock_addr at;
	int listener = sock_bound(AF_INET, SOCK_STREAM, &at), fd;
	char buf[8], port[8], exe[] = "/proc/self/exe", pattern[] = "child__*";
	char *argv[] = {exe, pattern, NULL};
	extern char **environ;
	pid_t pid;
	int status;

	assert_int_equal(rlisten(listener, 1), 0);
	snprintf(port, sizeof(port), "%u", ntohs(at.in.sin_port));
	assert_int_equal(setenv(PORT_VARIABLE, port, 1), 0);
	assert_int_equal(posix_spawn(&pid, exe, NULL, NULL, argv, environ), 0);
	unsetenv(PORT_VARIABLE);
	fd = raccept(listener, NULL, NULL);
	assert_true(fd >= 0);
	assert_int_equal(sock_recv_all(fd, buf, 4), 4);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(sock_wait(fd, POLLIN) & POLLHUP);
	assert_true(rrecv(fd, buf, 1, 0) <= 0);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(listener), 0);
}

static void *run_reader(void *arg)
{
	char c;

	return (void *)(intptr_t)(rrecv(*(int *)arg, &c, 1, 0) < 0 ? errno : 0);
}

TEST(stream, closed_under_a_reader__reader_returns)
{
	int fds[2];
	pthread_t t;
	void *ret;

	for (int i = 0; i < 10; i++) {
		sock_pair(AF_INET, fds);
		t = sock_thread(run_reader, &fds[1]);
		assert_int_equal(rclose(fds[1]), 0);
		assert_int_equal(pthread_join(t, &ret), 0);
		assert_int_equal((intptr_t)ret, EBADF);
		assert_int_equal(rclose(fds[0]), 0);
	}
}

/* ---- two threads on one socket ---- */

/** The socket, locked, while another thread sleeps on it. */
static struct rs *get_while_asleep(int fd)
{
	const uint64_t end = rs_now() + (uint64_t)SOCK_GUARD_MS * 1000000;
	struct rs *rs;

	for (;;) {
		rs = rs_get(fd);
		assert_non_null(rs);
		if (rs->sleep.sleepers)
			return rs;
		rs_put(rs);
		assert_true(rs_now() < end);
	}
}

struct sender {
	int fd;
	atomic_bool go;
};

static void *run_late_sender(void *arg)
{
	struct sender *s = arg;

	while (!atomic_load(&s->go))
		sched_yield();
	sock_send_all(s->fd, "1", 1);
	return NULL;
}

/* A thread that sends polls completions, so it takes what comes for the reader. */
TEST(stream, data_taken_in_while_the_reader_sleeps__an_event_is_left_for_it)
{
	int fds[2];
	pthread_t t;
	void *ret;

	for (int i = 0; i < 20; i++) {
		struct sender sender = {.go = false};
		struct pollfd wakes[2];
		pthread_t sends;
		struct rs *rs;

		sock_pair(AF_INET, fds);
		sender.fd = fds[0];
		sends = sock_thread(run_late_sender, &sender);
		t = sock_thread(run_reader, &fds[1]);
		rs = get_while_asleep(fds[1]);
		wakes[0] = (struct pollfd){.fd = rs->sleep.fd, .events = POLLIN};
		wakes[1] = (struct pollfd){.fd = stream_of(rs)->comp->fd, .events = POLLIN};
		for (unsigned polls = 0; !(rs->ops->ready(rs, POLLIN) & POLLIN); polls++)
			atomic_store(&sender.go, polls >= 100);
		/* The reader cannot take it: that needs the lock. */
		assert_true(poll(wakes, 2, SOCK_GUARD_MS) > 0);
		rs_put(rs);
		sock_join(sends);
		assert_int_equal(pthread_join(t, &ret), 0);
		assert_int_equal((intptr_t)ret, 0);
		assert_int_equal(rclose(fds[0]), 0);
		assert_int_equal(rclose(fds[1]), 0);
	}
}

/* Events of the connection are on a channel that shows nothing any more when one was taken. */
TEST(stream, end_taken_in_while_the_reader_sleeps__it_is_woken)
{
	const struct linger abort = {.l_onoff = 1};
	struct rs *rs;
	uint32_t before;
	int fds[2];
	pthread_t t;
	void *ret;

	sock_pair(AF_INET, fds);
	assert_int_equal(rsetsockopt(fds[0], SOL_SOCKET, SO_LINGER, &abort, sizeof(abort)), 0);
	t = sock_thread(run_reader, &fds[1]);
	rs = get_while_asleep(fds[1]);
	before = rs->sleep.generation;
	assert_int_equal(rclose(fds[0]), 0);
	while (!(rs->ops->ready(rs, POLLIN) & (POLLIN | POLLHUP)))
		;
	assert_int_not_equal(rs->sleep.generation, before);
	rs_put(rs);
	assert_int_equal(pthread_join(t, &ret), 0);
	assert_int_equal(rclose(fds[1]), 0);
}

/* ---- many ---- */

struct crowd {
	union sock_addr to;
	int n;
};

static void *run_crowd(void *arg)
{
	const struct crowd *c = arg;
	int fds[64];

	for (int i = 0; i < c->n; i++) {
		fds[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(rconnect(fds[i], &c->to.sa, sock_len(&c->to)), 0);
		sock_send_all(fds[i], &i, sizeof(i));
	}
	for (int i = 0, got; i < c->n; i++) {
		assert_int_equal(sock_recv_all(fds[i], &got, sizeof(got)), sizeof(got));
		assert_int_equal(got, i);
		assert_int_equal(rclose(fds[i]), 0);
	}
	return NULL;
}

TEST(stream, many_connections__each_gets_its_own)
{
	enum { MANY = 40 };
	struct pollfd fds[MANY];
	struct crowd c = {.n = MANY};
	int listener = sock_bound(AF_INET, SOCK_STREAM, &c.to), n, left = MANY;
	pthread_t t;

	assert_int_equal(rlisten(listener, MANY), 0);
	t = sock_thread(run_crowd, &c);
	for (int i = 0; i < MANY; i++) {
		fds[i] = (struct pollfd){.fd = raccept(listener, NULL, NULL), .events = POLLIN};
		assert_true(fds[i].fd >= 0);
	}
	while (left > 0) {
		assert_true(rpoll(fds, MANY, SOCK_GUARD_MS) > 0);
		for (int i = 0; i < MANY; i++) {
			if (!(fds[i].revents & POLLIN))
				continue;
			assert_int_equal(sock_recv_all(fds[i].fd, &n, sizeof(n)), sizeof(n));
			sock_send_all(fds[i].fd, &n, sizeof(n));
			fds[i].events = 0;
			fds[i].fd = -1 - fds[i].fd;
			left--;
		}
	}
	sock_join(t);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(rclose(-1 - fds[i].fd), 0);
	assert_int_equal(rclose(listener), 0);
}

/* ---- mapped memory ---- */

TEST(iomap, written_to__bytes_are_there_before_the_word)
{
	static uint8_t memory[100000], data[50000];
	union sock_addr at;
	int listener = sock_bound(AF_INET, SOCK_STREAM, &at), fd, conn, entries = 4;
	char word;

	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof(entries)), 0);
	assert_int_equal(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof(entries)),
			 0);
	assert_int_equal(rlisten(listener, 1), 0);
	if (rconnect(fd, &at.sa, sock_len(&at)) != 0)
		assert_int_equal(errno, EINPROGRESS);
	conn = raccept(listener, NULL, NULL);
	assert_true(conn >= 0);
	assert_true(sock_wait(fd, POLLOUT) & POLLOUT);
	assert_int_equal(rfcntl(fd, F_SETFL, 0), 0);

	assert_int_equal(riomap(conn, memory, sizeof(memory), PROT_WRITE, 0, 4096), 4096);
	sock_send_all(conn, "m", 1); /* the mapping is known when this is */
	assert_int_equal(sock_recv_all(fd, &word, 1), 1);
	sock_fill(data, sizeof(data), 9);
	assert_int_equal(riowrite(fd, data, sizeof(data), 4096 + 1000, 0), sizeof(data));
	sock_send_all(fd, "w", 1);
	assert_int_equal(sock_recv_all(conn, &word, 1), 1);
	assert_memory_equal(memory + 1000, data, sizeof(data));
	assert_int_equal(memory[999], 0);
	assert_int_equal(memory[1000 + sizeof(data)], 0);

	assert_int_equal((ssize_t)riowrite(fd, data, 1, 4095, 0), -1);
	assert_int_equal(riounmap(conn, memory, sizeof(memory) - 1), -1);
	assert_int_equal(riounmap(conn, memory, sizeof(memory)), 0);
	sock_send_all(conn, "u", 1);
	assert_int_equal(sock_recv_all(fd, &word, 1), 1);
	assert_int_equal((ssize_t)riowrite(fd, data, 1, 4096, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(conn), 0);
	assert_int_equal(rclose(listener), 0);
}
