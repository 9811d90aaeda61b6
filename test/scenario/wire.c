/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"

enum {
	PORTS = 64,	/* source ports of a case */
	KEPT = 1024,	/* packets that came and have not been read */
	PROBE_MS = 100, /* then the probe's packet is taken as lost */
	PROBE_TRIES = 50,
	TCLASS = 0x20,
	TTL = 61,
	BUFFER = 4 << 20, /* of the socket */
};

/** Any address of IP. */
union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct kept {
	struct rocemu_gid src;
	uint16_t sport;
	uint32_t len;
	uint8_t *data; /* owned */
};

struct sender {
	int fd;
	uint16_t port;
};

struct wire {
	union address local;
	struct rocemu_gid gid;
	int fd; /* of port 4791 */
	struct sender sender[PORTS];
	unsigned senders;
	uint32_t probe_qpn, probe_psn; /* the PSN: its next */
	struct kept kept[KEPT];	       /* a ring */
	unsigned first, count;
	bool lost; /* there was no room */
	struct rocemu_packet last;
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

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (family == AF_INET) {
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &never, sizeof(never));
		setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	} else {
		setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &never, sizeof(never));
		setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &ttl, sizeof(ttl));
		setsockopt(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, &off, sizeof(off));
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

/** @return a socket of the peer with this port, or a negative errno. */
static int bound(const struct wire *w, uint16_t port)
{
	union address a = w->local;
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
	w->fd = -1;
	if (read_address(address, &w->local))
		w->fd = bound(w, ROCEMU_UDP_PORT);
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
	free(w);
}

struct rocemu_gid wire_gid(const struct wire *w)
{
	return w->gid;
}

/* ---- what comes ---- */

static void keep(struct wire *w, const union address *from, const uint8_t *data, size_t len)
{
	struct kept *k = &w->kept[(w->first + w->count) % KEPT];

	k->data = w->count < KEPT ? malloc(len + !len) : NULL;
	if (!k->data) {
		w->lost = true;
		return;
	}
	memcpy(k->data, data, len);
	k->len = (uint32_t)len;
	k->src = gid_of(from);
	k->sport = ntohs(from->sa.sa_family == AF_INET ? from->in.sin_port : from->in6.sin6_port);
	w->count++;
}

/** Read what there is. @return true: the probe's answer is among it. */
static bool receive(struct wire *w)
{
	uint8_t data[ROCEMU_MAX_PACKET + 1];
	bool probe = false;

	for (;;) {
		union address from;
		socklen_t size = sizeof(from);
		struct rocemu_packet p;
		const ssize_t n = recvfrom(w->fd, data, sizeof(data), 0, &from.sa, &size);

		if (n < 0)
			return probe;
		if (rocemu_packet_decode(&p, data, (size_t)n) == ROCEMU_DROP_NONE &&
		    p.h.dqpn == WIRE_PROBE_QPN)
			probe |= p.h.psn == w->probe_psn;
		else
			keep(w, &from, data, (size_t)n);
	}
}

void wire_begin(struct wire *w, uint32_t probe_qpn)
{
	receive(w);
	forget(w);
	close_senders(w);
	w->probe_qpn = probe_qpn;
	w->probe_psn = 0;
	w->lost = w->any = false;
}

const struct rocemu_packet *wire_last(const struct wire *w)
{
	return w->any ? &w->last : NULL;
}

uint8_t *wire_last_payload(struct wire *w)
{
	return w->payload;
}

static const char *fault_of(const struct scenario_peer *peer, const struct kept *k,
			    const struct rocemu_packet *p)
{
	if (!rocemu_gid_equal(&k->src, &peer->device_gid))
		return " FROM ANOTHER ADDRESS";
	return scenario_packet_fault(peer, k->sport, k->data, k->len, &p->h);
}

static void read_packet(struct wire *w, const struct scenario_peer *peer, const struct kept *k)
{
	char text[SCENARIO_LINE_MAX - 32];
	struct rocemu_packet p;

	if (rocemu_packet_decode(&p, k->data, k->len) != ROCEMU_DROP_NONE) {
		snprintf(w->text, sizeof(w->text), "?");
		return;
	}
	scenario_packet_text(peer->setup, 0, &p, text, sizeof(text));
	snprintf(w->text, sizeof(w->text), "%s%s", text, fault_of(peer, k, &p));
	memcpy(w->payload, p.payload, p.payload_len);
	p.payload = NULL;
	w->last = p;
	w->any = true;
}

const char *wire_next(struct wire *w, const struct scenario_peer *peer)
{
	receive(w);
	if (w->lost) {
		w->lost = false;
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

/** The socket with a source port. @return it, or a negative errno value. */
static int sender(struct wire *w, uint16_t port)
{
	struct sender *s = w->sender;

	if (port == ROCEMU_UDP_PORT)
		return w->fd;
	for (; s < w->sender + w->senders; s++)
		if (s->port == port)
			return s->fd;
	if (w->senders == PORTS)
		return -EOPNOTSUPP;
	s->port = port;
	s->fd = bound(w, port);
	if (s->fd >= 0)
		w->senders++;
	return s->fd;
}

static void set_tos(int fd, int family, int ecn)
{
	const int tos = TCLASS | ecn;

	if (family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
}

int wire_send(struct wire *w, const struct scenario_peer *peer, const struct scenario_packet *p)
{
	const union address to = address_of(&peer->device_gid, ROCEMU_UDP_PORT);
	uint8_t data[ROCEMU_MAX_PACKET];
	size_t hdr_len, len;
	int fd;

	if (p->other_source || p->congested || p->by_memory || p->ip_id)
		return -EOPNOTSUPP;
	fd = sender(w, p->sport);
	if (fd < 0)
		return fd;
	set_tos(fd, w->local.sa.sa_family, p->ecn);
	len = scenario_peer_encode(peer, p, data, &hdr_len);
	return sendto(fd, data, len, 0, &to.sa, address_len(&to)) < 0 ? -errno : 0;
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
			if (receive(w)) {
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
