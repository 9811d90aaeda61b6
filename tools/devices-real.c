/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries the real devices through the system's libibverbs, as the drop-in does. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "devices.h"
#include "tool.h"
#include "verbs/misc.h"
#include "verbs/real.h"
#include "wire/print.h"

enum { TABLE_MAX = 256 };

static const char *state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_ACTIVE:
		return "active";
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "init";
	case IBV_PORT_ARMED:
		return "armed";
	default:
		return "unknown";
	}
}

/**
 * The name of the interface that a GID belongs to. By sysfs: an index means nothing to a process in
 * another network namespace than the interface's, and the kernel shows its devices in all of them.
 */
static void find_interface(struct ibv_device *device, unsigned port, unsigned gid_index,
			   char ifname[IF_NAMESIZE])
{
	char file[64];

	snprintf(file, sizeof(file), "ports/%u/gid_attrs/ndevs/%u", port, gid_index);
	if (ibv_read_sysfs_file(device->ibdev_path, file, ifname, IF_NAMESIZE) <= 0)
		ifname[0] = 0;
}

/** RoCE v2 and InfiniBand addresses; those of RoCE v1 are the same ones again. */
static void fill_gids(struct ibv_context *ctx, struct ibv_device *device, struct port_info *p)
{
	struct ibv_gid_entry *table = calloc(TABLE_MAX, sizeof(*table));
	ssize_t n = table ? ibv_query_gid_table(ctx, table, TABLE_MAX, 0) : 0;

	for (ssize_t i = 0; i < n && p->ngids < PORT_GIDS_MAX; i++) {
		struct rocemu_gid gid;

		if (table[i].port_num != p->port || table[i].gid_type == IBV_GID_TYPE_ROCE_V1)
			continue;
		memcpy(gid.raw, table[i].gid.raw, sizeof(gid.raw));
		p->gids[p->ngids].index = table[i].gid_index;
		print_gid(p->gids[p->ngids].text, sizeof(p->gids[0].text), &gid);
		if (p->ngids++ == 0)
			find_interface(device, p->port, table[i].gid_index, p->ifname);
	}
	free(table);
}

static void fill_port(struct ibv_context *ctx, struct ibv_device *device, unsigned port,
		      struct port_info *p)
{
	struct ibv_port_attr attr = {0};
	__be64 guid = ibv_get_device_guid(device);
	uint8_t bytes[sizeof(guid)];

	memset(p, 0, sizeof(*p));
	memcpy(bytes, &guid, sizeof(bytes));
	snprintf(p->name, sizeof(p->name), "%s", ibv_get_device_name(device));
	p->real = true;
	p->port = port;
	p->guid = get_be64(bytes);
	p->state = "unknown";
	if (!ctx)
		return;
	if (ibv_query_port(ctx, (uint8_t)port, &attr) == 0) {
		p->state = state_name(attr.state);
		p->path_mtu = attr.active_mtu ? 128u << attr.active_mtu : 0;
	}
	fill_gids(ctx, device, p);
}

/** Its ports; one without particulars when it cannot be opened. @return false without memory. */
static bool add_device(const char *who, struct ibv_device *device, struct port_info **out,
		       unsigned *n)
{
	struct ibv_context *ctx = ibv_open_device(device);
	struct ibv_device_attr attr = {.phys_port_cnt = 1};
	struct port_info *more;

	if (!ctx)
		fprintf(stderr, "%s: %s cannot be opened: %s\n", who, ibv_get_device_name(device),
			strerror(errno));
	else if (ibv_query_device(ctx, &attr) != 0)
		attr.phys_port_cnt = 1;
	more = realloc(*out, (*n + attr.phys_port_cnt) * sizeof(*more));
	for (unsigned port = 1; more && port <= attr.phys_port_cnt; port++)
		fill_port(ctx, device, port, &more[(*n)++]);
	if (more)
		*out = more;
	if (ctx)
		ibv_close_device(ctx);
	return more;
}

unsigned real_ports(const char *who, struct port_info **out)
{
	unsigned count, n = 0;
	struct ibv_device **list = real_device_list(&count);

	*out = NULL;
	for (unsigned i = 0; i < count; i++)
		if (!add_device(who, list[i], out, &n))
			break;
	if (list)
		REAL_CALL_VOID(ibv_free_device_list, list);
	return n;
}
