/* SPDX-License-Identifier: BSD-2-Clause */
/* Reader and writer of the messages between clients and the agent, and the names they meet under.
 */
#include "agent/protocol.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/protocol-gsi.h"
#include "base/bytes.h"
#include "base/util.h"

#define MAGIC 0x526f4341u /* "RoCA" */

enum { HDR_MAGIC = 0, HDR_VERSION = 4, HDR_TYPE = 6, HDR_LEN = 8 };
enum { SLOT_SLOT = 8, SLOT_INDEX = 10, SLOT_LEN = 12 };
enum { SOCKET_ADDR = 8, SOCKET_SCOPE = 24, SOCKET_LEN = 28, PEER_SLOT = 28, PEER_LEN = 30 };
enum { ERROR_ERRNO = 8, ERROR_TEXT = 12 };
_Static_assert((int)GSI_MSG_HDR_LEN == HDR_LEN, "bodies begin after the header");
enum { FROM_CLIENT = 8, FROM_ADDR = 10, FROM_LEN = 12 };
enum {
	PAGE_PID = 8,
	PAGE_UID = 12,
	PAGE_UPTIME = 16,
	PAGE_FLAGS = 24,
	PAGE_CLIENTS_TOTAL = 26,
	PAGE_ADDRS_TOTAL = 28,
	PAGE_NCLIENTS = 30,
	PAGE_NADDRS = 32,
	PAGE_ENTRIES = 34,
};
enum { PAGE_SYSTEM = 1, PAGE_RECOVERING = 2 };
enum { CLIENT_PID = 0, CLIENT_UID = 4, CLIENT_SLOT = 8, CLIENT_LEN = 10 };
enum { ADDR_ADDR = 0, ADDR_SCOPE = 16, ADDR_SOCKETS = 20, ADDR_DROPPED = 22, ADDR_LEN = 30 };

_Static_assert(PAGE_ENTRIES + AGENT_PAGE_CLIENTS * CLIENT_LEN + AGENT_PAGE_ADDRS * ADDR_LEN <=
		       AGENT_MSG_MAX,
	       "a page fits in a message");

/* Length and number of descriptors of each type. */
#define FDS(n) (1u << (n))
/* clang-format off */
static const struct msg_form {
	size_t min, max;
	unsigned fds;           /* set of allowed numbers of descriptors */
} forms[] = {
	[AGENT_HELLO]       = {HDR_LEN,      HDR_LEN,                     FDS(0)},
	[AGENT_REJOIN]      = {SLOT_LEN,     SLOT_LEN,                    FDS(1) | FDS(2) | FDS(3)},
	[AGENT_WELCOME]     = {SLOT_LEN,     SLOT_LEN,                    FDS(0) | FDS(1) | FDS(3)},
	[AGENT_SOCKET]      = {SOCKET_LEN,   SOCKET_LEN,                  FDS(0)},
	[AGENT_SOCKET_IS]   = {HDR_LEN,      HDR_LEN,                     FDS(1)},
	[AGENT_ERROR]       = {ERROR_TEXT,   ERROR_TEXT + AGENT_TEXT_MAX, FDS(0)},
	[AGENT_STATUS]      = {FROM_LEN,     FROM_LEN,                    FDS(0)},
	[AGENT_STATUS_PAGE] = {PAGE_ENTRIES, AGENT_MSG_MAX,               FDS(0)},
	[AGENT_PEER]        = {PEER_LEN,     PEER_LEN,                    FDS(0)},
	[AGENT_GSI_HELLO]    = {GSI_NUMBER_LEN, GSI_NUMBER_LEN,              FDS(0) | FDS(1)},
	[AGENT_GSI_WELCOME]  = {GSI_NUMBER_LEN, GSI_NUMBER_LEN,              FDS(1) | FDS(2)},
	[AGENT_GSI_OPEN]     = {SOCKET_LEN,   SOCKET_LEN,                  FDS(0)},
	[AGENT_GSI_BIND]     = {GSI_BIND_LEN,  GSI_BIND_LEN,                 FDS(0)},
	[AGENT_GSI_LISTEN]   = {GSI_KEY_LEN,   GSI_KEY_LEN,                  FDS(0)},
	[AGENT_GSI_UNBIND]   = {GSI_KEY_LEN,   GSI_KEY_LEN,                  FDS(0)},
	[AGENT_GSI_DONE]     = {GSI_DONE_LEN,  GSI_DONE_LEN,                 FDS(0)},
	[AGENT_GSI_STATUS]   = {GSI_FROM_LEN,  GSI_FROM_LEN,                 FDS(0)},
	[AGENT_GSI_STATUS_PAGE] = {GSI_PAGE_MIN_LEN, AGENT_MSG_MAX,         FDS(0)},
};
/* clang-format on */

static size_t encode_page(const struct agent_page *pg, uint8_t *buf)
{
	uint8_t *p = buf + PAGE_ENTRIES;

	put_be32(buf + PAGE_PID, pg->pid);
	put_be32(buf + PAGE_UID, pg->uid);
	put_be64(buf + PAGE_UPTIME, pg->uptime_ms);
	put_be16(buf + PAGE_FLAGS, (uint16_t)((pg->system ? PAGE_SYSTEM : 0) |
					      (pg->recovering ? PAGE_RECOVERING : 0)));
	put_be16(buf + PAGE_CLIENTS_TOTAL, pg->clients_total);
	put_be16(buf + PAGE_ADDRS_TOTAL, pg->addrs_total);
	put_be16(buf + PAGE_NCLIENTS, pg->nclients);
	put_be16(buf + PAGE_NADDRS, pg->naddrs);
	for (unsigned i = 0; i < pg->nclients; i++, p += CLIENT_LEN) {
		put_be32(p + CLIENT_PID, pg->clients[i].pid);
		put_be32(p + CLIENT_UID, pg->clients[i].uid);
		put_be16(p + CLIENT_SLOT, pg->clients[i].slot);
	}
	for (unsigned i = 0; i < pg->naddrs; i++, p += ADDR_LEN) {
		memcpy(p + ADDR_ADDR, pg->addrs[i].addr.raw, 16);
		put_be32(p + ADDR_SCOPE, pg->addrs[i].scope_id);
		put_be16(p + ADDR_SOCKETS, pg->addrs[i].sockets);
		put_be64(p + ADDR_DROPPED, pg->addrs[i].dropped);
	}
	return (size_t)(p - buf);
}

static int decode_page(const uint8_t *buf, size_t len, struct agent_page *pg)
{
	const uint8_t *p = buf + PAGE_ENTRIES;

	pg->pid = get_be32(buf + PAGE_PID);
	pg->uid = get_be32(buf + PAGE_UID);
	pg->uptime_ms = get_be64(buf + PAGE_UPTIME);
	pg->system = get_be16(buf + PAGE_FLAGS) & PAGE_SYSTEM;
	pg->recovering = get_be16(buf + PAGE_FLAGS) & PAGE_RECOVERING;
	pg->clients_total = get_be16(buf + PAGE_CLIENTS_TOTAL);
	pg->addrs_total = get_be16(buf + PAGE_ADDRS_TOTAL);
	pg->nclients = get_be16(buf + PAGE_NCLIENTS);
	pg->naddrs = get_be16(buf + PAGE_NADDRS);
	if (pg->nclients > AGENT_PAGE_CLIENTS || pg->naddrs > AGENT_PAGE_ADDRS ||
	    len != PAGE_ENTRIES + pg->nclients * (size_t)CLIENT_LEN + pg->naddrs * (size_t)ADDR_LEN)
		return -EBADMSG;
	for (unsigned i = 0; i < pg->nclients; i++, p += CLIENT_LEN) {
		pg->clients[i].pid = get_be32(p + CLIENT_PID);
		pg->clients[i].uid = get_be32(p + CLIENT_UID);
		pg->clients[i].slot = get_be16(p + CLIENT_SLOT);
	}
	for (unsigned i = 0; i < pg->naddrs; i++, p += ADDR_LEN) {
		memcpy(pg->addrs[i].addr.raw, p + ADDR_ADDR, 16);
		pg->addrs[i].scope_id = get_be32(p + ADDR_SCOPE);
		pg->addrs[i].sockets = get_be16(p + ADDR_SOCKETS);
		pg->addrs[i].dropped = get_be64(p + ADDR_DROPPED);
	}
	return 0;
}

size_t agent_msg_encode(const struct agent_msg *m, uint8_t *buf)
{
	size_t n;

	put_be32(buf + HDR_MAGIC, MAGIC);
	put_be16(buf + HDR_VERSION, AGENT_VERSION);
	put_be16(buf + HDR_TYPE, (uint16_t)m->type);
	switch (m->type) {
	case AGENT_HELLO:
	case AGENT_SOCKET_IS:
		return HDR_LEN;
	case AGENT_REJOIN:
	case AGENT_WELCOME:
		put_be16(buf + SLOT_SLOT, m->u.slot.slot);
		put_be16(buf + SLOT_INDEX, m->u.slot.first_index);
		return SLOT_LEN;
	case AGENT_SOCKET:
	case AGENT_GSI_OPEN:
	case AGENT_PEER:
		memcpy(buf + SOCKET_ADDR, m->u.socket.addr.raw, 16);
		put_be32(buf + SOCKET_SCOPE, m->u.socket.scope_id);
		if (m->type != AGENT_PEER)
			return SOCKET_LEN;
		put_be16(buf + PEER_SLOT, m->u.socket.slot);
		return PEER_LEN;
	case AGENT_ERROR:
		n = strnlen(m->u.error.text, AGENT_TEXT_MAX);
		put_be32(buf + ERROR_ERRNO, (uint32_t)m->u.error.err);
		memcpy(buf + ERROR_TEXT, m->u.error.text, n);
		return ERROR_TEXT + n;
	case AGENT_STATUS:
		put_be16(buf + FROM_CLIENT, m->u.from.client);
		put_be16(buf + FROM_ADDR, m->u.from.addr);
		return FROM_LEN;
	case AGENT_STATUS_PAGE:
		return encode_page(&m->u.page, buf);
	case AGENT_GSI_HELLO:
	case AGENT_GSI_WELCOME:
	case AGENT_GSI_BIND:
	case AGENT_GSI_LISTEN:
	case AGENT_GSI_UNBIND:
	case AGENT_GSI_DONE:
	case AGENT_GSI_STATUS:
	case AGENT_GSI_STATUS_PAGE:
		return gsi_msg_encode(m, buf);
	}
	return HDR_LEN;
}

static int decode_slot(const uint8_t *buf, struct agent_msg *m)
{
	m->u.slot.slot = get_be16(buf + SLOT_SLOT);
	m->u.slot.first_index = get_be16(buf + SLOT_INDEX);
	if (m->u.slot.slot >= AGENT_SLOTS || m->u.slot.first_index >= AGENT_INDEXES)
		return -EBADMSG;
	if (m->type == AGENT_WELCOME)
		return 0;
	/* Slot 0 stands for "only the stash". */
	return (m->u.slot.slot == 0) == (m->nfds == 2) ? 0 : -EBADMSG;
}

static int decode_error(const uint8_t *buf, size_t len, struct agent_msg *m)
{
	uint32_t err = get_be32(buf + ERROR_ERRNO);
	size_t n = len - ERROR_TEXT;

	if (err == 0 || err > 4095)
		return -EBADMSG;
	m->u.error.err = (int)err;
	for (size_t i = 0; i < n; i++) {
		uint8_t c = buf[ERROR_TEXT + i];

		/* It ends on somebody's terminal: one line, no control characters. */
		m->u.error.text[i] = c >= 0x20 && c != 0x7f ? (char)c : '?';
	}
	m->u.error.text[MIN(n, (size_t)AGENT_TEXT_MAX - 1)] = '\0';
	return 0;
}

int agent_msg_decode(const uint8_t *buf, size_t len, struct agent_msg *m)
{
	const struct msg_form *f;
	uint16_t type, version;

	if (len < HDR_LEN || get_be32(buf + HDR_MAGIC) != MAGIC)
		return -EBADMSG;
	version = get_be16(buf + HDR_VERSION);
	type = get_be16(buf + HDR_TYPE);
	m->type = (enum agent_msg_type)type;
	if (version != AGENT_VERSION && type != AGENT_ERROR)
		return -EPROTO;
	if (type == 0 || type >= ARRAY_LEN(forms))
		return -EBADMSG;
	f = &forms[type];
	if (len < f->min || len > f->max || m->nfds > AGENT_MSG_FDS || !(f->fds & FDS(m->nfds)))
		return -EBADMSG;

	switch (m->type) {
	case AGENT_REJOIN:
	case AGENT_WELCOME:
		return decode_slot(buf, m);
	case AGENT_SOCKET:
	case AGENT_GSI_OPEN:
		memcpy(m->u.socket.addr.raw, buf + SOCKET_ADDR, 16);
		m->u.socket.scope_id = get_be32(buf + SOCKET_SCOPE);
		m->u.socket.slot = 0;
		return 0;
	case AGENT_PEER:
		memcpy(m->u.socket.addr.raw, buf + SOCKET_ADDR, 16);
		m->u.socket.scope_id = get_be32(buf + SOCKET_SCOPE);
		m->u.socket.slot = get_be16(buf + PEER_SLOT);
		return m->u.socket.slot < AGENT_SLOTS ? 0 : -EBADMSG;
	case AGENT_ERROR:
		return decode_error(buf, len, m);
	case AGENT_STATUS:
		m->u.from.client = get_be16(buf + FROM_CLIENT);
		m->u.from.addr = get_be16(buf + FROM_ADDR);
		return 0;
	case AGENT_STATUS_PAGE:
		return decode_page(buf, len, &m->u.page);
	case AGENT_HELLO:
	case AGENT_SOCKET_IS:
		return 0;
	default:
		return gsi_msg_decode(buf, len, m);
	}
}

int agent_msg_send(int sock, const struct agent_msg *m, int flags)
{
	union {
		struct cmsghdr align;
		uint8_t buf[CMSG_SPACE(AGENT_MSG_FDS * sizeof(int))];
	} control = {0};
	uint8_t buf[AGENT_MSG_MAX];
	struct iovec iov = {.iov_base = buf, .iov_len = agent_msg_encode(m, buf)};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (m->nfds) {
		size_t bytes = m->nfds * sizeof(int);
		struct cmsghdr *cm;

		mh.msg_control = control.buf;
		mh.msg_controllen = CMSG_SPACE(bytes);
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(cm), m->fds, bytes);
	}
	do
		n = sendmsg(sock, &mh, MSG_NOSIGNAL | flags);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Move the descriptors of a received message to m; more than fit are closed and make it malformed.
 */
static int take_fds(struct msghdr *mh, struct agent_msg *m)
{
	int err = mh->msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EBADMSG : 0;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm; cm = CMSG_NXTHDR(mh, cm)) {
		size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
			if (m->nfds < AGENT_MSG_FDS) {
				m->fds[m->nfds++] = fd;
			} else {
				close(fd);
				err = -EBADMSG;
			}
		}
	}
	return err;
}

int agent_msg_recv(int sock, struct agent_msg *m, int flags)
{
	union {
		struct cmsghdr align;
		uint8_t buf[CMSG_SPACE(AGENT_MSG_FDS * sizeof(int))];
	} control;
	uint8_t buf[AGENT_MSG_MAX];
	struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf)};
	ssize_t n;
	int r;

	m->nfds = 0;
	do
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	r = take_fds(&mh, m);
	if (n == 0)
		r = -ECONNRESET;
	else if (!r)
		r = agent_msg_decode(buf, (size_t)n, m);
	if (r)
		agent_msg_close_fds(m);
	return r;
}

void agent_msg_close_fds(struct agent_msg *m)
{
	for (unsigned i = 0; i < m->nfds; i++)
		if (m->fds[i] >= 0)
			close(m->fds[i]);
	m->nfds = 0;
}

void agent_msg_set_error(struct agent_msg *m, int err, const char *fmt, ...)
{
	va_list ap;

	m->type = AGENT_ERROR;
	m->nfds = 0;
	m->u.error.err = err;
	va_start(ap, fmt);
	vsnprintf(m->u.error.text, sizeof(m->u.error.text), fmt, ap);
	va_end(ap);
}

int agent_realm_init(struct agent_realm *r, bool system)
{
	const char *name = secure_getenv("ROCEMU_AGENT_NAME");
	size_t n = name ? strlen(name) : 0;

	*r = (struct agent_realm){.system = system, .uid = geteuid()};
	if (n >= sizeof(r->name) ||
	    (n && strspn(name,
			 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != n))
		return -EINVAL;
	if (n)
		memcpy(r->name, name, n + 1);
	return 0;
}

socklen_t agent_realm_addr(const struct agent_realm *r, const char *part, struct sockaddr_un *sa)
{
	char who[16] = "system";
	int n;

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!r->system)
		snprintf(who, sizeof(who), "%u", (unsigned)r->uid);
	/* The name begins after a NUL byte: abstract. ':' cannot be in r->name, so names cannot
	 * collide. */
	n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "rocemu-agent-v%d:%s:%s:%s",
		     AGENT_VERSION, who, r->name, part);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

bool agent_realm_owns(const struct agent_realm *r, int sock, bool peer, const char *part)
{
	struct sockaddr_un want, is;
	socklen_t want_len = agent_realm_addr(r, part, &want), len = sizeof(is);
	int rc = (peer ? getpeername : getsockname)(sock, (struct sockaddr *)(void *)&is, &len);

	return rc == 0 && len == want_len && memcmp(&is, &want, len) == 0;
}
