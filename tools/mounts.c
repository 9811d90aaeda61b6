/* SPDX-License-Identifier: BSD-2-Clause */
#include "mounts.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "userns.h"

/* sysfs takes no new directories, so those to mount on come from an overlay of the ones above. */
static const struct {
	const char *above, *name;
} places[] = {
	{"/sys/class", "infiniband"},
	{"/sys/class", "infiniband_verbs"},
	{"/sys/devices/virtual", "infiniband"},
	{"/sys/devices/virtual", "infiniband_verbs"},
};

enum { PLACES = sizeof(places) / sizeof(places[0]) };

struct error {
	char *text;
	size_t len;
};

__attribute__((format(printf, 2, 3))) static int fail(const struct error *e, const char *fmt, ...)
{
	const int err = errno;
	const size_t half = e->len / 2;
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(e->text, half, fmt, ap);
	va_end(ap);
	n = strlen(e->text);
	snprintf(e->text + n, e->len - n, ": %s%s", strerror(err),
		 err == EPERM || err == EACCES ? userns_refusal() : "");
	return -err;
}

/** Directories to mount on: root/over, as places has them. */
static int make_layer(const char *root, const struct error *e)
{
	char path[PATH_MAX];

	for (unsigned i = 0; i < PLACES; i++) {
		char *end = path + strlen(root);

		snprintf(path, sizeof(path), "%s/over%s/%s/", root, places[i].above,
			 places[i].name);
		while ((end = strchr(end + 1, '/'))) {
			*end = 0;
			if (mkdir(path, 0755) < 0 && errno != EEXIST)
				return fail(e, "%s", path);
			*end = '/';
		}
	}
	return 0;
}

static int mount_all(const char *root, const struct error *e)
{
	char from[PATH_MAX], to[PATH_MAX], options[2 * PATH_MAX];
	const char *last = "";

	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return fail(e, "mount namespace");
	for (unsigned i = 0; i < PLACES; i++) {
		const char *above = places[i].above;

		if (strcmp(above, last) != 0) {
			snprintf(options, sizeof(options), "lowerdir=%s/over%s:%s", root, above,
				 above);
			if (mount("overlay", above, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
				  options) < 0)
				return fail(e, "overlay on %s", above);
			last = above;
		}
		snprintf(from, sizeof(from), "%s%s/%s", root, above, places[i].name);
		snprintf(to, sizeof(to), "%s/%s", above, places[i].name);
		if (mount(from, to, NULL, MS_BIND, NULL) < 0)
			return fail(e, "mount on %s", to);
	}
	return 0;
}

int mounts_enter(const char *root, char *errbuf, size_t errlen)
{
	const struct error e = {errbuf, errlen};
	char cwd[PATH_MAX];
	int err;

	/* What separates the options of an overlay. */
	if (strpbrk(root, ":,\\")) {
		errno = EINVAL;
		return fail(&e, "%s", root);
	}
	err = make_layer(root, &e);
	if (err)
		return err;
	err = userns_unshare(CLONE_NEWNS, errbuf, errlen);
	if (err)
		return err;
	err = mount_all(root, &e);
	/* A working directory below a new mount is to be what is there now. */
	if (!err && getcwd(cwd, sizeof(cwd)) && chdir(cwd) < 0)
		err = fail(&e, "%s", cwd);
	return err;
}
