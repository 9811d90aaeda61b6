/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests rdma_getaddrinfo(): every flag and hint, compared with getaddrinfo(); and endpoints made of
 * its results.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "test.h"

enum {
	AS_GID = RAI_FAMILY | RAI_NUMERICHOST,
	/* Of newer versions of the header. */
	RAI_SA_BIT = 0x10,
	RAI_DNS_BIT = 0x20,
};

static struct rdma_addrinfo *look_up(const char *node, const char *service,
				     const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *res;

	assert_int_equal(rdma_getaddrinfo(node, service, hints, &res), 0);
	assert_null(res->ai_next);
	assert_null(res->ai_route);
	assert_null(res->ai_connect);
	return res;
}

static const struct sockaddr_ib *ib_of(const struct sockaddr *sa)
{
	assert_int_equal(sa->sa_family, AF_IB);
	return (const struct sockaddr_ib *)(const void *)sa;
}

TEST(getaddrinfo, result_or_error__as_libc)
{
	static const char *const nodes[] = {
		"127.0.0.1", "::1",	   "0.0.0.0",	       "localhost", "",
		"1.2.3.4.5", "fe80::1%lo", "fe80::1%nosuchif", NULL};
	static const char *const services[] = {"7",  "0",    "65535",	"99999",
					       "-1", "http", "no-such", NULL};
	static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6, 99};

	bench_namespace();
	for (unsigned i = 0; i < 9 * 8 * 4 * 4; i++) {
		const char *node = nodes[i % 9], *service = services[i / 9 % 8];
		int flags = (int)(i / 288), family = families[i / 72 % 4], want, have;
		struct addrinfo *ai, ask = {
					     .ai_flags = (flags & 1 ? AI_PASSIVE : 0) |
							 (flags & 2 ? AI_NUMERICHOST : 0),
					     .ai_family = family,
					     .ai_socktype = SOCK_STREAM,
				     };
		struct rdma_addrinfo *res, hints = {
						   .ai_flags = (flags & 1 ? RAI_PASSIVE : 0) |
							       (flags & 2 ? RAI_NUMERICHOST : 0),
						   .ai_family = family,
					   };

		if (!node && !service)
			continue; /* nothing to look up: the hints are the result */
		want = getaddrinfo(node, service, &ask, &ai);
		have = rdma_getaddrinfo(node, service, &hints, &res);
		assert_int_equal(have, want);
		if (want)
			continue;
		assert_int_equal(res->ai_family, ai->ai_family);
		assert_int_equal(res->ai_flags, hints.ai_flags & RAI_PASSIVE);
		assert_int_equal(flags & 1 ? res->ai_src_len : res->ai_dst_len, ai->ai_addrlen);
		assert_memory_equal(flags & 1 ? res->ai_src_addr : res->ai_dst_addr, ai->ai_addr,
				    ai->ai_addrlen);
		assert_null(flags & 1 ? res->ai_dst_addr : res->ai_src_addr);
		freeaddrinfo(ai);
		rdma_freeaddrinfo(res);
	}
}

TEST(getaddrinfo, port_space_and_qp_type__complete_each_other)
{
	static const struct {
		int type, ps, err, got_type, got_ps;
	} table[] = {
		{0, 0, 0, IBV_QPT_RC, RDMA_PS_TCP},
		{0, RDMA_PS_TCP, 0, IBV_QPT_RC, RDMA_PS_TCP},
		{0, RDMA_PS_UDP, 0, IBV_QPT_UD, RDMA_PS_UDP},
		{0, RDMA_PS_IB, 0, IBV_QPT_RC, RDMA_PS_IB},
		{0, RDMA_PS_IPOIB, 0, IBV_QPT_UD, RDMA_PS_IPOIB},
		{IBV_QPT_RC, 0, 0, IBV_QPT_RC, RDMA_PS_TCP},
		{IBV_QPT_UC, 0, 0, IBV_QPT_UC, RDMA_PS_TCP},
		{IBV_QPT_XRC_SEND, 0, 0, IBV_QPT_XRC_SEND, RDMA_PS_TCP},
		{IBV_QPT_UD, 0, 0, IBV_QPT_UD, RDMA_PS_UDP},
		{IBV_QPT_UD, RDMA_PS_IB, 0, IBV_QPT_UD, RDMA_PS_IB},
		{IBV_QPT_UC, RDMA_PS_IB, 0, IBV_QPT_UC, RDMA_PS_IB},
		{IBV_QPT_UD, RDMA_PS_TCP, EAI_SOCKTYPE, 0, 0},
		{IBV_QPT_RC, RDMA_PS_UDP, EAI_SOCKTYPE, 0, 0},
		{IBV_QPT_XRC_RECV, RDMA_PS_UDP, EAI_SOCKTYPE, 0, 0},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rdma_addrinfo *res,
			hints = {.ai_qp_type = table[i].type, .ai_port_space = table[i].ps};

		assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7", &hints, &res), table[i].err);
		if (table[i].err)
			continue;
		assert_int_equal(res->ai_qp_type, table[i].got_type);
		assert_int_equal(res->ai_port_space, table[i].got_ps);
		rdma_freeaddrinfo(res);
	}
}

TEST(getaddrinfo, flags__of_no_effect_or_unknown_are_passed_over)
{
	static const int flags[] = {RAI_NOROUTE, RAI_SA_BIT, RAI_DNS_BIT, 0x40000000};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct rdma_addrinfo hints = {.ai_flags = flags[i] | RAI_PASSIVE};
		struct rdma_addrinfo *res = look_up("::1", "7", &hints);

		assert_int_equal(res->ai_flags, RAI_PASSIVE);
		rdma_freeaddrinfo(res);
	}
}

TEST(getaddrinfo, link_local__scope_by_the_name_of_the_interface)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST}, *res;

	bench_namespace();
	res = look_up("fe80::1%lo", "7", &hints);
	assert_int_equal(((struct sockaddr_in6 *)(void *)res->ai_dst_addr)->sin6_scope_id,
			 if_nametoindex("lo"));
	rdma_freeaddrinfo(res);
	hints.ai_flags = AS_GID;
	hints.ai_family = AF_IB;
	res = look_up("fe80::1%lo", "7", &hints);
	assert_int_equal(ib_of(res->ai_dst_addr)->sib_scope_id, if_nametoindex("lo"));
	rdma_freeaddrinfo(res);
}

TEST(getaddrinfo, gid__service_id_and_mask)
{
	struct rdma_addrinfo hints = {.ai_flags = AS_GID, .ai_family = AF_IB};
	struct rdma_addrinfo *res;
	const struct sockaddr_ib *ib;

	hints.ai_port_space = RDMA_PS_UDP;
	res = look_up("::ffff:127.0.0.1", "7", &hints);
	assert_int_equal(res->ai_family, AF_IB);
	assert_int_equal(res->ai_dst_len, sizeof(*ib));
	ib = ib_of(res->ai_dst_addr);
	assert_memory_equal(&ib->sib_addr, &ib_of(bench_gid("127.0.0.1", 0, 0))->sib_addr, 16);
	assert_int_equal(be64toh(ib->sib_sid), (uint64_t)RDMA_PS_UDP << 16 | 7);
	assert_int_equal(be64toh(ib->sib_sid_mask), UINT64_MAX);
	assert_int_equal(ib->sib_pkey, htons(0xffff));
	rdma_freeaddrinfo(res);

	/* An IPv4 address stands for its GID; no port: any of the port space. */
	hints.ai_flags |= RAI_PASSIVE;
	res = look_up("127.0.0.1", NULL, &hints);
	ib = ib_of(res->ai_src_addr);
	assert_memory_equal(&ib->sib_addr, &ib_of(bench_gid("127.0.0.1", 0, 0))->sib_addr, 16);
	assert_int_equal(be64toh(ib->sib_sid_mask), RDMA_IB_IP_PS_MASK);
	rdma_freeaddrinfo(res);

	/* The wildcard, of whichever family. */
	res = look_up(NULL, "7", &hints);
	assert_memory_equal(&ib_of(res->ai_src_addr)->sib_addr, &(uint8_t[16]){0}, 16);
	rdma_freeaddrinfo(res);
}

TEST(getaddrinfo, gid_of_a_name__ip_address)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_FAMILY, .ai_family = AF_IB}, *res;

	res = look_up("::1", "7", &hints);
	assert_int_equal(res->ai_family, AF_INET6);
	rdma_freeaddrinfo(res);
}

TEST(getaddrinfo, source_in_the_hints__only_where_nothing_is_looked_up_for_it)
{
	struct rdma_addrinfo hints = {.ai_src_len = sizeof(struct sockaddr_in)}, *res;

	hints.ai_src_addr = bench_addr("127.0.0.1", 5);
	hints.ai_dst_addr = bench_addr("127.0.0.2", 6);
	hints.ai_dst_len = sizeof(struct sockaddr_in);
	res = look_up("127.0.0.3", "7", &hints);
	assert_memory_equal(res->ai_src_addr, hints.ai_src_addr, sizeof(struct sockaddr_in));
	assert_memory_equal(res->ai_dst_addr, bench_addr("127.0.0.3", 7),
			    sizeof(struct sockaddr_in));
	rdma_freeaddrinfo(res);
	hints.ai_flags = RAI_PASSIVE;
	res = look_up("127.0.0.3", "7", &hints);
	assert_memory_equal(res->ai_src_addr, bench_addr("127.0.0.3", 7),
			    sizeof(struct sockaddr_in));
	assert_null(res->ai_dst_addr);
	rdma_freeaddrinfo(res);
}

/* ---- endpoints ---- */

TEST(create_ep, each_family__listens_and_resolves)
{
	static const struct {
		const char *node;
		int flags, family;
		sa_family_t is;
	} table[] = {
		{"127.0.0.1", 0, AF_UNSPEC, AF_INET},	 {"::1", 0, AF_UNSPEC, AF_INET6},
		{"fe80::77%lo", 0, AF_UNSPEC, AF_INET6}, {"::ffff:127.0.0.1", AS_GID, AF_IB, AF_IB},
		{"127.0.0.1", AS_GID, AF_IB, AF_IB},	 {"::1", AS_GID, AF_IB, AF_IB},
		{"fe80::77", AS_GID, AF_IB, AF_IB},
	};
	static const int spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB};

	bench_namespace();
	bench_link_local("fe80::77");
	for (size_t i = 0; i < 3 * sizeof(table) / sizeof(table[0]); i++) {
		struct rdma_addrinfo hints = {.ai_flags = table[i / 3].flags | RAI_PASSIVE,
					      .ai_family = table[i / 3].family,
					      .ai_port_space = spaces[i % 3]};
		struct rdma_addrinfo *res = look_up(table[i / 3].node, "7500", &hints);
		struct rdma_cm_id *server, *client;

		assert_int_equal(rdma_create_ep(&server, res, NULL, NULL), 0);
		assert_int_equal(rdma_listen(server, 1), 0);
		assert_int_equal(ntohs(rdma_get_src_port(server)), 7500);
		assert_int_equal(rdma_get_local_addr(server)->sa_family, table[i / 3].is);
		rdma_freeaddrinfo(res);
		hints.ai_flags &= ~RAI_PASSIVE;
		res = look_up(table[i / 3].node, "7500", &hints);
		assert_int_equal(rdma_create_ep(&client, res, NULL, NULL), 0);
		assert_int_equal(ntohs(rdma_get_dst_port(client)), 7500);
		assert_int_equal(rdma_get_peer_addr(client)->sa_family, table[i / 3].is);
		assert_int_equal(client->ps, spaces[i % 3]);
		assert_int_equal(client->qp_type, res->ai_qp_type);
		rdma_freeaddrinfo(res);
		rdma_destroy_ep(client);
		rdma_destroy_ep(server);
	}
}

TEST(create_ep, hints_alone__qp_type_of_the_port_space)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_UDP}, *res;
	struct rdma_cm_id *id;

	bench_namespace();
	hints.ai_dst_addr = bench_addr("127.0.0.1", 7);
	hints.ai_dst_len = sizeof(struct sockaddr_in);
	res = look_up(NULL, NULL, &hints);
	assert_int_equal(rdma_create_ep(&id, res, NULL, NULL), 0);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	rdma_destroy_ep(id);
	res->ai_port_space = 0x999;
	assert_errno(rdma_create_ep(&id, res, NULL, NULL), EINVAL);
	rdma_freeaddrinfo(res);
}

TEST(create_ep, cannot_be_bound_or_resolved__why)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *res;
	struct rdma_cm_id *id;

	bench_namespace();
	hints.ai_src_addr = bench_addr("::1", 0);
	hints.ai_src_len = sizeof(struct sockaddr_in6);
	res = look_up("127.0.0.1", "7", &hints);
	assert_errno(rdma_create_ep(&id, res, NULL, NULL), EINVAL);
	rdma_freeaddrinfo(res);
	res = look_up("192.0.2.1", "7", NULL);
	assert_errno(rdma_create_ep(&id, res, NULL, NULL), ENETUNREACH);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){.ai_flags = RAI_PASSIVE};
	res = look_up("192.0.2.1", "7", &hints);
	assert_errno(rdma_create_ep(&id, res, NULL, NULL), EADDRNOTAVAIL);
	rdma_freeaddrinfo(res);
}
