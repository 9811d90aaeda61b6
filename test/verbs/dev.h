/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An opened rocemu_lo with the objects that nearly every test needs, in a network namespace of the
 * test program's own. Errors end the test.
 */
#ifndef TEST_VERBS_DEV_H
#define TEST_VERBS_DEV_H

#include <infiniband/verbs.h>
#include <stdint.h>

enum { DEV_MEM = 65536, DEV_CQE = 64, DEV_WR = 16 };

struct dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* on channel */
	uint8_t mem[DEV_MEM];
};

/**
 * A namespace with lo up, the first time it is called; skips the test where that is not possible.
 */
void dev_namespace(void);

void dev_open(struct dev *d);
void dev_close(struct dev *d);

/** The list's device of that name, opened; ROCEMU_DEVICES decides what there is. */
struct ibv_context *dev_open_named(const char *name);

/** ops: IBV_QP_EX_WITH_*, 0 for a QP without ibv_wr_*. */
struct ibv_qp *dev_qp(struct dev *d, enum ibv_qp_type type, uint64_t ops);
/** Bring RC or UC QPs to RTS, connected to each other; a UD QP (b NULL) to RTS. */
void dev_connect(struct ibv_qp *a, struct ibv_qp *b);
/** The same for two QPs of one device over another of its addresses. */
void dev_connect_on(struct ibv_qp *a, struct ibv_qp *b, uint8_t gid_index);
/** A UD destination on the device itself. */
struct ibv_ah *dev_self_ah(struct dev *d);

/**
 * Pages that a test unmaps a part of, of fd or anonymous (-1). They are far below all others, where
 * no mmap() of another thread takes the hole.
 */
uint8_t *dev_pages(size_t len, int prot, int fd);

/** An SGE of mem[offset..). */
struct ibv_sge dev_sge(struct dev *d, uint32_t offset, uint32_t length);
void dev_post_recv(struct dev *d, struct ibv_qp *qp, uint64_t wr_id, uint32_t offset,
		   uint32_t length);

/* XRC objects; NULL with errno. fd, oflags: ibv_open_xrcd()'s. */
struct ibv_xrcd *dev_xrcd(struct dev *d, int fd, int oflags);
struct ibv_srq *dev_xrc_srq(struct dev *d, struct ibv_xrcd *xrcd, struct ibv_cq *cq);
struct ibv_qp *dev_xrc_initiator(struct dev *d, uint64_t ops);
struct ibv_qp *dev_xrc_target(struct dev *d, struct ibv_xrcd *xrcd, void *user);

/** Poll until a completion comes; fails after some seconds. */
struct ibv_wc dev_poll(struct ibv_cq *cq);

#endif
