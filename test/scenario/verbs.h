/* SPDX-License-Identifier: BSD-2-Clause */
/* The back end of scenarios by verbs: pairs of queue pairs of devices that there are. */
#ifndef TEST_SCENARIO_VERBS_H
#define TEST_SCENARIO_VERBS_H

#include "scenario/scenario.h"

extern const struct scenario_backend scenario_verbs;

/** How this process uses verbs: 0 or 1, as getopt_long() sets them. */
struct verbs_way {
	int wr;		/* posts by ibv_wr_*, otherwise by ibv_post_send() */
	int cq_ex;	/* polls by ibv_start_poll(), otherwise by ibv_poll_cq() */
	int events;	/* sleeps on the completion channel */
	int vendor_err; /* the device is rocemu's, and vendor_err its reasons */
	int wait_ms;	/* for completions at most; 0: VERBS_GUARD_S */
	int event_ms;	/* for asynchronous events, the same */
	int rxe_inv;	/* the flag of a SEND with invalidate is rxe's: IBV_WC_IP_CSUM_OK */
};
extern struct verbs_way verbs_way;

/** Use this device and GID index from now on. -ENODEV; -EINVAL: no such GID. */
int scenario_verbs_device(const char *name, int gid_index);
/**
 * End b is in another process, "HOST:PORT", that runs scenario_verbs_listen().
 * @return false: an error was printed.
 */
bool scenario_verbs_connect(const char *peer);
/**
 * Cases with one queue pair: its peer is at this address, which is not the device's, and writes the
 * packets. -EINVAL: no address; or an errno of its socket.
 */
int scenario_verbs_from(const char *address);
/** Be end b for the process that connects, until it closes. @return an exit code. */
int scenario_verbs_listen(const char *port);

#endif
