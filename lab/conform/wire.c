/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cmsg.h"
#include "base/util.h"
#include "conform/raw.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

enum {
	PORTS = 64,	/* source ports of a case */
	KEPT = 1024,	/* packets that came and have not been read */
	PROBE_MS = 100, /* then the probe's packet is taken as lost */
	PROBE_TRIES = 50,
	TTL = 61,
	BUFFER = 4 << 20, /* of the socket */
};

/** Any address of IP. */
union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct sender {
	int fd;
	uint16_t port;
	bool other; /* it has another address than the peer's */
};

struct wire {
	union address local;
	struct rocemu_gid gid;
	int fd;	 /* of port 4791 */
	int raw; /* of raw_send(), or -1 */
	const char *why_not;
	struct sender sender[PORTS];
	unsigned senders;
	uint32_t probe_qpn, probe_psn; /* the PSN: its next */
	struct wire_packet kept[KEPT]; /* a ring; their data is owned */
	unsigned first, count;
	bool lost; /* there was no room */
	void (*tap)(void *arg, const struct wire_packet *p);
	bool (*take)(void *arg, const struct wire_packet *p);
	void *tap_arg, *take_arg;
	uint64_t last_ns;	     /* of the last packet sent */
	uint64_t read_ns;	     /* of the last packet read */
	uint64_t sent_ns, first_ns;  /* at wire_mark(); of the first effect behind it, or 0 */
	uint64_t came_ns, before_ns; /* of the last effect, and of that before it, or 0 */
	struct rocemu_packet last;
	struct ip_udp last_ip;
	bool any;
	char text[SCENARIO_LINE_MAX];
	uint8_t payload[ROCEMU_MAX_MTU];
};

/* ---- addresses ---- */

static struct rocemu_gid gid_of(const union address *a)
{
	struct rocemu_gid gid = {{[10] = 0xff, [11] = 0xff}};

	if (a->sa.sa_family == AF_INET)
		memcpy(gid.raw + 12, &a->in.sin_addr, sizeof(a->in.sin_addr));
	else
		memcpy(gid.raw, &a->in6.sin6_addr, sizeof(gid.raw));
	return gid;
}

static union address address_of(const struct rocemu_gid *gid, uint16_t port)
{
	union address a = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

	memcpy(&a.in6.sin6_addr, gid->raw, sizeof(gid->raw));
	if (rocemu_gid_is_ipv4(gid)) {
		a = (union address){.in = {.sin_family = AF_INET, .sin_port = htons(port)}};
		memcpy(&a.in.sin_addr, gid->raw + 12, sizeof(a.in.sin_addr));
	}
	return a;
}

static socklen_t address_len(const union address *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

static bool read_address(const char *text, union address *a)
{
	*a = (union address){.in.sin_family = AF_INET};
	if (inet_pton(AF_INET, text, &a->in.sin_addr) == 1)
		return true;
	*a = (union address){.in6.sin6_family = AF_INET6};
	return inet_pton(AF_INET6, text, &a->in6.sin6_addr) == 1;
}

/* ---- sockets ---- */

/**
 * A datagram has to leave as it is: not fragmented, and with an identification of 0. The device may
 * have the same source port on all addresses, and share it.
 */
static void set_options(int fd, int family)
{
	const int never = IP_PMTUDISC_DO, size = BUFFER, on = 1, off = 0, ttl = TTL;

	for (const int *o = cmsg_forbidden_options(family == AF_INET); *o; o++)
		setsockopt(fd, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, *o, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	/* With the capability for it, packets may come from any address. */
	if (family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof(on));
	if (family == AF_INET) {
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &never, sizeof(never));
		setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
		setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
		setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof(on));
	} else {
		setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &never, sizeof(never));
		setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &ttl, sizeof(ttl));
		setsockopt(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, &off, sizeof(off));
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof(on));
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

/** @return a socket of the address with this port, or a negative errno. */
static int bound(const union address *address, uint16_t port)
{
	union address a = *address;
	int fd = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	set_options(fd, a.sa.sa_family);
	if (a.sa.sa_family == AF_INET)
		a.in.sin_port = htons(port);
	else
		a.in6.sin6_port = htons(port);
	if (bind(fd, &a.sa, address_len(&a)) == 0)
		return fd;
	port = (uint16_t)errno;
	close(fd);
	return -port;
}

struct wire *wire_open(const char *address, int *error)
{
	struct wire *w = calloc(1, sizeof(*w));

	*error = w ? 0 : -ENOMEM;
	if (!w)
		return NULL;
	w->fd = w->raw = -1;
	if (read_address(address, &w->local))
		w->fd = bound(&w->local, ROCEMU_UDP_PORT);
	else
		*error = -EINVAL;
	w->gid = gid_of(&w->local);
	if (!*error && w->fd < 0)
		*error = w->fd;
	if (!*error)
		return w;
	wire_close(w);
	return NULL;
}

static void forget(struct wire *w)
{
	for (; w->count; w->count--) {
		free(w->kept[w->first].data);
		w->first = (w->first + 1) % KEPT;
	}
}

static void close_senders(struct wire *w)
{
	while (w->senders)
		close(w->sender[--w->senders].fd);
}

void wire_close(struct wire *w)
{
	forget(w);
	close_senders(w);
	if (w->fd >= 0)
		close(w->fd);
	if (w->raw >= 0)
		close(w->raw);
	free(w);
}

struct rocemu_gid wire_gid(const struct wire *w)
{
	return w->gid;
}

/* ---- what comes ---- */

void wire_tap(struct wire *w, void (*tap)(void *arg, const struct wire_packet *p), void *arg)
{
	w->tap = tap;
	w->tap_arg = arg;
}

void wire_take(struct wire *w, bool (*take)(void *arg, const struct wire_packet *p), void *arg)
{
	w->take = take;
	w->take_arg = arg;
}

int wire_fd(const struct wire *w)
{
	return w->fd;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void keep(struct wire *w, const struct wire_packet *p)
{
	struct wire_packet *k = &w->kept[(w->first + w->count) % KEPT];
	uint8_t *data = w->count < KEPT ? malloc(p->len + !p->len) : NULL;

	if (!data) {
		w->lost = true;
		return;
	}
	memcpy(data, p->data, p->len);
	*k = *p;
	k->data = data;
	w->count++;
}

/** What the kernel says of a packet besides its bytes. */
static void read_control(struct msghdr *m, struct wire_packet *p)
{
	struct timespec t;

	p->ns = now_ns();
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&t, CMSG_DATA(c), sizeof(t));
			p->ns = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
		} else if (!cmsg_network(c, &p->ip.tclass, &p->ip.hop_limit)) {
			p->forbidden |= cmsg_is_forbidden(c);
		}
	}
}

/** One packet. @return false: there is none. data: ROCEMU_MAX_PACKET + 1 bytes. */
static bool read_one(const struct wire *w, struct wire_packet *p, uint8_t *data)
{
	union address from;
	struct iovec v = {.iov_base = data, .iov_len = ROCEMU_MAX_PACKET + 1};
	uint8_t control[256] __attribute__((aligned(8)));
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	const ssize_t n = recvmsg(w->fd, &m, 0);

	if (n < 0)
		return false;
	*p = (struct wire_packet){.len = (uint32_t)n, .data = data};
	p->ip.src = gid_of(&from);
	p->ip.dst = w->gid;
	p->ip.sport = ntohs(from.sa.sa_family == AF_INET ? from.in.sin_port : from.in6.sin6_port);
	p->ip.dport = ROCEMU_UDP_PORT;
	p->ip.ip_frag = IP_FLAG_DF;
	read_control(&m, p);
	return true;
}

bool wire_receive(struct wire *w)
{
	uint8_t data[ROCEMU_MAX_PACKET + 1];
	struct wire_packet came;
	bool probe = false;

	while (read_one(w, &came, data)) {
		struct rocemu_packet p;

		if (w->tap)
			w->tap(w->tap_arg, &came);
		if (w->probe_qpn && rocemu_packet_decode(&p, data, came.len) == ROCEMU_DROP_NONE &&
		    p.h.dqpn == WIRE_PROBE_QPN)
			probe |= p.h.psn == w->probe_psn;
		else if (!w->take || !w->take(w->take_arg, &came))
			keep(w, &came);
	}
	return probe;
}

void wire_begin(struct wire *w, uint32_t probe_qpn)
{
	wire_receive(w);
	forget(w);
	close_senders(w);
	w->probe_qpn = probe_qpn;
	w->probe_psn = 0;
	w->lost = w->any = false;
	w->sent_ns = w->first_ns = w->came_ns = w->before_ns = 0;
}

const struct rocemu_packet *wire_last(const struct wire *w)
{
	return w->any ? &w->last : NULL;
}

const struct ip_udp *wire_last_ip(const struct wire *w)
{
	return &w->last_ip;
}

uint8_t *wire_last_payload(struct wire *w)
{
	return w->payload;
}

void wire_mark(struct wire *w)
{
	w->sent_ns = w->last_ns;
	w->first_ns = 0;
}

uint64_t wire_marked_ns(const struct wire *w)
{
	return w->sent_ns;
}

uint64_t wire_read_ns(const struct wire *w)
{
	return w->read_ns;
}

void wire_effect(struct wire *w, uint64_t ns)
{
	w->before_ns = w->came_ns;
	w->came_ns = ns;
	if (!w->first_ns && ns >= w->sent_ns)
		w->first_ns = ns;
}

bool wire_latency(const struct wire *w, uint64_t *ns)
{
	*ns = w->first_ns - w->sent_ns;
	return w->sent_ns && w->first_ns;
}

bool wire_interval(const struct wire *w, uint64_t *ns)
{
	*ns = w->came_ns - w->before_ns;
	return w->before_ns;
}

static const char *fault_of(const struct scenario_peer *peer, const struct wire_packet *k,
			    const struct rocemu_packet *p)
{
	if (!rocemu_gid_equal(&k->ip.src, &peer->device_gid))
		return " FROM ANOTHER ADDRESS";
	if (k->forbidden)
		return " WITH IP OPTIONS, OR IN FRAGMENTS";
	return scenario_packet_fault(peer, k->ip.sport, k->data, k->len, &p->h);
}

static void read_packet(struct wire *w, const struct scenario_peer *peer,
			const struct wire_packet *k)
{
	char text[SCENARIO_LINE_MAX - 32];
	struct rocemu_packet p;

	w->read_ns = k->ns;
	if (rocemu_packet_decode(&p, k->data, k->len) != ROCEMU_DROP_NONE) {
		snprintf(w->text, sizeof(w->text), "?");
		w->any = false;
		return;
	}
	scenario_packet_text(peer->setup, 0, &p, text, sizeof(text));
	snprintf(w->text, sizeof(w->text), "%s%s", text, fault_of(peer, k, &p));
	memcpy(w->payload, p.payload, p.payload_len);
	p.payload = NULL;
	w->last = p;
	w->last_ip = k->ip;
	w->any = true;
}

const char *wire_next(struct wire *w, const struct scenario_peer *peer)
{
	wire_receive(w);
	if (w->lost) {
		w->lost = w->any = false;
		return "PACKETS LOST BY THE PEER";
	}
	if (!w->count)
		return NULL;
	read_packet(w, peer, &w->kept[w->first]);
	free(w->kept[w->first].data);
	w->first = (w->first + 1) % KEPT;
	w->count--;
	return w->text;
}

/* ---- what is sent ---- */

/** The socket with a source address and port. @return it, or a negative errno value. */
static int sender(struct wire *w, const struct rocemu_gid *from, uint16_t port)
{
	const bool other = !rocemu_gid_equal(from, &w->gid);
	const union address address = other ? address_of(from, 0) : w->local;
	struct sender *s = w->sender;

	if (port == ROCEMU_UDP_PORT && !other)
		return w->fd;
	for (; s < w->sender + w->senders; s++)
		if (s->port == port && s->other == other)
			return s->fd;
	if (w->senders == PORTS)
		return -EOPNOTSUPP;
	s->port = port;
	s->other = other;
	s->fd = bound(&address, port);
	if (s->fd >= 0)
		w->senders++;
	return s->fd;
}

static void set_tos(int fd, int family, int tos)
{
	if (family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
}

/** Packets have a right UDP checksum, or none. */
static void set_checksum(int fd, int family, bool has)
{
	const int no = !has;

	if (family == AF_INET)
		setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &no, sizeof(no));
	else
		setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &no, sizeof(no));
}

static struct ip_udp headers(const struct rocemu_gid *from, const struct rocemu_gid *to,
			     uint16_t sport, uint8_t tclass)
{
	return (struct ip_udp){.src = *from,
			       .dst = *to,
			       .sport = sport,
			       .dport = ROCEMU_UDP_PORT,
			       .ip_frag = IP_FLAG_DF,
			       .tclass = tclass,
			       .hop_limit = TTL};
}

/** A packet is about to be sent. */
static void show_sent(struct wire *w, const struct ip_udp *ip, uint8_t *data, size_t len)
{
	const struct wire_packet p = {
		.ip = *ip, .ns = now_ns(), .sent = true, .len = (uint32_t)len, .data = data};

	if (w->tap)
		w->tap(w->tap_arg, &p);
	w->last_ns = p.ns;
}

static int send_from(struct wire *w, const struct rocemu_gid *from, const struct rocemu_gid *to,
		     uint16_t sport, uint8_t tclass, uint8_t *data, size_t len)
{
	const union address address = address_of(to, ROCEMU_UDP_PORT);
	const struct ip_udp ip = headers(from, to, sport, tclass);
	const int fd = sender(w, from, sport);

	if (fd < 0)
		return fd;
	set_tos(fd, w->local.sa.sa_family, tclass);
	show_sent(w, &ip, data, len);
	return sendto(fd, data, len, 0, &address.sa, address_len(&address)) < 0 ? -errno : 0;
}

int wire_send_bytes(struct wire *w, const struct rocemu_gid *to, uint16_t sport, uint8_t tclass,
		    uint8_t *data, size_t len)
{
	return send_from(w, &w->gid, to, sport, tclass, data, len);
}

/** A packet that a UDP socket cannot send. */
static int send_raw(struct wire *w, struct ip_udp ip, const struct scenario_packet *p,
		    uint8_t *data, size_t len)
{
	ip.ip_id = p->ip_id;
	ip.ip_frag = p->df ? IP_FLAG_DF : 0;
	show_sent(w, &ip, data, len);
	return raw_send(&w->raw, &ip, p, data, len, &w->why_not);
}

const char *wire_why_not(const struct wire *w)
{
	return w->why_not;
}

int wire_send(struct wire *w, const struct scenario_peer *peer, const struct scenario_packet *p)
{
	const struct rocemu_gid from = scenario_peer_source(peer, p);
	uint8_t data[ROCEMU_MAX_PACKET];
	const uint8_t tclass = (uint8_t)(p->dscp << 2 | p->ecn);
	size_t hdr_len, len;
	int error;

	w->why_not = NULL;
	if (p->congested || p->by_memory || (p->ip_id && !raw_needed(p)))
		return -EOPNOTSUPP;
	len = scenario_peer_encode(peer, p, data, &hdr_len);
	if (raw_needed(p))
		return send_raw(w, headers(&from, &peer->device_gid, p->sport, tclass), p, data,
				len);
	set_checksum(sender(w, &from, p->sport), w->local.sa.sa_family, p->udp_checksum);
	error = send_from(w, &from, &peer->device_gid, p->sport, tclass, data, len);
	/* The host has not the other address, or may not send from it. */
	return p->other_source && error ? -EOPNOTSUPP : error;
}

/**
 * A READ of no bytes: it needs no key. An ACK might overtake responses of the other queue pair;
 * responses take turns.
 */
static struct scenario_packet probe_packet(const struct wire *w, const struct scenario_peer *peer)
{
	return (struct scenario_packet){
		.h = {.opcode = ROCEMU_RC_READ_REQUEST,
		      .migreq = true,
		      .ackreq = true,
		      .pkey = ROCEMU_PKEY_DEFAULT,
		      .dqpn = w->probe_qpn,
		      .psn = w->probe_psn},
		.sport = peer->sport,
		.dscp = WIRE_TCLASS >> 2,
		.df = true,
		.udp_checksum = true,
	};
}

/** One question and its answer. */
static int ask(struct wire *w, const struct scenario_peer *peer)
{
	const struct scenario_packet p = probe_packet(w, peer);
	struct pollfd wait = {.fd = w->fd, .events = POLLIN};
	int error = 0;

	for (unsigned i = 0; i < PROBE_TRIES && !error; i++) {
		error = wire_send(w, peer, &p);
		while (!error && poll(&wait, 1, PROBE_MS) > 0) {
			if (wire_receive(w)) {
				w->probe_psn = (w->probe_psn + 1) & ROCEMU_PSN_MASK;
				return 0;
			}
		}
	}
	return error ? error : -ETIMEDOUT;
}

int wire_probe(struct wire *w, const struct scenario_peer *peer)
{
	/* What leaves at once may leave in any order: the second question is behind all of that. */
	const int error = ask(w, peer);

	return error ? error : ask(w, peer);
}
