/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu run: set the environment that makes a program find our devices, and become that program.
 * What can be checked is checked before, because the program may swallow what the library complains
 * about.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/impair.h"
#include "engine/netdev.h"
#include "tool.h"
#include "tree.h"

enum { EXIT_CANNOT_EXEC = 126, EXIT_NOT_FOUND = 127 }; /* as shells and env(1) have it */

struct run {
	const char *self; /* "rocemu run" */
	char devices[4096];
	const char *pcap;
	const char *impair;
};

static void usage(FILE *f)
{
	fputs("usage: rocemu run [--device SPEC]... [--pcap FILE] [--impair SPEC] [--] CMD "
	      "[ARGUMENTS]\n"
	      "\n"
	      "Runs CMD with emulated RDMA devices. Its exit code, or the signal that ends it, is "
	      "passed on.\n"
	      "\n"
	      "  --device SPEC   devices to have: interface, address, name=interface or "
	      "name=address; several\n"
	      "                  separated by commas (default: one for each interface with an "
	      "address)\n"
	      "  --pcap FILE     write the packets to FILE; %p in it stands for the process ID\n"
	      "  --impair SPEC   faults on purpose, for instance "
	      "loss=1%,delay=10us..2ms,seed=7;\n"
	      "                  loss, dup, reorder, corrupt: a chance for each packet that is sent;\n"
	      "                  delay: a time or range; rnr: a chance that a message finds no receive;\n"
	      "                  flap=UP/DOWN: ports go down, flap=2s..5s/200ms say; seed\n"
	      "  --help\n",
	      f);
}

static int complain(const struct run *r, const char *option, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", r->self, option, what);
	return TOOL_USAGE;
}

/** Several --device options are one list. */
static int add_device(struct run *r, const char *spec)
{
	size_t used = strlen(r->devices);
	int n = snprintf(r->devices + used, sizeof(r->devices) - used, "%s%s", used ? "," : "",
			 spec);

	return n < (int)(sizeof(r->devices) - used) ? TOOL_OK
						    : complain(r, "--device", "list too long");
}

static int check_devices(const struct run *r)
{
	struct netdev *devs;
	char err[768];
	unsigned n;

	if (netdev_list(r->devices, &devs, &n, err, sizeof(err)) < 0)
		return complain(r, "--device", err);
	free(devs);
	return TOOL_OK;
}

/** Make path absolute, for programs that change directory, and see that it can be written. */
static int check_pcap(const struct run *r, char path[static PATH_MAX])
{
	char dir[PATH_MAX] = "", text[PATH_MAX + 128];
	struct stat st;
	char *slash;
	size_t n;

	if (!*r->pcap)
		return complain(r, "--pcap", "expected a file name");
	if (*r->pcap != '/' && !getcwd(dir, sizeof(dir)))
		return complain(r, "--pcap", strerror(errno));
	n = (size_t)snprintf(path, PATH_MAX, "%s%s%s", dir, *dir ? "/" : "", r->pcap);
	if (n >= PATH_MAX)
		return complain(r, "--pcap", strerror(ENAMETOOLONG));
	memcpy(dir, path, n + 1);
	slash = strrchr(dir, '/');
	*slash = 0;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (stat(path, &st) == 0 ? access(path, W_OK) == 0
				      : access(*dir ? dir : "/", W_OK | X_OK) == 0)
		return TOOL_OK;
	snprintf(text, sizeof(text), "cannot write %s: %m", path);
	return complain(r, "--pcap", text);
}

/* With the seed, so that all processes of the command have the same. */
static int set_impair(const struct run *r)
{
	struct impair im;
	char err[512], *spec;

	if (impair_parse(&im, r->impair, err, sizeof(err)) < 0)
		return complain(r, "--impair", err);
	if (!im.on) {
		setenv("ROCEMU_IMPAIR", "", 1);
		return TOOL_OK;
	}
	if (asprintf(&spec, "%s,seed=%llu", r->impair, (unsigned long long)im.seed) < 0)
		return complain(r, "--impair", strerror(ENOMEM));
	setenv("ROCEMU_IMPAIR", spec, 1);
	free(spec);
	return TOOL_OK;
}

/** Our libraries before whatever the caller has. */
static int set_library_path(const struct run *r)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	char dirs[2 * PATH_MAX], *value;
	int n;

	if (!paths_libraries(dirs, sizeof(dirs))) {
		fprintf(stderr,
			"%s: libibverbs.so.1 is not where this program's installation should have "
			"it\n",
			r->self);
		return TOOL_FAILED;
	}
	n = old && *old ? asprintf(&value, "%s:%s", dirs, old) : asprintf(&value, "%s", dirs);
	if (n < 0 || setenv("LD_LIBRARY_PATH", value, 1) < 0) {
		fprintf(stderr, "%s: out of memory\n", r->self);
		return TOOL_FAILED;
	}
	free(value);
	return TOOL_OK;
}

/** Preload after whatever the caller has: a sanitizer's runtime wants to be the first. */
static int preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;
	int n;

	if (strpbrk(library, " :")) {
		errno = EINVAL;
		return -1;
	}
	/* Under another "rocemu run" it is there. */
	if (old && strstr(old, library))
		return 0;
	n = old && *old ? asprintf(&value, "%s:%s", old, library) : asprintf(&value, "%s", library);
	if (n < 0)
		return -1;
	n = setenv("LD_PRELOAD", value, 1);
	free(value);
	return n;
}

/**
 * The files that some programs look at beside the library. Without them most programs work, so
 * where they cannot be had it is only said to who asks.
 */
static void set_paths(void)
{
	char library[PATH_MAX], err[768];
	struct netdev *devs;
	struct tree tree;
	unsigned n;
	int ret;

	if (!paths_interposer(library)) {
		log_info("librocemu-paths.so is not there: no /sys/class/infiniband");
		return;
	}
	if (netdev_list(getenv("ROCEMU_DEVICES"), &devs, &n, err, sizeof(err)) < 0)
		return; /* the library will say it */
	ret = tree_start(&tree, devs, n);
	free(devs);
	if (ret < 0)
		log_info("no /sys/class/infiniband: %s", strerror(-ret));
	else if (preload(library) < 0 || setenv("ROCEMU_PATHS", tree.root, 1) < 0)
		log_info("no /sys/class/infiniband: %s: %s", library, strerror(errno));
}

/** @return false: ROCEMU_PATHS says neither that nor anything else that has a meaning. */
static bool paths_wanted(bool *wanted)
{
	const char *env = getenv("ROCEMU_PATHS");

	*wanted = !env || strcmp(env, "off") != 0;
	/* A path: we run under another "rocemu run". */
	return !env || !*env || !*wanted || !strcmp(env, "on") || *env == '/';
}

static int set_environment(const struct run *r)
{
	char path[PATH_MAX], agent[PATH_MAX];
	bool paths;
	int ret;

	if (!paths_wanted(&paths))
		return complain(r, "ROCEMU_PATHS", "expected \"on\" or \"off\"");
	if (*r->devices) {
		ret = check_devices(r);
		if (ret)
			return ret;
		setenv("ROCEMU_DEVICES", r->devices, 1);
	}
	if (r->pcap) {
		ret = check_pcap(r, path);
		if (ret)
			return ret;
		setenv("ROCEMU_PCAP", path, 1);
	}
	if (r->impair) {
		ret = set_impair(r);
		if (ret)
			return ret;
	}
	if (paths_agent(agent))
		setenv("ROCEMU_AGENT_BIN", agent, 0);
	ret = set_library_path(r);
	if (!ret && paths)
		set_paths();
	return ret;
}

/** @return -1: go on, else the exit code. */
static int parse(int argc, char **argv, struct run *r)
{
	static const struct option longs[] = {
		{"device", required_argument, NULL, 'd'},
		{"pcap", required_argument, NULL, 'p'},
		{"impair", required_argument, NULL, 'i'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int opt;

	/* "+": options after CMD are CMD's own */
	while ((opt = getopt_long(argc, argv, "+d:h", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			if (!*optarg)
				return complain(r, "--device",
						"expected an interface or an address");
			if (add_device(r, optarg))
				return TOOL_USAGE;
			break;
		case 'p':
			r->pcap = optarg;
			break;
		case 'i':
			r->impair = optarg;
			break;
		case 'h':
			usage(stdout);
			return TOOL_OK;
		default:
			return TOOL_USAGE; /* getopt_long() has said what is wrong */
		}
	}
	if (optind < argc)
		return -1;
	fprintf(stderr, "%s: no command to run; see \"%s --help\"\n", r->self, r->self);
	return TOOL_USAGE;
}

int tool_run(int argc, char **argv)
{
	struct run r = {.self = argv[0]};
	int ret = parse(argc, argv, &r);

	if (ret >= 0)
		return ret;
	ret = set_environment(&r);
	if (ret)
		return ret;
	execvp(argv[optind], argv + optind);
	ret = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
	fprintf(stderr, "%s: cannot run \"%s\": %s\n", r.self, argv[optind], strerror(errno));
	return ret;
}
