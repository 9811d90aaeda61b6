/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket options, one table per level. An unsupported option is ENOPROTOOPT. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/why.h"
#include "rsocket/rs.h"
#include "rsocket/setting.h"

struct option {
	int level, name;
	bool stream_only;
	/** The value's bytes; 0: set() and get() check them. */
	socklen_t len;
	/** NULL: it is read-only. -errno. */
	int (*set)(struct rs *rs, const void *value, socklen_t len);
	/** In: the room; out: bytes of the value. -errno. */
	int (*get)(struct rs *rs, void *value, socklen_t *len);
};

static int int_at(const void *value)
{
	int n;

	memcpy(&n, value, sizeof(n));
	return n;
}

static int give_int(void *value, int n)
{
	memcpy(value, &n, sizeof(n));
	return 0;
}

#define FLAG(name, field)                                                      \
	static int set_##name(struct rs *rs, const void *value, socklen_t len) \
	{                                                                      \
		(void)len;                                                     \
		rs->field = int_at(value) != 0;                                \
		return 0;                                                      \
	}                                                                      \
	static int get_##name(struct rs *rs, void *value, socklen_t *len)      \
	{                                                                      \
		(void)len;                                                     \
		return give_int(value, rs->field);                             \
	}

FLAG(reuseaddr, reuseaddr)
FLAG(nodelay, nodelay)
FLAG(oobinline, oobinline)
FLAG(v6only, v6only)

static int refuse_size(const struct rs *rs, const char *name, int n)
{
	return REFUSE(-EINVAL, (unsigned)rs->fd,
		      "rsetsockopt: %s is %d: it must not be negative, and must be set before "
		      "connecting: %s",
		      name, n, n < 0 ? "change it" : "set it earlier");
}

static int refuse_length(const char *call, const struct rs *rs, int option, socklen_t len,
			 socklen_t least)
{
	return REFUSE(-EINVAL, (unsigned)rs->fd,
		      "%s: option %d has %u bytes: it needs %u: pass that length", call, option,
		      (unsigned)len, (unsigned)least);
}

/* Sizes are those of memory and queues that are made when the connection is. */
#define SIZE(name, field, range)                                               \
	static int set_##name(struct rs *rs, const void *value, socklen_t len) \
	{                                                                      \
		const int n = int_at(value);                                   \
                                                                               \
		(void)len;                                                     \
		if (n < 0 || rs->settled)                                      \
			return refuse_size(rs, #name, n);                      \
		rs->set.field = range((uint32_t)n);                            \
		return 0;                                                      \
	}                                                                      \
	static int get_##name(struct rs *rs, void *value, socklen_t *len)      \
	{                                                                      \
		(void)len;                                                     \
		return give_int(value, (int)rs->set.field);                    \
	}

SIZE(sqsize, sqsize, rs_queue_size)
SIZE(rqsize, rqsize, rs_queue_size)
SIZE(inline_size, inline_size, rs_inline_size)
SIZE(iomap_size, iomap_size, rs_iomap_size)

/* A late request for another buffer size succeeds without effect, as with the kernel. */
#define BUFFER(name, field)                                                      \
	static int set_##name(struct rs *rs, const void *value, socklen_t len)   \
	{                                                                        \
		const int n = int_at(value);                                     \
                                                                                 \
		(void)len;                                                       \
		if (!rs->settled)                                                \
			rs->set.field = rs_buffer_size(n < 0 ? 0 : (uint32_t)n); \
		return 0;                                                        \
	}                                                                        \
	static int get_##name(struct rs *rs, void *value, socklen_t *len)        \
	{                                                                        \
		(void)len;                                                       \
		return give_int(value, (int)rs->set.field);                      \
	}

BUFFER(sndbuf, sndbuf)
BUFFER(rcvbuf, rcvbuf)

static int get_error(struct rs *rs, void *value, socklen_t *len)
{
	const int err = rs->error;

	(void)len;
	rs->error = 0;
	return give_int(value, err);
}

static int get_type(struct rs *rs, void *value, socklen_t *len)
{
	(void)len;
	return give_int(value, rs->type);
}

static int get_domain(struct rs *rs, void *value, socklen_t *len)
{
	(void)len;
	return give_int(value, rs->domain);
}

static int get_protocol(struct rs *rs, void *value, socklen_t *len)
{
	(void)len;
	return give_int(value, rs->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP);
}

static int set_linger(struct rs *rs, const void *value, socklen_t len)
{
	(void)len;
	memcpy(&rs->linger, value, sizeof(rs->linger));
	return 0;
}

static int get_linger(struct rs *rs, void *value, socklen_t *len)
{
	(void)len;
	memcpy(value, &rs->linger, sizeof(rs->linger));
	return 0;
}

/* TCP_MAXSEG has no effect: the QP splits messages into packets. */
static int set_maxseg(struct rs *rs, const void *value, socklen_t len)
{
	(void)len;
	if (int_at(value) > 0)
		return 0;
	return REFUSE(-EINVAL, (unsigned)rs->fd,
		      "rsetsockopt: TCP_MAXSEG is %d: it must be more than 0: change it",
		      int_at(value));
}

static int get_maxseg(struct rs *rs, void *value, socklen_t *len)
{
	enum { MTU_DEFAULT = 1024, MTU_LEAST = 128 };
	const struct rdma_cm_id *id = rs->ops->id ? rs->ops->id(rs) : NULL;

	(void)len;
	if (!id || id->route.num_paths == 0)
		return give_int(value, MTU_DEFAULT);
	return give_int(value, MTU_LEAST << id->route.path_rec->mtu);
}

static int set_keepalive(struct rs *rs, const void *value, socklen_t len)
{
	(void)len;
	rs->keep.on = int_at(value) != 0;
	rs_keepalive_update(rs);
	return 0;
}

static int get_keepalive(struct rs *rs, void *value, socklen_t *len)
{
	(void)len;
	return give_int(value, rs->keep.on);
}

/* The ranges are TCP's. */
enum { KEEP_SECONDS_MAX = 32767, KEEP_COUNT_MAX = 127 };

#define KEEP(name, field, in_force, most)                                                          \
	static int set_##name(struct rs *rs, const void *value, socklen_t len)                     \
	{                                                                                          \
		const int n = int_at(value);                                                       \
                                                                                                   \
		(void)len;                                                                         \
		if (n < 1 || n > (most))                                                           \
			return REFUSE(-EINVAL, (unsigned)rs->fd,                                   \
				      "rsetsockopt: " #name " is %d: it is 1 to %d: change it", n, \
				      (int)(most));                                                \
		rs->keep.field = (unsigned)n;                                                      \
		rs_keepalive_update(rs);                                                           \
		return 0;                                                                          \
	}                                                                                          \
	static int get_##name(struct rs *rs, void *value, socklen_t *len)                          \
	{                                                                                          \
		(void)len;                                                                         \
		return give_int(value, (int)in_force(rs));                                         \
	}

KEEP(keepidle, idle, rs_keepalive_idle_s, KEEP_SECONDS_MAX)
KEEP(keepintvl, interval, rs_keepalive_interval_s, KEEP_SECONDS_MAX)
KEEP(keepcnt, count, rs_keepalive_count, KEEP_COUNT_MAX)

static int set_route(struct rs *rs, const void *value, socklen_t len)
{
	struct rdma_cm_id *id = rs->ops->id ? rs->ops->id(rs) : NULL;

	if (!id || rs->settled)
		return REFUSE(-EINVAL, (unsigned)rs->fd,
			      "rsetsockopt: RDMA_ROUTE of rsocket %d: only unconnected streams "
			      "have the option: set it before rconnect()",
			      rs->fd);
	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, (void *)(uintptr_t)value,
			       len)
		       ? -errno
		       : 0;
}

static const struct option options[] = {
	/* clang-format off */
	{SOL_SOCKET, SO_ERROR, false, sizeof(int), NULL, get_error},
	{SOL_SOCKET, SO_TYPE, false, sizeof(int), NULL, get_type},
	{SOL_SOCKET, SO_DOMAIN, false, sizeof(int), NULL, get_domain},
	{SOL_SOCKET, SO_PROTOCOL, false, sizeof(int), NULL, get_protocol},
	{SOL_SOCKET, SO_REUSEADDR, false, sizeof(int), set_reuseaddr, get_reuseaddr},
	{SOL_SOCKET, SO_RCVBUF, false, sizeof(int), set_rcvbuf, get_rcvbuf},
	{SOL_SOCKET, SO_SNDBUF, false, sizeof(int), set_sndbuf, get_sndbuf},
	{SOL_SOCKET, SO_LINGER, false, sizeof(struct linger), set_linger, get_linger},
	{SOL_SOCKET, SO_KEEPALIVE, false, sizeof(int), set_keepalive, get_keepalive},
	{SOL_SOCKET, SO_OOBINLINE, false, sizeof(int), set_oobinline, get_oobinline},
	{IPPROTO_TCP, TCP_NODELAY, true, sizeof(int), set_nodelay, get_nodelay},
	{IPPROTO_TCP, TCP_MAXSEG, true, sizeof(int), set_maxseg, get_maxseg},
	{IPPROTO_TCP, TCP_KEEPIDLE, true, sizeof(int), set_keepidle, get_keepidle},
	{IPPROTO_TCP, TCP_KEEPINTVL, true, sizeof(int), set_keepintvl, get_keepintvl},
	{IPPROTO_TCP, TCP_KEEPCNT, true, sizeof(int), set_keepcnt, get_keepcnt},
	{IPPROTO_IPV6, IPV6_V6ONLY, false, sizeof(int), set_v6only, get_v6only},
	{SOL_RDMA, RDMA_SQSIZE, false, sizeof(int), set_sqsize, get_sqsize},
	{SOL_RDMA, RDMA_RQSIZE, false, sizeof(int), set_rqsize, get_rqsize},
	{SOL_RDMA, RDMA_INLINE, false, sizeof(int), set_inline_size, get_inline_size},
	{SOL_RDMA, RDMA_IOMAPSIZE, true, sizeof(int), set_iomap_size, get_iomap_size},
	{SOL_RDMA, RDMA_ROUTE, true, 0, set_route, NULL},
	/* clang-format on */
};

static const struct option *find(const struct rs *rs, int level, int name)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct option *o = &options[i];

		if (o->level != level || o->name != name)
			continue;
		if (o->stream_only && rs->type != SOCK_STREAM)
			return NULL;
		return level == IPPROTO_IPV6 && rs->domain != AF_INET6 ? NULL : o;
	}
	return NULL;
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct rs *rs = rs_get(socket);
	const struct option *o;
	int ret;

	if (!rs)
		return -1;
	o = find(rs, level, optname);
	if (!o || !o->set)
		ret = -ENOPROTOOPT;
	else if (!optval)
		ret = -EFAULT;
	else
		ret = optlen < o->len ? refuse_length("rsetsockopt", rs, optname, optlen, o->len)
				      : o->set(rs, optval, optlen);
	rs_put(rs);
	return (int)rs_ret(ret);
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct rs *rs = rs_get(socket);
	const struct option *o;
	int ret;

	if (!rs)
		return -1;
	o = find(rs, level, optname);
	if (!o || !o->get)
		ret = -ENOPROTOOPT;
	else if (!optval || !optlen)
		ret = -EFAULT;
	else if (*optlen < o->len)
		ret = refuse_length("rgetsockopt", rs, optname, *optlen, o->len);
	else {
		if (o->len)
			*optlen = o->len;
		ret = o->get(rs, optval, optlen);
	}
	rs_put(rs);
	return (int)rs_ret(ret);
}
