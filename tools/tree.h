/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the private tree: the entries of emulated devices in /sys/class/infiniband,
 * /sys/class/infiniband_verbs and /dev/infiniband, under a separate root that librocemu-paths.so
 * (src/interpose) maps these paths to. Laid out as the kernel does for a virtual device:
 *
 *	/sys/class/infiniband/DEV            link to ../../devices/virtual/infiniband/DEV
 *	/sys/class/infiniband_verbs/uverbsN  link to ../../devices/virtual/infiniband_verbs/uverbsN
 *	.../infiniband/DEV/device            link to what /sys/class/net/IF/device leads to, or else
 * a directory /sys/class/net/IF/device/infiniband/DEV, infiniband_verbs/uverbsN    links; the same
 * where /sys/class/net/IF/device leads to /dev/infiniband/DEV, uverbsN, rdma_cm    links to
 * /dev/null
 *
 *	/shared/counters/DEV, objects/DEV    what the processes of DEV count and have
 *	                                     (engine/portcount.h)
 *
 * Entries of the real system are in the listings, too, as links to themselves.
 */
#ifndef TOOLS_TREE_H
#define TOOLS_TREE_H

#include <stdbool.h>

#include "base/countfile.h"
#include "netdev/netdev.h"

struct tree {
	char root[512];
	struct netdev *devs; /* owned by the caller, kept up to date by tree_refresh() */
	unsigned ndevs;
	/* tree.c's */
	char shared[64]; /* the directory /shared, when it is not in root; "": it is */
	uint64_t (
		*shown)[COUNTFILE_COUNTERS]; /* by device: contents of the counters' files; owned */
	bool mounted;
	int err;
};

/**
 * Make the tree of devs in a new directory and set root. mounted: the tree will be mounted at its
 * paths (mounts.h), so real entries cannot be links to themselves: they become copies of the real
 * links. @return 0, or -errno with nothing left behind.
 */
int tree_make(struct tree *t, struct netdev *devs, unsigned n, bool mounted);

/** What has changed of the interfaces goes into the tree. */
void tree_refresh(struct tree *t);

/** What has been counted goes into the files of counters, for programs that read them as they are.
 */
void tree_refresh_counters(struct tree *t);

/** Remove it. */
void tree_remove(struct tree *t);

/**
 * tree_make(), and a process that refreshes the tree and removes it when the caller and all
 * programs that it becomes or starts have ended: they inherit a file descriptor by which this is
 * detected.
 */
int tree_start(struct tree *t, struct netdev *devs, unsigned n, bool mounted);

#endif
