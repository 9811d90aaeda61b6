/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library's functions that take a path, in front of the real ones: each maps its path and
 * calls the real function, which does everything else.
 *
 * Not covered: what the C library calls inside of itself (glob(), nftw()), and programs that make
 * system calls without it (Go's).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "counter.h"
#include "map.h"
#include "netlink.h"

#define HOOK __attribute__((visibility("default")))

/*
 * The function that this one stands in front of. Looked up once; a second lookup in a race gives
 * the same result.
 */
#define NEXT(name)                                                                \
	({                                                                        \
		static __typeof__(&name) next_;                                   \
		__typeof__(&name) f_ = __atomic_load_n(&next_, __ATOMIC_RELAXED); \
                                                                                  \
		if (!f_) {                                                        \
			*(void **)(void *)&f_ = dlsym(RTLD_NEXT, #name);          \
			__atomic_store_n(&next_, f_, __ATOMIC_RELAXED);           \
		}                                                                 \
		f_;                                                               \
	})

/* Called by what was compiled with _FORTIFY_SOURCE, or before glibc 2.33; not in the headers. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
ssize_t __read_chk(int fd, void *out, size_t len, size_t size);
ssize_t __pread_chk(int fd, void *out, size_t len, off_t offset, size_t size);
ssize_t __pread64_chk(int fd, void *out, size_t len, off64_t offset, size_t size);
char *__realpath_chk(const char *path, char *out, size_t size);
ssize_t __readlink_chk(const char *path, char *out, size_t len, size_t size);
ssize_t __readlinkat_chk(int dir, const char *path, char *out, size_t len, size_t size);
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);

/* ---- open ---- */

/* The third argument is there when a file may be made. */
static mode_t mode_of(int flags, va_list ap)
{
	const bool needed = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;

	return needed ? va_arg(ap, mode_t) : 0;
}

#define HOOK_OPEN(name)                                              \
	HOOK int name(const char *path, int flags, ...)              \
	{                                                            \
		char buf[MAP_PATH_MAX];                              \
		mode_t mode;                                         \
		va_list ap;                                          \
                                                                     \
		va_start(ap, flags);                                 \
		mode = mode_of(flags, ap);                           \
		va_end(ap);                                          \
		const int fd = counter_open(AT_FDCWD, path, flags);  \
		if (fd >= 0)                                         \
			return fd;                                   \
		return NEXT(name)(map_path(path, buf), flags, mode); \
	}
HOOK_OPEN(open)
HOOK_OPEN(open64)

#define HOOK_OPENAT(name)                                                 \
	HOOK int name(int dir, const char *path, int flags, ...)          \
	{                                                                 \
		char buf[MAP_PATH_MAX];                                   \
		mode_t mode;                                              \
		va_list ap;                                               \
                                                                          \
		va_start(ap, flags);                                      \
		mode = mode_of(flags, ap);                                \
		va_end(ap);                                               \
		const int fd = counter_open(dir, path, flags);            \
		if (fd >= 0)                                              \
			return fd;                                        \
		return NEXT(name)(dir, map_path(path, buf), flags, mode); \
	}
HOOK_OPENAT(openat)
HOOK_OPENAT(openat64)

/* ---- all the others have a fixed number of arguments ---- */

#define HOOK1(type, name)                               \
	HOOK type name(const char *path)                \
	{                                               \
		char buf[MAP_PATH_MAX];                 \
                                                        \
		return NEXT(name)(map_path(path, buf)); \
	}
#define HOOK2(type, name, t2)                               \
	HOOK type name(const char *path, t2 a2)             \
	{                                                   \
		char buf[MAP_PATH_MAX];                     \
                                                            \
		return NEXT(name)(map_path(path, buf), a2); \
	}
#define HOOK_AT3(type, name, t3)                                 \
	HOOK type name(int dir, const char *path, t3 a3)         \
	{                                                        \
		char buf[MAP_PATH_MAX];                          \
                                                                 \
		return NEXT(name)(dir, map_path(path, buf), a3); \
	}
#define HOOK_AT4(type, name, t3, t4)                                 \
	HOOK type name(int dir, const char *path, t3 a3, t4 a4)      \
	{                                                            \
		char buf[MAP_PATH_MAX];                              \
                                                                     \
		return NEXT(name)(dir, map_path(path, buf), a3, a4); \
	}

#define HOOK_OPEN_2(name)                                           \
	HOOK int name(const char *path, int flags)                  \
	{                                                           \
		char buf[MAP_PATH_MAX];                             \
		const int fd = counter_open(AT_FDCWD, path, flags); \
                                                                    \
		if (fd >= 0)                                        \
			return fd;                                  \
		return NEXT(name)(map_path(path, buf), flags);      \
	}
HOOK_OPEN_2(__open_2)
HOOK_OPEN_2(__open64_2)

#define HOOK_OPENAT_2(name)                                         \
	HOOK int name(int dir, const char *path, int flags)         \
	{                                                           \
		char buf[MAP_PATH_MAX];                             \
		const int fd = counter_open(dir, path, flags);      \
                                                                    \
		if (fd >= 0)                                        \
			return fd;                                  \
		return NEXT(name)(dir, map_path(path, buf), flags); \
	}
HOOK_OPENAT_2(__openat_2)
HOOK_OPENAT_2(__openat64_2)

/** After a call that took counter_path()'s path. */
static FILE *done_with(int fd, FILE *f)
{
	const int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return f;
}

#define HOOK_FOPEN(name)                                                     \
	HOOK FILE *name(const char *path, const char *mode)                  \
	{                                                                    \
		char buf[MAP_PATH_MAX], shown[MAP_PATH_MAX];                 \
		int fd;                                                      \
                                                                             \
		path = counter_path(path, shown, &fd);                       \
		return done_with(fd, NEXT(name)(map_path(path, buf), mode)); \
	}
HOOK_FOPEN(fopen)
HOOK_FOPEN(fopen64)

#define HOOK_FREOPEN(name)                                                      \
	HOOK FILE *name(const char *path, const char *mode, FILE *f)            \
	{                                                                       \
		char buf[MAP_PATH_MAX], shown[MAP_PATH_MAX];                    \
		int fd;                                                         \
                                                                                \
		path = counter_path(path, shown, &fd);                          \
		return done_with(fd, NEXT(name)(map_path(path, buf), mode, f)); \
	}
HOOK_FREOPEN(freopen)
HOOK_FREOPEN(freopen64)

/* ---- read ---- */

HOOK ssize_t read(int fd, void *out, size_t len)
{
	counter_update(fd, -1);
	return NEXT(read)(fd, out, len);
}

HOOK ssize_t __read_chk(int fd, void *out, size_t len, size_t size)
{
	counter_update(fd, -1);
	return NEXT(__read_chk)(fd, out, len, size);
}

#define HOOK_PREAD(name, off_type)                                        \
	HOOK ssize_t name(int fd, void *out, size_t len, off_type offset) \
	{                                                                 \
		counter_update(fd, (off_t)offset);                        \
		return NEXT(name)(fd, out, len, offset);                  \
	}
HOOK_PREAD(pread, off_t)
HOOK_PREAD(pread64, off64_t)

#define HOOK_PREAD_CHK(name, off_type)                                                 \
	HOOK ssize_t name(int fd, void *out, size_t len, off_type offset, size_t size) \
	{                                                                              \
		counter_update(fd, (off_t)offset);                                     \
		return NEXT(name)(fd, out, len, offset, size);                         \
	}
HOOK_PREAD_CHK(__pread_chk, off_t)
HOOK_PREAD_CHK(__pread64_chk, off64_t)

HOOK2(int, stat, struct stat *)
HOOK2(int, stat64, struct stat64 *)
HOOK2(int, lstat, struct stat *)
HOOK2(int, lstat64, struct stat64 *)
HOOK_AT4(int, fstatat, struct stat *, int)
HOOK_AT4(int, fstatat64, struct stat64 *, int)

HOOK int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
	char buf[MAP_PATH_MAX];

	return NEXT(statx)(dir, map_path(path, buf), flags, mask, st);
}

/*
 * Programs built before glibc 2.33. The version selects the structure's layout; supported machines
 * have only one.
 */
#define HOOK_XSTAT(name, flags, st_type, real)                               \
	HOOK int name(int version, const char *path, struct st_type *st)     \
	{                                                                    \
		char buf[MAP_PATH_MAX];                                      \
                                                                             \
		(void)version;                                               \
		return NEXT(real)(AT_FDCWD, map_path(path, buf), st, flags); \
	}
HOOK_XSTAT(__xstat, 0, stat, fstatat)
HOOK_XSTAT(__xstat64, 0, stat64, fstatat64)
HOOK_XSTAT(__lxstat, AT_SYMLINK_NOFOLLOW, stat, fstatat)
HOOK_XSTAT(__lxstat64, AT_SYMLINK_NOFOLLOW, stat64, fstatat64)

HOOK int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
	(void)version;
	return fstatat(dir, path, st, flags);
}

HOOK int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags)
{
	(void)version;
	return fstatat64(dir, path, st, flags);
}

HOOK2(int, access, int)
HOOK2(int, eaccess, int)
HOOK2(int, euidaccess, int)
HOOK_AT4(int, faccessat, int, int)

/* "ls -l" checks for access control lists. */
#define HOOK_GETXATTR(name)                                                             \
	HOOK ssize_t name(const char *path, const char *attr, void *value, size_t size) \
	{                                                                               \
		char buf[MAP_PATH_MAX];                                                 \
                                                                                        \
		return NEXT(name)(map_path(path, buf), attr, value, size);              \
	}
HOOK_GETXATTR(getxattr)
HOOK_GETXATTR(lgetxattr)

HOOK1(int, chdir)
HOOK1(DIR *, opendir)

typedef int select_fn(const struct dirent *);
typedef int compare_fn(const struct dirent **, const struct dirent **);
typedef int select64_fn(const struct dirent64 *);
typedef int compare64_fn(const struct dirent64 **, const struct dirent64 **);

HOOK int scandir(const char *path, struct dirent ***list, select_fn *select, compare_fn *compare)
{
	char buf[MAP_PATH_MAX];

	return NEXT(scandir)(map_path(path, buf), list, select, compare);
}

HOOK int scandir64(const char *path, struct dirent64 ***list, select64_fn *select,
		   compare64_fn *compare)
{
	char buf[MAP_PATH_MAX];

	return NEXT(scandir64)(map_path(path, buf), list, select, compare);
}

/* ---- functions that return a path ---- */

/* A returned path with a terminating 0, or NULL. */
static char *shown(char *path)
{
	if (path)
		path[map_back(path, strlen(path))] = 0;
	return path;
}

HOOK char *realpath(const char *path, char *out)
{
	char buf[MAP_PATH_MAX];

	/* Up to glibc 2.35 RTLD_NEXT finds the oldest version, for which NULL is EINVAL. */
	if (!out)
		return shown(NEXT(canonicalize_file_name)(map_path(path, buf)));
	return shown(NEXT(realpath)(map_path(path, buf), out));
}

HOOK char *__realpath_chk(const char *path, char *out, size_t size)
{
	char buf[MAP_PATH_MAX];

	return shown(NEXT(__realpath_chk)(map_path(path, buf), out, size));
}

HOOK char *canonicalize_file_name(const char *path)
{
	char buf[MAP_PATH_MAX];

	return shown(NEXT(canonicalize_file_name)(map_path(path, buf)));
}

/* The tree's links are relative, or lead out of it: there is nothing to map back. */
HOOK ssize_t readlink(const char *path, char *out, size_t len)
{
	char buf[MAP_PATH_MAX];

	return NEXT(readlink)(map_path(path, buf), out, len);
}

HOOK_AT4(ssize_t, readlinkat, char *, size_t)

HOOK ssize_t __readlink_chk(const char *path, char *out, size_t len, size_t size)
{
	char buf[MAP_PATH_MAX];

	return NEXT(__readlink_chk)(map_path(path, buf), out, len, size);
}

HOOK ssize_t __readlinkat_chk(int dir, const char *path, char *out, size_t len, size_t size)
{
	char buf[MAP_PATH_MAX];

	return NEXT(__readlinkat_chk)(dir, map_path(path, buf), out, len, size);
}

/* ---- sockets of NETLINK_RDMA ---- */

HOOK int socket(int domain, int type, int protocol)
{
	const int other = netlink_protocol(domain, protocol);
	const int fd = NEXT(socket)(domain, type, other);

	if (fd >= 0 && other != protocol)
		netlink_made(fd);
	return fd;
}

HOOK int bind(int fd, const struct sockaddr *address, socklen_t len)
{
	const int result = NEXT(bind)(fd, address, len);

	if (result == 0)
		netlink_bound(fd, address, len);
	return result;
}

HOOK int connect(int fd, const struct sockaddr *to, socklen_t to_len)
{
	struct sockaddr_storage other;

	return NEXT(connect)(fd, netlink_to(fd, to, to_len, &other), to_len);
}

HOOK ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
		    socklen_t to_len)
{
	struct sockaddr_storage other;

	return NEXT(sendto)(fd, data, len, flags, netlink_to(fd, to, to_len, &other), to_len);
}

HOOK ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct sockaddr_storage other;
	struct msghdr mapped;
	const void *to;

	if (m && m->msg_name) {
		to = netlink_to(fd, m->msg_name, m->msg_namelen, &other);
		if (to == &other) {
			mapped = *m;
			mapped.msg_name = &other;
			m = &mapped;
		}
	}
	return NEXT(sendmsg)(fd, m, flags);
}

HOOK ssize_t recvfrom(int fd, void *out, size_t len, int flags, struct sockaddr *from,
		      socklen_t *from_len)
{
	const ssize_t n = NEXT(recvfrom)(fd, out, len, flags, from, from_len);

	if (n >= 0 && from && from_len)
		netlink_from(from, *from_len);
	return n;
}

HOOK ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	const ssize_t n = NEXT(recvmsg)(fd, m, flags);

	if (n >= 0 && m->msg_name)
		netlink_from(m->msg_name, m->msg_namelen);
	return n;
}
