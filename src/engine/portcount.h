/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port's counters as the kernel's sysfs names them (ports/1/counters, ports/1/hw_counters; the
 * latter as mlx5 does), and which of a lane's counts each is made of. The lanes of a device count
 * in a file that `rocemu run` makes (base/countfile.h), so that another process can read it; lanes
 * that no such file is for count in memory of their own.
 */
#ifndef ENGINE_PORTCOUNT_H
#define ENGINE_PORTCOUNT_H

#include "base/countfile.h"
#include "engine/lane.h"

/* Bytes from one row's struct rocemu_ep_shown to the next one's: pages of any size. */
enum { PORTCOUNT_SHOWN_STRIDE = 1 << 20 };

/** The layout of a row's live values. */
struct port_counts {
	struct rocemu_ep_stats ep;
	struct lane_stats lane;
};

/** The counters of a port. name: "counters/..." or "hw_counters/...". */
const struct countfile_counter *portcount_table(unsigned *n);

/** Of the directory that ROCEMU_PATHS names: where a device's file is. @return false: too long. */
bool portcount_path(char *out, size_t len, const char *root, const char *device);

/**
 * Beside it, a file of what the endpoints show (struct rocemu_ep_shown), one for each row of the
 * counters' file at the same number; one that is not shown is a hole.
 */
bool portcount_shown_path(char *out, size_t len, const char *root, const char *device);

#endif
