/* SPDX-License-Identifier: BSD-2-Clause */
#include "options.h"

static const struct cli_option options[] = {
	{PARITY_OPT_DEVICE, "device", "DEV",
	 "A device's name, or name=interface or name=address for an emulated one; given twice",
	 CLI_DEVICE},
	{PARITY_OPT_GID, "gid", "INDEX",
	 "GID index of A; given twice: of B too (default: a RoCE v2 one)"},
	{PARITY_OPT_ONLY, "only", "PATTERN",
	 "Run only scenarios whose name matches (* and ?; a part suffices)", CLI_SCENARIO},
	{PARITY_OPT_ALONE, "alone", NULL, "Leave out the runs from one device to the other"},
	{PARITY_OPT_NO_PACKETS, "no-packets", NULL,
	 "Do not compare the packets of emulated devices"},
	{PARITY_OPT_KNOWN, "known", "FILE",
	 "More explained differences: \"scenario | line | explanation\"; \"rxe\": those of the "
	 "kernel's Soft-RoCE",
	 CLI_FILE},
	{PARITY_OPT_STRICT, "strict", NULL,
	 "Leave out the differences that are known to this program"},
	{PARITY_OPT_TIMEOUT, "timeout", "S", "Seconds that a scenario may take (default 20)"},
	{PARITY_OPT_JOBS, "jobs", "N",
	 "Scenarios at the same time, from 1 to 64 (default 1); they share the devices"},
	{PARITY_OPT_JSON, "json", NULL, "Print the result as JSON, with all transcripts"},
	{PARITY_OPT_MARKDOWN, "markdown", NULL, "Print the result as tables for a document"},
	{PARITY_OPT_LIST, "list", NULL, "List the scenarios"},
	CLI_HELP,
	{0},
};

const struct cli parity_cli = {
	.name = "parity",
	.brief = "compare two RDMA devices, scenario by scenario",
	.usage = "[OPTIONS] --device A --device B\n"
		 "--list [--only PATTERN]...",
	.about = "Runs the same scenarios on two RDMA devices, each alone and from one to the "
		 "other, and compares what programs see: completions, states, memory, events, "
		 "answers to queries.",
	.options = options,
	.notes =
		"Exit code: 0 the same, or differences that are known; 1 others; 2 wrong usage, no "
		"such device.",
};
