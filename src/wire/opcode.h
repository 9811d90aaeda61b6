/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table as the packet path reads it: one load per packet. Made from ROCEMU_OPCODES,
 * which is the only place where an opcode's properties are written down.
 */
#ifndef WIRE_OPCODE_H
#define WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/opcodes.h>

/** Bytes of each extension header on the wire (IBTA vol. 1, 9.3; FETH: annex A19). */
enum {
	XRCETH_LEN = 4,
	DETH_LEN = 8,
	FETH_LEN = 4,
	RETH_LEN = 16,
	ATOMICETH_LEN = 28,
	AETH_LEN = 4,
	ATOMICACK_LEN = 8,
	IMMDT_LEN = 4,
	IETH_LEN = 4,
};

struct opcode_info {
	uint32_t ops;	 /* ROCEMU_OP_* */
	uint16_t hdrs;	 /* ROCEMU_HDR_* */
	uint8_t hdr_len; /* BTH and extension headers; 0: unknown opcode */
};

extern const struct opcode_info opcode_table[256];

/** As rocemu_opcode_ops() and rocemu_opcode_hdrs(), for inlining. */
static inline uint32_t opcode_ops(uint8_t opcode)
{
	return opcode_table[opcode].ops;
}

static inline uint32_t opcode_hdrs(uint8_t opcode)
{
	return opcode_table[opcode].hdrs;
}

/** The last packet of a message that takes a receive request, and completes it. */
static inline bool opcode_ends_receive(uint8_t opcode)
{
	const uint32_t ops = opcode_ops(opcode);

	return (ops & ROCEMU_OP_LAST) && (ops & (ROCEMU_OP_SEND | ROCEMU_OP_IMM));
}

#endif
