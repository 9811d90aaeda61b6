/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/stash.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"

#define MAGIC 0x53746f31u /* "Sto1" */

enum {
	REC_MAGIC = 0,
	REC_ADDR = 4,
	REC_SCOPE = 20,
	REC_FIRST = 24,
	REC_COUNT = 26,
	REC_LEN = 28,
};
enum { QUEUE_BYTES = 1 << 20 };

union control {
	struct cmsghdr align;
	uint8_t buf[CMSG_SPACE(STASH_BATCH * sizeof(int))];
};

int stash_init(struct stash *s, const struct agent_realm *realm)
{
	struct sockaddr_un sa;
	socklen_t len = agent_realm_addr(realm, "stash", &sa);
	int pair[2], bytes = QUEUE_BYTES, r = 0;

	s->r = s->w = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	if (bind(pair[0], (struct sockaddr *)(void *)&sa, len))
		r = -errno;
	if (r) {
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	if (setsockopt(pair[1], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		(void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	s->r = pair[0];
	s->w = pair[1];
	return 0;
}

void stash_fini(struct stash *s)
{
	if (s->r >= 0)
		close(s->r);
	if (s->w >= 0)
		close(s->w);
	s->r = s->w = -1;
}

static bool is_stream(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

bool stash_is(int r, int w, const struct agent_realm *realm)
{
	return is_stream(r) && is_stream(w) && agent_realm_owns(realm, r, false, "stash") &&
	       agent_realm_owns(realm, w, true, "stash");
}

int stash_append(struct stash *s, const struct rocemu_gid *addr, uint32_t scope_id, unsigned first,
		 const int *fds, unsigned n)
{
	union control control = {0};
	uint8_t rec[REC_LEN];
	struct iovec iov = {.iov_base = rec, .iov_len = sizeof(rec)};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *cm;
	ssize_t sent;

	if (n == 0 || n > STASH_BATCH)
		return -EINVAL;
	put_be32(rec + REC_MAGIC, MAGIC);
	memcpy(rec + REC_ADDR, addr->raw, 16);
	put_be32(rec + REC_SCOPE, scope_id);
	put_be16(rec + REC_FIRST, (uint16_t)first);
	put_be16(rec + REC_COUNT, (uint16_t)n);
	mh.msg_control = control.buf;
	mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
	cm = CMSG_FIRSTHDR(&mh);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(cm), fds, n * sizeof(int));
	/* So short a record is one buffer of the queue: it goes in whole or not at all. */
	do
		sent = sendmsg(s->w, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN ? -ENOBUFS : -errno;
	return sent == REC_LEN ? 0 : -EIO;
}

static unsigned received_fds(struct msghdr *mh, int *fds)
{
	unsigned n = 0;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm; cm = CMSG_NXTHDR(mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cm), n * sizeof(int));
	}
	return n;
}

/* One record. @return 1, 0: there is no more, or -errno. */
static int load_one(struct stash *s, stash_record_fn *fn, void *user)
{
	union control control;
	uint8_t rec[REC_LEN];
	int fds[STASH_BATCH], r = -EBADMSG;
	struct iovec iov = {.iov_base = rec, .iov_len = sizeof(rec)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf)};
	struct rocemu_gid addr;
	ssize_t len;
	unsigned n;

	do
		len = recvmsg(s->r, &mh, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (len == 0)
		return 0;
	n = received_fds(&mh, fds);
	if (len == REC_LEN && !(mh.msg_flags & MSG_CTRUNC) && get_be32(rec + REC_MAGIC) == MAGIC &&
	    n > 0 && get_be16(rec + REC_COUNT) == n) {
		memcpy(addr.raw, rec + REC_ADDR, 16);
		r = fn(user, &addr, get_be32(rec + REC_SCOPE), get_be16(rec + REC_FIRST), fds, n);
	}
	if (!r)
		return 1;
	while (n)
		close(fds[--n]);
	return r;
}

int stash_load(struct stash *s, stash_record_fn *fn, void *user)
{
	int off = 0, r;

	/* With an offset set, each peek goes on where the last one ended. */
	if (setsockopt(s->r, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off)))
		return -errno;
	do
		r = load_one(s, fn, user);
	while (r > 0);
	off = -1;
	(void)setsockopt(s->r, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));
	return r;
}
