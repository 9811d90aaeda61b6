/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/rcvbuf.h"

#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/util.h"
#include "wire/bth.h"

#define RECENT_NS 10000000u /* a receiver not sent to for this long does not limit the sender */

enum { OVERHEAD = 64 /* of a packet's headers */ };

static void take_out(struct rcvbuf_dest **list, unsigned *n, const struct rcvbuf_dest *d)
{
	for (unsigned i = 0; i < *n; i++)
		if (list[i] == d)
			list[i--] = list[--*n];
}

static void forget(struct rcvbuf *p, struct rcvbuf_dest *d)
{
	take_out(p->socket, &p->nsockets, d);
	take_out(p->waiting, &p->nwaiting, d);
	if (d->state != RCVBUF_FREE && d->fd >= 0) {
		UNCANCELLED;

		close(d->fd);
	}
	*d = (struct rcvbuf_dest){.fd = -1};
}

void rcvbuf_fini(struct rcvbuf *p)
{
	for (unsigned i = 0; i < RCVBUF_BUCKETS * RCVBUF_WAYS; i++)
		forget(p, &p->dest[i / RCVBUF_WAYS][i % RCVBUF_WAYS]);
}

/*
 * Half of what is free beyond a quarter: packets in flight take more of the buffer by the kernel's
 * accounting than by the lane's, and the kernel credits read data late, up to a quarter of the
 * buffer. One that is full and has read nothing for RCVBUF_STILL_NS does not count: a stopped
 * receiver would limit what is sent to all others.
 */
static uint64_t socket_room(struct rcvbuf_dest *d, rocemu_ns_t now)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);
	uint32_t size, reserve;

	if (getsockopt(d->fd, SOL_SOCKET, SO_MEMINFO, info, &len) ||
	    len <= SK_MEMINFO_RCVBUF * sizeof(info[0]))
		return UINT64_MAX;
	size = info[SK_MEMINFO_RCVBUF];
	reserve = size / 4 + info[SK_MEMINFO_RMEM_ALLOC];
	if (size > reserve || info[SK_MEMINFO_RMEM_ALLOC] != d->filled)
		d->filled_at = now;
	d->filled = info[SK_MEMINFO_RMEM_ALLOC];
	if (size > reserve)
		return (size - reserve) / 2;
	return now > d->filled_at + RCVBUF_STILL_NS ? UINT64_MAX : 0;
}

static bool is_recent(rocemu_ns_t then, rocemu_ns_t now)
{
	return now <= then || now - then <= RECENT_NS;
}

uint64_t rcvbuf_room(struct rcvbuf *p, rocemu_ns_t now)
{
	uint64_t room = UINT64_MAX;

	if (!is_recent(p->used, now))
		return RCVBUF_FIRST;
	for (unsigned i = 0; i < p->nsockets; i++)
		if (is_recent(p->socket[i]->used, now))
			room = MIN(room, socket_room(p->socket[i], now));
	for (unsigned i = 0; i < p->nwaiting; i++) {
		const struct rcvbuf_dest *d = p->waiting[i];

		if (now < d->wanted + RCVBUF_TIMEOUT_NS && is_recent(d->used, now))
			room = MIN(room, (uint64_t)(RCVBUF_FIRST - MIN(d->sent, RCVBUF_FIRST)));
	}
	return room;
}

static struct rcvbuf_dest *bucket_of(struct rcvbuf *p, const struct rocemu_gid *gid, uint16_t slot)
{
	uint64_t h = (get_be64(gid->raw) ^ get_be64(gid->raw + 8) ^ slot) * 0x9e3779b97f4a7c15u;

	return p->dest[h >> 58];
}

static struct rcvbuf_dest *find(struct rcvbuf *p, const struct rocemu_gid *gid, uint16_t slot)
{
	struct rcvbuf_dest *d = bucket_of(p, gid, slot);

	for (unsigned i = 0; i < RCVBUF_WAYS; i++)
		if (d[i].state != RCVBUF_FREE && d[i].addr.slot == slot &&
		    rocemu_gid_equal(&d[i].addr.gid, gid))
			return &d[i];
	return NULL;
}

/* An entry for one more: a free one, or the least recently used of the bucket. */
static struct rcvbuf_dest *place(struct rcvbuf *p, const struct rocemu_gid *gid, uint16_t slot)
{
	struct rcvbuf_dest *d = bucket_of(p, gid, slot), *oldest = d;

	for (unsigned i = 0; i < RCVBUF_WAYS && oldest->state != RCVBUF_FREE; i++)
		if (d[i].state == RCVBUF_FREE || d[i].used < oldest->used)
			oldest = &d[i];
	forget(p, oldest);
	return oldest;
}

/* Count bytes to a receiver that is not known. @return whether its socket must be requested now. */
static bool count(struct rcvbuf *p, struct rcvbuf_dest *d, uint32_t bytes, rocemu_ns_t now)
{
	if (!is_recent(d->used, now))
		d->sent = 0;
	d->sent += bytes;
	if (d->state != RCVBUF_NEW || d->sent < RCVBUF_QUERY_AFTER || p->nwaiting == RCVBUF_WAITING)
		return false;
	d->state = RCVBUF_TO_QUERY;
	d->wanted = now;
	p->waiting[p->nwaiting++] = d;
	return true;
}

bool rcvbuf_sending(struct rcvbuf *p, uint32_t scope_id, rocemu_ns_t now,
		    struct rocemu_tx *const *pkt, unsigned n)
{
	const struct rocemu_path *path = NULL;
	struct rcvbuf_dest *d = NULL;
	uint32_t dqpn = UINT32_MAX;
	bool wants = false;

	for (unsigned i = 0; i < n; i++) {
		const struct rocemu_tx *t = pkt[i];
		enum rocemu_service svc = rocemu_opcode_service(t->hdr[0]);
		uint32_t to = bth_dqpn(t->hdr);
		uint16_t slot = (uint16_t)(to >> ROCEMU_QPN_INDEX_BITS);

		if (svc != ROCEMU_SVC_UC && svc != ROCEMU_SVC_UD)
			continue;
		if (t->path != path || to != dqpn) {
			path = t->path;
			dqpn = to;
			d = find(p, &path->dgid, slot);
			if (!d) {
				d = place(p, &path->dgid, slot);
				d->addr = (struct rcvbuf_addr){path->dgid, scope_id, slot};
				/* The members of a group are not known. */
				d->state = rocemu_gid_is_multicast(&path->dgid) ? RCVBUF_KNOWN
										: RCVBUF_NEW;
				d->used = now;
			}
		}
		if (d->state != RCVBUF_KNOWN)
			wants |= count(p, d, t->payload_len + OVERHEAD, now);
		p->used = d->used = now;
	}
	return wants;
}

bool rcvbuf_next_query(struct rcvbuf *p, struct rcvbuf_addr *addr)
{
	for (unsigned i = 0; i < p->nwaiting; i++) {
		if (p->waiting[i]->state != RCVBUF_TO_QUERY)
			continue;
		p->waiting[i]->state = RCVBUF_QUERIED;
		*addr = p->waiting[i]->addr;
		return true;
	}
	return false;
}

/* Room for one more socket: the least recently used receiver is dropped. */
static void make_room(struct rcvbuf *p)
{
	struct rcvbuf_dest *oldest = p->socket[0];

	if (p->nsockets < RCVBUF_SOCKETS)
		return;
	for (unsigned i = 1; i < p->nsockets; i++)
		if (p->socket[i]->used < oldest->used)
			oldest = p->socket[i];
	forget(p, oldest);
}

void rcvbuf_set(struct rcvbuf *p, const struct rcvbuf_addr *addr, int fd)
{
	struct rcvbuf_dest *d = find(p, &addr->gid, addr->slot);

	if (!d || d->state != RCVBUF_QUERIED) {
		if (fd >= 0)
			close(fd);
		return;
	}
	take_out(p->waiting, &p->nwaiting, d);
	d->state = RCVBUF_KNOWN;
	d->fd = fd;
	if (fd < 0)
		return;
	make_room(p);
	p->socket[p->nsockets++] = d;
}
