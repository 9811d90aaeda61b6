/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/why.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/cm.h>

#include "base/util.h"
#include "base/why.h"
#include "netdev/addr.h"
#include "rdmacm/addr.h"

enum { PEER_TEXT = ADDR_TEXT_LEN + 16 };

/** "10.0.0.2 port 7471" */
static const char *peer_text(struct rcm_id *id, char buf[PEER_TEXT])
{
	const struct sockaddr *peer = &id->base.route.addr.dst_addr;
	char text[ADDR_TEXT_LEN];
	struct rocemu_gid gid;

	if (!rcm_addr_len(peer))
		return "its peer";
	rcm_addr_to_gid(peer, &gid);
	snprintf(buf, PEER_TEXT, "%s port %u", addr_gid_text(&gid, text), rcm_addr_port(peer));
	return buf;
}

/** By status: an errno, negative, or of UNREACHABLE a SIDR_REP's status. */
static const char *event_remedy(enum rdma_cm_event_type type, int status)
{
	switch (type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		return status == -ETIMEDOUT ? "no host of the network has that address, or none "
					      "answered in time: check the address and the link"
					    : "no device uses the interface of that route: see "
					      "rocemu devices, and --device";
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return "the device's port is down or has no route there: check the interface and "
		       "the routes";
	case RDMA_CM_EVENT_UNREACHABLE:
		if (status > 0)
			return "the peer's UD service refuses: check its port and its answer";
		if (status == -ETIMEDOUT)
			return "a connection manager at the peer answers UDP port 4791: check that "
			       "a process listens there with rocemu or an RNIC, that no "
			       "firewall drops it and that no NAT changes addresses";
		if (status == -ECONNREFUSED)
			return "a process has UDP port 4791 of the peer (ICMP reports that none "
			       "does): start it first";
		return "a route and the device are required: check routes and interface";
	case RDMA_CM_EVENT_DISCONNECTED:
		return status == -ETIMEDOUT ? "the peer answers a DREQ: its process or host is "
					      "gone, or the path drops packets"
					    : "the device is there: keep its interface";
	default:
		return "all required objects must exist when the connection is made: see the lines "
		       "before";
	}
}

void rcm_why_event(struct rcm_id *id, enum rdma_cm_event_type type, int status)
{
	static const char *const names[] = {
		[RDMA_CM_EVENT_ADDR_ERROR] = "ADDR_ERROR",
		[RDMA_CM_EVENT_ROUTE_ERROR] = "ROUTE_ERROR",
		[RDMA_CM_EVENT_CONNECT_ERROR] = "CONNECT_ERROR",
		[RDMA_CM_EVENT_UNREACHABLE] = "UNREACHABLE",
		[RDMA_CM_EVENT_DISCONNECTED] = "DISCONNECTED",
		[RDMA_CM_EVENT_MULTICAST_ERROR] = "MULTICAST_ERROR",
	};
	const char *name =
		(unsigned)type < ARRAY_LEN(names) && names[type] ? names[type] : "an event";
	char buf[PEER_TEXT];

	if (!status)
		return;
	if (status > 0 && type == RDMA_CM_EVENT_UNREACHABLE)
		why_say((uintptr_t)id, "connection to %s: %s, SIDR_REP status %d (%s): %s",
			peer_text(id, buf), name, status, rocemu_cm_sidr_text((uint8_t)status),
			event_remedy(type, status));
	else
		why_say((uintptr_t)id, "connection to %s: %s, status %d (%s): %s",
			peer_text(id, buf), name, status, strerror(abs(status)),
			event_remedy(type, status));
}

static const char *rej_remedy(uint16_t reason)
{
	switch (reason) {
	case ROCEMU_CM_REJ_SERVICE_ID:
		return "a program must listen on the port: start the server first, or check port "
		       "and port space";
	case ROCEMU_CM_REJ_CONSUMER:
		return "the peer's program must call rdma_accept(): it called rdma_reject(), or "
		       "destroyed the ID, before; the private data may have the reason";
	case ROCEMU_CM_REJ_TIMEOUT:
		return "both sides must answer in time: the peer got no answer from this side "
		       "(rdma_accept(), RTU)";
	case ROCEMU_CM_REJ_STALE:
		return "an address and QPN can have one connection: the peer has an older one from "
		       "there, which it ends now; connect again";
	case ROCEMU_CM_REJ_TRANSPORT:
		return "both sides must have the same type of QP: create the ID with the peer's "
		       "qp_type and port space";
	case ROCEMU_CM_REJ_PRIMARY_GID:
		return "the request's GID must be one of the peer's: check the address";
	case ROCEMU_CM_REJ_NO_RESOURCES:
	case ROCEMU_CM_REJ_NO_QP:
		return "the peer must have QPs and memory left: check its log";
	case ROCEMU_CM_REJ_MTU:
		return "the peer's port takes the path MTU: lower it";
	case ROCEMU_CM_REJ_RESPONDER_RESOURCES:
		return "initiator_depth and responder_resources must not exceed the peer's: lower "
		       "them";
	default:
		return "the peer must accept each field of the request: check its log";
	}
}

void rcm_why_rejected(struct rcm_id *id, uint16_t reason)
{
	char buf[PEER_TEXT];

	why_say((uintptr_t)id, "connection to %s: REJ received, reason %u (%s): %s",
		peer_text(id, buf), reason, rocemu_cm_rej_text(reason), rej_remedy(reason));
}
