/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a lane counts: the device's file of counters under `rocemu run`, else memory of its own. */
#include <limits.h>
#include <stdlib.h>

#include "base/log.h"
#include "engine/lane-internal.h"
#include "engine/portcount.h"

void lane_count_start(struct lane *l)
{
	const char *root = secure_getenv("ROCEMU_PATHS");
	char path[PATH_MAX];
	struct port_counts *counts;

	if (l->count.row || !root || root[0] != '/' ||
	    !portcount_path(path, sizeof(path), root, l->device))
		return;
	l->count.file = countfile_map(path, true);
	if (l->count.file)
		l->count.row = countfile_claim(l->count.file);
	if (!l->count.row) {
		log_debug("%s: not counted in %s", l->device, path);
		countfile_unmap(l->count.file);
		l->count.file = NULL;
		return;
	}
	counts = (struct port_counts *)(void *)l->count.row->live;
	rocemu_ep_count_in(l->ep, &counts->ep);
	counts->lane = *l->stats;
	l->stats = &counts->lane;
}

void lane_count_stop(struct lane *l)
{
	if (!l->count.row)
		return;
	l->own_stats = *l->stats;
	l->stats = &l->own_stats;
	countfile_release(l->count.row);
	countfile_unmap(l->count.file);
	l->count.row = NULL;
	l->count.file = NULL;
}
