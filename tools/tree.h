/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the private tree: the entries of emulated devices in /sys/class/infiniband,
 * /sys/class/infiniband_verbs and /dev/infiniband, under a separate root that librocemu-paths.so
 * (src/interpose) maps these paths to. Laid out as the kernel does (docs/sysfs.md):
 *
 *	/sys/class/infiniband/DEV            link to the device's directory, infiniband/DEV in
 *	                                     /sys/devices/virtual, or in what
 *	                                     /sys/class/net/IF/device leads to
 *	/sys/class/infiniband_verbs/uverbsN  link to /sys/devices/virtual/infiniband_verbs/uverbsN
 *	.../infiniband/DEV/device            link to what /sys/class/net/IF/device leads to, or else
 *	                                     a directory
 *	/sys/class/net/IF/device/infiniband/DEV, infiniband_verbs/uverbsN    links; the same where
 *	                                     /sys/class/net/IF/device leads to
 *	/dev/infiniband/DEV, uverbsN, rdma_cm    links to /dev/null
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
#include "tree-dir.h"
#include "tree-files.h"

#define TREE_CLASS_IB "sys/class/infiniband"

/* Whatever the user's umask is: a program may be started as another user. */
enum { TREE_UMASK = 022 };

struct tree {
	struct tree_dirs dirs;
	struct tree_files files;
	struct netdev *devs; /* owned by the caller, kept up to date by tree_refresh() */
	unsigned ndevs;
	/* By device, owned: its counters, and what their files contain. */
	struct tree_counts {
		struct countfile *file;
		uint64_t shown[COUNTFILE_COUNTERS];
	} * counts;
	bool mounted;
	bool failed; /* to be filled: it stays as it is */
};

/**
 * Make new directories for the tree of devs, with what processes share; this process is their
 * user. mounted: the tree will be mounted at its paths (mounts.h), so real entries cannot be links
 * to themselves: they become copies of the real links. @return 0, or -errno with nothing left
 * behind.
 */
int tree_make(struct tree *t, struct netdev *devs, unsigned n, bool mounted);

/** Remove the trees of this user that killed runs left: takes seconds where they are large. */
void tree_sweep(void);

/** Put the devices into it. @return 0, or -errno: there are none in it. */
int tree_fill(struct tree *t);

/** tree-counts.c: what processes share; a port's files of counters. */
void tree_make_shared(struct tree *t);
void tree_make_counters(struct tree *t, int port);

/** What has changed of an interface, 0: of any, goes into the tree. */
void tree_refresh(struct tree *t, unsigned ifindex);

/** What has been counted goes into the files of counters, for programs that read them as they are.
 */
void tree_refresh_counters(struct tree *t);

/** Remove it. */
void tree_remove(struct tree *t);

/**
 * tree_make(), and a process that fills the tree, refreshes it, and removes it when the caller and
 * all programs that it becomes or starts have ended: they inherit a file descriptor by which this
 * is detected. Filling takes a second for a thousand devices. Until it is done, the file
 * TREE_FILLING is in the tree, locked (flock()); librocemu-paths.so waits for that when a program
 * looks at the tree for the first time. mounted: it is full when this returns.
 */
int tree_start(struct tree *t, struct netdev *devs, unsigned n, bool mounted);

#endif
