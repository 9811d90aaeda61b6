/* SPDX-License-Identifier: BSD-2-Clause */
#include "map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "foreign.h"

enum {
	ROOT_MAX = 512,
	STEPS_MAX = 64, /* of links and ".."; the kernel follows 40 links */
};

/* clang-format off */
static const char *const prefixes[] = {
	"/sys/class/infiniband",
	"/sys/class/infiniband_verbs",
	"/sys/devices/virtual/infiniband",
	"/sys/devices/virtual/infiniband_verbs",
	"/dev/infiniband",
};
/* clang-format on */

/* Set once, before the program's main(); every setter computes the same value. */
static char root[ROOT_MAX];
static size_t root_len; /* 0: nothing is mapped */
static bool known;

/*
 * Other libraries' constructors may run before this one. A program that gained privilege by
 * execve() must ignore its environment.
 */
__attribute__((constructor)) static void find_root(void)
{
	const char *env;
	size_t n;

	if (known)
		return;
	env = secure_getenv("ROCEMU_PATHS");
	n = env && *env == '/' ? strlen(env) : 0;
	if (n > 1 && n < sizeof(root)) {
		memcpy(root, env, n + 1);
		root_len = n;
	}
	known = true;
}

/*
 * The tree is filled while the program starts. The process that does so holds a lock on a file in
 * it, until the file is gone or that process has ended.
 */
static void wait_until_full(void)
{
	static const char filling[] = "/filling";
	static bool full;
	char path[ROOT_MAX + sizeof(filling)];
	long fd;

	if (__atomic_load_n(&full, __ATOMIC_RELAXED))
		return;
	memcpy(path, root, root_len);
	memcpy(path + root_len, filling, sizeof(filling));
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0 && errno != ENOENT)
		return;
	if (fd >= 0) {
		while (syscall(SYS_flock, fd, LOCK_SH) < 0 && errno == EINTR)
			;
		syscall(SYS_close, fd);
	}
	__atomic_store_n(&full, true, __ATOMIC_RELAXED);
}

/* With single slashes and without "." components. @return the length; 0: too long. */
static size_t tidy(const char *path, char *out, size_t size)
{
	size_t n = 0;

	while (*path) {
		const char *end;
		size_t len;

		while (*path == '/')
			path++;
		end = strchrnul(path, '/');
		len = (size_t)(end - path);
		/* A trailing slash means "a directory" and is kept. */
		if (len == 0 || (len == 1 && *path == '.')) {
			path = end;
			if (*path || (len == 0 && n == 0))
				continue;
			len = 0;
		}
		if (n + len + 2 > size)
			return 0;
		out[n++] = '/';
		memcpy(out + n, path, len);
		n += len;
		path = end;
	}
	out[n] = 0;
	return n;
}

static bool ends_component(const char *at)
{
	return *at == 0 || *at == '/';
}

/** Of "/infiniband" or "/infiniband_verbs" at the beginning of path; or 0. */
static size_t class_len(const char *path)
{
	static const char *const names[] = {"/infiniband", "/infiniband_verbs"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(path, names[i], strlen(names[i])) &&
		    ends_component(path + strlen(names[i])))
			return strlen(names[i]);
	return 0;
}

static bool is_below(const char *path, const char *dir)
{
	return !strncmp(path, dir, strlen(dir));
}

/**
 * Of what an adapter's function has: /sys/class/net/INTERFACE/device/infiniband, or .../infiniband
 * below /sys/devices; or 0.
 */
static size_t parent_prefix_len(const char *path)
{
	static const char net[] = "/sys/class/net/", devices[] = "/sys/devices/",
			  device[] = "/device";
	const char *end = NULL;

	if (is_below(path, net)) {
		end = strchrnul(path + strlen(net), '/');
		if (!is_below(end, device))
			return 0;
		end += strlen(device);
	} else if (is_below(path, devices)) {
		end = path + strlen(devices) - 1;
		while ((end = strstr(end, "/infiniband")) && !class_len(end))
			end++;
	}
	return end && class_len(end) ? (size_t)(end - path) + class_len(end) : 0;
}

/** The length of the prefix that path equals or is below, or 0. */
static size_t prefix_len(const char *path)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		const size_t n = strlen(prefixes[i]);

		if (!strncmp(path, prefixes[i], n) && ends_component(path + n))
			return n;
	}
	return parent_prefix_len(path);
}

/**
 * A device's link "device" may lead out of the tree, while its emulated entries are in the tree:
 * path (tidy) becomes one that follows the link's target.
 */
static void follow_device(char *path)
{
	static const char device[] = "/device";
	const size_t prefix = prefix_len(path);
	char link[MAP_PATH_MAX], target[MAP_PATH_MAX], *end;
	size_t len;
	long n;

	if (!prefix || path[prefix] != '/')
		return;
	end = strchrnul(path + prefix + 1, '/');
	if (!is_below(end, device) || !class_len(end + strlen(device)))
		return;
	end += strlen(device);
	len = (size_t)(end - path);
	if (root_len + len >= sizeof(link))
		return;
	memcpy(link, root, root_len);
	memcpy(link + root_len, path, len);
	link[root_len + len] = 0;
	n = syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof(target));
	if (n <= 0 || target[0] != '/' || root_len + (size_t)n + strlen(end) >= MAP_PATH_MAX)
		return;
	memmove(path + n, end, strlen(end) + 1);
	memcpy(path, target, (size_t)n);
}

/**
 * In the tree, what is really there is a link to itself, so that listings have it. path: in the
 * tree, of the entry below the prefix or of something in it.
 */
static bool is_real(char *path, size_t prefix)
{
	char *end = strchrnul(path + prefix + 1, '/');
	const char cut = *end;
	char target[MAP_PATH_MAX];
	long n;

	*end = 0;
	n = syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target));
	n = n > 0 && (size_t)n == strlen(path + root_len) &&
	    !memcmp(target, path + root_len, (size_t)n);
	*end = cut;
	return n;
}

/** Does ".." lead above where path begins? What is there is not all in the tree. */
static bool climbs_out(const char *path)
{
	int depth = 0;

	while (*path && depth >= 0) {
		const char *end = strchrnul(path + 1, '/');

		if (end - path == 3 && path[1] == '.' && path[2] == '.')
			depth--;
		else
			depth++;
		path = end;
	}
	return depth < 0;
}

/** The first ".." component of path, at its slash; or NULL. */
static char *find_up(char *path)
{
	while ((path = strstr(path, "/..")) && !ends_component(path + 3))
		path++;
	return path;
}

/**
 * What path begins with, up to end, is a link in the tree: its target takes its place.
 * @return false: left as it was.
 */
static bool follow_link(char *path, char *end, const char *target, size_t n)
{
	char *at = path + root_len;

	if (target[0] == '/') {
		if (n == (size_t)(end - at) && !memcmp(at, target, n))
			return false; /* a real device's: to itself */
	} else {
		at = (char *)memrchr(at, '/', (size_t)(end - at)) + 1;
	}
	if ((size_t)(at - path) + n + strlen(end) >= MAP_PATH_MAX)
		return false;
	memmove(at + n, end, strlen(end) + 1);
	memcpy(at, target, n);
	return true;
}

/**
 * The tree contains emulated entries only, so a path that climbs out of it continues in the
 * system's tree. path: in the tree; each ".." is taken away with the directory before it, a link
 * being replaced by its target first, as far as the tree has them. @return whether path is another
 * now.
 */
static bool climb(char *path)
{
	char *const at = path + root_len;
	char target[MAP_PATH_MAX], *up;
	bool changed = false;

	for (int i = 0; i < STEPS_MAX && (up = find_up(at)); i++) {
		const char after = up[3];
		bool there;
		long n;

		up[3] = 0;
		there = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
		up[3] = after;
		if (!there)
			break;
		*up = 0;
		n = up == at ? 0 : syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target));
		*up = '/';
		if (n <= 0) {
			char *const last = up == at ? at : memrchr(at, '/', (size_t)(up - at));

			memmove(last, up + 3, strlen(up + 3) + 1);
		} else if (!follow_link(path, up, target, (size_t)n)) {
			break;
		}
		changed = true;
	}
	if (!*at)
		memcpy(at, "/", 2);
	return changed;
}

static bool in_tree(char *path)
{
	const size_t prefix = root_len + prefix_len(path + root_len);

	if (prefix == root_len || climbs_out(path + prefix))
		return false;
	if (path[prefix] && is_real(path, prefix))
		return false;
	return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

const char *map_path(const char *path, char buf[MAP_PATH_MAX])
{
	const int saved = errno;
	const char *to = path;
	size_t n, prefix;

	/* Nearly every path: not absolute, or it has no such word, however it is written. */
	if (!path || path[0] != '/' || !strstr(path, "infiniband"))
		return path;
	foreign_check();
	if (!known)
		find_root();
	if (!root_len)
		return path;
	n = tidy(path, buf + root_len, MAP_PATH_MAX - root_len);
	if (n)
		follow_device(buf + root_len);
	prefix = n ? prefix_len(buf + root_len) : 0;
	if (prefix) {
		wait_until_full();
		memcpy(buf, root, root_len);
		if (climbs_out(buf + root_len + prefix) && climb(buf))
			to = buf + root_len;
		if (in_tree(buf))
			to = buf;
		errno = saved;
	}
	return to;
}

const char *map_root(void)
{
	if (!known)
		find_root();
	return root;
}

size_t map_back(char *path, size_t len)
{
	if (!root_len || len <= root_len || memcmp(path, root, root_len) != 0 ||
	    path[root_len] != '/')
		return len;
	memmove(path, path + root_len, len - root_len);
	return len - root_len;
}
