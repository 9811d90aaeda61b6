/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu agent: the agent's program, found where this one's build or installation has it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

int tool_agent(int argc, char **argv)
{
	char path[PATH_MAX];
	const char *env = getenv("ROCEMU_AGENT_BIN");

	(void)argc;
	if (env && *env) {
		snprintf(path, sizeof(path), "%s", env);
	} else if (!paths_agent(path)) {
		fprintf(stderr,
			"%s: rocemu-agent is not where this program's installation should have "
			"it\n",
			argv[0]);
		return TOOL_FAILED;
	}
	execv(path, argv);
	fprintf(stderr, "%s: cannot run %s: %s\n", argv[0], path, strerror(errno));
	return TOOL_FAILED;
}
