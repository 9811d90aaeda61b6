/* SPDX-License-Identifier: BSD-2-Clause */
/* The back end of scenarios in memory: endpoints in virtual time, without sockets. */
#ifndef TEST_SCENARIO_ENDPOINT_H
#define TEST_SCENARIO_ENDPOINT_H

#include "scenario/scenario.h"

extern const struct scenario_backend scenario_endpoint;

#endif
