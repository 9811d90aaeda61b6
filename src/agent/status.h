/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the status of the running agent. */
#ifndef AGENT_STATUS_H
#define AGENT_STATUS_H

#include <stdbool.h>

/** Print the agent's status on standard output. @return exit code: 0, or 1 when there is no agent.
 */
int status_print(bool system, bool json);

#endif
