/* SPDX-License-Identifier: BSD-2-Clause */
/* Bursts that the kernel refuses: shorter ones from then on, and nothing is lost. */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/lane-internal.h"
#include "node.h"
#include "transport/ep.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* Bursts of more segments are refused: 1: as on a device that cannot segment; 0: none. */
static atomic_uint refused_above;
static atomic_bool refused_once; /* and only the first of them */

/* By the message's segment size, or by the socket's own. */
static size_t segments(int fd, const struct msghdr *h)
{
	const struct cmsghdr *c = h->msg_control ? CMSG_FIRSTHDR(h) : NULL;
	uint16_t of_message;
	int size = 0;
	socklen_t optlen = sizeof(size);
	size_t len = 0;

	for (size_t i = 0; i < h->msg_iovlen; i++)
		len += h->msg_iov[i].iov_len;
	/* The engine puts it first. */
	if (c && c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT) {
		memcpy(&of_message, CMSG_DATA(c), sizeof(of_message));
		size = of_message;
	} else if (getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, &optlen)) {
		size = 0;
	}
	return size > 0 ? (len + (size_t)size - 1) / (size_t)size : 1;
}

static bool is_refused(int fd, const struct msghdr *h)
{
	return refused_above && segments(fd, h) > refused_above;
}

typedef long syscall_fn(long number, ...);

/* The kernel refuses more segments than any kernel takes, and has given the message an
 * identification by then. */
static void refuse(syscall_fn *call, int fd, const struct msghdr *h)
{
	enum { SEGMENTS = 200 };
	static uint8_t data[SEGMENTS];
	struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct msghdr m = {.msg_name = h->msg_name,
			   .msg_namelen = h->msg_namelen,
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	*CMSG_DATA(c) = 1;
	assert_int_equal(call(SYS_sendmsg, fd, &m, 0), -1);
	if (refused_once)
		refused_above = 0;
}

static int refuse_bursts(syscall_fn *call, int fd, struct mmsghdr *msg, unsigned n, int flags)
{
	unsigned good = n;

	int sent = 0;

	for (unsigned i = 0; i < good; i++)
		if (is_refused(fd, &msg[i].msg_hdr))
			good = i;
	if (good)
		sent = (int)call(SYS_sendmmsg, fd, msg, good, flags);
	if (good == n || sent < (int)good)
		return sent;
	refuse(call, fd, &msg[good].msg_hdr);
	errno = EIO;
	return good ? sent : -1;
}

static ssize_t refuse_burst(syscall_fn *call, int fd, const struct msghdr *msg, int flags)
{
	if (is_refused(fd, msg)) {
		refuse(call, fd, msg);
		errno = EIO;
		return -1;
	}
	return call(SYS_sendmsg, fd, msg, flags);
}

static syscall_fn *libc_syscall(void)
{
	void *found = dlsym(RTLD_NEXT, "syscall");
	syscall_fn *fn;

	memcpy(&fn, &found, sizeof(fn));
	return fn;
}

/*
 * In place of the C library's: the lane's code is linked into this program. With sanitizers it
 * calls sendmsg() and sendmmsg(), else syscall(), see base/syssocket.h.
 */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return refuse_burst(libc_syscall(), fd, msg, flags);
}

int sendmmsg(int fd, struct mmsghdr *msg, unsigned n, int flags)
{
	return refuse_bursts(libc_syscall(), fd, msg, n, flags);
}

long syscall(long number, ...)
{
	static _Atomic(syscall_fn *) real;
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (unsigned i = 0; i < ARRAY_LEN(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!real)
		real = libc_syscall();
	if (number == SYS_sendmsg)
		return refuse_burst(real, (int)a[0], (const struct msghdr *)a[1], (int)a[2]);
	if (number == SYS_sendmmsg)
		return refuse_bursts(real, (int)a[0], (struct mmsghdr *)a[1], (unsigned)a[2],
				     (int)a[3]);
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void write_where_bursts_are_refused(unsigned writes_before)
{
	const uint32_t len = 64 << 10;
	struct node a, b;
	struct lane_stats s;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_fill(&a, 2, len);
	for (unsigned i = 0; i < writes_before; i++) {
		node_write(&a, &b, 0, 2 * 1024, true);
		node_poll(&a);
	}
	lane_lock(a.lane);
	if (writes_before)
		assert_int_not_equal(a.lane->tx.set[0]->sock[0].segment, 0);
	lane_unlock(a.lane);
	refused_above = 1;
	node_write(&a, &b, 0, len, true);
	node_poll(&a);
	refused_above = 0;
	assert_memory_equal(a.mem, b.mem, len);
	s = node_stats(&a);
	assert_int_equal(s.tx_errors, 0);
	assert_true(s.tx_datagrams >= len / 1024);
	lane_lock(a.lane);
	assert_int_equal(a.lane->tx.set[0]->sock[0].max_segments, 1);
	assert_int_equal(a.lane->tx.set[0]->sock[0].segment, 0);
	lane_unlock(a.lane);
	node_close_pair(&a, &b);
}

TEST(lane, bursts_refused__single_datagrams_from_then_on)
{
	write_where_bursts_are_refused(0);
}

TEST(lane, bursts_refused_on_a_socket_with_a_segment_size__single_datagrams_from_then_on)
{
	write_where_bursts_are_refused(32);
}

/* As kernels before 6.9 do. */
TEST(lane, long_bursts_refused__shorter_ones_from_then_on)
{
	enum { WRITES = 100 };
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
	struct node a, b;
	struct lane_stats s;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	/* The window is open for them. */
	node_write(&a, &b, 0, 1 << 20, true);
	node_poll(&a);
	s = node_stats(&a);
	refused_above = TXGROUP_OLD_SEGMENTS;
	lane_lock(a.lane);
	for (unsigned i = 1; i <= WRITES; i++) {
		wr.send_flags = i == WRITES ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(rocemu_qp_post_send(a.qp, lane_now(), &wr, NULL), 0);
	}
	lane_kick(a.lane);
	assert_int_equal(a.lane->stats->tx_datagrams - s.tx_datagrams, WRITES);
	/* Refused, perhaps again without the segment size that the socket had; then two bursts. */
	assert_in_range(a.lane->stats->tx_syscalls - s.tx_syscalls, 2, 3);
	assert_int_equal(a.lane->stats->tx_errors, 0);
	assert_int_equal(a.lane->tx.set[0]->sock[0].max_segments, TXGROUP_OLD_SEGMENTS);
	lane_unlock(a.lane);
	refused_above = 0;
	node_poll(&a);
	node_close_pair(&a, &b);
}

/*
 * The socket is connected to its own address, and the ICRC has each packet's identification. The
 * refused message used one, and passes at the second try.
 */
TEST(lane, part_of_a_call_refused_once_on_a_connected_socket__every_icrc_right)
{
	enum { SMALL = 3, LARGE = 100 };
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct node a, b;
	struct lane_stats s;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.1");
	/* The window is open, and the socket has found its peer. */
	node_write(&a, &b, 0, 1 << 20, true);
	node_poll(&a);
	node_ping_pong(&a, &b, 20, 16);
	for (unsigned i = 0; i < SMALL + LARGE; i++)
		node_recv(&b, 0, 64);
	lane_lock(a.lane);
	s = *a.lane->stats;
	assert_true(a.lane->tx.set[0]->sock[0].counts);
	for (unsigned i = 0; i < SMALL + LARGE; i++) {
		wr.opcode = i < SMALL ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
		wr.send_flags = i + 1 == SMALL + LARGE ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(rocemu_qp_post_send(a.qp, lane_now(), &wr, NULL), 0);
	}
	refused_once = true;
	refused_above = LARGE / 2;
	lane_kick(a.lane);
	assert_int_equal(refused_above, 0);
	refused_once = false;
	assert_false(a.lane->tx.set[0]->sock[0].counts);
	/* Perhaps with an ACK that waited. */
	assert_in_range(a.lane->stats->tx_datagrams - s.tx_datagrams, SMALL + LARGE,
			SMALL + LARGE + 1);
	lane_unlock(a.lane);
	for (unsigned i = 0; i < SMALL + LARGE; i++)
		node_poll(&b);
	node_poll(&a);
	lane_lock(b.lane);
	assert_int_equal(rocemu_ep_get_stats(b.lane->ep)->drops[ROCEMU_DROP_ICRC], 0);
	lane_unlock(b.lane);
	node_close_pair(&a, &b);
}
