/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu run --summary: prints the devices' counters when the program has ended. They are in files
 * of the private tree (base/countfile.h) that outlive their writers, so they include the counts of
 * killed processes.
 */
#ifndef TOOLS_SUMMARY_H
#define TOOLS_SUMMARY_H

#include "base/countfile.h"
#include "netdev/netdev.h"

struct summary {
	struct summary_device {
		char name[64];
		struct countfile *file; /* owned; NULL: none */
	} * dev;			/* owned */
	unsigned n;
};

/** Open the counters of the tree at root. -ENOMEM. */
int summary_open(struct summary *s, const char *root, const struct netdev *devs, unsigned n);

/**
 * Run argv as a child, print the summary on stderr when it has ended, and end as it did: by the
 * same signal or with the same exit code. self names us in messages. @return an exit code.
 */
int summary_run(struct summary *s, const char *self, char **argv);

#endif
