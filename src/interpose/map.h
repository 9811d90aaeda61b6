/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which paths mean an emulated device: those below /sys/class/infiniband and its like that the
 * private tree has, which `rocemu run` makes and names in ROCEMU_PATHS (its layout: tools/tree.h).
 * All others, the real devices' among them, are left alone.
 *
 * This library goes into programs of any kind, at any moment of theirs, signal handlers included:
 * no allocation, no locks, no stdio, errno as it was.
 */
#ifndef INTERPOSE_MAP_H
#define INTERPOSE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* No path of ours is longer; it lies on the stack of whoever opens a file. */
enum { MAP_PATH_MAX = 1024 };

/** The path to use in place of path (NULL allowed): path itself, or the tree's, in buf. */
const char *map_path(const char *path, char buf[MAP_PATH_MAX]);

/** The tree's root, "" when nothing is mapped. */
const char *map_root(void);

/**
 * An answer of the system that may lie in the tree, as the program is to see it: cut in place.
 * len: of path, without a 0 byte (there need not be one). @return the length now.
 */
size_t map_back(char *path, size_t len);

#endif
