/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams, over UDP and over UD. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/test.h"
#include "rsocket/rs.h"
#include "sock.h"
#include "verbs/dev.h"

struct ends {
	int fd[2];
	union sock_addr at[2];
};

static void ends_open(struct ends *e, int domain)
{
	for (int i = 0; i < 2; i++)
		e->fd[i] = sock_bound(domain, SOCK_DGRAM, &e->at[i]);
}

static void ends_close(const struct ends *e)
{
	assert_int_equal(rclose(e->fd[0]), 0);
	assert_int_equal(rclose(e->fd[1]), 0);
}

static void send_to(const struct ends *e, int from, const void *buf, size_t len)
{
	const int to = !from;

	assert_int_equal(rsendto(e->fd[from], buf, len, 0, &e->at[to].sa, sock_len(&e->at[to])),
			 len);
}

/** It comes from where it was sent, with the bytes that were sent. */
static void expect_at(const struct ends *e, int at, const void *want, size_t len)
{
	static uint8_t buf[70000];
	union sock_addr from;
	socklen_t from_len = sizeof(from);

	assert_true(sock_wait(e->fd[at], POLLIN) & POLLIN);
	memset(&from, 0, sizeof(from));
	assert_int_equal(rrecvfrom(e->fd[at], buf, sizeof(buf), 0, &from.sa, &from_len), len);
	assert_memory_equal(buf, want, len);
	assert_int_equal(from_len, sock_len(&e->at[!at]));
	assert_memory_equal(&from, &e->at[!at], from_len);
}

/** Afterwards each has the other's QP number. */
static void acquaint(const struct ends *e)
{
	for (int i = 0; i < 4; i++) {
		send_to(e, i % 2, "hello", 5);
		expect_at(e, !(i % 2), "hello", 5);
	}
}

static void echo_sizes(int domain)
{
	static const size_t sizes[] = {0, 1, 64, 1000, 4000, 4072, 4088, 4089, 20000, 65000};
	static uint8_t buf[65000];
	struct ends e;

	ends_open(&e, domain);
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			sock_fill(buf, sizes[i], (uint32_t)(i + 100 * (size_t)round));
			send_to(&e, 0, buf, sizes[i]);
			expect_at(&e, 1, buf, sizes[i]);
			send_to(&e, 1, buf, sizes[i]);
			expect_at(&e, 0, buf, sizes[i]);
		}
	ends_close(&e);
}

TEST(dgram, any_size__bytes_and_sender_are_right)
{
	echo_sizes(AF_INET);
}

TEST(dgram, any_size_over_ipv6__bytes_and_sender_are_right)
{
	echo_sizes(AF_INET6);
}

TEST(dgram, too_long__emsgsize)
{
	static uint8_t buf[66000];
	struct ends e;

	ends_open(&e, AF_INET);
	assert_int_equal(rsendto(e.fd[0], buf, sizeof(buf), 0, &e.at[1].sa, sock_len(&e.at[1])),
			 -1);
	assert_int_equal(errno, EMSGSIZE);
	ends_close(&e);
}

TEST(dgram, boundaries_peek_and_truncation__as_udp)
{
	char buf[8];
	struct iovec iov = {buf, 2};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct ends e;

	ends_open(&e, AF_INET);
	acquaint(&e);
	send_to(&e, 0, "abc", 3);
	send_to(&e, 0, "defg", 4);
	send_to(&e, 0, "hij", 3);
	send_to(&e, 0, "k", 1);
	sock_wait(e.fd[1], POLLIN);
	assert_int_equal(rrecv(e.fd[1], buf, sizeof(buf), MSG_PEEK), 3);
	assert_int_equal(rrecv(e.fd[1], buf, sizeof(buf), 0), 3);
	assert_memory_equal(buf, "abc", 3);
	assert_int_equal(rrecvmsg(e.fd[1], &msg, 0), 2);
	assert_int_equal(msg.msg_flags, MSG_TRUNC);
	assert_memory_equal(buf, "de", 2);
	assert_int_equal(rrecv(e.fd[1], buf, 1, MSG_TRUNC), 3);
	assert_int_equal(rrecvmsg(e.fd[1], &msg, 0), 1);
	assert_int_equal(msg.msg_flags, 0);
	assert_int_equal(buf[0], 'k');
	assert_int_equal(rrecv(e.fd[1], buf, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	ends_close(&e);
}

TEST(dgram, vectors__one_message)
{
	static uint8_t bytes[40], got[40];
	struct iovec iov[20];
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 20};
	struct ends e;

	ends_open(&e, AF_INET);
	sock_fill(bytes, sizeof(bytes), 1);
	for (size_t i = 0; i < 20; i++)
		iov[i] = (struct iovec){bytes + 2 * i, 2};
	msg.msg_name = &e.at[1];
	msg.msg_namelen = sock_len(&e.at[1]);
	/* Over UDP, then over UD. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rsendmsg(e.fd[0], &msg, 0), sizeof(bytes));
		assert_int_equal(rrecv(e.fd[1], got, sizeof(got), 0), sizeof(bytes));
		assert_memory_equal(got, bytes, sizeof(bytes));
		acquaint(&e);
	}
	ends_close(&e);
}

TEST(dgram, connected__sends_there_and_hears_no_other)
{
	struct ends e, other;
	char buf[8];

	ends_open(&e, AF_INET);
	ends_open(&other, AF_INET);
	assert_int_equal(rsend(e.fd[0], "x", 1, 0), -1);
	assert_int_equal(errno, EDESTADDRREQ);
	/* The other one has its QP number, and sends to it without UDP. */
	assert_int_equal(rsendto(e.fd[0], "1", 1, 0, &other.at[0].sa, sock_len(&other.at[0])), 1);
	assert_int_equal(rrecv(other.fd[0], buf, 8, 0), 1);
	assert_int_equal(rconnect(e.fd[0], &e.at[1].sa, sock_len(&e.at[1])), 0);
	assert_int_equal(rsendto(other.fd[0], "2", 1, 0, &e.at[0].sa, sock_len(&e.at[0])), 1);
	assert_int_equal(rsend(e.fd[0], "3", 1, 0), 1);
	expect_at(&e, 1, "3", 1);
	send_to(&e, 1, "4", 1);
	expect_at(&e, 0, "4", 1);
	assert_int_equal(rrecv(e.fd[0], buf, 8, MSG_DONTWAIT), -1);
	assert_int_equal(rshutdown(e.fd[0], SHUT_WR), 0);
	assert_int_equal(rsend(e.fd[0], "5", 1, 0), -1);
	assert_int_equal(errno, EPIPE);
	ends_close(&e);
	ends_close(&other);
}

TEST(dgram, wildcard__answers_from_where_it_was_asked)
{
	union sock_addr any = {.in = {.sin_family = AF_INET}}, to;
	struct ends e;
	socklen_t len = sizeof(any);
	char buf[8];
	int server;

	ends_open(&e, AF_INET);
	server = rsocket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(rbind(server, &any.sa, sizeof(any.in)), 0);
	assert_int_equal(rgetsockname(server, &any.sa, &len), 0);
	to = sock_loopback(AF_INET, ntohs(any.in.sin_port));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rsendto(e.fd[0], "ask", 3, 0, &to.sa, sock_len(&to)), 3);
		len = sizeof(any);
		assert_int_equal(rrecvfrom(server, buf, sizeof(buf), 0, &any.sa, &len), 3);
		assert_memory_equal(&any, &e.at[0], len);
		assert_int_equal(rsendto(server, "answer", 6, 0, &any.sa, len), 6);
		assert_int_equal(rrecvfrom(e.fd[0], buf, sizeof(buf), 0, &any.sa, &len), 6);
		assert_memory_equal(&any, &to, len);
	}
	assert_int_equal(rclose(server), 0);
	ends_close(&e);
}

TEST(dgram, not_of_the_protocol__passed_over)
{
	struct ends e;
	union sock_addr at;
	uint8_t bytes[64];
	int plain = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ends_open(&e, AF_INET);
	at = e.at[1];
	assert_true(plain >= 0);
	/* Of all lengths, with and without the tag. */
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		memset(bytes, len % 2 ? 0x55 : 0, sizeof(bytes));
		assert_int_equal(sendto(plain, bytes, len, 0, &at.sa, sock_len(&at)), len);
	}
	send_to(&e, 0, "good", 4);
	expect_at(&e, 1, "good", 4);
	assert_int_equal(rrecv(e.fd[1], bytes, 1, MSG_DONTWAIT), -1);
	close(plain);
	ends_close(&e);
}

static void *run_echo(void *arg)
{
	const int fd = *(int *)arg;
	union sock_addr from;
	socklen_t len;
	uint8_t buf[2000];
	ssize_t n;

	for (;;) {
		len = sizeof(from);
		n = rrecvfrom(fd, buf, sizeof(buf), 0, &from.sa, &len);
		if (n <= 0)
			return NULL;
		assert_int_equal(rsendto(fd, buf, (size_t)n, 0, &from.sa, len), n);
	}
}

static void *run_reader(void *arg)
{
	char c;

	assert_int_equal(rrecv(*(int *)arg, &c, 1, 0), 1);
	return NULL;
}

/* The sleeping thread may see the socket's descriptor empty again, and would sleep on. By UDP, as
 * the first of each sender. */
TEST(dgram, taken_in_while_another_thread_sleeps__it_is_told)
{
	union sock_addr third_at;
	struct rs *rs;
	struct ends e;
	unsigned asleep;
	uint32_t before;
	pthread_t t;
	int third;

	ends_open(&e, AF_INET);
	third = sock_bound(AF_INET, SOCK_DGRAM, &third_at);
	send_to(&e, 0, "0", 1); /* the receiver's QP is made */
	expect_at(&e, 1, "0", 1);
	t = sock_thread(run_reader, &e.fd[1]);
	do {
		rs = rs_get(e.fd[1]);
		asleep = rs->sleep.sleepers;
		if (!asleep)
			rs_put(rs);
	} while (!asleep);
	before = rs->sleep.generation;
	assert_int_equal(rsendto(third, "1", 1, 0, &e.at[1].sa, sock_len(&e.at[1])), 1);
	while (!(rs->ops->ready(rs, POLLIN) & POLLIN))
		;
	assert_int_not_equal(rs->sleep.generation, before);
	rs_put(rs);
	sock_join(t);
	assert_int_equal(rclose(third), 0);
	ends_close(&e);
}

TEST(dgram, echo_by_another_thread__each_comes_back)
{
	struct ends e;
	uint8_t out[1500], in[1500];
	pthread_t t;

	ends_open(&e, AF_INET);
	t = sock_thread(run_echo, &e.fd[1]);
	for (uint32_t i = 0; i < 500; i++) {
		sock_fill(out, 1 + i * 2, i);
		send_to(&e, 0, out, 1 + i * 2);
		assert_int_equal(rrecv(e.fd[0], in, sizeof(in), 0), 1 + i * 2);
		assert_memory_equal(in, out, 1 + i * 2);
	}
	send_to(&e, 0, "", 0);
	sock_join(t);
	ends_close(&e);
}
