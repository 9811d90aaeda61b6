/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP source ports: the entropy by which a network spreads RoCEv2 flows. Same choice as the
 * kernel's rxe. */
#ifndef TRANSPORT_PATH_H
#define TRANSPORT_PATH_H

#include <rocemu/endpoint.h>

/** RC, UC: from the flow label, or from the pair of QPNs, so that both directions have the same
 * port. */
uint16_t path_sport_connected(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn);
/** UD: from the flow label, or from the sender's QPN. */
uint16_t path_sport_datagram(uint32_t flow_label, uint32_t lqpn);

#endif
