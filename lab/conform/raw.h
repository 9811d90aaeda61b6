/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv4 packets that a UDP socket cannot send: they leave by a raw socket, which needs CAP_NET_RAW.
 */
#ifndef CONFORM_RAW_H
#define CONFORM_RAW_H

#include "scenario/scenario.h"
#include "wire/ip.h"

/** Does the packet need it? */
bool raw_needed(const struct scenario_packet *p);
/**
 * Send data[0..len), from the BTH to the ICRC, with the headers of h and what p asks for: IP
 * options, fragments, the UDP length and a wrong UDP checksum. Without the last there is no UDP
 * checksum. *fd: of this call before, to be closed; or -1. @return 0 or a negative errno value;
 * -EOPNOTSUPP: *why_not says why it is not possible.
 */
int raw_send(int *fd, const struct ip_udp *h, const struct scenario_packet *p, const uint8_t *data,
	     size_t len, const char **why_not);

#endif
