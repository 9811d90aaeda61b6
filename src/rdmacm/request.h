/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the REQ and SIDR_REQ of rdma_connect(). */
#ifndef RDMACM_REQUEST_H
#define RDMACM_REQUEST_H

#include "rdmacm/lock.h"

struct rcm_id;
struct rdma_conn_param;

/** -errno. */
int rcm_request_send(struct rcm_id *id, const struct rdma_conn_param *p) REQUIRES(rcm_lock);
/** Send it again after a rejection. -errno. */
int rcm_request_send_again(struct rcm_id *id) REQUIRES(rcm_lock);

#endif
