/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes blocks of pcapng files: each is made in memory and written as a whole. */
#ifndef CAPTURE_BLOCK_WRITER_H
#define CAPTURE_BLOCK_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Types of blocks, numbers in them. */
enum {
	BLOCK_SECTION_TYPE = 0x0a0d0d0a,
	BLOCK_INTERFACE_TYPE = 1,
	BLOCK_ENHANCED_TYPE = 6,
	BLOCK_ORDER_MAGIC = 0x1a2b3c4d,
	BLOCK_OPT_COMMENT = 1,
	BLOCK_OPT_TSRESOL = 9,
};

struct block_writer {
	FILE *out;	/* borrowed */
	bool big;	/* numbers have their most significant byte first */
	uint8_t *block; /* owned: the block that is made */
	size_t len, most;
	bool out_of_memory;
};

void block_begin(struct block_writer *w);
void block_put(struct block_writer *w, const void *p, size_t n);
void block_put32(struct block_writer *w, uint32_t v);
/** Two numbers of 16 bits. */
void block_put16x2(struct block_writer *w, uint16_t first, uint16_t second);
/** With zeros up to the next multiple of 4 bytes. */
void block_put_padded(struct block_writer *w, const void *p, size_t n);
/** An option; what is longer than 1023 bytes is cut. */
void block_put_comment(struct block_writer *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/** A section's block as far as its options. */
void block_begin_section(struct block_writer *w);
/** The block of an interface: its link type, and that times are 10^-digits seconds. @return 0 or
 * -errno. */
int block_write_interface(struct block_writer *w, uint16_t link, uint8_t digits);
/** A packet's block as far as its options. */
void block_begin_packet(struct block_writer *w, uint32_t interface, uint64_t ticks,
			const void *data, uint32_t caplen, uint32_t len);
/** Close the block, its end of options and its length at both ends, and write it. @return 0 or
 * -errno. */
int block_finish(struct block_writer *w);
void block_writer_fini(struct block_writer *w);

#endif
