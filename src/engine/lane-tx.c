/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: what the endpoint has to send, as UDP_SEGMENT bursts, several in one sendmmsg().
 *
 * Headers, small payloads and trailers are copied into one linear area so that a packet costs at
 * most one iovec beside its payload's; larger payload goes by reference and is copied once, by the
 * kernel. The ICRC of what is copied is that of the copy: the program may write to its memory
 * meanwhile. What goes by reference may so get a wrong one; it goes out from a copy the next time.
 */
#include <errno.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/log.h"
#include "engine/lane-internal.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
	DEFAULT_HOP_LIMIT = 64, /* for an address vector that left it 0, which no IP stack sends */
	BATCHES_BETWEEN_RX =
		8, /* a long send looks for what came in, lest the receive buffer overflow */
	TX_CONTROL = CMSG_SPACE(sizeof(uint16_t)) + 2 * CMSG_SPACE(sizeof(int)),
	TX_LINEAR = ROCEMU_OUTPUT_BATCH * (ROCEMU_MAX_HDR_LEN + LANE_LINEAR_MAX + 8),
	TX_IOV = ROCEMU_OUTPUT_BATCH * (ROCEMU_MAX_SGE + 2),
};

/* The messages of one sendmmsg(), built anew for each call. */
struct tx_batch {
	unsigned nmsg, niov;
	size_t linear_len;
	struct mmsghdr msg[ROCEMU_OUTPUT_BATCH];
	union addr to[ROCEMU_OUTPUT_BATCH];
	struct iovec iov[TX_IOV];
	uint8_t linear[TX_LINEAR];
	_Alignas(struct cmsghdr) uint8_t control[ROCEMU_OUTPUT_BATCH][TX_CONTROL];
};

/* One per thread rather than per lane: it lives for one call only, and the pages stay warm. */
static _Thread_local struct tx_batch batch;

static void set_free(struct lane *l, unsigned index)
{
	if (!l->tx.set[index])
		return;
	txsock_set_fini(l->tx.set[index]);
	free(l->tx.set[index]);
	l->tx.set[index] = NULL;
}

int lane_tx_init(struct lane *l)
{
	/* Mapped, not allocated: pages that nothing was copied to cost nothing. */
	l->tx.copy = mmap(NULL, (size_t)ROCEMU_OUTPUT_BATCH * ROCEMU_MAX_MTU, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l->tx.copy != MAP_FAILED)
		return 0;
	l->tx.copy = NULL;
	return -ENOMEM;
}

void lane_tx_fini(struct lane *l)
{
	if (l->tx.copy)
		munmap(l->tx.copy, (size_t)ROCEMU_OUTPUT_BATCH * ROCEMU_MAX_MTU);
	l->tx.copy = NULL;
	lane_backlog_fini(l);
	for (unsigned i = 0; i < ARRAY_LEN(l->tx.set); i++)
		set_free(l, i);
}

void lane_tx_forget(struct lane *l, unsigned index, const struct rocemu_gid *now)
{
	if (l->tx.set[index] && !addr_gid_equal(&l->tx.set[index]->gid, now))
		set_free(l, index);
}

/* Refused packets are lost packets to the transport; people get to know once per reason. */
static void report_error(struct lane *l, int err, const struct rocemu_path *path, unsigned packets)
{
	char to[ADDR_TEXT_LEN];
	uint32_t *word = &l->tx.errnos_seen[(unsigned)err / 32 % ARRAY_LEN(l->tx.errnos_seen)];
	const uint32_t bit = 1u << (unsigned)err % 32;

	l->stats->tx_errors += packets;
	if (*word & bit)
		return;
	*word |= bit;
	log_info("%s: sending to %s: %s (said once)", l->device, addr_gid_text(&path->dgid, to),
		 strerror(err));
}

static struct txsock_set *tx_set(struct lane *l, const struct rocemu_path *path, int *err)
{
	struct txsock_set *set;

	*err = -EADDRNOTAVAIL;
	if (path->sgid_index >= ROCEMU_MAX_GID)
		return NULL;
	set = l->tx.set[path->sgid_index];
	/* Of an address that is gone, and whose index is another's now, there is none any more. */
	if (likely(set != NULL))
		return addr_gid_equal(&set->gid, &path->sgid) ? set : NULL;
	for (unsigned i = 0; i < l->ngids; i++) {
		const struct lane_gid *g = &l->gids[i];

		if (g->index != path->sgid_index || !addr_gid_equal(&g->gid, &path->sgid))
			continue;
		set = malloc(sizeof(*set));
		*err = -ENOMEM;
		if (!set)
			return NULL;
		txsock_set_init(set, &g->gid, g->scope_id, l->ifindex);
		l->tx.set[path->sgid_index] = set;
		return set;
	}
	return NULL;
}

struct txsock *lane_tx_sock(struct lane *l, const struct rocemu_path *path)
{
	int err;
	struct txsock_set *set = tx_set(l, path, &err);
	struct txsock *s = set ? txsock_find(set, path, &err) : NULL;

	if (!s)
		report_error(l, -err, path, 0);
	return s;
}

int lane_prepare_path(struct lane *l, const struct rocemu_path *path)
{
	int err;
	struct txsock_set *set;
	struct rocemu_path marked = *path;

	if (l->dead)
		return -ENODEV;
	/* The socket's defaults are for requests: they need no control message then. */
	marked.tclass = ecn_tclass(l->tx.ecn.mode, path, ROCEMU_RC_SEND_ONLY);
	set = tx_set(l, path, &err);
	return set && txsock_find(set, &marked, &err) ? 0 : err;
}

/* ---- building ---- */

static void add_control(struct msghdr *m, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c =
		(struct cmsghdr *)(void *)((uint8_t *)m->msg_control + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	m->msg_controllen += CMSG_SPACE(len);
}

static void add_int(struct msghdr *m, int level, int type, int value)
{
	add_control(m, level, type, &value, sizeof(value));
}

/* Start a message: addressing and options. */
static struct msghdr *begin_message(const struct txsock_set *set, const struct txsock *s,
				    const struct rocemu_path *path, uint16_t gso_size)
{
	struct msghdr *m = &batch.msg[batch.nmsg].msg_hdr;
	union addr *to = &batch.to[batch.nmsg];
	uint8_t *control = batch.control[batch.nmsg++];
	const uint32_t scope = addr_gid_is_link_local(&path->dgid) ? set->scope_id : 0;
	const bool v4 = rocemu_gid_is_ipv4(&path->dgid);

	*m = (struct msghdr){
		.msg_name = to,
		.msg_namelen = addr_from_gid(to, &path->dgid, ROCEMU_UDP_PORT, scope),
		.msg_iov = &batch.iov[batch.niov],
		.msg_control = control,
	};
	if (unlikely(path->flow_label) && !v4 && !s->no_labels)
		to->in6.sin6_flowinfo = htonl(path->flow_label);
	if (gso_size)
		add_control(m, IPPROTO_UDP, UDP_SEGMENT, &gso_size, sizeof(gso_size));
	if (path->tclass != s->tclass)
		add_int(m, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, path->tclass);
	if (path->hop_limit != s->hop_limit)
		add_int(m, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT,
			path->hop_limit);
	if (!m->msg_controllen)
		m->msg_control = NULL;
	return m;
}

static void append_iov(struct msghdr *m, const struct iovec *iov)
{
	batch.iov[batch.niov++] = *iov;
	m->msg_iovlen++;
}

/* Copy bytes into the linear area; they join the message's last iovec when that ends where they
 * begin. */
static void append_copy(struct msghdr *m, const void *data, size_t len)
{
	uint8_t *at = batch.linear + batch.linear_len;
	struct iovec *last = m->msg_iovlen ? &m->msg_iov[m->msg_iovlen - 1] : NULL;

	memcpy(at, data, len);
	batch.linear_len += len;
	if (last && (uint8_t *)last->iov_base + last->iov_len == at)
		last->iov_len += len;
	else
		append_iov(m, &(struct iovec){.iov_base = at, .iov_len = len});
}

static void append_packet(struct msghdr *m, struct rocemu_tx *t, uint16_t ip_id)
{
	append_copy(m, t->hdr, t->hdr_len);
	if (t->payload_len && t->payload_len <= LANE_LINEAR_MAX) {
		rocemu_tx_flatten(t, batch.linear + batch.linear_len);
		batch.linear_len += t->payload_len;
		m->msg_iov[m->msg_iovlen - 1].iov_len += t->payload_len;
	} else {
		for (unsigned i = 0; i < t->niov; i++)
			append_iov(m, &t->iov[i]);
	}
	rocemu_tx_seal(t, ip_id);
	append_copy(m, t->trailer, t->trailer_len);
}

static void build(const struct txsock_set *set, const struct txsock *s,
		  struct rocemu_tx *const *pkt, const struct txburst *burst, unsigned n)
{
	batch.nmsg = batch.niov = 0;
	batch.linear_len = 0;
	for (unsigned b = 0; b < n; b++) {
		struct rocemu_tx *const *p = pkt + burst[b].first;
		struct msghdr *m = begin_message(set, s, p[0]->path,
						 burst[b].count > 1 ? burst[b].seg_len : 0);

		for (unsigned i = 0; i < burst[b].count; i++)
			append_packet(m, p[i], (uint16_t)i);
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
		     unsigned count)
{
	struct iovec piece[ROCEMU_MAX_SGE + 3], *iov = m->msg_iov;

	for (unsigned i = 0; i < count; i++) {
		const struct rocemu_path *path = p[i]->path;
		const struct tap_addr a = {
			.when_ns = when,
			.src = path->sgid,
			.dst = path->dgid,
			.sport = path->sport,
			.ip_id = (uint16_t)i,
			.tclass = path->tclass,
			.hop_limit = path->hop_limit,
			.flow_label = path->flow_label,
		};

		tap_write(l->tap, &a, piece, cut_front(&iov, rocemu_tx_len(p[i]), piece));
	}
}

/* ---- sending ---- */

static void sent(struct lane *l, uint64_t when, struct rocemu_tx *const *pkt,
		 const struct txburst *burst, unsigned n)
{
	for (unsigned b = 0; b < n; b++) {
		l->stats->tx_datagrams += burst[b].count;
		if (unlikely(l->tap != NULL))
			tap_sent(l, when, &batch.msg[b].msg_hdr, pkt + burst[b].first,
				 burst[b].count);
	}
	if (unlikely(l->tap != NULL))
		lane_tap_dirty(l, lane_now());
}

static unsigned send_bursts(struct lane *l, const struct txsock_set *set, struct txsock *s,
			    struct rocemu_tx *const *pkt, const struct txburst *burst, unsigned n)
	REQUIRES(l);

/*
 * A burst was refused: packets larger than the path's MTU, or a device that cannot segment (no
 * checksum offload). Alone they may go; when they do, bursts are not tried here again.
 */
static unsigned send_singly(struct lane *l, const struct txsock_set *set, struct txsock *s,
			    struct rocemu_tx *const *pkt, unsigned count) REQUIRES(l);
static unsigned send_singly(struct lane *l, const struct txsock_set *set, struct txsock *s,
			    struct rocemu_tx *const *pkt, unsigned count)
{
	struct txburst single[TXGROUP_MAX_SEGMENTS];
	unsigned done;

	for (unsigned i = 0; i < count; i++)
		single[i] = (struct txburst){.first = (uint16_t)i, .count = 1};
	done = send_bursts(l, set, s, pkt, single, count);
	if (done && !s->no_gso) {
		s->no_gso = true;
		log_debug("%s: source port %u: UDP segmentation refused, sending datagrams one by "
			  "one",
			  l->device, (unsigned)s->port);
	}
	return done;
}

/* Where one process has a flow label to itself, the kernel lets no other label out that was not asked for. */
static bool labels_refused(const struct lane *l, struct txsock *s, const struct rocemu_path *path)
{
	if (s->no_labels || !path->flow_label || rocemu_gid_is_ipv4(&path->dgid))
		return false;
	s->no_labels = true;
	log_debug("%s: source port %u: flow labels refused, sending without", l->device, (unsigned)s->port);
	return true;
}

static bool burst_refused(int err)
{
	return err == EINVAL || err == EIO || err == EMSGSIZE || err == EOPNOTSUPP;
}

/* Send bursts that all leave by one socket. @return packets sent. */
static unsigned send_bursts(struct lane *l, const struct txsock_set *set, struct txsock *s,
			    struct rocemu_tx *const *pkt, const struct txburst *burst, unsigned n)
{
	unsigned packets = 0;

	for (unsigned done = 0; done < n;) {
		const struct txburst *head = burst + done;
		uint64_t when = l->tap ? tap_now() : 0;
		int r, err;

		if (unlikely(l->tx.nbacklog)) {
			/* In order, behind what waits. */
			lane_backlog_add(l, pkt + head->first, head->count);
			packets += head->count;
			done++;
			continue;
		}

		build(set, s, pkt, head, n - done);
		r = sendmmsg(s->fd, batch.msg, batch.nmsg, MSG_DONTWAIT);
		err = errno;
		l->stats->tx_syscalls++;
		if (likely(r > 0)) {
			sent(l, when, pkt, head, (unsigned)r);
			for (int i = 0; i < r; i++)
				packets += head[i].count;
			done += (unsigned)r;
			continue;
		}
		if (r < 0 && err == EINTR)
			continue;
		if (r < 0 && err == EAGAIN) {
			lane_backlog_add(l, pkt + head->first, head->count);
			packets += head->count;
			done++;
			continue;
		}
		if (err == EINVAL && labels_refused(l, s, pkt[head->first]->path))
			continue;
		if (head->count > 1 && burst_refused(err))
			packets += send_singly(l, set, s, pkt + head->first, head->count);
		else
			report_error(l, err, pkt[head->first]->path, head->count);
		done++;
	}
	return packets;
}

/* Find each packet's socket and give it the path it really takes. @return packets that have one. */
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
				alt->sport = s->port;
				if (!alt->hop_limit)
					alt->hop_limit = DEFAULT_HOP_LIMIT;
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

void lane_tx_send(struct lane *l, struct rocemu_tx **pkt, unsigned n)
{
	struct txsock *sock[ROCEMU_OUTPUT_BATCH];
	struct txburst burst[ROCEMU_OUTPUT_BATCH];

	txgroup_order(pkt, n);
	n = resolve(l, pkt, n, sock);
	for (unsigned start = 0, i = 1; i <= n; i++) {
		unsigned bursts;

		if (i < n && sock[i] == sock[start])
			continue;
		bursts = txgroup_build(pkt + start, i - start,
				       sock[start]->no_gso ? 1 : TXGROUP_MAX_SEGMENTS, burst);
		send_bursts(l, l->tx.set[pkt[start]->path->sgid_index], sock[start], pkt + start,
			    burst, bursts);
		start = i;
	}
}

void lane_tx_send_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data,
		      size_t len)
{
	if (unlikely(l->tx.nbacklog) || !lane_tx_try_raw(l, path, data, len, false))
		lane_backlog_add_raw(l, path, data, len);
}

bool lane_tx_try_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data, size_t len,
		     bool wait)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct txsock *s = lane_tx_sock(l, path);
	uint64_t when = l->tap ? tap_now() : 0;
	ssize_t r;

	if (!s) {
		l->stats->tx_errors++;
		return true;
	}
	batch.nmsg = batch.niov = 0;
	append_iov(begin_message(l->tx.set[path->sgid_index], s, path, 0), &iov);
	do
		r = sendmsg(s->fd, &batch.msg[0].msg_hdr, wait ? 0 : MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	l->stats->tx_syscalls++;
	if (r < 0 && errno == EAGAIN)
		return false;
	if (r < 0 && errno == EINVAL && labels_refused(l, s, path))
		return lane_tx_try_raw(l, path, data, len, wait);
	if (r < 0) {
		report_error(l, errno, path, 1);
		return true;
	}
	l->stats->tx_datagrams++;
	if (l->tap) {
		const struct tap_addr a = {
			.when_ns = when,
			.src = path->sgid,
			.dst = path->dgid,
			.sport = path->sport,
			.tclass = path->tclass,
			.hop_limit = path->hop_limit,
			.flow_label = path->flow_label,
		};

		tap_write(l->tap, &a, &iov, 1);
		lane_tap_dirty(l, lane_now());
	}
	return true;
}

/* UC and UD requests wait: see how much their receivers can take. @return false: nothing now. */
static bool give_room(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static bool give_room(struct lane *l, rocemu_ns_t now)
{
	uint64_t room;

	if (!rocemu_ep_wants_datagram_room(l->ep))
		return false;
	room = pace_room(&l->pace, now);
	rocemu_ep_set_datagram_room(l->ep, room);
	return room > 0;
}

static uint32_t scope_of(const struct lane *l, const struct rocemu_path *path)
{
	for (unsigned i = 0; i < l->ngids; i++)
		if (l->gids[i].index == path->sgid_index)
			return l->gids[i].scope_id;
	return 0;
}

void lane_tx_output(struct lane *l, rocemu_ns_t now)
{
	struct rocemu_tx *pkt[ROCEMU_OUTPUT_BATCH];
	unsigned n;

	if (unlikely(l->tx.nbacklog) && !lane_backlog_flush(l, now))
		return;
	/* Until there is none: the call that fills none tells the endpoint that the ones before
	 * have left. */
	for (unsigned batches = 1;; batches++) {
		n = rocemu_ep_output(l->ep, now, l->tx.desc, ROCEMU_OUTPUT_BATCH);
		if (!n && !give_room(l, now))
			break;
		for (unsigned i = 0; i < n; i++) {
			pkt[i] = &l->tx.desc[i];
			if (unlikely(pkt[i]->again && pkt[i]->niov))
				rocemu_tx_flatten(pkt[i], l->tx.copy + (size_t)i * ROCEMU_MAX_MTU);
		}
		ecn_mark(&l->tx.ecn, pkt, n);
		if (n)
			pace_sending(&l->pace, l->agent, scope_of(l, pkt[0]->path), now, pkt, n);
		if (unlikely(l->impair.on || l->down))
			lane_impair_send(l, now, pkt, n);
		else
			lane_tx_send(l, pkt, n);
		if (unlikely(l->tx.nbacklog))
			break;
		if (batches % BATCHES_BETWEEN_RX == 0) {
			now = lane_now();
			lane_rx_hot(l, now);
		}
	}
	/* What is known of the receivers is old the next time. */
	rocemu_ep_set_datagram_room(l->ep, 0);
}
