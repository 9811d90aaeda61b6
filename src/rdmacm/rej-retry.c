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

#include "rdmacm/addr.h"
#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "rdmacm/rej-retry.h"
#include "rdmacm/request.h"
#include "rdmacm/timer.h"

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

void rcm_rej_retry_served(const struct rcm_id *id)
{
	const struct sockaddr *peer = &id->base.route.addr.dst_addr;

	rcm_addr_to_gid(peer, &served[next_served].gid);
	served[next_served].port = rcm_addr_port(peer);
	served[next_served].when = rcm_now();
	next_served = (next_served + 1) % SERVED_MAX;
}

static void retry(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	struct rcm_id *id = container_of(t, struct rcm_id, retry);
	int err = rcm_request_send_again(id);

	if (err)
		rcm_event_report(id, RDMA_CM_EVENT_CONNECT_ERROR, err);
}

bool rcm_rej_retry(struct rcm_id *id)
{
	const struct sockaddr *peer = &id->base.route.addr.dst_addr;
	struct rocemu_gid gid;

	rcm_addr_to_gid(peer, &gid);
	if (id->retries == TRIES_MAX || !has_served(&gid, rcm_addr_port(peer), rcm_now()) ||
	    is_off())
		return false;
	rcm_timer_set(&id->retry, rcm_now() + ((rocemu_ns_t)PAUSE_NS << id->retries), retry);
	id->retries++;
	return true;
}
