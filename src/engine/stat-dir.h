/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Manages the sockets on which a user's processes listen for `rocemu stat`: in a directory that
 * only the user can write, named by process ID (with ".1" and so on where another PID namespace has
 * the same one). Paths and not abstract names: they work across network namespaces, and no other
 * user can take them.
 */
#ifndef ENGINE_STAT_DIR_H
#define ENGINE_STAT_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { STAT_PATH_MAX = 104 }; /* fits a socket's address */

/** ROCEMU_STAT: "off", a directory, or unset. @return false: off. dir: "" without one.
 */
bool stat_dir_env(char dir[static STAT_PATH_MAX]);

/** The user's directory at place 0, 1 and so on. @return false: no more places. */
bool stat_dir_place(uid_t uid, unsigned place, char dir[static STAT_PATH_MAX]);

/**
 * Open a directory for reading, if it is uid's and no other user may write to it. create: make it
 * if it is not there.
 * @return a descriptor, -EPERM: it is not, or another -errno.
 */
int stat_dir_open(const char *dir, uid_t uid, bool create);

/** Is a file's name that of a socket? @return the process ID in it, 0: no. */
pid_t stat_name_pid(const char *name);

/** A new socket, connected without waiting. -ECONNREFUSED: no listener. */
int stat_connect(const char *path);

/** Remove sockets of processes that are gone. fd: of dir. */
void stat_dir_sweep(const char *dir, int fd);

/** Listen in dir. @return the socket and its path, or -errno. */
int stat_dir_listen(const char *dir, char path[static STAT_PATH_MAX]);

#endif
