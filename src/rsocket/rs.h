/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsocket: sockets over RDMA. Uses only the public calls of rdma_cm and verbs.
 *
 * A socket's number is the descriptor of its event channel, so it is unique, and can be polled for
 * events before there is a connection. Streams are RC connections (stream.h), datagrams UD QPs
 * beside a UDP socket (dgram.h); both begin with a struct rs. The wire protocol is that of
 * rdma-core's librdmacm, so that either end may be rdma-core: docs/rsocket.md.
 *
 * Locks: the table's (table.c) for the list of sockets; each socket's own for all of it. A thread
 * that has to wait releases the socket's lock (rs_ops.wait), so one may receive while another
 * sends.
 *
 * Internal functions return -errno, the exported ones -1 with errno (rs_ret()).
 */
#ifndef RSOCKET_RS_H
#define RSOCKET_RS_H

#pragma GCC visibility push(default)
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#pragma GCC visibility pop

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/mutex.h"
#include "base/util.h"
#include "rsocket/keepalive.h"
#include "rsocket/wait.h"

enum {
	RS_DEFAULT_QUEUE = 384,		/* entries of a stream's send and receive queue */
	RS_DEFAULT_BUFFER = 128 * 1024, /* bytes of its send and of its receive buffer */
	RS_DEFAULT_INLINE = 64,
	RS_SPIN_NS = 10000, /* how long to look for data before sleeping */
};

/** Settings, by options and by the files of /etc/rdma/rsocket. */
struct rs_settings {
	uint32_t sqsize, rqsize; /* entries */
	uint32_t sndbuf, rcvbuf; /* bytes */
	uint32_t inline_size;
	uint32_t iomap_size; /* entries that the peer may map, 0..127 */
};

struct rs;

struct rs_ops {
	int (*bind)(struct rs *rs, const struct sockaddr *addr, socklen_t len);
	int (*listen)(struct rs *rs, int backlog);
	int (*accept)(struct rs *rs, struct rs **conn);
	int (*connect)(struct rs *rs, const struct sockaddr *addr, socklen_t len);
	int (*shutdown)(struct rs *rs, int how);
	/** Ends all and frees the socket; its lock is held and goes with it. */
	void (*close)(struct rs *rs);
	/** flags: MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL. from: NULL, or the sender's address. Bytes
	 * or -errno. */
	ssize_t (*recv)(struct rs *rs, const struct iovec *iov, int n, int flags,
			struct sockaddr_storage *from, socklen_t *from_len);
	/** to: NULL or where to (datagrams). Bytes or -errno. */
	ssize_t (*send)(struct rs *rs, const struct iovec *iov, int n, int flags,
			const struct sockaddr *to, socklen_t to_len);
	/**
	 * The current state, of events (POLLIN, POLLOUT) and always POLLERR, POLLHUP; makes
	 * progress first.
	 */
	short (*ready)(struct rs *rs, short events);
	/**
	 * Prepare to sleep until ready() may have changed for these events: arms CQs and returns
	 * the descriptors to poll. The caller checks ready() once more before it sleeps. @return
	 * entries in fds, at most RS_WAIT_FDS.
	 */
	unsigned (*arm)(struct rs *rs, short events, struct pollfd *fds);
	/** After the sleep: handle these events. */
	void (*woken)(struct rs *rs);
	int (*getname)(struct rs *rs, bool peer, struct sockaddr_storage *addr, socklen_t *len);
	/** NULL, or: the ID of its connection, borrowed while the lock is held. */
	struct rdma_cm_id *(*id)(struct rs *rs);
	/**
	 * NULL, or: check the peer by the socket's keepalive options. @return when to call again,
	 * or 0: there is no peer.
	 */
	uint64_t (*tick)(struct rs *rs);
};
enum { RS_WAIT_FDS = 4 };

struct rs {
	const struct rs_ops *ops;
	struct mutex lock;
	int fd; /* its number */
	int domain, type;
	unsigned refs; /* threads that use it; guarded by the table's lock */
	bool orphan;   /* a forked child's copy */
	bool nonblock; /* O_NONBLOCK */
	int error;     /* SO_ERROR: an errno, or 0 */
	struct rs_settings set;
	bool settled; /* connected, or about to be: set no longer changes */
	struct rs_sleep sleep;
	struct rs_keepalive keep;
	bool reuseaddr, nodelay, oobinline, v6only;
	struct linger linger;
};

/* ---- table.c ---- */

/** The socket of a number with its lock held; NULL with errno EBADF. Give it back by rs_put(). */
struct rs *rs_get(int fd);
/** Close a socket that a forked child inherited. False: it is none. */
bool rs_close_orphan(int fd);
void rs_put(struct rs *rs);
/** The same without the lock. */
struct rs *rs_ref(int fd);
void rs_unref(struct rs *rs);
/** Is the number an rsocket? (rpoll() and rselect() take any descriptors.) */
bool rs_is(int fd);
/** A socket made by its kind gets its number; it is rs->fd. -ENOMEM. */
int rs_add(struct rs *rs);
/** Remove it from the table. Waits until no other thread uses it. Lock held before and
 * after. */
void rs_remove(struct rs *rs);
void rs_init(struct rs *rs, const struct rs_ops *ops, int domain, int type);
void rs_fini(struct rs *rs);

/** -1 with errno for -errno, else the value. */
static inline ssize_t rs_ret(ssize_t ret)
{
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

/** Bytes of an address. AF_IB: an address that is a GID, and a service ID. */
static inline socklen_t rs_addr_len(int family)
{
	if (family == AF_IB)
		return sizeof(struct sockaddr_ib);
	return family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* ---- wait.c ---- */

/** Monotonic nanoseconds. */
uint64_t rs_now(void);

/* ---- block.c ---- */

/**
 * Wait for one of events, or POLLERR or POLLHUP; the lock is released meanwhile. flags:
 * MSG_DONTWAIT. timeout_ms -1: no limit. 0, or -EAGAIN: not ready and must not wait, or the time is
 * over.
 */
int rs_wait(struct rs *rs, short events, int flags, int timeout_ms);

/* ---- setting.c ---- */

/** Defaults, and the administrator's files. */
void rs_settings_load(struct rs_settings *set);

/* ---- kinds ---- */

/** -errno. */
int rs_stream_new(int domain, struct rs **out);
int rs_dgram_new(int domain, struct rs **out);

bool rs_is_stream(const struct rs *rs);
/* iomap.c; -EOPNOTSUPP of datagrams */
int64_t rs_iomap(struct rs *rs, void *buf, size_t len, int prot, int64_t offset);
int rs_iounmap(struct rs *rs, void *buf, size_t len);
ssize_t rs_iowrite(struct rs *rs, const void *buf, size_t len, int64_t offset, int flags);

#endif
