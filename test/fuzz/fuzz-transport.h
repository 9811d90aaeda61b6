/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language of fuzz-transport's inputs: one byte of options (bit 0: the second RC QP uses the
 * SRQ), then commands, a byte each (modulo FUZZ_COMMANDS), each followed by its bytes. What the
 * input does not have is 0.
 */
#ifndef TEST_FUZZ_TRANSPORT_H
#define TEST_FUZZ_TRANSPORT_H

enum fuzz_command {
	/* 0..7: a request packet: QP, opcode, PSN, flags, payload length, address, key, DMA length,
	 * value, [XRC: SRQ number], odd [position, byte] */
	FUZZ_REQUEST = 0,
	FUZZ_RESPONSE = 8, /* the same, for the requester */
	FUZZ_RAW,	   /* length, bytes */
	FUZZ_SEND,	   /* QP, opcode, length (not UD), [bind], odd */
	FUZZ_RECV,	   /* QP, room */
	FUZZ_OUTPUT,	   /* descriptors at a time */
	FUZZ_TIME,	   /* how far */
	FUZZ_STATE,	   /* QP, what */
	FUZZ_REVIVE,
	FUZZ_COMMANDS,
};

/** A field's byte from here on selects a value that a correct peer would not send. */
enum { FUZZ_ANY = 232 };

/** ... and a key's byte from here on to FUZZ_ANY for a memory window's. */
enum { FUZZ_WINDOW = 200 };

/** A packet's byte "odd" from here on to FUZZ_ANY: it comes by memory, see rocemu_dgram::body. */
enum { FUZZ_MEMORY = 200 };

#endif
