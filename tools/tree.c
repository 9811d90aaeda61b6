/* SPDX-License-Identifier: BSD-2-Clause */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "engine/portcount.h"

/* Below the root of the tree, and below "/". */
/* clang-format off */
#define CLASS_IB    "sys/class/infiniband"
#define CLASS_VERBS "sys/class/infiniband_verbs"
#define CLASS_NET   "sys/class/net"
#define DEVICES     "sys/devices/virtual/infiniband"
#define DEV         "dev/infiniband"
/* clang-format on */

enum { UVERBS_ABI = 6 };

static void put_number(struct tree *t, int dir, const char *name, unsigned number)
{
	char line[16];

	snprintf(line, sizeof(line), "%u", number);
	tree_put(&t->files, dir, name, line);
}

/* ---- a port; port: its directory ---- */

static const char *gid_text(const uint8_t *raw, char buf[40])
{
	for (unsigned i = 0; i < 8; i++)
		snprintf(buf + 5 * i, 40 - 5 * i, "%02x%02x%s", raw[2 * i], raw[2 * i + 1],
			 i < 7 ? ":" : "");
	return buf;
}

static const char *guid_text(uint64_t guid, char buf[20])
{
	snprintf(buf, 20, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48 & 0xffff),
		 (unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
		 (unsigned)(guid & 0xffff));
	return buf;
}

/** A file of each entry of a GID table; text: an entry's line, NULL for an empty one. */
static void put_entries(struct tree *t, int port, const char *name, const char *none, bool common,
			const char *const text[ROCEMU_MAX_GID])
{
	const int dir = tree_dir_in(&t->files, port, name);
	char number[12];

	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		snprintf(number, sizeof(number), "%u", i);
		if (text[i] && !common)
			tree_put(&t->files, dir, number, text[i]);
		else
			tree_put_common(&t->files, dir, number, text[i] ? text[i] : none);
	}
	if (dir >= 0)
		close(dir);
}

/** An empty entry is all zeros, and its attributes are empty: the kernel's cannot be read. */
static void put_gids(struct tree *t, const struct netdev *d, int port)
{
	const char *gids[ROCEMU_MAX_GID] = {0}, *types[ROCEMU_MAX_GID] = {0};
	const char *ndevs[ROCEMU_MAX_GID] = {0};
	char text[ROCEMU_MAX_GID][40], none[40];

	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		const struct netdev_gid *g = &d->gids[i];

		if (!g->here)
			continue;
		gids[i] = gid_text(g->gid.raw, text[i]);
		types[i] = g->v1 ? "IB/RoCE v1" : "RoCE v2";
		ndevs[i] = d->ifname;
	}
	put_entries(t, port, "gids", gid_text((const uint8_t[16]){0}, none), false, gids);
	put_entries(t, port, "gid_attrs/types", "", true, types);
	put_entries(t, port, "gid_attrs/ndevs", "", false, ndevs);
}

/** What may change at run time. */
static void put_port(struct tree *t, const struct netdev *d, int port)
{
	const struct netdev_speed s = netdev_link_speed(d->speed_mbps);
	const unsigned tenths = s.lanes * s.lane_mbps / 100;
	char rate[64];

	snprintf(rate, sizeof(rate), "%u%s Gb/sec (%uX %s)", tenths / 10, tenths % 10 ? ".5" : "",
		 s.lanes, s.name);
	tree_put_common(&t->files, port, "rate", rate);
	tree_put_common(&t->files, port, "state", d->active ? "4: ACTIVE" : "1: DOWN");
	/* IBTA 14.2.5.6, PortPhysicalState */
	tree_put_common(&t->files, port, "phys_state", d->active ? "5: LinkUp" : "3: Disabled");
	put_gids(t, d, port);
}

struct fixed {
	const char *name, *line;
};

static void put_fixed(struct tree *t, int dir, const struct fixed *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		tree_put_common(&t->files, dir, f[i].name, f[i].line);
}

static void make_port(struct tree *t, const struct netdev *d, int port)
{
	static const struct fixed fixed[] = {
		{"link_layer", "Ethernet"}, {"lid", "0x0"}, {"lid_mask_count", "0"},
		{"sm_lid", "0x0"},	    {"sm_sl", "0"},
	};
	const int pkeys = tree_dir_in(&t->files, port, "pkeys");
	char cap_mask[16];

	tree_put_common(&t->files, pkeys, "0", "0xffff");
	close(pkeys);
	put_fixed(t, port, fixed, ARRAY_LEN(fixed));
	snprintf(cap_mask, sizeof(cap_mask), "0x%08x",
		 (unsigned)(IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS));
	tree_put_common(&t->files, port, "cap_mask", cap_mask);
	put_port(t, d, port);
}

/* ---- counters ---- */

/** What processes share: files in memory, not on a disk that is written back. */
static void make_shared_dir(struct tree *t)
{
	enum { TMPFS_MAGIC = 0x01021994 };
	struct statfs fs;

	if (statfs(t->files.root, &fs) == 0 && fs.f_type != TMPFS_MAGIC) {
		snprintf(t->shared, sizeof(t->shared), "/dev/shm/rocemu-paths-XXXXXX");
		if (mkdtemp(t->shared) && chmod(t->shared, 0755) == 0)
			tree_link(&t->files, t->files.fd, "shared", t->shared);
		else
			t->shared[0] = 0;
	}
	close(tree_dir(&t->files, "shared/counters"));
	close(tree_dir(&t->files, "shared/objects"));
}

static int make_objects_file(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)COUNTFILE_ROWS * PORTCOUNT_SHOWN_STRIDE) < 0)
		err = -errno;
	close(fd);
	return err;
}

/** Files larger than the user's limit (ulimit -f) are to be an error, not a signal. */
static void make_shared_files(struct tree *t)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction before;
	unsigned n;
	const struct countfile_counter *table = portcount_table(&n);
	char path[PATH_MAX];
	int err;

	sigaction(SIGXFSZ, &ignore, &before);
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
	sigaction(SIGXFSZ, &before, NULL);
}

/** "counters/NAME" and "hw_counters/NAME", in that order. */
static void make_counters(struct tree *t, int port)
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
		t->counts[dev].file = countfile_map(path, false);
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
			port = tree_dir(&t->files, DEVICES "/%s/ports/1", t->devs[dev].name);
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

/* ---- what is really there ---- */

/** What is no link, as a device without a parent, is not to be had. */
static void copy_link(struct tree *t, int dir, const char *path, const char *name)
{
	char target[PATH_MAX];
	const long n = syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target) - 1);

	if (n <= 0)
		return;
	target[n] = 0;
	tree_link(&t->files, dir, name, target);
}

/**
 * What is really in a directory, as links to itself in dir. Without the C library: we may be run
 * under a "rocemu run" ourselves. @return the first number behind those of real uverbs devices, or
 * 0.
 */
static unsigned link_real(struct tree *t, int dir, const char *real)
{
	const long fd = syscall(SYS_openat, AT_FDCWD, real, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *d = fd < 0 ? NULL : fdopendir((int)fd);
	unsigned number, next = 0;
	const struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (sscanf(e->d_name, "uverbs%u", &number) == 1)
			next = MAX(next, number + 1);
		snprintf(path, sizeof(path), "%s/%s", real, e->d_name);
		if (t->mounted)
			copy_link(t, dir, path, e->d_name);
		else
			tree_link(&t->files, dir, e->d_name, path);
	}
	if (d)
		closedir(d);
	return next;
}

/**
 * Is /sys/class/net/IFNAME the interface? A sysfs shows the network namespace in which it was
 * mounted: there another one may have the name. Addresses of other kinds than Ethernet's do not
 * distinguish them.
 */
static bool in_sysfs(const struct netdev *d)
{
	unsigned char mac[6];
	char at[64];
	FILE *f;
	int n;

	snprintf(at, sizeof(at), "/" CLASS_NET "/%s/address", d->ifname);
	f = fopen(at, "re");
	if (!f)
		return true;
	n = fscanf(f, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &mac[0], &mac[1], &mac[2], &mac[3],
		   &mac[4], &mac[5]);
	n += n == 6 && fgetc(f) == ':';
	fclose(f);
	return n != 6 || memcmp(mac, d->mac, sizeof(mac)) == 0;
}

/**
 * The device that the interface is a function of, where there is one, as for an adapter.
 */
static bool find_parent(const struct netdev *d, char real[PATH_MAX])
{
	char at[64];

	snprintf(at, sizeof(at), "/" CLASS_NET "/%s/device", d->ifname);
	return in_sysfs(d) && realpath(at, real) != NULL;
}

/** The way back: infiniband and infiniband_verbs of a directory that is, or stands for, the parent.
 */
static void make_way_back(struct tree *t, const struct netdev *d, unsigned number,
			  const char *parent)
{
	char up[PATH_MAX] = "..", at[PATH_MAX], name[24];
	int dir;

	/* From its infiniband/ to sys. */
	for (const char *p = strchr(parent, '/'); p; p = strchr(p + 1, '/'))
		strncat(up, "/..", sizeof(up) - strlen(up) - 1);
	strncat(up, "/devices/virtual/infiniband", sizeof(up) - strlen(up) - 1);
	dir = tree_dir(&t->files, "%s/infiniband", parent);
	snprintf(at, sizeof(at), "/%s/infiniband", parent);
	link_real(t, dir, at);
	snprintf(at, sizeof(at), "%s/%s", up, d->name);
	tree_link(&t->files, dir, d->name, at);
	close(dir);
	dir = tree_dir(&t->files, "%s/infiniband_verbs", parent);
	snprintf(at, sizeof(at), "/%s/infiniband_verbs", parent);
	link_real(t, dir, at);
	snprintf(name, sizeof(name), "uverbs%u", number);
	snprintf(at, sizeof(at), "%s_verbs/%s", up, name);
	tree_link(&t->files, dir, name, at);
	close(dir);
}

/** The device "behind" it: at least the network interface, where tools look for its name. */
static void make_parent(struct tree *t, const struct netdev *d, int device, unsigned number)
{
	char at[192], real[PATH_MAX];
	int dir;

	snprintf(at, sizeof(at), CLASS_NET "/%s/device", d->ifname);
	make_way_back(t, d, number, at);
	if (find_parent(d, real)) {
		/* Leads out of the tree, to what is really known about it. */
		tree_link(&t->files, device, "device", real);
		make_way_back(t, d, number, real + 1);
		return;
	}
	snprintf(at, sizeof(at), DEVICES "/%s/device", d->name);
	make_way_back(t, d, number, at);
	dir = tree_dir(&t->files, "%s", at);
	tree_put_common(&t->files, dir, "numa_node", "-1");
	close(dir);
	dir = tree_dir(&t->files, "%s/net/%s", at, d->ifname);
	tree_put_common(&t->files, dir, "dev_id", "0x0");
	tree_put_common(&t->files, dir, "dev_port", "0");
	put_number(t, dir, "mtu", d->mtu);
	put_number(t, dir, "ifindex", d->ifindex);
	close(dir);
}

/* ---- a device ---- */

/** A link in a directory of the class to a directory of devices. */
static void link_class(struct tree *t, const char *class, const char *name)
{
	const int dir = tree_dir(&t->files, "sys/class/%s", class);
	char target[128];

	snprintf(target, sizeof(target), "../../devices/virtual/%s/%s", class, name);
	tree_link(&t->files, dir, name, target);
	close(dir);
}

static void make_uverbs(struct tree *t, const struct netdev *d, unsigned number)
{
	char name[24];
	int dir;

	snprintf(name, sizeof(name), "uverbs%u", number);
	dir = tree_dir(&t->files, DEVICES "_verbs/%s", name);
	tree_put(&t->files, dir, "ibdev", d->name);
	tree_put_common(&t->files, dir, "abi_version", "1");
	close(dir);
	link_class(t, "infiniband_verbs", name);
	dir = tree_dir(&t->files, DEV);
	tree_link(&t->files, dir, name, "/dev/null");
	/* Some look for the node by the device's name, as ibv_get_device_name() has it. */
	tree_link(&t->files, dir, d->name, "/dev/null");
	close(dir);
}

static void make_device(struct tree *t, const struct netdev *d, unsigned number)
{
	static const struct fixed fixed[] = {
		{"node_type", "1: CA"},
		{"fw_ver", ROCEMU_VERSION},
		{"hw_rev", "0x0"},
		{"hca_type", "rocemu"},
	};
	const int dir = tree_dir(&t->files, DEVICES "/%s", d->name);
	const int port = tree_dir_in(&t->files, dir, "ports/1");
	char guid[20];

	make_port(t, d, port);
	make_counters(t, port);
	close(port);
	put_fixed(t, dir, fixed, ARRAY_LEN(fixed));
	guid_text(d->guid, guid);
	tree_put(&t->files, dir, "node_guid", guid);
	tree_put(&t->files, dir, "sys_image_guid", guid);
	tree_put(&t->files, dir, "node_desc", d->name);
	make_parent(t, d, dir, number);
	close(dir);
	link_class(t, "infiniband", d->name);
	make_uverbs(t, d, number);
}

/* ---- the tree ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

static void remove_all(const char *path)
{
	enum { OPEN_DIRS = 1 }; /* few may be free */

	nftw(path, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS);
}

/** Half a tree would be worse than none. */
static int empty(struct tree *t)
{
	static const char *const parts[] = {"sys", "dev"};
	char path[PATH_MAX];

	t->failed = true;
	for (unsigned i = 0; i < ARRAY_LEN(parts); i++) {
		snprintf(path, sizeof(path), "%s/%s", t->files.root, parts[i]);
		remove_all(path);
	}
	return t->files.err;
}

int tree_fill(struct tree *t)
{
	static const char *const tops[] = {CLASS_IB, CLASS_VERBS, DEV, DEVICES, DEVICES "_verbs"};
	unsigned uverbs = 0, next;
	char real[64];
	int dir;

	for (unsigned i = 0; i < ARRAY_LEN(tops); i++) {
		dir = tree_dir(&t->files, "%s", tops[i]);
		snprintf(real, sizeof(real), "/%s", tops[i]);
		next = link_real(t, dir, real);
		uverbs = MAX(uverbs, next);
		close(dir);
	}
	for (unsigned i = 0; i < t->ndevs; i++)
		make_device(t, &t->devs[i], uverbs + i);
	dir = tree_dir(&t->files, CLASS_VERBS);
	put_number(t, dir, "abi_version", UVERBS_ABI);
	close(dir);
	dir = tree_dir(&t->files, DEV);
	tree_link(&t->files, dir, "rdma_cm", "/dev/null");
	close(dir);
	return t->files.err ? empty(t) : 0;
}

int tree_make(struct tree *t, struct netdev *devs, unsigned n, bool mounted)
{
	int err;

	*t = (struct tree){.devs = devs, .ndevs = n, .mounted = mounted};
	err = tree_files_make(&t->files, n);
	if (err)
		return err;
	make_shared_dir(t);
	if (!t->files.err)
		make_shared_files(t);
	if (t->files.err)
		tree_remove(t);
	return t->files.err;
}

static void refresh(struct tree *t, struct netdev *d)
{
	struct netdev_change change[2 * ROCEMU_MAX_GID];
	const bool active = d->active;
	const unsigned speed = d->speed_mbps;
	struct netdev now;
	int r = netdev_reread(d, &now), port;

	if (r < 0 && r != -ENODEV)
		return;
	if (!netdev_merge(d, &now, change) && d->active == active && d->speed_mbps == speed)
		return;
	port = tree_dir(&t->files, DEVICES "/%s/ports/1", d->name);
	put_port(t, d, port);
	close(port);
	t->files.err = 0; /* another time it may work */
}

void tree_refresh(struct tree *t, unsigned ifindex)
{
	for (unsigned i = 0; i < t->ndevs && !t->failed; i++)
		if (!ifindex || t->devs[i].ifindex == ifindex)
			refresh(t, &t->devs[i]);
}

void tree_remove(struct tree *t)
{
	tree_files_close(&t->files);
	remove_all(t->files.root);
	if (t->shared[0])
		remove_all(t->shared);
	for (unsigned i = 0; t->counts && i < t->ndevs; i++)
		countfile_unmap(t->counts[i].file);
	free(t->counts);
	t->counts = NULL;
}
