/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes share in the tree, and the files of counters, which are made of it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/portcount.h"
#include "tree.h"

static int make_objects_file(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)COUNTFILE_ROWS * PORTCOUNT_SHOWN_STRIDE) < 0)
		err = -errno;
	close(fd);
	return err;
}

static void make_shared_files(struct tree *t)
{
	unsigned n;
	const struct countfile_counter *table = portcount_table(&n);
	char path[PATH_MAX];
	int err;

	for (unsigned i = 0; i < t->ndevs; i++) {
		/* Without it the counters stay 0. */
		if (portcount_path(path, sizeof(path), t->files.root, t->devs[i].name)) {
			err = countfile_create(path, table, n);
			if (err < 0)
				log_info("%s: %s", path, strerror(-err));
		}
		/* Without it there are no lists of resources. */
		if (portcount_shown_path(path, sizeof(path), t->files.root, t->devs[i].name)) {
			err = make_objects_file(path);
			if (err < 0)
				log_info("%s: %s", path, strerror(-err));
		}
	}
}

void tree_make_shared(struct tree *t)
{
	close(tree_dir(&t->files, "shared/counters"));
	close(tree_dir(&t->files, "shared/objects"));
	if (!t->files.err)
		make_shared_files(t);
}

/** "counters/NAME" and "hw_counters/NAME", in that order. */
void tree_make_counters(struct tree *t, int port)
{
	const char *dir = NULL;
	int fd = -1;
	unsigned n;
	const struct countfile_counter *table = portcount_table(&n);

	for (unsigned i = 0; i < n; i++) {
		const char *name = strchr(table[i].name, '/') + 1;
		const size_t len = (size_t)(name - table[i].name) - 1;
		char copy[COUNTFILE_NAME];

		if (!dir || strncmp(dir, table[i].name, len + 1) != 0) {
			if (fd >= 0)
				close(fd);
			dir = table[i].name;
			snprintf(copy, sizeof(copy), "%.*s", (int)len, dir);
			fd = tree_dir_in(&t->files, port, copy);
		}
		tree_put_common(&t->files, fd, name, "0");
	}
	if (fd >= 0)
		close(fd);
}

/** The device's counters, which stay mapped: NULL: it has none. */
static struct countfile *counts_of(struct tree *t, unsigned dev)
{
	char path[PATH_MAX];

	if (!t->counts[dev].file &&
	    portcount_path(path, sizeof(path), t->files.root, t->devs[dev].name))
		t->counts[dev].file = countfile_map(path);
	return t->counts[dev].file;
}

static void refresh_counters(struct tree *t, unsigned dev)
{
	const struct countfile *f = counts_of(t, dev);
	uint64_t *shown = t->counts[dev].shown;
	char text[24];
	int port = -1;

	/* No process has used the device. */
	if (t->failed || !f || !__atomic_load_n(&f->used, __ATOMIC_ACQUIRE))
		return;
	for (unsigned i = 0; i < f->ncounters; i++) {
		const uint64_t now = countfile_get(f, i);

		if (now == shown[i])
			continue;
		if (port < 0)
			port = tree_dir(&t->files, TREE_CLASS_IB "/%s/ports/1", t->devs[dev].name);
		shown[i] = now;
		snprintf(text, sizeof(text), "%llu", (unsigned long long)now);
		tree_put(&t->files, port, f->counter[i].name, text);
	}
	if (port >= 0)
		close(port);
	t->files.err = 0;
}

void tree_refresh_counters(struct tree *t)
{
	if (!t->counts)
		t->counts = calloc(t->ndevs + 1u, sizeof(*t->counts));
	for (unsigned i = 0; t->counts && i < t->ndevs; i++)
		refresh_counters(t, i);
}
