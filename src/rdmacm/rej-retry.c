/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repeats requests that were rejected with "no such service". Some servers close their listener
 * once a client is connected and open it a moment later for the next connection: perftest -R does
 * so between the exchange of parameters and the test. Its client connects at once, and as address
 * resolution takes no time here, it is often the quicker one and would be rejected.
 *
 * So "no such service" from a port that has recently served this process means "not yet", and the
 * request is repeated for half a second, with growing delays. Other rejections are reported to the
 * program at once, and with ROCEMU_CM_AGAIN=off all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/globals.h"
#include "rdmacm/id.h"
#include "rdmacm/rej-retry.h"
#include "rdmacm/request.h"

enum {
	PAUSE_NS = 1000000, /* before the second request; then twice as long each time */
	TRIES_MAX = 9,	    /* that is, for 511 ms */
};
#define SERVED_NS 5000000000u /* how long a port is remembered */

static struct rcm_rej_retries *const retries = &rcm_globals.rej_retries;

static bool is_off(void)
{
	const char *env = secure_getenv("ROCEMU_CM_AGAIN");

	return env && strcmp(env, "off") == 0;
}

static bool has_served(const struct rocemu_gid *gid, uint16_t port, rocemu_ns_t now)
	REQUIRES(rcm_lock)
{
	for (unsigned i = 0; i < ARRAY_LEN(retries->served); i++)
		if (retries->served[i].port == port && retries->served[i].when &&
		    now - retries->served[i].when < SERVED_NS &&
		    rocemu_gid_equal(&retries->served[i].gid, gid))
			return true;
	return false;
}

void rcm_rej_retry_served(const struct rcm_id *id)
{
	const struct sockaddr *peer = &id->base.route.addr.dst_addr;

	rcm_addr_to_gid(peer, &retries->served[retries->next].gid);
	retries->served[retries->next].port = rcm_addr_port(peer);
	retries->served[retries->next].when = rcm_now();
	retries->next = (retries->next + 1) % ARRAY_LEN(retries->served);
}

static void retry(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	struct rcm_id *id = container_of(t, struct rcm_id, retry);
	int err = rcm_request_send_again(id);

	if (err)
		rcm_event_report(id, RDMA_CM_EVENT_CONNECT_ERROR, err, NULL);
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
