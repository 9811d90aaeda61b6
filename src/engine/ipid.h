/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IPv4 identifications of a connected UDP socket's packets. The kernel counts them from a
 * random start that it shows nowhere but in the packets. A packet for which a transmit
 * timestamp is requested comes back to the sender's error queue, headers included
 * (Documentation/networking/timestamping.rst of Linux), unless net.core.tstamp_allow_data is 0.
 */
#ifndef ENGINE_IPID_H
#define ENGINE_IPID_H

#include <stdint.h>

#include "netdev/addr.h"

/**
 * Send two empty datagrams from a connected socket to an address of this host, where a socket drops
 * them, and read their identifications. Never blocks.
 * @return that of the next message, or -1: the kernel does not show them, or does not count.
 */
int32_t ipid_next(int fd, const struct sockaddr_in *to);

#endif
