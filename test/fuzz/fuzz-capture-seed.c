/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fuzz-capture starts from: recorded captures; a frame of each tunnel as pcap and as pcapng;
 * and the same compressed, where the build can.
 */
#include "driver.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/bytes.h"
#include "base/util.h"
#include "capture/blocks.h"
#include "wire/ip.h"

enum { ROOM = 4096, PACKET = 20 + 8 + 32, IN_ETHERNET = 14 + PACKET };

struct bytes {
	uint8_t b[ROOM];
	size_t n;
};

static void add(struct bytes *s, const void *p, size_t n)
{
	memcpy(s->b + s->n, p, n);
	s->n += n;
}

static void add32(struct bytes *s, uint32_t v)
{
	put_le32(s->b + s->n, v);
	s->n += 4;
}

#define ADD(s, ...) add(s, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void add_ethernet(struct bytes *f, uint16_t type)
{
	ADD(f, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, (uint8_t)(type >> 8), (uint8_t)type);
}

static void add_udp(struct bytes *f, uint16_t port, size_t payload)
{
	struct ip_udp ip = {.src.raw = {[10] = 0xff, 0xff, 10, [15] = 1},
			    .dst.raw = {[10] = 0xff, 0xff, 10, [15] = 2},
			    .dport = port};

	f->n += ip_udp_encode(&ip, payload, f->b + f->n);
}

/* From the BTH on. */
static void add_roce(struct bytes *f)
{
	ADD(f, 4, 0, 0xff, 0xff, 0, 0, 0, 17, 0, 0, 0, 1);
	memset(f->b + f->n, 0, 20);
	f->n += 20;
}

static void add_packet(struct bytes *f)
{
	add_udp(f, ROCEMU_UDP_PORT, 32);
	add_roce(f);
}

/* An IPv6 header that names proto, for n bytes behind it. */
static void add_ipv6(struct bytes *f, uint8_t proto, uint8_t n)
{
	ADD(f, 0x60, 0, 0, 0, 0, n, proto, 64);
	ADD(f, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);
	ADD(f, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2);
}

static void add_udp_header(struct bytes *f)
{
	ADD(f, 0xc0, 1, 0x12, 0xb7, 0, 40, 0, 0);
}

/* Hop-by-hop and destination options, AH; segment routing. */
static void add_extensions(struct bytes *f)
{
	add_ipv6(f, 0, 8 + 8 + 24 + 24 + 8 + 32);
	ADD(f, 60, 0, 1, 4, 0, 0, 0, 0, 51, 0, 1, 4, 0, 0, 0, 0, 43, 4, 0, 0, 0, 0, 0, 1);
	ADD(f, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 2, 4, 1, 0, 0, 0, 0);
	ADD(f, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3);
	add_udp_header(f);
	add_roce(f);
}

/* An IPv6 fragment: the first, or the second. */
static void add_fragment(struct bytes *f, bool second)
{
	add_ipv6(f, 44, second ? 8 + 16 : 8 + 24);
	ADD(f, 17, 0, 0, second ? 24 : 1, 1, 2, 3, 4);
	if (!second) {
		add_udp_header(f);
		ADD(f, 4, 0, 0xff, 0xff, 0, 0, 0, 17, 0, 0, 0, 1, 0, 0, 0, 0);
	} else {
		ADD(f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	}
}

static void add_gre(struct bytes *f, size_t payload)
{
	size_t at = f->n;

	add_udp(f, 0, payload - 8);
	f->b[at + 9] = 47;
	f->n = at + 20;
}

/* The n-th kind of frame. @return false: there are no more. */
static bool frame(struct bytes *f, unsigned n)
{
	f->n = 0;
	add_ethernet(f, n == 1	 ? 0x8100
			: n == 2 ? 0x8847
			: n < 8	 ? 0x0800
			: n < 12 ? 0x86dd
				 : 0x8915);
	switch (n) {
	case 0:
		break;
	case 1:
		ADD(f, 0, 5, 8, 0);
		break;
	case 2:
		ADD(f, 0, 1, 0, 64, 0, 2, 1, 64);
		break;
	case 3:
		add_udp(f, 4789, 8 + IN_ETHERNET);
		ADD(f, 8, 0, 0, 0, 0, 0, 42, 0);
		add_ethernet(f, 0x0800);
		break;
	case 4:
		add_udp(f, 6081, 8 + IN_ETHERNET);
		ADD(f, 0, 0, 0x65, 0x58, 0, 0, 42, 0);
		add_ethernet(f, 0x0800);
		break;
	case 5:
		add_gre(f, 8 + PACKET);
		ADD(f, 0x20, 0, 8, 0, 0, 0, 0, 9);
		break;
	case 6:
		add_gre(f, 16 + IN_ETHERNET);
		ADD(f, 0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0);
		add_ethernet(f, 0x0800);
		break;
	case 7:
		add_gre(f, 20 + IN_ETHERNET);
		ADD(f, 0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
		add_ethernet(f, 0x0800);
		break;
	case 8:
		add_extensions(f);
		return true;
	case 9:
	case 10:
		add_fragment(f, n == 10);
		return true;
	case 11: /* segment routing around IPv4 */
		add_ipv6(f, 43, 24 + PACKET);
		ADD(f, 4, 2, 4, 0, 0, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2);
		break;
	case 12: /* RoCEv1 */
		add_ipv6(f, 0x1b, 32);
		add_roce(f);
		return true;
	default:
		return false;
	}
	add_packet(f);
	return true;
}

static void pcap_of_all(struct bytes *file)
{
	struct bytes f = {0};

	add32(file, 0xa1b23c4d);
	ADD(file, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, LINK_ETHERNET, 0, 0, 0);
	for (unsigned n = 0; frame(&f, n); n++) {
		add32(file, n);
		add32(file, 0);
		add32(file, (uint32_t)f.n);
		add32(file, (uint32_t)f.n);
		add(file, f.b, f.n);
	}
}

static void pcapng_of_all(struct bytes *file)
{
	struct bytes f = {0};

	ADD(file, 0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0);
	ADD(file, 1, 0, 0, 0, 32, 0, 0, 0, LINK_ETHERNET, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0,
	    0, 0, 0, 0, 0, 32, 0, 0, 0);
	for (unsigned n = 0; frame(&f, n); n++) {
		uint32_t padded = (uint32_t)(f.n + 3) & ~3u, total = 32 + padded + 12;

		add32(file, 6);
		add32(file, total);
		add32(file, 0);
		add32(file, 0);
		add32(file, n);
		add32(file, (uint32_t)f.n);
		add32(file, (uint32_t)f.n);
		add(file, f.b, padded);
		ADD(file, 1, 0, 4, 0, 'n', 'o', 't', 'e', 0, 0, 0, 0); /* a comment */
		add32(file, total);
	}
}

/* ERF records of Ethernet and of native InfiniBand. */
static void pcap_of_erf(struct bytes *file)
{
	struct bytes f = {0};

	add32(file, 0xa1b2c3d4);
	ADD(file, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, LINK_ERF, 0, 0, 0);
	frame(&f, 0);
	for (unsigned n = 0; n < 2; n++) {
		add32(file, n);
		add32(file, 0);
		add32(file, (uint32_t)f.n + 26);
		add32(file, (uint32_t)f.n + 26);
		ADD(file, 0, 0, 0, 0, 0, 0, 0, 0, n == 0 ? 0x82 : 0x95, 4, 0, 0, 0, 0, 0, 0);
		ADD(file, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* an extension; the pad */
		add(file, f.b, f.n);
	}
}

static void add_compressed(struct fuzz_corpus *c, const struct bytes *file)
{
#ifdef HAVE_ZLIB
	z_stream z = {0};
	uint8_t gzip[2 * ROOM];

	if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
		struct bytes in = *file;

		z.next_in = in.b;
		z.avail_in = (uInt)in.n;
		z.next_out = gzip;
		z.avail_out = sizeof(gzip);
		deflate(&z, Z_FINISH);
		fuzz_corpus_add(c, gzip, sizeof(gzip) - z.avail_out);
		deflateEnd(&z);
	}
#endif
#ifdef HAVE_ZSTD
	uint8_t zstd[2 * ROOM];
	size_t n = ZSTD_compress(zstd, sizeof(zstd), file->b, file->n, 1);

	if (!ZSTD_isError(n))
		fuzz_corpus_add(c, zstd, n);
#endif
	(void)c;
	(void)file;
}

void fuzz_seed(struct fuzz_corpus *c)
{
	void (*const make[])(struct bytes *) = {pcap_of_all, pcapng_of_all, pcap_of_erf};

	for (unsigned i = 0; i < ARRAY_LEN(make); i++) {
		struct bytes file = {0};

		make[i](&file);
		fuzz_corpus_add(c, file.b, file.n);
		add_compressed(c, &file);
	}
}
