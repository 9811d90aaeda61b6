/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls that bypass wrappers of the C library's functions. A preload library that makes RDMA
 * sockets of a program's sockets (rdma-core's librspreload) must not make them of those below its
 * own. And the C library's functions are cancellation points (pthreads(7)), these are not.
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

/*
 * The sanitizers follow the C library's functions only: what a socket orders between threads, and
 * which memory the kernel reads and writes.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SYS_BY_LIBC 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SYS_BY_LIBC 1
#endif

/** A system call by name. */
#ifdef SYS_BY_LIBC
#define SYS_CALL(name, ...) name(__VA_ARGS__)
#else
#define SYS_CALL(name, ...) syscall(SYS_##name, __VA_ARGS__)
#endif

/** As read(2). */
static inline ssize_t sys_read(int fd, void *buf, size_t len)
{
	return SYS_CALL(read, fd, buf, len);
}

/** As write(2). */
static inline ssize_t sys_write(int fd, const void *buf, size_t len)
{
	return SYS_CALL(write, fd, buf, len);
}

#endif
