/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint that fuzz-transport drives, and what must hold of it whatever comes in (see
 * fuzz-transport.c).
 */
#ifndef TEST_FUZZ_WORLD_H
#define TEST_FUZZ_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

enum {
	MTU = 256,
	OPEN_LEN = 4096, /* memory open to the peer */
	GUARD = 512,	 /* on either side, closed to it */
	QPS = 6,	 /* RC, RC, UC, UD, XRC_RECV, XRC_SEND */
	XRC_TARGET = 4,
	QUEUE = 16,
	PEER_QPN = 0x8011,
	QKEY = 0x11111111,
	CQ_DEPTH = 256,
};

struct fuzz_qp {
	struct rocemu_qp *qp;
	struct rocemu_cq *cq; /* XRC_RECV: of the SRQs that it delivers to */
	enum ibv_qp_type type;
	uint32_t expected;  /* a guess at the PSN that its responder expects */
	uint32_t sent;	    /* PSN of the last request that it sent */
	uint64_t posted[2]; /* last wr_id of sends and receives: wr_id is a count << 1 | is_recv */
	uint64_t done[2];
};

struct world {
	const uint8_t *in, *end; /* the program */
	rocemu_ns_t now;
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_srq *srq;
	struct rocemu_xrcd *xrcd, *other_xrcd;
	struct rocemu_srq *xrc_srq, *other_xrc_srq; /* of those domains */
	struct rocemu_mr *open_mr, *closed_mr;
	struct rocemu_mr *window_mr; /* the open memory again, for windows only */
	struct rocemu_mw *mw[2];     /* of type 1 and 2 */
	struct rocemu_gid self, peer;
	bool to_group; /* the packet under way goes to the group, which the UD QP is in */
	struct fuzz_qp q[QPS];
	uint64_t srq_posted, xrc_srq_posted;
	uint8_t memory[GUARD + OPEN_LEN + GUARD];
	uint8_t closed[1024]; /* registered for reading by ourselves only */
	bool has_srq;	      /* q[1] takes its receives from it */
};

#define OPEN_IOVA   UINT64_C(0x10000)
#define CLOSED_IOVA UINT64_C(0x80000)

/** The next byte of the program; 0 at its end. */
static inline uint8_t take(struct world *w)
{
	return w->in < w->end ? *w->in++ : 0;
}

static inline struct rocemu_gid ipv4(uint8_t last)
{
	return (struct rocemu_gid){{[10] = 0xff, 0xff, 10, 0, 0, last}};
}

void world_open(struct world *w);
/** Everything can be taken apart, and memory is as it must be. */
void world_close(struct world *w);
/** Create QP i anew and connect it; the UD QP joins the group. */
void world_qp_make(struct world *w, unsigned i);
void world_qp_destroy(struct fuzz_qp *q);
/** The group's address. */
struct rocemu_gid world_group(void);
void world_qp_connect(struct world *w, struct fuzz_qp *q);
/** Make the XRC SRQ anew: its number is another one then. */
void world_xrc_srq_make(struct world *w);
/** Take the completions of a QP: in order, once, of what was posted. */
void world_check_completions(struct world *w, struct fuzz_qp *q);
/** Let the endpoint send, `ask` packets at a time, and look at each. */
void world_output(struct world *w, unsigned ask);

#endif
