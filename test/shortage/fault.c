/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
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

enum {
	SITES = 256,
	SITE_LIMIT = 2,	  /* calls of FAULT_IO counted per caller: programs poll */
	BLOCKS = 1 << 17, /* live ones that can be told apart */
	RANGES = 8,
	ARENA = 65536,
};

static struct fault_control own;
static struct fault_control *control = &own;

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

/* ---- who calls ---- */

struct range {
	uintptr_t begin, end;
};

static struct range watched[RANGES];
static atomic_uint nwatched;

#ifdef FAULT_IN_PROGRAM
extern const char __executable_start[], etext[];

static bool is_test(const void *caller)
{
	return (const char *)caller >= __executable_start && (const char *)caller < etext;
}
#else
static bool is_test(const void *caller)
{
	(void)caller;
	return false;
}
#endif

static bool is_watched(const void *caller)
{
	const unsigned n = atomic_load_explicit(&nwatched, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		if ((uintptr_t)caller >= watched[i].begin && (uintptr_t)caller < watched[i].end)
			return true;
	return false;
}

static int watch_object(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *const *names = user;
	const unsigned at = atomic_load(&nwatched);
	bool wanted = false;

	(void)size;
	for (unsigned i = 0; names[i]; i++)
		wanted |= strstr(info->dlpi_name, names[i]) != NULL;
	if (!wanted || at == RANGES)
		return 0;
	watched[at] = (struct range){UINTPTR_MAX, 0};
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		const uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		if (begin < watched[at].begin)
			watched[at].begin = begin;
		if (end > watched[at].end)
			watched[at].end = end;
	}
	atomic_store_explicit(&nwatched, at + 1, memory_order_release);
	return 0;
}

void fault_watch(const char *const *names)
{
	dl_iterate_phdr(watch_object, (void *)(uintptr_t)names);
}

/* ---- live blocks ---- */

struct block {
	const void *address; /* NULL: free; a hash table with linear probing */
	const void *caller;
	bool marked;
};

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[BLOCKS];
static long nblocks;
static atomic_long nmaps;

static size_t slot_of(const void *p)
{
	return (((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BLOCKS;
}

static void *block_add(void *p, const void *caller)
{
	size_t at = slot_of(p);

	if (!p || !is_watched(caller))
		return p;
	pthread_mutex_lock(&blocks_lock);
	if (++nblocks > BLOCKS / 2)
		abort();
	while (blocks[at].address)
		at = (at + 1) % BLOCKS;
	blocks[at] = (struct block){p, caller, false};
	pthread_mutex_unlock(&blocks_lock);
	return p;
}

static void block_remove(const void *p)
{
	size_t at = slot_of(p), next;

	if (!p || !atomic_load_explicit(&nwatched, memory_order_relaxed))
		return;
	pthread_mutex_lock(&blocks_lock);
	while (blocks[at].address && blocks[at].address != p)
		at = (at + 1) % BLOCKS;
	if (blocks[at].address) {
		nblocks--;
		/* Move up what probed past this entry. */
		for (next = (at + 1) % BLOCKS; blocks[next].address; next = (next + 1) % BLOCKS) {
			const size_t home = slot_of(blocks[next].address);

			if ((next - home) % BLOCKS < (next - at) % BLOCKS)
				continue;
			blocks[at] = blocks[next];
			at = next;
		}
		blocks[at] = (struct block){0};
	}
	pthread_mutex_unlock(&blocks_lock);
}

struct fault_live fault_live(void)
{
	struct fault_live live;

	pthread_mutex_lock(&blocks_lock);
	live = (struct fault_live){nblocks, atomic_load(&nmaps)};
	pthread_mutex_unlock(&blocks_lock);
	return live;
}

void fault_live_mark(void)
{
	pthread_mutex_lock(&blocks_lock);
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i].marked = true;
	pthread_mutex_unlock(&blocks_lock);
}

static void where(const void *caller, char *buf, size_t len)
{
	const char *name;
	Dl_info info;

	if (!dladdr(caller, &info) || !info.dli_fname) {
		snprintf(buf, len, "%p", caller);
		return;
	}
	name = strrchr(info.dli_fname, '/');
	snprintf(buf, len, "%s+0x%lx %s", name ? name + 1 : info.dli_fname,
		 (unsigned long)((uintptr_t)caller - (uintptr_t)info.dli_fbase),
		 info.dli_sname ? info.dli_sname : "");
}

void fault_live_print(void)
{
	char text[128];

	for (size_t i = 0; i < BLOCKS; i++) {
		if (!blocks[i].address || blocks[i].marked)
			continue;
		where(blocks[i].caller, text, sizeof(text));
		fprintf(stderr, "    a block allocated by %s\n", text);
	}
}

/* ---- which call fails ---- */

struct site {
	_Atomic(const void *) caller;
	atomic_uint calls;
};

static struct site sites[SITES];
static atomic_uint sites_of; /* which arming */

static void sites_forget(const struct fault_control *c)
{
	const unsigned now = atomic_load(&c->armings);

	if (atomic_exchange(&sites_of, now) == now)
		return;
	for (size_t at = 0; at < SITES; at++) {
		atomic_store(&sites[at].caller, NULL);
		atomic_store(&sites[at].calls, 0);
	}
}

/* Has the caller called often enough? A full table: it has. */
static bool site_is_spent(const void *caller)
{
	for (size_t i = 0, at = (uintptr_t)caller / 4 % SITES; i < SITES;
	     i++, at = (at + 1) % SITES) {
		const void *none = NULL;

		if (atomic_compare_exchange_strong(&sites[at].caller, &none, caller) ||
		    none == caller)
			return atomic_fetch_add(&sites[at].calls, 1) >= SITE_LIMIT;
	}
	return true;
}

/* @return true: the call fails, with errno set. */
static bool fails(enum fault_kind kind, const char *name, int error, const void *caller)
{
	struct fault_control *c = control;

	if (!atomic_load(&c->armed) || is_test(caller))
		return false;
	sites_forget(c);
	if (atomic_load(&c->failed) && atomic_load(&c->mode) == FAULT_ALWAYS && kind != FAULT_IO &&
	    kind == atomic_load(&c->kind) && (kind != FAULT_CALL || !strcmp(name, c->name))) {
		atomic_fetch_add(&c->failed, 1);
		errno = error;
		return true;
	}
	if (kind == FAULT_IO && site_is_spent(caller))
		return false;
	if (atomic_fetch_add(&c->count, 1) + 1 != atomic_load(&c->nth))
		return false;
	atomic_store(&c->kind, kind);
	atomic_store(&c->error, error);
	snprintf(c->name, sizeof(c->name), "%s", name);
	where(caller, c->where, sizeof(c->where));
	atomic_fetch_add(&c->failed, 1);
	errno = error;
	return true;
}

struct fault_control *fault_control(void)
{
	return control;
}

void fault_arm(struct fault_control *c, enum fault_mode mode, unsigned long nth)
{
	atomic_store(&c->count, 0);
	atomic_fetch_add(&c->armings, 1);
	atomic_store(&c->failed, 0);
	atomic_store(&c->mode, mode);
	atomic_store(&c->nth, nth);
	atomic_store(&c->error, 0);
	c->name[0] = c->where[0] = 0;
	atomic_store(&c->armed, true);
}

void fault_disarm(struct fault_control *c)
{
	atomic_store(&c->armed, false);
}

/* Before main(): the file of whoever started this program with the library preloaded. */
__attribute__((constructor)) static void control_map(void)
{
	const char *path = getenv("FAULT_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		control = map;
}

/* ---- memory ---- */

#define NO_MEMORY(name) fails(FAULT_MEMORY, name, ENOMEM, CALLER)

EXPORT void *malloc(size_t size)
{
	if (resolving)
		return arena_take(size);
	REAL(malloc)
	return NO_MEMORY("malloc") ? NULL : block_add(real_.call(size), CALLER);
}

EXPORT void *calloc(size_t n, size_t size)
{
	if (resolving)
		return arena_take(n * size);
	REAL(calloc)
	return NO_MEMORY("calloc") ? NULL : block_add(real_.call(n, size), CALLER);
}

EXPORT void free(void *p)
{
	const int kept = errno;

	if (!p || is_arena(p) || resolving)
		return;
	REAL(free)
	block_remove(p);
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
	block_remove(old);
	p = real_.call(old, size);
	return block_add(p ? p : size ? old : NULL, CALLER) ? p : NULL;
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	int r;

	REAL(posix_memalign)
	if (NO_MEMORY("posix_memalign"))
		return ENOMEM;
	r = real_.call(out, align, size);
	if (!r)
		block_add(*out, CALLER);
	return r;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	REAL(aligned_alloc)
	return NO_MEMORY("aligned_alloc") ? NULL : block_add(real_.call(align, size), CALLER);
}

EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *p;

	REAL(mmap)
	if (NO_MEMORY("mmap"))
		return MAP_FAILED;
	p = real_.call(addr, len, prot, flags, fd, offset);
	if (p != MAP_FAILED && !(flags & MAP_FIXED) && is_watched(CALLER))
		atomic_fetch_add(&nmaps, 1);
	return p;
}

EXPORT int munmap(void *addr, size_t len)
{
	REAL(munmap)
	if (is_watched(CALLER))
		atomic_fetch_sub(&nmaps, 1);
	return real_.call(addr, len);
}

/* ---- the rest ---- */

/* A function that returns fail_value and sets errno. */
#define WRAP(kind, error, type, fail_value, name, params, args) \
	EXPORT type name params                                 \
	{                                                       \
		REAL(name)                                      \
		if (fails(kind, #name, error, CALLER))          \
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
NO_FD(getifaddrs, (struct ifaddrs * *a), (a))
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
	if (!any || !fails(FAULT_DESCRIPTOR, "recvmsg's descriptors", EMFILE, caller))
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
	if (fails(FAULT_IO, "recvmsg", ENOMEM, CALLER))
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
	return fails(FAULT_CALL, "ioctl", ENOMEM, CALLER) ? -1 : real_.call(fd, request, arg);
}

#define FCNTL(name)                                                            \
	EXPORT int name(int fd, int command, ...)                              \
	{                                                                      \
		va_list ap;                                                    \
		void *arg;                                                     \
                                                                               \
		va_start(ap, command);                                         \
		arg = va_arg(ap, void *);                                      \
		va_end(ap);                                                    \
		REAL(fcntl)                                                    \
		if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) &&      \
		    fails(FAULT_DESCRIPTOR, "fcntl(F_DUPFD)", EMFILE, CALLER)) \
			return -1;                                             \
		return real_.call(fd, command, arg);                           \
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
	if (number == SYS_socket && fails(FAULT_DESCRIPTOR, "socket", EMFILE, CALLER))
		return -1;
#endif
	return real_.call(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

#define OPEN(name, first_params, first_args)                                                   \
	EXPORT int name first_params                                                           \
	{                                                                                      \
		unsigned mode = 0;                                                             \
		va_list ap;                                                                    \
                                                                                               \
		va_start(ap, flags);                                                           \
		if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))                            \
			mode = va_arg(ap, unsigned);                                           \
		va_end(ap);                                                                    \
		REAL(name)                                                                     \
		return fails(FAULT_DESCRIPTOR, #name, EMFILE, CALLER) ? -1                     \
								      : real_.call first_args; \
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
	return fails(FAULT_DESCRIPTOR, "open64", EMFILE, CALLER) ? -1
								 : real_.call(path, flags, mode);
}
EXPORT FILE *fopen64(const char *path, const char *mode)
{
	REAL(fopen)
	return fails(FAULT_DESCRIPTOR, "fopen64", EMFILE, CALLER) ? NULL : real_.call(path, mode);
}
EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *p;

	REAL(mmap)
	if (fails(FAULT_MEMORY, "mmap64", ENOMEM, CALLER))
		return MAP_FAILED;
	p = real_.call(addr, len, prot, flags, fd, offset);
	if (p != MAP_FAILED && !(flags & MAP_FIXED) && is_watched(CALLER))
		atomic_fetch_add(&nmaps, 1);
	return p;
}
EXPORT int ftruncate64(int fd, off_t len)
{
	REAL(ftruncate)
	return fails(FAULT_CALL, "ftruncate64", ENOMEM, CALLER) ? -1 : real_.call(fd, len);
}
#endif
