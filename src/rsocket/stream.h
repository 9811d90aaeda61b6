/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream socket: an RC connection on which every message is an RDMA WRITE with immediate data.
 * Data goes directly into the peer's receive buffer, which the peer offers in halves: it writes
 * their addresses into a local table (target.sgl). The immediate data encodes the kind of message
 * (stream-msg.c).
 */
#ifndef RSOCKET_STREAM_H
#define RSOCKET_STREAM_H

#include "rsocket/rs.h"

enum {
	STREAM_SGL = 2,	      /* entries of a target table: the halves of a receive buffer */
	STREAM_IOMAPS = 127,  /* most entries of an iomap */
	STREAM_CTRL = 4,      /* send queue entries reserved for control messages */
	STREAM_PIECE = 65536, /* most bytes of one message */
	STREAM_CONN_DATA = 40,
};

/** A piece of the other side's memory, in this host's byte order when it is read here. */
struct stream_sge {
	uint64_t addr;
	uint32_t key, length;
};

struct stream_iomap {
	uint64_t offset;
	struct stream_sge sge;
};

/** Written to by the peer. */
struct stream_target {
	struct stream_sge sgl[STREAM_SGL];
	struct stream_iomap iomap[STREAM_IOMAPS];
};

enum stream_state {
	STREAM_IDLE,
	STREAM_LISTENING,
	STREAM_RESOLVING,
	STREAM_CONNECTING,
	STREAM_CONNECTED,
	STREAM_DEAD, /* was connected, or has failed to */
};

/** A local buffer that is mapped for the peer. */
struct stream_mapped {
	struct ibv_mr *mr; /* owned; NULL: free entry */
	uint64_t offset;
	bool shown; /* the peer has it in its table */
};

struct stream {
	struct rs rs;
	enum stream_state state;
	struct rdma_event_channel *channel; /* owned */
	struct rdma_cm_id *id;		    /* owned */
	bool readable, writable;	    /* not ended by any side */
	bool fin_due, bye_due; /* to be sent when there is room: no more data; the end */
	bool established;      /* RDMA_CM_EVENT_ESTABLISHED came */
	uint64_t heard;	       /* with keepalive: when the peer was last known to be alive */
	bool probing;	       /* a probe is under way */
	unsigned unanswered;   /* how often it was found so */

	/* From here on: when connected. */
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned unacked; /* CQ events */

	uint8_t *sbuf; /* ring of set.sndbuf bytes */
	struct ibv_mr *smr;
	uint32_t s_at, s_used;	       /* next byte to fill; bytes that are being sent */
	uint32_t data_used, ctrl_used; /* send queue entries */
	uint16_t sseq, sseq_end; /* messages sent, and the limit that the peer's receives allow */
	unsigned target_at;	 /* entry of target->sgl that is being filled */
	struct stream_target *target;
	struct ibv_mr *tmr;

	uint8_t *rbuf; /* ring of set.rcvbuf bytes */
	struct ibv_mr *rmr;
	uint32_t r_at, r_ready;	 /* next byte to read; bytes to read */
	uint32_t r_consumed;	 /* read and not given out again */
	uint32_t r_given;	 /* given out and not written to yet */
	uint32_t r_next;	 /* offset of the next half to give out */
	uint16_t rseq, rseq_due; /* messages read; when to announce them at the latest */
	uint32_t *lengths;	 /* ring of the messages' bytes that are not read yet */
	uint32_t l_first, l_count, l_size;

	/* The peer's tables. */
	bool swap; /* its byte order differs from this host's */
	struct stream_sge peer_sgl;
	unsigned peer_sgl_at;
	struct stream_sge peer_iomap; /* length: entries */
	struct stream_mapped mapped[STREAM_IOMAPS];
};

static inline struct stream *stream_of(struct rs *rs)
{
	return container_of(rs, struct stream, rs);
}

/* ---- stream-conn.c ---- */

int stream_bind(struct rs *rs, const struct sockaddr *addr, socklen_t len);
int stream_listen(struct rs *rs, int backlog);
int stream_accept(struct rs *rs, struct rs **conn);
int stream_connect(struct rs *rs, const struct sockaddr *addr, socklen_t len);
/** Handle events of the connection manager. */
void stream_cm_progress(struct stream *s);
/** Free ID, QP, channel. */
void stream_conn_fini(struct stream *s);
struct stream *stream_alloc(int domain);

/* ---- stream-msg.c ---- */

/** QP, CQ, buffers; receives are posted. s->id has a device. -errno. */
int stream_setup(struct stream *s);
void stream_teardown(struct stream *s);
void stream_fill_conn_data(const struct stream *s, uint8_t data[STREAM_CONN_DATA]);
/** -EPROTO: not of a compatible peer. */
int stream_take_conn_data(struct stream *s, const uint8_t *data, size_t len);
/** Probe the peer, invisibly for its program. -errno. */
int stream_post_probe(struct stream *s);
/** Handle completions, send due control messages. */
void stream_progress(struct stream *s);
/** The connection is over; err: for SO_ERROR, or 0. */
void stream_die(struct stream *s, int err);
/** Can a byte be sent? */
bool stream_can_send(const struct stream *s);
/** Copy from iov (which is moved on) into the send buffer, and send; stream_can_send(). Bytes or
 * -errno. */
ssize_t stream_post_data(struct stream *s, struct iovec **iov, int *n);
/** The same by a WRITE to the peer's memory, without immediate data. */
ssize_t stream_post_write(struct stream *s, const uint8_t *data, size_t len, uint64_t addr,
			  uint32_t key);
/** Bytes that were read are free: offer them to the peer again. */
void stream_consume(struct stream *s, uint32_t len);
/** Announce the mapping at an index to the peer; there is room for it (ctrl_used). -errno. */
int stream_post_iomap(struct stream *s, unsigned index, const struct stream_iomap *map);
/** Nothing is being sent. */
static inline bool stream_is_idle(const struct stream *s)
{
	return s->data_used == 0 && s->ctrl_used == 0 && !s->fin_due && !s->bye_due;
}

#endif
