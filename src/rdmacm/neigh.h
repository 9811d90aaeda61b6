/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolves neighbours of an interface. */
#ifndef RDMACM_NEIGH_H
#define RDMACM_NEIGH_H

#include <stdbool.h>

struct rcm_local;
struct sockaddr;

/**
 * Is the neighbour with this IP address resolved, or none needed? If not, the kernel starts to
 * resolve it.
 */
bool rcm_neigh_known(const struct sockaddr *to, const struct rcm_local *from);

#endif
