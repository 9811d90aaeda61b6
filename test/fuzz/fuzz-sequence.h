/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz-sequence: an RC, a UC, an XRC target and an XRC initiator QP, and a peer of each that keeps
 * its state between packets. A QP's peer is a correct one on a bad network until a hostile step;
 * then only safety is checked.
 *
 * Of a peer as requester there is a stream of packets, which the input composes and delivers in any
 * order. Of a peer as responder there is the next PSN that it expects, and the READ requests that
 * it has received.
 *
 * An input is a list of steps, a byte each (modulo SEQ_STEPS), each followed by its bytes; what is
 * missing is 0.
 */
#ifndef TEST_FUZZ_SEQUENCE_H
#define TEST_FUZZ_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

enum seq_step {
	SEQ_COMPOSE, /* QP, kind, length: a message is added to the peer's stream */
	SEQ_DELIVER, /* QP, which: counted from the oldest not acknowledged; from 200 on: an older
			one */
	SEQ_RUN,     /* QP, which, count, mask of those lost */
	SEQ_RECV,    /* QP, count */
	SEQ_POST,    /* QP, kind, length */
	SEQ_OUTPUT,  /* descriptors at a time, at most how many calls */
	SEQ_TIME,    /* how far; from 128 on: to the next deadline */
	SEQ_ANSWER,  /* QP, how (enum seq_answer), which */
	SEQ_ANSWER_ALL,	  /* QP: what a correct responder would have sent by now */
	SEQ_CNP,	  /* QP, what is wrong with it */
	SEQ_BAD_REQUEST,  /* QP, opcode, PSN, flags, payload, DMA length, offset */
	SEQ_BAD_RESPONSE, /* QP, opcode, PSN, syndrome, payload */
	SEQ_REVIVE,	  /* QP: through RESET, when it is in error */
	SEQ_STEPS,
};

enum seq_answer {
	SEQ_ACCEPT, /* the responder has received so many more packets */
	SEQ_ACK,
	SEQ_NAK,
	SEQ_RNR,
	SEQ_READ_RESPONSE,
	SEQ_ATOMIC_RESPONSE,
	SEQ_ANSWERS,
};

enum seq_kind { SEQ_SEND, SEQ_WRITE, SEQ_WRITE_IMM, SEQ_READ, SEQ_ADD, SEQ_KINDS };

enum { SEQ_RC, SEQ_UC, SEQ_XRC_TARGET, SEQ_XRC_SEND, SEQ_QPS };

enum {
	SEQ_MTU = 256,
	SEQ_GUARD = 256,
	SEQ_TARGET = 4096,   /* memory of a QP that its peer may use: */
	SEQ_WRITABLE = 1024, /* ... up to here counters, from here on WRITEs, */
	SEQ_READABLE = 3072, /* ... from here on what is only READ */
	SEQ_ROOM = 1024,     /* of a request or receive */
	SEQ_DEPTH = 16,
	SEQ_SLOTS = SEQ_DEPTH,
	SEQ_MSG = 768,
	SEQ_STREAM = 256,
	SEQ_REQUESTS = 192,
	SEQ_PSNS = SEQ_REQUESTS * SEQ_MSG / SEQ_MTU,
	SEQ_READS_SEEN = 32,
	SEQ_RD_ATOMIC = 4,
	SEQ_FIRST_PSN = 0xffffe0, /* PSNs wrap */
	SEQ_PEER_QPN = 0x8011,
};

/** A packet of the peer's stream. PSNs count from SEQ_FIRST_PSN. */
struct seq_packet {
	enum seq_kind kind;
	uint8_t op; /* without the service */
	uint32_t psn, span, payload, offset, dma_len, message, before;
	bool delivered;
};

/** A request of the QP under test. */
struct seq_request {
	enum seq_kind kind;
	uint32_t psn, span, len, offset;
};

struct seq_qp {
	struct rocemu_qp *qp;
	struct rocemu_cq *cq;
	enum ibv_qp_type type;
	struct rocemu_mr *mr; /* of target */
	bool hostile;	      /* something came that no correct peer sends */
	unsigned timeouts;
	/* The peer as requester. */
	struct seq_packet stream[SEQ_STREAM];
	unsigned packets, acked; /* of the stream: those before acked are answered */
	uint32_t stream_psn, messages, adds;
	uint64_t recvs_posted, recvs_done, recvs_base, messages_done;
	/* The peer as responder. */
	struct seq_request request[SEQ_REQUESTS];
	unsigned requests, completed;
	uint32_t request_psn, sent_end, accepted, acked_to;
	struct seq_read {
		uint32_t psn, offset, len;
	} seen[SEQ_READS_SEEN];
	unsigned reads_seen;
	uint8_t answered[SEQ_PSNS], sent[SEQ_PSNS];
	/* Memory: guard, target, guard; what the QP sends; what it READs into; receives. */
	uint8_t target[SEQ_GUARD + SEQ_TARGET + SEQ_GUARD] __attribute__((aligned(64)));
	uint8_t source[SEQ_SLOTS][SEQ_ROOM] __attribute__((aligned(64))), back[SEQ_SLOTS][SEQ_ROOM],
		recv[SEQ_SLOTS][SEQ_ROOM];
	struct rocemu_mr *source_mr, *back_mr, *recv_mr;
};

struct seq {
	const uint8_t *in, *end;
	rocemu_ns_t now;
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_xrcd *xrcd;
	struct rocemu_srq *srq;
	struct rocemu_gid self, peer;
	uint8_t tclass; /* of what the endpoint receives */
	struct seq_qp q[SEQ_QPS];
};

static inline uint8_t seq_take(struct seq *s)
{
	return s->in < s->end ? *s->in++ : 0;
}

/** The byte at offset i of what has this number. */
static inline uint8_t seq_byte(uint32_t number, uint32_t i)
{
	return (uint8_t)(number * 37 + i * 11 + (i >> 8) * 5 + 1);
}

static inline bool seq_requests(const struct seq_qp *q) /* has a send queue that is reliable */
{
	return q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_SEND;
}

/* The endpoint and its objects (fuzz-sequence-world.c). */
void seq_open(struct seq *s);
void seq_close(struct seq *s);
void seq_connect(struct seq *s, struct seq_qp *q);
void seq_check_memory(const struct seq *s);
/** Give the endpoint a packet with a right ICRC; h without pad and QPN. */
void seq_input(struct seq *s, struct seq_qp *q, struct rocemu_hdrs *h, const uint8_t *payload,
	       uint32_t len);
/** Take what the endpoint sends, `ask` descriptors a call, at most `calls` calls. @return packets.
 */
unsigned seq_output(struct seq *s, unsigned ask, unsigned calls);
void seq_take_completions(struct seq *s, struct seq_qp *q);
void seq_expire(struct seq *s, rocemu_ns_t to);

/* The peer as requester (fuzz-sequence-in.c). */
void seq_compose(struct seq_qp *q, uint8_t kind, uint8_t len);
void seq_deliver(struct seq *s, struct seq_qp *q, unsigned i);
void seq_post_recvs(struct seq *s, struct seq_qp *q, unsigned n);
void seq_on_response(struct seq_qp *q, const struct rocemu_packet *p);
void seq_on_received(struct seq_qp *q, const struct rocemu_cqe *c);
/** Deliver until all is answered; then memory must match the stream. */
void seq_finish_stream(struct seq *s, struct seq_qp *q);

/* The peer as responder (fuzz-sequence-out.c). */
void seq_post(struct seq *s, struct seq_qp *q, uint8_t kind, uint8_t len);
void seq_answer(struct seq *s, struct seq_qp *q, uint8_t how, uint8_t which);
void seq_answer_all(struct seq *s, struct seq_qp *q);
void seq_on_request(struct seq_qp *q, const struct rocemu_packet *p, const uint8_t *payload);
void seq_on_sent(struct seq_qp *q, const struct rocemu_cqe *c);
/** Answer until all is complete. */
void seq_finish_requests(struct seq *s);

#endif
