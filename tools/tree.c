/* SPDX-License-Identifier: BSD-2-Clause */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
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

/* clang-format off */
#define CLASS_IB    "/sys/class/infiniband"
#define CLASS_VERBS "/sys/class/infiniband_verbs"
#define CLASS_NET   "/sys/class/net"
#define DEVICES     "/sys/devices/virtual/infiniband"
#define DEV         "/dev/infiniband"
/* clang-format on */

enum { UVERBS_ABI = 6 };

/* ---- files; path: below the root. After an error they do nothing: t->err is the first. ---- */

/** t->root and a path, in buf. @return false: there was an error before, or it is too long. */
__attribute__((format(printf, 3, 0))) static bool locate(struct tree *t, char buf[PATH_MAX],
							 const char *fmt, va_list ap)
{
	const size_t root = strlen(t->root);

	if (t->err)
		return false;
	memcpy(buf, t->root, root);
	if (vsnprintf(buf + root, PATH_MAX - root, fmt, ap) >= (int)(PATH_MAX - root))
		t->err = -ENAMETOOLONG;
	return !t->err;
}

static void note(struct tree *t, const char *path, bool ok)
{
	if (ok)
		return;
	t->err = -errno;
	log_info("%s: %s", path, strerror(errno));
}

/** A directory and those above it. */
__attribute__((format(printf, 2, 3))) static void make_dir(struct tree *t, const char *fmt, ...)
{
	char at[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	if (locate(t, at, fmt, ap))
		for (char *end = at + strlen(t->root); end && !t->err;) {
			end = strchr(end + 1, '/');
			if (end)
				*end = 0;
			note(t, at, mkdir(at, 0755) == 0 || errno == EEXIST);
			if (end)
				*end = '/';
		}
	va_end(ap);
}

__attribute__((format(printf, 3, 4))) static void make_link(struct tree *t, const char *target,
							    const char *fmt, ...)
{
	char at[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	if (locate(t, at, fmt, ap))
		note(t, at, symlink(target, at) == 0 || errno == EEXIST);
	va_end(ap);
}

/** A file of one line, or of none for "", whole at every moment. */
__attribute__((format(printf, 3, 4))) static void put(struct tree *t, const char *line,
						      const char *fmt, ...)
{
	char at[PATH_MAX], fresh[PATH_MAX];
	va_list ap;
	bool ok;
	FILE *f;

	va_start(ap, fmt);
	if (locate(t, at, fmt, ap)) {
		snprintf(fresh, sizeof(fresh), "%s/new", t->root);
		f = fopen(fresh, "we");
		ok = f && (!*line || fprintf(f, "%s\n", line) > 0) && fchmod(fileno(f), 0444) == 0;
		ok = f && fclose(f) == 0 && ok && rename(fresh, at) == 0;
		note(t, at, ok);
	}
	va_end(ap);
}

/** Let a directory's file number to be its file number from as well. @return false: there is one,
 * or no way. */
static bool make_copy(const struct tree *t, const char *dir, unsigned from, unsigned to)
{
	char old[PATH_MAX], new[PATH_MAX];

	return snprintf(old, sizeof(old), "%s%s/%u", t->root, dir, from) < (int)sizeof(old) &&
	       snprintf(new, sizeof(new), "%s%s/%u", t->root, dir, to) < (int)sizeof(new) &&
	       link(old, new) == 0;
}

static void put_number(struct tree *t, unsigned number, const char *dir, const char *name)
{
	char line[16];

	snprintf(line, sizeof(line), "%u", number);
	put(t, line, "%s/%s", dir, name);
}

/* ---- a device; dir: its directory, port: that of its port ---- */

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
static void put_entries(struct tree *t, const char *dir, const char *none,
			const char *const text[ROCEMU_MAX_GID])
{
	int empty = -1;

	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		/* Most are empty: links to one file cost less. They fail where there is a file. */
		if (!text[i] && empty >= 0 && make_copy(t, dir, (unsigned)empty, i))
			continue;
		put(t, text[i] ? text[i] : none, "%s/%u", dir, i);
		if (!text[i])
			empty = (int)i;
	}
}

/** An empty entry is all zeros, and its attributes are empty: the kernel's cannot be read. */
static void put_gids(struct tree *t, const struct netdev *d, const char *port)
{
	const char *gids[ROCEMU_MAX_GID] = {0}, *types[ROCEMU_MAX_GID] = {0};
	const char *ndevs[ROCEMU_MAX_GID] = {0};
	char text[ROCEMU_MAX_GID][40], none[40], dir[256];

	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		const struct netdev_gid *g = &d->gids[i];

		if (!g->here)
			continue;
		gids[i] = gid_text(g->gid.raw, text[i]);
		types[i] = g->v1 ? "IB/RoCE v1" : "RoCE v2";
		ndevs[i] = d->ifname;
	}
	snprintf(dir, sizeof(dir), "%s/gids", port);
	put_entries(t, dir, gid_text((const uint8_t[16]){0}, none), gids);
	snprintf(dir, sizeof(dir), "%s/gid_attrs/types", port);
	put_entries(t, dir, "", types);
	snprintf(dir, sizeof(dir), "%s/gid_attrs/ndevs", port);
	put_entries(t, dir, "", ndevs);
}

/** What may change at run time. */
static void put_port(struct tree *t, const struct netdev *d, const char *port)
{
	const struct netdev_speed s = netdev_link_speed(d->speed_mbps);
	const unsigned tenths = s.lanes * s.lane_mbps / 100;
	char rate[64];

	snprintf(rate, sizeof(rate), "%u%s Gb/sec (%uX %s)", tenths / 10, tenths % 10 ? ".5" : "",
		 s.lanes, s.name);
	put(t, rate, "%s/rate", port);
	put(t, d->active ? "4: ACTIVE" : "1: DOWN", "%s/state", port);
	/* IBTA 14.2.5.6, PortPhysicalState */
	put(t, d->active ? "5: LinkUp" : "3: Disabled", "%s/phys_state", port);
	put_gids(t, d, port);
}

static void make_port(struct tree *t, const struct netdev *d, const char *port)
{
	char cap_mask[16];

	make_dir(t, "%s/gids", port);
	make_dir(t, "%s/gid_attrs/types", port);
	make_dir(t, "%s/gid_attrs/ndevs", port);
	make_dir(t, "%s/pkeys", port);
	put(t, "0xffff", "%s/pkeys/0", port);
	put(t, "Ethernet", "%s/link_layer", port);
	put(t, "0x0", "%s/lid", port);
	put(t, "0", "%s/lid_mask_count", port);
	put(t, "0x0", "%s/sm_lid", port);
	put(t, "0", "%s/sm_sl", port);
	snprintf(cap_mask, sizeof(cap_mask), "0x%08x",
		 (unsigned)(IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS));
	put(t, cap_mask, "%s/cap_mask", port);
	make_dir(t, "%s/counters", port);
	make_dir(t, "%s/hw_counters", port);
	put_port(t, d, port);
}

/* ---- counters ---- */

/** What processes share: files in memory, not on a disk that is written back. */
static void make_shared_dir(struct tree *t)
{
	enum { TMPFS_MAGIC = 0x01021994 };
	struct statfs fs;

	if (statfs(t->root, &fs) == 0 && fs.f_type != TMPFS_MAGIC) {
		snprintf(t->shared, sizeof(t->shared), "/dev/shm/rocemu-paths-XXXXXX");
		if (mkdtemp(t->shared)) {
			note(t, t->shared, chmod(t->shared, 0755) == 0);
			make_link(t, t->shared, "/shared");
		} else {
			t->shared[0] = 0;
		}
	}
	make_dir(t, "/shared/counters");
	make_dir(t, "/shared/objects");
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
static void make_shared_files(struct tree *t, const struct netdev *d,
			      const struct countfile_counter *table, unsigned n)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction before;
	char path[PATH_MAX];
	int err;

	sigaction(SIGXFSZ, &ignore, &before);
	/* Without it the counters stay 0. */
	if (portcount_path(path, sizeof(path), t->root, d->name)) {
		err = countfile_create(path, table, n);
		if (err < 0)
			log_info("%s: %s", path, strerror(-err));
	}
	/* Without it there are no lists of resources. */
	if (portcount_shown_path(path, sizeof(path), t->root, d->name)) {
		err = make_objects_file(path);
		if (err < 0)
			log_info("%s: %s", path, strerror(-err));
	}
	sigaction(SIGXFSZ, &before, NULL);
}

static void make_counters(struct tree *t, const struct netdev *d, const char *port)
{
	unsigned n;
	const struct countfile_counter *table = portcount_table(&n);

	for (unsigned i = 0; i < n; i++)
		put(t, "0", "%s/%s", port, table[i].name);
	if (!t->err)
		make_shared_files(t, d, table, n);
}

static void refresh_counters(struct tree *t, const struct netdev *d, uint64_t *shown)
{
	char path[PATH_MAX], port[160], text[24];
	struct countfile *f;

	if (!portcount_path(path, sizeof(path), t->root, d->name))
		return;
	f = countfile_map(path, false);
	if (!f)
		return;
	snprintf(port, sizeof(port), DEVICES "/%s/ports/1", d->name);
	for (unsigned i = 0; i < f->ncounters; i++) {
		const uint64_t now = countfile_get(f, i);

		if (now == shown[i])
			continue;
		shown[i] = now;
		snprintf(text, sizeof(text), "%llu", (unsigned long long)now);
		put(t, text, "%s/%s", port, f->counter[i].name);
	}
	countfile_unmap(f);
	t->err = 0;
}

void tree_refresh_counters(struct tree *t)
{
	if (!t->shown)
		t->shown = calloc(t->ndevs, sizeof(*t->shown));
	for (unsigned i = 0; t->shown && i < t->ndevs; i++)
		refresh_counters(t, &t->devs[i], t->shown[i]);
}

/* ---- the rest of a device ---- */

/** What is no link, as a device without a parent, is not to be had. */
static void copy_link(struct tree *t, const char *path)
{
	char target[PATH_MAX];
	const long n = syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target) - 1);

	if (n <= 0)
		return;
	target[n] = 0;
	make_link(t, target, "%s", path);
}

/**
 * What is really in a directory, as links to itself. Without the C library: we may be run under a
 * "rocemu run" ourselves. @return the first number behind those of real uverbs devices, or 0.
 */
static unsigned link_real(struct tree *t, const char *dir)
{
	const long fd = syscall(SYS_openat, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *d = fd < 0 ? NULL : fdopendir((int)fd);
	unsigned number, next = 0;
	const struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (sscanf(e->d_name, "uverbs%u", &number) == 1)
			next = MAX(next, number + 1);
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (t->mounted)
			copy_link(t, path);
		else
			make_link(t, path, "%s", path);
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

	snprintf(at, sizeof(at), CLASS_NET "/%s/address", d->ifname);
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

	snprintf(at, sizeof(at), CLASS_NET "/%s/device", d->ifname);
	return in_sysfs(d) && realpath(at, real) != NULL;
}

/** The way back: infiniband and infiniband_verbs of a directory that is, or stands for, the parent.
 */
static void make_way_back(struct tree *t, const struct netdev *d, unsigned number,
			  const char *parent)
{
	char up[PATH_MAX] = "..", dir[PATH_MAX];

	/* From its infiniband/ to /sys. */
	for (const char *p = strchr(parent + 1, '/'); p; p = strchr(p + 1, '/'))
		strncat(up, "/..", sizeof(up) - strlen(up) - 1);
	snprintf(dir, sizeof(dir), "%s/infiniband", parent);
	make_dir(t, "%s", dir);
	link_real(t, dir);
	strncat(up, "/devices/virtual/infiniband", sizeof(up) - strlen(up) - 1);
	snprintf(dir, sizeof(dir), "%s/%s", up, d->name);
	make_link(t, dir, "%s/infiniband/%s", parent, d->name);
	snprintf(dir, sizeof(dir), "%s/infiniband_verbs", parent);
	make_dir(t, "%s", dir);
	link_real(t, dir);
	snprintf(dir, sizeof(dir), "%s_verbs/uverbs%u", up, number);
	make_link(t, dir, "%s/infiniband_verbs/uverbs%u", parent, number);
}

/** The device "behind" it: at least the network interface, where tools look for its name. */
static void make_parent(struct tree *t, const struct netdev *d, const char *dir, unsigned number)
{
	char net[192], real[PATH_MAX];

	snprintf(net, sizeof(net), CLASS_NET "/%s/device", d->ifname);
	make_way_back(t, d, number, net);
	if (find_parent(d, real)) {
		/* Leads out of the tree, to what is really known about it. */
		make_link(t, real, "%s/device", dir);
		make_way_back(t, d, number, real);
		return;
	}
	snprintf(net, sizeof(net), "%s/device", dir);
	make_way_back(t, d, number, net);
	snprintf(net, sizeof(net), "%s/device/net/%s", dir, d->ifname);
	make_dir(t, "%s", net);
	put(t, "0x0", "%s/dev_id", net);
	put(t, "0", "%s/dev_port", net);
	put_number(t, d->mtu, net, "mtu");
	put_number(t, d->ifindex, net, "ifindex");
	put(t, "-1", "%s/device/numa_node", dir);
}

static void make_uverbs(struct tree *t, const struct netdev *d, unsigned number)
{
	char target[64];

	snprintf(target, sizeof(target), "../../devices/virtual/infiniband_verbs/uverbs%u", number);
	make_dir(t, DEVICES "_verbs/uverbs%u", number);
	put(t, d->name, DEVICES "_verbs/uverbs%u/ibdev", number);
	put(t, "1", DEVICES "_verbs/uverbs%u/abi_version", number);
	make_link(t, target, CLASS_VERBS "/uverbs%u", number);
	make_link(t, "/dev/null", DEV "/uverbs%u", number);
	/* Some look for the node by the device's name, as ibv_get_device_name() has it. */
	make_link(t, "/dev/null", DEV "/%s", d->name);
}

static void make_device(struct tree *t, const struct netdev *d, unsigned number)
{
	char dir[128], port[160], target[128], guid[20];

	snprintf(dir, sizeof(dir), DEVICES "/%s", d->name);
	snprintf(port, sizeof(port), "%s/ports/1", dir);
	snprintf(target, sizeof(target), "../../devices/virtual/infiniband/%s", d->name);
	guid_text(d->guid, guid);
	make_port(t, d, port);
	make_counters(t, d, port);
	make_parent(t, d, dir, number);
	put(t, "1: CA", "%s/node_type", dir);
	put(t, guid, "%s/node_guid", dir);
	put(t, guid, "%s/sys_image_guid", dir);
	put(t, d->name, "%s/node_desc", dir);
	put(t, ROCEMU_VERSION, "%s/fw_ver", dir);
	put(t, "0x0", "%s/hw_rev", dir);
	put(t, "rocemu", "%s/hca_type", dir);
	make_link(t, target, CLASS_IB "/%s", d->name);
	make_uverbs(t, d, number);
}

/* ---- the tree ---- */

static void fill(struct tree *t)
{
	static const char *const tops[] = {CLASS_IB, CLASS_VERBS, DEV, DEVICES, DEVICES "_verbs"};
	unsigned uverbs = 0, next;
	char abi[16];

	make_shared_dir(t);
	for (unsigned i = 0; i < ARRAY_LEN(tops); i++) {
		make_dir(t, "%s", tops[i]);
		next = link_real(t, tops[i]);
		uverbs = MAX(uverbs, next);
	}
	for (unsigned i = 0; i < t->ndevs; i++)
		make_device(t, &t->devs[i], uverbs + i);
	snprintf(abi, sizeof(abi), "%d", UVERBS_ABI);
	put(t, abi, CLASS_VERBS "/abi_version");
	make_link(t, "/dev/null", DEV "/rdma_cm");
}

int tree_make(struct tree *t, struct netdev *devs, unsigned n, bool mounted)
{
	const char *const places[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp",
				      "/dev/shm"};
	bool made = false;

	*t = (struct tree){.devs = devs, .ndevs = n, .mounted = mounted};
	for (unsigned i = 0; i < ARRAY_LEN(places) && !made; i++) {
		if (!places[i] || places[i][0] != '/' ||
		    snprintf(t->root, sizeof(t->root), "%s/rocemu-paths-XXXXXX", places[i]) >=
			    (int)sizeof(t->root))
			continue;
		made = mkdtemp(t->root);
	}
	if (!made)
		return -errno;
	/* A program may be started as another user. */
	note(t, t->root, chmod(t->root, 0755) == 0);
	fill(t);
	if (t->err)
		tree_remove(t);
	return t->err;
}

void tree_refresh(struct tree *t)
{
	struct netdev_change change[2 * ROCEMU_MAX_GID];
	struct netdev now;
	char port[160];
	int r;

	for (unsigned i = 0; i < t->ndevs; i++) {
		struct netdev *d = &t->devs[i];
		const bool active = d->active;
		const unsigned speed = d->speed_mbps;

		r = netdev_reread(d, &now);
		if (r < 0 && r != -ENODEV)
			continue;
		if (!netdev_merge(d, &now, change) && d->active == active && d->speed_mbps == speed)
			continue;
		snprintf(port, sizeof(port), DEVICES "/%s/ports/1", d->name);
		put_port(t, d, port);
		t->err = 0; /* another time it may work */
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

void tree_remove(struct tree *t)
{
	enum { OPEN_DIRS = 1 }; /* few may be free */

	nftw(t->root, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS);
	if (t->shared[0])
		nftw(t->shared, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS);
	free(t->shown);
	t->shown = NULL;
}
