/* SPDX-License-Identifier: BSD-2-Clause */
/* Neighbours of an interface. */
#ifndef RDMACM_NEIGH_H
#define RDMACM_NEIGH_H

#include <stdbool.h>

struct rcm_local;
struct sockaddr;

/** Is the neighbour that has an IP address known, or none needed? If not, the kernel looks for it.
 */
bool rcm_neigh_known(const struct sockaddr *to, const struct rcm_local *from);

#endif
