/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends requests for addresses and ports to the agent and waits for the answers. The lock is
 * released meanwhile, and an ID with a waiting call is not freed before that call has ended. All
 * need the running core.
 */
#ifndef RDMACM_AGENT_H
#define RDMACM_AGENT_H

#include "agent/client-gsi.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "rdmacm/device.h"
#include "rdmacm/lock.h"

struct rcm_id;

struct rcm_agent {
	struct agent_gsi *client; /* owned; NULL: none yet */
	struct list calls;	  /* rcm_call.node */
	/* Owned: the addresses whose QP 1 this process uses, in turn and by address. */
	struct list opened;
	struct hash by_address;
};

/** A call that may release the lock, on its caller's stack. */
struct rcm_call {
	struct list node;
	const struct rcm_id *id;
};

void rcm_call_begin(struct rcm_call *call, const struct rcm_id *id) REQUIRES(rcm_lock);
/** From here on the ID may be destroyed. */
void rcm_call_end(struct rcm_call *call) REQUIRES(rcm_lock);
/** Wait until no call is under way on the ID. */
void rcm_calls_wait(const struct rcm_id *id) REQUIRES(rcm_lock);

/** Use QP 1 of addresses; failures are logged. @return 0: of one at least, or -errno. */
int rcm_agent_open(const struct rcm_local *locals, int n, enum log_level level) REQUIRES(rcm_lock);
/** The device of an address that is opened, or is being opened; NULL: it is not. scope_id: its
 * interface if it is link-local, as several may have one. */
const struct rcm_local *rcm_agent_local(const struct rocemu_gid *gid, uint32_t scope_id)
	REQUIRES(rcm_lock);
/** The device of an address that is opened has been opened, or is another one now. */
void rcm_agent_found(const struct rcm_local *local) REQUIRES(rcm_lock);
/** A device is gone: its addresses are not used any more. */
void rcm_agent_close(const struct rcm_device *dev) REQUIRES(rcm_lock);
/** Addresses that are not among these are not used any more. */
void rcm_agent_close_others(const struct rcm_local *locals, int n) REQUIRES(rcm_lock);

/** Take a service ID, or any of its port space when its port is 0, at an address, or (local is
 * NULL) at all of ip's family; listen on it; give it back. -errno. */
int rcm_agent_bind(struct rcm_id *id, const struct sockaddr *ip, const struct rcm_local *local,
		   uint64_t *service_id) REQUIRES(rcm_lock);
int rcm_agent_listen(struct rcm_id *id) REQUIRES(rcm_lock);
void rcm_agent_unbind(struct rcm_id *id) REQUIRES(rcm_lock);

#endif
