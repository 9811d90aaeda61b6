/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds and loads the system's libibverbs, with the table of its symbols. See real.h. */
#include "verbs/real.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/util.h"
#include "verbs/call.h"
#include "verbs/private.h"

/* ---- called when there is no real library, or its version lacks the symbol ---- */

/** The device is real, and the system's library is missing or has no such call. */
static int absent(void)
{
	return REFUSE(EOPNOTSUPP, 0,
		      "a call for a real device: it needs the system's libibverbs, loaded and new "
		      "enough: see ROCEMU_LOG=info");
}

static int absent_ERRNO(void)
{
	errno = absent();
	return EOPNOTSUPP;
}

static int absent_MINUS_ONE(void)
{
	errno = absent();
	return -1;
}

static ssize_t absent_NEGATIVE(void)
{
	return -absent();
}

static void *absent_NULL(void)
{
	errno = absent();
	return NULL;
}

static int absent_SILENT(void)
{
	return 0;
}

static void absent_VOID(void)
{
	errno = absent();
}

/*
 * Written while loading, before an object of the library can exist; read without lock.
 */
#define REAL_DEFINE(name, version, kind) void (*real_##name)(void) = (void (*)(void))absent_##kind;
REAL_TABLE(REAL_DEFINE)
#undef REAL_DEFINE

static const struct {
	const char *name, *version;
	void (**fn)(void);
} symbols[] = {
#define REAL_SYMBOL(name, version, kind) {#name, version, &real_##name},
	REAL_TABLE(REAL_SYMBOL)
#undef REAL_SYMBOL
};

/* ---- errno ---- */

static int *(*errno_location)(void); /* NULL until loaded */

void real_errno_in(void)
{
	if (errno_location)
		*errno_location() = errno;
}

void real_errno_out(void)
{
	if (errno_location)
		errno = *errno_location();
}

/* ---- is it to be loaded ---- */

/** ROCEMU_REAL: on unless it is "off". */
static bool wanted(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *env = secure_getenv("ROCEMU_REAL");

	if (env && !strcmp(env, "off"))
		return false;
	if (env && *env && strcmp(env, "on") && !atomic_flag_test_and_set(&said))
		log_error("ROCEMU_REAL=%s: expected on or off; on is used", env);
	return true;
}

/**
 * Does the kernel have an RDMA device? Must be cheap: called in every ibv_get_device_list(). Opened
 * by system call, because the library that "rocemu run" preloads shows emulated devices there.
 */
static bool kernel_has_devices(void)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/sys/class/infiniband",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;
	bool found = false;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!found && (e = readdir(d)))
		found = e->d_name[0] != '.';
	closedir(d);
	return found;
}

/**
 * Is this library itself loaded into a link-map namespace of its own? Then the loading library has
 * the real devices, and loading another one here would recurse without end.
 */
static bool in_inner_namespace(void)
{
	static const char here;
	struct link_map *map;
	Lmid_t id;
	Dl_info info;

	return dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) &&
	       dlinfo(map, RTLD_DI_LMID, &id) == 0 && id != LM_ID_BASE;
}

/* ---- where it is ---- */

static bool is_ourselves(const char *path)
{
	struct stat theirs, ours;
	Dl_info info;

	return dladdr(symbols, &info) && info.dli_fname && stat(info.dli_fname, &ours) == 0 &&
	       stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

/**
 * The path of the system's library: always absolute, because LD_LIBRARY_PATH leads to this library.
 * out is also used in messages. NULL when there is none.
 */
static const char *find_library(char out[PATH_MAX])
{
	static const char *const dirs[] = {
		REAL_SYSTEM_DIR, /* of the library that this one was made to resemble */
		"/usr/lib64",
		"/usr/lib",
		"/usr/local/lib",
	};
	const char *env = secure_getenv("ROCEMU_REAL_LIBIBVERBS");

	if (env && *env)
		return env;
	for (unsigned i = 0; i < ARRAY_LEN(dirs); i++) {
		struct stat st;

		if (snprintf(out, PATH_MAX, "%s/libibverbs.so.1", dirs[i]) < PATH_MAX &&
		    stat(out, &st) == 0 && S_ISREG(st.st_mode) && !is_ourselves(out))
			return out;
	}
	return NULL;
}

/* ---- loading ---- */

enum state { UNTRIED, LOADED, FAILED };

static struct mutex load_lock = MUTEX_INITIALIZER;
static _Atomic(enum state) state; /* written under load_lock */
static bool fork_wanted;	  /* guarded by load_lock */

static void lock_loading(void)
{
	mutex_lock(&load_lock);
}

static void unlock_loading(void)
{
	mutex_unlock(&load_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {lock_loading, unlock_loading, unlock_loading};

	forks_add(FORK_REAL, &handlers);
}

static bool fail(const char *path, const char *why)
{
	size_t n = strlen(path);

	if (!strncmp(why, path, n) && !strncmp(why + n, ": ", 2)) /* prefix of dlerror()'s text */
		why += n + 2;
	log_error("the real RDMA devices are not listed: %s: %s (ROCEMU_REAL_LIBIBVERBS selects "
		  "another libibverbs, ROCEMU_REAL=off disables real devices)",
		  path, why);
	return false;
}

/** Look up the table's symbols in the library. @return how many it has. */
static unsigned resolve(void *handle)
{
	unsigned found = 0;

	for (unsigned i = 0; i < ARRAY_LEN(symbols); i++) {
		void *fn = dlvsym(handle, symbols[i].name, symbols[i].version);

		if (fn) {
			*symbols[i].fn = (void (*)(void))fn;
			found++;
		}
	}
	return found;
}

/** The library is never unloaded, like this one. Load lock held. */
static bool load(void)
{
	static char buf[PATH_MAX]; /* guarded by the lock; too large for small stacks */
	const char *path = find_library(buf);
	unsigned found;
	void *handle;

	if (!path)
		return fail("libibverbs.so.1", "not found in the system's library directories");
	if (*path != '/')
		return fail(path, "expected an absolute path");
	if (is_ourselves(path))
		return fail(path, "this is rocemu's own library");
	handle = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail(path, dlerror());
	if (dlsym(handle, PRIVATE_CAPTURE)) { /* a copy of it */
		dlclose(handle);
		return fail(path, "this is rocemu's own library");
	}
	if (!dlsym(handle, "ibv_get_device_list") || !dlsym(handle, "__errno_location")) {
		dlclose(handle);
		return fail(path, "this is not a libibverbs");
	}
	found = resolve(handle);
	errno_location = (int *(*)(void))dlsym(handle, "__errno_location");
	log_info("real devices by %s: %u of %zu symbols", path, found, ARRAY_LEN(symbols));
	if (fork_wanted && REAL_CALL(ibv_fork_init) != 0)
		log_warn("ibv_fork_init() of %s failed: %s", path, strerror(errno));
	return true;
}

bool real_loaded(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == LOADED;
}

bool real_load(void)
{
	const char *named = secure_getenv("ROCEMU_REAL_LIBIBVERBS");

	if (atomic_load_explicit(&state, memory_order_acquire) == UNTRIED && wanted() &&
	    ((named && *named) || kernel_has_devices()) && !in_inner_namespace()) {
		mutex_lock(&load_lock);
		if (state == UNTRIED)
			atomic_store_explicit(&state, load() ? LOADED : FAILED,
					      memory_order_release);
		mutex_unlock(&load_lock);
	}
	return real_loaded();
}

struct ibv_device **real_device_list(unsigned *n)
{
	struct ibv_device **list;
	int count = 0;

	*n = 0;
	if (!real_load() || !wanted())
		return NULL;
	list = REAL_CALL(ibv_get_device_list, &count);
	if (!list) {
		/* ENOSYS: no RDMA in this kernel, the same as no device. */
		if (errno != ENOSYS)
			log_warn("the real RDMA devices are not listed: %s", strerror(errno));
		return NULL;
	}
	*n = count > 0 ? (unsigned)count : 0;
	return list;
}

int real_fork_init(void)
{
	int ret = 0;

	mutex_lock(&load_lock);
	fork_wanted = true;
	if (state == LOADED)
		ret = REAL_CALL(ibv_fork_init);
	mutex_unlock(&load_lock);
	return ret;
}
