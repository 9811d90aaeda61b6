/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of our own, past whoever stands before socket(2): a preload library that makes RDMA sockets of a
 * program's sockets (rdma-core's librspreload) must not make them of those below its own.
 */
#ifndef BASE_SYSSOCKET_H
#define BASE_SYSSOCKET_H

#include <sys/syscall.h>
#include <unistd.h>

/** As socket(2). */
static inline int sys_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

#endif
