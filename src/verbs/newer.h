/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations of newer versions of verbs.h, for older ones. The drop-in exports these calls only
 * where the system's library does; the tests call them everywhere. HAVE_*: see meson.build.
 */
#ifndef VERBS_NEWER_H
#define VERBS_NEWER_H

/* As in export.h: all declarations here are exported. */
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>

#ifndef HAVE_IBV_QUERY_QP_DATA_IN_ORDER
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
#endif

#ifndef HAVE_IBV_WR_OPCODE_STR
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
#endif

#ifndef HAVE_IBV_ALLOC_BUF
struct ibv_buf;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);
#endif

#ifndef HAVE_IBV_EXPORT_BUF_DMABUF_FD
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
#endif

#ifndef HAVE_IBV_QUERY_PORT_SPEED
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
#endif

#ifndef HAVE_IBV_REG_MR_EX
enum {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5,
};

struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
#define HAVE_MR_INIT_ATTR_BUF
#endif

#pragma GCC visibility pop

/* Numbers for which only the newest verbs.h has names. */
enum {
	VB_ODP_SUPPORT_FLUSH = 1 << 6,
	VB_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
	VB_PARENT_DOMAIN_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
};

#endif
