/* SPDX-License-Identifier: BSD-2-Clause */
/* The capture file of a failing run. */
#ifndef TEST_SIM_CAPTURE_H
#define TEST_SIM_CAPTURE_H

#include "sim.h"

/** Write the packets in the history to <build dir>/<name>-<seed>.pcap. path: its name. 0 or -1. */
int sim_capture(const struct sim *s, char *path, size_t size);

#endif
