/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/forward.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/syssocket.h"
#include "engine/forward-name.h"
#include "engine/sysmsg.h"

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

/* clang-format off */
enum {
	OFFER_MAGIC = 0,               /* 4 bytes */
	OFFER_SRC   = 4,
	OFFER_DST   = 20,
	OFFER_SCOPE = 36,              /* 4 bytes */
	OFFER_LEN   = 40,              /* shorter than the head of any other message */
};
/* clang-format on */
#define RING_MAGIC 0x72736831u /* "rsh1": counts on with the layout of the ring, too */

/* Guards which descriptors of rings and of other lanes' connections there are, in all lanes of the
 * process. */
static struct mutex fork_lock = MUTEX_INITIALIZER;

void forward_hold_forks(void)
{
	mutex_lock(&fork_lock);
}

void forward_let_fork(void)
{
	mutex_unlock(&fork_lock);
}

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

/* Both directions; of more lanes the connection not used longest is closed, and made again when
 * needed. */
enum { PEERS_MAX = 16 };

struct forward_peer {
	int fd;	       /* owned, or -1 */
	uint16_t slot; /* to send to */
	uint64_t used;
};

struct forward {
	struct forward_finder finder;
	int epoll_fd;	/* owned: of listen_fd and from[] */
	int listen_fd;	/* owned */
	bool deaf;	/* listen_fd is not in epoll_fd */
	uint64_t clock; /* counts uses */
	struct forward_peer to[PEERS_MAX], from[PEERS_MAX];
	bool accepts_offers;
	bool offered; /* offer is there, its descriptors owned */
	struct forward_offer offer;
};

static int watch(struct forward *f, int fd, uint32_t index)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = index};

	return epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static void close_peer(struct forward_peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* A free entry, or the least recently used one. */
static struct forward_peer *place(struct forward_peer *peers)
{
	struct forward_peer *p = &peers[0];

	for (unsigned i = 0; i < PEERS_MAX && p->fd >= 0; i++)
		if (peers[i].fd < 0 || peers[i].used < p->used)
			p = &peers[i];
	close_peer(p);
	return p;
}

static int listen_on(struct forward *f, uint16_t slot)
{
	f->listen_fd = forward_name_listen(f->finder.instance, slot);
	return f->listen_fd < 0 ? f->listen_fd : watch(f, f->listen_fd, PEERS_MAX);
}

int forward_new(struct forward **out, const char *instance, uint16_t slot)
{
	struct forward *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	snprintf(f->finder.instance, sizeof(f->finder.instance), "%s", instance);
	f->listen_fd = -1;
	for (unsigned i = 0; i < PEERS_MAX; i++)
		f->to[i].fd = f->from[i].fd = -1;
	f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = f->epoll_fd < 0 ? -errno : listen_on(f, slot);
	if (err) {
		forward_free(f);
		return err;
	}
	*out = f;
	return 0;
}

static void drop_offer(struct forward *f)
{
	if (!f->offered)
		return;
	close(f->offer.ring);
	close(f->offer.conn);
	f->offered = false;
}

void forward_close(struct forward *f)
{
	drop_offer(f);
	for (unsigned i = 0; i < PEERS_MAX; i++) {
		close_peer(&f->to[i]);
		close_peer(&f->from[i]);
	}
	if (f->listen_fd >= 0)
		close(f->listen_fd);
	if (f->epoll_fd >= 0)
		close(f->epoll_fd);
	f->listen_fd = f->epoll_fd = -1;
}

void forward_free(struct forward *f)
{
	if (!f)
		return;
	forward_close(f);
	free(f);
}

int forward_fd(const struct forward *f)
{
	return f->epoll_fd;
}

bool forward_is_deaf(const struct forward *f)
{
	return f->deaf;
}

void forward_listen(struct forward *f)
{
	if (f->deaf)
		f->deaf = watch(f, f->listen_fd, PEERS_MAX) != 0;
}

int forward_connect(struct forward *f, uint16_t slot)
{
	return forward_name_connect(&f->finder, slot);
}

static int connect_to(struct forward *f, uint16_t slot, struct forward_peer **out)
{
	const int fd = forward_connect(f, slot);
	struct forward_peer *p;

	if (fd < 0)
		return fd;
	p = place(f->to);
	p->fd = fd;
	p->slot = slot;
	*out = p;
	return 0;
}

static struct forward_peer *find(struct forward *f, uint16_t slot)
{
	for (unsigned i = 0; i < PEERS_MAX; i++)
		if (f->to[i].fd >= 0 && f->to[i].slot == slot)
			return &f->to[i];
	return NULL;
}

int forward_send(struct forward *f, uint16_t slot, const struct forward_hdr *h, const uint8_t *data,
		 size_t len)
{
	uint8_t hdr[FORWARD_HDR_LEN];
	struct iovec iov[2] = {
		{.iov_base = hdr, .iov_len = sizeof(hdr)},
		{.iov_base = (void *)(uintptr_t)data, .iov_len = len},
	};
	const struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	struct forward_peer *p = find(f, slot);
	UNCANCELLED;
	int err = 0;

	forward_encode(h, hdr);
	/* A connection that has ended is made again: the slot may have another lane. */
	for (unsigned tries = 0; tries < 2; tries++) {
		if (!p)
			err = connect_to(f, slot, &p);
		if (err)
			return err;
		p->used = ++f->clock;
		if (sys_sendmsg(p->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		err = -errno;
		if (err != -EPIPE && err != -ECONNRESET)
			return err;
		close_peer(p);
		p = NULL;
		err = 0;
	}
	return -ECONNRESET;
}

static void accept_one(struct forward *f)
{
	const int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct forward_peer *p;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
		epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, f->listen_fd, NULL);
		f->deaf = true;
	}
	if (fd < 0)
		return;
	p = forward_is_same_user(fd) ? place(f->from) : NULL;
	if (!p || watch(f, fd, (uint32_t)(p - f->from))) {
		close(fd);
		return;
	}
	p->fd = fd;
	p->used = ++f->clock;
}

/* ---- offers of rings ---- */

void forward_accept_offers(struct forward *f)
{
	f->accepts_offers = true;
}

int forward_offer(const struct forward_offer *o)
{
	uint8_t data[OFFER_LEN];
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
	const struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	put_be32(data + OFFER_MAGIC, RING_MAGIC);
	memcpy(data + OFFER_SRC, o->src.raw, 16);
	memcpy(data + OFFER_DST, o->dst.raw, 16);
	put_be32(data + OFFER_SCOPE, o->scope_id);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &o->ring, sizeof(int));
	return sendmsg(o->conn, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The descriptor that came with a message, or -1. There was room for one. */
static int descriptor_of(struct msghdr *m)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

static bool is_offer(const struct forward *f, const uint8_t *data, ssize_t len, int fd)
{
	return len == OFFER_LEN && get_be32(data + OFFER_MAGIC) == RING_MAGIC && fd >= 0 &&
	       f->accepts_offers && !f->offered;
}

/* The connection is no longer used for datagrams. */
static void take_offer(struct forward *f, struct forward_peer *p, const uint8_t *data, int fd)
{
	f->offer.ring = fd;
	f->offer.conn = p->fd;
	memcpy(f->offer.src.raw, data + OFFER_SRC, 16);
	memcpy(f->offer.dst.raw, data + OFFER_DST, 16);
	f->offer.scope_id = get_be32(data + OFFER_SCOPE);
	f->offered = true;
	epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, p->fd, NULL);
	p->fd = -1;
}

bool forward_offered(struct forward *f, struct forward_offer *o)
{
	const bool offered = f->offered;

	*o = f->offer;
	f->offered = false;
	return offered;
}

static ssize_t recv_from(struct forward *f, struct forward_peer *p, struct forward_hdr *h,
			 uint8_t *buf, size_t size)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	uint8_t hdr[FORWARD_HDR_LEN];
	struct iovec iov[2] = {
		{.iov_base = hdr, .iov_len = sizeof(hdr)},
		{.iov_base = buf, .iov_len = size},
	};
	struct msghdr m = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		/* Room for one descriptor, without the padding: the kernel closes further ones. */
		.msg_control = control,
		.msg_controllen = CMSG_LEN(sizeof(int)),
	};
	const ssize_t n = recvmsg(p->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int err, fd;

	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	fd = n > 0 ? descriptor_of(&m) : -1;
	if (is_offer(f, hdr, n, fd)) {
		take_offer(f, p, hdr, fd);
		return -EBADMSG;
	}
	if (fd >= 0)
		close(fd);
	/* Truncated: there was no descriptor free for the one that came. */
	if (n <= 0 || fd >= 0 || (m.msg_flags & MSG_CTRUNC)) {
		close_peer(p);
		return -EBADMSG;
	}
	p->used = ++f->clock;
	err = m.msg_flags & MSG_TRUNC ? -EBADMSG : forward_decode(h, hdr, (size_t)n);
	return err ? err : n - FORWARD_HDR_LEN;
}

ssize_t forward_recv(struct forward *f, struct forward_hdr *h, uint8_t *buf, size_t size)
{
	ssize_t n = -EBADMSG;
	struct epoll_event ev;

	if (epoll_wait(f->epoll_fd, &ev, 1, 0) < 1)
		return -EAGAIN;
	forward_hold_forks();
	if (ev.data.u32 < PEERS_MAX)
		n = recv_from(f, &f->from[ev.data.u32], h, buf, size);
	else
		accept_one(f);
	forward_let_fork();
	return n;
}
