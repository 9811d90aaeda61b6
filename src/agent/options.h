/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's options; `rocemu`, which starts it, has the same table for completion. */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include "base/cli.h"

enum {
	AGENT_OPT_FOREGROUND = CLI_LONG,
	AGENT_OPT_SYSTEM,
	AGENT_OPT_IDLE_TIMEOUT,
	AGENT_OPT_STATUS,
	AGENT_OPT_JSON,
	AGENT_OPT_VERSION,
	AGENT_OPT_SPAWNED,
};

extern const struct cli agent_cli;

#endif
