/* SPDX-License-Identifier: BSD-2-Clause */
#include "counter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/countfile.h"
#include "base/memfile.h"
#include "base/sigwrite.h"

enum {
	/* Descriptors above are read as they were when they were opened. */
	FD_LIMIT = 1024,
	DEVICE_MAX = 64,
	/* memfd_create() takes 249 bytes: "rocemu:" device "/" counter */
	LABEL_MAX = DEVICE_MAX + COUNTFILE_NAME + 16,
};

#define LABEL "rocemu:"

/* A bit for each descriptor that was a counter when it was opened. Its name shows what it is now.
 */
static uint32_t opened[FD_LIMIT / 32];

/* ---- texts ---- */

struct text {
	char *at, *end;
};

static void append(struct text *t, const char *s, size_t n)
{
	if ((size_t)(t->end - t->at) <= n) {
		t->at = t->end; /* too long: take_text() sees it */
		return;
	}
	memcpy(t->at, s, n);
	t->at += n;
	*t->at = 0;
}

static void append_number(struct text *t, uint64_t n)
{
	char digits[20];
	size_t len = 0;

	do
		digits[sizeof(digits) - ++len] = (char)('0' + n % 10);
	while (n /= 10);
	append(t, digits + sizeof(digits) - len, len);
}

static bool is_whole(const struct text *t)
{
	return t->at < t->end;
}

static size_t fd_link(char *out, size_t len, int fd)
{
	char path[64];
	struct text t = {path, path + sizeof(path)};
	long n;

	append(&t, "/proc/self/", 11);
	if (fd == AT_FDCWD) {
		append(&t, "cwd", 3);
	} else {
		append(&t, "fd/", 3);
		append_number(&t, (uint64_t)fd);
	}
	n = syscall(SYS_readlinkat, AT_FDCWD, path, out, len - 1);
	if (n < 0)
		n = 0;
	out[n] = 0;
	return (size_t)n;
}

/* ---- which counter ---- */

/** The component before end, of a path that starts at start; NULL: there is none. */
static const char *component_before(const char *start, const char *end)
{
	if (end <= start || end[-1] != '/')
		return NULL;
	for (end--; end > start && end[-1] != '/'; end--)
		;
	return end;
}

static bool is_component(const char *at, const char *text)
{
	const size_t n = strlen(text);

	return at && !strncmp(at, text, n) && (at[n] == '/' || at[n] == 0);
}

/**
 * Of ".../DEVICE/ports/1/counters/NAME" or hw_counters: "DEVICE" and "counters/NAME".
 * @return where the latter begins, NULL: path is not like that.
 */
static const char *split(const char *path, char device[DEVICE_MAX])
{
	const char *kind, *port, *ports, *dev, *name = strrchr(path, '/');

	if (!name++ || !*name)
		return NULL;
	kind = component_before(path, name);
	if (!is_component(kind, "counters") && !is_component(kind, "hw_counters"))
		return NULL;
	port = component_before(path, kind);
	ports = port ? component_before(path, port) : NULL;
	dev = ports ? component_before(path, ports) : NULL;
	if (!is_component(port, "1") || !is_component(ports, "ports") || !dev ||
	    ports - dev > DEVICE_MAX)
		return NULL;
	memcpy(device, dev, (size_t)(ports - dev - 1));
	device[ports - dev - 1] = 0;
	return kind;
}

/** The device's file of counters, NULL: it has none. */
static struct countfile *file_of(const char *device)
{
	char path[MAP_PATH_MAX];
	struct text t = {path, path + sizeof(path)};

	append(&t, map_root(), strlen(map_root()));
	append(&t, "/shared/counters/", 17);
	append(&t, device, strlen(device));
	return is_whole(&t) ? countfile_map(path) : NULL;
}

/** A limit of the program's files (ulimit -f) must not end the program. */
static bool put(int fd, const char *value, size_t len)
{
	struct sigwrite s;
	bool ok;

	sigwrite_begin(&s);
	ok = syscall(SYS_pwrite64, fd, value, len, (off_t)0) == (long)len &&
	     syscall(SYS_ftruncate, fd, (off_t)len) == 0;
	sigwrite_end(&s);
	return ok;
}

/**
 * The counter's value and a newline as the content of fd. @return false: no such counter, or it
 * cannot be written.
 */
static bool fill(int fd, const char *device, const char *name)
{
	struct countfile *f = file_of(device);
	const int index = f ? countfile_find(f, name) : -1;
	char value[32];
	struct text t = {value, value + sizeof(value)};

	if (index >= 0) {
		append_number(&t, countfile_get(f, (unsigned)index));
		append(&t, "\n", 1);
	}
	countfile_unmap(f);
	return index >= 0 && put(fd, value, (size_t)(t.at - value));
}

/** path as one from the root, in out: as it is, or below dir. */
static const char *absolute(int dir, const char *path, char out[MAP_PATH_MAX])
{
	struct text t = {out, out + MAP_PATH_MAX};

	if (*path == '/')
		return path;
	t.at += fd_link(out, MAP_PATH_MAX, dir);
	append(&t, "/", 1);
	append(&t, path, strlen(path));
	return is_whole(&t) ? out : "";
}

/** Nearly every path ends here. */
static bool may_be_counter(const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;

	name = name ? name + 1 : path;
	/* No counter's name has a dot, and each has an underscore but one. */
	return name && *name && !strchr(name, '.') &&
	       (strchr(name, '_') || !strcmp(name, "lifespan"));
}

static int open_counter(int dir, const char *path)
{
	char in[MAP_PATH_MAX], mapped[MAP_PATH_MAX], device[DEVICE_MAX], label[LABEL_MAX];
	struct text t = {label, label + sizeof(label)};
	const char *full = map_path(absolute(dir, path, in), mapped);
	const size_t root = strlen(map_root());
	const char *name;
	int fd;

	if (strncmp(full, map_root(), root) != 0 || full[root] != '/')
		return -1;
	name = split(full, device);
	if (!name)
		return -1;
	append(&t, LABEL, strlen(LABEL));
	append(&t, device, strlen(device));
	append(&t, "/", 1);
	append(&t, name, strlen(name));
	if (!is_whole(&t))
		return -1;
	fd = memfile(label, MFD_CLOEXEC);
	if (fd >= 0 && !fill(fd, device, name)) {
		syscall(SYS_close, fd);
		fd = -1;
	}
	return fd;
}

int counter_open(int dir, const char *path, int flags)
{
	const int saved = errno;
	int fd;

	if (!*map_root() || (flags & (O_ACCMODE | O_CREAT | O_DIRECTORY | O_PATH)) != O_RDONLY ||
	    !may_be_counter(path))
		return -1;
	fd = open_counter(dir, path);
	if (fd >= 0 && !(flags & O_CLOEXEC))
		syscall(SYS_fcntl, fd, F_SETFD, 0);
	if (fd >= 0 && fd < FD_LIMIT)
		__atomic_fetch_or(&opened[fd / 32], 1u << fd % 32, __ATOMIC_RELAXED);
	errno = saved;
	return fd;
}

const char *counter_path(const char *path, char buf[MAP_PATH_MAX], int *fd)
{
	const int saved = errno;
	struct text t = {buf, buf + MAP_PATH_MAX};

	*fd = *map_root() && may_be_counter(path) ? open_counter(AT_FDCWD, path) : -1;
	errno = saved;
	if (*fd < 0)
		return path;
	append(&t, "/proc/self/fd/", 14);
	append_number(&t, (uint64_t)*fd);
	return buf;
}

static void update(int fd, off_t offset)
{
	static const char start[] = "/memfd:" LABEL, end[] = " (deleted)";
	char label[LABEL_MAX + sizeof(start) + sizeof(end)];
	const size_t n = fd_link(label, sizeof(label), fd);
	char *device = label + sizeof(start) - 1, *name;

	if (n < sizeof(start) + sizeof(end) || memcmp(label, start, sizeof(start) - 1) != 0) {
		/* It was closed, and is something else now. */
		__atomic_fetch_and(&opened[fd / 32], ~(1u << fd % 32), __ATOMIC_RELAXED);
		return;
	}
	if (offset < 0)
		offset = syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
	label[n - (sizeof(end) - 1)] = 0;
	name = strchr(device, '/');
	if (offset != 0 || !name)
		return;
	*name++ = 0;
	fill(fd, device, name);
}

void counter_update(int fd, off_t offset)
{
	const int saved = errno;

	if (fd < 0 || fd >= FD_LIMIT ||
	    !(__atomic_load_n(&opened[fd / 32], __ATOMIC_RELAXED) & 1u << fd % 32))
		return;
	update(fd, offset);
	errno = saved;
}
