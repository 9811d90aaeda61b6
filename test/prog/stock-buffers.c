/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * To be preloaded: receive buffers of sockets keep the size that the kernel gives them, as for a
 * user whose system allows no more.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int setsockopt(int fd, int level, int name,
						      const void *value, socklen_t len)
{
	if (level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_RCVBUFFORCE)) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}
