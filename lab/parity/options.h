/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of rocemu-parity; `rocemu`, which starts it, has the same table for completion. */
#ifndef PARITY_OPTIONS_H
#define PARITY_OPTIONS_H

#include "base/cli.h"

enum {
	PARITY_OPT_DEVICE = 'd',
	PARITY_OPT_GID = CLI_LONG,
	PARITY_OPT_ONLY,
	PARITY_OPT_ALONE,
	PARITY_OPT_NO_PACKETS,
	PARITY_OPT_KNOWN,
	PARITY_OPT_STRICT,
	PARITY_OPT_TIMEOUT,
	PARITY_OPT_JOBS,
	PARITY_OPT_JSON,
	PARITY_OPT_MARKDOWN,
	PARITY_OPT_LIST,
};

extern const struct cli parity_cli;

#endif
