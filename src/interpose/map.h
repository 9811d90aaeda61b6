/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps paths of emulated devices to a private tree: paths below /sys/class/infiniband and similar
 * directories that exist in the tree. `rocemu run` makes the tree and names it in ROCEMU_PATHS
 * (layout: tools/tree.h). All other paths, also those of real devices, are left unchanged.
 *
 * This library goes into programs of any kind, at any moment of theirs, signal handlers included:
 * no allocation, no locks, no stdio, errno as it was. The first look at the tree waits until it is
 * full.
 */
#ifndef INTERPOSE_MAP_H
#define INTERPOSE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* No path in the tree is longer. The buffer is on the stack of the thread that opens a file. */
enum { MAP_PATH_MAX = 1024 };

/** The path to use in place of path (NULL allowed): path itself, or the tree's, in buf. */
const char *map_path(const char *path, char buf[MAP_PATH_MAX]);

/** The tree's root, "" when nothing is mapped. */
const char *map_root(void);

/**
 * A path from the system that may be in the tree, as the program is to see it: shortened in place.
 * len: of path, without a 0 byte (there need not be one). @return the length now.
 */
size_t map_back(char *path, size_t len);

#endif
