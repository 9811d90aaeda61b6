/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests which interfaces and addresses become devices, in network namespaces; and that the calls
 * for it do not become more with other interfaces. */
#include "test.h"

#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/util.h"
#include "netdev/netdev.h"
#include "netns.h"

/* ---- system calls of the code under test, counted (meson.build: --wrap) ---- */

static unsigned calls;

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	calls++;
	return __real_send(fd, buf, len, flags);
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	calls++;
	return __real_recv(fd, buf, len, flags);
}

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	calls++;
	return __real_ioctl(fd, request, arg);
}

/* ---- the network ---- */

static void enter(void)
{
	netns_enter();
	if (system("ip link set lo up") != 0) {
		print_message("skipped: no ip, or no right to change interfaces\n");
		skip();
	}
}

static void ip(const char *args)
{
	char line[200];

	snprintf(line, sizeof(line), "ip %s", args);
	assert_int_equal(system(line), 0);
}

static FILE *batch;

static void batch_begin(void)
{
	batch = popen("ip -batch -", "w");
	assert_non_null(batch);
}

static void batch_end(void)
{
	assert_int_equal(pclose(batch), 0);
}

/** An interface of that name, up, without an address that the kernel makes. */
static void batch_veth(const char *prefix, unsigned i)
{
	fprintf(batch, "link add %s%u type veth peer name %sp%u\n", prefix, i, prefix, i);
	fprintf(batch, "link set %s%u addrgenmode none up\n", prefix, i);
	fprintf(batch, "link set %sp%u addrgenmode none up\n", prefix, i);
}

static struct netdev *devs;
static unsigned ndevs;

/** List devices; the list before is freed. */
static void list(const char *spec)
{
	char err[768] = "";

	free(devs);
	devs = NULL;
	ndevs = 0;
	if (netdev_list(spec, &devs, &ndevs, err, sizeof(err)) < 0)
		fail_msg("%s", err);
}

static const struct netdev *find(const char *ifname)
{
	for (unsigned i = 0; i < ndevs; i++)
		if (!strcmp(devs[i].ifname, ifname))
			return &devs[i];
	return NULL;
}

/** "10.0.0.1" of an IPv4 GID, in hex: "0a000001". */
static bool has_ipv4(const struct netdev *d, uint8_t c, uint8_t e)
{
	const struct rocemu_gid g = {.raw = {[10] = 0xff, 0xff, 10, 0, c, e}};

	return netdev_find_gid(d, &g) >= 0;
}

/* ---- devices ---- */

TEST(list, interfaces_with_addresses__active_first_and_loopback_only_alone)
{
	enter();
	list(NULL);
	assert_int_equal(ndevs, 1);
	assert_string_equal(devs[0].name, "rocemu_lo");
	batch_begin();
	batch_veth("v", 1);
	fprintf(batch, "address add 10.0.0.1/24 dev v1\n");
	batch_veth("w", 1);
	fprintf(batch, "address add 10.0.1.1/24 dev w1\nlink set w1 down\n");
	batch_veth("x", 1);
	batch_end();
	list(NULL);
	assert_int_equal(ndevs, 2);
	assert_string_equal(devs[0].name, "rocemu_v1");
	assert_true(devs[0].active && devs[0].mtu == 1500 && devs[0].mac[0] && !devs[0].loopback);
	assert_int_equal(devs[0].ifindex, if_nametoindex("v1"));
	assert_string_equal(devs[1].name, "rocemu_w1");
	assert_false(devs[1].active);
}

TEST(list, ports_of_a_bridge__not_listed_but_by_name_or_address)
{
	enter();
	batch_begin();
	fprintf(batch, "link add br0 type bridge\naddress add 10.0.0.1/24 dev br0\n");
	for (unsigned i = 0; i < 3; i++) {
		batch_veth("v", i);
		/* Link-local addresses, as the kernel makes them. */
		fprintf(batch, "address add fe80::%u/64 dev v%u nodad\n", i + 1, i);
		fprintf(batch, "link set v%u master br0\n", i);
	}
	fprintf(batch, "address add 10.0.0.2/24 dev v1\nlink set br0 up\n");
	batch_end();
	list(NULL);
	assert_null(find("v0"));
	assert_null(find("v1"));
	assert_non_null(find("br0"));
	list("v0,a=10.0.0.2");
	assert_int_equal(ndevs, 2);
	assert_string_equal(devs[0].ifname, "v0");
	assert_string_equal(devs[1].ifname, "v1");
	ip("link set v1 nomaster");
	list(NULL);
	assert_non_null(find("v1"));
}

TEST(list, only_ports_of_a_bridge_are_up__loopback_is_there)
{
	enter();
	batch_begin();
	fprintf(batch, "link add br0 type bridge\n");
	batch_veth("v", 1);
	fprintf(batch, "address add fe80::1/64 dev v1 nodad\nlink set v1 master br0\n");
	batch_end();
	list(NULL);
	assert_int_equal(ndevs, 1);
	assert_string_equal(devs[0].ifname, "lo");
}

TEST(list, address_in_two_networks__once)
{
	enter();
	batch_begin();
	batch_veth("v", 1);
	fprintf(batch, "address add 10.0.0.1/24 dev v1\naddress add 10.0.0.2/24 dev v1\n"
		       "address add 10.0.0.1/16 dev v1\n");
	batch_end();
	list(NULL);
	assert_int_equal(devs[0].naddrs, 2);
	assert_int_equal(devs[0].addrs[0].gid.raw[15], 1);
}

TEST(list, more_addresses_than_a_table_has__first_of_each_kind_and_all_by_address)
{
	enter();
	batch_begin();
	batch_veth("v", 1);
	for (unsigned i = 0; i < 1000; i++)
		fprintf(batch, "address add 10.0.%u.%u/16 dev v1\n", i / 200, i % 200 + 1);
	fprintf(batch,
		"address add fd00::1/64 dev v1 nodad\naddress add fe80::1/64 dev v1 nodad\n");
	batch_end();
	list(NULL);
	assert_int_equal(devs[0].naddrs, ROCEMU_MAX_GID);
	assert_true(has_ipv4(&devs[0], 0, 1) && has_ipv4(&devs[0], 0, 40));
	assert_false(has_ipv4(&devs[0], 4, 200));
	assert_int_equal(devs[0].gids[1].gid.raw[0], 0xfe);
	assert_int_equal(devs[0].addrs[ROCEMU_MAX_GID - 2].gid.raw[0], 0xfd);
	assert_int_equal(devs[0].addrs[ROCEMU_MAX_GID - 1].scope_id, devs[0].ifindex);
	list("a=10.0.4.200,b=fd00::1,c=fe80::1");
	assert_true(has_ipv4(&devs[0], 4, 200) && devs[0].one_address && devs[0].naddrs == 1);
	assert_int_equal(devs[2].addrs[0].scope_id, devs[2].ifindex);
}

TEST(list, tentative_address__not_usable)
{
	enter();
	batch_begin();
	fprintf(batch, "link add v1 type veth peer name v2\n");
	fprintf(batch, "link set v1 addrgenmode none up\n"); /* no carrier: detection waits */
	fprintf(batch, "address add fd00::1/64 dev v1\n");
	batch_end();
	list(NULL);
	assert_null(find("v1"));
	ip("address add 10.0.0.1/24 dev v1");
	list(NULL);
	assert_non_null(find("v1"));
	assert_true(find("v1")->addrs[1].tentative);
}

/* ---- what it costs ---- */

/** Interfaces from first to last, with an address each. */
static void add_interfaces(unsigned first, unsigned last)
{
	batch_begin();
	for (unsigned i = first; i < last; i++) {
		batch_veth("c", i);
		fprintf(batch, "address add 10.1.%u.%u/32 dev c%u\n", i / 200, i % 200 + 1, i);
	}
	batch_end();
}

TEST(cost, list__calls_grow_with_the_interfaces_and_not_faster)
{
	unsigned few, many;

	enter();
	add_interfaces(0, 20);
	calls = 0;
	list(NULL);
	few = calls;
	add_interfaces(20, 200);
	calls = 0;
	list(NULL);
	many = calls;
	assert_int_equal(ndevs, 200);
	assert_in_range(few, 1, 2 * 20 + 20);
	assert_in_range(many, 1, 2 * 200 + 20);
}

TEST(cost, list_by_a_spec__the_same)
{
	char spec[200 * 24] = "";
	size_t at = 0;

	enter();
	add_interfaces(0, 200);
	for (unsigned i = 0; i < 200; i++)
		at += (size_t)snprintf(spec + at, sizeof(spec) - at, "%sd%u=10.1.%u.%u",
				       i ? "," : "", i, i / 200, i % 200 + 1);
	calls = 0;
	list(spec);
	assert_int_equal(ndevs, 200);
	assert_in_range(calls, 1, 2 * 200 + 20);
}

TEST(cost, one_interface_read_again__its_own_and_the_calls_of_one)
{
	struct netdev now;
	unsigned alone;

	enter();
	add_interfaces(0, 1);
	list(NULL);
	calls = 0;
	assert_int_equal(netdev_reread(&devs[0], &now), 0);
	alone = calls;
	add_interfaces(1, 200);
	ip("address add 10.2.0.1/32 dev c0");
	calls = 0;
	assert_int_equal(netdev_reread(&devs[0], &now), 0);
	assert_int_equal(calls, alone);
	assert_in_range(calls, 1, 20);
	assert_int_equal(now.naddrs, 2);
	assert_int_equal(now.addrs[1].gid.raw[13], 2);
	assert_string_equal(now.name, devs[0].name);
	ip("link delete c0");
	assert_int_equal(netdev_reread(&devs[0], &now), -ENODEV);
	assert_int_equal(now.naddrs, 0);
	assert_false(now.active);
	assert_string_equal(now.name, devs[0].name);
}
