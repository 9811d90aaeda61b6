/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Publishes an endpoint's state to other processes: numbers of objects, and its QPs. Written when
 * objects are created or destroyed and QPs change state, never for a packet.
 */
#ifndef TRANSPORT_SHOW_H
#define TRANSPORT_SHOW_H

#include "transport/ep.h"

/** An object came (1) or went (-1). */
void show_object(struct rocemu_ep *ep, enum rocemu_object kind, int by);
/** A QP is there, or is another one than before. */
void show_qp(struct rocemu_qp *qp);
void show_qp_gone(struct rocemu_qp *qp);

#endif
