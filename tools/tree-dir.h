/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directories of trees (tree.h): made, removed, and swept when their users were killed.
 *
 *	PLACE/rocemu-paths-HOST-XXXXXX/shared          a link to the next one, or a directory
 *	/dev/shm/rocemu-paths-HOST-XXXXXX              where PLACE is not in memory
 *	                                 /users        a FIFO, in the latter or in shared
 *
 * HOST is of the kernel's boot ID: a place may be on a file system that hosts share, where other
 * hosts' processes cannot be seen. A tree's users inherit an open file description of the FIFO from
 * each other. It has a shared lock (flock(2)) on the FIFO, and is its writer. The FIFO's reader is
 * the process that keeps the tree, which sees the end of the last user and then removes the tree;
 *it has a shared lock of its own. So a tree is in use as long as the lock is not to be had.
 */
#ifndef TOOLS_TREE_DIR_H
#define TOOLS_TREE_DIR_H

#include <stddef.h>

struct tree_dirs {
	char root[512];	 /* "": none */
	char shared[64]; /* the one in memory; "": it is in root */
	int users;	 /* the users' end of the FIFO; owned, -1: closed */
	int end;	 /* the end of the process that keeps the tree; owned, -1: closed */
};

/**
 * New directories, the first one in place. Other users may enter them. 0 or -errno, with nothing
 * left behind.
 */
int tree_dirs_make(struct tree_dirs *d, const char *place);

/** Close the descriptors: this process is no user any more. */
void tree_dirs_close(struct tree_dirs *d);

/** Remove them and everything below. The descriptors stay open. */
void tree_dirs_remove(struct tree_dirs *d);

/** Remove a directory and everything below. */
void tree_dir_remove(const char *path);

/**
 * Remove this user's directories in place that have no users any more: those were killed together
 * with the process that keeps the tree. Any number of processes may do this at a time.
 */
void tree_dirs_sweep(const char *place);

#endif
