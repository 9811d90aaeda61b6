/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/options.h"

static const struct cli_option options[] = {
	{AGENT_OPT_FOREGROUND, "foreground", NULL, "Stay in the foreground, log to standard error"},
	{AGENT_OPT_SYSTEM, "system", NULL,
	 "Serve all users (as root, or on a socket from systemd); never exit without "
	 "--idle-timeout"},
	{AGENT_OPT_IDLE_TIMEOUT, "idle-timeout", "SECONDS",
	 "Exit after this many idle seconds; 0: never (default 5; with --system never)"},
	{AGENT_OPT_STATUS, "status", NULL,
	 "Print what the running agent does; exit code 1 when there is none"},
	{AGENT_OPT_JSON, "json", NULL, "Print the status as JSON"},
	{AGENT_OPT_VERSION, "version", NULL, "Print the version"},
	{AGENT_OPT_SPAWNED, "spawned", NULL, "Started by a program that waits for it",
	 .hidden = true},
	CLI_HELP,
	{0},
};

const struct cli agent_cli = {
	.name = "agent",
	.brief = "start the agent, or show its state",
	.usage = "[--foreground] [--system] [--idle-timeout SECONDS]\n"
		 "--status [--system] [--json]",
	.about = "Shares UDP port 4791 among the RDMA programs of one user and network "
		 "namespace. Programs start it when they need it; there is no need to start it by "
		 "hand, except to serve all users of a machine.",
	.options = options,
	.notes = "environment:\n"
		 "  ROCEMU_AGENT_LOG=FILE   where an agent in the background logs\n"
		 "  ROCEMU_AGENT_NAME=NAME  use an agent apart from the others\n"
		 "  ROCEMU_LOG=LEVEL        error, warn, why, info or debug",
};
