/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of all devices, as they were when the devices were listed last: which device has an
 * address. A device is opened for it only when an ID needs it. A thousand interfaces would
 * take more descriptors than most programs may have, though they use one or two of them.
 *
 * A listing is taken for what it was: the device's own table, as it is now, decides. If the address
 * is not there, or not listed, the devices are listed anew.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "base/util.h"
#include "base/why.h"
#include "netdev/addr.h"
#include "rdmacm/addr.h"
#include "rdmacm/device.h"
#include "rdmacm/globals.h"
#include "rdmacm/private.h"

static struct rcm_devices *const devices = &rcm_globals.devices;

/* An address of a listed device. */
struct rcm_listed {
	struct hash_node by_gid;
	struct rcm_local local;	   /* dev NULL: the device is not open */
	struct ibv_device *device; /* of the list */
	unsigned ifindex;	   /* of its interface */
};

/* ---- a table ---- */

void rcm_local_ah(const struct rcm_local *local, const struct rocemu_gid *gid, uint8_t tclass,
		  struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = local->port_num,
		.grh.sgid_index = local->sgid_index,
		.grh.traffic_class = tclass,
		.grh.hop_limit = RCM_HOP_LIMIT,
	};
	memcpy(ah->grh.dgid.raw, gid->raw, 16);
}

/* The addresses in entries, as those of dev. @return how many. */
static int take_entries(const struct ibv_gid_entry *entries, ssize_t n, struct rcm_device *dev,
			unsigned changes, struct rcm_local *out)
{
	int taken = 0;

	for (const struct ibv_gid_entry *e = entries; n > 0; e++, n--) {
		struct rcm_local l = {
			.dev = dev,
			.port_num = (uint8_t)e->port_num,
			.sgid_index = (uint8_t)e->gid_index,
			.changes = changes,
		};

		if (e->gid_type != IBV_GID_TYPE_ROCE_V2 || e->gid_index > 0xff)
			continue;
		memcpy(l.gid.raw, e->gid.raw, 16);
		if (l.gid.raw[0] == 0xfe && (l.gid.raw[1] & 0xc0) == 0x80)
			l.scope_id = e->ndev_ifindex;
		out[taken++] = l;
	}
	return taken;
}

int rcm_device_table(struct rcm_device *dev, struct rcm_local **out)
{
	unsigned changes = atomic_load(&dev->changes); /* before: see rcm_id_set_local() */
	struct ibv_gid_entry *entries = calloc(RCM_GIDS_MAX, sizeof(*entries));
	ssize_t n = entries ? ibv_query_gid_table(dev->verbs, entries, RCM_GIDS_MAX, 0) : 0;
	struct rcm_local *v = entries ? calloc((size_t)MAX(n, 1), sizeof(*v)) : NULL;
	int taken = v ? take_entries(entries, n, dev, changes, v) : -ENOMEM;

	free(entries);
	if (v)
		*out = v;
	return taken;
}

static bool matches(const struct rcm_local *l, const struct rocemu_gid *gid, uint32_t scope_id)
{
	return rocemu_gid_equal(&l->gid, gid) &&
	       (!scope_id || !l->scope_id || scope_id == l->scope_id);
}

/* ---- the listing; the devices' lock held ---- */

static void listing_drop(void)
{
	struct rcm_listing *l = &devices->listing;

	hash_fini(&l->by_gid);
	free(l->v);
	if (l->list)
		ibv_free_device_list(l->list);
	*l = (struct rcm_listing){0};
}

/* All that have addresses, loopback where programs do not list it too. */
static struct ibv_device **list_all(void)
{
	private_devices_fn *list = rcm_private()->devices;

	return list ? list() : ibv_get_device_list(NULL);
}

/*
 * The table of a listed device; entries: room for RCM_GIDS_MAX. Only our libibverbs shows it of a
 * device that is not open. *dev: the open device, or NULL. @return how many, or -errno.
 */
static ssize_t read_table(struct ibv_device *device, struct ibv_gid_entry *entries,
			  struct rcm_device **dev, unsigned *changes)
{
	private_gids_fn *gids = rcm_private()->gids;
	int err;

	*dev = rcm_device_find_open(ibv_get_device_name(device));
	if (!*dev && gids)
		return gids(device, entries, RCM_GIDS_MAX);
	if (!*dev) {
		err = rcm_device_open(device, 0, true, dev);
		if (err)
			return err;
	}
	*changes = atomic_load(&(*dev)->changes); /* before: see rcm_id_set_local() */
	return ibv_query_gid_table((*dev)->verbs, entries, RCM_GIDS_MAX, 0);
}

/* A device's table, while devices are listed. */
struct scratch {
	struct ibv_gid_entry entries[RCM_GIDS_MAX];
	struct rcm_local locals[RCM_GIDS_MAX];
};

/* Append the addresses of a listed device. */
static int add_device(struct rcm_listing *l, struct ibv_device *device, struct scratch *s)
{
	struct rcm_device *dev;
	unsigned changes = 0;
	ssize_t n = read_table(device, s->entries, &dev, &changes);
	int taken;

	if (n < 0)
		return (int)n;
	taken = take_entries(s->entries, n, dev, changes, s->locals);
	if (l->n + (unsigned)taken > l->room) {
		const unsigned room = MAX(2 * l->room, l->n + (unsigned)taken);
		struct rcm_listed *v = realloc(l->v, room * sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->room = room;
	}
	for (int i = 0; i < taken; i++)
		l->v[l->n++] = (struct rcm_listed){.local = s->locals[i],
						   .device = device,
						   .ifindex = s->entries[0].ndev_ifindex};
	return 0;
}

static uint64_t key(const struct rocemu_gid *gid)
{
	return hash_bytes(gid, sizeof(*gid));
}

/* List the devices anew. -errno: none could be read, or out of memory. */
static int relist(void)
{
	struct rcm_listing *l = &devices->listing;
	int good = 0, bad = 0, err = 0;
	struct scratch *scratch;

	listing_drop();
	l->list = list_all();
	if (!l->list)
		return -errno;
	scratch = malloc(sizeof(*scratch));
	if (!scratch)
		err = -ENOMEM;
	for (struct ibv_device **p = l->list; *p && !err; p++) {
		int ret = add_device(l, *p, scratch);

		good += !ret;
		if (ret)
			bad = ret;
		if (ret == -ENOMEM)
			err = ret;
	}
	free(scratch);
	err = err || good ? err : bad;
	if (err) {
		listing_drop();
		return err;
	}
	for (unsigned i = 0; i < l->n; i++)
		hash_add(&l->by_gid, &l->v[i].by_gid, key(&l->v[i].local.gid));
	return 0;
}

/* The first one with that address. */
static const struct rcm_listed *lookup(const struct rocemu_gid *gid, uint32_t scope_id)
{
	const struct rcm_listed *first = NULL;

	hash_for_each (e, struct rcm_listed, by_gid, &devices->listing.by_gid, key(gid))
		if (matches(&e->local, gid, scope_id) && (!first || e < first))
			first = e;
	return first;
}

/* The address in the device's table of now. -ENOENT: it is not there. */
static int find_in_table(struct rcm_device *dev, const struct rocemu_gid *gid, uint32_t scope_id,
			 struct rcm_local *out)
{
	struct rcm_local *table;
	int i = 0, n = rcm_device_table(dev, &table);

	if (n < 0)
		return n;
	while (i < n && !matches(&table[i], gid, scope_id))
		i++;
	if (i < n)
		*out = table[i];
	free(table);
	return i < n ? 0 : -ENOENT;
}

/* By the listing. -ENOENT: the address is not listed, or no longer there. */
static int find_listed(const struct rocemu_gid *gid, uint32_t scope_id, struct rcm_local *out)
{
	const struct rcm_listed *e = lookup(gid, scope_id);
	struct rcm_device *dev;
	int err = e ? rcm_device_open(e->device, e->ifindex, true, &dev) : -ENOENT;

	return err ? err : find_in_table(dev, gid, scope_id, out);
}

/* ---- look-ups ---- */

bool rcm_device_is_ours(const struct sockaddr *sa)
{
	struct sockaddr_storage ss;
	int fd = sys_socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ours = false;

	if (fd < 0)
		return false;
	rcm_addr_copy(&ss, sa);
	rcm_addr_set_port((struct sockaddr *)&ss, 0);
	ours = bind(fd, (struct sockaddr *)&ss, rcm_addr_len(sa)) == 0;
	close(fd);
	return ours;
}

/* Loopback addresses need no device of their own. */
static int refuse(const struct sockaddr *sa, const struct rocemu_gid *gid)
{
	char text[ADDR_TEXT_LEN];

	if (!rcm_device_is_ours(sa))
		return -EADDRNOTAVAIL;
	if (!rcm_addr_loopback(sa))
		why_say(0,
			"rdma_cm: no device has the address %s of this host: a device has as many "
			"of its interface's addresses as its GID table has room for, and a "
			"bridge's port is no device: select it by --device %s",
			addr_gid_text(gid, text), text);
	return -ENODEV;
}

int rcm_device_find(const struct sockaddr *sa, struct rcm_local *out)
{
	const uint32_t scope_id = rcm_addr_scope(sa); /* 0: any */
	struct rocemu_gid gid;
	int err;

	rcm_addr_to_gid(sa, &gid);
	mutex_lock(&devices->lock);
	err = find_listed(&gid, scope_id, out);
	if (err) {
		err = relist();
		if (!err)
			err = find_listed(&gid, scope_id, out);
	}
	mutex_unlock(&devices->lock);
	return err == -ENOENT ? refuse(sa, &gid) : err;
}

static bool is_loopback(const struct rcm_local *l, int family)
{
	struct sockaddr_storage ss;
	struct sockaddr *sa = (struct sockaddr *)&ss;

	rcm_addr_from_gid(sa, &l->gid, 0, 0);
	return sa->sa_family == family && rcm_addr_loopback(sa);
}

int rcm_device_find_loopback(int family, struct rcm_local *out)
{
	struct rcm_listing *l = &devices->listing;
	unsigned i = 0;
	int err;

	mutex_lock(&devices->lock);
	err = relist();
	while (!err && i < l->n && !is_loopback(&l->v[i].local, family))
		i++;
	if (!err)
		err = i < l->n ? find_listed(&l->v[i].local.gid, 0, out) : -ENODEV;
	mutex_unlock(&devices->lock);
	return err == -ENOENT ? -ENODEV : err;
}

int rcm_device_addresses(struct rcm_local **out)
{
	const struct rcm_listing *l = &devices->listing;
	struct rcm_local *v = NULL;
	int n;

	mutex_lock(&devices->lock);
	n = relist();
	if (!n) {
		v = calloc(l->n + 1u, sizeof(*v));
		n = v ? (int)l->n : -ENOMEM;
	}
	for (int i = 0; v && i < n; i++)
		v[i] = l->v[i].local;
	mutex_unlock(&devices->lock);
	if (v)
		*out = v;
	return n;
}

uint64_t rcm_device_guid(void)
{
	const struct rcm_listing *l = &devices->listing;
	struct list *first;
	uint64_t guid = 0;

	mutex_lock(&devices->lock);
	first = list_first(&devices->list);
	if (!first && !l->n)
		(void)relist();
	if (first)
		guid = list_entry(first, struct rcm_device, node)->guid;
	else if (l->n)
		guid = be64toh(ibv_get_device_guid(l->v[0].device));
	mutex_unlock(&devices->lock);
	return guid;
}
