/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodes and decodes the messages between clients and the agent, and makes the agent's names.
 */
#include "agent/protocol.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define MAGIC 0x526f4341u /* "RoCA" */

#define BODY(member) sizeof(((union agent_body *)NULL)->member)

_Static_assert(sizeof(struct agent_status_head) == 56 + 8 * AGENT_GSI_COUNTER_COUNT &&
		       sizeof(struct agent_addr_info) == 32 &&
		       sizeof(struct agent_gsi_client_info) == 40 &&
		       sizeof(struct agent_gsi_listener_info) == 40,
	       "no padding");
_Static_assert(BODY(error) == 4 + AGENT_TEXT_MAX && BODY(gsi_bind) == 40, "no padding");

/* The body's length and how many descriptors go with it. */
#define FDS(n) (1u << (n))
/* clang-format off */
static const struct msg_form {
	size_t body;
	unsigned fds;           /* set of allowed numbers of descriptors */
} forms[] = {
	[AGENT_HELLO]       = {BODY(hello),      FDS(0)},
	[AGENT_REJOIN]      = {BODY(rejoin),     FDS(0)},
	[AGENT_WELCOME]     = {BODY(welcome),    FDS(0) | FDS(1) | FDS(2)},
	[AGENT_SOCKET]      = {BODY(socket),     FDS(0)},
	[AGENT_SOCKET_IS]   = {0,                FDS(1)},
	[AGENT_ERROR]       = {BODY(error),      FDS(0)},
	[AGENT_STATUS]      = {0,                FDS(0)},
	[AGENT_STATUS_IS]   = {0,                FDS(1)},
	[AGENT_PEER]        = {BODY(socket),     FDS(0)},
	[AGENT_GSI_OPEN]    = {BODY(socket),     FDS(0)},
	[AGENT_GSI_CLOSE]   = {BODY(socket),     FDS(0)},
	[AGENT_GSI_BIND]    = {BODY(gsi_bind),   FDS(0)},
	[AGENT_GSI_LISTEN]  = {BODY(gsi_bind),   FDS(0)},
	[AGENT_GSI_UNBIND]  = {BODY(gsi_bind),   FDS(0)},
	[AGENT_GSI_DONE]    = {BODY(gsi_done),   FDS(0)},
};
/* clang-format on */

size_t agent_msg_encode(const struct agent_msg *m, uint8_t *buf)
{
	struct agent_msg_header h = {
		.magic = MAGIC, .version = AGENT_VERSION, .type = (uint16_t)m->type};

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), &m->u, forms[m->type].body);
	return sizeof(h) + forms[m->type].body;
}

static bool welcome_is_ok(const struct agent_msg *m)
{
	unsigned frames = m->u.welcome.kind == AGENT_GSI;

	return m->u.welcome.kind < AGENT_KIND_COUNT && m->u.welcome.place > 0 &&
	       m->u.welcome.place < AGENT_SEATS && m->u.welcome.first_index < AGENT_INDEXES &&
	       m->nfds >= frames && m->nfds <= frames + 1;
}

static bool error_is_ok(struct agent_msg *m)
{
	char *text = m->u.error.text;

	/* The text is printed to a terminal: one line, no control characters. */
	text[AGENT_TEXT_MAX - 1] = '\0';
	for (; *text; text++)
		if ((uint8_t)*text < 0x20 || *text == 0x7f)
			*text = '?';
	return m->u.error.err > 0 && m->u.error.err <= 4095;
}

/* Checks of the body beyond its length. */
static bool body_is_ok(struct agent_msg *m)
{
	switch (m->type) {
	case AGENT_HELLO:
		return m->u.hello.kind < AGENT_KIND_COUNT;
	case AGENT_REJOIN:
		return m->u.rejoin.kind < AGENT_KIND_COUNT && m->u.rejoin.place > 0 &&
		       m->u.rejoin.place < AGENT_SEATS;
	case AGENT_WELCOME:
		return welcome_is_ok(m);
	case AGENT_PEER:
		return m->u.socket.slot < AGENT_SLOTS;
	case AGENT_ERROR:
		return error_is_ok(m);
	case AGENT_GSI_BIND:
		return !(m->u.gsi_bind.bind.flags &
			 ~(uint32_t)(AGENT_GSI_REUSEADDR | AGENT_GSI_AFONLY));
	default:
		return true;
	}
}

int agent_msg_decode(const uint8_t *buf, size_t len, struct agent_msg *m)
{
	struct agent_msg_header h;

	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, buf, sizeof(h));
	if (h.magic != MAGIC)
		return -EBADMSG;
	m->type = (enum agent_msg_type)h.type;
	if (h.version != AGENT_VERSION && h.type != AGENT_ERROR)
		return -EPROTO;
	if (h.type == 0 || h.type >= ARRAY_LEN(forms) || len != sizeof(h) + forms[h.type].body ||
	    m->nfds > AGENT_MSG_FDS || !(forms[h.type].fds & FDS(m->nfds)))
		return -EBADMSG;
	memcpy(&m->u, buf + sizeof(h), forms[h.type].body);
	return body_is_ok(m) ? 0 : -EBADMSG;
}

union control {
	struct cmsghdr align;
	uint8_t buf[CMSG_SPACE(AGENT_FDS_MAX * sizeof(int))];
};

int agent_fds_send(int sock, const void *data, size_t len, const int *fds, unsigned n, int flags)
{
	union control control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n) {
		struct cmsghdr *cm;

		mh.msg_control = control.buf;
		mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, n * sizeof(int));
	}
	return TEMP_FAILURE_RETRY(sendmsg(sock, &mh, MSG_NOSIGNAL | flags)) < 0 ? -errno : 0;
}

ssize_t agent_fds_recv(int sock, void *data, size_t len, int *fds, unsigned max, unsigned *n,
		       int flags)
{
	union control control;
	struct iovec iov = {.iov_base = data, .iov_len = len};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = CMSG_SPACE(max * sizeof(int))};
	ssize_t r = TEMP_FAILURE_RETRY(recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | flags));

	*n = 0;
	if (r < 0)
		return -errno;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&mh); cm; cm = CMSG_NXTHDR(&mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		*n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cm), *n * sizeof(int));
	}
	if (r == 0)
		return -ECONNRESET;
	if (mh.msg_flags & MSG_TRUNC)
		return -EBADMSG;
	/* The kernel delivers no descriptors that the process has no numbers for. */
	if (mh.msg_flags & MSG_CTRUNC)
		return *n < max ? -EMFILE : -EBADMSG;
	return r;
}

int agent_msg_send(int sock, const struct agent_msg *m, int flags)
{
	uint8_t buf[AGENT_MSG_MAX];

	return agent_fds_send(sock, buf, agent_msg_encode(m, buf), m->fds, m->nfds, flags);
}

int agent_msg_recv(int sock, struct agent_msg *m, int flags)
{
	uint8_t buf[AGENT_MSG_MAX];
	ssize_t n = agent_fds_recv(sock, buf, sizeof(buf), m->fds, AGENT_MSG_FDS, &m->nfds, flags);
	int r = n < 0 ? (int)n : agent_msg_decode(buf, (size_t)n, m);

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
	memset(&m->u.error, 0, sizeof(m->u.error));
	m->u.error.err = (uint32_t)err;
	va_start(ap, fmt);
	vsnprintf(m->u.error.text, sizeof(m->u.error.text), fmt, ap);
	va_end(ap);
}

int agent_status_parse(struct agent_status *st, size_t len)
{
	struct agent_status_head *h = &st->agent;

	if (len < sizeof(*h))
		return -EPROTO;
	memcpy(h, st->data, sizeof(*h));
	if (len != sizeof(*h) + (uint64_t)h->naddrs * sizeof(*st->addrs) +
			   (uint64_t)h->ngsi_clients * sizeof(*st->gsi_clients) +
			   (uint64_t)h->nlisteners * sizeof(*st->listeners) +
			   (uint64_t)h->nclients * sizeof(*st->clients))
		return -EPROTO;
	st->addrs = (const void *)((uint8_t *)st->data + sizeof(*h));
	st->gsi_clients = (const void *)(st->addrs + h->naddrs);
	st->listeners = (const void *)(st->gsi_clients + h->ngsi_clients);
	st->clients = (const void *)(st->listeners + h->nlisteners);
	return 0;
}

int agent_instance_init(struct agent_instance *r, bool system)
{
	const char *name = secure_getenv("ROCEMU_AGENT_NAME");
	size_t n = name ? strlen(name) : 0;

	*r = (struct agent_instance){.system = system, .uid = geteuid()};
	if (n >= sizeof(r->name) ||
	    (n && strspn(name,
			 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != n))
		return -EINVAL;
	if (n)
		memcpy(r->name, name, n + 1);
	return 0;
}

socklen_t agent_instance_addr(const struct agent_instance *r, const char *suffix,
			      struct sockaddr_un *sa)
{
	char who[16] = "system";
	int n;

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!r->system)
		snprintf(who, sizeof(who), "%u", (unsigned)r->uid);
	/*
	 * The name begins after a NUL byte: abstract. r->name cannot contain ':' or '+', so names
	 * cannot collide.
	 */
	n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "rocemu-agent-v%d:%s:%s%s",
		     AGENT_VERSION, who, r->name, suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}
