/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs-check: a program on plain libibverbs that checks every byte. A server and a client process
 * run the same list of cases in step over a TCP connection; in each case one of them is active
 *(posts requests), the other passive. It uses nothing of rocemu: it runs on any RoCE v2 device.
 *
 *	vc-main.c   options, the list of cases, the tally
 *	vc-conn.c   the TCP connection, device, queue pairs
 *	vc-xrc.c    what a conn over XRC has besides
 *	vc-io.c     posting by either data path, completions by any of four ways
 *	vc-ops.c    cases where all goes well
 *	vc-flow.c   cases about order and notification: pipelines, fences, solicited events
 *	vc-errors.c cases where it must not
 */
#ifndef VC_H
#define VC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum {
	VC_GUARD = 64, /* guard bytes around each buffer */
	VC_MAX_SGE = 4,
	VC_INLINE = 64,
	VC_DEPTH = 128, /* of each work queue */
	VC_RD_ATOMIC = 4,
	VC_GRH = 40,
	VC_QKEY = 0x1234567,
	VC_WAIT_S = 60, /* hang guard of every wait */
};

struct vc_options {
	bool server;
	const char *host;      /* client: the server's TCP address */
	unsigned port;	       /* TCP */
	const char *device;    /* NULL: the first */
	const char *address;   /* of the local GID; NULL: GID index 0 */
	enum ibv_qp_type type; /* RC with xrc: the operations are the same */
	bool xrc;
	unsigned mtu; /* bytes; 0: the port's */
	bool wr_api;  /* ibv_wr_* instead of ibv_post_send */
	bool cq_ex;   /* ibv_start_poll instead of ibv_poll_cq */
	bool events;  /* sleep on the completion channel */
	bool srq;
	bool no_inv_flag;  /* do not look for IBV_WC_WITH_INV: rxe has another value for it */
	bool big, huge;	   /* sizes: up to 16 MiB, 2 GiB - 1 */
	bool kill;	   /* the server kills itself in the last error case */
	uint32_t psn;	   /* first PSN, both ways */
	size_t max_size;   /* leave out what is longer; 0: no limit */
	uint8_t timeout;   /* ack timeout code where the case does not matter */
	const char *group; /* "ops", "flow", "errors" */
};

/** A buffer with guard zones, registered. */
struct vc_buf {
	uint8_t *base; /* owned: mmap, len + 2 guards */
	uint8_t *data; /* base + guard */
	size_t len;
	struct ibv_mr *mr; /* owned */
};

struct vc {
	struct vc_options opt;
	int sock;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	uint8_t gid_index;
	enum ibv_mtu path_mtu;
	unsigned mtu;	       /* bytes */
	bool windows;	       /* the device has memory windows of type 2B */
	struct vc_buf out, in; /* what this side sends from, what it receives into */
	bool active;	       /* in the current case */
	bool peer_ended;       /* the peer has left the current case */
	bool peer_ok;
	char why[200], peer_why[200]; /* of the current case's failure */
	unsigned passed, failed;
};

/** What a conn is made with; zero means the default. */
struct vc_attr {
	int qp_access;	       /* 0: everything */
	uint8_t timeout;       /* ack timeout code, default: the option's */
	uint8_t retry_cnt;     /* default 7 */
	uint8_t rnr_retry;     /* default 7; VC_ZERO: 0 */
	uint8_t min_rnr_timer; /* default 1 */
	uint32_t wrong_qpn;    /* not the peer's QPN but this one */
	bool stay_init;	       /* do not connect */
};
enum { VC_ZERO = 0xff };

/** A side's queue pair and buffers, as sent to the other side. */
struct vc_remote {
	uint32_t qpn, psn, in_rkey, out_rkey;
	uint32_t target_qpn, srqn; /* XRC */
	uint64_t in_addr, out_addr, in_len;
	union ibv_gid gid;
};

/** A queue pair with all that belongs to it. */
struct vc_conn {
	struct vc *vc; /* borrowed */
	struct ibv_comp_channel *schannel, *rchannel;
	struct ibv_cq *scq, *rcq; /* extended ones when opt.cq_ex */
	struct ibv_srq *srq;
	struct ibv_qp *qp; /* XRC: the initiator */
	struct ibv_qp_ex *qpx;
	struct ibv_qp
		*target; /* XRC: the peer's initiator is connected to it; its receives are srq's */
	struct ibv_xrcd *xrcd;
	struct ibv_ah *ah; /* UD */
	struct vc_remote peer;
};

/** A request, for either data path. */
struct vc_op {
	enum ibv_wr_opcode opcode;
	uint64_t wr_id;
	unsigned flags; /* IBV_SEND_* */
	int nsge;
	struct ibv_sge sge[VC_MAX_SGE];
	uint64_t raddr;
	uint32_t rkey;	   /* also the one to invalidate, or to bind as */
	struct ibv_mw *mw; /* IBV_WR_BIND_MW */
	struct ibv_mw_bind_info bind;
	uint32_t imm; /* host order */
	uint64_t compare_add, swap;
	uint32_t qkey; /* UD; 0: VC_QKEY */
};

/** A completion, whatever way it came. */
struct vc_done {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len, imm, qp_num, src_qp;
	uint32_t invalidated;
	unsigned flags; /* IBV_WC_* */
};

/** Fail the current case: text into vc->why, false out of the function. */
#define VC_CHECK(vc, cond, ...)                                         \
	do {                                                            \
		if (!(cond)) {                                          \
			vc_fail((vc), __FILE__, __LINE__, __VA_ARGS__); \
			return false;                                   \
		}                                                       \
	} while (0)
#define VC_TRY(expr)                  \
	do {                          \
		if (!(expr))          \
			return false; \
	} while (0)

/* vc-main.c */
void vc_fail(struct vc *vc, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/** Prints and exits: what cannot be a case's failure (no device, peer gone). */
void vc_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
typedef bool (*vc_run)(struct vc *vc, void *arg);
/** Run a case on both sides; `active_server`: the server is the one that posts. */
bool vc_case(struct vc *vc, const char *name, bool active_server, vc_run run, void *arg);

/* vc-conn.c */
void vc_connect_peer(struct vc *vc);
/** Both sides get here, and swap len (at most 200) bytes. False: the peer has left the case. */
bool vc_swap(struct vc *vc, const void *mine, void *theirs, size_t len);
bool vc_sync(struct vc *vc);
/** End of a case: swap verdicts. */
void vc_end(struct vc *vc, bool ok);
void vc_open(struct vc *vc);
void vc_close(struct vc *vc);
bool vc_conn_new(struct vc *vc, struct vc_conn *c, const struct vc_attr *attr);
void vc_conn_free(struct vc_conn *c);
/** The QP that the present case is about: XRC, on the passive side: the target. */
struct ibv_qp *vc_qp_here(const struct vc_conn *c);
/** The QP that completions of this CQ name. */
uint32_t vc_qpn_of(const struct vc_conn *c, const struct ibv_cq *cq);
enum ibv_qp_state vc_qp_state(struct vc_conn *c);
bool vc_qp_to_error(struct vc_conn *c);
bool vc_qp_destroy_here(struct vc_conn *c);

/* vc-xrc.c */
/** Domain, SRQ and target QP; c->qp is made by vc_conn_new(). */
bool vc_xrc_new(struct vc_conn *c);
void vc_xrc_free(struct vc_conn *c);

/* vc-io.c */
int vc_post(struct vc_conn *c, struct vc_op *ops, int n);
bool vc_post_recv(struct vc_conn *c, uint64_t wr_id, struct ibv_sge *sge, int nsge);
/** Wait for the next completion. */
bool vc_wait(struct vc_conn *c, struct ibv_cq *cq, struct vc_done *d);
/** Is there a completion now? */
bool vc_poll(struct vc_conn *c, struct ibv_cq *cq, struct vc_done *d);
bool vc_wait_ok(struct vc_conn *c, struct ibv_cq *cq, uint64_t wr_id, struct vc_done *d);
/** Cut [addr, addr + len) into n pieces of odd sizes. */
int vc_cut(struct ibv_sge *sge, int n, const struct vc_buf *b, size_t offset, size_t len);
void vc_fill(uint8_t *p, size_t len, unsigned seed);
bool vc_same(struct vc *vc, const uint8_t *p, size_t len, unsigned seed, const char *what);
void vc_buf_clear(struct vc_buf *b, size_t len);
bool vc_buf_guards(struct vc *vc, const struct vc_buf *b, size_t used);

/* the groups */
void vc_group_ops(struct vc *vc);
void vc_group_flow(struct vc *vc);
void vc_group_errors(struct vc *vc);

#endif
