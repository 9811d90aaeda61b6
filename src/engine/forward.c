/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/forward.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/syssocket.h"

enum { FLOW_LABEL_MAX = 0xfffff };

/* clang-format off */
enum {
	FWD_MAGIC   = 0,               /* 4 bytes */
	FWD_SRC     = 4,
	FWD_DST     = 20,
	FWD_SPORT   = 36,
	FWD_SEG_LEN = 38,
	FWD_IP_ID   = 40,
	FWD_TCLASS  = 42,
	FWD_HOP     = 43,
	FWD_FLOW    = 44,              /* 4 bytes */
};
/* clang-format on */
#define FORWARD_MAGIC 0x72666432u /* "rfd2": counts on with the layout */

void forward_encode(const struct forward_hdr *h, uint8_t buf[FORWARD_HDR_LEN])
{
	put_be32(buf + FWD_MAGIC, FORWARD_MAGIC);
	memcpy(buf + FWD_SRC, h->src.raw, 16);
	memcpy(buf + FWD_DST, h->dst.raw, 16);
	put_be16(buf + FWD_SPORT, h->sport);
	put_be16(buf + FWD_SEG_LEN, h->seg_len);
	put_be16(buf + FWD_IP_ID, h->ip_id);
	buf[FWD_TCLASS] = h->tclass;
	buf[FWD_HOP] = h->hop_limit;
	put_be32(buf + FWD_FLOW, h->flow_label);
}

int forward_decode(struct forward_hdr *h, const uint8_t *buf, size_t len)
{
	if (len <= FORWARD_HDR_LEN || get_be32(buf + FWD_MAGIC) != FORWARD_MAGIC ||
	    get_be32(buf + FWD_FLOW) > FLOW_LABEL_MAX)
		return -EBADMSG;
	memcpy(h->src.raw, buf + FWD_SRC, 16);
	memcpy(h->dst.raw, buf + FWD_DST, 16);
	h->sport = get_be16(buf + FWD_SPORT);
	h->seg_len = get_be16(buf + FWD_SEG_LEN);
	h->ip_id = get_be16(buf + FWD_IP_ID);
	h->tclass = buf[FWD_TCLASS];
	h->hop_limit = buf[FWD_HOP];
	h->flow_label = get_be32(buf + FWD_FLOW);
	return h->seg_len ? 0 : -EBADMSG;
}

/* Abstract, so per network namespace as port 4791 is, and gone with its owner. */
static socklen_t forward_name(struct sockaddr_un *un, uint16_t slot)
{
	int n;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rocemu-lane-%u-%u",
		     (unsigned)geteuid(), (unsigned)slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int forward_open(uint16_t slot)
{
	const int on = 1;
	struct sockaddr_un un;
	socklen_t len = forward_name(&un, slot);
	int fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    bind(fd, (const struct sockaddr *)&un, len)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int forward_send(int fd, uint16_t slot, const struct forward_hdr *h, const uint8_t *data,
		 size_t len)
{
	uint8_t hdr[FORWARD_HDR_LEN];
	struct sockaddr_un un;
	struct iovec iov[2] = {
		{.iov_base = hdr, .iov_len = sizeof(hdr)},
		{.iov_base = (void *)(uintptr_t)data, .iov_len = len},
	};
	struct msghdr m = {.msg_name = &un, .msg_iov = iov, .msg_iovlen = 2};

	m.msg_namelen = forward_name(&un, slot);
	forward_encode(h, hdr);
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The credentials the kernel vouches for; without them, nobody's. */
static int check_sender(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct ucred cred;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
		    c->cmsg_len < CMSG_LEN(sizeof(cred)))
			continue;
		memcpy(&cred, CMSG_DATA(c), sizeof(cred));
		return cred.uid == geteuid() || cred.uid == getuid() ? 0 : -EPERM;
	}
	return -EPERM;
}

ssize_t forward_recv(int fd, struct forward_hdr *h, uint8_t *buf, size_t size)
{
	uint8_t hdr[FORWARD_HDR_LEN];
	union {
		struct cmsghdr align;
		uint8_t room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov[2] = {
		{.iov_base = hdr, .iov_len = sizeof(hdr)},
		{.iov_base = buf, .iov_len = size},
	};
	struct msghdr m = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	/* File descriptors somebody may attach do not fit the control buffer and are closed by the
	 * kernel. */
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int err;

	if (n < 0)
		return -errno;
	err = check_sender(&m);
	if (!err && (m.msg_flags & MSG_TRUNC))
		err = -EBADMSG;
	if (!err)
		err = forward_decode(h, hdr, (size_t)n);
	return err ? err : n - FORWARD_HDR_LEN;
}
