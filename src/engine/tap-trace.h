/* SPDX-License-Identifier: BSD-2-Clause */
/* Records packets in the timeline (base/trace.h). */
#ifndef ENGINE_TAP_TRACE_H
#define ENGINE_TAP_TRACE_H

#include <sys/uio.h>

#include "engine/tap.h"

/** Record a packet, in pieces from the BTH to the ICRC; what is not one is left out. when_ns: of
 * the timeline's clock. */
void tap_trace(const struct tap_addr *a, uint64_t when_ns, const struct iovec *iov, unsigned niov);

#endif
