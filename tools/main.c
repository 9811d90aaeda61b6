/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu: the subcommand table. */
#include <string.h>

#include "base/util.h"
#include "tool.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;
} commands[] = {
	{"run", tool_run, "run a program with emulated RDMA devices"},
	{"devices", tool_devices, "list the devices that programs will see"},
	{"stat", tool_stat, "show what processes that use the devices do"},
	{"decode", tool_decode, "print the RoCEv2 packets of a capture"},
	{"verify", tool_verify, "check the packets of a capture against the standard"},
	{"explain", tool_explain, "describe a capture in words and as a diagram"},
	{"parity", tool_parity, "compare two RDMA devices, scenario by scenario"},
	{"agent", tool_agent, "start the agent, or ask what it does"},
};

static void usage(FILE *f)
{
	fputs("usage: rocemu COMMAND [ARGUMENTS]\n\n", f);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].what);
	fputs("\n\"rocemu COMMAND --help\" says more. Also: --help, --version.\n", f);
}

int main(int argc, char **argv)
{
	char name[64];

	if (argc < 2) {
		usage(stderr);
		return TOOL_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return TOOL_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("rocemu " ROCEMU_VERSION "%s%s%s\n", *tool_commit ? " (" : "", tool_commit,
		       *tool_commit ? ")" : "");
		return TOOL_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		snprintf(name, sizeof(name), "rocemu %s", commands[i].name);
		argv[1] = name;
		return commands[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "rocemu: no command \"%s\"; \"rocemu --help\" lists them\n", argv[1]);
	return TOOL_USAGE;
}
