/* SPDX-License-Identifier: BSD-2-Clause */
/* Which paths lead into the tree, and back. The library in programs: test/prog/cases_paths.py. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map.h"

static char root[64] = "/tmp/rocemu-test-map-XXXXXX";

static void in_root(const char *path, char out[256])
{
	snprintf(out, 256, "%s%s", root, path);
}

static void make_dir(const char *path)
{
	char at[256];

	in_root(path, at);
	if (mkdir(at, 0755) < 0)
		abort();
}

static void make_link(const char *path, const char *target)
{
	char at[256];

	in_root(path, at);
	if (symlink(target, at) < 0)
		abort();
}

/* Before the file under test looks at its environment, in a constructor as well. */
__attribute__((constructor(101))) static void make_tree(void)
{
	if (!mkdtemp(root) || setenv("ROCEMU_PATHS", root, 1) < 0)
		abort();
	make_dir("/sys");
	make_dir("/sys/class");
	make_dir("/sys/class/infiniband");
	make_dir("/sys/class/infiniband/ours");
	make_dir("/sys/class/infiniband/ours/ports");
	make_dir("/dev");
	make_dir("/dev/infiniband");
	make_link("/dev/infiniband/uverbs0", "/dev/null");
	make_dir("/sys/class/net");
	make_dir("/sys/class/net/eth0");
	make_dir("/sys/class/net/eth0/device");
	make_dir("/sys/class/net/eth0/device/infiniband");
	make_dir("/sys/class/net/eth0/device/infiniband/ours");
	make_link("/sys/class/net/eth0/device/infiniband/mlx5_0",
		  "/sys/class/net/eth0/device/infiniband/mlx5_0");
	make_link("/sys/class/infiniband/ours/device", "/sys/devices/system");
	make_dir("/sys/devices");
	make_dir("/sys/devices/system");
	make_dir("/sys/devices/system/infiniband");
	make_dir("/sys/devices/system/infiniband/ours");
	make_link("/sys/class/infiniband/mlx5_0", "/sys/class/infiniband/mlx5_0");
	make_dir("/sys/devices/virtual");
	make_dir("/sys/devices/virtual/infiniband");
	make_dir("/sys/devices/virtual/infiniband/linked");
	make_dir("/sys/devices/virtual/infiniband/linked/ports");
	make_link("/sys/class/infiniband/linked", "../../devices/virtual/infiniband/linked");
	make_link("/sys/class/infiniband/away", "/proc/self");
	make_link("/sys/class/infiniband/loop", "/sys/class/infiniband/loop2");
	make_link("/sys/class/infiniband/loop2", "/sys/class/infiniband/loop");
}

__attribute__((destructor)) static void remove_tree(void)
{
	static const char *const entries[] = {
		"/sys/class/infiniband/loop2",
		"/sys/class/infiniband/loop",
		"/sys/class/infiniband/away",
		"/sys/class/infiniband/linked",
		"/sys/devices/virtual/infiniband/linked/ports",
		"/sys/devices/virtual/infiniband/linked",
		"/sys/devices/virtual/infiniband",
		"/sys/devices/virtual",
		"/sys/devices/system/infiniband/ours",
		"/sys/devices/system/infiniband",
		"/sys/devices/system",
		"/sys/devices",
		"/sys/class/net/eth0/device/infiniband/mlx5_0",
		"/sys/class/net/eth0/device/infiniband/ours",
		"/sys/class/net/eth0/device/infiniband",
		"/sys/class/net/eth0/device",
		"/sys/class/net/eth0",
		"/sys/class/net",
		"/sys/class/infiniband/ours/device",
		"/sys/class/infiniband/mlx5_0",
		"/dev/infiniband/uverbs0",
		"/dev/infiniband",
		"/dev",
		"/sys/class/infiniband/ours/ports",
		"/sys/class/infiniband/ours",
		"/sys/class/infiniband",
		"/sys/class",
		"/sys",
		"",
	};
	char at[256];

	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		in_root(entries[i], at);
		remove(at);
	}
}

static void expect_mapped(const char *path, const char *to)
{
	char buf[MAP_PATH_MAX], want[256];

	in_root(to, want);
	assert_string_equal(map_path(path, buf), want);
}

static void expect_left(const char *path)
{
	char buf[MAP_PATH_MAX];

	assert_ptr_equal(map_path(path, buf), path);
}

static void expect_outside(const char *path, const char *to)
{
	char buf[MAP_PATH_MAX];

	assert_string_equal(map_path(path, buf), to);
}

TEST(map, ours__mapped_however_written)
{
	expect_mapped("/sys/class/infiniband", "/sys/class/infiniband");
	expect_mapped("/sys/class/infiniband/", "/sys/class/infiniband/");
	expect_mapped("/sys/class/infiniband/.", "/sys/class/infiniband/");
	expect_mapped("//sys/./class//infiniband/ours", "/sys/class/infiniband/ours");
	expect_mapped("/sys/class/infiniband/ours/ports/", "/sys/class/infiniband/ours/ports/");
	expect_mapped("/sys/class/infiniband/ours/ports/..", "/sys/class/infiniband/ours/ports/..");
	expect_mapped("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0");
}

TEST(map, others__left_alone)
{
	expect_left(NULL);
	expect_left("");
	expect_left("/");
	expect_left("//");
	expect_left("/.");
	expect_left("sys/class/infiniband");
	expect_left("/sys/class/infinibandit");
	expect_left("/sys/class");
	expect_left("/sys/class/infiniband/ours/nothing");
	expect_left("/sys/class/infiniband_verbs"); /* not in this tree */
	expect_left("/dev/infiniband/uverbs1");
	expect_left("/dev/null");
}

TEST(map, path_out_of_tree__goes_on_in_the_system)
{
	expect_outside("/sys/class/infiniband/..", "/sys/class");
	expect_outside("/sys/class/infiniband/../", "/sys/class/");
	expect_outside("/sys/class/infiniband/../net", "/sys/class/net");
	expect_outside("/sys/class/infiniband/ours/ports/../../../net/", "/sys/class/net/");
	expect_outside("/sys/class/infiniband/../../../..", "/");
	expect_outside("/dev/infiniband/../null", "/dev/null");
	/* A link's parent is its target's. */
	expect_outside("/sys/class/infiniband/linked/../..", "/sys/devices/virtual");
	expect_outside("/sys/class/infiniband/linked/../../numa_node",
		       "/sys/devices/virtual/numa_node");
	expect_outside("/sys/class/infiniband/linked/ports/../../..", "/sys/devices/virtual");
	expect_outside("/sys/class/infiniband/away/../..", "/proc/self/../..");
}

TEST(map, path_out_of_tree_and_back__mapped)
{
	expect_mapped("/sys/class/infiniband/../infiniband/ours", "/sys/class/infiniband/ours");
	expect_mapped("/sys/class/infiniband/linked/../../infiniband",
		      "/sys/devices/virtual/infiniband");
}

TEST(map, path_out_of_what_the_tree_lacks__left_alone)
{
	expect_left("/sys/class/infiniband/nothing/../..");
	expect_left("/sys/class/infiniband/mlx5_0/../..");
	expect_left("/sys/class/infiniband/loop/../..");
	expect_left("/dev/infiniband/uverbs0/../..");
}

TEST(map, real_device__left_alone)
{
	expect_left("/sys/class/infiniband/mlx5_0");
	expect_left("/sys/class/infiniband/mlx5_0/ports/1");
	expect_left("/sys/class/infiniband/mlx5_0/");
}

TEST(map, too_long__left_alone)
{
	char path[2 * MAP_PATH_MAX] = "/sys/class/infiniband/ours/";

	memset(path + strlen(path), 'x', MAP_PATH_MAX);
	expect_left(path);
	memset(path, '/', MAP_PATH_MAX);
	expect_left(path);
}

TEST(map, any__errno_as_it_was)
{
	char buf[MAP_PATH_MAX];

	errno = ENOTTY;
	map_path("/sys/class/infiniband/nothing", buf);
	map_path("/sys/class/infiniband/mlx5_0", buf);
	map_path("/sys/class/infiniband", buf);
	assert_int_equal(errno, ENOTTY);
}

TEST(map_back, answer_in_the_tree__cut_others_not)
{
	char path[256];
	size_t n;

	in_root("/sys/class/infiniband/ours", path);
	n = map_back(path, strlen(path));
	path[n] = 0;
	assert_string_equal(path, "/sys/class/infiniband/ours");
	assert_int_equal(map_back(path, n), n);
	in_root("x/y", path);
	assert_int_equal(map_back(path, strlen(path)), strlen(path));
	in_root("", path);
	assert_int_equal(map_back(path, strlen(path)), strlen(path));
}

TEST(map_path, interfaces__their_devices_infiniband_alone)
{
	expect_mapped("/sys/class/net/eth0/device/infiniband",
		      "/sys/class/net/eth0/device/infiniband");
	expect_mapped("/sys/class/net/eth0/device/infiniband/ours",
		      "/sys/class/net/eth0/device/infiniband/ours");
	expect_left("/sys/class/net/eth0/device/infiniband/mlx5_0");
	expect_left("/sys/class/net/eth0/device/infiniband_mad");
	expect_left("/sys/class/net/eth1/device/infiniband");
	expect_left("/sys/class/net/eth0/infiniband");
	expect_left("/sys/class/net/eth0");
}

TEST(map_path, below_the_parent__where_the_link_leads)
{
	expect_mapped("/sys/class/infiniband/ours/device", "/sys/class/infiniband/ours/device");
	expect_mapped("/sys/class/infiniband/ours/device/infiniband/ours",
		      "/sys/devices/system/infiniband/ours");
	expect_mapped("/sys/class/infiniband//ours/./device/infiniband",
		      "/sys/devices/system/infiniband");
	expect_mapped("/sys/devices/system/infiniband/ours", "/sys/devices/system/infiniband/ours");
	expect_left("/sys/class/infiniband/ours/device/infiniband_verbs");
	expect_left("/sys/class/infiniband/theirs/device/infiniband");
	expect_left("/sys/class/infiniband/mlx5_0/device/infiniband/ours");
	expect_left("/sys/devices/system");
	expect_left("/sys/devices/pci1/infiniband");
	expect_left("/sys/devices/system/infiniband_mad");
}
