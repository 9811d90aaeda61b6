/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/ipid.h"

#include <linux/net_tstamp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/util.h"
#include "engine/sysmsg.h"
#include "wire/ip.h"

enum {
	LINK_HEADER_MAX = 64,
	V4_VERSION_LEN = 0x45, /* first byte of a header without options */
	V4_ID = 4,
	V4_SRC = 12,
	V4_DST = 16,
};

/* The datagram comes back when it goes to the interface's queue: here, within the call. */
static bool send_probe(int fd, const struct sockaddr_in *to)
{
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof(uint32_t))] = {0};
	const uint32_t flags = SOF_TIMESTAMPING_TX_SCHED;
	struct msghdr m = {
		.msg_name = (void *)(uintptr_t)to,
		.msg_namelen = sizeof(*to),
		.msg_control = space,
		.msg_controllen = sizeof(space),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SO_TIMESTAMPING;
	c->cmsg_len = CMSG_LEN(sizeof(flags));
	memcpy(CMSG_DATA(c), &flags, sizeof(flags));
	return sys_sendmsg(fd, &m, MSG_DONTWAIT) == 0;
}

/* @return the identification, or -1. */
static int32_t read_probe(int fd, const struct sockaddr_in *to)
{
	uint8_t frame[LINK_HEADER_MAX + IPV4_LEN + UDP_LEN];
	struct iovec iov = {.iov_base = frame, .iov_len = sizeof(frame)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	const ssize_t len = sys_recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);
	const uint8_t *ip;

	if (len < IPV4_LEN + UDP_LEN || (m.msg_flags & MSG_TRUNC))
		return -1;
	ip = frame + len - IPV4_LEN - UDP_LEN;
	if (ip[0] != V4_VERSION_LEN ||
	    memcmp(ip + V4_SRC, &to->sin_addr, sizeof(to->sin_addr)) != 0 ||
	    memcmp(ip + V4_DST, &to->sin_addr, sizeof(to->sin_addr)) != 0)
		return -1;
	return get_be16(ip + V4_ID);
}

int32_t ipid_next(int fd, const struct sockaddr_in *to)
{
	int32_t last = -1;

	for (unsigned i = 0; i < 2; i++) {
		const int32_t before = last;

		last = send_probe(fd, to) ? read_probe(fd, to) : -1;
		if (last < 0 || (before >= 0 && (uint16_t)last != (uint16_t)(before + 1)))
			return -1;
	}
	return (uint16_t)(last + 1);
}
