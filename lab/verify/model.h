/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of verify while it reads a capture: flows (packets from one host to one QP), their
 * pairing into connections, and findings. Memory grows with connections, not with packets: each
 * flow remembers a bounded number of its newest requests.
 */
#ifndef VERIFY_MODEL_H
#define VERIFY_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rocemu/wire.h>

#include "base/hash.h"
#include "base/prf.h"
#include "rules.h"
#include "capture/capture-read.h"

enum {
	MAX_FLOWS = 1 << 16,
	MAX_SENT = 1 << 12, /* requests remembered per flow */
	MIN_SENT = 1 << 4,
	SENT_BYTES = 256 << 20, /* of all flows: when it is used up, each keeps fewer */
	MAX_PENDING = 256,	/* READs and atomics remembered per flow */
	PSN_NEAR = 1 << 16,	/* a PSN farther away than this is another connection's */
	FINDING_TEXT = 160,
	RTT_STEPS = 8, /* histogram steps per doubling */
	RTT_BUCKETS = 40 * RTT_STEPS,
	RATE_SLOTS = 60,
	VIEWS_MOST = 5, /* copies of each packet: fewer */
	PAIRS = 1 << 12,
	SENDERS = 1 << 12,
	ID_COUNT = 4, /* IPv4 identifications remembered of a packet's copies */
};

/** A packet under judgement. */
struct pkt {
	const struct capture_rec *rec;
	uint64_t number; /* packet_number() */
	struct rocemu_packet p;
	uint32_t ops;
	uint32_t hdrs; /* ROCEMU_HDR_* of the extension headers that the capture has */
	bool cut;
	bool hides; /* may be a burst's first packet: payload_len is the burst's */
	bool icrc_wrong;
};

struct finding {
	enum rule_id rule;
	uint64_t number; /* packet_number() that it was found at; 0: the end of the capture */
	uint64_t ts_ns;
	bool beyond; /* those of its kind that are reported; kept for annotations */
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
	uint32_t span; /* PSNs that it takes; 0: a READ of unknown MTU */
	uint32_t len;
	uint32_t digest; /* of what a retransmission must repeat */
	uint32_t epoch;	 /* the same for all that follow each other without a gap */
	uint32_t done;	 /* messages that end with this packet or before it; within an epoch */
	uint32_t offset, reth_len; /* packets since the message's beginning, where that is known */
	uint32_t srqn;
	uint16_t ip_ids[ID_COUNT]; /* of its copies, the newest first */
	uint16_t copies, rnrs;	   /* of it, and the RNR NAKs for it */
	uint8_t opcode;
	bool whole; /* the capture has all of its headers */
	bool hides; /* as pkt's: len is not known */
	bool begin_known;
	bool anchored; /* the packet before it was seen */
	bool tail;     /* stands for a READ, at its last PSN */
	bool used;
};

/** A READ or atomic that awaits its response, or has it. */
struct pending {
	uint64_t number;
	uint64_t va;
	uint64_t result; /* of an atomic, once answered */
	uint64_t swap_add, compare;
	uint64_t seen; /* of the responses before next: bit 0 is the newest */
	uint32_t psn, rkey;
	uint32_t len;
	uint32_t next;	 /* the response expected */
	uint32_t hidden; /* as requests' hidden: responses before it need not be missing */
	uint32_t total;	 /* responses expected, 0: path MTU not known yet, or length cut */
	uint32_t room;	 /* of one whose length was cut: PSNs until the next request; 0: none yet */
	uint8_t opcode;
	bool whole; /* the capture has its header */
	bool answered;
	bool repeat; /* a READ sent again, possibly from its middle on */
};

struct resend {
	bool active;
	bool open;   /* next is the least that it can be */
	bool unsure; /* perhaps it came late, or begins another run */
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
	bool matched;	/* as many NAKs as copies of that request were seen */
};

/** A response to what was not sent yet. */
struct early {
	bool active;
	uint32_t psn;
	uint32_t passed; /* requests since, none of them missing */
	uint64_t number, ts_ns;
};

/**
 * MSN less the messages that ended before it, by plain acknowledges: the same for all of an epoch.
 * What answers a READ or an atomic may be ahead.
 */
struct msn_base {
	bool known;
	uint32_t epoch, base;
	uint32_t psn;	 /* the newest that agreed */
	uint32_t agreed; /* acknowledges */
};

/** The requests of a flow, and the answers of the other direction. */
struct requests {
	bool started;
	uint32_t first;	 /* the first PSN seen */
	uint32_t next;	 /* PSN expected */
	uint32_t newest; /* PSN of the request before that */
	bool next_open;	 /* after a READ of unknown MTU or length: next is only its least value */
	struct pending *open_read;
	uint32_t
		hidden; /* PSNs before it need not be missing: bursts that were cut may have them */
	bool veiled;	/* it has packets that the capture hides, or whose headers were cut */
	uint32_t mads_cut; /* as verify's when the last request passed */
	struct sent *sent; /* owned ring, by PSN */
	uint32_t sent_mask;
	bool forgot; /* a request that was seen had to make room */
	uint32_t epochs;
	struct pending *pending; /* owned ring, newest at pending_n - 1 */
	uint32_t pending_n, pending_room;
	bool una_known;
	uint32_t una; /* all before are acknowledged */
	struct msn_base msn;
	bool gap;
	uint32_t gap_psn;
	struct resend resend;
	bool resend_unsure; /* since the last new request a packet came late, or was sent again */
	struct nak nak;
	struct early early;
	bool credit_used, credit_none, limit_known;
	uint32_t limit; /* MSN up to which SENDs are allowed */
	uint64_t packets, again, bytes;
};

/** Bytes over time: a fixed number of slots whose width doubles as the capture continues. */
struct rate {
	uint64_t start_ns, width_ns;
	uint64_t bytes[RATE_SLOTS];
};

struct hosts;
struct tentative;

/** Packets of one transport service from one address to one QP of another. */
struct flow {
	struct hash_node node; /* in verify.flow_table, by addresses, service and QP */
	struct flow *hosts_next, *all_next, **all_link;
	struct flow *idle_next, **idle_link; /* the one idle longest first */
	struct hosts *hosts;
	struct flow *peer; /* the other direction, once known */
	bool peer_told;	   /* by the CM; else it was found by PSNs */
	uint32_t dqpn;
	enum rocemu_service svc;
	uint16_t sport, pkey;
	bool pkey_known, qkey_known;
	uint32_t qkey; /* of a UD receiver */
	uint32_t mtu;  /* 0: not known yet */
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
	struct tentative *tentative; /* owned */
	unsigned tentative_n;
	uint64_t clock, disorder_at; /* packets of the connection since the flow is there */
	bool disordered;
	bool cut;   /* packets of it were: possibly bursts, whose lengths are not the packets' */
	bool veils; /* responses of it are not known: hidden in bursts, or their AETH was cut */
	unsigned index; /* of the connection; set at the end */
	bool second;	/* of its two directions; set at the end */
};

struct hosts {
	struct rocemu_gid src, dst;
	enum rocemu_service svc;
	struct hash_node node; /* in verify.hosts_table, by addresses and service */
	struct hosts *reverse;
	struct flow *flows;
	unsigned pair; /* veil_pair() */
};

struct packet_log;
struct cm_exchange;
struct ud_source;
struct view;

struct verify {
	struct prf
		prf; /* of the tables' hashes, so that a crafted capture cannot make long chains */
	unsigned show; /* findings of each rule reported per flow */
	unsigned keep; /* and kept: not fewer */
	bool follow_json;
	struct hash flow_table;	 /* of struct flow */
	struct hash hosts_table; /* of struct hosts; owned */
	struct flow *flows, **flows_tail;
	struct flow *idle, **idle_tail; /* followed: the flows by when their last packet passed */
	unsigned flow_most, connections;
	uint64_t forgotten;	  /* flows that were, to make room */
	size_t sent_bytes;	  /* of all flows' requests that are remembered */
	FILE *follow;		  /* borrowed; NULL: findings are not printed as they are made */
	struct encap_ports ports; /* none: the default */
	const volatile sig_atomic_t *stop; /* borrowed, or NULL */
	uint64_t dropped;		   /* frames, by a live capture */
	struct capture_passed passed;
	struct hash exchanges; /* of struct cm_exchange, by both hosts and the active side's ID */
	struct cm_exchange *first_exchange, **last_exchange; /* the same in order of time; owned */
	struct hash ud_sources;	  /* of struct ud_source, owned; by address and QPN */
	struct packet_log *log;	  /* NULL: not requested */
	struct findings findings; /* of no flow */
	struct view *views;	  /* owned; where packets were seen */
	uint64_t frames, packets, bytes, icrc_checked, icrc_unchecked, icrc_wrong;
	unsigned copies; /* that nearly each packet of the file has; 0: not known */
	uint64_t seen_elsewhere, bursts, by_encap[ENCAP_COUNT];
	uint64_t roce_v1;	       /* packets of RoCEv1 */
	uint64_t headers_cut, bth_cut; /* packets without all of their headers; without the BTH */
	bool deth_cut;
	uint8_t between[PAIRS]; /* by hash of two hosts: BETWEEN_* */
	uint32_t mads_cut[PAIRS];
	uint64_t senders[SENDERS];	     /* digests of those whose deviation is noted */
	uint64_t first_ns, last_ns, idle_ns; /* idle: when idle flows were looked for */
	uint64_t by_severity[SEV_COUNT], by_rule[RULE_COUNT];
	bool ignored[RULE_COUNT];
	uint64_t by_ignored[RULE_COUNT];
	bool out_of_memory;
};

/** Of what the capture does not have of the packets between two hosts. */
enum { BETWEEN_BTH_CUT = 1, BETWEEN_MAD_CUT = 2, BETWEEN_HEADERS_CUT = 4, BETWEEN_ANY = 7 };

enum { SEGMENT_BITS = 12, SEGMENT_MASK = (1 << SEGMENT_BITS) - 1 };

/** A packet by its frame's number in the file and, of a burst, its own in that frame, from 1. */
static inline uint64_t packet_number(uint64_t frame, unsigned segment)
{
	return frame << SEGMENT_BITS | segment;
}

/** As reports have it: "12", or "12.3" of a burst. Borrowed; good for a few calls. */
const char *packet_name(uint64_t number);

/** Note a finding at a packet; f and p may be NULL. */
__attribute__((format(printf, 6, 7))) void found_at(struct verify *v, struct flow *f,
						    enum rule_id rule, uint64_t number,
						    uint64_t ts_ns, const char *fmt, ...);
#define FOUND(v, f, rule, p, ...) \
	found_at(v, f, RULE_##rule, (p)->number, (p)->rec->ts_ns, __VA_ARGS__)

/** A finding that is certain unless there is doubt; then UNDECIDED has it. */
__attribute__((format(printf, 7, 8))) void found_unless(struct verify *v, struct flow *f,
							bool doubt, enum rule_id rule,
							uint64_t number, uint64_t ts_ns,
							const char *fmt, ...);
#define FOUND_UNLESS(doubt, v, f, rule, p, ...) \
	found_unless(v, f, doubt, RULE_##rule, (p)->number, (p)->rec->ts_ns, __VA_ARGS__)

/** A table's key of two addresses (dst may be NULL) and a number. */
uint64_t hosts_digest(const struct verify *v, const struct rocemu_gid *src,
		      const struct rocemu_gid *dst, uint64_t number);

/* ---- flow.c ---- */

/** NULL: no such packet came. */
struct flow *flow_find(const struct verify *v, const struct ip_udp *ip, enum rocemu_service svc,
		       uint32_t dqpn);
/** The flow of a packet, made when there is none; NULL: too many. */
struct flow *flow_get(struct verify *v, const struct ip_udp *ip, enum rocemu_service svc,
		      uint32_t dqpn);
/** Two flows are one connection's. */
void flow_pair(struct verify *v, struct flow *a, struct flow *b);
/** Find the flow whose request PSN a response of r answers, and pair the two; NULL: none, or
 * several. */
struct flow *flow_pair_by_response(struct verify *v, struct flow *r, const struct pkt *p);
/** Drop the state of the flow's requests: a new connection began. */
void flow_restart(struct flow *f);
void flow_free(struct flow *f);
/** A packet of it passed: it is idle last. */
void flow_active(struct verify *v, struct flow *f);
void rate_add(struct rate *r, uint64_t ts_ns, uint64_t bytes);
void rtt_add(struct flow *f, uint64_t ns);
/** The q-th (0..1) quantile of the round trips, in ns; 0: none measured. */
uint64_t rtt_quantile(const struct flow *f, double q);

/* ---- veil.c ---- */

/** The extension header of this ROCEMU_HDR_* bit is there. */
static inline bool pkt_has(const struct pkt *p, uint32_t hdr)
{
	return (p->hdrs & hdr) != 0;
}
/** Packets that may be behind p in its frame, at most. */
uint32_t veil_behind(const struct pkt *p);
/** A number of two hosts, below PAIRS; the same for both directions. */
unsigned veil_pair(const struct verify *v, const struct rocemu_gid *a, const struct rocemu_gid *b);
/** The BTH of a packet was cut, other headers, or a MAD (BETWEEN_*). */
void veil_note(struct verify *v, const struct ip_udp *ip, uint8_t what);
/** That happened to packets between two hosts, in either direction. */
static inline bool veil_between(const struct verify *v, unsigned pair, uint8_t what)
{
	return (v->between[pair] & what) != 0;
}
/** So many times to MADs. */
uint32_t veil_mads(const struct verify *v, const struct flow *f);
/**
 * Not all requests of q, or not all answers to them, are known: some are hidden in bursts that were
 * cut, or were cut themselves. What follows from a packet's absence is then not certain.
 */
bool veiled(const struct verify *v, const struct flow *q);

/* ---- sent.c ---- */

/** The request packet with this PSN; NULL: not seen, or dropped. A READ is found at its last PSN,
 * too. */
struct sent *sent_find(const struct requests *rq, uint32_t psn);
/**
 * Record a request packet and check it with its neighbours.
 * @param span  PSNs that it takes: more than 1 for READs only, 0 when that is not known yet
 * @return borrowed until the next call; NULL: no memory.
 */
struct sent *sent_add(struct verify *v, struct flow *f, const struct pkt *p, uint32_t span);
/** It became known how many PSNs it takes. */
void sent_span(struct verify *v, struct flow *f, struct sent *s, uint32_t span);
/** Can p be the same as s, sent again? Where headers were cut, perhaps. */
enum sameness { DIFFERS, PERHAPS_SAME, SAME };
enum sameness sent_same(const struct sent *s, const struct pkt *p);

/* ---- pending.c ---- */

/** @return borrowed until the next call; NULL: no memory. */
struct pending *pending_add(struct verify *v, struct flow *f, const struct pkt *p, bool repeat);
/** The READ, not itself a repetition, that a PSN lies in; NULL: not recorded. */
struct pending *pending_original(const struct requests *rq, uint32_t psn);
/** A READ at the PSN of an earlier one, of other memory: no repetition. */
bool read_elsewhere(const struct requests *rq, const struct pkt *p);
/** A READ was sent again. @return as pending_add(). */
struct pending *read_again(struct verify *v, struct flow *f, const struct pkt *p);
/** Responses of a READ of len bytes. */
uint32_t read_responses(uint32_t len, uint32_t mtu);
/** The path MTU became known: compute what depended on it. */
void request_mtu_known(struct verify *v, struct flow *f);
/**
 * A request with this PSN follows a READ whose number of responses is not known: the MTU is not, or
 * its length was cut. The PSN would show it if no request between the two were missing, which is
 * not certain: so continue from here without it.
 */
void pending_settle_open(struct flow *f, uint32_t psn);

/* ---- report.c ---- */

/** Print a finding as it is made; tentative: it is held back, and may not become one. */
void follow_print(const struct verify *v, const struct flow *f, const struct finding *n,
		  bool tentative);

/* ---- tentative.c ---- */

/** A sign that packets of the connection are missing, double or out of order. */
void disorder(struct verify *v, struct flow *f);
/** A finding that such a network explains as well. */
__attribute__((format(printf, 6, 7))) void tentative_at(struct verify *v, struct flow *f,
							enum rule_id rule, uint64_t number,
							uint64_t ts_ns, const char *fmt, ...);
#define TENTATIVE(v, f, rule, p, ...) \
	tentative_at(v, f, RULE_##rule, (p)->number, (p)->rec->ts_ns, __VA_ARGS__)
/** A packet of the flow passes. */
void tentative_tick(struct verify *v, struct flow *f);
void tentative_finish(struct verify *v, struct flow *f);

/* ---- requests.c ---- */

void request_input(struct verify *v, struct flow *f, const struct pkt *p);
/** Nothing more of the flow came for a while. */
void request_idle(struct verify *v, struct flow *f, uint64_t now_ns);
/** The end of the capture: report open findings. */
void request_finish(struct verify *v, struct flow *f);

/* ---- responses.c ---- */

void response_input(struct verify *v, struct flow *r, const struct pkt *p);

/* ---- form.c ---- */

/** Decode and check a packet by itself. @return false: not to be judged further. */
bool form_check(struct verify *v, struct pkt *p, const struct capture_rec *rec);
/** A later IP fragment. */
void form_check_fragment(struct verify *v, const struct pkt *p);
/** What is checked of a packet once its flow is known. */
void form_check_flow(struct verify *v, struct flow *f, const struct pkt *p);

/* ---- senders.c ---- */

/** The reserved bits of the BTH are a known adapter's; noted once for each sender. */
bool sender_known(struct verify *v, const struct pkt *p);

/* ---- ud.c ---- */

void ud_input(struct verify *v, struct flow *f, const struct pkt *p);
/** Multicast addresses and QPN 0xffffff belong together. For packets of all services. */
void multicast_check(struct verify *v, struct flow *f, const struct pkt *p);
void ud_free(struct verify *v);

/* ---- exchange.c ---- */

/** A packet to QP 1. */
void exchange_input(struct verify *v, const struct pkt *p);
/** The end of the capture: report unanswered requests. */
void exchange_finish(struct verify *v);
void exchange_free(struct verify *v);
struct rocemu_cm_msg;
/** The exchange that a message belongs to; NULL: its REQ was not seen. */
const struct cm_exchange *exchange_of_message(struct verify *v, const struct ip_udp *ip,
					      const struct rocemu_cm_msg *m);

/* ---- views.c ---- */

/** The same packet as one that was seen at another interface, and has not been seen at this one. */
bool view_again(struct verify *v, const struct capture_rec *rec);
/** Before the capture is judged: a packet of its beginning; and what that beginning shows. */
void view_note(struct verify *v, const struct capture_rec *rec);
void views_decide(struct verify *v);

/* ---- packetlog.c ---- */

struct packet_log *packet_log_new(unsigned limit);
void packet_log_free(struct packet_log *l);
void packet_log_add(struct verify *v, const struct pkt *p, struct flow *f, bool decoded);

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & ROCEMU_PSN_MASK;
}

#endif
