/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table: expands ROCEMU_OPCODES into an array by opcode byte, with the header lengths
 * computed, and implements the public functions on opcodes.
 */
#include "wire/opcode.h"

#include <rocemu/wire.h>

#define LEN_IF(hdrs, bit) (((hdrs)&ROCEMU_HDR_##bit) != 0 ? bit##_LEN : 0)
#define HDR_LEN(hdrs)                                                                      \
	(ROCEMU_BTH_LEN + LEN_IF(hdrs, XRCETH) + LEN_IF(hdrs, DETH) + LEN_IF(hdrs, FETH) + \
	 LEN_IF(hdrs, RETH) + LEN_IF(hdrs, ATOMICETH) + LEN_IF(hdrs, AETH) +               \
	 LEN_IF(hdrs, ATOMICACK) + LEN_IF(hdrs, IMMDT) + LEN_IF(hdrs, IETH))

const struct opcode_info opcode_table[256] = {
#define X(value, name, h, o) [value] = {.ops = (o), .hdrs = (h), .hdr_len = HDR_LEN(h)},
	ROCEMU_OPCODES(X)
#undef X
};

#define X(value, name, h, o) \
	_Static_assert(HDR_LEN(h) <= ROCEMU_MAX_HDR_LEN, #name " exceeds ROCEMU_MAX_HDR_LEN");
ROCEMU_OPCODES(X)
#undef X

/* Apart from opcode_table, so that the packet path's table stays at 2 KiB. */
static const char *const opcode_names[256] = {
#define X(value, name, h, o) [value] = #name,
	ROCEMU_OPCODES(X)
#undef X
};

uint32_t rocemu_opcode_hdrs(uint8_t opcode)
{
	return opcode_table[opcode].hdrs;
}

uint32_t rocemu_opcode_ops(uint8_t opcode)
{
	return opcode_table[opcode].ops;
}

size_t rocemu_opcode_hdr_len(uint8_t opcode)
{
	return opcode_table[opcode].hdr_len;
}

const char *rocemu_opcode_name(uint8_t opcode)
{
	return opcode_names[opcode] ? opcode_names[opcode] : "UNKNOWN";
}
