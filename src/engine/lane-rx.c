/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives from sockets for the endpoint. Splits datagrams that GRO merged, forwards those of
 * another slot, and passes the socket's control information to the endpoint.
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cmsg.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/lane-shm.h"
#include "engine/sysmsg.h"
#include "engine/memfault.h"
#include "wire/opcode.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	/* A buffer that holds this much after a receive call is filling up. */
	FULL_PERCENT = 40,
	FULL_ASK_NS = 20000, /* how often the kernel is queried */
	/*
	 * Adapters allow 16 READs and atomics at a time, which come together as their answers do.
	 * Answers to half of them leave early: the requester takes these and sends the next
	 * requests, while the others are made.
	 */
	FETCHES_EARLY = 8,
};

/* One received message: a datagram, or several that GRO merged. */
struct burst {
	const uint8_t *data;
	size_t len;
	size_t seg_len;
	bool forbidden; /* IP options, extension headers, or fragments */
	bool group;	/* came to a multicast group: a copy for each lane, none for another */
	struct rocemu_dgram meta; /* data and len not set; ip_id: of the first datagram */
};

int lane_rx_init(struct lane *l)
{
	struct lane_rx *rx = &l->rx;

	/* Mapped, not allocated: pages without received data cost nothing. */
	rx->buf = mmap(NULL, (size_t)LANE_RX_BATCH * LANE_RX_BUF, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rx->buf == MAP_FAILED) {
		rx->buf = NULL;
		return -ENOMEM;
	}
	for (unsigned i = 0; i < LANE_RX_BATCH; i++) {
		rx->iov[i].iov_base = rx->buf + (size_t)i * LANE_RX_BUF;
		rx->iov[i].iov_len = LANE_RX_BUF;
		rx->msg[i].msg_hdr = (struct msghdr){
			.msg_name = &rx->from[i],
			.msg_iov = &rx->iov[i],
			.msg_iovlen = 1,
			.msg_control = rx->control[i],
		};
	}
	return 0;
}

void lane_rx_fini(struct lane *l)
{
	if (l->rx.buf)
		munmap(l->rx.buf, (size_t)LANE_RX_BATCH * LANE_RX_BUF);
	l->rx.buf = NULL;
}

HOT static void read_control(struct lane *l, struct lane_sock *s, struct msghdr *m, struct burst *b)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (cmsg_network(c, &b->meta.tclass, &b->meta.hop_limit) ||
		    cmsg_flow_label(c, &b->meta.flow_label))
			continue;
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
			const int len = cmsg_int(c);

			if (len > 0)
				b->seg_len = (size_t)len;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			const uint32_t overflow = (uint32_t)cmsg_int(c);

			l->stats->rx_sock_drops += overflow - s->ovfl;
			b->meta.congested |= overflow != s->ovfl;
			s->ovfl = overflow;
		} else {
			b->forbidden |= cmsg_is_forbidden(c);
		}
	}
}

/*
 * Segments from offset up to last that belong to the same other slot go in one message. @return
 * bytes forwarded.
 */
static size_t forward_run(struct lane *l, const struct burst *b, size_t offset, size_t last,
			  uint16_t index) REQUIRES(l);
APART static size_t forward_run(struct lane *l, const struct burst *b, size_t offset, size_t last,
				uint16_t index)
{
	const uint32_t slot = lane_slot_of(b->data + offset);
	const struct forward_hdr h = {
		.src = b->meta.src,
		.dst = b->meta.dst,
		.sport = b->meta.sport,
		.seg_len = (uint16_t)b->seg_len,
		.ip_id = index,
		.tclass = b->meta.tclass,
		.hop_limit = b->meta.hop_limit,
		.flow_label = b->meta.flow_label,
	};
	size_t end = offset;
	unsigned n = 0;

	lane_want_hop_limits(l); /* the other lane's UD QPs may need them, from the next one on */
	while (end < last && last - end >= ROCEMU_BTH_LEN && lane_slot_of(b->data + end) == slot) {
		end += MIN(b->seg_len, last - end);
		n++;
	}
	if (l->forward &&
	    !forward_send(l->forward, (uint16_t)slot, &h, b->data + offset, end - offset))
		l->stats->rx_forwarded += n;
	else
		l->stats->rx_misrouted += n;
	return end - offset;
}

/*
 * Where the responses begin that a burst ends with, if they are to be taken before its requests; 0:
 * all is taken in order. An ACK shares a burst with the answer that its sender's program gave, and
 * has to be behind it, because it is shorter (txgroup.h). An adapter sends the ACK first, and
 * programs presume that their request completes before they receive the answer.
 */
static size_t responses_at(const struct burst *b)
{
	size_t at = b->len > b->seg_len ? (b->len - 1) / b->seg_len * b->seg_len : 0;
	bool ends_receive = false;

	if (!at || !(opcode_ops(b->data[at]) & ROCEMU_OP_RESPONSE))
		return 0;
	while (at && opcode_ops(b->data[at - b->seg_len]) & ROCEMU_OP_RESPONSE)
		at -= b->seg_len;
	for (size_t i = 0; i < at; i += b->seg_len) {
		/* Not in rocemu's order: these are bursts that GRO merged. */
		if (opcode_ops(b->data[i]) & ROCEMU_OP_RESPONSE)
			return 0;
		ends_receive |= opcode_ends_receive(b->data[i]);
	}
	return ends_receive ? at : 0;
}

static void input_segments(struct lane *l, rocemu_ns_t now, struct burst *b, size_t offset,
			   size_t end, bool forwarded) REQUIRES(l);
HOT static void input_segments(struct lane *l, rocemu_ns_t now, struct burst *b, size_t offset,
			       size_t end, bool forwarded)
{
	uint16_t index = offset ? (uint16_t)(offset / b->seg_len) : 0;
	struct rocemu_dgram d = b->meta;

	while (offset < end) {
		d.data = b->data + offset;
		d.len = (uint32_t)MIN(b->seg_len, end - offset);
		d.ip_id = (uint16_t)(b->meta.ip_id + index);
		if (unlikely(!b->group && lane_is_misrouted(l, d.data, d.len))) {
			/*
			 * Forwarded at most once: a datagram forwarded to the wrong lane is
			 * dropped.
			 */
			size_t len = forwarded ? d.len : forward_run(l, b, offset, end, d.ip_id);

			l->stats->rx_misrouted += forwarded;
			index = (uint16_t)(index + len / b->seg_len);
			offset += len;
			continue;
		}
		lane_input(l, now, &d);
		b->meta.ip_id = (uint16_t)(d.ip_id - index); /* for the others: as was found */
		if (unlikely(l->rx.fetches == FETCHES_EARLY)) {
			l->rx.fetches++; /* once: where more come together, their answers do not
					    wait for each other */
			lane_output(l, now);
			lane_output_end(l);
		}
		index++;
		offset += d.len;
	}
}

static void input_burst(struct lane *l, rocemu_ns_t now, struct burst *b, bool forwarded)
	REQUIRES(l);
HOT static void input_burst(struct lane *l, rocemu_ns_t now, struct burst *b, bool forwarded)
{
	const size_t at = responses_at(b);

	if (at)
		input_segments(l, now, b, at, b->len, forwarded);
	input_segments(l, now, b, 0, at ? at : b->len, forwarded);
}

/*
 * Does the buffer fill faster than it is emptied? Checked only when there was more than one call
 * could take, so that no single message waits for the check.
 */
static bool is_full(struct lane_sock *s, unsigned messages, unsigned batch, rocemu_ns_t now)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);

	if (messages < batch)
		return s->full = false;
	if (batch < LANE_RX_BATCH || now < s->fill_at + FULL_ASK_NS)
		return s->full;
	s->fill_at = now;
	s->full = !getsockopt(s->fd, SOL_SOCKET, SO_MEMINFO, info, &len) &&
		  len > SK_MEMINFO_RCVBUF * sizeof(info[0]) &&
		  info[SK_MEMINFO_RMEM_ALLOC] >=
			  (uint64_t)info[SK_MEMINFO_RCVBUF] * FULL_PERCENT / 100;
	return s->full;
}

/*
 * A call for several datagrams makes the kernel check for a second one, a cost for a single
 * datagram; calls for one cost a stream its batches, also of acknowledgements. So single datagrams
 * are requested one by one, and after several the next calls request several.
 */
static uint8_t several_after(uint8_t several, int n, unsigned batch)
{
	enum { AFTER_SEVERAL = 16 }; /* calls */

	if (n > 1)
		return AFTER_SEVERAL;
	if (n == 1)
		return batch == 1 || !several ? 1 : (uint8_t)(several - 1);
	return several > 1 ? several : 0;
}

/* @return datagrams, or -1 and errno. A single one is requested by the cheapest call. */
static int rx_call(struct lane_sock *s, struct mmsghdr *msg, unsigned batch)
{
	ssize_t len;

	if (batch > 1)
		return sys_recvmmsg(s->fd, msg, batch, MSG_DONTWAIT);
	len = sys_recvmsg(s->fd, &msg->msg_hdr, MSG_DONTWAIT);
	if (len < 0)
		return -1;
	msg->msg_len = (unsigned)len;
	return 1;
}

static unsigned rx_batch(struct lane *l, struct lane_sock *s, rocemu_ns_t now, unsigned batch,
			 bool first) REQUIRES(l);
HOT static unsigned rx_batch(struct lane *l, struct lane_sock *s, rocemu_ns_t now, unsigned batch,
			     bool first)
{
	struct lane_rx *rx = &l->rx;
	uint16_t *next_id;
	bool full;
	int n;

	for (unsigned i = 0; i < batch; i++) {
		rx->msg[i].msg_hdr.msg_namelen = sizeof(rx->from[i]);
		rx->msg[i].msg_hdr.msg_controllen = LANE_RX_CONTROL;
	}
	n = rx_call(s, rx->msg, batch);
	s->several = several_after(s->several, n, batch);
	if (n <= 0) {
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			log_debug("%s: receive: %s", l->device, strerror(errno));
		return 0;
	}
	memfault_thread();
	l->stats->rx_syscalls++;
	if (first) {
		rx->octets = rx->fetches = 0;
		rx->fetch_bytes = 0;
		rx->requests = rx->mid_message = false;
	}
	s->hot = true;
	s->last_rx = now;
	full = !s->group && is_full(s, (unsigned)n, batch, now);
	for (int i = 0; i < n; i++) {
		struct msghdr *m = &rx->msg[i].msg_hdr;
		struct burst b = {
			.data = rx->iov[i].iov_base,
			.len = rx->msg[i].msg_len,
			.seg_len = rx->msg[i].msg_len,
			.group = s->group,
			.meta = {.dst = s->gid, .dport = ROCEMU_UDP_PORT, .congested = full},
		};

		if (addr_to_gid(&rx->from[i], m->msg_namelen, &b.meta.src, &b.meta.sport))
			continue;
		read_control(l, s, m, &b);
		if (unlikely(b.forbidden)) {
			l->stats->rx_forbidden++;
			continue;
		}
		next_id = &rx->next_id[b.meta.sport % LANE_RX_IDS];
		b.meta.ip_id = *next_id;
		input_burst(l, now, &b, false);
		*next_id = b.meta.ip_id ? (uint16_t)(b.meta.ip_id + 1) : 0;
		rx->octets += (uint32_t)b.len;
	}
	return (unsigned)n;
}

/* Nothing but ACKs came, or requests to fetch something, and there are more. */
static bool only_short(const struct lane_rx *rx, unsigned n, unsigned sum)
{
	enum {
		SHORT_BYTES = 1024,	  /* more is data: it is answered before more is taken */
		ANSWER_BYTES = 512 << 10, /* the peer handles these while others are made */
	};

	return n == LANE_RX_BATCH && rx->octets < SHORT_BYTES &&
	       (!rx->requests ||
		(rx->fetches == sum && sum < FETCHES_EARLY && rx->fetch_bytes < ANSWER_BYTES));
}

/*
 * All ACKs that are there are taken before anything is sent: what they make room for in the window
 * then leaves in whole bursts. With a call for each few ACKs, a stream of 64 KiB messages sent each
 * fifth burst with one to four packets. So are a few requests of READs: the last response to one
 * and the first to the next have the same length, and share a burst.
 */
static unsigned rx_calls(struct lane *l, struct lane_sock *s, rocemu_ns_t now, unsigned batch)
	REQUIRES(l);
static unsigned rx_calls(struct lane *l, struct lane_sock *s, rocemu_ns_t now, unsigned batch)
{
	enum { CALLS_MAX = 8 };
	const struct lane_rx *rx = &l->rx;
	unsigned n = rx_batch(l, s, now, batch, true), sum = n;

	for (unsigned calls = 1; calls < CALLS_MAX && only_short(rx, n, sum); calls++) {
		n = rx_batch(l, s, now, LANE_RX_BATCH, false);
		sum += n;
	}
	return sum;
}

unsigned lane_rx_sock(struct lane *l, struct lane_sock *s, rocemu_ns_t now)
{
	return rx_calls(l, s, now, LANE_RX_BATCH);
}

enum {
	CALLS_MAX = 64, /* an endless sender must not delay timers */
	/* As many as a buffer of the agent's takes; the kernel counts 768 bytes or more for each.
	 */
	DRAIN_CALLS = (8 << 20) / 768 / LANE_RX_BATCH,
};

static void rx_all_socks(struct lane *l, rocemu_ns_t now, unsigned max_calls) REQUIRES(l);
static void rx_all_socks(struct lane *l, rocemu_ns_t now, unsigned max_calls)
{
	for (unsigned i = 0; i < l->nsocks; i++)
		for (unsigned calls = 0; calls < max_calls; calls++)
			if (lane_rx_sock(l, l->socks[i], now) < LANE_RX_BATCH)
				break;
}

HOT unsigned lane_rx_rings(struct lane *l, rocemu_ns_t now)
{
	/* Packets received by UDP were sent before those in the ring. */
	if (unlikely(l->shm->fresh) && lane_shm_starts(l))
		rx_all_socks(l, now, DRAIN_CALLS);
	return lane_shm_rx(l, now);
}

HOT unsigned lane_rx_hot(struct lane *l, rocemu_ns_t now)
{
	/* Polling a socket costs as much as polling rings 16 times: brief polls come between. */
	enum { POLLS_PER_LOOK = 2, RECEIVES_PER_LOOK = 16 };
	unsigned n = 0;

	if (unlikely(l->shm != NULL)) {
		n = lane_rx_rings(l, now);
		if (l->shm->nrx && ++l->shm->polls % (n ? RECEIVES_PER_LOOK : POLLS_PER_LOOK))
			return n;
	}
	for (unsigned i = 0; i < l->nsocks; i++)
		if (l->socks[i]->hot)
			n += rx_calls(l, l->socks[i], now,
				      l->socks[i]->several ? LANE_RX_BATCH : 1);
	return n;
}

void lane_rx_all(struct lane *l, rocemu_ns_t now)
{
	rx_all_socks(l, now, CALLS_MAX);
	if (likely(!l->shm))
		return;
	lane_rx_rings(l, now);
	for (unsigned i = 0; i < l->shm->nrx; i++)
		lane_shm_rx_all(l, l->shm->rx[i], now);
}

bool lane_rx_forwarded(struct lane *l, rocemu_ns_t now)
{
	struct forward_hdr h;
	ssize_t n = forward_recv(l->forward, &h, l->rx.buf, LANE_RX_BUF);
	struct burst b = {.data = l->rx.buf};

	if (n <= 0)
		return n == -EBADMSG;
	for (unsigned i = 0; i < l->nsocks; i++) {
		if (l->socks[i]->group || !rocemu_gid_equal(&h.dst, &l->socks[i]->gid))
			continue;
		b.len = (size_t)n;
		b.seg_len = h.seg_len;
		b.meta = (struct rocemu_dgram){
			.src = h.src,
			.dst = h.dst,
			.sport = h.sport,
			.dport = ROCEMU_UDP_PORT,
			.tclass = h.tclass,
			.hop_limit = h.hop_limit,
			.flow_label = h.flow_label,
			.ip_id = h.ip_id,
		};
		input_burst(l, now, &b, true);
		return true;
	}
	l->stats->rx_misrouted++;
	return true;
}
