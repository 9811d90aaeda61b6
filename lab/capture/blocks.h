/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the blocks of pcap and pcapng files: frames, and in pcapng all other blocks, for copying a
 * file. Any number of sections and of interfaces with their own link types.
 */
#ifndef CAPTURE_BLOCKS_H
#define CAPTURE_BLOCKS_H

#include "capture/source.h"

/** LINKTYPE_ numbers as files have them. */
enum link_type {
	LINK_NULL = 0,
	LINK_ETHERNET = 1,
	LINK_RAW_OLD = 12, /* what libpcap calls it on Linux */
	LINK_RAW = 101,
	LINK_LOOP = 108,
	LINK_SLL = 113,
	LINK_ERF = 197,
	LINK_IPV4 = 228,
	LINK_IPV6 = 229,
	LINK_INFINIBAND = 247,
	LINK_SLL2 = 276,
};

enum block_kind { BLOCK_OTHER, BLOCK_SECTION, BLOCK_FRAME };

/** All pointers are borrowed until the next read or close. */
struct block {
	enum block_kind kind;
	/* as it is in a pcapng file; NULL in pcap */
	const uint8_t *raw;
	size_t raw_len;
	size_t options; /* offset of a frame's or section's options in raw; 0: it can have none */
	/* of a frame */
	uint64_t ts_ns;
	const uint8_t *data;
	uint32_t caplen, len;
	uint32_t interface;
	uint32_t link;
};

struct blocks;

/** Takes over s, also when it fails. Errors: -EINVAL no capture, -ENOMEM; err has what is wrong. */
int blocks_open(struct blocks **out, struct source *s, char *err, size_t errlen);

/** @return 1 *b is filled, 0 the end, -EIO damaged here (blocks_error()). */
int blocks_next(struct blocks *f, struct block *b);

/** pcapng, not pcap. */
bool blocks_are_pcapng(const struct blocks *f);
/** Of pcap: its link type, whether its times are in nanoseconds, and its snap length. */
uint32_t blocks_link(const struct blocks *f);
bool blocks_nanoseconds(const struct blocks *f);
/** The current section's, or the file's, numbers have their most significant byte first. */
bool blocks_big_endian(const struct blocks *f);

const char *blocks_error(const struct blocks *f);
/** NULL is allowed. */
void blocks_close(struct blocks *f);

#endif
