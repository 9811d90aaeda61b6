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

static int refuse_bursts(syscall_fn *call, int fd, struct mmsghdr *msg, unsigned n, int flags)
{
	unsigned good = n;

	for (unsigned i = 0; i < good; i++)
		if (is_refused(fd, &msg[i].msg_hdr))
			good = i;
	if (n && !good) {
		errno = EIO;
		return -1;
	}
	return (int)call(SYS_sendmmsg, fd, msg, good, flags);
}

static ssize_t refuse_burst(syscall_fn *call, int fd, const struct msghdr *msg, int flags)
{
	if (is_refused(fd, msg)) {
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
