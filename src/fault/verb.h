/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses and decides rules of ROCEMU_IMPAIR that are not about packets: failing verbs calls,
 * completions in error, CQ overflow, and loss of a device, its port or its addresses. The grammar
 * is that of parse.h; the callers act on the decisions (src/verbs/fault.c, port.c;
 * engine/timed-faults.c for what comes with time). docs/faults.md has the words.
 *
 *   fail verb=ibv_reg_mr [errno=ENOMEM] [WHEN]
 *   wc-error [status=REM_ACCESS_ERR] [qp=first|NUMBER] [WHEN]
 *   cq-overflow [cq=first] [nth=N] [every=N] [times=N] [once]     completions of one CQ are counted
 *   device-fatal after=TIME | verb=NAME [WHEN]
 *   port-down after=TIME [for=TIME] [every=TIME]
 *   gid-remove index=N after=TIME [for=TIME] [every=TIME]
 *   WHEN: nth=N|A..B, first, every=N, times=N, once, chance=P, per=qp; all that are given must hold
 */
#ifndef FAULT_VERB_H
#define FAULT_VERB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "fault/parse.h"

/* clang-format off */
/**
 * Calls that fault injection can make fail. All calls of a family count under the name of its basic
 * call.
 */
#define FAULT_VERBS(X)                               \
	X(OPEN_DEVICE,         "ibv_open_device")         \
	X(QUERY_DEVICE,        "ibv_query_device")        \
	X(QUERY_PORT,          "ibv_query_port")          \
	X(QUERY_GID,           "ibv_query_gid")           \
	X(ALLOC_PD,            "ibv_alloc_pd")            \
	X(REG_MR,              "ibv_reg_mr")              \
	X(REREG_MR,            "ibv_rereg_mr")            \
	X(ALLOC_MW,            "ibv_alloc_mw")            \
	X(BIND_MW,             "ibv_bind_mw")             \
	X(ALLOC_DM,            "ibv_alloc_dm")            \
	X(CREATE_COMP_CHANNEL, "ibv_create_comp_channel") \
	X(CREATE_CQ,           "ibv_create_cq")           \
	X(RESIZE_CQ,           "ibv_resize_cq")           \
	X(REQ_NOTIFY_CQ,       "ibv_req_notify_cq")       \
	X(CREATE_SRQ,          "ibv_create_srq")          \
	X(MODIFY_SRQ,          "ibv_modify_srq")          \
	X(CREATE_QP,           "ibv_create_qp")           \
	X(MODIFY_QP,           "ibv_modify_qp")           \
	X(QUERY_QP,            "ibv_query_qp")            \
	X(CREATE_AH,           "ibv_create_ah")           \
	X(ATTACH_MCAST,        "ibv_attach_mcast")        \
	X(OPEN_XRCD,           "ibv_open_xrcd")           \
	X(POST_SEND,           "ibv_post_send")           \
	X(POST_RECV,           "ibv_post_recv")           \
	X(POST_SRQ_RECV,       "ibv_post_srq_recv")       \
	X(RDMA_CREATE_CHANNEL, "rdma_create_event_channel") \
	X(RDMA_CREATE_ID,      "rdma_create_id")          \
	X(RDMA_BIND_ADDR,      "rdma_bind_addr")          \
	X(RDMA_RESOLVE_ADDR,   "rdma_resolve_addr")       \
	X(RDMA_RESOLVE_ROUTE,  "rdma_resolve_route")      \
	X(RDMA_LISTEN,         "rdma_listen")             \
	X(RDMA_CONNECT,        "rdma_connect")            \
	X(RDMA_ACCEPT,         "rdma_accept")             \
	X(RDMA_CREATE_QP,      "rdma_create_qp")
/* clang-format on */

enum fault_verb {
#define X(name, text) FAULT_VERB_##name,
	FAULT_VERBS(X)
#undef X
		FAULT_VERB_COUNT
};

/** The call's name. */
const char *fault_verb_name(enum fault_verb verb);

enum fault_verb_action {
	FAULT_FAIL,
	FAULT_WC_ERROR,
	FAULT_CQ_OVERFLOW,
	FAULT_DEVICE_FATAL,
	FAULT_PORT_DOWN,
	FAULT_GID_REMOVE,
};

enum { FAULT_VERB_TEXT_LEN = 96 }; /* of a rule as it is shown, with the NUL */

/** Which of the matches; all must hold. */
struct fault_when {
	struct fault_range nth; /* numbers of matches, from 1 */
	uint64_t every;		/* only every N-th */
	uint64_t times;		/* at most N times */
	double chance;
};

/** What was counted, of one rule: for the process, or for one object. */
struct fault_counter {
	uint64_t seen, hits;
};

/** From after on for length, and again every period; on the clock that begins with the process. */
struct fault_span {
	uint64_t after_ns;
	uint64_t length_ns; /* UINT64_MAX: without an end */
	uint64_t period_ns; /* 0: once */
};

struct fault_verb_rule {
	enum fault_verb_action action;
	unsigned number;		/* of the item in the text, from 1 */
	char text[FAULT_VERB_TEXT_LEN]; /* as written, truncated if too long */
	enum fault_verb verb;		/* FAIL, DEVICE_FATAL; FAULT_VERB_COUNT: by time */
	int error;			/* FAIL: an errno */
	int status;			/* WC_ERROR: an enum ibv_wc_status */
	bool per_qp;			/* each QP is counted by itself */
	bool first_object;		/* WC_ERROR, CQ_OVERFLOW: the process's first QP or CQ */
	struct fault_range qp;		/* WC_ERROR */
	unsigned gid_index;
	struct fault_when when;
	struct fault_span span;
	struct fault_counter count; /* for the process */
};

enum { FAULT_VERB_RULES = 32 };

struct fault_verbs {
	unsigned n;
	struct fault_verb_rule rule[FAULT_VERB_RULES];
};

/** For messages. */
#define FAULT_VERB_ACTION_NAMES "fail, wc-error, cq-overflow, device-fatal, port-down, gid-remove"

/** Is the item a rule of these? */
bool fault_verb_is_rule(const struct fault_item *item);
/** Append the rule that it is. @return 0, or -EINVAL with *e filled. */
int fault_verb_parse(struct fault_verbs *v, const struct fault_reader *r,
		     const struct fault_item *item, struct fault_error *e);

/** One more match: does the rule act on it? Chances are drawn from rng. */
bool fault_when_hit(const struct fault_when *w, struct fault_counter *count, struct rng *rng);

/** The state that rules by time cause. */
struct fault_now {
	bool down;	  /* ports */
	bool fatal;	  /* devices */
	uint64_t gids;	  /* bits: GID table indices without their address */
	uint64_t rules;	  /* bits: rules that are on */
	uint64_t next_ns; /* when that changes; UINT64_MAX: never */
};

/** Are there any? */
bool fault_verb_has_timed(const struct fault_verbs *v);

/** At elapsed_ns since the process began. */
struct fault_now fault_now_at(const struct fault_verbs *v, uint64_t elapsed_ns);

#endif
