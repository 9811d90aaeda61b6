/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends the endpoint's packets as UDP_SEGMENT bursts, several in one sendmmsg().
 *
 * Headers, small payloads and trailers are copied into one linear area so that a packet costs at
 * most one iovec beside its payload's; larger payload goes by reference and is copied once, by the
 * kernel. The ICRC of what is copied is that of the copy: the program may write to its memory
 * meanwhile. A packet sent by reference may so get a wrong one; its retransmission is sent from a
 * copy.
 */
#include <errno.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/tsan.h"
#include "base/util.h"
#include "engine/lane-shm.h"
#include "engine/sysmsg.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
	TX_LINEAR = ROCEMU_OUTPUT_BATCH * (ROCEMU_MAX_HDR_LEN + LANE_LINEAR_MAX + 8),
	TX_IOV = ROCEMU_OUTPUT_BATCH * (ROCEMU_MAX_SGE + 2),
};

/*
 * The messages of one sendmmsg(), built anew for each call. Not on the stack, and not in
 * thread-local memory, which the C library takes from each thread's stack: programs have threads
 * with 16 KiB.
 */
struct tx_batch {
	unsigned nmsg, niov;
	size_t linear_len;
	struct mmsghdr msg[ROCEMU_OUTPUT_BATCH];
	union addr to[ROCEMU_OUTPUT_BATCH];
	struct iovec iov[TX_IOV];
	uint8_t linear[TX_LINEAR];
	_Alignas(struct cmsghdr) uint8_t control[ROCEMU_OUTPUT_BATCH][LANE_SEND_CONTROL];
};

_Static_assert(sizeof(struct tx_batch) <= LANE_TX_BATCH_BYTES, "the lane has room for it");

/* ---- building ---- */

static void append_iov(struct tx_batch *batch, struct msghdr *m, const struct iovec *iov)
{
	batch->iov[batch->niov++] = *iov;
	m->msg_iovlen++;
}

/* Copy bytes into the linear area; they join the message's last iovec when that ends where they
 * begin. room is what data has: a constant, since copies of a fixed size take a few instructions.
 */
static inline void append_copy(struct tx_batch *batch, struct msghdr *m, const void *data,
			       size_t len, size_t room)
{
	uint8_t *at = batch->linear + batch->linear_len;
	struct iovec *last = m->msg_iovlen ? &m->msg_iov[m->msg_iovlen - 1] : NULL;

	memcpy(at, data, room);
	batch->linear_len += len;
	if (last && (uint8_t *)last->iov_base + last->iov_len == at)
		last->iov_len += len;
	else
		append_iov(batch, m, &(struct iovec){.iov_base = at, .iov_len = len});
}

static void append_packet(struct lane *l, struct msghdr *m, struct rocemu_tx *t, uint16_t ip_id)
	REQUIRES(l);
static void append_packet(struct lane *l, struct msghdr *m, struct rocemu_tx *t, uint16_t ip_id)
{
	struct tx_batch *batch = l->tx.batch;
	const uint8_t *packet = batch->linear + batch->linear_len;
	bool there = true;

	append_copy(batch, m, t->hdr, t->hdr_len, sizeof(t->hdr));
	if (t->payload_len <= LANE_LINEAR_MAX) {
		if (t->payload_len) {
			there = rocemu_ep_flatten(l->ep, t, batch->linear + batch->linear_len);
			batch->linear_len += t->payload_len;
			m->msg_iov[m->msg_iovlen - 1].iov_len += t->payload_len;
		}
		put_le32(batch->linear + batch->linear_len, 0); /* the pad */
		rocemu_ep_seal_copy(l->ep, t, packet, ip_id);
	} else {
		for (unsigned i = 0; i < t->niov; i++)
			append_iov(batch, m, &t->iov[i]);
		there = rocemu_ep_seal(l->ep, t, ip_id);
	}
	if (unlikely(!there))
		lane_tx_invalidate(t);
	append_copy(batch, m, t->trailer, t->trailer_len, sizeof(t->trailer));
}

static void build(struct lane *l, const struct txsock_set *set, struct txsock *s,
		  struct rocemu_tx *const *pkt, const struct txburst *burst, unsigned n)
	REQUIRES(l);
static void build(struct lane *l, const struct txsock_set *set, struct txsock *s,
		  struct rocemu_tx *const *pkt, const struct txburst *burst, unsigned n)
{
	struct tx_batch *batch = l->tx.batch;

	batch->nmsg = n;
	batch->niov = 0;
	batch->linear_len = 0;
	for (unsigned b = 0; b < n; b++) {
		struct rocemu_tx *const *p = pkt + burst[b].first;
		struct msghdr *m = &batch->msg[b].msg_hdr;

		lane_send_begin(m, &batch->iov[batch->niov], &batch->to[b], batch->control[b], set,
				s, p[0]->path, burst[b].count > 1 ? burst[b].seg_len : 0,
				burst[b].seg_len);

		for (unsigned i = 0; i < burst[b].count; i++)
			append_packet(l, m, p[i], (uint16_t)(txsock_id(s, b) + i));
	}
}

/* ---- the capture ---- */

/* Take len bytes off the front of a message's iovecs. @return pieces put into out. */
static unsigned cut_front(struct iovec **iov, size_t len, struct iovec *out)
{
	unsigned n = 0;

	while (len) {
		struct iovec *v = *iov;
		size_t take = MIN(len, v->iov_len);

		if (take)
			out[n++] = (struct iovec){.iov_base = v->iov_base, .iov_len = take};
		v->iov_base = (uint8_t *)v->iov_base + take;
		v->iov_len -= take;
		len -= take;
		if (!v->iov_len)
			(*iov)++;
	}
	return n;
}

/* The message was sent; its iovecs are used up by this. */
static void tap_sent(struct lane *l, uint64_t when, struct msghdr *m, struct rocemu_tx *const *p,
		     unsigned count, uint16_t ip_id)
{
	struct iovec piece[ROCEMU_MAX_SGE + 3], *iov = m->msg_iov;

	for (unsigned i = 0; i < count; i++) {
		const struct rocemu_path *path = p[i]->path;
		const struct tap_addr a = {
			.when_ns = when,
			.src = path->sgid,
			.dst = path->dgid,
			.sport = path->sport,
			.ip_id = (uint16_t)(ip_id + i),
			.tclass = path->tclass,
			.hop_limit = path->hop_limit,
			.flow_label = path->flow_label,
			.sent = true,
			.again = p[i]->again,
			.lqpn = p[i]->lqpn,
		};

		tap_write(l->tap, &a, piece, cut_front(&iov, rocemu_tx_len(p[i]), piece));
	}
}

/* ---- sending ---- */

static void sent(struct lane *l, const struct txsock *s, uint64_t when,
		 struct rocemu_tx *const *pkt, const struct txburst *burst, unsigned n)
{
	struct tx_batch *batch = l->tx.batch;

	for (unsigned b = 0; b < n; b++) {
		l->stats->tx_datagrams += burst[b].count;
		if (unlikely(l->tap != NULL))
			tap_sent(l, when, &batch->msg[b].msg_hdr, pkt + burst[b].first,
				 burst[b].count, txsock_id(s, b));
	}
	if (unlikely(l->tap != NULL))
		lane_tap_dirty(l, lane_now());
}

static unsigned send_bursts(struct lane *l, const struct txsock_set *set, struct txsock *s,
			    struct rocemu_tx *const *pkt, const struct txburst *burst, unsigned n)
	REQUIRES(l);

/*
 * A burst was refused: more segments than an older kernel takes, packets larger than the path's
 * MTU, or a device that cannot segment (no checksum offload). Shorter bursts may pass, or single
 * packets; if they do, longer ones are not tried here again.
 */
static unsigned send_shorter(struct lane *l, const struct txsock_set *set, struct txsock *s,
			     struct rocemu_tx *const *pkt, unsigned count) REQUIRES(l);
static unsigned send_shorter(struct lane *l, const struct txsock_set *set, struct txsock *s,
			     struct rocemu_tx *const *pkt, unsigned count)
{
	const unsigned most = count > TXGROUP_OLD_SEGMENTS ? TXGROUP_OLD_SEGMENTS : 1;
	struct txburst burst[TXGROUP_MAX_SEGMENTS];
	const unsigned done =
		send_bursts(l, set, s, pkt, burst, txgroup_build(pkt, count, most, burst));

	if (done && s->max_segments > most) {
		s->max_segments = (uint8_t)most;
		log_debug("%s: source port %u: UDP segmentation refused, sending bursts of at most "
			  "%u datagrams",
			  l->device, (unsigned)s->port, most);
	}
	return done;
}

static bool burst_refused(int err)
{
	return err == EINVAL || err == EIO || err == EMSGSIZE || err == EOPNOTSUPP;
}

/* By the call that costs least. */
static ssize_t send_one(const struct txsock *s, const struct msghdr *m)
{
	if (m->msg_iovlen == 1 && !m->msg_control)
		return sys_sendto(s->fd, m->msg_iov->iov_base, m->msg_iov->iov_len, MSG_DONTWAIT,
				  m->msg_name, m->msg_namelen);
	return sys_sendmsg(s->fd, m, MSG_DONTWAIT);
}

/* The batch's messages into the kernel. @return how many, or -1 and errno. */
static int send_batch(struct lane *l, const struct txsock *s) REQUIRES(l);
static int send_batch(struct lane *l, const struct txsock *s)
{
	struct tx_batch *batch = l->tx.batch;
	int r;

	l->stats->tx_syscalls++;
	tsan_ignore_begin();
	if (batch->nmsg == 1)
		r = send_one(s, &batch->msg[0].msg_hdr) < 0 ? -1 : 1;
	else
		r = sys_sendmmsg(s->fd, batch->msg, batch->nmsg, MSG_DONTWAIT);
	tsan_ignore_end();
	return r;
}

/* Send bursts that all leave by one socket. @return packets sent. */
HOT static unsigned send_bursts(struct lane *l, const struct txsock_set *set, struct txsock *s,
				struct rocemu_tx *const *pkt, const struct txburst *burst,
				unsigned n)
{
	unsigned packets = 0;

	for (unsigned done = 0; done < n;) {
		const struct txburst *head = burst + done;
		uint64_t when = l->tap ? tap_now() : 0;
		int r, err;

		if (unlikely(l->tx.nbacklog)) {
			/* In order, after packets that wait. */
			lane_backlog_add(l, pkt + head->first, head->count);
			packets += head->count;
			done++;
			continue;
		}

		build(l, set, s, pkt, head, n - done);
		r = send_batch(l, s);
		err = errno;
		if (likely(r > 0)) {
			sent(l, s, when, pkt, head, (unsigned)r);
			for (int i = 0; i < r; i++)
				packets += head[i].count;
			done += (unsigned)r;
			txsock_messages_sent(set, s, (unsigned)r);
			if (unlikely((unsigned)r < l->tx.batch->nmsg))
				txsock_stop_counting(s); /* one was refused */
			continue;
		}
		if (r < 0 && err == EINTR) {
			txsock_stop_counting(s);
			continue;
		}
		if (r < 0 && err == EAGAIN) {
			lane_backlog_add(l, pkt + head->first, head->count);
			packets += head->count;
			done++;
			continue;
		}
		if ((err == EINVAL && lane_send_labels_refused(l, s, pkt[head->first]->path)) ||
		    txsock_make_plain(s))
			continue;
		if (head->count > 1 && burst_refused(err))
			packets += send_shorter(l, set, s, pkt + head->first, head->count);
		else
			lane_send_refused(l, err, pkt[head->first]->path, head->count);
		done++;
	}
	return packets;
}

/* Find each packet's socket and set its actual path. @return packets with a socket. */
static unsigned resolve(struct lane *l, struct rocemu_tx **pkt, unsigned n, struct txsock **sock)
	REQUIRES(l);
static unsigned resolve(struct lane *l, struct rocemu_tx **pkt, unsigned n, struct txsock **sock)
{
	const struct rocemu_path *asked = NULL, *taken = NULL;
	struct txsock *s = NULL;
	unsigned kept = 0, nalt = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct rocemu_path *path = pkt[i]->path;

		if (path != asked) {
			asked = taken = path;
			s = lane_tx_sock(l, path);
			if (s && (s->port != path->sport || !path->hop_limit)) {
				struct rocemu_path *alt = &l->tx.alt[nalt++];

				*alt = *path;
				lane_tx_set_path(alt, s);
				taken = alt;
			}
		}
		if (!s) {
			l->stats->tx_errors++;
			continue;
		}
		pkt[i]->path = taken;
		pkt[kept] = pkt[i];
		sock[kept++] = s;
	}
	return kept;
}

/* Packets whose paths are those of s. */
static void send_by(struct lane *l, struct txsock *s, struct rocemu_tx **pkt, unsigned n)
	REQUIRES(l);
static void send_by(struct lane *l, struct txsock *s, struct rocemu_tx **pkt, unsigned n)
{
	const struct txsock_set *set = *lane_tx_set(l, pkt[0]->path);
	struct txburst burst[ROCEMU_OUTPUT_BATCH];

	txgroup_order(pkt, n, s->max_segments);
	send_bursts(l, set, s, pkt, burst, txgroup_build(pkt, n, s->max_segments, burst));
}

HOT void lane_tx_send(struct lane *l, struct rocemu_tx **pkt, unsigned n)
{
	struct txsock *sock[ROCEMU_OUTPUT_BATCH];

	n = resolve(l, pkt, n, sock);
	if (unlikely(l->shm != NULL)) {
		txgroup_order(pkt, n, 1);
		n = lane_shm_send(l, pkt, sock, n);
	}
	for (unsigned start = 0, i = 1; i <= n; i++) {
		if (i < n && sock[i] == sock[start])
			continue;
		send_by(l, sock[start], pkt + start, i - start);
		start = i;
	}
}

void lane_tx_send_on(struct lane *l, const struct lane_route *route, struct rocemu_tx **pkt,
		     unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		pkt[i]->path = &route->packet;
	if (unlikely(l->shm != NULL)) {
		txgroup_order(pkt, n, 1);
		n = lane_shm_send_on(l, pkt, n);
	}
	if (n)
		send_by(l, route->sock, pkt, n);
}

void lane_tx_send_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data,
		      size_t len)
{
	if (unlikely(l->tx.nbacklog) || !lane_send_try(l, path, data, len, false))
		lane_backlog_add_raw(l, path, data, len);
}
