/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends unsolicited packets to a RoCEv2 port, as any local user can: by a plain UDP socket.
 *
 *	roce-forge KIND SOURCE DESTINATION QPN FIRST COUNT [PACKETS_PER_SECOND]
 *
 * KIND: nak       NAKs "remote operational error", the PSNs FIRST, FIRST + 1, ...
 *       write     WRITEs with a key that there is not, likewise
 *       garbage   64 bytes that are no packet, but for the QPN
 *       fragments datagrams of 20,000 bytes that are no packet; more than an interface takes at
 * once All packets are well-formed otherwise: checksum, QPN, addresses. Prints how many were sent,
 * and how long it took.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
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

enum { BURST = 64, GARBAGE = 64, BIG = 20000, PAYLOAD = 8 };

struct forge {
	const char *kind;
	int fd;
	struct sockaddr_in to;
	struct rocemu_icrc_ctx icrc;
	uint32_t qpn;
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

static void open_socket(struct forge *f, const char *source, const char *destination)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	const int df = IP_PMTUDISC_DO, fragment = IP_PMTUDISC_DONT;
	socklen_t len = sizeof(from);

	f->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ROCEMU_UDP_PORT)};
	if (!inet_aton(source, &from.sin_addr) || !inet_aton(destination, &f->to.sin_addr)) {
		fprintf(stderr, "roce-forge: not IPv4 addresses: %s %s\n", source, destination);
		exit(2);
	}
	f->fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (f->fd < 0 || bind(f->fd, (struct sockaddr *)&from, sizeof(from)) < 0 ||
	    getsockname(f->fd, (struct sockaddr *)&from, &len) < 0)
		die("roce-forge: socket");
	if (setsockopt(f->fd, IPPROTO_IP, IP_MTU_DISCOVER,
		       strcmp(f->kind, "fragments") ? &df : &fragment, sizeof(df)) < 0)
		die("roce-forge: IP_MTU_DISCOVER");
	f->icrc = (struct rocemu_icrc_ctx){
		.src = gid_of(from.sin_addr),
		.dst = gid_of(f->to.sin_addr),
		.sport = ntohs(from.sin_port),
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = 0x4000,
	};
}

/** One packet of n bytes with a PSN, whose place in its burst is at. @return n. */
static size_t make(struct forge *f, uint8_t *out, uint32_t psn, uint16_t at)
{
	bool nak = !strcmp(f->kind, "nak");
	struct rocemu_hdrs h = {
		.opcode = nak ? ROCEMU_RC_ACK : ROCEMU_RC_WRITE_ONLY,
		.psn = psn & 0xffffff,
		.dqpn = f->qpn,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.migreq = true,
		.ackreq = true,
		.aeth = {.syndrome = ROCEMU_NAK_REM_OP},
	};
	struct iovec iov = {.iov_base = (uint8_t[PAYLOAD]){0}, .iov_len = nak ? 0 : PAYLOAD};
	uint32_t icrc;
	size_t n;

	if (!nak) {
		h.reth.rkey = 1;
		h.reth.length = PAYLOAD;
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

/** Up to left packets from psn on. @return how many. */
static unsigned send_burst(struct forge *f, uint32_t psn, uint64_t left)
{
	unsigned n = left < BURST ? (unsigned)left : BURST;
	struct iovec iov = {.iov_base = f->buf};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct msghdr m = {
		.msg_name = &f->to, .msg_namelen = sizeof(f->to), .msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	uint16_t size = GARBAGE;

	if (!strcmp(f->kind, "fragments")) {
		n = 1;
		iov.iov_len = BIG;
	} else {
		for (unsigned i = 0; i < n; i++) {
			if (strcmp(f->kind, "garbage"))
				size = (uint16_t)make(f, f->buf + iov.iov_len, psn + i,
						      (uint16_t)i);
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
		fprintf(stderr, "usage: roce-forge KIND SOURCE DESTINATION QPN FIRST COUNT "
				"[PACKETS_PER_SECOND]\n");
		return 2;
	}
	f.kind = argv[1];
	f.qpn = (uint32_t)strtoul(argv[4], NULL, 0);
	first = (uint32_t)strtoul(argv[5], NULL, 0);
	count = strtoull(argv[6], NULL, 0);
	rate = argc > 7 ? strtod(argv[7], NULL) : 0;
	memset(f.buf, 0x5a, sizeof(f.buf));
	for (unsigned i = 0; i < BURST; i++)
		put_be24(f.buf + i * GARBAGE + BTH_DQPN, f.qpn);
	open_socket(&f, argv[2], argv[3]);
	start = seconds();
	while (done < count) {
		double early;

		done += send_burst(&f, first + (uint32_t)done, count - done);
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
