/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of an emulated port. Their files in the tree are old by up to a second; a program
 * that opens one through the C library gets a memory file with the current value instead; each read
 * from its start updates it, as in sysfs.
 *
 * As map.h: no allocation, no locks, no stdio, errno as it was.
 */
#ifndef INTERPOSE_COUNTER_H
#define INTERPOSE_COUNTER_H

#include <sys/types.h>

#include "map.h"

/**
 * A descriptor for path, relative to directory dir, if that is a counter in the tree and flags are
 * for reading it. @return -1: open it as any other file.
 */
int counter_open(int dir, const char *path, int flags);

/**
 * As counter_open(), for calls that take a path: in buf, of *fd, which the caller closes after it.
 * @return path when it is not a counter; then *fd is -1.
 */
const char *counter_path(const char *path, char buf[MAP_PATH_MAX], int *fd);

/** Before a read of fd at an offset (-1: at its own): brings a counter's text up to date. */
void counter_update(int fd, off_t offset);

#endif
