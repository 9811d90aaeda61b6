/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"
#include "user.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/forward.h"
#include "squat.h"

enum {
	SLOT_A = 1022,
	SLOT_B = 1023,
	FREE_SLOT = 1021
}; /* the agent hands out the low ones first */

static const struct forward_hdr sample = {
	.src = {{0xfe, 0x80, 1, 2, 3}},
	.dst = {{[10] = 0xff, 0xff, 127, 0, 0, 1}},
	.sport = 0xc123,
	.seg_len = 4140,
	.ip_id = 7,
	.tclass = 2,
	.hop_limit = 64,
	.flow_label = 0xfedcb,
};

TEST(forward, encode_decode__same)
{
	uint8_t buf[FORWARD_HDR_LEN + 1];
	struct forward_hdr h;

	memset(&h, 0xaa, sizeof(h));
	forward_encode(&sample, buf);
	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), 0);
	assert_memory_equal(&h.src, &sample.src, 16);
	assert_memory_equal(&h.dst, &sample.dst, 16);
	assert_int_equal(h.sport, sample.sport);
	assert_int_equal(h.seg_len, sample.seg_len);
	assert_int_equal(h.ip_id, sample.ip_id);
	assert_int_equal(h.tclass, sample.tclass);
	assert_int_equal(h.hop_limit, sample.hop_limit);
	assert_int_equal(h.flow_label, sample.flow_label);
}

TEST(forward, short_or_foreign__refused)
{
	uint8_t buf[FORWARD_HDR_LEN + 1] = {0};
	struct forward_hdr h, zero = sample;

	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), -EBADMSG);
	forward_encode(&sample, buf);
	assert_int_equal(forward_decode(&h, buf, FORWARD_HDR_LEN), -EBADMSG);
	assert_int_equal(forward_decode(&h, buf, 0), -EBADMSG);
	zero.seg_len = 0; /* would never end */
	forward_encode(&zero, buf);
	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), -EBADMSG);
	zero = sample;
	zero.flow_label = 0x100000;
	forward_encode(&zero, buf);
	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), -EBADMSG);
}

static const char instance[] = ":test-forward";

static struct forward *start(uint16_t slot)
{
	struct forward *f;

	assert_int_equal(forward_new(&f, instance, slot), 0);
	return f;
}

/* A message, past connections that were taken. */
static ssize_t take(struct forward *f, struct forward_hdr *h, uint8_t *buf, size_t size)
{
	ssize_t n = forward_recv(f, h, buf, size);

	return n == -EBADMSG ? forward_recv(f, h, buf, size) : n;
}

TEST(forward, sent_to_a_slot__arrives_there)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);
	uint8_t data[300], got[300];
	struct forward_hdr h;
	struct rng r;

	rng_init(&r, 1);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rng_u32(&r);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
		assert_int_equal(take(b, &h, got, sizeof(got)), sizeof(data));
		assert_memory_equal(got, data, sizeof(data));
		assert_int_equal(h.sport, sample.sport);
		assert_int_equal(forward_recv(b, &h, got, sizeof(got)), -EAGAIN);
	}
	forward_free(a);
	forward_free(b);
}

TEST(forward, slot_has_another_lane__it_is_found)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);
	uint8_t data[300] = {1}, got[300];
	struct forward_hdr h;

	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	forward_free(b);
	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), -ECONNREFUSED);
	b = start(SLOT_B);
	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	assert_int_equal(take(b, &h, got, sizeof(got)), sizeof(data));
	/* The sender has ended. */
	forward_free(a);
	assert_int_equal(forward_recv(b, &h, got, sizeof(got)), -EBADMSG);
	assert_int_equal(forward_recv(b, &h, got, sizeof(got)), -EAGAIN);
	forward_free(b);
}

TEST(forward, more_lanes_than_connections__all_are_reached)
{
	enum { N = 40 };
	struct forward *a = start(SLOT_A), *b[N];
	uint8_t data[300] = {1}, got[300];
	struct forward_hdr h;

	for (unsigned i = 0; i < N; i++)
		b[i] = start((uint16_t)(900 + i));
	for (unsigned i = 0; i < 3 * N; i++) {
		assert_int_equal(forward_send(a, (uint16_t)(900 + i % N), &sample, data, 300), 0);
		/* Each round has a connection of its own: the last one's end comes first. */
		while (take(b[i % N], &h, got, sizeof(got)) != 300)
			;
		/* And back. */
		assert_int_equal(forward_send(b[i % N], SLOT_A, &sample, data, 300), 0);
		while (take(a, &h, got, sizeof(got)) != 300)
			;
	}
	forward_free(a);
	for (unsigned i = 0; i < N; i++)
		forward_free(b[i]);
}

TEST(forward, larger_than_the_buffer__refused)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);
	uint8_t data[300] = {0}, got[299];
	struct forward_hdr h;

	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	assert_int_equal(take(b, &h, got, sizeof(got)), -EBADMSG);
	assert_int_equal(forward_recv(b, &h, got, sizeof(got)), -EAGAIN);
	forward_free(a);
	forward_free(b);
}

TEST(forward, nobody_there__error)
{
	struct forward *a = start(SLOT_A);
	uint8_t data[1] = {0};

	assert_int_equal(forward_send(a, FREE_SLOT, &sample, data, 1), -ECONNREFUSED);
	forward_free(a);
}

TEST(forward, slot_taken__found_by_another_name)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B), *again = start(SLOT_B), *elsewhere;
	uint8_t data[300] = {1}, got[300];
	struct forward_hdr h;

	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	assert_int_equal(take(b, &h, got, sizeof(got)), sizeof(data));
	forward_free(b);
	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	assert_int_equal(take(again, &h, got, sizeof(got)), sizeof(data));
	/* Another agent instance has slots of the same numbers. */
	assert_int_equal(forward_new(&elsewhere, ":test-forward2", SLOT_B), 0);
	assert_int_equal(forward_recv(elsewhere, &h, got, sizeof(got)), -EAGAIN);
	forward_free(elsewhere);
	forward_free(again);
	forward_free(a);
}

static socklen_t name_of(struct sockaddr_un *un, uint16_t slot, uid_t user)
{
	int n;

	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rocemu-lane-v2:%u:%s:%u",
		     (unsigned)user, instance, (unsigned)slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Another user who sits on the name of a slot of root's, and sends to another one. */
static int squat(void)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	const int to = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	uint8_t message[FORWARD_HDR_LEN + 1] = {0};
	struct sockaddr_un un;
	socklen_t len = name_of(&un, SLOT_B, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&un, len) || listen(fd, 8))
		return -1;
	forward_encode(&sample, message);
	len = name_of(&un, SLOT_A, 0);
	if (to < 0 || connect(to, (struct sockaddr *)&un, len) ||
	    send(to, message, sizeof(message), 0) != sizeof(message))
		return -1;
	return fd; /* to stays open */
}

TEST(forward, another_user_has_the_name__gets_nothing_and_is_not_heard)
{
	enum { NOBODY = 65534 };
	uint8_t data[300] = {1}, got[300];
	struct forward_hdr h;
	struct forward *a;
	int up[2], down[2], status;
	char byte = 0;
	pid_t pid;

	user_need(NOBODY, NULL);
	a = start(SLOT_A);
	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	pid = fork();
	if (pid == 0) {
		struct forward *mine;
		int fd, conn;

		if (user_become(NOBODY))
			_exit(10);
		fd = squat();
		/* As a lane of root's it cannot send either: names are by user. */
		if (fd < 0 || forward_new(&mine, instance, SLOT_B) ||
		    forward_send(mine, SLOT_A, &sample, data, sizeof(data)) != -ECONNREFUSED)
			_exit(11);
		if (write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) != 1)
			_exit(12);
		/* The victim connected, found out and hung up: there is nothing to read. */
		conn = accept(fd, NULL, NULL);
		_exit(conn < 0 || recv(conn, got, sizeof(got), 0) == 0 ? 0 : 1);
	}
	assert_int_equal(read(up[0], &byte, 1), 1);
	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), -EPERM);
	/* The connection is refused, so that its message is never read. */
	assert_int_equal(forward_recv(a, &h, got, sizeof(got)), -EBADMSG);
	assert_int_equal(forward_recv(a, &h, got, sizeof(got)), -EAGAIN);
	assert_int_equal(write(down[1], &byte, 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	forward_free(a);
	for (unsigned i = 0; i < 2; i++) {
		close(up[i]);
		close(down[i]);
	}
}

TEST(forward, slot_without_a_lane__list_of_names_is_read_once_a_second)
{
	struct forward *a;
	const uint64_t begin = monotonic_ms();
	uint8_t data[1] = {0};
	unsigned looks = 0;
	int fd, conn;

	user_need(SQUATTER, NULL);
	a = start(SLOT_A);
	user_act_as(SQUATTER);
	fd = squat_on(instance, FREE_SLOT, "+0123456789abcdef", true);
	user_return();
	assert_true(fd >= 0);
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(forward_send(a, FREE_SLOT, &sample, data, 1), -ECONNREFUSED);
		while ((conn = accept(fd, NULL, NULL)) >= 0) {
			close(conn);
			looks++;
		}
	}
	assert_in_range(looks, 1, 1 + (monotonic_ms() - begin) / 1000);
	close(fd);
	forward_free(a);
}

/* ---- offers of rings ---- */

static const struct forward_offer an_offer = {
	.src = {{0xfe, 0x80, 1}},
	.dst = {{[10] = 0xff, 0xff, 127, 0, 0, 1}},
	.scope_id = 0x12345678,
};

/* Offer a descriptor to SLOT_B. @return the connection. */
static int offer(struct forward *from, int ring)
{
	struct forward_offer o = an_offer;

	o.ring = ring;
	o.conn = forward_connect(from, SLOT_B);
	assert_true(o.conn >= 0);
	assert_int_equal(forward_offer(&o), 0);
	return o.conn;
}

TEST(forward, ring_offered__arrives_with_its_connection)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);
	struct forward_offer got;
	struct forward_hdr h;
	uint8_t buf[300];
	int ends[2], conn;
	char byte = 7;

	forward_accept_offers(b);
	assert_int_equal(pipe(ends), 0);
	conn = offer(a, ends[0]);
	assert_false(forward_offered(b, &got));
	assert_int_equal(take(b, &h, buf, sizeof(buf)), -EBADMSG);
	assert_true(forward_offered(b, &got));
	assert_false(forward_offered(b, &got));
	assert_memory_equal(&got.src, &an_offer.src, 16);
	assert_memory_equal(&got.dst, &an_offer.dst, 16);
	assert_int_equal(got.scope_id, an_offer.scope_id);
	/* What was offered, and the other end of the connection. */
	assert_int_equal(write(ends[1], &byte, 1), 1);
	assert_int_equal(read(got.ring, &byte, 1), 1);
	assert_int_equal(send(conn, &byte, 1, 0), 1);
	assert_int_equal(recv(got.conn, &byte, 1, MSG_DONTWAIT), 1);
	/* It has left the lane's own. */
	assert_int_equal(forward_recv(b, &h, buf, sizeof(buf)), -EAGAIN);
	close(conn);
	assert_int_equal(recv(got.conn, &byte, 1, MSG_DONTWAIT), 0);
	close(got.conn);
	close(got.ring);
	close(ends[0]);
	close(ends[1]);
	forward_free(a);
	forward_free(b);
}

/* Does the other end of a connection hang up when the lane has looked at what came? */
static void expect_refused(struct forward *b, int conn)
{
	struct forward_offer got;
	struct forward_hdr h;
	uint8_t buf[300];

	while (forward_recv(b, &h, buf, sizeof(buf)) != -EAGAIN)
		;
	assert_false(forward_offered(b, &got));
	assert_int_equal(recv(conn, buf, 1, MSG_DONTWAIT), 0);
	close(conn);
}

TEST(forward, ring_offered_to_a_lane_that_wants_none__refused)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);

	expect_refused(b, offer(a, STDIN_FILENO));
	forward_free(a);
	forward_free(b);
}

/* A message with n descriptors. */
static int send_raw(struct forward *from, const uint8_t *data, size_t len, unsigned n)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(4 * sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int conn = forward_connect(from, SLOT_B);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	assert_int_equal(sendmsg(conn, &m, 0), len);
	return conn;
}

TEST(forward, offer_that_is_none__refused_and_its_descriptors_closed)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);
	uint8_t data[41] = {'r', 's', 'h', '1'};
	int first, last;

	forward_accept_offers(b);
	first = dup(STDIN_FILENO);
	close(first);
	expect_refused(b, send_raw(a, data, 39, 1));
	expect_refused(b, send_raw(a, data, 41, 1));
	expect_refused(b, send_raw(a, data + 4, 37, 3));
	data[3] = '0';
	expect_refused(b, send_raw(a, data, 40, 1));
	forward_free(a);
	forward_free(b);
	last = dup(STDIN_FILENO);
	assert_true(last <= first);
	close(last);
}

/* ---- no descriptors left ---- */

/* From now on new descriptors get a number of more at most. @return what the limit was. */
static struct rlimit leave(unsigned more)
{
	const int next = dup(STDIN_FILENO);
	struct rlimit was, now;

	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = (struct rlimit){.rlim_cur = (rlim_t)next + more, .rlim_max = was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	return was;
}

TEST(forward, no_descriptor_for_a_connection__taken_when_there_is_one)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);
	uint8_t data[8] = {1}, buf[300];
	struct forward_hdr h;
	struct rlimit was;
	unsigned calls = 0;

	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	was = leave(0);
	/* It does not stay readable: the lane's thread would not sleep any more. */
	while (forward_recv(b, &h, buf, sizeof(buf)) != -EAGAIN)
		assert_true(++calls < 10);
	assert_true(forward_is_deaf(b));
	forward_listen(b);
	assert_int_equal(forward_recv(b, &h, buf, sizeof(buf)), -EBADMSG);
	assert_true(forward_is_deaf(b));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	forward_listen(b);
	assert_false(forward_is_deaf(b));
	assert_int_equal(take(b, &h, buf, sizeof(buf)), sizeof(data));
	forward_free(a);
	forward_free(b);
}

TEST(forward, no_descriptor_for_the_ring__refused)
{
	struct forward *a = start(SLOT_A), *b = start(SLOT_B);
	int conn = offer(a, STDIN_FILENO);
	struct rlimit was = leave(1);

	forward_accept_offers(b);
	expect_refused(b, conn);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	forward_free(a);
	forward_free(b);
}
