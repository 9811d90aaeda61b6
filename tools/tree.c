/* SPDX-License-Identifier: BSD-2-Clause */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

/* Below the root of the tree, and below "/". */
/* clang-format off */
#define CLASS_IB    TREE_CLASS_IB
#define CLASS_VERBS "sys/class/infiniband_verbs"
#define CLASS_NET   "sys/class/net"
#define DEVICES     "sys/devices/virtual/infiniband"
#define DEV         "dev/infiniband"
/* clang-format on */

/* PSIDs of adapters look like it. */
#define BOARD_ID "ROC0000000001"

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

/** A relative link from a directory, path, to another one. Both are below sys. */
static void link_up(struct tree *t, int dir, const char *path, const char *name, const char *to)
{
	char target[PATH_MAX] = "";

	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
		strncat(target, "../", sizeof(target) - strlen(target) - 1);
	strncat(target, to + strlen("sys/"), sizeof(target) - strlen(target) - 1);
	tree_link(&t->files, dir, name, target);
}

/** Where a device's directory is. */
static void device_path(const struct tree *t, const struct netdev *d, char out[PATH_MAX])
{
	char real[PATH_MAX];

	/* As the kernel has it. It cannot be mounted there: there is no such directory. */
	if (!t->mounted && find_parent(d, real))
		snprintf(out, PATH_MAX, "%.4000s/infiniband/%s", real + 1, d->name);
	else
		snprintf(out, PATH_MAX, DEVICES "/%s", d->name);
}

/**
 * infiniband and infiniband_verbs of a directory that is, or stands for, the parent; what is there
 * already stays.
 */
static void make_way_back(struct tree *t, const struct netdev *d, unsigned number,
			  const char *parent)
{
	char path[PATH_MAX], at[PATH_MAX], real[PATH_MAX + 1], name[24];
	int dir;

	snprintf(at, sizeof(at), "%s/infiniband", parent);
	dir = tree_dir(&t->files, "%s", at);
	snprintf(real, sizeof(real), "/%s", at);
	link_real(t, dir, real);
	device_path(t, d, path);
	link_up(t, dir, at, d->name, path);
	close(dir);
	snprintf(at, sizeof(at), "%s/infiniband_verbs", parent);
	dir = tree_dir(&t->files, "%s", at);
	snprintf(name, sizeof(name), "uverbs%u", number);
	snprintf(real, sizeof(real), "/%s", at);
	link_real(t, dir, real);
	snprintf(path, sizeof(path), DEVICES "_verbs/%s", name);
	link_up(t, dir, at, name, path);
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

/** A link in the directory of a class to a device's directory. */
static void link_class(struct tree *t, const char *class, const char *name, const char *path)
{
	const int dir = tree_dir(&t->files, "%s", class);

	link_up(t, dir, class, name, path);
	close(dir);
}

/** Of a class: the link to it, and the variables of its events. path: of dir. */
static void make_class_files(struct tree *t, int dir, const char *path, const char *class,
			     const char *event)
{
	link_up(t, dir, path, "subsystem", class);
	tree_put(&t->files, dir, "uevent", event);
}

static void make_uverbs(struct tree *t, const struct netdev *d, unsigned number)
{
	char name[24], path[64], event[48];
	int dir;

	snprintf(name, sizeof(name), "uverbs%u", number);
	snprintf(event, sizeof(event), "DEVNAME=infiniband/%s", name);
	snprintf(path, sizeof(path), DEVICES "_verbs/%s", name);
	dir = tree_dir(&t->files, "%s", path);
	tree_put(&t->files, dir, "ibdev", d->name);
	tree_put_common(&t->files, dir, "abi_version", "1");
	make_class_files(t, dir, path, CLASS_VERBS, event);
	close(dir);
	link_class(t, CLASS_VERBS, name, path);
	dir = tree_dir(&t->files, DEV);
	tree_link(&t->files, dir, name, "/dev/null");
	/* Some look for the node by the device's name, as ibv_get_device_name() has it. */
	tree_link(&t->files, dir, d->name, "/dev/null");
	close(dir);
}

static void make_device(struct tree *t, const struct netdev *d, unsigned number)
{
	static const struct fixed fixed[] = {
		{"node_type", "1: CA"}, {"fw_ver", ROCEMU_VERSION}, {"hw_rev", "0"},
		{"hca_type", "rocemu"}, {"board_id", BOARD_ID},
	};
	char path[PATH_MAX], guid[20], event[NETDEV_NAME_MAX + 8];
	int dir, port;

	device_path(t, d, path);
	dir = tree_dir(&t->files, "%s", path);
	port = tree_dir_in(&t->files, dir, "ports/1");
	make_port(t, d, port);
	tree_make_counters(t, port);
	close(port);
	put_fixed(t, dir, fixed, ARRAY_LEN(fixed));
	guid_text(d->guid, guid);
	tree_put(&t->files, dir, "node_guid", guid);
	tree_put(&t->files, dir, "sys_image_guid", guid);
	tree_put(&t->files, dir, "node_desc", d->name);
	tree_put(&t->files, dir, "parent", d->ifname);
	snprintf(event, sizeof(event), "NAME=%s", d->name);
	make_class_files(t, dir, path, CLASS_IB, event);
	make_parent(t, d, dir, number);
	close(dir);
	link_class(t, CLASS_IB, d->name, path);
	make_uverbs(t, d, number);
}

/* ---- the tree ---- */

/** Half a tree would be worse than none. */
static int empty(struct tree *t)
{
	static const char *const parts[] = {"sys", "dev"};
	char path[PATH_MAX];

	t->failed = true;
	for (unsigned i = 0; i < ARRAY_LEN(parts); i++) {
		snprintf(path, sizeof(path), "%s/%s", t->files.root, parts[i]);
		tree_dir_remove(path);
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

/** Is there room for the files of so many devices? */
static bool has_room(const char *dir, unsigned devices)
{
	const uint64_t bytes = (devices + 16) * UINT64_C(65536), files = (devices + 1) * 400u;
	struct statvfs fs;

	return statvfs(dir, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= bytes &&
	       (!fs.f_files || fs.f_favail >= files);
}

enum { PLACES = 4 };

/** May no other user but root rename what this one makes there? */
static bool is_safe(const char *dir)
{
	struct stat st;

	if (stat(dir, &st) < 0 || (st.st_uid != geteuid() && st.st_uid != 0))
		return false;
	return !(st.st_mode & (S_IWGRP | S_IWOTH)) || st.st_mode & S_ISVTX;
}

/**
 * Where trees may be; NULL: not given, or another user's, from the environment of "sudo -E" for
 * instance. Memory first: on a disk that others write to, a thousand devices take seconds.
 */
static const char *place(unsigned i)
{
	const char *const places[PLACES] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm", getenv("TMPDIR"),
					    "/tmp"};
	const bool given = i % 2 == 0; /* the others are the system's */

	if (!places[i] || places[i][0] != '/' || (given && !is_safe(places[i])))
		return NULL;
	return places[i];
}

void tree_sweep(void)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (place(i))
			tree_dirs_sweep(place(i));
}

static int make_in(struct tree *t, const char *dir)
{
	int err = tree_dirs_make(&t->dirs, dir);

	if (err)
		return err;
	tree_files_open(&t->files, t->dirs.root);
	if (!t->files.err)
		tree_make_shared(t);
	if (t->files.err)
		tree_remove(t);
	return t->files.err;
}

int tree_make(struct tree *t, struct netdev *devs, unsigned n, bool mounted)
{
	const mode_t before = umask(TREE_UMASK);
	int err = -ENOENT;

	*t = (struct tree){.dirs = {.users = -1, .end = -1},
			   .files = {.fd = -1},
			   .devs = devs,
			   .ndevs = n,
			   .mounted = mounted};
	/* One may be missing, full or read-only; all may be small. */
	for (unsigned i = 0; i < 2 * PLACES && err; i++) {
		const char *dir = place(i % PLACES);

		if (dir && (i >= PLACES || has_room(dir, n)))
			err = make_in(t, dir);
	}
	umask(before);
	return err;
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
	port = tree_dir(&t->files, CLASS_IB "/%s/ports/1", d->name);
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
	tree_dirs_remove(&t->dirs);
	tree_dirs_close(&t->dirs);
	for (unsigned i = 0; t->counts && i < t->ndevs; i++)
		countfile_unmap(t->counts[i].file);
	free(t->counts);
	t->counts = NULL;
}
