/* SPDX-License-Identifier: BSD-2-Clause */
/* Is there anybody at an address? */
#ifndef RDMACM_NEIGH_H
#define RDMACM_NEIGH_H

#include <stdbool.h>

struct rcm_local;
struct sockaddr;

/** Does somebody have an IP address, or is no neighbour needed? If not, the kernel is made to ask. */
bool rcm_neigh_known(const struct sockaddr *to, const struct rcm_local *from);

#endif
