/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A listening socket that the agent was started with, as systemd starts services: LISTEN_PID is the
 * process it is for, LISTEN_FDS how many descriptors there are, from 3 on.
 */
#ifndef AGENT_PASSED_H
#define AGENT_PASSED_H

#include <stddef.h>

#include "agent/protocol.h"

/**
 * Take the socket that was passed. It must listen on the instance's name without a suffix, and must
 * have been made by a user whom clients trust. The variables are removed from the environment.
 * @return a non-blocking descriptor, -ENOENT: none was passed, -EADDRINUSE: another agent runs, or
 * -EINVAL, -EPERM and others with one line in errbuf.
 */
int agent_listener_passed(const struct agent_instance *instance, char *errbuf, size_t errlen);

#endif
