/* SPDX-License-Identifier: BSD-2-Clause */
/* The fields of a packet by name, for rules that corrupt one. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "fault/fault.h"
#include "wire/opcode.h"

/* What a field is part of, if not of an extension header. */
enum {
	PART_BTH = 1u << 28,
	PART_PAYLOAD = 1u << 29,
	PART_ICRC = 1u << 30,
};

/* A name that stands twice is in either header. Offsets in bits within the header (IBTA vol. 1, 9.2
 * and 9.3). */
/* clang-format off */
static const struct {
	const char *name;
	uint32_t part;
	uint16_t offset, bits;
} fields[] = {
	{"opcode",   PART_BTH, 0, 8},
	{"migreq",   PART_BTH, 9, 1},
	{"padcnt",   PART_BTH, 10, 2},
	{"tver",     PART_BTH, 12, 4},
	{"pkey",     PART_BTH, 16, 16},
	{"becn",     PART_BTH, 33, 1},
	{"dqpn",     PART_BTH, 40, 24},
	{"ackreq",   PART_BTH, 64, 1},
	{"psn",      PART_BTH, 72, 24},
	{"srqn",     ROCEMU_HDR_XRCETH, 8, 24},
	{"qkey",     ROCEMU_HDR_DETH, 0, 32},
	{"sqpn",     ROCEMU_HDR_DETH, 40, 24},
	{"va",       ROCEMU_HDR_RETH, 0, 64},
	{"va",       ROCEMU_HDR_ATOMICETH, 0, 64},
	{"rkey",     ROCEMU_HDR_RETH, 64, 32},
	{"rkey",     ROCEMU_HDR_ATOMICETH, 64, 32},
	{"length",   ROCEMU_HDR_RETH, 96, 32},
	{"swap",     ROCEMU_HDR_ATOMICETH, 96, 64},
	{"compare",  ROCEMU_HDR_ATOMICETH, 160, 64},
	{"syndrome", ROCEMU_HDR_AETH, 0, 8},
	{"msn",      ROCEMU_HDR_AETH, 8, 24},
	{"atomic",   ROCEMU_HDR_ATOMICACK, 0, 64},
	{"imm",      ROCEMU_HDR_IMMDT, 0, 32},
	{"ieth",     ROCEMU_HDR_IETH, 0, 32},
	{"payload",  PART_PAYLOAD, 0, 0},
	{"icrc",     PART_ICRC, 0, 32},
};
/* clang-format on */

int fault_field_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++)
		if (!strcmp(name, fields[i].name))
			return (int)i;
	return -1;
}

const char *fault_field_names(void)
{
	return "opcode, migreq, padcnt, tver, pkey, becn, dqpn, ackreq, psn, srqn, qkey, sqpn, va, "
	       "rkey, length, swap, compare, syndrome, msn, atomic, imm, ieth, payload, icrc";
}

/* Bytes in front of an extension header of a packet that has it. */
static uint32_t header_offset(uint32_t headers, uint32_t header)
{
	/* In the order of the bits. */
	static const uint8_t lengths[] = {XRCETH_LEN,	 DETH_LEN,	FETH_LEN,
					  RETH_LEN,	 ATOMICETH_LEN, AETH_LEN,
					  ATOMICACK_LEN, IMMDT_LEN,	IETH_LEN};
	uint32_t offset = ROCEMU_BTH_LEN;

	for (unsigned i = 0; i < ARRAY_LEN(lengths) && 1u << i != header; i++)
		if (headers & 1u << i)
			offset += lengths[i];
	return offset;
}

/* The place of one row of the table. */
static bool row_place(unsigned row, const uint8_t *hdr, uint32_t len, uint32_t *first,
		      uint32_t *bits)
{
	const uint32_t headers = opcode_table[hdr[0]].hdrs, part = fields[row].part;
	const uint32_t hdr_len = MAX(opcode_table[hdr[0]].hdr_len, (uint32_t)ROCEMU_BTH_LEN);
	const uint32_t pad = hdr[1] >> 4 & 3;
	uint32_t byte;

	*bits = fields[row].bits;
	if (part == PART_BTH) {
		byte = 0;
	} else if (part == PART_ICRC) {
		byte = len - ROCEMU_ICRC_LEN;
	} else if (part == PART_PAYLOAD) {
		if (len <= hdr_len + pad + ROCEMU_ICRC_LEN)
			return false;
		byte = hdr_len;
		*bits = (len - hdr_len - pad - ROCEMU_ICRC_LEN) * 8;
	} else if (headers & part) {
		byte = header_offset(headers, part);
	} else {
		return false;
	}
	*first = byte * 8 + fields[row].offset;
	return *first + *bits <= len * 8;
}

bool fault_field_place(int field, const uint8_t *hdr, uint32_t len, uint32_t *first, uint32_t *bits)
{
	if (len < ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN)
		return false;
	if (field == FAULT_FIELD_ANY) {
		*first = 0;
		*bits = (len - ROCEMU_ICRC_LEN) * 8;
		return true;
	}
	for (unsigned i = (unsigned)field;
	     i < ARRAY_LEN(fields) && !strcmp(fields[i].name, fields[field].name); i++)
		if (row_place(i, hdr, len, first, bits))
			return true;
	return false;
}
