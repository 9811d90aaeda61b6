/* SPDX-License-Identifier: BSD-2-Clause */
/* Splits bursts into packets. The frame does not contain the packets' length. */
#include "capture/segment.h"

#include <string.h>

#include "wire/bth.h"

enum {
	LEAST = ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN,
	GRAIN = 4,	 /* payload and pad are a multiple of it, and so are all headers */
	MAX_TRIALS = 64, /* ICRCs computed for one frame, at most */
};

/* Does data begin like a packet of the same partition as the first? */
static bool begins_packet(const uint8_t *first, const uint8_t *data)
{
	return (data[BTH_FLAGS] & BTH_TVER_MASK) == 0 &&
	       memcmp(first + BTH_PKEY, data + BTH_PKEY, 2) == 0 &&
	       rocemu_opcode_hdr_len(data[0]) != 0;
}

static bool icrc_fits(const struct ip_udp *ip, uint16_t id, const uint8_t *data, size_t len)
{
	struct rocemu_icrc_ctx ctx = ip_icrc_ctx(ip);

	ctx.ip_id = id;
	return rocemu_icrc_check(&ctx, true, data, len) >= 0;
}

size_t segment_size(const struct ip_udp *ip, const uint8_t *data, size_t len)
{
	unsigned trials = 0;

	for (size_t n = LEAST; n + LEAST <= len && n < ROCEMU_MAX_PACKET; n += GRAIN) {
		if (!begins_packet(data, data + n))
			continue;
		if (icrc_fits(ip, ip->ip_id, data, n))
			return n;
		if (++trials == MAX_TRIALS)
			break;
	}
	return 0;
}

uint16_t segment_ip_id(const struct ip_udp *ip, unsigned k, const uint8_t *data, size_t len)
{
	struct rocemu_icrc_ctx ctx = ip_icrc_ctx(ip);
	uint16_t counted = (uint16_t)(ip->ip_id + k);
	int32_t solved;

	if (!gid_is_ipv4(&ip->src))
		return 0;
	if (icrc_fits(ip, counted, data, len))
		return counted;
	if (icrc_fits(ip, ip->ip_id, data, len))
		return ip->ip_id;
	solved = rocemu_icrc_check(&ctx, false, data, len);
	return solved >= 0 ? (uint16_t)solved : counted;
}
