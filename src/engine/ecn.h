/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets the ECN bits of the traffic class, which allow the network to mark congestion instead of
 * dropping packets.
 */
#ifndef ENGINE_ECN_H
#define ENGINE_ECN_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

enum ecn_mode {
	ECN_AUTO, /* not on loopback, where nothing marks */
	ECN_OFF,
	ECN_ON,
};

enum { ECN_MASK = 3, ECN_ECT0 = 2 };

/** The value of ROCEMU_ECN, or NULL: "auto". @return false: another word. */
bool ecn_parse(enum ecn_mode *mode, const char *text);

/**
 * The traffic class of a packet with this opcode on this path. ECT(0) where the program left the
 * ECN bits 0 and the service reacts to congestion marks: RC and XRC. Not for CNPs (annex A17.9.3).
 */
uint8_t ecn_tclass(enum ecn_mode mode, const struct rocemu_path *path, uint8_t opcode);

struct ecn {
	enum ecn_mode mode;
	struct rocemu_path path[ROCEMU_OUTPUT_BATCH]; /* with other ECN bits than requested */
};

/** Give packets the paths that they take: borrowed until the next call. n <= ROCEMU_OUTPUT_BATCH.
 */
void ecn_mark(struct ecn *e, struct rocemu_tx **pkt, unsigned n);

#endif
