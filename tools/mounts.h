/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a mount namespace in which the tree is at its paths, for programs that make system calls
 * directly. What librocemu-paths.so alone can show is not in it: /dev/infiniband, and what is below
 * other devices.
 */
#ifndef TOOLS_MOUNTS_H
#define TOOLS_MOUNTS_H

#include <stddef.h>

/**
 * Enter such a namespace, and a user namespace where that is needed to be allowed to. root: the
 * tree's. Not to be called with threads. @return 0, -errno with a line in errbuf; then the process
 * may be in another namespace.
 */
int mounts_enter(const char *root, char *errbuf, size_t errlen);

#endif
