/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ceiling of a bandwidth: what UDP carries when each packet has a 12 byte header, --size bytes of
 * payload and a CRC, the sender computes that CRC, the receiver checks it and copies the payload
 * out, without a further protocol. GSO and GRO, --burst packets at once. The receiver answers each
 * receive with its byte count, and the sender keeps --window bytes in flight, so that nothing is
 * lost; what is measured is what arrives.
 *
 * --message N: the datagrams of WRITEs of N packets. The first packet's header is 16 bytes longer,
 * so it cannot join a burst of the others; a message's datagrams are sent by one call.
 */
#include <errno.h>
#include <isa-l/crc.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "bench.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	HEADER = 12,
	FIRST_HEADER = HEADER + 16, /* of a message's first packet; it begins with FIRST_MARK */
	FIRST_MARK = 1,
	TRAILER = 4,
	MAX_BURST = 60,
	MAX_MESSAGE = 256,   /* packets */
	MEMORY = 1 << 20,    /* source and destination, used round and round */
	STALL_NS = 20000000, /* without an answer for so long, what is in flight is lost */
	RCVBUF = 4 << 20,
	MAX_DATAGRAM = 65536,
};

struct answer {
	uint64_t bytes; /* of payload, so far */
};

static uint32_t packet_crc(const uint8_t *header, size_t header_len, const uint8_t *payload,
			   size_t len)
{
	return crc32_gzip_refl(crc32_gzip_refl(0, header, header_len), payload, len);
}

/* ---- sender ---- */

struct sender {
	int fd;
	struct sockaddr_in peer;
	size_t size;
	uint8_t *memory;
	size_t at;
	unsigned packets, datagrams; /* made and not yet sent */
	uint8_t header[MAX_MESSAGE][FIRST_HEADER], trailer[MAX_MESSAGE][TRAILER];
	struct iovec iov[3 * MAX_MESSAGE];
	struct mmsghdr msg[MAX_MESSAGE];
	_Alignas(struct cmsghdr) char control[MAX_MESSAGE][CMSG_SPACE(sizeof(uint16_t))];
};

static void add_packet(struct sender *s, size_t header_len)
{
	const unsigned i = s->packets++;
	uint8_t *payload = s->memory + s->at;
	uint32_t crc;

	s->header[i][0] = header_len > HEADER ? FIRST_MARK : 0;
	crc = packet_crc(s->header[i], header_len, payload, s->size);
	memcpy(s->trailer[i], &crc, TRAILER);
	s->iov[3 * i] = (struct iovec){s->header[i], header_len};
	s->iov[3 * i + 1] = (struct iovec){payload, s->size};
	s->iov[3 * i + 2] = (struct iovec){s->trailer[i], TRAILER};
	s->at = s->at + 2 * s->size > MEMORY ? 0 : s->at + s->size;
}

static void add_datagram(struct sender *s, unsigned packets, size_t header_len)
{
	const uint16_t segment = (uint16_t)(header_len + s->size + TRAILER);
	const unsigned d = s->datagrams++;
	struct msghdr *msg = &s->msg[d].msg_hdr;
	struct cmsghdr *c;

	*msg = (struct msghdr){
		.msg_name = &s->peer,
		.msg_namelen = sizeof(s->peer),
		.msg_iov = &s->iov[(size_t)3 * s->packets],
		.msg_iovlen = (size_t)3 * packets,
		.msg_control = s->control[d],
		.msg_controllen = sizeof(s->control[d]),
	};
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	for (unsigned i = 0; i < packets; i++)
		add_packet(s, header_len);
}

static void send_all(struct sender *s)
{
	for (unsigned done = 0; done < s->datagrams;) {
		const int n = sendmmsg(s->fd, s->msg + done, s->datagrams - done, 0);

		if (n < 0)
			bench_die("send");
		done += (unsigned)n;
	}
	s->packets = s->datagrams = 0;
}

/* @return bytes of payload. */
static size_t send_some(struct sender *s, const struct bench_options *o)
{
	if (!o->message) {
		add_datagram(s, o->burst, HEADER);
		send_all(s);
		return o->burst * o->size;
	}
	add_datagram(s, 1, FIRST_HEADER);
	while (s->packets < o->message) {
		const unsigned left = o->message - s->packets;

		add_datagram(s, left < o->burst ? left : o->burst, HEADER);
	}
	send_all(s);
	return o->message * o->size;
}

static void run_sender(const struct bench_options *o, int fd, const struct sockaddr_in *peer)
{
	static struct sender s;
	uint64_t begin = bench_now_ns(), end = begin + o->seconds * 1000000000ull, heard = begin,
		 now = begin;
	uint64_t sent = 0, lost = 0, arrived = 0;
	const size_t most = (o->message ? o->message : o->burst) * o->size;
	struct answer a;

	s = (struct sender){.fd = fd, .peer = *peer, .size = o->size, .memory = calloc(1, MEMORY)};
	if (!s.memory)
		bench_die("memory");
	while (now < end) {
		if (sent - lost - arrived + most <= o->window)
			sent += send_some(&s, o);
		while (recv(fd, &a, sizeof(a), MSG_DONTWAIT) == (ssize_t)sizeof(a)) {
			arrived = a.bytes;
			heard = now;
		}
		now = bench_now_ns();
		if (now - heard > STALL_NS) {
			lost = sent - arrived;
			heard = now;
		}
	}
	printf("Gbit/s %.2f Mpackets/s %.3f lost %.3f%%\n",
	       (double)arrived * 8 / (double)(now - begin),
	       (double)arrived * 1000 / (double)s.size / (double)(now - begin),
	       (double)lost * 100 / (double)sent);
	/* An empty datagram ends the receiver; loopback delivers it. */
	if (sendto(fd, NULL, 0, 0, (const struct sockaddr *)peer, sizeof(*peer)) < 0)
		bench_die("send the end");
	free(s.memory);
}

/* ---- receiver ---- */

static size_t segment_of(struct msghdr *msg, size_t got)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int segment;

			memcpy(&segment, CMSG_DATA(c), sizeof(segment));
			return (size_t)segment;
		}
	return got;
}

static ssize_t receive_spinning(int fd, struct msghdr *msg, size_t control_len)
{
	ssize_t got;

	do {
		msg->msg_controllen = control_len;
		got = recvmsg(fd, msg, MSG_DONTWAIT);
	} while (got < 0 && (errno == EAGAIN || errno == EINTR));
	if (got < 0)
		bench_die("receive");
	return got;
}

static void run_receiver(int fd)
{
	uint8_t *memory = calloc(1, MEMORY), *buf = malloc(MAX_DATAGRAM);
	char control[CMSG_SPACE(sizeof(int)) * 2];
	struct sockaddr_in from;
	struct iovec iov = {buf, MAX_DATAGRAM};
	struct answer a = {0};
	size_t at = 0;
	int one = 1, size = RCVBUF;

	if (!memory || !buf)
		bench_die("memory");
	if (setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof(one)) < 0)
		bench_die("UDP_GRO");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	bench_ready();
	for (;;) {
		struct msghdr msg = {
			.msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
		};
		size_t got = (size_t)receive_spinning(fd, &msg, sizeof(control)), segment;

		if (got == 0)
			break;
		segment = segment_of(&msg, got);
		for (uint8_t *p = buf; got >= segment; p += segment, got -= segment) {
			const size_t header_len = *p == FIRST_MARK ? FIRST_HEADER : HEADER;
			const size_t len = segment - header_len - TRAILER;
			uint8_t *payload = p + header_len;
			uint32_t crc;

			errno = EBADMSG;
			if (segment <= header_len + TRAILER)
				bench_die("length");
			crc = packet_crc(p, header_len, payload, len);

			if (memcmp(&crc, payload + len, TRAILER) != 0)
				bench_die("CRC");
			memcpy(memory + at, payload, len);
			at = at + 2 * len > MEMORY ? 0 : at + len;
			a.bytes += len;
		}
		if (sendto(fd, &a, sizeof(a), 0, (struct sockaddr *)&from, sizeof(from)) < 0)
			bench_die("answer");
	}
	free(memory);
	free(buf);
}

int main(int argc, char **argv)
{
	struct bench_options o = {.size = 4096, .burst = 15, .seconds = 2, .window = 256 * 1024};
	struct sockaddr_in peer;
	int fd;

	bench_parse(&o, argc, argv);
	if (o.burst > MAX_BURST || o.burst * (o.size + HEADER + TRAILER) > MAX_DATAGRAM - 1024 ||
	    o.message > MAX_MESSAGE || o.window < o.size * (o.message ? o.message : o.burst)) {
		fprintf(stderr,
			"udp-bw: does not fit: %u packets of %zu bytes in a burst (at most %d, "
			"and %d bytes), %u in a message (at most %d), a window of %zu bytes\n",
			o.burst, o.size, MAX_BURST, MAX_DATAGRAM - 1024, o.message, MAX_MESSAGE,
			o.window);
		return 2;
	}
	fd = bench_socket(&o, &peer);
	if (o.host)
		run_sender(&o, fd, &peer);
	else
		run_receiver(fd);
	return 0;
}
