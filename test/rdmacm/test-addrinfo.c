/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names looked up for an ID, and events of the program's own. The calls are of newer versions of
 * rdma-core: the system's library need not have them, so rocemu's parts are linked into the
 * program.
 */
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "bench.h"
#include "rdmacm/api.h"

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

TEST(resolve_addrinfo, address__event_then_result_once)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;

	bench_namespace();
	ch = bench_channel();
	id = new_id(ch);
	assert_errno(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
	assert_errno(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), EBUSY);
	assert_int_equal(bench_expect(ch, (enum rdma_cm_event_type)RCM_EVENT_ADDRINFO_RESOLVED), 0);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(info->ai_dst_addr->sa_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)(void *)info->ai_dst_addr)->sin_port, htons(7471));
	assert_null(info->ai_src_addr);
	rdma_freeaddrinfo(info);
	assert_errno(rdma_query_addrinfo(id, &info), ENOENT);
	/* Now the ID may resolve again, for a source. The result is freed with the ID. */
	hints.ai_flags = RAI_PASSIVE;
	assert_int_equal(rdma_resolve_addrinfo(id, "::1", "7471", &hints), 0);
	assert_int_equal(bench_expect(ch, (enum rdma_cm_event_type)RCM_EVENT_ADDRINFO_RESOLVED), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(resolve_addrinfo, synchronous_id__no_event)
{
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	bench_namespace();
	id = new_id(NULL);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", NULL, NULL), 0);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_destroy_id(id), 0);
}

TEST(resolve_addrinfo, wrong__error_and_no_event)
{
	const struct rdma_addrinfo numbers = {.ai_flags = RAI_NUMERICHOST},
				   by_sa = {.ai_flags = 0x10};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;

	bench_namespace();
	ch = bench_channel();
	id = new_id(ch);
	assert_errno(rdma_resolve_addrinfo(NULL, "127.0.0.1", NULL, NULL), EINVAL);
	assert_errno(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	assert_errno(rdma_resolve_addrinfo(id, NULL, "7471", &by_sa), EOPNOTSUPP);
	assert_errno(rdma_resolve_addrinfo(id, "no number", NULL, &numbers), ENOENT);
	bench_no_event(ch);
	assert_errno(rdma_query_addrinfo(id, &(struct rdma_addrinfo *){NULL}), ENOENT);
	assert_errno(rdma_query_addrinfo(id, NULL), EINVAL);
	/* None of these is under way. */
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", NULL, &numbers), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(write_cm_event, of_the_program__comes_with_its_argument)
{
	const enum rdma_cm_event_type user = (enum rdma_cm_event_type)RCM_EVENT_USER;
	const uint64_t arg = UINT64_C(0x123456789abcdef0);
	struct rdma_event_channel *ch;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	bench_namespace();
	ch = bench_channel();
	id = new_id(ch);
	assert_errno(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	assert_errno(rdma_write_cm_event(NULL, user, 0, 0), EINVAL);
	bench_no_event(ch);
	assert_int_equal(rdma_write_cm_event(id, user, -5, arg), 0);
	ev = bench_event(ch, user);
	assert_ptr_equal(ev->id, id);
	assert_int_equal(ev->status, -5);
	assert_memory_equal(&ev->param, &arg, sizeof(arg));
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	/* A result that is not taken is freed with the ID. */
	assert_int_equal(rdma_write_cm_event(id, user, 0, arg), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(event_str, of_newer_versions__named)
{
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)RCM_EVENT_ADDRINFO_RESOLVED),
			    "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)RCM_EVENT_ADDRINFO_ERROR),
			    "RDMA_CM_EVENT_ADDRINFO_ERROR");
}
