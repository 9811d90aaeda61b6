/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters by name: those of the endpoint, drops, what a QP and its endpoint have in use, and what
 * the requester has learned.
 */
#include <string.h>

#include "world.h"

#include "base/util.h"
#include "transport/peer.h"
#include "transport/qp.h"

static bool drops(const struct rocemu_ep_stats *s, const char *name, uint64_t *value)
{
	static const char *const names[] = {
#define X(name, text) "drop_" #name,
		ROCEMU_DROPS(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*value = s->drops[i];
			return true;
		}
	}
	return false;
}

/** What the requester has learned of its peer and of the path. */
static bool learned(const struct end *e, const char *name, uint64_t *value)
{
	const struct qp_req *req = &e->qp->req;

	if (strcmp(name, "srtt_ns") == 0)
		*value = req->srtt;
	else if (strcmp(name, "min_rtt_ns") == 0)
		*value = req->min_rtt;
	else if (strcmp(name, "peer_goes_back") == 0)
		*value = req->peer ? req->peer->goes_back : 0;
	else if (strcmp(name, "loss_suspected") == 0)
		*value = req->again.suspected;
	else if (strcmp(name, "loss_spacing") == 0)
		*value = req->again.spacing;
	else if (strcmp(name, "lateness") == 0)
		*value = req->again.lateness;
	else if (strcmp(name, "late_max") == 0)
		*value = req->again.late_max;
	else
		return false;
	return true;
}

static bool in_use(const struct end *e, const char *name, uint64_t *value)
{
	const struct qp_req *req = &e->qp->req;

	if (strcmp(name, "in_flight_bytes") == 0)
		*value = req->inflight;
	else if (strcmp(name, "lane_in_flight_bytes") == 0)
		*value = req->peer ? req->peer->inflight : 0;
	else if (strcmp(name, "congestion_window") == 0)
		*value = req->peer ? req->peer->cc.cwnd : 0;
	else if (strcmp(name, "rd_atomic_in_flight") == 0)
		*value = req->rd_atomic_out;
	else if (strcmp(name, "credit_limit") == 0)
		*value = req->credit.limit;
	else if (strcmp(name, "keep_slots_in_use") == 0)
		*value = KEEP_SLOTS - e->ep->keep.nfree;
	else
		return false;
	return true;
}

bool counter_value(const struct end *e, const char *name, uint64_t *value)
{
	const struct rocemu_ep_stats *s = rocemu_ep_get_stats(e->ep);

#define X(member, text)                   \
	if (strcmp(name, #member) == 0) { \
		*value = s->member;       \
		return true;              \
	}
	ROCEMU_STATS(X)
#undef X
	return drops(s, name, value) ||
	       (e->qp && (in_use(e, name, value) || learned(e, name, value)));
}
