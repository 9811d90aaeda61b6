/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket calls of the data path under the lane's lock: no cancellation points (base/syssocket.h).
 */
#ifndef ENGINE_SYSMSG_H
#define ENGINE_SYSMSG_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/syssocket.h"

/** As connect(2). */
static inline int sys_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return (int)SYS_CALL(connect, fd, to, len);
}

/** As sendmsg(2). */
static inline ssize_t sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return SYS_CALL(sendmsg, fd, m, flags);
}

/** As sendto(2). */
static inline ssize_t sys_sendto(int fd, const void *data, size_t len, int flags,
				 const struct sockaddr *to, socklen_t to_len)
{
	return SYS_CALL(sendto, fd, data, len, flags, to, to_len);
}

/** As sendmmsg(2). */
static inline int sys_sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	return (int)SYS_CALL(sendmmsg, fd, m, n, flags);
}

/** As recvmsg(2). */
static inline ssize_t sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	return SYS_CALL(recvmsg, fd, m, flags);
}

/** As recvmmsg(2), without a timeout. */
static inline int sys_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	return (int)SYS_CALL(recvmmsg, fd, m, n, flags, NULL);
}

#endif
