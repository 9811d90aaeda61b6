/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu parity: start rocemu-parity, a separate program because it links to libibverbs, and pass
 * it the path of the drop-in libraries.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

int tool_parity(int argc, char **argv)
{
	char program[PATH_MAX], libraries[2 * PATH_MAX], agent[PATH_MAX];

	(void)argc;
	if (!paths_parity(program) || !paths_libraries(libraries, sizeof(libraries))) {
		fprintf(stderr,
			"%s: rocemu-parity or libibverbs.so.1 is not where this program's "
			"installation should have it\n",
			argv[0]);
		return TOOL_FAILED;
	}
	if (paths_agent(agent))
		setenv("ROCEMU_AGENT_BIN", agent, 0);
	setenv("ROCEMU_PARITY_LIBS", libraries, 1);
	execv(program, argv);
	fprintf(stderr, "%s: cannot run %s: %s\n", argv[0], program, strerror(errno));
	return TOOL_FAILED;
}
