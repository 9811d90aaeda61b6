/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. */
#ifndef VERBS_AH_H
#define VERBS_AH_H

#include <rocemu/endpoint.h>

#include "base/util.h"
#include "verbs/call.h"

struct vb_ah {
	struct ibv_ah base;
	struct rocemu_path path;
};

static inline struct vb_ah *vb_ah_of(struct ibv_ah *o)
{
	return container_of(o, struct vb_ah, base);
}

#endif
