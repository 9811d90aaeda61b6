/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What another device writes into headers. Packets are made as usual and changed behind that, so
 * that endpoints without such traits do not look at them for each packet.
 */
#ifndef TRANSPORT_TRAITS_H
#define TRANSPORT_TRAITS_H

#include <rocemu/endpoint.h>

/** Change tx[0..n), packets of the QP that are not sealed yet, as cfg.traits has it. */
void traits_put(const struct rocemu_qp *qp, struct rocemu_tx *tx, unsigned n);

#endif
