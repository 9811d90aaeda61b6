/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC (IBTA vol. 1, 7.8.1 and annex A17.3.3): CRC-32 over eight bytes of ones, the IP
 * header with TOS, TTL and checksum (traffic class, flow label and hop limit) as ones, the UDP
 * header with its checksum as ones, the BTH with byte 4 as ones, and everything from there to the
 * pad inclusive. RoCEv1's has the GRH in place of IP and UDP.
 *
 * ISA-L's crc32_gzip_refl() complements the value going in and coming out, as zlib's crc32() does:
 * a call's result is the next call's seed.
 */
#include <string.h>

#include <isa-l/crc.h>

#include <rocemu/mad.h>
#include <rocemu/wire.h>

#include "base/bytes.h"
#include "base/util.h"
#include "wire/icrc.h"
#include "wire/ip.h"

enum {
	BTH_RESV8A = 4,		  /* FECN, BECN and six reserved bits: may change on the way */
	ID_TO_BTH = 16 + UDP_LEN, /* from the IPv4 identification to the BTH */
};

/* The CRC of eight bytes 0xff, in the place of the LRH that RoCE does not have. */
#define CRC_OF_LRH 0x2144df1cu
#define CRC_POLY   0xedb88320u /* CRC-32's, bit 31 is x^0 */

/*
 * ISA-L may return with the upper halves of the vector registers in use. Then the next SSE
 * instruction, wherever that is, waits for them: a fifth of the time of a stream of 4096-byte
 * messages.
 */
static uint32_t crc_of(uint32_t crc, const uint8_t *buf, uint64_t len)
{
	crc = crc32_gzip_refl(crc, buf, len);
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroupper" ::
					 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
					   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
					   "xmm13", "xmm14", "xmm15");
#endif
	return crc;
}

/*
 * x^(-8 * 2^k) modulo CRC_POLY, k = 0..15 (each is its predecessor squared): going back 2^k bytes.
 */
static const uint32_t back_pow[16] = {
	0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d,
	0x5139de12, 0xba340226, 0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8,
	0x24ee460c, 0x23783fcf, 0x479933fc, 0xa39442a5,
};

/* IP and UDP headers with the fields that change on the way as ones; returns their length. */
HOT static size_t put_masked_ip_udp(const struct rocemu_icrc_ctx *c, size_t udp_payload, uint8_t *p)
{
	size_t udp_len = UDP_LEN + udp_payload;
	uint8_t *udp;

	if (likely(gid_is_ipv4(&c->src) && gid_is_ipv4(&c->dst))) {
		p[0] = 0x45;
		p[1] = 0xff;
		put_be16(p + 2, (uint16_t)(IPV4_LEN + udp_len));
		put_be16(p + 4, c->ip_id);
		put_be16(p + 6, c->ip_frag);
		p[8] = 0xff;
		p[9] = IP_PROTO_UDP;
		put_be16(p + 10, 0xffff);
		memcpy(p + 12, c->src.raw + 12, 4);
		memcpy(p + 16, c->dst.raw + 12, 4);
		udp = p + IPV4_LEN;
	} else {
		put_be32(p, 0x6fffffff);
		put_be16(p + 4, (uint16_t)udp_len);
		p[6] = IP_PROTO_UDP;
		p[7] = 0xff;
		memcpy(p + 8, c->src.raw, 16);
		memcpy(p + 24, c->dst.raw, 16);
		udp = p + IPV6_LEN;
	}
	put_be16(udp, c->sport);
	put_be16(udp + 2, c->dport);
	put_be16(udp + 4, (uint16_t)udp_len);
	put_be16(udp + 6, 0xffff);
	return (size_t)(udp - p) + UDP_LEN;
}

/*
 * CRC of the headers below and of the first n bytes of the packet, BTH_RESV8A masked. The two are
 * put together in one buffer because short CRC calls cost more than the copy. n <=
 * ROCEMU_MAX_HDR_LEN.
 */
static uint32_t crc_headers(const struct rocemu_icrc_ctx *c, size_t udp_payload, const uint8_t *pkt,
			    size_t n)
{
	uint8_t buf[IP_UDP_MAX_LEN + ROCEMU_MAX_HDR_LEN];
	size_t below = put_masked_ip_udp(c, udp_payload, buf);

	memcpy(buf + below, pkt, n);
	buf[below + BTH_RESV8A] = 0xff;
	return crc_of(CRC_OF_LRH, buf, below + n);
}

uint32_t rocemu_icrc(const struct rocemu_icrc_ctx *c, const uint8_t *hdr, size_t hdr_len,
		     const struct iovec *iov, unsigned niov, const uint8_t *trailer,
		     size_t trailer_len)
{
	size_t total = hdr_len + trailer_len + ROCEMU_ICRC_LEN;
	size_t first = MIN(hdr_len, (size_t)ROCEMU_MAX_HDR_LEN);
	uint32_t crc;

	for (unsigned i = 0; i < niov; i++)
		total += iov[i].iov_len;
	crc = crc_headers(c, total, hdr, first);
	if (unlikely(hdr_len > first))
		crc = crc_of(crc, hdr + first, hdr_len - first);
	for (unsigned i = 0; i < niov; i++)
		crc = crc_of(crc, iov[i].iov_base, iov[i].iov_len);
	if (trailer_len != 0)
		crc = crc_of(crc, trailer, trailer_len);
	return crc;
}

/* a * b modulo CRC_POLY, polynomials over GF(2), bit 31 is x^0. */
static uint32_t poly_mul(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	for (; b != 0; b <<= 1) {
		r ^= a & -(b >> 31);
		a = a >> 1 ^ (CRC_POLY & -(a & 1));
	}
	return r;
}

/*
 * The difference of two identifications that makes a difference of diff between the CRCs of packets
 * that are otherwise equal and go on for `after` bytes behind the identification; -1: none does.
 *
 * Linear: the CRCs differ by what the CRC register makes of the identifications' difference
 * followed by zeros, when it starts from 0. Every byte fed multiplies the register by x^8, and the
 * first two bytes enter it in its low 16 bits. So undo 2 + after bytes and see whether nothing but
 * these 16 bits is left.
 */
static int32_t solve_ip_id(uint32_t diff, size_t after)
{
	size_t back = 2 + after;

	for (unsigned k = 0; back != 0; k++, back >>= 1) {
		if ((back & 1) != 0)
			diff = poly_mul(diff, back_pow[k]);
	}
	if (diff > 0xffff)
		return -1;
	return (int32_t)((diff & 0xff) << 8 | diff >> 8);
}

static bool is_ipv4(const struct rocemu_icrc_ctx *c)
{
	return gid_is_ipv4(&c->src) && gid_is_ipv4(&c->dst);
}

static bool len_is_valid(size_t len)
{
	/* More fits into no UDP datagram, and back_pow ends there. */
	return len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN && len <= IP_UDP_MAX_PAYLOAD;
}

/*
 * diff: the packet's ICRC and the one that it should have for c->ip_id, one XOR the other.
 * @return as rocemu_icrc_check().
 */
static int32_t fitting_id(const struct rocemu_icrc_ctx *c, bool ip_id_known, uint32_t diff,
			  size_t covered)
{
	const bool ipv4 = is_ipv4(c);
	int32_t id_diff;

	if (likely(diff == 0))
		return ipv4 ? c->ip_id : 0;
	if (!ipv4 || ip_id_known)
		return -1;
	id_diff = solve_ip_id(diff, ID_TO_BTH - 2 + covered);
	return id_diff < 0 ? -1 : (c->ip_id ^ id_diff);
}

HOT int32_t rocemu_icrc_check(const struct rocemu_icrc_ctx *c, bool ip_id_known, const uint8_t *buf,
			      size_t len)
{
	size_t covered, first;
	uint32_t crc;

	if (unlikely(!len_is_valid(len)))
		return -1;
	covered = len - ROCEMU_ICRC_LEN;
	first = MIN(covered, (size_t)ROCEMU_MAX_HDR_LEN);
	crc = crc_headers(c, len, buf, first);
	if (covered > first)
		crc = crc_of(crc, buf + first, covered - first);
	return fitting_id(c, ip_id_known, crc ^ get_le32(buf + covered), covered);
}

bool icrc_v1_fits(const struct ip_udp *h, const uint8_t *buf, size_t len)
{
	uint8_t head[ROCEMU_GRH_LEN + ROCEMU_BTH_LEN];
	const struct rocemu_grh grh = {
		.ipver = 6,
		.tclass = 0xff,
		.flow_label = 0xfffff,
		.paylen = (uint16_t)len,
		.nxthdr = IP_PROTO_IBA,
		.hop_limit = 0xff,
		.sgid = h->src,
		.dgid = h->dst,
	};
	uint32_t crc;

	if (!len_is_valid(len))
		return false;
	rocemu_grh_encode(&grh, head);
	memcpy(head + ROCEMU_GRH_LEN, buf, ROCEMU_BTH_LEN);
	head[ROCEMU_GRH_LEN + BTH_RESV8A] = 0xff;
	crc = crc_of(CRC_OF_LRH, head, sizeof(head));
	crc = crc_of(crc, buf + ROCEMU_BTH_LEN, len - ROCEMU_BTH_LEN - ROCEMU_ICRC_LEN);
	return crc == get_le32(buf + len - ROCEMU_ICRC_LEN);
}

/* ---- packets like earlier ones ---- */

/* But for the identification. */
static bool same_ctx(const struct rocemu_icrc_ctx *a, const struct rocemu_icrc_ctx *b)
{
	return a->sport == b->sport && a->dport == b->dport && a->ip_frag == b->ip_frag &&
	       rocemu_gid_equal(&a->src, &b->src) && rocemu_gid_equal(&a->dst, &b->dst);
}

_Static_assert((int)IP_UDP_MAX_LEN <= (int)ICRC_MEMO_MAX_LEN, "one buffer is enough for both");

/*
 * CRCs are linear: bits that are flipped in a packet change its CRC by the CRC of these bits alone,
 * followed by zeros.
 */
static void form_learn(struct icrc_form *f)
{
	uint8_t buf[ID_TO_BTH + ICRC_MEMO_MAX_LEN] = {0};
	const size_t n = ID_TO_BTH + f->len - ROCEMU_ICRC_LEN;
	const uint32_t zeros = crc_of(0, buf, n);
	uint32_t bit;

	f->known = true;
	buf[ID_TO_BTH + BTH_RESV8A] = f->resv8a ^ 0xff;
	f->change = zeros ^ crc_of(0, buf, n);
	buf[ID_TO_BTH + BTH_RESV8A] = 0;
	if (is_ipv4(&f->ctx)) {
		/* A CRC takes the bits of a byte from the lowest on: this one is the last. */
		buf[1] = 0x80;
		bit = zeros ^ crc_of(0, buf, n);
		for (unsigned back = 0; back < ARRAY_LEN(f->id_bit); back++) {
			f->id_bit[back < 8 ? 7 - back : 23 - back] = bit;
			bit = bit >> 1 ^ (CRC_POLY & -(bit & 1)); /* times x */
		}
	}
	f->start = crc_of(CRC_OF_LRH, buf, put_masked_ip_udp(&f->ctx, f->len, buf));
}

/* The next packet has this identification: often the one after the last, so one or two bits. */
static void form_number(struct icrc_form *f, uint16_t ip_id)
{
	for (unsigned flip = f->ctx.ip_id ^ ip_id; flip; flip &= flip - 1)
		f->change ^= f->id_bit[__builtin_ctz(flip)];
	f->ctx.ip_id = ip_id;
}

/*
 * Places from one length to the next: with an odd number, packets of one source port have a place
 * for each length.
 */
enum { LENGTH_STEP = 29 };

/* What is known of such a packet; NULL: nothing. */
HOT static const struct icrc_form *memo_find(struct icrc_memo *m, const struct rocemu_icrc_ctx *c,
					     size_t len, uint8_t resv8a)
{
	struct icrc_form *f;

	if (len > ICRC_MEMO_MAX_LEN)
		return NULL;
	f = &m->form[(c->sport + LENGTH_STEP * (len / 4)) % ICRC_FORMS];
	if (likely(f->len == len && f->resv8a == resv8a && same_ctx(&f->ctx, c))) {
		if (unlikely(!f->known))
			form_learn(f);
		form_number(f, c->ip_id);
		return f;
	}
	*f = (struct icrc_form){.ctx = *c, .len = (uint16_t)len, .resv8a = resv8a};
	return NULL;
}

static uint32_t form_crc(const struct icrc_form *f, const uint8_t *pkt, size_t n)
{
	return crc_of(f->start, pkt, n) ^ f->change;
}

uint32_t icrc_memo_compute(struct icrc_memo *m, const struct rocemu_icrc_ctx *c, const uint8_t *pkt,
			   size_t n)
{
	const struct icrc_form *f = memo_find(m, c, n + ROCEMU_ICRC_LEN, pkt[BTH_RESV8A]);

	return likely(f != NULL) ? form_crc(f, pkt, n) : rocemu_icrc(c, pkt, n, NULL, 0, NULL, 0);
}

int32_t icrc_memo_check(struct icrc_memo *m, const struct rocemu_icrc_ctx *c, bool ip_id_known,
			const uint8_t *buf, size_t len)
{
	const struct icrc_form *f;
	size_t covered;

	if (unlikely(!len_is_valid(len)))
		return -1;
	f = memo_find(m, c, len, buf[BTH_RESV8A]);
	if (!f)
		return rocemu_icrc_check(c, ip_id_known, buf, len);
	covered = len - ROCEMU_ICRC_LEN;
	return fitting_id(c, ip_id_known, form_crc(f, buf, covered) ^ get_le32(buf + covered),
			  covered);
}
