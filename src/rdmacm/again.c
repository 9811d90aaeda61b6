/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Servers that listen again. Some close their listener once a client is there and open it a moment
 * later for the next connection: perftest -R does so between the exchange of parameters and the
 * test. Its client connects at once, and where nothing delays it (address resolution takes no time
 * here) it is the quicker one, and would be rejected.
 *
 * So "no such service" from a port that has served this process a moment ago is taken as "not yet",
 * and the request is made again for half a second, at first soon, then ever later. Of others, the
 * rejection is the program's at once; of all, with ROCEMU_CM_AGAIN=off.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/objects.h"

enum {
	SERVED_MAX = 8,
	PAUSE_NS = 1000000, /* before the second request; then twice as long each time */
	TRIES_MAX = 9,	    /* so for 511 ms */
};
#define SERVED_NS 5000000000u /* how long a port is remembered */

static struct {
	struct rocemu_gid gid;
	uint16_t port;
	rocemu_ns_t when;
} served[SERVED_MAX];
static unsigned next_served;
static struct list waiting = {&waiting, &waiting}; /* rcm_id.again, by due time */

static bool is_off(void)
{
	const char *env = getenv("ROCEMU_CM_AGAIN");

	return env && strcmp(env, "off") == 0;
}

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

static void wait_until(struct rcm_id *id, rocemu_ns_t due) REQUIRES(rcm_lock)
{
	struct list *next = waiting.next;

	while (next != &waiting && list_entry(next, struct rcm_id, again)->again_due <= due)
		next = next->next;
	id->again_due = due;
	list_append(next, &id->again);
}

bool rcm_again_later(struct rcm_id *id)
{
	const struct sockaddr *peer = &id->base.route.addr.dst_addr;
	struct rocemu_gid gid;

	rcm_addr_to_gid(peer, &gid);
	if (id->again_tries == TRIES_MAX || !has_served(&gid, rcm_addr_port(peer), rcm_now()) ||
	    is_off())
		return false;
	wait_until(id, rcm_now() + ((rocemu_ns_t)PAUSE_NS << id->again_tries));
	id->again_tries++;
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
