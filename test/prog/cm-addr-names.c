/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo(), and rdma_create_ep() on what it gives. */
#include <infiniband/ib.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>

#include "cm-addr.h"

static const char *gai_name(int ret)
{
	switch (ret) {
	case 0:
		return "0";
	case -1: /* EAI_BADFLAGS as well */
		return errno ? strerrorname_np(errno) : "EAI_BADFLAGS";
/* clang-format off */
#define X(name) case name: return #name;
	X(EAI_AGAIN) X(EAI_FAIL) X(EAI_FAMILY) X(EAI_MEMORY) X(EAI_SERVICE) X(EAI_SOCKTYPE)
	X(EAI_SYSTEM) X(EAI_NONAME) X(EAI_NODATA) X(EAI_ADDRFAMILY)
#undef X
	default:
		return "?";
	}
	/* clang-format on */
}

struct lookup {
	const char *node, *service;
	int flags, family, type, ps;
	const char *src, *dst; /* of the hints */
	bool no_hints;
};

static void lookup(const struct lookup *l)
{
	struct sockaddr *src = address(l->src ? l->src : "-", 0),
			*dst = address(l->dst ? l->dst : "-", PORT);
	struct rdma_addrinfo hints = {
		.ai_flags = l->flags,
		.ai_family = l->family,
		.ai_qp_type = l->type,
		.ai_port_space = l->ps,
		.ai_src_addr = src,
		.ai_dst_addr = dst,
		.ai_src_len = length(src),
		.ai_dst_len = length(dst),
	};
	struct rdma_addrinfo *res = NULL;
	struct rdma_cm_id *id = NULL;
	int ret;

	printf("lookup %s %s flags %x family %d type %d ps %x src %s dst %s%s:",
	       l->node ? l->node : "-", l->service ? l->service : "-", l->flags, l->family, l->type,
	       l->ps, l->src ? l->src : "-", l->dst ? l->dst : "-", l->no_hints ? " no hints" : "");
	errno = 0;
	ret = rdma_getaddrinfo(node_text(l->node), l->service, l->no_hints ? NULL : &hints, &res);
	printf(" %s", gai_name(ret));
	if (!ret) {
		printf(" flags %x family %d type %d ps %x", res->ai_flags, res->ai_family,
		       res->ai_qp_type, res->ai_port_space);
		print_address("from", res->ai_src_addr);
		print_address("to", res->ai_dst_addr);
		printf(" names %s %s", res->ai_src_canonname ? res->ai_src_canonname : "-",
		       res->ai_dst_canonname ? res->ai_dst_canonname : "-");
		printf(" more %s", res->ai_next ? "yes" : "no");
		ret = rdma_create_ep(&id, res, NULL, NULL);
		print_error("ep", ret);
		if (!ret) {
			print_id(id);
			rdma_destroy_ep(id);
		}
		rdma_freeaddrinfo(res);
	}
	printf("\n");
}

void lookups(void)
{
	enum {
		P = RAI_PASSIVE,
		N = RAI_NUMERICHOST,
		R = RAI_NOROUTE,
		F = RAI_FAMILY,
		TCP = RDMA_PS_TCP,
		UDP = RDMA_PS_UDP,
	};
	static const struct lookup table[] = {
		{.no_hints = true, .node = "own4", .service = "7500"},
		{.no_hints = true, .node = "own4"},
		{.no_hints = true, .service = "7500"},
		{.no_hints = true},
		{.node = "own4", .service = "7500"},
		{.node = "own4", .service = "no-such-service"},
		{.node = "own4", .service = "7500", .ps = TCP},
		{.node = "own4", .service = "7500", .ps = UDP},
		{.node = "own4", .service = "7500", .ps = RDMA_PS_IB},
		{.node = "own4", .service = "7500", .ps = RDMA_PS_IPOIB},
		{.node = "own4", .service = "7500", .type = IBV_QPT_RC},
		{.node = "own4", .service = "7500", .type = IBV_QPT_UC},
		{.node = "own4", .service = "7500", .type = IBV_QPT_UD},
		{.node = "own4", .service = "7500", .type = IBV_QPT_XRC_SEND},
		{.node = "own4", .service = "7500", .type = IBV_QPT_UD, .ps = TCP},
		{.node = "own4", .service = "7500", .type = IBV_QPT_RC, .ps = UDP},
		{.node = "own4", .service = "7500", .type = IBV_QPT_UD, .ps = UDP},
		{.node = "own4", .service = "7500", .type = IBV_QPT_UD, .ps = RDMA_PS_IB},
		{.node = "own4", .service = "7500", .type = IBV_QPT_RC, .ps = RDMA_PS_IB},
		{.node = "own4", .service = "7500", .type = 99},
		{.node = "own4", .service = "7500", .ps = 0x999},
		{.node = "own4", .service = "7500", .flags = P, .ps = TCP},
		{.node = "own4", .service = "7500", .flags = P, .ps = UDP},
		{.service = "7500", .flags = P, .ps = TCP},
		{.service = "7500", .flags = P | F, .family = AF_INET6, .ps = TCP},
		{.node = "own4", .flags = P, .ps = TCP},
		{.flags = P, .ps = TCP},
		{.flags = P, .ps = TCP, .src = "own4"},
		{.ps = TCP, .dst = "own4"},
		{.ps = TCP, .src = "own4", .dst = "peer4"},
		{.node = "own4", .service = "7500", .ps = TCP, .src = "own4"},
		{.node = "own4", .service = "7500", .ps = TCP, .src = "own6"},
		{.node = "own4", .service = "7500", .ps = TCP, .dst = "peer4"},
		{.node = "own4", .service = "7500", .flags = P, .ps = TCP, .src = "own6"},
		{.node = "own4", .service = "7500", .flags = N, .ps = TCP},
		{.node = "localhost", .service = "7500", .flags = N, .ps = TCP},
		{.node = "no.such.host.invalid", .service = "7500", .ps = TCP, .flags = N},
		{.node = "own4", .service = "7500", .flags = R, .ps = TCP},
		{.node = "own4", .service = "7500", .flags = F, .family = AF_INET, .ps = TCP},
		{.node = "own4", .service = "7500", .flags = F | N, .family = AF_INET6, .ps = TCP},
		{.node = "own4", .service = "7500", .flags = N, .family = AF_INET6, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = F | N, .family = AF_INET6, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = F | N, .family = AF_INET, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = N, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = N | P, .ps = TCP},
		{.node = "ll6%", .service = "7500", .flags = N, .ps = TCP},
		{.node = "ll6%", .service = "7500", .flags = N | P, .ps = TCP},
		{.node = "fe80::1%nosuchif", .service = "7500", .flags = N, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = F | N, .family = AF_IB, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = F | N | P, .family = AF_IB, .ps = TCP},
		{.node = "own6",
		 .service = "7500",
		 .flags = F | N,
		 .family = AF_IB,
		 .ps = RDMA_PS_IB},
		{.node = "own6", .service = "7500", .flags = F | N, .family = AF_IB, .ps = UDP},
		{.node = "own6", .service = "7500", .flags = F, .family = AF_IB, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = N, .family = AF_IB, .ps = TCP},
		{.node = "::", .service = "7500", .flags = F | N | P, .family = AF_IB, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = 0x10, .ps = TCP},
		{.node = "own6", .service = "7500", .flags = 0x40000000, .ps = TCP},
		{.node = "own4", .service = "7500", .flags = F | N, .family = 99, .ps = TCP},
		{.node = "own4", .service = "99999", .ps = TCP},
		{.node = "own4", .service = "-1", .ps = TCP},
		{.node = "", .service = "7500", .ps = TCP},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		lookup(&table[i]);
}
