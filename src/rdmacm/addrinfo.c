/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo(): getaddrinfo() for RDMA. One result; its addresses and names are its own
 * copies. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/objects.h"

/* Port space and QP type say the same; one is enough. EAI_* or 0. */
static int complete_types(struct rdma_addrinfo *rai)
{
	if (!rai->ai_qp_type && !rai->ai_port_space) {
		rai->ai_port_space = RDMA_PS_TCP;
		rai->ai_qp_type = IBV_QPT_RC;
	} else if (!rai->ai_qp_type) {
		bool datagram =
			rai->ai_port_space == RDMA_PS_UDP || rai->ai_port_space == RDMA_PS_IPOIB;

		rai->ai_qp_type = datagram ? IBV_QPT_UD : IBV_QPT_RC;
	} else if (!rai->ai_port_space) {
		switch (rai->ai_qp_type) {
		case IBV_QPT_UD:
			rai->ai_port_space = RDMA_PS_UDP;
			break;
		case IBV_QPT_RC:
			rai->ai_port_space = RDMA_PS_TCP;
			break;
		default: /* UC, XRC */
			rai->ai_port_space = RDMA_PS_IB;
			break;
		}
	} else if (rai->ai_port_space == RDMA_PS_TCP
			   ? rai->ai_qp_type == IBV_QPT_UD
			   : rai->ai_port_space == RDMA_PS_UDP && rai->ai_qp_type != IBV_QPT_UD) {
		return EAI_SOCKTYPE;
	}
	return 0;
}

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *sa,
		     socklen_t len)
{
	*to = calloc(1, sizeof(struct sockaddr_storage));
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, sa, MIN(len, sizeof(struct sockaddr_storage)));
	*to_len = len;
	return 0;
}

static int copy_name(char **to, const char *name)
{
	if (!name)
		return 0;
	*to = strdup(name);
	return *to ? 0 : EAI_MEMORY;
}

static int lookup(const char *node, const char *service, struct rdma_addrinfo *rai)
{
	struct addrinfo hints = {
		.ai_flags = AI_CANONNAME,
		.ai_family = rai->ai_flags & RAI_FAMILY ? rai->ai_family : AF_UNSPEC,
		.ai_socktype = rai->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM,
	};
	struct addrinfo *ai;
	int err;

	if (rai->ai_flags & RAI_PASSIVE)
		hints.ai_flags |= AI_PASSIVE;
	if (rai->ai_flags & RAI_NUMERICHOST)
		hints.ai_flags |= AI_NUMERICHOST;
	if (!node)
		hints.ai_flags &= ~AI_CANONNAME;
	err = getaddrinfo(node, service, &hints, &ai);
	if (err)
		return err;
	rai->ai_family = ai->ai_family;
	if (rai->ai_flags & RAI_PASSIVE) {
		err = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, ai->ai_addr, ai->ai_addrlen);
		if (!err)
			err = copy_name(&rai->ai_src_canonname, ai->ai_canonname);
	} else {
		err = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
		if (!err)
			err = copy_name(&rai->ai_dst_canonname, ai->ai_canonname);
	}
	freeaddrinfo(ai);
	return err;
}

/*
 * Addresses that the hints name are taken over. A source that they do not name is left open: which
 * one it is depends on the devices, and rdma_resolve_addr() knows.
 */
static int fill_from_hints(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	int err = 0;

	if (hints->ai_dst_len && hints->ai_dst_addr && !rai->ai_dst_addr) {
		rai->ai_family = hints->ai_dst_addr->sa_family;
		err = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr,
				hints->ai_dst_len);
	}
	if (!err && hints->ai_src_len && hints->ai_src_addr && !rai->ai_src_addr) {
		rai->ai_family = hints->ai_src_addr->sa_family;
		err = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
				hints->ai_src_len);
	}
	return err;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	enum { KNOWN_FLAGS = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY };
	struct rdma_addrinfo *rai;
	int err;

	if (!res || (!node && !service && !hints))
		return rcm_ret(-EINVAL);
	if (hints && (hints->ai_flags & ~KNOWN_FLAGS))
		return EAI_BADFLAGS;
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return EAI_MEMORY;
	if (hints) {
		rai->ai_flags = hints->ai_flags;
		rai->ai_family = hints->ai_family;
		rai->ai_qp_type = hints->ai_qp_type;
		rai->ai_port_space = hints->ai_port_space;
	}
	err = complete_types(rai);
	if (!err && (node || service))
		err = lookup(node, service, rai);
	if (!err && hints)
		err = fill_from_hints(rai, hints);
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
