/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exchanges that must end the same whatever the network does to their messages. Each is a list of
 * steps; a step is a call of a consumer, after which the network runs until it is idle. The
 * consumers get the same events under loss, duplication and reordering: each event once, in the
 * same order, unless the exchange specifies otherwise.
 */
#ifndef TEST_CM_SCENARIO_H
#define TEST_CM_SCENARIO_H

#include "net.h"

enum { SCENARIO_STEPS = 5, SCENARIO_LOGS = 5 };

struct scenario {
	const char *name;
	unsigned policy[2];
	bool any_order; /* of each log: connections that have nothing to do with each other */
	void (*steps[SCENARIO_STEPS])(struct net *n);
	/*
	 * The allowed events of the consumers: pairs of A's and B's log, the first one on a good
	 * network.
	 */
	struct {
		const char *a, *b;
	} logs[SCENARIO_LOGS];
};

extern const struct scenario scenarios[];
extern const unsigned scenario_count;

/** Run it on a net that was started and whose faults are set; assert that it ended well and that
 * nothing is left. what: printed with the name when it did not. */
void scenario_run(const struct scenario *s, struct net *n, const char *what);

#endif
