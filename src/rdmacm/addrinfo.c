/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo(): getaddrinfo() for RDMA. One result, the first, whose addresses are its own
 * copies; its names stay empty, as with rdma-core, which does not request them.
 */
#include <endian.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/id.h"

enum { ASK_SA = 0x10 }; /* RAI_SA of newer versions of rdma_cma.h */

static bool is_datagram(int port_space)
{
	return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB;
}

/*
 * Port space and QP type determine each other; one is enough, and the default is TCP. Without
 * either, getaddrinfo()'s choice is used, so that both sides with the same hints match. EAI_* or 0.
 */
static int complete_types(struct rdma_addrinfo *rai)
{
	bool stream = rai->ai_qp_type == IBV_QPT_RC || rai->ai_qp_type == IBV_QPT_UC ||
		      rai->ai_qp_type == IBV_QPT_XRC_SEND || rai->ai_qp_type == IBV_QPT_XRC_RECV;

	if ((stream && is_datagram(rai->ai_port_space)) ||
	    (rai->ai_qp_type == IBV_QPT_UD && rai->ai_port_space == RDMA_PS_TCP))
		return EAI_SOCKTYPE;
	if (!rai->ai_port_space)
		rai->ai_port_space = rai->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!rai->ai_qp_type)
		rai->ai_qp_type = is_datagram(rai->ai_port_space) ? IBV_QPT_UD : IBV_QPT_RC;
	return 0;
}

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *sa,
		     socklen_t len)
{
	*to = calloc(1, sizeof(struct sockaddr_storage));
	if (!*to)
		return EAI_MEMORY;
	*to_len = (socklen_t)MIN(len, sizeof(struct sockaddr_storage));
	memcpy(*to, sa, *to_len);
	return 0;
}

/* An address as a GID, with the service ID that it means in the port space. */
static void to_ib(const struct sockaddr *sa, int port_space, struct sockaddr_storage *ss)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)ss;
	uint16_t port = rcm_addr_port(sa);
	struct rocemu_gid gid = {0};

	if (!rcm_addr_any(sa))
		rcm_addr_to_gid(sa, &gid);
	memset(ss, 0, sizeof(*ss));
	rcm_addr_make((struct sockaddr *)ss, AF_IB, &gid,
		      rocemu_cm_service_id((enum rocemu_port_space)port_space, port),
		      rcm_addr_scope(sa));
	/* Port 0 is any. */
	ib->sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK | (port ? RDMA_IB_IP_PORT_MASK : 0));
}

/* getaddrinfo()'s first result, as rai's source if it is passive, else its destination. */
static int take_result(const struct addrinfo *ai, bool as_gid, struct rdma_addrinfo *rai)
{
	const struct sockaddr *sa = ai->ai_addr;
	socklen_t len = ai->ai_addrlen;
	struct sockaddr_storage ss;

	if (as_gid) {
		to_ib(sa, rai->ai_port_space, &ss);
		sa = (const struct sockaddr *)&ss;
		len = sizeof(struct sockaddr_ib);
	}
	rai->ai_family = sa->sa_family;
	if (rai->ai_flags & RAI_PASSIVE)
		return copy_addr(&rai->ai_src_addr, &rai->ai_src_len, sa, len);
	return copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, sa, len);
}

static int lookup(const char *node, const char *service, const struct rdma_addrinfo *hints,
		  struct rdma_addrinfo *rai)
{
	bool ib = hints->ai_family == AF_IB;
	struct addrinfo ask = {
		.ai_flags = (hints->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
			    (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
		.ai_family = ib ? AF_UNSPEC : hints->ai_family,
	};
	struct addrinfo *ai;
	int err;

	rai->ai_flags &= RAI_PASSIVE;
	err = complete_types(rai);
	if (err)
		return err;
	ask.ai_socktype = rai->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
	err = getaddrinfo(node, service, &ask, &ai);
	if (err)
		return err;
	/* Names are for IP: a GID is for numeric addresses only. */
	err = take_result(
		ai, ib && (hints->ai_flags & RAI_FAMILY) && (hints->ai_flags & RAI_NUMERICHOST),
		rai);
	freeaddrinfo(ai);
	return err;
}

/* Nothing to look up: the result follows from the hints. */
static int take_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	rai->ai_family = hints->ai_family;
	if (!hints->ai_dst_len || !hints->ai_dst_addr)
		return 0;
	return copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr,
			 hints->ai_dst_len);
}

/*
 * A source that is not in the name or the hints stays unset: rdma_resolve_addr() finds it by the
 * devices. Unknown flags (of newer libraries) are ignored, as rdma-core does; RAI_NOROUTE always
 * holds.
 */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo nothing;
	struct rdma_addrinfo *rai;
	int err;

	if (!res || (!node && !service && !hints))
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_getaddrinfo: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	if (!hints)
		hints = &nothing;
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return EAI_MEMORY;
	rai->ai_flags = hints->ai_flags;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	err = node || service ? lookup(node, service, hints, rai) : take_hints(hints, rai);
	if (!err && !rai->ai_src_addr && hints->ai_src_len && hints->ai_src_addr)
		err = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
				hints->ai_src_len);
	if (err) {
		rdma_freeaddrinfo(rai);
		return err;
	}
	*res = rai;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}

/* ---- for an ID, with an event ---- */

/* EAI_* as -errno. Newer versions of rdma-core set errno to the EAI_* itself. */
static int eai_errno(int eai)
{
	switch (eai) {
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_NONAME:
#ifdef EAI_NODATA
	case EAI_NODATA:
#endif
		return -ENOENT;
	case EAI_SYSTEM:
		return -errno;
	default:
		return REFUSE(-EINVAL, 0,
			      "rdma_getaddrinfo: name resolution failed: node and service must be "
			      "valid for getaddrinfo(): check hints");
	}
}

static bool begin(struct rcm_id *id)
{
	bool free_now;

	rcm_lock_take();
	free_now = !id->resolving_info;
	id->resolving_info = true;
	rcm_lock_drop();
	return free_now;
}

/*
 * As in rdma-core the call waits for the name service, and fails for a name that is not found; the
 * event means that the result can be taken.
 */
int rdma_resolve_addrinfo(struct rdma_cm_id *base, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *info = NULL;
	struct rcm_event *ev;
	struct rcm_id *id = rcm_id_of(base);
	int err;

	if (!base || (!node && !service && !hints))
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_resolve_addrinfo: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	if (hints && (hints->ai_flags & ASK_SA)) /* Ethernet has no subnet administrator */
		return rcm_ret(REFUSE(-EOPNOTSUPP, 0,
				      "rdma_resolve_addrinfo: ai_flags is 0x%x: Ethernet has no "
				      "subnet administrator: remove RAI_SA and RAI_DNS",
				      (unsigned)hints->ai_flags));
	if (!begin(id))
		return rcm_ret(-EBUSY);
	err = rdma_getaddrinfo(node, service, hints, &info);
	err = err ? eai_errno(err) : 0;
	ev = rcm_event_new(id, (enum rdma_cm_event_type)RCM_EVENT_ADDRINFO_RESOLVED, 0);
	if (!ev)
		err = -ENOMEM;
	rcm_lock_take();
	id->resolving_info = !err;
	if (!err) {
		id->info = info;
		rcm_event_post(ev);
	}
	rcm_lock_drop();
	if (!err)
		return rcm_sync_wait(id);
	rdma_freeaddrinfo(info);
	free(ev);
	return rcm_ret(err);
}

int rdma_query_addrinfo(struct rdma_cm_id *base, struct rdma_addrinfo **info)
{
	struct rcm_id *id = rcm_id_of(base);
	bool there;

	if (!base || !info)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_query_addrinfo: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	rcm_lock_take();
	there = id->info != NULL;
	if (there) {
		*info = id->info;
		id->info = NULL;
		id->resolving_info = false;
	}
	rcm_lock_drop();
	return rcm_ret(there ? 0 : -ENOENT);
}
