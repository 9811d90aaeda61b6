/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In the place of the connection manager and the agent's client as long as those are not there:
 * there is no agent to be had, so nothing else is ever reached. Goes with it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/client-cm.h"
#include "cm/cm.h"

int cm_client_new(struct cm_client **out, char *errbuf, size_t errlen)
{
	(void)out;
	snprintf(errbuf, errlen, "connection management is not there yet");
	return -EOPNOTSUPP;
}

/* The signatures do not matter: these are never called. */
#define NEVER(name)                                                    \
	__attribute__((noreturn, used)) static void name##_never(void) \
	{                                                              \
		abort();                                               \
	}                                                              \
	__asm__(".globl " #name "\n.set " #name ", " #name "_never");
NEVER(cm_client_bind)
NEVER(cm_client_fd)
NEVER(cm_client_forget)
NEVER(cm_client_free)
NEVER(cm_client_listen)
NEVER(cm_client_number)
NEVER(cm_client_open)
NEVER(cm_client_recv)
NEVER(cm_client_send)
NEVER(cm_client_text)
NEVER(cm_client_unbind)
NEVER(cm_client_will_clear)
NEVER(cm_client_will_set)
