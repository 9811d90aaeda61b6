/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may have which port, and who gets what comes for it. */
#include "agent/gsi-ports.h"

#include <errno.h>

#include <rocemu/cm.h>

#include "chain.h"
#include "test.h"

#define TCP(port) rocemu_cm_service_id(ROCEMU_PS_TCP, port)

enum { R = AGENT_GSI_REUSEADDR, A = AGENT_GSI_AFONLY };

static const struct rocemu_gid any4 = {{[10] = 0xff, 0xff}}, any6;
static const struct rocemu_gid one4 = {{[10] = 0xff, 0xff, 10, 0, 0, 1}},
			       two4 = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};
static const struct rocemu_gid one6 = {{0xfd, [15] = 1}}, link6 = {{0xfe, 0x80, [15] = 1}};

static struct gsi_ports ports;
static struct list mine;
static uint32_t next_key, user;

static void fresh(void)
{
	gsi_ports_init(&ports, 50000, 50009, (struct prf){0});
	list_init(&mine);
	next_key = 0;
}

static int bind_at(uint16_t number, uint64_t service_id, const struct rocemu_gid *addr,
		   uint32_t scope_id, uint32_t flags)
{
	struct agent_gsi_bind b = {service_id, *addr, scope_id, flags};

	return gsi_ports_bind(&ports, number, user, ++next_key, &b, &mine);
}

/* Does the second get in beside the first? */
static int second(const struct rocemu_gid *a, uint32_t a_flags, const struct rocemu_gid *b,
		  uint32_t b_flags)
{
	int r;

	fresh();
	assert_int_equal(bind_at(1, TCP(7), a, 0, a_flags), 0);
	r = bind_at(2, TCP(7), b, 0, b_flags);
	gsi_ports_drop(&ports, &mine);
	return r;
}

TEST(gsi_ports, two_users_of_the_same_port__conflict_in_spite_of_reuse)
{
	fresh();
	assert_int_equal(bind_at(1, TCP(7), &any4, 0, R), 0);
	user++;
	assert_int_equal(bind_at(2, TCP(7), &one4, 0, R), -EADDRINUSE);
	assert_int_equal(bind_at(2, TCP(7), &any4, 0, R), -EADDRINUSE);
	user--;
	assert_int_equal(bind_at(2, TCP(7), &one4, 0, R), 0);
	gsi_ports_drop(&ports, &mine);
}

TEST(gsi_ports, two_of_the_same_port__conflict_as_rdma_cm_has_it)
{
	assert_int_equal(second(&one4, 0, &two4, 0), 0);
	assert_int_equal(second(&one4, 0, &one4, 0), -EADDRINUSE);
	assert_int_equal(second(&one4, R, &one4, 0), -EADDRINUSE);
	assert_int_equal(second(&one4, 0, &one4, R), -EADDRINUSE);
	assert_int_equal(second(&one4, R, &one4, R), 0);
	assert_int_equal(second(&any4, 0, &one4, 0), -EADDRINUSE);
	assert_int_equal(second(&one4, 0, &any4, 0), -EADDRINUSE);
	assert_int_equal(second(&any4, R, &one4, R), 0);
	assert_int_equal(second(&any4, 0, &any6, 0), -EADDRINUSE);
	assert_int_equal(second(&any4, A, &any6, 0), -EADDRINUSE);
	assert_int_equal(second(&any4, A, &any6, A), 0);
	assert_int_equal(second(&any6, A, &one4, A), 0);
	assert_int_equal(second(&any6, A, &one6, A), -EADDRINUSE);
	assert_int_equal(second(&one6, 0, &one4, 0), 0);
}

TEST(gsi_ports, other_port_space_or_interface__no_conflict)
{
	fresh();
	assert_int_equal(bind_at(1, TCP(7), &one4, 0, 0), 0);
	assert_int_equal(bind_at(1, rocemu_cm_service_id(ROCEMU_PS_UDP, 7), &one4, 0, 0), 0);
	assert_int_equal(bind_at(1, rocemu_cm_service_id(ROCEMU_PS_IB, 7), &one4, 0, 0), 0);
	assert_int_equal(bind_at(1, 0xdeadbeef00000007, &one4, 0, 0), 0);
	assert_int_equal(bind_at(2, 0xdeadbeef00000007, &one4, 0, 0), -EADDRINUSE);
	assert_int_equal(bind_at(1, TCP(8), &link6, 1, 0), 0);
	assert_int_equal(bind_at(2, TCP(8), &link6, 2, 0), 0);
	assert_int_equal(bind_at(2, TCP(8), &link6, 1, 0), -EADDRINUSE);
	gsi_ports_drop(&ports, &mine);
}

TEST(gsi_ports, port_0__each_port_once_then_none)
{
	bool seen[10] = {false};

	fresh();
	assert_int_equal(bind_at(1, TCP(50003), &one4, 0, 0), 0);
	for (unsigned i = 0; i < 9; i++) {
		struct agent_gsi_bind b = {TCP(0), i % 2 ? one4 : any6, 0, i % 3 ? R : 0};

		assert_int_equal(gsi_ports_bind(&ports, 1, user, ++next_key, &b, &mine), 0);
		assert_in_range(b.service_id, TCP(50000), TCP(50009));
		assert_int_not_equal(b.service_id, TCP(50003));
		assert_false(seen[b.service_id - TCP(50000)]);
		seen[b.service_id - TCP(50000)] = true;
	}
	assert_int_equal(bind_at(1, TCP(0), &one4, 0, R), -EADDRNOTAVAIL);
	assert_int_equal(bind_at(1, rocemu_cm_service_id(ROCEMU_PS_UDP, 0), &one4, 0, 0), 0);
	/* The third of them is given back. */
	assert_int_equal(gsi_ports_unbind(&ports, 1, 4), 0);
	assert_int_equal(gsi_ports_unbind(&ports, 1, 4), -ENOENT);
	assert_int_equal(bind_at(1, TCP(0), &one4, 0, 0), 0);
	gsi_ports_drop(&ports, &mine);
	assert_int_equal(ports.listeners, 0);
}

TEST(gsi_ports, key_used_twice__refused)
{
	struct agent_gsi_bind b = {TCP(1), one4, 0, 0};

	fresh();
	assert_int_equal(gsi_ports_bind(&ports, 1, user, 9, &b, &mine), 0);
	b.service_id = TCP(2);
	assert_int_equal(gsi_ports_bind(&ports, 1, user, 9, &b, &mine), -EEXIST);
	assert_int_equal(gsi_ports_bind(&ports, 2, user, 9, &b, &mine), 0);
	gsi_ports_drop(&ports, &mine);
}

static uint16_t who(const struct rocemu_gid *addr, uint32_t scope_id, const struct seat_set *open)
{
	const struct gsi_port *p = gsi_ports_find(&ports, TCP(7), addr, scope_id, open);

	return p ? p->number : 0;
}

TEST(gsi_ports, several_listen__the_most_specific_is_found)
{
	struct seat_set open = {{0}}, nobody = {{0}};

	fresh();
	assert_int_equal(bind_at(1, TCP(7), &any6, 0, R), 0);
	assert_int_equal(bind_at(2, TCP(7), &any4, 0, R), 0);
	assert_int_equal(bind_at(3, TCP(7), &one4, 0, R), 0);
	for (uint16_t i = 1; i <= 3; i++) {
		seat_set_add(&open, i);
		/* A bound port without a listener gets no requests. */
		assert_int_equal(who(&one4, 0, &open), i - 1);
		assert_int_equal(gsi_ports_listen(&ports, i, i), 0);
		assert_int_equal(gsi_ports_listen(&ports, i, i), 0);
	}
	assert_int_equal(ports.listeners, 3);
	assert_int_equal(who(&one4, 0, &open), 3);
	assert_int_equal(who(&two4, 0, &open), 2);
	assert_int_equal(who(&one6, 0, &open), 1);
	assert_int_equal(who(&one4, 5, &open), 2);
	assert_int_equal(who(&one4, 0, &nobody), 3);
	assert_int_equal(who(&two4, 0, &nobody), 0);
	seat_set_remove(&open, 2);
	assert_int_equal(who(&two4, 0, &open), 1);
	assert_null(gsi_ports_find(&ports, TCP(8), &one4, 0, &open));
	/* The same address twice is one too many, whatever the flags. */
	assert_int_equal(bind_at(4, TCP(7), &one4, 0, R), 0);
	assert_int_equal(gsi_ports_listen(&ports, 4, 4), -EADDRINUSE);
	assert_int_equal(gsi_ports_listen(&ports, 4, 5), -ENOENT);
	assert_int_equal(gsi_ports_unbind(&ports, 3, 3), 0);
	assert_int_equal(gsi_ports_listen(&ports, 4, 4), 0);
	assert_int_equal(who(&one4, 0, &open), 4);
	gsi_ports_drop(&ports, &mine);
}

TEST(gsi_ports, wildcards_of_two_interfaces__the_older_is_found)
{
	struct seat_set open = {{0}};

	fresh();
	for (uint16_t i = 1; i <= 20; i++) {
		seat_set_add(&open, i);
		assert_int_equal(bind_at(i, TCP(7), &any6, i, R), 0);
		assert_int_equal(gsi_ports_listen(&ports, i, i), 0);
		assert_int_equal(who(&one6, 0, &open), 1);
	}
	gsi_ports_drop(&ports, &mine);
}

TEST(gsi_ports, service_ids_that_collide_without_a_key__chains_stay_short)
{
	uint64_t service_id = 0;

	fresh();
	for (unsigned i = 0; i < 1000; i++) {
		service_id = chain_next(service_id);
		next_key = (uint32_t)service_id;
		assert_int_equal(bind_at(0, service_id, &one4, 0, 0), 0);
	}
	assert_in_range(chain_longest(&ports.by_service), 1, CHAIN_MOST);
	assert_in_range(chain_longest(&ports.by_key), 1, CHAIN_MOST);
	gsi_ports_drop(&ports, &mine);
}

TEST(gsi_ports, wildcard_of_ipv6_only__no_ipv4)
{
	struct seat_set open = {{0}};

	fresh();
	seat_set_add(&open, 1);
	assert_int_equal(bind_at(1, TCP(7), &any6, 0, A), 0);
	assert_int_equal(gsi_ports_listen(&ports, 1, 1), 0);
	assert_int_equal(who(&one4, 0, &open), 0);
	assert_int_equal(who(&one6, 0, &open), 1);
	gsi_ports_drop(&ports, &mine);
}
