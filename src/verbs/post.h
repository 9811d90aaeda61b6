/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting work requests. */
#ifndef VERBS_POST_H
#define VERBS_POST_H

#include "verbs/call.h"

struct vb_qp;

int vb_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int vb_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/** Post n requests, or, when any of them cannot be posted, none. Returns an errno. */
int vb_post_send_all(struct vb_qp *qp, struct ibv_send_wr *wrs, unsigned n);

#endif
