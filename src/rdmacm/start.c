/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts the core and connects it to the files that it calls. */
#include "rdmacm/cm-events.h"
#include "rdmacm/core.h"
#include "rdmacm/device-watch.h"
#include "rdmacm/id.h"
#include "rdmacm/start.h"

int rcm_start(struct rcm_id *id, uint64_t guid)
{
	static const struct rcm_core_ops ops = {.cm_event = rcm_cm_event, .look = rcm_device_watch_run};

	return rcm_core_start(id, guid, &ops);
}
