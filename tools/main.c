/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu: the subcommand table. */
#include <string.h>
#include <sys/resource.h>

#include "agent/options.h"
#include "base/cli.h"
#include "parity/options.h"
#include "tool.h"

/* clang-format off */
const struct command tool_commands[] = {
	{&run_cli, tool_run},
	{&devices_cli, tool_devices},
	{&stat_cli, tool_stat},
	{&decode_cli, tool_decode},
#ifdef WITH_VERIFY
	{&verify_cli, tool_verify},
	{&explain_cli, tool_explain},
#endif
#ifdef WITH_PARITY
	{&parity_cli, tool_parity},
#endif
	{&conform_cli, tool_conform},
	{&hosts_cli, tool_hosts},
	{&agent_cli, tool_agent},
	{&completion_cli, tool_completion},
	{0},
};
/* clang-format on */

/* What the build was configured without, and by which option. */
static const struct left_out {
	const char *name, *option;
} left_out[] = {
#ifndef WITH_VERIFY
	{"verify", "verify"},
	{"explain", "verify"},
#endif
#ifndef WITH_PARITY
	{"parity", "parity"},
#endif
	{0},
};

static void usage(FILE *f)
{
	fputs("usage: rocemu COMMAND [ARGUMENTS]\n\n", f);
	for (const struct command *c = tool_commands; c->cli; c++)
		fprintf(f, "  %-11s %s\n", c->cli->name, c->cli->brief);
	fputs("\n\"rocemu COMMAND --help\" says more. Also: --help, --version.\n", f);
}

static char name[64] = "rocemu"; /* in messages: with the subcommand, once it is known */

static int run_command(int argc, char **argv)
{
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
	for (const struct command *c = tool_commands; c->cli; c++) {
		if (strcmp(argv[1], c->cli->name) != 0)
			continue;
		snprintf(name, sizeof(name), "rocemu %s", c->cli->name);
		argv[1] = name;
		return c->run(argc - 1, argv + 1);
	}
	for (const struct left_out *l = left_out; l->name; l++) {
		if (strcmp(argv[1], l->name) != 0)
			continue;
		fprintf(stderr,
			"rocemu %s: this build has no %s: it was configured with -D%s=disabled\n",
			l->name, l->name, l->option);
		return TOOL_FAILED;
	}
	fprintf(stderr, "rocemu: no command \"%s\"; \"rocemu --help\" lists them\n", argv[1]);
	return TOOL_USAGE;
}

/** Paths on it need more than the kernel needs to start a program. */
static bool stack_suffices(void)
{
	enum { LEAST = 64 * 1024 };
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= LEAST)
		return true;
	fprintf(stderr,
		"rocemu: the stack of this process may have %llu KiB: raise the limit (ulimit -s) "
		"to %d at least\n",
		(unsigned long long)limit.rlim_cur / 1024, LEAST / 1024);
	return false;
}

int main(int argc, char **argv)
{
	if (!stack_suffices())
		return TOOL_FAILED;
	cli_begin();
	return cli_end(name, run_command(argc, argv));
}
