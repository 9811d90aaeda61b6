/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrappers of libc's functions: a call fails, or goes on to libc. */
#include "wrap.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

enum { ARENA = 65536 };

/* ---- libc's functions ---- */

/* dlsym() may allocate. What it gets meanwhile is never freed. */
static char arena[ARENA];
static size_t arena_used;
static _Thread_local volatile bool resolving; /* dlsym() is declared not to call back */

static void *arena_take(size_t size)
{
	const size_t at = (arena_used + 15) & ~(size_t)15;

	if (at + size > ARENA)
		abort();
	arena_used = at + size;
	return arena + at;
}

static bool is_arena(const void *p)
{
	return (const char *)p >= arena && (const char *)p < arena + ARENA;
}

static void *resolve(const char *name)
{
	void *found;

	resolving = true;
	found = dlsym(RTLD_NEXT, name);
	resolving = false;
	if (!found)
		abort();
	return found;
}

/* real(f): the next definition of f, as f is declared. */
#define REAL(f)                                      \
	static _Atomic(void *) found_;               \
	union {                                      \
		void *object;                        \
		__typeof__(&f) call;                 \
	} real_ = {.object = atomic_load(&found_)};  \
	if (!real_.object) {                         \
		real_.object = resolve(#f);          \
		atomic_store(&found_, real_.object); \
	}

/* ---- memory ---- */

#define NO_MEMORY(name) fault_hits(FAULT_MEMORY, name, ENOMEM, CALLER)

EXPORT void *malloc(size_t size)
{
	if (resolving)
		return arena_take(size);
	REAL(malloc)
	return NO_MEMORY("malloc") ? NULL : fault_block_add(real_.call(size), CALLER);
}

EXPORT void *calloc(size_t n, size_t size)
{
	if (resolving)
		return arena_take(n * size);
	REAL(calloc)
	return NO_MEMORY("calloc") ? NULL : fault_block_add(real_.call(n, size), CALLER);
}

EXPORT void free(void *p)
{
	const int kept = errno;

	if (!p || is_arena(p) || resolving)
		return;
	REAL(free)
	fault_block_remove(p);
	real_.call(p);
	errno = kept;
}

EXPORT void *realloc(void *old, size_t size)
{
	void *p;

	if (is_arena(old)) {
		p = malloc(size);
		if (p)
			memcpy(p, old, size); /* of the arena, whatever its old size was */
		return p;
	}
	REAL(realloc)
	if (NO_MEMORY("realloc"))
		return NULL;
	fault_block_remove(old);
	p = real_.call(old, size);
	return fault_block_add(p ? p : size ? old : NULL, CALLER) ? p : NULL;
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	int r;

	REAL(posix_memalign)
	if (NO_MEMORY("posix_memalign"))
		return ENOMEM;
	r = real_.call(out, align, size);
	if (!r)
		fault_block_add(*out, CALLER);
	return r;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	REAL(aligned_alloc)
	return NO_MEMORY("aligned_alloc") ? NULL : fault_block_add(real_.call(align, size), CALLER);
}

EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *p;

	REAL(mmap)
	if (NO_MEMORY("mmap"))
		return MAP_FAILED;
	p = real_.call(addr, len, prot, flags, fd, offset);
	if (p != MAP_FAILED && !(flags & MAP_FIXED))
		fault_map_count(CALLER, 1);
	return p;
}

EXPORT int munmap(void *addr, size_t len)
{
	REAL(munmap)
	fault_map_count(CALLER, -1);
	return real_.call(addr, len);
}

/* ---- the rest ---- */

/* A function that returns fail_value and sets errno. */
#define WRAP(kind, error, type, fail_value, name, params, args) \
	EXPORT type name params                                 \
	{                                                       \
		REAL(name)                                      \
		if (fault_hits(kind, #name, error, CALLER))     \
			return fail_value;                      \
		return real_.call args;                         \
	}
#define NO_FD(name, params, args) WRAP(FAULT_DESCRIPTOR, EMFILE, int, -1, name, params, args)

NO_FD(socket, (int a, int b, int c), (a, b, c))
NO_FD(socketpair, (int a, int b, int c, int d[2]), (a, b, c, d))
NO_FD(epoll_create1, (int a), (a))
NO_FD(epoll_create, (int a), (a))
NO_FD(eventfd, (unsigned a, int b), (a, b))
NO_FD(timerfd_create, (clockid_t a, int b), (a, b))
NO_FD(pipe, (int a[2]), (a))
NO_FD(pipe2, (int a[2], int b), (a, b))
NO_FD(dup, (int a), (a))
NO_FD(memfd_create, (const char *a, unsigned b), (a, b))
NO_FD(accept, (int a, struct sockaddr *b, socklen_t *c), (a, b, c))
NO_FD(accept4, (int a, struct sockaddr *b, socklen_t *c, int d), (a, b, c, d))
WRAP(FAULT_DESCRIPTOR, EMFILE, FILE *, NULL, fopen, (const char *a, const char *b), (a, b))
WRAP(FAULT_DESCRIPTOR, EMFILE, DIR *, NULL, opendir, (const char *a), (a))
WRAP(FAULT_DESCRIPTOR, EMFILE, unsigned, 0, if_nametoindex, (const char *a), (a))
WRAP(FAULT_DESCRIPTOR, EMFILE, char *, NULL, if_indextoname, (unsigned a, char b[IF_NAMESIZE]),
     (a, b))

#define CALL(error, name, params, args) WRAP(FAULT_CALL, error, int, -1, name, params, args)
CALL(ENOMEM, epoll_ctl, (int a, int b, int c, struct epoll_event *d), (a, b, c, d))
CALL(ENOMEM, bind, (int a, const struct sockaddr *b, socklen_t c), (a, b, c))
CALL(ENOMEM, listen, (int a, int b), (a, b))
CALL(ENOMEM, connect, (int a, const struct sockaddr *b, socklen_t c), (a, b, c))
CALL(ENOMEM, setsockopt, (int a, int b, int c, const void *d, socklen_t e), (a, b, c, d, e))
CALL(ENOBUFS, getsockopt, (int a, int b, int c, void *d, socklen_t *e), (a, b, c, d, e))
CALL(ENOBUFS, getsockname, (int a, struct sockaddr *b, socklen_t *c), (a, b, c))
CALL(ENOMEM, ftruncate, (int a, off_t b), (a, b))
CALL(ENOSYS, getentropy, (void *a, size_t b), (a, b))
WRAP(FAULT_CALL, ENOSYS, ssize_t, -1, getrandom, (void *a, size_t b, unsigned c), (a, b, c))

/* These return the error. */
WRAP(FAULT_CALL, EAGAIN, int, EAGAIN, pthread_create,
     (pthread_t * a, const pthread_attr_t *b, void *(*c)(void *), void *d), (a, b, c, d))
WRAP(FAULT_CALL, EAGAIN, int, EAGAIN, posix_spawn,
     (pid_t * a, const char *b, const posix_spawn_file_actions_t *c, const posix_spawnattr_t *d,
      char *const e[], char *const f[]),
     (a, b, c, d, e, f))
WRAP(FAULT_CALL, ENOMEM, int, EAI_MEMORY, getaddrinfo,
     (const char *a, const char *b, const struct addrinfo *c, struct addrinfo **d), (a, b, c, d))

#define IO(type, error, name, params, args) WRAP(FAULT_IO, error, type, -1, name, params, args)
IO(ssize_t, ENOBUFS, send, (int a, const void *b, size_t c, int d), (a, b, c, d))
IO(ssize_t, ENOBUFS, sendto,
   (int a, const void *b, size_t c, int d, const struct sockaddr *e, socklen_t f),
   (a, b, c, d, e, f))
IO(ssize_t, ENOBUFS, sendmsg, (int a, const struct msghdr *b, int c), (a, b, c))
IO(int, ENOBUFS, sendmmsg, (int a, struct mmsghdr *b, unsigned c, int d), (a, b, c, d))
IO(ssize_t, ENOMEM, recv, (int a, void *b, size_t c, int d), (a, b, c, d))
IO(ssize_t, ENOMEM, recvfrom, (int a, void *b, size_t c, int d, struct sockaddr *e, socklen_t *f),
   (a, b, c, d, e, f))
IO(int, ENOMEM, recvmmsg, (int a, struct mmsghdr *b, unsigned c, int d, struct timespec *e),
   (a, b, c, d, e))

/* Descriptors that a message brings do not fit: the kernel delivers the message without them. */
static bool take_away_fds(struct msghdr *m, const void *caller)
{
	bool any = false;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		any |= c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
	if (!any || !fault_hits(FAULT_DESCRIPTOR, "recvmsg's descriptors", EMFILE, caller))
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int fds[16];
		const size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    bytes > sizeof(fds))
			continue;
		memcpy(fds, CMSG_DATA(c), bytes);
		for (size_t i = 0; i < bytes / sizeof(int); i++)
			close(fds[i]);
	}
	m->msg_controllen = 0;
	m->msg_flags |= MSG_CTRUNC;
	return true;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n;

	REAL(recvmsg)
	if (fault_hits(FAULT_IO, "recvmsg", ENOMEM, CALLER))
		return -1;
	n = real_.call(fd, m, flags);
	if (n >= 0 && m->msg_controllen)
		take_away_fds(m, CALLER);
	return n;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	REAL(ioctl)
	return fault_hits(FAULT_CALL, "ioctl", ENOMEM, CALLER) ? -1 : real_.call(fd, request, arg);
}

#define FCNTL(name)                                                                 \
	EXPORT int name(int fd, int command, ...)                                   \
	{                                                                           \
		va_list ap;                                                         \
		void *arg;                                                          \
                                                                                    \
		va_start(ap, command);                                              \
		arg = va_arg(ap, void *);                                           \
		va_end(ap);                                                         \
		REAL(fcntl)                                                         \
		if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) &&           \
		    fault_hits(FAULT_DESCRIPTOR, "fcntl(F_DUPFD)", EMFILE, CALLER)) \
			return -1;                                                  \
		return real_.call(fd, command, arg);                                \
	}
FCNTL(fcntl)

/* Of the calls that are made by number, those that make a socket (base/syssocket.h). */
EXPORT long syscall(long number, ...)
{
	long arg[6];
	va_list ap;

	va_start(ap, number);
	for (unsigned i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	REAL(syscall)
#ifdef SYS_socket
	if (number == SYS_socket && fault_hits(FAULT_DESCRIPTOR, "socket", EMFILE, CALLER))
		return -1;
#endif
	return real_.call(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

#define OPEN(name, first_params, first_args)                               \
	EXPORT int name first_params                                       \
	{                                                                  \
		unsigned mode = 0;                                         \
		va_list ap;                                                \
                                                                           \
		va_start(ap, flags);                                       \
		if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))        \
			mode = va_arg(ap, unsigned);                       \
		va_end(ap);                                                \
		REAL(name)                                                 \
		return fault_hits(FAULT_DESCRIPTOR, #name, EMFILE, CALLER) \
			       ? -1                                        \
			       : real_.call first_args;                    \
	}
OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))

/* The names of the same functions in programs built for 64-bit file offsets. */
#if defined(__linux__) && defined(__LP64__)
FCNTL(fcntl64)
EXPORT int open64(const char *path, int flags, ...)
{
	unsigned mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
		mode = va_arg(ap, unsigned);
	va_end(ap);
	REAL(open)
	return fault_hits(FAULT_DESCRIPTOR, "open64", EMFILE, CALLER)
		       ? -1
		       : real_.call(path, flags, mode);
}
EXPORT FILE *fopen64(const char *path, const char *mode)
{
	REAL(fopen)
	return fault_hits(FAULT_DESCRIPTOR, "fopen64", EMFILE, CALLER) ? NULL
								       : real_.call(path, mode);
}
EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *p;

	REAL(mmap)
	if (fault_hits(FAULT_MEMORY, "mmap64", ENOMEM, CALLER))
		return MAP_FAILED;
	p = real_.call(addr, len, prot, flags, fd, offset);
	if (p != MAP_FAILED && !(flags & MAP_FIXED))
		fault_map_count(CALLER, 1);
	return p;
}
EXPORT int ftruncate64(int fd, off_t len)
{
	REAL(ftruncate)
	return fault_hits(FAULT_CALL, "ftruncate64", ENOMEM, CALLER) ? -1 : real_.call(fd, len);
}
#endif
