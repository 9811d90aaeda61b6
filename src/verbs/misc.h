/* SPDX-License-Identifier: BSD-2-Clause */
/* Exported, but declared only in rdma-core's private headers. */
#ifndef VERBS_MISC_H
#define VERBS_MISC_H

#include "verbs/call.h"

#pragma GCC visibility push(default)
enum vb_gid_type_sysfs { VB_GID_TYPE_IB_ROCE_V1, VB_GID_TYPE_ROCE_V2 };
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index,
		       enum vb_gid_type_sysfs *type);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
#pragma GCC visibility pop

#endif
