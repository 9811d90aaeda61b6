/* SPDX-License-Identifier: BSD-2-Clause */
/* The back end of scenarios by verbs: pairs of queue pairs of a device that there is. */
#ifndef TEST_SCENARIO_VERBS_H
#define TEST_SCENARIO_VERBS_H

#include "scenario/scenario.h"

extern const struct scenario_backend scenario_verbs;

/** Use this device and GID index from now on. -ENODEV; -EINVAL: no such GID. */
int scenario_verbs_device(const char *name, int gid_index);

#endif
