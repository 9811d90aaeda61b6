/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers that the library allocates. */
#ifndef VERBS_BUF_H
#define VERBS_BUF_H

#include "verbs/call.h"

struct ibv_buf;
/** Is addr[0..length) within this buffer, and does the buffer belong to this domain? */
bool vb_buf_has(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr,
		size_t length);

#endif
