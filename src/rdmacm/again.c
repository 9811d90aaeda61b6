/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Servers that listen again. Some close their listener once a client is there and open it a moment
 * later for the next connection: perftest -R does so between the exchange of parameters and the
 * test. Its client connects at once, and where nothing delays it (address resolution takes no time
 * here) it is the quicker one, and would be rejected.
 *
 * So "no such service" from a port that has served this process a moment ago is taken as "not yet",
 * and the request is made again for a while. Of others, the rejection is the program's at once.
 */
#include <string.h>

#include "rdmacm/objects.h"

enum {
	SERVED_MAX = 8,
	PAUSE_NS = 20000000, /* between two requests */
	TRIES_MAX = 50,	     /* so for a second */
};
#define SERVED_NS 5000000000u /* how long a port is remembered */

static struct {
	struct rocemu_gid gid;
	uint16_t port;
	rocemu_ns_t when;
} served[SERVED_MAX];
static unsigned next_served;
static struct list waiting = {&waiting, &waiting}; /* rcm_id.again, by due time */

static bool has_served(const struct rocemu_gid *gid, uint16_t port, rocemu_ns_t now)
	REQUIRES(rcm_lock)
{
	for (unsigned i = 0; i < SERVED_MAX; i++)
		if (served[i].port == port && served[i].when && now - served[i].when < SERVED_NS &&
		    memcmp(&served[i].gid, gid, sizeof(*gid)) == 0)
			return true;
	return false;
}

void rcm_again_served(const struct rcm_id *id)
{
	const struct sockaddr *peer = &id->base.route.addr.dst_addr;

	rcm_addr_to_gid(peer, &served[next_served].gid);
	served[next_served].port = rcm_addr_port(peer);
	served[next_served].when = rcm_now();
	next_served = (next_served + 1) % SERVED_MAX;
}

bool rcm_again_later(struct rcm_id *id)
{
	const struct sockaddr *peer = &id->base.route.addr.dst_addr;
	struct rocemu_gid gid;

	rcm_addr_to_gid(peer, &gid);
	if (id->again_tries == TRIES_MAX || !has_served(&gid, rcm_addr_port(peer), rcm_now()))
		return false;
	id->again_tries++;
	id->again_due = rcm_now() + PAUSE_NS;
	list_append(&waiting, &id->again);
	return true;
}

rocemu_ns_t rcm_again_deadline(void)
{
	struct list *n = list_first(&waiting);

	return n ? list_entry(n, struct rcm_id, again)->again_due : ROCEMU_NEVER;
}

void rcm_again_expire(rocemu_ns_t now)
{
	struct list *n;

	while ((n = list_first(&waiting)) != NULL) {
		struct rcm_id *id = list_entry(n, struct rcm_id, again);
		int err;

		if (id->again_due > now)
			return;
		list_remove(n);
		err = rcm_request_again(id);
		if (err)
			rcm_post(id, RDMA_CM_EVENT_CONNECT_ERROR, err);
	}
}

void rcm_again_forget(void)
{
	list_init(&waiting);
}
