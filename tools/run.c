/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu run: set the environment in which a program finds the emulated devices, and execute it.
 * Settings are checked first, because the program may hide the library's error messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/timescale.h"
#include "engine/lane.h"
#include "fault/impair.h"
#include "netdev/netdev.h"
#include "child.h"
#include "libraries.h"
#include "like.h"
#include "mounts.h"
#include "program.h"
#include "summary.h"
#include "tool.h"
#include "tree.h"

struct run {
	const char *self; /* "rocemu run" */
	char devices[4096];
	const char *pcap, *trace;
	const char *impair_log;
	char *impair; /* texts of all --impair and --impair-file, a line each; owned, NULL: none */
	bool impair_plain; /* one list of rates */
	struct impair parsed;
	const char *time_scale;
	const char *like;
	bool mount_paths;
	const char *gid_layout;
	const char *wire;
	bool summary;
	struct summary counts; /* open while summary is true and all is well */
	struct tree tree;      /* root "": none was made */
	const char *log;
	const char *lanes;
};

enum {
	OPT_DEVICE = 'd',
	OPT_PCAP = CLI_LONG,
	OPT_TRACE,
	OPT_IMPAIR,
	OPT_IMPAIR_FILE,
	OPT_IMPAIR_LOG,
	OPT_TIME_SCALE,
	OPT_MOUNT_PATHS,
	OPT_GID_LAYOUT,
	OPT_WIRE,
	OPT_LANES,
	OPT_SUMMARY,
	OPT_LIKE,
	OPT_LOG,
};

static const struct cli_option options[] = {
	{OPT_DEVICE, "device", "SPEC",
	 "Devices to show the program: interface, address, name=interface or name=address; several "
	 "with commas between (default: one for each interface with an address; loopback only "
	 "where no other is up, no ports of bridges)",
	 CLI_INTERFACE, .env = "ROCEMU_DEVICES"},
	{OPT_PCAP, "pcap", "FILE", "Write the packets to FILE; %p in it stands for the process ID",
	 CLI_FILE, .env = "ROCEMU_PCAP"},
	{OPT_TRACE, "trace", "FILE",
	 "Write a timeline to FILE: requests, packets, states, timers; for ui.perfetto.dev",
	 CLI_FILE, .env = "ROCEMU_TRACE"},
	{OPT_IMPAIR, "impair", "SPEC",
	 "Faults to inject: rates, rules, or both with \";\" between, see below; @FILE: what FILE "
	 "contains",
	 .env = "ROCEMU_IMPAIR"},
	{OPT_IMPAIR_FILE, "impair-file", "FILE",
	 "Faults to inject: a rule or rates on each line, # starts a comment", CLI_FILE},
	{OPT_IMPAIR_LOG, "impair-log", "FILE", "Append a line to FILE for each fault", CLI_FILE,
	 .env = "ROCEMU_IMPAIR_LOG"},
	{OPT_TIME_SCALE, "time-scale", "N",
	 "Make protocol timers N times shorter (100), or longer (0.01, for breakpoints)",
	 .env = "ROCEMU_TIME_SCALE"},
	{OPT_LIKE, "like", "DEVICE",
	 "Behave as this device does: rocemu, rxe-6.1, connectx-5, connectx-6, e810, or a file of "
	 "traits",
	 CLI_FILE},
	{OPT_MOUNT_PATHS, "mount-paths", NULL,
	 "Show /sys/class/infiniband in a mount namespace, for programs that make system calls "
	 "themselves (Go)"},
	{OPT_GID_LAYOUT, "gid-layout", "LAYOUT",
	 "Which address has which GID index (default common)", .choices = "common mlx5 rxe",
	 .env = "ROCEMU_GID_LAYOUT"},
	{OPT_WIRE, "wire", "WIRE",
	 "How packets go to the user's other processes on this host: udp (default), or shm, by "
	 "shared memory where both have it",
	 .choices = "udp shm", .env = "ROCEMU_WIRE"},
	{OPT_LANES, "lanes", "N",
	 "Spread the QPs of a device over up to N lanes (locks, sockets, threads) by their CQs, 1 "
	 "to 64 (default: one for each thread that creates QPs)",
	 .env = "ROCEMU_LANES"},
	{OPT_SUMMARY, "summary", NULL, "Print what the devices counted when CMD has ended"},
	{OPT_LOG, "log", "LEVEL",
	 "Messages on standard error (default warn); why: with the reason of each error that the "
	 "program gets",
	 .choices = "error warn why info debug", .env = "ROCEMU_LOG"},
	CLI_HELP,
	{0},
};

const struct cli run_cli = {
	.name = "run",
	.brief = "run a program with emulated RDMA devices",
	.usage = "[OPTIONS] [--] CMD [ARGUMENTS]",
	.about = "Runs CMD with emulated RDMA devices. Its exit code, or the signal that ends it, "
		 "is "
		 "passed on.",
	.options = options,
	.notes =
		"SPEC of --impair:\n"
		"  rates   loss=1%,delay=10us..2ms,seed=7 for instance\n"
		"          loss, dup, reorder, corrupt: probability for each packet that is sent;\n"
		"          delay: a time or range; rate=1Gbit,queue=64k: a slow link;\n"
		"          rnr: probability of a simulated receiver-not-ready;\n"
		"          flap=UP/DOWN: ports go down, such as flap=2s..5s/200ms; seed\n"
		"  rules   \"drop opcode=RC_ACK nth=3\" for instance: an action and conditions\n"
		"          drop, dup, delay time=, corrupt bit=|field= icrc=right|wrong, mark;\n"
		"          opcode=, qp=, dqp=, psn=, len=, peer=, dir=tx|rx, message=, first;\n"
		"          nth=, every=, times=, once, chance=\n"
		"          fail verb=, wc-error, cq-overflow, device-fatal, port-down,\n"
		"          gid-remove: what is not a packet, see rocemu-run(1)",
	.operand = CLI_PROGRAM,
};

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
	char err[768], limit[LIMIT_TEXT_LEN];
	unsigned n;
	const int ret = netdev_list(r->devices, &devs, &n, err, sizeof(err));

	if (ret < 0) {
		limit_text(ret, limit);
		strncat(err, limit, sizeof(err) - strlen(err) - 1);
		return complain(r, "--device", err);
	}
	free(devs);
	return TOOL_OK;
}

static int set_gid_layout(const struct run *r)
{
	char err[256];

	if (netdev_set_layout(r->gid_layout, NULL, 0, err, sizeof(err)) < 0)
		return complain(r, "--gid-layout", err);
	setenv("ROCEMU_GID_LAYOUT", r->gid_layout, 1);
	return TOOL_OK;
}

static int set_lanes(const struct run *r)
{
	char err[128];

	if (!lanes_parse(r->lanes)) {
		snprintf(err, sizeof(err), "\"%s\": expected a number from 1 to %d", r->lanes,
			 LANES_MAX);
		return complain(r, "--lanes", err);
	}
	setenv("ROCEMU_LANES", r->lanes, 1);
	return TOOL_OK;
}

/** Make a file's path absolute, for programs that change directory, and see that it can be written.
 */
static int check_writable(const struct run *r, const char *option, const char *file,
			  char path[static PATH_MAX])
{
	char dir[PATH_MAX] = "", text[PATH_MAX + 128];
	struct stat st;
	char *slash;
	size_t n;

	if (!*file)
		return complain(r, option, "expected a file name");
	if (*file != '/' && !getcwd(dir, sizeof(dir)))
		return complain(r, option, strerror(errno));
	n = (size_t)snprintf(path, PATH_MAX, "%s%s%s", dir, *dir ? "/" : "", file);
	if (n >= PATH_MAX)
		return complain(r, option, strerror(ENAMETOOLONG));
	memcpy(dir, path, n + 1);
	slash = strrchr(dir, '/');
	*slash = 0;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (stat(path, &st) == 0 ? access(path, W_OK) == 0
				      : access(*dir ? dir : "/", W_OK | X_OK) == 0)
		return TOOL_OK;
	snprintf(text, sizeof(text), "cannot write %s: %m", path);
	return complain(r, option, text);
}

/** A timeline begins anew, unless another command writes to it: then both are in it. */
static int set_trace(const struct run *r)
{
	char path[PATH_MAX], text[PATH_MAX + 128];
	int ret = check_writable(r, "--trace", r->trace, path), fd;

	if (ret)
		return ret;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (fd < 0 || (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
		       (ftruncate(fd, 0) < 0 || write(fd, "[\n", 2) != 2))) {
		snprintf(text, sizeof(text), "cannot write %s: %m", path);
		if (fd >= 0)
			close(fd);
		return complain(r, "--trace", text);
	}
	close(fd);
	setenv("ROCEMU_TRACE", path, 1);
	return TOOL_OK;
}

static int refuse_impair(const struct run *r, const struct fault_error *e)
{
	fprintf(stderr, "%s: %s\n%s", r->self, e->text, e->excerpt);
	return TOOL_USAGE;
}

/** One --impair; option names it in messages. Several are one text. */
static int add_impair(struct run *r, const char *option, const char *text)
{
	struct fault_error e;
	char *all;
	int n;

	if (impair_add(&r->parsed, text, option, &e) < 0)
		return refuse_impair(r, &e);
	r->impair_plain =
		!r->impair && !strpbrk(text, ";#\n") && !r->parsed.nrules && !r->parsed.verbs.n;
	n = asprintf(&all, "%s%s%s", r->impair ? r->impair : "", r->impair ? "\n" : "", text);
	if (n < 0)
		return complain(r, option, strerror(ENOMEM));
	free(r->impair);
	r->impair = all;
	return n <= FAULT_TEXT_MAX ? TOOL_OK : complain(r, option, "longer than 65536 bytes");
}

static int add_impair_file(struct run *r, const char *path)
{
	struct fault_error e;
	char *text = impair_read_file(path, &e);
	int ret;

	if (!text)
		return refuse_impair(r, &e);
	ret = add_impair(r, path, text);
	free(text);
	return ret;
}

/* With the seed, so that all processes of the command have the same. */
static int set_impair(struct run *r)
{
	struct fault_error e;
	char *spec;

	if (impair_finish(&r->parsed, &e) < 0)
		return refuse_impair(r, &e);
	if (!r->parsed.on) {
		setenv("ROCEMU_IMPAIR", "", 1);
		return TOOL_OK;
	}
	if (asprintf(&spec, "%s%cseed=%llu", r->impair, r->impair_plain ? ',' : '\n',
		     (unsigned long long)r->parsed.seed) < 0)
		return complain(r, "--impair", strerror(ENOMEM));
	setenv("ROCEMU_IMPAIR", spec, 1);
	free(spec);
	return TOOL_OK;
}

static int set_time_scale(const struct run *r)
{
	char err[256];
	double scale;

	if (!timescale_parse(r->time_scale, &scale, err, sizeof(err)))
		return complain(r, "--time-scale", err);
	setenv("ROCEMU_TIME_SCALE", r->time_scale, 1);
	return TOOL_OK;
}

static int set_wire(const struct run *r)
{
	char text[256];

	if (strcmp(r->wire, "udp") != 0 && strcmp(r->wire, "shm") != 0) {
		snprintf(text, sizeof(text), "%.64s: expected \"udp\" or \"shm\"", r->wire);
		return complain(r, "--wire", text);
	}
	setenv("ROCEMU_WIRE", r->wire, 1);
	return TOOL_OK;
}

static int set_log(const struct run *r)
{
	char text[256];

	if (log_level_of(r->log) < 0) {
		snprintf(text, sizeof(text),
			 "%.64s: expected \"error\", \"warn\", \"why\", \"info\" or \"debug\"",
			 r->log);
		return complain(r, "--log", text);
	}
	setenv("ROCEMU_LOG", r->log, 1);
	return TOOL_OK;
}

static int no_paths(const struct run *r, const char *what, int err)
{
	char limit[LIMIT_TEXT_LEN];

	limit_text(-err, limit);
	/* Without them most programs work, so this is logged at level info only. */
	if (!r->mount_paths && !r->summary) {
		log_info("no /sys/class/infiniband: %s: %s%s", what, strerror(err), limit);
		return TOOL_OK;
	}
	fprintf(stderr, "%s: %s: %s: %s%s\n", r->self,
		r->mount_paths ? "--mount-paths" : "--summary", what, strerror(err), limit);
	return TOOL_FAILED;
}

/** The files that some programs look at beside the library. */
static int set_paths(struct run *r)
{
	char library[PATH_MAX], err[768];
	struct netdev *devs;
	unsigned n;
	int ret;

	if (!paths_interposer(library))
		return no_paths(r, "librocemu-paths.so", ENOENT);
	if (netdev_list(getenv("ROCEMU_DEVICES"), &devs, &n, err, sizeof(err)) < 0)
		return TOOL_OK; /* the library will report it, and an error in the layout */
	netdev_set_layout(getenv("ROCEMU_GID_LAYOUT"), devs, n, err, sizeof(err));
	ret = tree_start(&r->tree, devs, n, r->mount_paths);
	if (!ret && r->summary)
		ret = summary_open(&r->counts, r->tree.files.root, devs, n);
	free(devs);
	if (ret < 0)
		return no_paths(r, "directory", -ret);
	if (libraries_preload(library) < 0 || setenv("ROCEMU_PATHS", r->tree.files.root, 1) < 0)
		return no_paths(r, library, errno);
	if (!r->mount_paths || mounts_enter(r->tree.files.root, err, sizeof(err)) == 0)
		return TOOL_OK;
	fprintf(stderr, "%s: --mount-paths: %s\n", r->self, err);
	return TOOL_FAILED;
}

/**
 * ROCEMU_PATHS and ROCEMU_AUDIT: a switch for us, and a path for CMD. @return false: an invalid
 * value.
 */
static bool is_on(const char *name, bool *on)
{
	const char *env = getenv(name);

	*on = !env || strcmp(env, "off") != 0;
	/* A path: we run under another "rocemu run". */
	return !env || !*env || !*on || !strcmp(env, "on") || *env == '/';
}

/** Without the auditor, most programs find the libraries by LD_LIBRARY_PATH. */
static int set_libraries(const struct run *r)
{
	bool audit;

	if (!is_on("ROCEMU_AUDIT", &audit))
		return complain(r, "ROCEMU_AUDIT", "expected \"on\" or \"off\"");
	if (libraries_set_checkers() < 0)
		return complain(r, "environment", strerror(ENOMEM));
	if (audit && libraries_audit() < 0)
		log_info("no auditor of the dynamic linker: librocemu-audit.so: %s",
			 strerror(errno));
	return libraries_set_path(r->self);
}

static int set_environment(struct run *r)
{
	char path[PATH_MAX], agent[PATH_MAX];
	bool paths;
	int ret;

	if (!is_on("ROCEMU_PATHS", &paths))
		return complain(r, "ROCEMU_PATHS", "expected \"on\" or \"off\"");
	if (*r->devices) {
		ret = check_devices(r);
		if (ret)
			return ret;
		setenv("ROCEMU_DEVICES", r->devices, 1);
	}
	if (r->pcap) {
		ret = check_writable(r, "--pcap", r->pcap, path);
		if (ret)
			return ret;
		setenv("ROCEMU_PCAP", path, 1);
	}
	if (r->trace) {
		ret = set_trace(r);
		if (ret)
			return ret;
	}
	if (r->impair) {
		ret = set_impair(r);
		if (ret)
			return ret;
	}
	if (r->impair_log) {
		ret = check_writable(r, "--impair-log", r->impair_log, path);
		if (ret)
			return ret;
		setenv("ROCEMU_IMPAIR_LOG", path, 1);
	}
	if (r->time_scale) {
		ret = set_time_scale(r);
		if (ret)
			return ret;
	}
	if (r->like) {
		ret = like_set(r->self, r->like);
		if (ret)
			return ret;
	}
	if (r->gid_layout) {
		ret = set_gid_layout(r);
		if (ret)
			return ret;
	}
	if (r->wire) {
		ret = set_wire(r);
		if (ret)
			return ret;
	}
	if (r->log) {
		ret = set_log(r);
		if (ret)
			return ret;
	}
	if (r->lanes) {
		ret = set_lanes(r);
		if (ret)
			return ret;
	}
	if (paths_agent(agent))
		setenv("ROCEMU_AGENT_BIN", agent, 0);
	ret = set_libraries(r);
	if (!ret && r->mount_paths && !paths)
		return complain(r, "--mount-paths", "ROCEMU_PATHS is \"off\"");
	if (!ret && r->summary && !paths)
		return complain(r, "--summary", "ROCEMU_PATHS is \"off\"");
	if (!ret && paths)
		ret = set_paths(r);
	return ret;
}

/** @return -1: go on, else the exit code. */
static int parse(int argc, char **argv, struct run *r)
{
	int opt;

	while ((opt = cli_next(&run_cli, argc, argv)) != CLI_END) {
		switch (opt) {
		case OPT_DEVICE:
			if (!*optarg)
				return complain(r, "--device",
						"expected an interface or an address");
			if (add_device(r, optarg))
				return TOOL_USAGE;
			break;
		case OPT_PCAP:
			r->pcap = optarg;
			break;
		case OPT_TRACE:
			r->trace = optarg;
			break;
		case OPT_IMPAIR:
			if (*optarg == '@' ? add_impair_file(r, optarg + 1)
					   : add_impair(r, "--impair", optarg))
				return TOOL_USAGE;
			break;
		case OPT_IMPAIR_FILE:
			if (add_impair_file(r, optarg))
				return TOOL_USAGE;
			break;
		case OPT_IMPAIR_LOG:
			r->impair_log = optarg;
			break;
		case OPT_TIME_SCALE:
			r->time_scale = optarg;
			break;
		case OPT_LIKE:
			r->like = optarg;
			break;
		case OPT_MOUNT_PATHS:
			r->mount_paths = true;
			break;
		case OPT_GID_LAYOUT:
			r->gid_layout = optarg;
			break;
		case OPT_WIRE:
			r->wire = optarg;
			break;
		case OPT_SUMMARY:
			r->summary = true;
			break;
		case OPT_LOG:
			r->log = optarg;
			break;
		case OPT_LANES:
			r->lanes = optarg;
			break;
		case 'h':
			cli_print_help(&run_cli, stdout);
			return TOOL_OK;
		default:
			return TOOL_USAGE; /* cli_next() has printed the error */
		}
	}
	if (optind < argc)
		return -1;
	fprintf(stderr, "%s: no command to run; see \"%s --help\"\n", r->self, r->self);
	return TOOL_USAGE;
}

/**
 * All processes of a PID namespace end with process 1, also the one that keeps the tree: it cannot
 * remove it then.
 */
static void remove_paths(struct run *r)
{
	if (getpid() != 1 || !r->tree.files.root[0])
		return;
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	tree_remove(&r->tree);
}

/** @return the exit code, where the program has ended or cannot be run. */
static int start(struct run *r, char **argv)
{
	int ret, status = 0;

	/* To a container's first process, signals without a handler are not delivered. */
	if (r->counts.dev)
		ret = summary_run(&r->counts, r->self, argv);
	else if (getpid() != 1)
		ret = child_exec(r->self, argv);
	else
		ret = child_run(r->self, argv, &status);
	remove_paths(r);
	return ret ? ret : child_end_as(status);
}

int tool_run(int argc, char **argv)
{
	static struct run r; /* large */
	int ret;

	r.self = argv[0];
	impair_init(&r.parsed);
	ret = parse(argc, argv, &r);
	if (ret < 0) {
		ret = set_environment(&r);
		if (!ret)
			program_check(argv[optind], r.mount_paths);
		if (!ret)
			ret = start(&r, argv + optind);
	}
	free(r.impair);
	return ret;
}
