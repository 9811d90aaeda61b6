/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests where packets leave, in network namespaces: two interfaces in one subnet, and others. */
#include "test.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netdev/addr.h"
#include "netdev/route.h"
#include "netns.h"

/*
 * a0 and b0 in one subnet, c0 alone. A test that failed may have left them: each begins with a new
 * namespace.
 */
static void lab(void)
{
	netns_enter();
	for (const char *const *l = (const char *[]){"a", "b", "c", NULL}; *l; l++) {
		char line[100];

		snprintf(line, sizeof(line), "link add %s0 type veth peer name %s1", *l, *l);
		netns_ip(line);
		snprintf(line, sizeof(line), "link set %s1 up", *l);
		netns_ip(line);
		snprintf(line, sizeof(line), "link set %s0 up", *l);
		netns_ip(line);
	}
	netns_ip("address add 10.1.1.1/24 dev a0");
	netns_ip("address add 10.1.1.2/24 dev b0");
	netns_ip("address add 10.1.2.1/24 dev c0");
	netns_ip("address add fd01::1/64 dev a0 nodad");
	netns_ip("address add fd01::2/64 dev b0 nodad");
	netns_ip("address add fd02::1/64 dev c0 nodad");
	/* The kernel adds their routes a moment later. */
	for (const char *const *a = (const char *[]){"fd01::1", "fd01::2", "fd02::1", NULL}; *a;
	     a++) {
		char line[100];

		snprintf(line, sizeof(line), "ip -6 route get %s | grep -q ^local", *a);
		while (system(line) != 0)
			sched_yield();
	}
}

/* A setting below /proc/sys, where that can be written. */
static void sysctl(const char *name, const char *value)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	f = fopen(path, "we");
	if (!f) {
		print_message("skipped: %s cannot be written\n", path);
		skip();
	}
	fputs(value, f);
	assert_int_equal(fclose(f), 0);
}

static struct rocemu_gid gid_of(const char *text)
{
	struct rocemu_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, text, gid.raw + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

static struct route way(const char *interface, const char *from, const char *to)
{
	const struct rocemu_gid src = gid_of(from), dst = gid_of(to);
	const int fd = route_open();
	struct route r;

	assert_true(fd >= 0);
	route_find(fd, interface ? if_nametoindex(interface) : 0, &src, &dst, &r);
	close(fd);
	return r;
}

static void expect_own(const char *interface, const char *from, const char *to, const char *next)
{
	const struct route r = way(interface, from, to);
	const struct rocemu_gid hop = gid_of(next);

	assert_int_equal(r.kind, ROUTE_OWN);
	assert_int_equal(r.ifindex, if_nametoindex(interface));
	assert_memory_equal(&r.next, &hop, sizeof(hop));
}

TEST(route_find, two_interfaces_in_one_subnet__each_its_own)
{
	lab();
	expect_own("a0", "10.1.1.1", "10.1.1.9", "10.1.1.9");
	expect_own("b0", "10.1.1.2", "10.1.1.9", "10.1.1.9");
	expect_own("a0", "fd01::1", "fd01::9", "fd01::9");
	expect_own("b0", "fd01::2", "fd01::9", "fd01::9");
}

/* The kernel prefers the route with the lower metric. */
TEST(route_find, route_by_the_interface_with_a_higher_metric__own)
{
	lab();
	netns_ip("route add default via 10.1.2.9 dev c0 metric 10");
	netns_ip("route add default via 10.1.1.8 dev b0 metric 20");
	netns_ip("route add default via fd02::9 dev c0 metric 10");
	netns_ip("route add default via fd01::8 dev b0 metric 20");
	expect_own("b0", "10.1.1.2", "10.9.9.9", "10.1.1.8");
	expect_own("c0", "10.1.2.1", "10.9.9.9", "10.1.2.9");
	expect_own("b0", "fd01::2", "fd09::9", "fd01::8");
	expect_own("c0", "fd02::1", "fd09::9", "fd02::9");
}

TEST(route_find, no_route_by_the_interface__other)
{
	struct route r;

	lab();
	r = way("b0", "10.1.1.2", "10.1.2.9");
	assert_int_equal(r.kind, ROUTE_OTHER);
	assert_int_equal(r.ifindex, if_nametoindex("c0"));
	r = way("b0", "fd01::2", "fd02::9");
	assert_int_equal(r.kind, ROUTE_OTHER);
	assert_int_equal(r.ifindex, if_nametoindex("c0"));
	/* An address on lo, and a route to its neighbours. */
	netns_ip("address add 10.7.7.7/32 dev lo");
	r = way("lo", "10.7.7.7", "10.1.2.9");
	assert_int_equal(r.kind, ROUTE_OTHER);
	assert_int_equal(r.ifindex, if_nametoindex("c0"));
}

TEST(route_find, no_route_at_all__none)
{
	lab();
	assert_int_equal(way("b0", "10.1.1.2", "10.9.9.9").kind, ROUTE_NONE);
	assert_int_equal(way("b0", "fd01::2", "fd09::9").kind, ROUTE_NONE);
	netns_ip("route add blackhole 10.9.9.0/24");
	netns_ip("route add unreachable fd09::/64");
	assert_int_equal(way("b0", "10.1.1.2", "10.9.9.9").kind, ROUTE_NONE);
	assert_int_equal(way("b0", "fd01::2", "fd09::9").kind, ROUTE_NONE);
}

TEST(route_find, addresses_of_this_host__local)
{
	static const char *const pairs[][2] = {
		{"10.1.1.2", "10.1.1.2"},  {"10.1.1.2", "10.1.1.1"}, {"10.1.1.2", "10.1.2.1"},
		{"10.1.1.2", "127.0.0.1"}, {"fd01::2", "fd01::2"},   {"fd01::2", "fd01::1"},
		{"fd01::2", "fd02::1"},	   {"fd01::2", "::1"},
	};

	lab();
	for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		assert_int_equal(way("b0", pairs[i][0], pairs[i][1]).kind, ROUTE_LOCAL);
}

TEST(route_find, broadcast_addresses__broadcast)
{
	lab();
	netns_ip("address add 10.1.3.1/24 broadcast 10.1.3.255 dev b0");
	assert_int_equal(way("b0", "10.1.1.2", "10.1.3.255").kind, ROUTE_BROADCAST);
	assert_int_equal(way("b0", "10.1.1.2", "255.255.255.255").kind, ROUTE_BROADCAST);
}

TEST(route_find, a_rule_for_the_source__own)
{
	lab();
	netns_ip("rule add from 10.1.1.2 table 77");
	netns_ip("route add 10.9.9.0/24 via 10.1.1.8 dev b0 table 77");
	netns_ip("-6 rule add from fd01::2 table 77");
	netns_ip("route add fd09::/64 via fd01::8 dev b0 table 77");
	expect_own("b0", "10.1.1.2", "10.9.9.9", "10.1.1.8");
	assert_int_equal(way("a0", "10.1.1.1", "10.9.9.9").kind, ROUTE_NONE);
	expect_own("b0", "fd01::2", "fd09::9", "fd01::8");
}

/* Strict reverse path filtering: what comes in by b0 is dropped, unless routes to it prefer b0. */
TEST(route_find, answers_by_the_interface_are_dropped__filtered)
{
	struct route r;

	lab();
	sysctl("net/ipv4/conf/b0/rp_filter", "1");
	expect_own("a0", "10.1.1.1", "10.1.1.9", "10.1.1.9");
	r = way("b0", "10.1.1.2", "10.1.1.9");
	assert_int_equal(r.kind, ROUTE_FILTERED);
	assert_int_equal(r.ifindex, if_nametoindex("a0"));
	expect_own("b0", "fd01::2", "fd01::9", "fd01::9");
	sysctl("net/ipv4/conf/all/rp_filter", "2");
	expect_own("b0", "10.1.1.2", "10.1.1.9", "10.1.1.9");
	sysctl("net/ipv4/conf/all/rp_filter", "1");
	assert_int_equal(way("b0", "10.1.1.2", "10.1.1.9").kind, ROUTE_FILTERED);
	netns_ip("rule add from 10.1.1.2 table 77");
	netns_ip("route add 10.1.1.0/24 dev b0 table 77");
	expect_own("b0", "10.1.1.2", "10.1.1.9", "10.1.1.9");
}

TEST(route_find, an_ipv6_router_of_an_ipv4_route__the_next_hop)
{
	lab();
	netns_ip("route add 10.9.9.0/24 via inet6 fd01::8 dev b0");
	expect_own("b0", "10.1.1.2", "10.9.9.9", "fd01::8");
}

/* More next hops than an answer has room for. */
TEST(route_find, one_of_many_next_hops__own)
{
	char line[8000] = "ip route add 10.9.9.0/24";

	lab();
	for (unsigned i = 0; i < 100; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line),
			 " nexthop via 10.1.2.%u dev c0", 10 + i);
	strncat(line, " nexthop via 10.1.1.8 dev b0", sizeof(line) - strlen(line) - 1);
	assert_int_equal(system(line), 0);
	expect_own("b0", "10.1.1.2", "10.9.9.9", "10.1.1.8");
}

TEST(route_cached, no_interface__the_one_that_has_the_address)
{
	const struct rocemu_gid src = gid_of("10.1.1.2"), dst = gid_of("10.1.1.9"),
				lost = gid_of("10.1.1.77");
	struct route_cache *c = calloc(1, sizeof(*c));
	struct route r;

	assert_non_null(c);
	lab();
	assert_int_equal(route_cached(c, 1, 0, &src, &dst, &r), 0);
	assert_int_equal(r.kind, ROUTE_OWN);
	assert_int_equal(r.ifindex, if_nametoindex("b0"));
	assert_int_equal(route_cached(c, 1, 0, &lost, &dst, &r), 0);
	assert_int_equal(r.kind, ROUTE_UNKNOWN);
	free(c);
}

TEST(route_cached, tables_that_change__found_anew_after_a_second)
{
	const struct rocemu_gid src = gid_of("10.1.1.2"), dst = gid_of("10.9.9.9");
	struct route_cache *c = calloc(1, sizeof(*c));
	unsigned b0;
	struct route r;

	assert_non_null(c);
	lab();
	b0 = if_nametoindex("b0");
	assert_int_equal(route_cached(c, 1, b0, &src, &dst, &r), 0);
	assert_int_equal(r.kind, ROUTE_NONE);
	netns_ip("route add 10.9.9.0/24 dev b0");
	assert_int_equal(route_cached(c, 1000000000, b0, &src, &dst, &r), 0);
	assert_int_equal(r.kind, ROUTE_NONE);
	assert_int_equal(route_cached(c, 1000000001, b0, &src, &dst, &r), 0);
	assert_int_equal(r.kind, ROUTE_OWN);
	free(c);
}

/* Packets that left by an interface so far. */
static unsigned long sent_by(const char *interface)
{
	unsigned long packets = 0, found = 0;
	FILE *f = fopen("/proc/thread-self/net/dev", "re");
	char line[300], name[32];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, " %31[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %*u %lu", name,
			   &packets) == 2 &&
		    !strcmp(name, interface))
			found = packets;
	fclose(f);
	return found;
}

enum { DATAGRAMS = 100 /* more than the kernel sends by itself meanwhile */ };

/* Of DATAGRAMS, those that left by b0, bound to it. */
static void expect_by_b0(const char *from, const char *to)
{
	const bool v4 = !strchr(to, ':');
	const struct rocemu_gid src = gid_of(from), dst = gid_of(to);
	const unsigned long a0 = sent_by("a0"), b0 = sent_by("b0");
	const int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	union addr a;
	socklen_t len;

	assert_true(fd >= 0);
	assert_int_equal(route_bind_socket(fd, v4, if_nametoindex("b0")), 0);
	len = addr_from_gid(&a, &src, 0, 0);
	assert_int_equal(bind(fd, &a.sa, len), 0);
	len = addr_from_gid(&a, &dst, 9, 0);
	for (unsigned i = 0; i < DATAGRAMS; i++)
		assert_int_equal(sendto(fd, "x", 1, 0, &a.sa, len), 1);
	close(fd);
	assert_in_range(sent_by("b0") - b0, DATAGRAMS, 2 * DATAGRAMS);
	assert_in_range(sent_by("a0") - a0, 0, DATAGRAMS - 1);
}

TEST(route_bind_socket, another_interface_preferred__sends_by_its_own)
{
	static const char *const nd[] = {"10.1.1.9", "fd01::9"};

	lab();
	/* By IPv6 a bound socket is strict: the metric does not count. */
	netns_ip("-6 route add fd01::/64 dev a0 metric 1");
	for (unsigned i = 0; i < 2; i++) {
		char line[100];

		for (const char *l = "ab"; *l; l++) {
			snprintf(line, sizeof(line),
				 "neighbour add %s lladdr 02:00:00:00:00:09 dev %c0 nud permanent",
				 nd[i], *l);
			netns_ip(line);
		}
	}
	expect_by_b0("10.1.1.2", "10.1.1.9");
	expect_by_b0("fd01::2", "fd01::9");
}

TEST(route_bind_socket, bound_already__stays)
{
	char name[IF_NAMESIZE];
	socklen_t len = sizeof(name);
	int fd;

	lab();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "a0", 3), 0);
	assert_int_equal(route_bind_socket(fd, true, if_nametoindex("b0")), 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len), 0);
	assert_string_equal(name, "a0");
	close(fd);
}
