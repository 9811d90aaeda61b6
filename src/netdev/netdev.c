/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/netdev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/limit.h"
#include "base/util.h"
#include "netdev/addr.h"
#include "netdev/inventory.h"
#include "wire/ip.h"

enum {
	/*
	 * IPv6 40, UDP 8, BTH 12, RETH 16, ImmDt 4, ICRC 4: the headers of an RDMA WRITE ONLY with
	 * immediate.
	 */
	MAX_OVERHEAD = 84,
};

static int fail(char *errbuf, size_t errlen, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int fail(char *errbuf, size_t errlen, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(errbuf, errlen, fmt, ap);
	va_end(ap);
	return err;
}

enum ibv_mtu netdev_active_mtu(unsigned mtu)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512};

	for (unsigned i = 0; i < ARRAY_LEN(mtus); i++)
		if (mtu >= (128u << mtus[i]) + MAX_OVERHEAD)
			return mtus[i];
	return IBV_MTU_256;
}

struct netdev_speed netdev_link_speed(unsigned mbps)
{
	enum { X1 = 1, X4 = 2, X8 = 4, X2 = 16 };
	enum { SDR = 1, DDR = 2, QDR = 4, FDR = 16, EDR = 32, HDR = 64, NDR = 128 };
	static const struct {
		unsigned mbps;
		struct netdev_speed speed;
	} table[] = {
		{3750, {X1, SDR, 1, 2500, "SDR"}},     {7500, {X1, DDR, 1, 5000, "DDR"}},
		{15000, {X1, QDR, 1, 10000, "QDR"}},   {22500, {X4, DDR, 4, 5000, "DDR"}},
		{32000, {X1, EDR, 1, 25000, "EDR"}},   {45000, {X4, QDR, 4, 10000, "QDR"}},
		{53000, {X2, EDR, 2, 25000, "EDR"}},   {78000, {X4, FDR, 4, 14000, "FDR"}},
		{150000, {X4, EDR, 4, 25000, "EDR"}},  {300000, {X4, HDR, 4, 50000, "HDR"}},
		{600000, {X4, NDR, 4, 100000, "NDR"}}, {UINT32_MAX, {X8, NDR, 8, 100000, "NDR"}},
	};
	unsigned i = 0;

	/* Not faster than links of known speed: programs send most on the fastest one. */
	if (mbps == 0)
		mbps = 10000;
	while (mbps > table[i].mbps)
		i++;
	return table[i].speed;
}

/* ---- devices ---- */

/**
 * EUI-64 of the MAC (IBTA 4.1.1) where the device is a whole interface that has one, else made of
 * its first address, with the "locally administered" bit set.
 */
static uint64_t make_guid(const struct netdev *d, bool whole_interface)
{
	static const uint8_t no_mac[6];
	const uint8_t *m = d->mac, *g = d->addrs[0].gid.raw;
	uint8_t eui[8];

	if (whole_interface && memcmp(m, no_mac, 6) != 0) {
		const uint8_t id[8] = {m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};

		memcpy(eui, id, 8);
	} else if (gid_is_ipv4(&d->addrs[0].gid)) {
		const uint8_t id[8] = {0x02, 0x52, 0x6f, 0x43, g[12], g[13], g[14], g[15]};

		memcpy(eui, id, 8);
	} else {
		for (unsigned i = 0; i < 8; i++)
			eui[i] = g[i] ^ g[i + 8];
		eui[0] |= 2;
	}
	return get_be64(eui);
}

/** Does an interface stand for a device of the default list? Loopback apart. */
static bool is_default(const struct inventory_if *i)
{
	return i->usable && !inventory_is_port(i) && !inventory_is_loopback(i);
}

/** Is there an interface by which other hosts may be reached? */
static bool has_outside(const struct inventory *inv)
{
	for (unsigned i = 0; i < inv->n; i++)
		if (is_default(&inv->ifs[i]) && inventory_is_active(&inv->ifs[i]))
			return true;
	return false;
}

/*
 * Programs that use every active port pair a host's loopback with another host's, so loopback is
 * not listed beside an interface that leads out. Nor are ports of bridges and the like: the kernel
 * gives them link-local addresses, but what comes to them is the bridge's. A host of containers has
 * hundreds of them.
 */
static void list_default(const struct inventory *inv, bool loopback, struct netdev *out,
			 unsigned *n)
{
	loopback |= !has_outside(inv);
	*n = 0;
	for (unsigned i = 0; i < inv->n; i++) {
		struct netdev *d = &out[*n];

		if (!is_default(&inv->ifs[i]) &&
		    !(loopback && inv->ifs[i].usable && inventory_is_loopback(&inv->ifs[i])))
			continue;
		inventory_netdev(inv, &inv->ifs[i], d);
		snprintf(d->name, sizeof(d->name), "rocemu_%s", d->ifname);
		d->guid = make_guid(d, true);
		(*n)++;
	}
}

/* ---- why there is none ---- */

enum { EXPLAIN_MAX = 4 /* interfaces that are named */ };

/** Why an interface without an address has none, and the commands that give it one. */
static void explain_no_address(const struct inventory_if *i, char *buf, size_t len)
{
	const bool lo = inventory_is_loopback(i), up = i->link.flags & IFF_UP;
	const char *name = i->link.name;
	size_t at;

	if (lo && !up) { /* it gets one then */
		snprintf(buf, len, "%s is down: `ip link set %s up`", name, name);
		return;
	}
	at = (size_t)snprintf(buf, len, "%s %shas no address: `ip address add %s dev %s`", name,
			      up ? "" : "is down and ", lo ? "127.0.0.1/8" : "ADDRESS/PREFIX",
			      name);
	if (!up && at < len)
		snprintf(buf + at, len - at, ", `ip link set %s up`", name);
}

/** Why an interface is no default device, and what makes it one; "" where it is one. */
static const char *explain_one(const struct inventory_if *i, char *buf, size_t len)
{
	const char *name = i->link.name, *kind = i->link.master_kind;

	buf[0] = 0;
	if (inventory_is_port(i))
		snprintf(buf, len, "%s is a port of a %s: give that an address, or `--device %s`",
			 name, *kind ? kind : "bridge or the like", name);
	else if (!i->naddrs)
		explain_no_address(i, buf, len);
	else if (!i->usable)
		snprintf(buf, len, "%s has tentative addresses only: see `ip address show dev %s`",
			 name, name);
	return buf;
}

/** Loopback first: its remedy is always possible. */
static void explain_none(const struct inventory *inv, char *buf, size_t len)
{
	size_t at = (size_t)snprintf(buf, len, "no interface has a usable address");
	unsigned named = 0;
	char one[256];

	for (unsigned i = inv->n; i > 0 && named < EXPLAIN_MAX && at < len; i--) {
		explain_one(&inv->ifs[i - 1], one, sizeof(one));
		if (*one)
			at += (size_t)snprintf(buf + at, len - at, "%s %s", named++ ? ";" : ":",
					       one);
	}
	if (named < inv->n && named == EXPLAIN_MAX && at < len)
		snprintf(buf + at, len - at, "; and %u more interfaces", inv->n - named);
}

/* ---- a spec ---- */

static bool parse_address(const char *text, struct rocemu_gid *gid)
{
	char addr[INET6_ADDRSTRLEN];
	uint8_t v4[4];
	size_t len = strcspn(text, "%"); /* "fe80::1%eth0": the address is sufficient */

	if (len >= sizeof(addr))
		return false;
	memcpy(addr, text, len);
	addr[len] = 0;
	if (inet_pton(AF_INET6, addr, gid->raw) == 1)
		return true;
	if (inet_pton(AF_INET, addr, v4) != 1)
		return false;
	gid_from_ipv4(gid, v4);
	return true;
}

/** The interface with the address, and its entry for it; or NULL. */
static const struct inventory_if *
find_address(const struct inventory *inv, const struct rocemu_gid *gid, struct netdev_addr *entry)
{
	unsigned index;
	const struct inventory_if *on = inventory_find_address(inv, gid, &index);

	if (on) {
		*entry = inventory_address(on, index);
		return on;
	}
	/* All of 127.0.0.0/8 is local, though only 127.0.0.1 is listed. */
	*entry = (struct netdev_addr){.gid = *gid};
	if (gid_is_ipv4(gid) && gid->raw[12] == 127)
		for (unsigned i = 0; i < inv->n; i++)
			if (inventory_is_loopback(&inv->ifs[i]))
				return &inv->ifs[i];
	return NULL;
}

static bool name_ok(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < NETDEV_NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") ==
		       len;
}

/**
 * Make *d of target, an interface or an address. @return false: there is no such interface or
 * address, or the interface has no address.
 */
static bool device_from_target(const struct inventory *inv, const char *target, struct netdev *d)
{
	struct netdev_addr entry;
	struct rocemu_gid gid;
	const struct inventory_if *on;

	if (parse_address(target, &gid)) {
		on = find_address(inv, &gid, &entry);
		if (!on)
			return false;
		inventory_netdev(inv, on, d);
		d->addrs[0] = entry;
		d->naddrs = 1;
		d->one_address = true;
		d->guid = make_guid(d, false);
		return true;
	}
	on = inventory_find_name(inv, target);
	if (!on || !on->usable)
		return false;
	inventory_netdev(inv, on, d);
	d->guid = make_guid(d, true);
	return true;
}

/** Devices of a spec, by name. */
struct named {
	struct hash_node by_name;
	const struct netdev *d; /* borrowed */
};

static bool add_name(struct hash *names, struct named *entry, const struct netdev *d)
{
	const uint64_t key = hash_bytes(d->name, strlen(d->name));

	hash_for_each (e, struct named, by_name, names, key)
		if (!strcmp(e->d->name, d->name))
			return false;
	entry->d = d;
	hash_add(names, &entry->by_name, key);
	return true;
}

/** One entry of a spec, as *d; entry is taken apart. */
static int parse_entry(const struct inventory *inv, char *entry, struct netdev *d, char *errbuf,
		       size_t errlen)
{
	char *eq = strchr(entry, '=');
	const char *target = eq ? eq + 1 : entry;
	char have[512];

	if (eq)
		*eq = 0;
	if (!*target || (eq && !*entry))
		return fail(
			errbuf, errlen, -EINVAL,
			"\"%s%s%s\": expected name=interface, name=address, interface or address",
			entry, eq ? "=" : "", eq ? target : "");
	if (eq && !name_ok(entry))
		return fail(
			errbuf, errlen, -EINVAL,
			"device name \"%s\": only letters, digits, '_', '-' and '.', at most %d",
			entry, NETDEV_NAME_MAX - 1);
	if (!device_from_target(inv, target, d))
		return fail(errbuf, errlen, -EINVAL,
			    "\"%s\" is not an interface with an address, and not an address, of "
			    "this machine; it has: %s",
			    target, inventory_text(inv, have, sizeof(have)));
	if (eq)
		snprintf(d->name, sizeof(d->name), "%s", entry);
	else
		snprintf(d->name, sizeof(d->name), "rocemu_%s", d->ifname);
	return 0;
}

static unsigned count_entries(const char *spec)
{
	unsigned n = 1;

	while ((spec = strchr(spec, ',')) != NULL) {
		spec++;
		n++;
	}
	return n;
}

/** devs: room for all entries. */
static int parse_spec(const struct inventory *inv, const char *spec, struct netdev *devs,
		      unsigned *n, char *errbuf, size_t errlen)
{
	struct named *named = calloc(count_entries(spec), sizeof(*named));
	char *copy = strdup(spec), *at = copy;
	struct hash names = {0};
	int ret = copy && named ? 0 : fail(errbuf, errlen, -ENOMEM, "out of memory");

	*n = 0;
	while (ret == 0 && at) {
		struct netdev *d = &devs[*n];
		char *entry = strsep(&at, ",");

		ret = parse_entry(inv, entry, d, errbuf, errlen);
		if (ret == 0 && !add_name(&names, &named[*n], d))
			ret = fail(errbuf, errlen, -EINVAL,
				   "two devices are called \"%s\": give them names, as in "
				   "a=%s,b=%s",
				   d->name, d->ifname, d->ifname);
		(*n)++;
	}
	hash_fini(&names);
	free(named);
	free(copy);
	return ret;
}

static int list_devices(const char *spec, bool loopback, struct netdev **out, unsigned *n,
			char *errbuf, size_t errlen)
{
	char policy[LIMIT_TEXT_LEN];
	struct inventory inv;
	struct netdev *devs;
	unsigned found = 0;
	int ret = inventory_take(&inv, 0);

	if (ret < 0)
		return fail(errbuf, errlen, ret, "cannot list the network interfaces: %s%s",
			    strerror(-ret), refusal_text(ret, policy));
	spec = spec && *spec ? spec : NULL;
	devs = calloc(spec ? count_entries(spec) : inv.n + 1, sizeof(*devs));
	if (!devs)
		ret = fail(errbuf, errlen, -ENOMEM, "out of memory");
	else if (spec)
		ret = parse_spec(&inv, spec, devs, &found, errbuf, errlen);
	else
		list_default(&inv, loopback, devs, &found);
	if (ret == 0 && found == 0)
		explain_none(&inv, errbuf, errlen);
	inventory_free(&inv);
	if (ret < 0) {
		free(devs);
		return ret;
	}
	for (unsigned i = 0; i < found; i++)
		netdev_make_gids(&devs[i]);
	*out = devs;
	*n = found;
	return 0;
}

int netdev_list(const char *spec, struct netdev **out, unsigned *n, char *errbuf, size_t errlen)
{
	return list_devices(spec, false, out, n, errbuf, errlen);
}

int netdev_list_all(const char *spec, struct netdev **out, unsigned *n, char *errbuf, size_t errlen)
{
	return list_devices(spec, true, out, n, errbuf, errlen);
}

/* ---- changes ---- */

/** Keep of a device on one address that address, if it is still there. */
static void narrow(const struct inventory *inv, const struct netdev *d, struct netdev *now)
{
	struct netdev_addr entry;

	now->naddrs = find_address(inv, &d->addrs[0].gid, &entry) != NULL;
	now->addrs[0] = entry;
}

int netdev_reread(const struct netdev *d, struct netdev *now)
{
	struct inventory inv;
	int ret = inventory_take(&inv, d->ifindex);

	if (ret < 0) {
		*now = *d;
		now->naddrs = ret == -ENODEV ? 0 : d->naddrs;
		now->active = ret == -ENODEV ? false : d->active;
		return ret;
	}
	inventory_netdev(&inv, &inv.ifs[0], now);
	memcpy(now->name, d->name, sizeof(now->name));
	now->guid = d->guid;
	now->one_address = d->one_address;
	if (d->one_address)
		narrow(&inv, d, now);
	inventory_free(&inv);
	return 0;
}
