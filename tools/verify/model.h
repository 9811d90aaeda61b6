/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What verify knows of a capture while it reads: flows (packets from one host to one QP), their
 * pairing into connections, and what was found. Memory grows with connections, not with packets:
 * each flow remembers a bounded number of its newest requests.
 */
#ifndef VERIFY_MODEL_H
#define VERIFY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/wire.h>

#include "rules.h"
#include "wire/capture.h"

enum {
	MAX_FLOWS = 1 << 16,
	MAX_SENT = 1 << 12, /* requests remembered per flow */
	MIN_SENT = 1 << 4,
	MAX_ASKED = 256,    /* READs and atomics remembered per flow */
	PSN_NEAR = 1 << 16, /* a PSN farther away than this is another connection's */
	FINDING_TEXT = 160,
	RTT_STEPS = 8, /* histogram steps per doubling */
	RTT_BUCKETS = 40 * RTT_STEPS,
	RATE_SLOTS = 60,
};

/** A packet under judgement. */
struct pkt {
	const struct capture_rec *rec;
	struct rocemu_packet p;
	uint32_t ops;
	bool cut;
};

struct finding {
	enum rule_id rule;
	uint64_t number; /* of the packet it was found at; 0: the end of the capture */
	uint64_t ts_ns;
	char text[FINDING_TEXT];
};

/** Findings of a flow, or of none: all counted, the first few of each rule kept. */
struct findings {
	struct finding *kept; /* owned */
	uint32_t n, room;
	uint64_t count[RULE_COUNT];
};

/** A request packet that was seen. */
struct sent {
	uint64_t number, ts_ns; /* of its newest copy */
	uint32_t psn;
	uint32_t len;
	uint32_t digest; /* of what a retransmission must repeat */
	uint32_t done;	 /* messages completed with this packet, from the flow's start on */
	uint16_t ip_id;
	uint16_t epoch; /* `done` of different epochs cannot be compared */
	uint8_t opcode;
	bool again; /* seen more than once */
	bool late;  /* filled a gap: `done` is not known */
	bool used;
};

/** A READ or atomic that awaits its response, or has it. */
struct asked {
	uint64_t number;
	uint64_t va;
	uint64_t result; /* of an atomic, once answered */
	uint64_t swap_add, compare;
	uint32_t psn, rkey;
	uint32_t len;
	uint32_t done;	/* messages completed with this one */
	uint32_t next;	/* responses seen in order */
	uint32_t total; /* responses expected, 0: path MTU not known yet */
	uint16_t epoch;
	uint8_t opcode;
	bool answered;
	bool repeat; /* a READ sent again, perhaps from its middle on */
};

/** The message that a requester is in the middle of. */
struct message {
	bool open;
	bool start_known;
	uint32_t kind; /* ROCEMU_OP_SEND or WRITE */
	uint32_t first_psn;
	uint32_t reth_len;
};

struct resend {
	bool active;
	uint32_t start, next, packets;
	uint64_t first_number, cause_number;
	enum { CAUSE_OTHER, CAUSE_NAK, CAUSE_RNR } cause;
};

/** The newest NAK that sends the requester back. */
struct nak {
	bool active;
	bool rnr;
	uint32_t psn;
	uint64_t number, ts_ns, wait_ns;
	uint16_t ip_id; /* of the request that was refused */
};

/** The requests of a flow, and what the other direction said to them. */
struct requests {
	bool started;
	uint32_t next;	/* PSN expected */
	bool next_open; /* after a READ with unknown MTU: next is only its least value */
	struct asked *open_read;
	struct message msg;
	struct sent *sent; /* owned ring, by PSN */
	uint32_t sent_mask;
	struct asked *asked; /* owned ring, newest at asked_n - 1 */
	uint32_t asked_n;
	uint32_t done;
	uint16_t epoch;
	bool una_known;
	uint32_t una; /* all before are acknowledged */
	bool msn_known;
	uint16_t msn_epoch;
	/* The MSN before the first message lies between these two (all 24 bits). */
	uint32_t msn_low, msn_high;
	bool msn_low_known;
	bool gap;
	uint32_t gap_psn;
	struct resend resend;
	struct nak nak;
	struct {
		bool active;
		uint32_t psn;
		uint64_t number, ts_ns;
	} unsent;
	bool credit_used, credit_none, limit_known;
	uint32_t limit; /* message number up to which SENDs are allowed */
	uint64_t packets, again, bytes;
};

/** Bytes over time: a fixed number of slots whose width doubles as the capture goes on. */
struct rate {
	uint64_t start_ns, width_ns;
	uint64_t bytes[RATE_SLOTS];
};

struct hosts;

/** Packets of one transport service from one address to one QP of another. */
struct flow {
	struct flow *hash_next, *hosts_next, *all_next;
	struct hosts *hosts;
	struct flow *peer; /* the other direction, once known */
	uint32_t dqpn;
	enum rocemu_service svc;
	uint16_t sport, pkey;
	bool pkey_known;
	uint32_t mtu; /* 0: not known yet */
	bool psn_announced;
	uint32_t announced_psn;
	uint64_t packets, wire_bytes, first_ns, last_ns, first_number;
	uint64_t acks, naks, rnrs, ce, cnps, judged, unpaired;
	uint64_t response_bytes;
	struct requests rq;
	uint32_t *rtt; /* owned; histogram of ACK round trips of rq */
	uint64_t rtt_n;
	struct rate rate;
	struct findings findings;
	unsigned index; /* of the connection; set at the end */
	bool second;	/* of its two directions; set at the end */
};

struct hosts {
	struct rocemu_gid src, dst;
	enum rocemu_service svc;
	struct hosts *hash_next, *reverse;
	struct flow *flows;
};

struct packet_log;
struct cm_exchange;

struct verify {
	unsigned keep; /* findings of each rule kept per flow */
	struct flow **flow_hash;
	struct hosts **hosts_hash;
	struct flow *flows, **flows_tail;
	unsigned flow_n, connections;
	struct cm_exchange *exchanges;
	unsigned exchange_n;
	struct packet_log *log;	  /* NULL: not wanted */
	struct findings findings; /* of no flow */
	uint64_t frames, packets, bytes, icrc_checked, icrc_unchecked, icrc_wrong;
	uint64_t first_ns, last_ns;
	uint64_t by_severity[SEV_COUNT], by_rule[RULE_COUNT];
	bool out_of_memory;
	uint8_t scratch[ROCEMU_MAX_PACKET];
};

/** Note a finding at a packet; f and p may be NULL. */
__attribute__((format(printf, 6, 7))) void found_at(struct verify *v, struct flow *f,
						    enum rule_id rule, uint64_t number,
						    uint64_t ts_ns, const char *fmt, ...);
#define FOUND(v, f, rule, p, ...) \
	found_at(v, f, RULE_##rule, (p)->rec->number, (p)->rec->ts_ns, __VA_ARGS__)

/* ---- flow.c ---- */

/** The flow of a packet, made when there is none; NULL: too many. */
struct flow *flow_get(struct verify *v, const struct ip_udp *ip, enum rocemu_service svc,
		      uint32_t dqpn);
/** Two flows are one connection's. */
void flow_pair(struct flow *a, struct flow *b);
/** Find the flow whose request PSN a response of r answers, and pair the two; NULL: none, or
 * several. */
struct flow *flow_pair_by_response(struct flow *r, const struct pkt *p);
/** Forget what is known of the flow's requests: a new connection began. */
void flow_restart(struct flow *f);
void flow_free(struct flow *f);
void rate_add(struct rate *r, uint64_t ts_ns, uint64_t bytes);
void rtt_add(struct flow *f, uint64_t ns);
/** The q-th (0..1) quantile of the round trips, in ns; 0: none measured. */
uint64_t rtt_quantile(const struct flow *f, double q);

/* ---- requests.c ---- */

void request_input(struct verify *v, struct flow *f, const struct pkt *p);
/** The end of the capture: say what is still open. */
void request_finish(struct verify *v, struct flow *f);
struct sent *sent_find(const struct requests *rq, uint32_t psn);
/** Responses of a READ of len bytes. */
uint32_t read_responses(uint32_t len, uint32_t mtu);
/** The path MTU became known: compute what depended on it. */
void request_mtu_known(struct flow *f);

/* ---- responses.c ---- */

void response_input(struct verify *v, struct flow *r, const struct pkt *p);

/* ---- form.c ---- */

/** Decode and check a packet by itself. @return false: not to be judged further. */
bool form_check(struct verify *v, struct pkt *p, const struct capture_rec *rec);
/** What is checked of a packet once its flow is known. */
void form_check_flow(struct verify *v, struct flow *f, const struct pkt *p);

/* ---- exchange.c ---- */

/** A packet to QP 1. */
void exchange_input(struct verify *v, const struct pkt *p);
void exchange_free(struct verify *v);

/* ---- packetlog.c ---- */

struct packet_log *packet_log_new(unsigned limit);
void packet_log_free(struct packet_log *l);
void packet_log_add(struct packet_log *l, const struct pkt *p, struct flow *f, bool decoded);

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & ROCEMU_PSN_MASK;
}

#endif
