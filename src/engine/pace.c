/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pace.h"

#include <linux/sock_diag.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/client.h"
#include "base/bytes.h"

#define RECENT_NS 10000000u /* a receiver not sent to for this long holds nobody back */

enum { BTH_DQPN = 5 };

static void forget(struct pace_dest *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

void pace_fini(struct pace *p)
{
	for (unsigned i = 0; i < p->n; i++)
		forget(&p->dest[i]);
	p->n = 0;
}

/*
 * Half of what is free beyond a quarter: what is under way counts more in the kernel's books than
 * in ours, and the kernel takes what was read out of them late, up to a quarter of the buffer.
 */
static uint64_t dest_room(const struct pace_dest *d)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);
	uint32_t size, reserve;

	if (getsockopt(d->fd, SOL_SOCKET, SO_MEMINFO, info, &len) ||
	    len <= SK_MEMINFO_RCVBUF * sizeof(info[0]))
		return UINT64_MAX;
	size = info[SK_MEMINFO_RCVBUF];
	reserve = size / 4 + info[SK_MEMINFO_RMEM_ALLOC];
	return size > reserve ? (size - reserve) / 2 : 0;
}

uint64_t pace_room(struct pace *p, rocemu_ns_t now)
{
	uint64_t room = UINT64_MAX;
	bool any = false;

	for (unsigned i = 0; i < p->n; i++) {
		const struct pace_dest *d = &p->dest[i];

		if (now > d->used && now - d->used > RECENT_NS)
			continue;
		any = true;
		if (d->fd >= 0) {
			uint64_t r = dest_room(d);

			room = r < room ? r : room;
		}
	}
	return any ? room : PACE_FIRST;
}

static struct pace_dest *find(struct pace *p, const struct rocemu_gid *gid, uint16_t slot)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->dest[i].slot == slot && !memcmp(&p->dest[i].gid, gid, sizeof(*gid)))
			return &p->dest[i];
	return NULL;
}

/** An entry for one more: a new one, or that of whoever was not sent to for the longest time. */
static struct pace_dest *place(struct pace *p)
{
	struct pace_dest *oldest = &p->dest[0];

	if (p->n < PACE_DESTS)
		return &p->dest[p->n++];
	for (unsigned i = 1; i < p->n; i++)
		if (p->dest[i].used < oldest->used)
			oldest = &p->dest[i];
	forget(oldest);
	return oldest;
}

void pace_sending(struct pace *p, const struct agent_client *agent, uint32_t scope_id,
		  rocemu_ns_t now, struct rocemu_tx *const *pkt, unsigned n)
{
	const struct rocemu_path *path = NULL;
	uint32_t dqpn = UINT32_MAX;

	for (unsigned i = 0; i < n; i++) {
		const struct rocemu_tx *t = pkt[i];
		enum rocemu_service svc = rocemu_opcode_service(t->hdr[0]);
		uint32_t to = get_be24(t->hdr + BTH_DQPN);
		struct pace_dest *d;
		uint16_t slot;

		if ((svc != ROCEMU_SVC_UC && svc != ROCEMU_SVC_UD) ||
		    (t->path == path && to == dqpn))
			continue;
		path = t->path;
		dqpn = to;
		slot = (uint16_t)(to >> ROCEMU_QPN_INDEX_BITS);
		d = find(p, &path->dgid, slot);
		if (!d) {
			d = place(p);
			*d = (struct pace_dest){.gid = path->dgid, .slot = slot};
			/* Of a group nobody knows who is in it. */
			d->fd = rocemu_gid_is_multicast(&path->dgid)
					? -1
					: agent_client_peer_socket(agent, &path->dgid, scope_id,
								   slot);
			if (d->fd < 0)
				d->fd = -1;
		}
		d->used = now;
	}
}
