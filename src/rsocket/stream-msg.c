/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stream's messages: 32 bits of immediate data, 3 of type and 29 of value, with an RDMA WRITE
 * of the data.
 *
 *   DATA n        n bytes were written after those of the last message
 *   SGL seq       messages up to seq have a receive; an entry of the target table may be new
 *   IOMAP index   an entry of the iomap is new
 *   CTRL what     the end of everything, or of the sender's data
 *
 * DATA uses the peer's credits: bytes of its buffer and a receive for the message. The others need
 * no credit; each side keeps spare receives for a few at a time.
 */
#include <arpa/inet.h>
#include <byteswap.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "rsocket/stream.h"

enum { OP_DATA, OP_SGL = 4, OP_IOMAP = 6, OP_CTRL = 7 };
enum { CTRL_DISCONNECT, CTRL_KEEPALIVE, CTRL_SHUTDOWN };
enum { MSG_SHIFT = 29, MSG_VALUE = (1 << MSG_SHIFT) - 1 };
enum { CONN_VERSION = 1, CONN_BIG_ENDIAN = 1, CONN_IOMAP = 2 };
enum { BATCH = 16, INLINE_MIN = sizeof(struct stream_iomap), SPARE = 2 * STREAM_CTRL };

/* Kinds of work requests, in the upper half of wr_id; the lower is bytes. */
enum { WR_RECV, WR_DATA, WR_CTRL, WR_PROBE };
#define WR_ID(kind, len) ((uint64_t)(kind) << 32 | (len))

static bool host_is_big(void)
{
	return htonl(1) == 1;
}

/* ---- buffers ---- */

static struct ibv_mr *reg(struct stream *s, void *mem, size_t len, unsigned remote)
{
	return ibv_reg_mr(s->id->pd, mem, len, IBV_ACCESS_LOCAL_WRITE | remote);
}

static int make_buffers(struct stream *s)
{
	s->rs.set.rcvbuf &= ~1u; /* the peer gets it in halves */
	s->sbuf = malloc(s->rs.set.sndbuf);
	s->rbuf = malloc(s->rs.set.rcvbuf);
	s->target = calloc(1, sizeof(*s->target));
	s->l_size = s->rs.set.rqsize + SPARE;
	s->lengths = calloc(s->l_size, sizeof(*s->lengths));
	if (!s->sbuf || !s->rbuf || !s->target || !s->lengths)
		return -ENOMEM;
	s->smr = reg(s, s->sbuf, s->rs.set.sndbuf, 0);
	s->rmr = reg(s, s->rbuf, s->rs.set.rcvbuf, IBV_ACCESS_REMOTE_WRITE);
	s->tmr = reg(s, s->target, sizeof(*s->target), IBV_ACCESS_REMOTE_WRITE);
	return s->smr && s->rmr && s->tmr ? 0 : -errno;
}

static int post_recv(struct stream *s)
{
	struct ibv_recv_wr wr = {.wr_id = WR_ID(WR_RECV, 0)}, *bad;

	return -ibv_post_recv(s->id->qp, &wr, &bad);
}

static int make_qp(struct stream *s)
{
	struct rs_settings *set = &s->rs.set;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = set->sqsize + STREAM_CTRL,
			.max_recv_wr = set->rqsize + SPARE,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = MAX(set->inline_size, (uint32_t)INLINE_MIN)},
	};

	s->comp = ibv_create_comp_channel(s->id->verbs);
	if (!s->comp || fcntl(s->comp->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	s->cq = ibv_create_cq(s->id->verbs, (int)(attr.cap.max_send_wr + attr.cap.max_recv_wr), s,
			      s->comp, 0);
	if (!s->cq)
		return -errno;
	attr.send_cq = attr.recv_cq = s->cq;
	if (rdma_create_qp(s->id, s->id->pd, &attr))
		return -errno;
	set->inline_size = attr.cap.max_inline_data;
	return 0;
}

int stream_setup(struct stream *s)
{
	int ret;

	s->rs.settled = true;
	ret = make_qp(s);

	if (ret == 0)
		ret = make_buffers(s);
	for (unsigned i = 0; i < s->l_size && ret == 0; i++)
		ret = post_recv(s);
	/*
	 * The connection's data offers the whole buffer: the peer can send before the program
	 * begins to read.
	 */
	s->r_given = s->rs.set.rcvbuf;
	s->r_consumed = 0;
	s->r_next = 0;
	s->rseq_due = (uint16_t)(s->rs.set.rqsize / 2);
	return ret;
}

static void dereg(struct ibv_mr **mr)
{
	if (*mr)
		ibv_dereg_mr(*mr);
	*mr = NULL;
}

void stream_teardown(struct stream *s)
{
	if (s->id && s->id->qp)
		rdma_destroy_qp(s->id);
	if (s->unacked)
		ibv_ack_cq_events(s->cq, s->unacked);
	s->unacked = 0;
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->comp)
		ibv_destroy_comp_channel(s->comp);
	for (unsigned i = 0; i < STREAM_IOMAPS; i++)
		dereg(&s->mapped[i].mr);
	dereg(&s->smr);
	dereg(&s->rmr);
	dereg(&s->tmr);
	free(s->sbuf);
	free(s->rbuf);
	free(s->target);
	free(s->lengths);
	s->sbuf = s->rbuf = NULL;
	s->target = NULL;
	s->lengths = NULL;
	s->cq = NULL;
	s->comp = NULL;
}

/* ---- the connection's data ---- */

static void put_sge(uint8_t *p, const void *addr, const struct ibv_mr *mr, uint32_t length)
{
	put_be64(p, (uintptr_t)addr);
	put_be32(p + 8, mr->rkey);
	put_be32(p + 12, length);
}

static struct stream_sge get_sge(const uint8_t *p)
{
	return (struct stream_sge){
		.addr = get_be64(p), .key = get_be32(p + 8), .length = get_be32(p + 12)};
}

void stream_fill_conn_data(const struct stream *s, uint8_t data[STREAM_CONN_DATA])
{
	memset(data, 0, STREAM_CONN_DATA);
	data[0] = CONN_VERSION;
	data[1] = (uint8_t)(CONN_IOMAP | (host_is_big() ? CONN_BIG_ENDIAN : 0));
	put_be16(data + 2, (uint16_t)s->rs.set.rqsize);
	data[7] = (uint8_t)s->rs.set.iomap_size;
	put_sge(data + 8, s->target, s->tmr, STREAM_SGL);
	put_sge(data + 24, s->rbuf, s->rmr, s->rs.set.rcvbuf);
}

int stream_take_conn_data(struct stream *s, const uint8_t *data, size_t len)
{
	if (!data || len < STREAM_CONN_DATA || data[0] != CONN_VERSION)
		return -EPROTO;
	s->swap = host_is_big() != ((data[1] & CONN_BIG_ENDIAN) != 0);
	s->sseq_end = get_be16(data + 2);
	s->peer_sgl = get_sge(data + 8);
	if (s->peer_sgl.length == 0)
		return -EPROTO;
	/* The first entry holds the buffer that came with the connection. */
	s->peer_sgl_at = 1 % s->peer_sgl.length;
	s->peer_iomap = s->peer_sgl;
	s->peer_iomap.addr += (uint64_t)s->peer_sgl.length * sizeof(struct stream_sge);
	/* A size of more than 7 bits is encoded with less precision (bit 7); rocemu's sizes fit. */
	s->peer_iomap.length =
		data[1] & CONN_IOMAP ? MIN(data[7] & 0x7fu, (unsigned)STREAM_IOMAPS) : 0;
	s->target->sgl[0] = get_sge(data + 24);
	return 0;
}

/* ---- sending ---- */

static int post_ctrl(struct stream *s, unsigned op, uint32_t value, struct ibv_sge *sge,
		     uint64_t addr, uint32_t key)
{
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = WR_ID(WR_CTRL, 0),
			.sg_list = sge,
			.num_sge = sge ? 1 : 0,
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.send_flags = IBV_SEND_SIGNALED | (sge ? IBV_SEND_INLINE : 0),
			.imm_data = htonl(op << MSG_SHIFT | (value & MSG_VALUE)),
			.wr.rdma = {.remote_addr = addr, .rkey = key},
		};
	int ret = ibv_post_send(s->id->qp, &wr, &bad);

	if (ret == 0)
		s->ctrl_used++;
	return -ret;
}

/** For the peer's memory, in its byte order. */
static struct stream_sge for_peer(const struct stream *s, struct stream_sge sge)
{
	if (!s->swap)
		return sge;
	return (struct stream_sge){.addr = bswap_64(sge.addr),
				   .key = bswap_32(sge.key),
				   .length = bswap_32(sge.length)};
}

/** Give the next half of the receive buffer to the peer, or only update its number of receives. */
static int post_credits(struct stream *s)
{
	const uint32_t half = s->rs.set.rcvbuf / 2, seq = (uint16_t)(s->rseq + s->rs.set.rqsize);
	const uint64_t at = s->peer_sgl.addr + (uint64_t)s->peer_sgl_at * sizeof(struct stream_sge);
	struct stream_sge given =
		for_peer(s, (struct stream_sge){.addr = (uintptr_t)(s->rbuf + s->r_next),
						.key = s->rmr->rkey,
						.length = half});
	struct ibv_sge sge = {.addr = (uintptr_t)&given, .length = sizeof(given)};
	int ret;

	s->rseq_due = (uint16_t)(s->rseq + s->rs.set.rqsize / 2);
	if (s->r_consumed < half)
		return post_ctrl(s, OP_SGL, seq, NULL, 0, 0);
	ret = post_ctrl(s, OP_SGL, seq, &sge, at, s->peer_sgl.key);
	if (ret < 0)
		return ret;
	s->r_consumed -= half;
	s->r_given += half;
	s->r_next = (s->r_next + half) % s->rs.set.rcvbuf;
	s->peer_sgl_at = (s->peer_sgl_at + 1) % s->peer_sgl.length;
	return 0;
}

static bool credits_due(const struct stream *s)
{
	return s->readable &&
	       (s->r_consumed >= s->rs.set.rcvbuf / 2 || (int16_t)(s->rseq - s->rseq_due) >= 0);
}

/** Send pending control messages, as far as there is room; the end comes last. */
static void post_due(struct stream *s)
{
	int ret = 0;

	while (ret == 0 && s->state == STREAM_CONNECTED && s->ctrl_used < STREAM_CTRL &&
	       credits_due(s))
		ret = post_credits(s);
	if (ret == 0 && s->fin_due && s->ctrl_used < STREAM_CTRL) {
		s->fin_due = false;
		ret = post_ctrl(s, OP_CTRL, CTRL_SHUTDOWN, NULL, 0, 0);
	}
	if (ret == 0 && s->bye_due && s->ctrl_used < STREAM_CTRL) {
		s->bye_due = false;
		ret = post_ctrl(s, OP_CTRL, CTRL_DISCONNECT, NULL, 0, 0);
	}
	if (ret < 0)
		stream_die(s, -ret);
}

typedef uint64_t __attribute__((may_alias)) sge_end;

/**
 * Read an entry that the peer may be writing. Its last word, key and length, is written last: once
 * it is valid, so is the rest.
 */
static struct stream_sge target_now(const struct stream_sge *t)
{
	struct stream_sge now;
	const sge_end end =
		__atomic_load_n((const sge_end *)(const void *)&t->key, __ATOMIC_ACQUIRE);

	_Static_assert(offsetof(struct stream_sge, length) == offsetof(struct stream_sge, key) + 4,
		       "one word");
	memcpy((uint8_t *)&now + offsetof(struct stream_sge, key), &end, sizeof(end));
	now.addr = t->addr;
	return now;
}

bool stream_can_send(const struct stream *s)
{
	return s->state == STREAM_CONNECTED && s->writable && s->data_used < s->rs.set.sqsize &&
	       s->sseq != s->sseq_end && target_now(&s->target->sgl[s->target_at]).length > 0 &&
	       s->s_used < s->rs.set.sndbuf;
}

/** Bytes that can be put into the send buffer in one piece. */
static uint32_t send_room(const struct stream *s)
{
	const uint32_t size = s->rs.set.sndbuf;

	return MIN(MIN(size - s->s_used, size - s->s_at), (uint32_t)STREAM_PIECE);
}

static uint32_t copy_in(uint8_t *to, uint32_t room, struct iovec **iov, int *n)
{
	uint32_t done = 0;

	while (*n > 0 && done < room) {
		const size_t piece = MIN((*iov)->iov_len, (size_t)(room - done));

		if (piece)
			memcpy(to + done, (*iov)->iov_base, piece);
		done += (uint32_t)piece;
		(*iov)->iov_base = (uint8_t *)(*iov)->iov_base + piece;
		(*iov)->iov_len -= piece;
		if ((*iov)->iov_len > 0)
			break;
		(*iov)++;
		(*n)--;
	}
	return done;
}

/** Send len bytes of the send buffer from s_at on. */
static int post_from_buffer(struct stream *s, enum ibv_wr_opcode opcode, uint32_t len,
			    uint64_t addr, uint32_t key)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(s->sbuf + s->s_at), .length = len, .lkey = s->smr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = WR_ID(WR_DATA, len),
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IBV_SEND_SIGNALED |
				      (len <= s->rs.set.inline_size ? IBV_SEND_INLINE : 0),
			.imm_data = htonl((uint32_t)OP_DATA << MSG_SHIFT | len),
			.wr.rdma = {.remote_addr = addr, .rkey = key},
		};
	int ret = ibv_post_send(s->id->qp, &wr, &bad);

	if (ret)
		return -ret;
	s->s_at = (s->s_at + len) % s->rs.set.sndbuf;
	s->s_used += len;
	s->data_used++;
	return 0;
}

ssize_t stream_post_data(struct stream *s, struct iovec **iov, int *n)
{
	struct stream_sge *t = &s->target->sgl[s->target_at];
	const struct stream_sge now = target_now(t);
	const uint32_t len = copy_in(s->sbuf + s->s_at, MIN(send_room(s), now.length), iov, n);
	int ret;

	if (len == 0)
		return 0;
	/*
	 * Done before the last byte is sent, because then the peer may overwrite the entry at any
	 * time.
	 */
	t->addr += len;
	t->length = now.length - len;
	if (now.length == len)
		s->target_at = (s->target_at + 1) % STREAM_SGL;
	s->sseq++;
	ret = post_from_buffer(s, IBV_WR_RDMA_WRITE_WITH_IMM, len, now.addr, now.key);
	return ret < 0 ? ret : (ssize_t)len;
}

ssize_t stream_post_write(struct stream *s, const uint8_t *data, size_t len, uint64_t addr,
			  uint32_t key)
{
	const uint32_t piece = (uint32_t)MIN(len, (size_t)send_room(s));
	int ret;

	memcpy(s->sbuf + s->s_at, data, piece);
	ret = post_from_buffer(s, IBV_WR_RDMA_WRITE, piece, addr, key);
	return ret < 0 ? ret : (ssize_t)piece;
}

int stream_post_iomap(struct stream *s, unsigned index, const struct stream_iomap *map)
{
	struct stream_iomap out = {.offset = s->swap ? bswap_64(map->offset) : map->offset,
				   .sge = for_peer(s, map->sge)};
	struct ibv_sge sge = {.addr = (uintptr_t)&out, .length = sizeof(out)};

	return post_ctrl(s, OP_IOMAP, index, &sge,
			 s->peer_iomap.addr + (uint64_t)index * sizeof(out), s->peer_iomap.key);
}

/*
 * A WRITE of length 0: it is acknowledged, and takes none of the peer's receives, which a program
 * that does not poll would run out of. It needs no key (C9-88).
 */
int stream_post_probe(struct stream *s)
{
	struct ibv_send_wr *bad, wr = {.wr_id = WR_ID(WR_PROBE, 0),
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};
	int ret = ibv_post_send(s->id->qp, &wr, &bad);

	if (ret)
		return -ret;
	s->ctrl_used++;
	s->probing = true;
	return 0;
}

/* ---- receiving ---- */

static int take_data(struct stream *s, uint32_t len)
{
	/* More than its credits: the data cannot be in the buffer. */
	if (len == 0 || len > s->r_given || s->l_count == s->l_size)
		return -EPROTO;
	s->lengths[(s->l_first + s->l_count++) % s->l_size] = len;
	s->r_given -= len;
	s->r_ready += len;
	return 0;
}

static void take_ctrl(struct stream *s, uint32_t what)
{
	if (what == CTRL_SHUTDOWN || what == CTRL_DISCONNECT)
		s->readable = false;
	if (what == CTRL_DISCONNECT)
		s->writable = false;
}

static int take_message(struct stream *s, uint32_t msg)
{
	const uint32_t value = msg & MSG_VALUE;

	switch (msg >> MSG_SHIFT) {
	case OP_DATA:
		return take_data(s, value);
	case OP_SGL:
		s->sseq_end = (uint16_t)value;
		return 0;
	case OP_IOMAP:
		return 0; /* it is in the table */
	case OP_CTRL:
		take_ctrl(s, value);
		return 0;
	default:
		return -EPROTO;
	}
}

static int take_wc(struct stream *s, const struct ibv_wc *wc)
{
	int ret;

	switch (wc->wr_id >> 32) {
	case WR_DATA:
		s->data_used--;
		s->s_used -= (uint32_t)wc->wr_id;
		break;
	case WR_PROBE:
		s->probing = false;
		s->ctrl_used--;
		break;
	case WR_CTRL:
		s->ctrl_used--;
		break;
	default:
		if (wc->status != IBV_WC_SUCCESS)
			break;
		ret = wc->wc_flags & IBV_WC_WITH_IMM ? take_message(s, ntohl(wc->imm_data))
						     : -EPROTO;
		return ret < 0 ? ret : post_recv(s);
	}
	if (wc->status == IBV_WC_SUCCESS)
		return 0;
	return wc->status == IBV_WC_RETRY_EXC_ERR ? -ETIMEDOUT : -ECONNRESET;
}

/** Completions from before its end may be left: they bring data. */
static void take_completions(struct stream *s)
{
	struct ibv_wc wc[BATCH];
	int n, ret;

	do {
		n = ibv_poll_cq(s->cq, BATCH, wc);
		if (n > 0 && s->rs.keep.on)
			s->heard = rs_now();
		for (int i = 0; i < n; i++) {
			ret = take_wc(s, &wc[i]);
			/* Flushed because the connection has ended: not an error, but the end. */
			if (ret < 0 && wc[i].status == IBV_WC_WR_FLUSH_ERR)
				stream_die(s, 0);
			else if (ret < 0)
				stream_die(s, -ret);
		}
	} while (n == BATCH);
}

void stream_progress(struct stream *s)
{
	if (s->cq)
		take_completions(s);
	if (s->state == STREAM_CONNECTED)
		post_due(s);
}

void stream_die(struct stream *s, int err)
{
	if (s->state == STREAM_DEAD)
		return;
	/* Once both directions have ended, an error is not reported. */
	if (err && (s->readable || s->writable))
		s->rs.error = err;
	s->state = STREAM_DEAD;
	s->readable = s->writable = false;
	s->fin_due = s->bye_due = false;
}

void stream_consume(struct stream *s, uint32_t len)
{
	s->r_at = (s->r_at + len) % s->rs.set.rcvbuf;
	s->r_ready -= len;
	s->r_consumed += len;
	while (len > 0) {
		uint32_t *first = &s->lengths[s->l_first];
		const uint32_t piece = MIN(len, *first);

		*first -= piece;
		len -= piece;
		if (*first > 0)
			break;
		s->l_first = (s->l_first + 1) % s->l_size;
		s->l_count--;
		s->rseq++;
	}
	if (s->state == STREAM_CONNECTED)
		post_due(s);
}
