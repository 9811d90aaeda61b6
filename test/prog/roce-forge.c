/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends unsolicited packets to a RoCEv2 port, as any local user can: by a plain UDP socket.
 *
 *	roce-forge KIND SOURCE[:PORT] DESTINATION QPN FIRST COUNT [PACKETS_PER_SECOND [QPNS]]
 *
 * KIND: write     WRITEs with a key that there is not, the PSNs FIRST, FIRST + 1, ...
 *       empty     WRITEs of no bytes, which need no key
 *       gaps      the same, each second one before its turn: FIRST, FIRST + 2, FIRST + 1, ...
 *       nak       NAKs "remote operational error", likewise
 *       sequence  NAKs "PSN sequence error"
 *       rnr       RNR NAKs with the longest time
 *       busy      RNR NAKs with the shortest time, each as the answer to a packet that comes to
 *                 SOURCE's port 4791, to the QPN that this is for; QPN and FIRST do not count
 *       ack       ACKs
 *       cnp       congestion notifications, which have no PSN
 *       marked    SENDs of no bytes, marked by ECN
 *       garbage   64 bytes that are no packet, but for the QPN
 *       fragments datagrams of 20,000 bytes that are no packet; more than an interface takes at
 *                 once
 * All packets are well-formed otherwise: checksum, QPN, addresses. With PORT they come from that
 * port although another socket has it, by a raw socket, which needs privilege. With QPNS, each PSN
 * goes to so many QPNs, from QPN on. Prints how many were sent, and how long it took.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <rocemu/wire.h>

#include "wire/bth.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { BURST = 64, GARBAGE = 64, BIG = 20000, PAYLOAD = 8, HDRS = 28, ECN_CE = 3 };

/** Packets of a kind; those without an entry are no packets. */
struct kind {
	const char *name;
	uint8_t opcode, syndrome, payload;
};

static const struct kind kinds[] = {
	{"write", ROCEMU_RC_WRITE_ONLY, 0, PAYLOAD},
	{"empty", ROCEMU_RC_WRITE_ONLY, 0, 0},
	{"gaps", ROCEMU_RC_WRITE_ONLY, 0, 0},
	{"nak", ROCEMU_RC_ACK, ROCEMU_NAK_REM_OP, 0},
	{"sequence", ROCEMU_RC_ACK, ROCEMU_NAK_PSN_SEQ, 0},
	{"rnr", ROCEMU_RC_ACK, ROCEMU_AETH_RNR, 0},
	{"busy", ROCEMU_RC_ACK, ROCEMU_AETH_RNR | 1, 0},
	{"ack", ROCEMU_RC_ACK, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS, 0},
	{"cnp", ROCEMU_CNP, 0, ROCEMU_CNP_LEN},
	{"marked", ROCEMU_RC_SEND_ONLY, 0, 0},
};

struct forge {
	const char *name;
	const struct kind *kind; /* NULL: no packets */
	int fd;
	bool raw;
	struct sockaddr_in from, to;
	struct rocemu_icrc_ctx icrc;
	uint32_t qpn, qpns;
	uint8_t buf[BIG + BURST * 128];
};

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static struct rocemu_gid gid_of(struct in_addr a)
{
	struct rocemu_gid gid = {{[10] = 0xff, [11] = 0xff}};

	memcpy(gid.raw + 12, &a, 4);
	return gid;
}

/** SOURCE[:PORT] and DESTINATION. */
static void read_addresses(struct forge *f, char *source, const char *destination)
{
	char *port = strchr(source, ':');

	f->from.sin_family = AF_INET;
	f->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ROCEMU_UDP_PORT)};
	if (port) {
		*port = 0;
		f->raw = true;
		f->from.sin_port = htons((uint16_t)atoi(port + 1));
	}
	if (inet_aton(source, &f->from.sin_addr) && inet_aton(destination, &f->to.sin_addr))
		return;
	fprintf(stderr, "roce-forge: not IPv4 addresses: %s %s\n", source, destination);
	exit(2);
}

static void open_socket(struct forge *f)
{
	const int df = IP_PMTUDISC_DO, fragment = IP_PMTUDISC_DONT, ce = ECN_CE;
	struct sockaddr *from = (struct sockaddr *)&f->from;
	socklen_t len = sizeof(f->from);

	f->fd = f->raw ? socket(AF_INET, SOCK_RAW, IPPROTO_RAW) : socket(AF_INET, SOCK_DGRAM, 0);
	if (f->fd < 0 ||
	    (!f->raw && (bind(f->fd, from, len) < 0 || getsockname(f->fd, from, &len) < 0)))
		die("roce-forge: socket");
	if (setsockopt(f->fd, IPPROTO_IP, IP_MTU_DISCOVER,
		       strcmp(f->name, "fragments") ? &df : &fragment, sizeof(df)) < 0)
		die("roce-forge: IP_MTU_DISCOVER");
	if (!strcmp(f->name, "marked") &&
	    setsockopt(f->fd, IPPROTO_IP, IP_TOS, &ce, sizeof(ce)) < 0)
		die("roce-forge: IP_TOS");
	f->icrc = (struct rocemu_icrc_ctx){
		.src = gid_of(f->from.sin_addr),
		.dst = gid_of(f->to.sin_addr),
		.sport = ntohs(f->from.sin_port),
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = 0x4000,
	};
}

/** One packet of n bytes with a PSN, whose place in its burst is at. @return n. */
static size_t make(struct forge *f, uint8_t *out, uint32_t qpn, uint32_t psn, uint16_t at)
{
	const bool cnp = f->kind->opcode == ROCEMU_CNP;
	struct rocemu_hdrs h = {
		.opcode = f->kind->opcode,
		.psn = cnp ? 0 : psn & 0xffffff,
		.dqpn = qpn,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.becn = cnp,
		.migreq = !cnp,
		.ackreq = !cnp,
	};
	struct iovec iov = {.iov_base = (uint8_t[ROCEMU_CNP_LEN]){0}, .iov_len = f->kind->payload};
	uint32_t icrc;
	size_t n;

	if (f->kind->opcode == ROCEMU_RC_WRITE_ONLY) {
		h.reth.rkey = 1;
		h.reth.length = f->kind->payload;
	} else {
		h.aeth.syndrome = f->kind->syndrome;
	}
	n = rocemu_hdrs_encode(&h, out);
	f->icrc.ip_id = at;
	icrc = rocemu_icrc(&f->icrc, out, n, &iov, 1, NULL, 0);
	memset(out + n, 0, iov.iov_len);
	n += iov.iov_len;
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		out[n++] = (uint8_t)(icrc >> 8 * i);
	return n;
}

/** The packet in the at-th place. */
static uint32_t psn_of(const struct forge *f, uint32_t first, uint64_t at)
{
	const uint32_t turn = (uint32_t)(at / f->qpns);

	/* The first one is due: that makes the port the peer's. */
	return first + (strcmp(f->name, "gaps") || !turn ? turn : ((turn - 1) ^ 1) + 1);
}

/** With the headers of IP and UDP; the kernel fills in lengths and checksum of IP. */
static void send_raw(struct forge *f, uint32_t qpn, uint32_t psn)
{
	const size_t n = make(f, f->buf + HDRS, qpn, psn, 1);
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.id = htons(1),
		.frag_off = htons(0x4000),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.saddr = f->from.sin_addr.s_addr,
		.daddr = f->to.sin_addr.s_addr,
	};
	struct udphdr udp = {
		.source = f->from.sin_port,
		.dest = f->to.sin_port,
		.len = htons((uint16_t)(sizeof(udp) + n)),
	};

	memcpy(f->buf, &ip, sizeof(ip));
	memcpy(f->buf + sizeof(ip), &udp, sizeof(udp));
	(void)sendto(f->fd, f->buf, HDRS + n, 0, (struct sockaddr *)&f->to, sizeof(f->to));
}

/** Up to left packets from the at-th on, whose PSN is first. @return how many. */
static unsigned send_burst(struct forge *f, uint32_t first, uint64_t at, uint64_t left)
{
	unsigned n = left < BURST ? (unsigned)left : BURST;
	struct iovec iov = {.iov_base = f->buf};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct msghdr m = {
		.msg_name = &f->to, .msg_namelen = sizeof(f->to), .msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	uint16_t size = GARBAGE;

	if (f->raw) {
		send_raw(f, f->qpn + (uint32_t)(at % f->qpns), psn_of(f, first, at));
		return 1;
	}
	if (!strcmp(f->name, "fragments")) {
		n = 1;
		iov.iov_len = BIG;
	} else {
		for (unsigned i = 0; i < n; i++, at++) {
			if (f->kind)
				size = (uint16_t)make(f, f->buf + iov.iov_len,
						      f->qpn + (uint32_t)(at % f->qpns),
						      psn_of(f, first, at), (uint16_t)i);
			iov.iov_len += size;
		}
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(size));
		memcpy(CMSG_DATA(c), &size, sizeof(size));
	}
	/* A full queue is no reason to stop. */
	sendmsg(f->fd, &m, 0);
	return n;
}

/** One packet for each that comes. */
static void answer(struct forge *f, uint64_t count)
{
	while (count) {
		uint8_t in[4096];
		const ssize_t got = recv(f->fd, in, sizeof(in), 0);
		size_t n;

		if (got < ROCEMU_BTH_LEN)
			continue;
		n = make(f, f->buf, bth_dqpn(in), bth_psn(in), 0);
		sendto(f->fd, f->buf, n, 0, (struct sockaddr *)&f->to, sizeof(f->to));
		count--;
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	static struct forge f;
	double rate, start;
	uint64_t count, done = 0;
	uint32_t first;

	if (argc < 7) {
		fprintf(stderr, "usage: roce-forge KIND SOURCE[:PORT] DESTINATION QPN FIRST COUNT "
				"[PACKETS_PER_SECOND [QPNS]]\n");
		return 2;
	}
	f.name = argv[1];
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(f.name, kinds[i].name))
			f.kind = &kinds[i];
	f.qpn = (uint32_t)strtoul(argv[4], NULL, 0);
	first = (uint32_t)strtoul(argv[5], NULL, 0);
	count = strtoull(argv[6], NULL, 0);
	rate = argc > 7 ? strtod(argv[7], NULL) : 0;
	f.qpns = argc > 8 ? (uint32_t)strtoul(argv[8], NULL, 0) : 1;
	memset(f.buf, 0x5a, sizeof(f.buf));
	for (unsigned i = 0; i < BURST; i++)
		put_be24(f.buf + i * GARBAGE + BTH_DQPN, f.qpn);
	read_addresses(&f, argv[2], argv[3]);
	if (!strcmp(f.name, "busy"))
		f.from.sin_port = htons(ROCEMU_UDP_PORT);
	open_socket(&f);
	if (!strcmp(f.name, "busy"))
		answer(&f, count);
	start = seconds();
	while (done < count) {
		double early;

		done += send_burst(&f, first, done, count - done);
		early = rate > 0 ? start + (double)done / rate - seconds() : 0;
		if (early > 1e-4) {
			struct timespec t = {.tv_sec = (time_t)early,
					     .tv_nsec =
						     (long)((early - (double)(time_t)early) * 1e9)};

			nanosleep(&t, NULL);
		}
	}
	printf("%" PRIu64 " packets in %.3f s\n", done, seconds() - start);
	return 0;
}
