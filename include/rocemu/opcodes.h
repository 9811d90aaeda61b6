/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one table of BTH opcodes (IBTA vol. 1, 9.2.1, table 38; annex A17 for CNP; annex A19 for
 * FLUSH and ATOMIC WRITE). Everything that depends on the opcode (header lengths, names, what may
 * follow what) is computed from it; nothing else in the project spells an opcode's properties out.
 *
 * RD (0x40-0x5f) has no verbs API and is left out: its opcodes are unknown to the codec.
 */
#ifndef ROCEMU_OPCODES_H
#define ROCEMU_OPCODES_H

#include <stdint.h>

/** Extension headers, in the order in which they stand on the wire after the BTH. */
enum rocemu_hdr_bit {
	ROCEMU_HDR_XRCETH = 1u << 0,
	ROCEMU_HDR_DETH = 1u << 1,
	ROCEMU_HDR_FETH = 1u << 2,
	ROCEMU_HDR_RETH = 1u << 3,
	ROCEMU_HDR_ATOMICETH = 1u << 4,
	ROCEMU_HDR_AETH = 1u << 5,
	ROCEMU_HDR_ATOMICACK = 1u << 6,
	ROCEMU_HDR_IMMDT = 1u << 7,
	ROCEMU_HDR_IETH = 1u << 8,
};

/** What a packet with the opcode is and where it stands in its message. */
enum rocemu_op_bit {
	ROCEMU_OP_SEND = 1u << 0,
	ROCEMU_OP_WRITE = 1u << 1,
	ROCEMU_OP_READ_REQ = 1u << 2,
	ROCEMU_OP_READ_RESP = 1u << 3,
	ROCEMU_OP_ATOMIC = 1u << 4, /* CmpSwap, FetchAdd */
	ROCEMU_OP_ACK = 1u << 5,    /* acknowledge: AETH alone */
	ROCEMU_OP_ATOMIC_ACK = 1u << 6,
	ROCEMU_OP_FLUSH = 1u << 7,
	ROCEMU_OP_ATOMIC_WRITE = 1u << 8,
	ROCEMU_OP_CNP = 1u << 9,
	ROCEMU_OP_FIRST = 1u << 10, /* begins a message; ONLY = FIRST | LAST */
	ROCEMU_OP_LAST = 1u << 11,  /* ends a message */
	ROCEMU_OP_MIDDLE = 1u << 12,
	ROCEMU_OP_IMM = 1u << 13,
	ROCEMU_OP_INV = 1u << 14,
	ROCEMU_OP_PAYLOAD = 1u << 15,  /* may carry payload */
	ROCEMU_OP_REQUEST = 1u << 16,  /* goes from requester to responder */
	ROCEMU_OP_RESPONSE = 1u << 17, /* the other way */
};

/** The transport service: the upper three bits of the opcode. */
enum rocemu_service {
	ROCEMU_SVC_RC = 0,
	ROCEMU_SVC_UC = 1,
	ROCEMU_SVC_RD = 2,
	ROCEMU_SVC_UD = 3,
	ROCEMU_SVC_CNP = 4,
	ROCEMU_SVC_XRC = 5,
};

/* clang-format off */
/*
 * X(value, NAME, extension headers, properties). The headers and properties are bit names without
 * their prefix, given as lists: the expander pastes the prefix with ROCEMU_HDRS() and ROCEMU_OPS().
 */
#define ROCEMU_OPCODES(X) \
	X(0x00, RC_SEND_FIRST,        0,                                   ROCEMU_OPS4(SEND, FIRST, PAYLOAD, REQUEST)) \
	X(0x01, RC_SEND_MIDDLE,       0,                                   ROCEMU_OPS4(SEND, MIDDLE, PAYLOAD, REQUEST)) \
	X(0x02, RC_SEND_LAST,         0,                                   ROCEMU_OPS4(SEND, LAST, PAYLOAD, REQUEST)) \
	X(0x03, RC_SEND_LAST_IMM,     ROCEMU_HDRS1(IMMDT),                 ROCEMU_OPS5(SEND, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x04, RC_SEND_ONLY,         0,                                   ROCEMU_OPS5(SEND, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0x05, RC_SEND_ONLY_IMM,     ROCEMU_HDRS1(IMMDT),                 ROCEMU_OPS6(SEND, FIRST, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x06, RC_WRITE_FIRST,       ROCEMU_HDRS1(RETH),                  ROCEMU_OPS4(WRITE, FIRST, PAYLOAD, REQUEST)) \
	X(0x07, RC_WRITE_MIDDLE,      0,                                   ROCEMU_OPS4(WRITE, MIDDLE, PAYLOAD, REQUEST)) \
	X(0x08, RC_WRITE_LAST,        0,                                   ROCEMU_OPS4(WRITE, LAST, PAYLOAD, REQUEST)) \
	X(0x09, RC_WRITE_LAST_IMM,    ROCEMU_HDRS1(IMMDT),                 ROCEMU_OPS5(WRITE, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x0a, RC_WRITE_ONLY,        ROCEMU_HDRS1(RETH),                  ROCEMU_OPS5(WRITE, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0x0b, RC_WRITE_ONLY_IMM,    ROCEMU_HDRS2(RETH, IMMDT),           ROCEMU_OPS6(WRITE, FIRST, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x0c, RC_READ_REQUEST,      ROCEMU_HDRS1(RETH),                  ROCEMU_OPS4(READ_REQ, FIRST, LAST, REQUEST)) \
	X(0x0d, RC_READ_RESP_FIRST,   ROCEMU_HDRS1(AETH),                  ROCEMU_OPS4(READ_RESP, FIRST, PAYLOAD, RESPONSE)) \
	X(0x0e, RC_READ_RESP_MIDDLE,  0,                                   ROCEMU_OPS4(READ_RESP, MIDDLE, PAYLOAD, RESPONSE)) \
	X(0x0f, RC_READ_RESP_LAST,    ROCEMU_HDRS1(AETH),                  ROCEMU_OPS4(READ_RESP, LAST, PAYLOAD, RESPONSE)) \
	X(0x10, RC_READ_RESP_ONLY,    ROCEMU_HDRS1(AETH),                  ROCEMU_OPS5(READ_RESP, FIRST, LAST, PAYLOAD, RESPONSE)) \
	X(0x11, RC_ACK,               ROCEMU_HDRS1(AETH),                  ROCEMU_OPS4(ACK, FIRST, LAST, RESPONSE)) \
	X(0x12, RC_ATOMIC_ACK,        ROCEMU_HDRS2(AETH, ATOMICACK),       ROCEMU_OPS4(ATOMIC_ACK, FIRST, LAST, RESPONSE)) \
	X(0x13, RC_CMP_SWAP,          ROCEMU_HDRS1(ATOMICETH),             ROCEMU_OPS4(ATOMIC, FIRST, LAST, REQUEST)) \
	X(0x14, RC_FETCH_ADD,         ROCEMU_HDRS1(ATOMICETH),             ROCEMU_OPS4(ATOMIC, FIRST, LAST, REQUEST)) \
	X(0x16, RC_SEND_LAST_INV,     ROCEMU_HDRS1(IETH),                  ROCEMU_OPS5(SEND, LAST, INV, PAYLOAD, REQUEST)) \
	X(0x17, RC_SEND_ONLY_INV,     ROCEMU_HDRS1(IETH),                  ROCEMU_OPS6(SEND, FIRST, LAST, INV, PAYLOAD, REQUEST)) \
	X(0x1c, RC_FLUSH,             ROCEMU_HDRS2(FETH, RETH),            ROCEMU_OPS4(FLUSH, FIRST, LAST, REQUEST)) \
	X(0x1d, RC_ATOMIC_WRITE,      ROCEMU_HDRS1(RETH),                  ROCEMU_OPS5(ATOMIC_WRITE, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0x20, UC_SEND_FIRST,        0,                                   ROCEMU_OPS4(SEND, FIRST, PAYLOAD, REQUEST)) \
	X(0x21, UC_SEND_MIDDLE,       0,                                   ROCEMU_OPS4(SEND, MIDDLE, PAYLOAD, REQUEST)) \
	X(0x22, UC_SEND_LAST,         0,                                   ROCEMU_OPS4(SEND, LAST, PAYLOAD, REQUEST)) \
	X(0x23, UC_SEND_LAST_IMM,     ROCEMU_HDRS1(IMMDT),                 ROCEMU_OPS5(SEND, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x24, UC_SEND_ONLY,         0,                                   ROCEMU_OPS5(SEND, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0x25, UC_SEND_ONLY_IMM,     ROCEMU_HDRS1(IMMDT),                 ROCEMU_OPS6(SEND, FIRST, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x26, UC_WRITE_FIRST,       ROCEMU_HDRS1(RETH),                  ROCEMU_OPS4(WRITE, FIRST, PAYLOAD, REQUEST)) \
	X(0x27, UC_WRITE_MIDDLE,      0,                                   ROCEMU_OPS4(WRITE, MIDDLE, PAYLOAD, REQUEST)) \
	X(0x28, UC_WRITE_LAST,        0,                                   ROCEMU_OPS4(WRITE, LAST, PAYLOAD, REQUEST)) \
	X(0x29, UC_WRITE_LAST_IMM,    ROCEMU_HDRS1(IMMDT),                 ROCEMU_OPS5(WRITE, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x2a, UC_WRITE_ONLY,        ROCEMU_HDRS1(RETH),                  ROCEMU_OPS5(WRITE, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0x2b, UC_WRITE_ONLY_IMM,    ROCEMU_HDRS2(RETH, IMMDT),           ROCEMU_OPS6(WRITE, FIRST, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x64, UD_SEND_ONLY,         ROCEMU_HDRS1(DETH),                  ROCEMU_OPS5(SEND, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0x65, UD_SEND_ONLY_IMM,     ROCEMU_HDRS2(DETH, IMMDT),           ROCEMU_OPS6(SEND, FIRST, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0x81, CNP,                  0,                                   ROCEMU_OPS4(CNP, FIRST, LAST, PAYLOAD)) \
	X(0xa0, XRC_SEND_FIRST,       ROCEMU_HDRS1(XRCETH),                ROCEMU_OPS4(SEND, FIRST, PAYLOAD, REQUEST)) \
	X(0xa1, XRC_SEND_MIDDLE,      ROCEMU_HDRS1(XRCETH),                ROCEMU_OPS4(SEND, MIDDLE, PAYLOAD, REQUEST)) \
	X(0xa2, XRC_SEND_LAST,        ROCEMU_HDRS1(XRCETH),                ROCEMU_OPS4(SEND, LAST, PAYLOAD, REQUEST)) \
	X(0xa3, XRC_SEND_LAST_IMM,    ROCEMU_HDRS2(XRCETH, IMMDT),         ROCEMU_OPS5(SEND, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0xa4, XRC_SEND_ONLY,        ROCEMU_HDRS1(XRCETH),                ROCEMU_OPS5(SEND, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0xa5, XRC_SEND_ONLY_IMM,    ROCEMU_HDRS2(XRCETH, IMMDT),         ROCEMU_OPS6(SEND, FIRST, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0xa6, XRC_WRITE_FIRST,      ROCEMU_HDRS2(XRCETH, RETH),          ROCEMU_OPS4(WRITE, FIRST, PAYLOAD, REQUEST)) \
	X(0xa7, XRC_WRITE_MIDDLE,     ROCEMU_HDRS1(XRCETH),                ROCEMU_OPS4(WRITE, MIDDLE, PAYLOAD, REQUEST)) \
	X(0xa8, XRC_WRITE_LAST,       ROCEMU_HDRS1(XRCETH),                ROCEMU_OPS4(WRITE, LAST, PAYLOAD, REQUEST)) \
	X(0xa9, XRC_WRITE_LAST_IMM,   ROCEMU_HDRS2(XRCETH, IMMDT),         ROCEMU_OPS5(WRITE, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0xaa, XRC_WRITE_ONLY,       ROCEMU_HDRS2(XRCETH, RETH),          ROCEMU_OPS5(WRITE, FIRST, LAST, PAYLOAD, REQUEST)) \
	X(0xab, XRC_WRITE_ONLY_IMM,   ROCEMU_HDRS3(XRCETH, RETH, IMMDT),   ROCEMU_OPS6(WRITE, FIRST, LAST, IMM, PAYLOAD, REQUEST)) \
	X(0xac, XRC_READ_REQUEST,     ROCEMU_HDRS2(XRCETH, RETH),          ROCEMU_OPS4(READ_REQ, FIRST, LAST, REQUEST)) \
	X(0xad, XRC_READ_RESP_FIRST,  ROCEMU_HDRS1(AETH),                  ROCEMU_OPS4(READ_RESP, FIRST, PAYLOAD, RESPONSE)) \
	X(0xae, XRC_READ_RESP_MIDDLE, 0,                                   ROCEMU_OPS4(READ_RESP, MIDDLE, PAYLOAD, RESPONSE)) \
	X(0xaf, XRC_READ_RESP_LAST,   ROCEMU_HDRS1(AETH),                  ROCEMU_OPS4(READ_RESP, LAST, PAYLOAD, RESPONSE)) \
	X(0xb0, XRC_READ_RESP_ONLY,   ROCEMU_HDRS1(AETH),                  ROCEMU_OPS5(READ_RESP, FIRST, LAST, PAYLOAD, RESPONSE)) \
	X(0xb1, XRC_ACK,              ROCEMU_HDRS1(AETH),                  ROCEMU_OPS4(ACK, FIRST, LAST, RESPONSE)) \
	X(0xb2, XRC_ATOMIC_ACK,       ROCEMU_HDRS2(AETH, ATOMICACK),       ROCEMU_OPS4(ATOMIC_ACK, FIRST, LAST, RESPONSE)) \
	X(0xb3, XRC_CMP_SWAP,         ROCEMU_HDRS2(XRCETH, ATOMICETH),     ROCEMU_OPS4(ATOMIC, FIRST, LAST, REQUEST)) \
	X(0xb4, XRC_FETCH_ADD,        ROCEMU_HDRS2(XRCETH, ATOMICETH),     ROCEMU_OPS4(ATOMIC, FIRST, LAST, REQUEST)) \
	X(0xb6, XRC_SEND_LAST_INV,    ROCEMU_HDRS2(XRCETH, IETH),          ROCEMU_OPS5(SEND, LAST, INV, PAYLOAD, REQUEST)) \
	X(0xb7, XRC_SEND_ONLY_INV,    ROCEMU_HDRS2(XRCETH, IETH),          ROCEMU_OPS6(SEND, FIRST, LAST, INV, PAYLOAD, REQUEST)) \
	X(0xbc, XRC_FLUSH,            ROCEMU_HDRS3(XRCETH, FETH, RETH),    ROCEMU_OPS4(FLUSH, FIRST, LAST, REQUEST)) \
	X(0xbd, XRC_ATOMIC_WRITE,     ROCEMU_HDRS2(XRCETH, RETH),          ROCEMU_OPS5(ATOMIC_WRITE, FIRST, LAST, PAYLOAD, REQUEST))

#define ROCEMU_HDRS1(a) (ROCEMU_HDR_##a)
#define ROCEMU_HDRS2(a, b) (ROCEMU_HDR_##a | ROCEMU_HDR_##b)
#define ROCEMU_HDRS3(a, b, c) (ROCEMU_HDR_##a | ROCEMU_HDR_##b | ROCEMU_HDR_##c)
#define ROCEMU_OPS1(a) (ROCEMU_OP_##a)
#define ROCEMU_OPS2(a, b) (ROCEMU_OP_##a | ROCEMU_OP_##b)
#define ROCEMU_OPS3(a, b, c) (ROCEMU_OP_##a | ROCEMU_OP_##b | ROCEMU_OP_##c)
#define ROCEMU_OPS4(a, b, c, d) (ROCEMU_OP_##a | ROCEMU_OP_##b | ROCEMU_OP_##c | ROCEMU_OP_##d)
#define ROCEMU_OPS5(a, b, c, d, e) (ROCEMU_OP_##a | ROCEMU_OP_##b | ROCEMU_OP_##c | ROCEMU_OP_##d | ROCEMU_OP_##e)
#define ROCEMU_OPS6(a, b, c, d, e, f) \
	(ROCEMU_OP_##a | ROCEMU_OP_##b | ROCEMU_OP_##c | ROCEMU_OP_##d | ROCEMU_OP_##e | ROCEMU_OP_##f)
/* clang-format on */

/** ROCEMU_RC_SEND_FIRST and so on: the opcode byte of the BTH. */
enum rocemu_opcode {
#define X(value, name, hdrs, ops) ROCEMU_##name = value,
	ROCEMU_OPCODES(X)
#undef X
};

#endif
