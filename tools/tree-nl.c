/* SPDX-License-Identifier: BSD-2-Clause */
#include "tree-nl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/syssocket.h"
#include "engine/portcount.h"
#include "nldev/nldev.h"

enum {
	REQUEST_MAX = 8192,
	REQUESTS = 16, /* at a time: the tree is maintained in between */
	PORT_TRIES = 16,
	/* A program that does not read has so many milliseconds in all; another user's. */
	PATIENCE_MS = 1000,
	PATIENCE_OTHER_MS = 1,
};

/* ---- what there is ---- */

struct world {
	struct tree *tree;
	bool own;     /* the client is the tree's user, or root: it is shown objects */
	unsigned dev; /* of file and objects */
	struct countfile *file;
	int objects; /* file, or -1 */
	/* What the row at the cursor shows. */
	uint32_t row;
	uint32_t pid; /* 0: nothing */
	struct rocemu_ep_shown shown;
};

static void close_device(struct world *w)
{
	countfile_unmap(w->file);
	if (w->objects >= 0)
		close(w->objects);
	w->file = NULL;
	w->objects = -1;
	w->dev = UINT_MAX;
	w->row = UINT32_MAX;
}

static void open_device(struct world *w, unsigned dev)
{
	const char *name = w->tree->devs[dev].name;
	char path[PATH_MAX];

	if (w->dev == dev)
		return;
	close_device(w);
	w->dev = dev;
	if (portcount_path(path, sizeof(path), w->tree->files.root, name))
		w->file = countfile_map(path);
	if (w->own && portcount_shown_path(path, sizeof(path), w->tree->files.root, name))
		w->objects = open(path, O_RDONLY | O_CLOEXEC);
}

/** Take in what a row's owner shows. @return false: it has none, or shows nothing. */
static bool read_row(struct world *w, uint32_t row)
{
	const off_t at = (off_t)row * PORTCOUNT_SHOWN_STRIDE;

	if (w->row == row)
		return w->pid != 0;
	w->row = row;
	w->pid = w->objects >= 0 ? countfile_owner(w->file, row) : 0;
	if (w->pid && pread(w->objects, &w->shown, sizeof(w->shown), at) != sizeof(w->shown))
		w->pid = 0;
	return w->pid != 0;
}

static uint32_t rows(const struct world *w)
{
	const uint32_t used = w->file ? __atomic_load_n(&w->file->used, __ATOMIC_ACQUIRE) : 0;

	return used < COUNTFILE_ROWS ? used : COUNTFILE_ROWS;
}

static const struct countfile *counts(void *user, unsigned dev)
{
	open_device(user, dev);
	return ((struct world *)user)->file;
}

static uint64_t objects(void *user, unsigned dev, enum rocemu_object kind)
{
	struct world *w = user;
	uint64_t sum = 0;

	open_device(w, dev);
	for (uint32_t row = 0; row < rows(w); row++)
		if (read_row(w, row))
			sum += w->shown.objects[kind];
	return sum;
}

static bool next_qp(void *user, unsigned dev, uint64_t *cursor, struct nldev_qp *qp)
{
	struct world *w = user;
	uint64_t at = *cursor;

	open_device(w, dev);
	for (; at >> ROCEMU_QPN_INDEX_BITS < rows(w); at++) {
		const uint32_t index = at & ((1 << ROCEMU_QPN_INDEX_BITS) - 1);

		if (!read_row(w, (uint32_t)(at >> ROCEMU_QPN_INDEX_BITS))) {
			at |= (1 << ROCEMU_QPN_INDEX_BITS) - 1;
			continue;
		}
		qp->info = w->shown.qp[index];
		qp->pid = w->pid;
		if (!qp->info.qpn)
			continue;
		*cursor = at + 1;
		return true;
	}
	*cursor = at;
	return false;
}

/* ---- the socket ---- */

int tree_nl_open(struct tree *t)
{
	const int fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
	struct sockaddr_nl a = {.nl_family = AF_NETLINK};
	char path[PATH_MAX], port[16];
	int err = -EADDRINUSE;
	const int on = 1;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		err = -errno;
	/* Not the process ID: the executed program may use it. */
	for (unsigned tries = 0; tries < PORT_TRIES && err == -EADDRINUSE; tries++) {
		if (getrandom(&a.nl_pid, sizeof(a.nl_pid), 0) < 0)
			break;
		a.nl_pid |= 1u << 31;
		err = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	}
	snprintf(port, sizeof(port), "%u", a.nl_pid);
	snprintf(path, sizeof(path), "%s/netlink", t->files.root);
	if (!err && symlink(port, path) < 0)
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

struct client {
	int fd;
	struct sockaddr_nl address;
	bool own;
	unsigned patience_ms;
};

/* Take a request of at most max bytes; the kernel reports whose it is. @return as recvmsg(). */
static ssize_t receive(struct client *c, void *request, size_t max)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = {request, max};
	struct msghdr h = {.msg_name = &c->address,
			   .msg_namelen = sizeof(c->address),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	const ssize_t n = recvmsg(c->fd, &h, MSG_DONTWAIT | MSG_TRUNC);
	struct ucred cred = {.uid = (uid_t)-1};
	struct cmsghdr *m = n < 0 ? NULL : CMSG_FIRSTHDR(&h);

	if (m && m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_CREDENTIALS)
		memcpy(&cred, CMSG_DATA(m), sizeof(cred));
	c->own = cred.uid == geteuid() || cred.uid == 0;
	c->patience_ms = c->own ? PATIENCE_MS : PATIENCE_OTHER_MS;
	return n;
}

static void send_to(void *user, const void *data, size_t len)
{
	struct client *c = user;

	while (c->patience_ms > 0 &&
	       sendto(c->fd, data, len, MSG_DONTWAIT, (struct sockaddr *)&c->address,
		      sizeof(c->address)) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN) {
			c->patience_ms = 0;
			return;
		}
		/* Its buffer is full. There is no notification when it has read. */
		c->patience_ms--;
		poll(NULL, 0, 1);
	}
}

void tree_nl_answer(struct tree *t, int fd)
{
	static struct world world; /* large */
	static uint8_t request[REQUEST_MAX] __attribute__((aligned(4)));
	const struct nldev_world w = {
		.devs = t->devs,
		.ndevs = t->ndevs,
		.fw_ver = ROCEMU_VERSION,
		.counts = counts,
		.objects = objects,
		.next_qp = next_qp,
		.user = &world,
	};

	world.tree = t;
	world.objects = -1;
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct client c = {.fd = fd};
		struct nlout o = {.send = send_to, .user = &c};
		const ssize_t n = receive(&c, request, sizeof(request));

		if (n < 0)
			break;
		if ((size_t)n > sizeof(request) || !c.address.nl_pid)
			continue;
		c.address.nl_groups = 0;
		o.port = c.address.nl_pid;
		world.own = c.own;
		close_device(&world);
		nldev_answer(&w, request, (size_t)n, &o);
	}
	close_device(&world);
}
