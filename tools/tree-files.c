/* SPDX-License-Identifier: BSD-2-Clause */
#include "tree-files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

/* A file on its way, below root. */
#define FRESH "fresh"

enum { DIR_FLAGS = O_PATH | O_DIRECTORY | O_CLOEXEC };

/** @return ok. */
static bool note(struct tree_files *f, const char *name, bool ok)
{
	if (ok || f->err)
		return ok;
	f->err = errno ? -errno : -EIO;
	log_info("%s: %s: %s", f->root, name, strerror(-f->err));
	return false;
}

void tree_files_open(struct tree_files *f, const char *root)
{
	*f = (struct tree_files){.fd = -1};
	snprintf(f->root, sizeof(f->root), "%s", root);
	tree_files_reopen(f);
}

void tree_files_reopen(struct tree_files *f)
{
	f->fd = open(f->root, DIR_FLAGS);
	note(f, "", f->fd >= 0);
}

void tree_files_close(struct tree_files *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* ---- directories, links ---- */

/** name, which may have several components; it is changed and restored. */
static int open_dir(struct tree_files *f, int dir, char *name)
{
	int fd = f->err ? -1 : openat(dir, name, DIR_FLAGS);

	for (char *end = name; fd < 0 && end && !f->err;) {
		end = strchr(end + 1, '/');
		if (end)
			*end = 0;
		note(f, name, mkdirat(dir, name, 0755) == 0 || errno == EEXIST);
		if (end)
			*end = '/';
		else
			fd = openat(dir, name, DIR_FLAGS);
	}
	note(f, name, f->err || fd >= 0);
	return fd;
}

int tree_dir(struct tree_files *f, const char *fmt, ...)
{
	char name[PATH_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	errno = ENAMETOOLONG;
	if (!note(f, fmt, n < (int)sizeof(name)))
		return -1;
	return open_dir(f, f->fd, name);
}

int tree_dir_in(struct tree_files *f, int dir, const char *name)
{
	char copy[NAME_MAX + 1];

	snprintf(copy, sizeof(copy), "%s", name);
	return dir < 0 ? -1 : open_dir(f, dir, copy);
}

void tree_link(struct tree_files *f, int dir, const char *name, const char *target)
{
	if (!f->err)
		note(f, name, symlinkat(target, dir, name) == 0 || errno == EEXIST);
}

void tree_move(struct tree_files *f, const char *from, const char *to)
{
	if (!f->err)
		note(f, to, renameat(f->fd, from, f->fd, to) == 0);
}

/* ---- files ---- */

/** A new file with that line. @return false with errno: EEXIST: there is one. */
static bool write_new(int dir, const char *name, const char *line)
{
	const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	char text[256];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s\n", line);
	bool ok;

	if (fd < 0)
		return false;
	len = *line ? MIN(len, sizeof(text) - 1) : 0;
	/* Whatever the umask is. */
	ok = fchmod(fd, 0444) == 0 && write(fd, text, len) == (ssize_t)len;
	return close(fd) == 0 && ok;
}

/** Have the file FRESH at the name, where there is one. */
static bool replace(struct tree_files *f, int dir, const char *name)
{
	const bool ok = renameat(f->fd, FRESH, dir, name) == 0;
	const int err = errno;

	/* It is still there if it was the same file already. */
	unlinkat(f->fd, FRESH, 0);
	errno = err;
	return ok;
}

void tree_put(struct tree_files *f, int dir, const char *name, const char *line)
{
	if (f->err || write_new(dir, name, line))
		return;
	note(f, name, errno == EEXIST && write_new(f->fd, FRESH, line) && replace(f, dir, name));
}

/** The file that all with that line are links to; name: room for its name. NULL: there is none. */
static const char *find_content(struct tree_files *f, const char *line, bool anew, char name[16])
{
	struct tree_content *c = f->content;

	while (c < f->content + f->ncontents && strcmp(c->line, line) != 0)
		c++;
	if (c == f->content + TREE_CONTENTS || strlen(line) >= sizeof(c->line))
		return NULL;
	if (c == f->content + f->ncontents || anew) {
		snprintf(name, 16, "same-%u", f->nfiles);
		if (!note(f, name, write_new(f->fd, name, line)))
			return NULL;
		f->ncontents += c == f->content + f->ncontents;
		snprintf(c->line, sizeof(c->line), "%s", line);
		c->file = f->nfiles++;
	}
	snprintf(name, 16, "same-%u", c->file);
	return name;
}

void tree_put_common(struct tree_files *f, int dir, const char *name, const char *line)
{
	char same[16];
	bool ok = false;

	/* Another try with a new file: one may have as many links as the file system allows. */
	for (unsigned tries = 0; tries < 2 && !ok && !f->err && !f->no_links; tries++) {
		if (!find_content(f, line, tries > 0, same))
			break;
		ok = linkat(f->fd, same, dir, name, 0) == 0;
		if (!ok && errno == EEXIST)
			ok = linkat(f->fd, same, f->fd, FRESH, 0) == 0 && replace(f, dir, name);
		if (!ok && errno != EMLINK)
			f->no_links = true;
	}
	if (!ok)
		tree_put(f, dir, name, line);
}
