/* SPDX-License-Identifier: BSD-2-Clause */
/* The capture file of a failing run. */
#ifndef TEST_SIM_CAPTURE_H
#define TEST_SIM_CAPTURE_H

#include "sim.h"

/** Write the packets in the history to the file at path. 0 or -1. */
int sim_capture_to(const struct sim *s, const char *path);

/** Write them to <build dir>/<name>-<seed>.pcap. path: its name. 0 or -1. */
int sim_capture(const struct sim *s, char *path, size_t size);

#endif
