/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu-parity: runs the same scenarios on two devices and compares the results.
 *
 * A scenario is a function on a pair of ends, "req" and "rsp", which are two contexts of one device
 * ("alone") or of two ("across"). It prints its observations, line by line, in a form valid for any
 * device: no numbers of QPs, keys, addresses or times. Each run of a scenario is a process of its
 * own (the worker): it opens, acts, prints and exits, so that a hang, a crash or a leftover of one
 * cannot touch the next; the kernel or the library's end cleans up.
 *
 * Everything here is plain verbs: the program links to libibverbs like any other, and uses nothing
 * of rocemu but its command lines and JSON. The caller's LD_LIBRARY_PATH selects the libibverbs
 * (runner.c).
 */
#ifndef PARITY_H
#define PARITY_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

/* ---- one end of a pair (ends.c) ---- */

enum {
	MEM_SIZE = (2 << 20) + 8192, /* registered memory of each end: */
	SRC = 4096,		     /* messages are taken from here, */
	DST = SRC + (1 << 20),	     /* and placed here */
	MSG_MAX = 1 << 20,
	GRH = 40, /* room before each datagram received */
	QKEY = 0x11111111,
	IMM = 0x11223344,
	MTU = 1024, /* of the path: what any RoCE port of 1500 bytes can do */
};

struct end {
	const char *tag; /* "req" or "rsp" */
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* of both CQs, if the setup has one */
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of all of mem, every right */
	struct ibv_ah *ah; /* towards the other end (UD) */
	uint8_t *mem;
	uint32_t psn; /* of the first request this end sends */
};

struct pair {
	struct end req, rsp;
};

/** What a scenario's QPs look like; what is 0 takes the default named there. */
struct setup {
	enum ibv_qp_type type; /* RC */
	unsigned access;       /* of the QPs for their peers: every right; NO_ACCESS: none */
	uint32_t depth;	       /* send and receive requests: 32 */
	uint32_t sge;	       /* 1 */
	uint32_t inline_bytes;
	uint64_t ops; /* IBV_QP_EX_WITH_*: made by ibv_create_qp_ex */
	uint32_t psn; /* of the requester: 0x123456 */
	uint8_t timeout, retry, rnr_retry, rnr_timer; /* 14 (67 ms), 7, 7, 1 (10 us) */
	uint8_t rd_atomic;			      /* 1 */
	bool srq;				      /* at the responder */
	bool unsignaled;			      /* sq_sig_all = 0 */
	bool channel;
	enum ibv_qp_state state; /* how far to go: RTS; STAY_RESET for RESET */
};
#define STAY_RESET IBV_QPS_UNKNOWN
enum { NO_ACCESS = 1u << 31 };

/** Open one end's device. gid_index -1: the first RoCE v2 one that fits. Does not return when it
 *  cannot. */
void end_open(struct end *e, const char *tag, const char *device, int gid_index);
/** PD, CQs, memory, SRQ, QP in RESET. Does not return when something is not supported. */
void end_setup(struct end *e, const struct setup *s);
/** Both ends set up, connected, and brought to the setup's state. */
void pair_setup(struct pair *p, const struct setup *s);
/** Bring both ends from RESET to RTS (again). */
void pair_connect(struct pair *p, const struct setup *s);

enum step { TO_INIT, TO_RTR, TO_RTS };
/** The attributes and mask of a step towards peer, as they should be. */
int step_attr(const struct end *e, const struct end *peer, const struct setup *s, enum step step,
	      struct ibv_qp_attr *attr);

struct ibv_ah *ah_to(struct end *e, const struct end *peer);

/* ---- posting and polling (script.c) ---- */

/** A send request; what is 0 is the usual: the peer's rkey, the own lkey, from SRC to DST. */
struct msg {
	enum ibv_wr_opcode op;
	uint32_t len;
	uint32_t pieces; /* how many SGEs share len; 0: 1 */
	unsigned flags;	 /* IBV_SEND_* */
	uint64_t id;
	int64_t local, remote; /* moves the address by that many bytes */
	uint32_t lkey, rkey;
	uint32_t remote_qpn, remote_qkey; /* UD */
	uint64_t compare_add, swap;
	uint32_t srqn; /* XRC: of the remote SRQ */
};

/** Post from e to its peer; only a failure is printed. Returns ibv_post_send()'s result. */
int msg_post(struct end *e, struct end *peer, const struct msg *m);
/** The same by ibv_wr_start(), ibv_wr_*(), ibv_wr_complete(). */
int msg_post_wr(struct end *e, struct end *peer, const struct msg *m);
/** A receive of len bytes at DST + at, cut in pieces; to the SRQ where there is one. */
int recv_post_pieces(struct end *e, uint64_t id, uint32_t at, uint32_t len, uint32_t pieces);
int recv_post(struct end *e, uint64_t id, uint32_t at, uint32_t len);

/** Wait for n completions of send or receive requests and print them. */
void poll_send(struct end *e, unsigned n);
void poll_recv(struct end *e, unsigned n);
/** Print that nothing (more) has come. For use after an event that proves it would have. */
void poll_nothing(struct end *e);
/** Wait for an unacknowledged datagram to arrive; prints its receive, if there is one.
 */
void arrive_say(struct end *e);
/** Print the QP's state, once it is want or some time has passed. */
void state_say(struct end *e, enum ibv_qp_state want);
/** ibv_modify_qp(), and print the result. */
int modify_say(struct end *e, const char *what, struct ibv_qp_attr *attr, int mask);
int modify_state(struct end *e, enum ibv_qp_state to);
/** The pair with rsp in RTR alone; req goes on to RTS, which is printed. */
void setup_receiver_in_rtr(struct pair *p);
/** Wait for an async event and print its name, or that there is none. */
void async_say(struct end *e);
/** Wait for a completion event and print its CQ. */
void comp_event_say(struct end *e, bool expected);
/** A digest of all of the memory of both ends. */
void memory_say(struct pair *p);

/* ---- output (script.c) ---- */

void say(const struct end *e, const char *fmt, ...) PRINTF(2, 3);
/** "what: ok" or the name of the errno. */
int say_result(const struct end *e, const char *what, int err);
/** End the run: this device (or libibverbs) cannot do it; the reason stands in the table. */
void unsupported(const struct end *e, const char *fmt, ...) PRINTF(2, 3) __attribute__((noreturn));
/** unsupported() if errno means that, else print the error and end the run. */
void failed(const struct end *e, const char *what) __attribute__((noreturn));
/** End the run: the scenario could not begin. */
void broken(const char *fmt, ...) PRINTF(1, 2) __attribute__((noreturn));

/** Exit codes of a worker. */
enum { RUN_OK = 0, RUN_UNSUPPORTED = 3, RUN_BROKEN = 4, RUN_NO_DEVICE = 5 };

/* text.c: names that are the same with every version of libibverbs */
const char *text_errno(int err);
const char *text_status(enum ibv_wc_status s);
const char *text_wc_opcode(enum ibv_wc_opcode op);
const char *text_state(enum ibv_qp_state s);
const char *text_event(enum ibv_event_type t);
const char *text_op(enum ibv_wr_opcode op);

/* ---- the list of scenarios (registry.c) ---- */

enum {
	ALONE = 1, /* of interest within one device only */
	RACY = 2,  /* how many packets there are is a matter of time: they are not compared */
};

struct scenario {
	char name[64]; /* subject/detail/detail */
	void (*run)(struct pair *p, const void *arg);
	const void *arg;
	unsigned flags;
};

void registry_add(void (*run)(struct pair *, const void *), const void *arg, unsigned flags,
		  const char *fmt, ...) PRINTF(4, 5);
const struct scenario *registry_all(unsigned *n);
const struct scenario *registry_find(const char *name);

/* Each subject's file adds its own. */
void scenarios_data(void);
void scenarios_wr(void);
void scenarios_errors(void);
void scenarios_states(void);
void scenarios_limits(void);
void scenarios_queries(void);
void scenarios_events(void);
void scenarios_flush(void);
void scenarios_windows(void);
void scenarios_xrc(void);

/* ---- running and comparing ---- */

enum outcome {
	OUT_SKIPPED,
	OUT_OK,
	OUT_UNSUPPORTED,
	OUT_BROKEN,
	OUT_HANG,
	OUT_CRASH,
	OUT_NO_DEVICE
};

struct transcript {
	enum outcome outcome;
	char *text;    /* owned; lines, or the reason when there are none */
	char *packets; /* owned; lines, NULL: there is no capture */
};

void transcript_free(struct transcript *t);

/** What to compare: A alone, B alone, A's QP to B's, B's to A's. */
enum { RUN_A, RUN_B, RUN_AB, RUN_BA, RUNS };
extern const char *const run_names[RUNS];

struct target {
	const char *name;
	int gid_index; /* -1: chosen */
	bool system;   /* the system's libibverbs has it */
};

struct runner {
	const char *self;    /* the program to start as worker */
	const char *drop_in; /* directories for LD_LIBRARY_PATH, or NULL: the caller's */
	unsigned timeout_ms;
	bool captures; /* emulated devices write what they send and receive to a capture */
};

/** Start a worker for a scenario and wait for its end. */
struct transcript runner_run(const struct runner *r, const struct target *req,
			     const struct target *rsp, const char *scenario);
/** What the capture of a run shows, a line a packet (packets.c); NULL: there is none. */
char *packets_read(const char *path);
int worker_main(int argc, char **argv);

enum { WHYS = 6 };
enum verdict { SAME, DIFFERS, KNOWN, UNSTABLE, UNSUPPORTED, FAILED, VERDICTS };

struct result {
	const struct scenario *scenario;
	struct transcript run[RUNS];
	enum verdict verdict;
	bool not_a, not_b;     /* UNSUPPORTED by which */
	unsigned differs;      /* bit RUN_*: differs from RUN_A */
	const char *why[WHYS]; /* KNOWN: the explanations of its lines, each once */
	unsigned nwhy;
};

/** Explanations of differences: built-in ones, and those of a file. */
struct known {
	char *scenario, *line, *why; /* owned; the first two are patterns as of fnmatch(3) */
};
struct known_list {
	struct known *items;
	unsigned n;
};
/** Those of that name: "" for all devices, "rxe". @return false: no such name. */
bool known_builtin(struct known_list *k, const char *name);
/** @return false: the file is wrong, with a message on stderr. */
bool known_read(struct known_list *k, const char *path);
/** Why that line of that scenario may differ, or NULL. */
const char *known_find(const struct known_list *k, const char *scenario, const char *line);

/** Fill r's verdict from its transcripts. */
void compare(struct result *r, const struct known_list *k);
/** The run that the packets of the others are held against: the first that has a capture; RUNS:
 *  none has. */
unsigned packets_from(const struct result *r);
/** diff() of a run against A's transcript, and of its packets where both have some. */
void diff_run(const struct result *r, unsigned run,
	      void (*line)(void *arg, char mark, const char *text), void *arg);
/** Call line for each line that only one of two texts has, in order: '-' in a, '+' in b, ' ' in
 *  both. */
void diff(const char *a, const char *b, void (*line)(void *arg, char mark, const char *text),
	  void *arg);

/** Print what came of n scenarios. across: NULL, or why there were no runs from one to the other.
 */
typedef void report_fn(const struct result *results, unsigned n, const struct target t[2],
		       const char *across);
report_fn report_table, report_json, report_markdown;

/** What a run's transcript and packets are compared with, in words. */
const char *against(const struct result *r);
extern const char *const verdict_names[VERDICTS];
void count_verdicts(const struct result *r, unsigned n, unsigned counts[VERDICTS]);

#endif
