/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes the capture checker: the input is a row of packets, each with a length, the direction, how
 * it was captured (cut, in fragments, RoCEv1) and the bytes from the BTH on. With any input it must
 * not crash, and its counts must add up. Most get a right ICRC, because the checker stops at a
 * wrong one.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/wire.h>

#include "verify/explain.h"
#include "verify/model.h"

enum { HEADER = 5, KEEP = 2 };
enum {
	BACK = 1,
	KEEP_ICRC = 2,
	CUT = 4,
	IPV6 = 8,
	GROUP = 16,
	FRAME = 32,
	EARLIER = 64,
	CUT_MUCH = 128,
};									   /* flags */
enum { V1 = 1, FRAGMENT = 2, LATER = 4, OFFLOADED = 8, EXTRAS_SHIFT = 4 }; /* of the last byte */

#define IPV4_HOST(n)                                       \
	{                                                  \
		.raw = { [10] = 0xff, 0xff, 127, 0, 0, n } \
	}
#define IPV6_HOST(n)                            \
	{                                       \
		.raw = { 0xfd, 0x77, [15] = n } \
	}

static const struct rocemu_gid hosts[2][2] = {
	{IPV4_HOST(1), IPV4_HOST(2)},
	{IPV6_HOST(1), IPV6_HOST(2)},
};
static const struct rocemu_gid groups[2] = {
	{.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}},
	{.raw = {0xff, 0x0e, [15] = 3}},
};
static const uint8_t group_mac[6] = {0x01, 0x00, 0x5e, 0x01, 0x02, 0x03};

static struct ip_udp way(uint8_t flags)
{
	bool v6 = (flags & IPV6) != 0, back = (flags & BACK) != 0;

	return (struct ip_udp){
		.src = hosts[v6][back],
		.dst = (flags & GROUP) != 0 ? groups[v6] : hosts[v6][!back],
		.sport = 0xc000,
		.dport = ROCEMU_UDP_PORT,
	};
}

static void seal(const struct ip_udp *ip, uint8_t *pkt, size_t len)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = ip->src, .dst = ip->dst, .sport = ip->sport, .dport = ip->dport};
	uint32_t icrc = rocemu_icrc(&ctx, pkt, len - ROCEMU_ICRC_LEN, NULL, 0, NULL, 0);

	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		pkt[len - ROCEMU_ICRC_LEN + i] = (uint8_t)(icrc >> 8 * i);
}

/* One packet: flags, time step, length (two bytes), flags, then its bytes. */
static size_t feed(struct verify *v, const uint8_t *data, size_t size, struct capture_rec *rec)
{
	size_t len = (size_t)(data[2] << 8 | data[3]) & 0x1fff;
	uint8_t pkt[0x2000];

	if (len > size - HEADER)
		len = size - HEADER;
	memcpy(pkt, data + HEADER, len);
	rec->number++;
	if ((data[0] & EARLIER) != 0)
		rec->ts_ns -= (uint64_t)data[1];
	else
		rec->ts_ns += (uint64_t)data[1] << 10;
	rec->ip = way(data[0]);
	rec->dmac = (data[0] & FRAME) != 0 ? group_mac : NULL;
	if ((data[0] & KEEP_ICRC) == 0 && len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN)
		seal(&rec->ip, pkt, len);
	rec->data = pkt;
	rec->len = rec->wire_len = len;
	if ((data[0] & CUT) != 0)
		rec->wire_len += data[1];
	if ((data[0] & CUT_MUCH) != 0) /* as many bytes as that of its end */
		rec->len -= len < data[1] ? len : data[1];
	rec->v1 = (data[4] & V1) != 0;
	rec->offloaded = (data[4] & OFFLOADED) != 0;
	rec->fragment = (data[4] & (FRAGMENT | LATER)) != 0;
	rec->fragment_at = (data[4] & LATER) != 0 ? data[1] * 8u + 8 : 0;
	rec->early = rec->fragment && rec->fragment_at == 0 ? data[1] & 1 : 0;
	rec->extras = (uint8_t)(data[4] >> EXTRAS_SHIFT);
	verify_input(v, rec);
	return HEADER + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct explain all = {.limit = 40, .width = 80};
	bool ignored[RULE_COUNT] = {false};
	struct verify *v = verify_new(KEEP, size % 2 == 0 ? 0 : 32);
	struct capture_rec rec = {0};
	char *text = NULL;
	size_t len = 0;
	FILE *f;

	FUZZ_CHECK(v != NULL);
	if (size % 3 == 0) {
		FUZZ_CHECK(rules_ignore(ignored, "icrc,cut", "fuzz"));
		verify_ignore(v, ignored);
	}
	while (size > HEADER) {
		size_t n = feed(v, data, size, &rec);

		data += n;
		size -= n;
	}
	verify_finish(v);
	f = open_memstream(&text, &len);
	FUZZ_CHECK(f != NULL);
	verify_json(v, f, "fuzz");
	verify_text(v, f, "fuzz", true);
	if (v->log != NULL) {
		FUZZ_CHECK(verify_html(v, f, "fuzz"));
		FUZZ_CHECK(explain_text(v, f, &all));
		FUZZ_CHECK(explain_svg(v, f, "fuzz", &all));
	}
	FUZZ_CHECK(fclose(f) == 0 && len != 0);
	free(text);
	verify_free(v);
	return 0;
}
