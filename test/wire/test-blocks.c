/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "capture/blocks.h"

#define TIME_NS UINT64_C(1700000000123456789)

/* A file in the making, in either byte order. */
struct file {
	uint8_t b[2048];
	size_t n;
	bool big;
};

static void u32(struct file *f, uint32_t v)
{
	if (f->big)
		put_be32(f->b + f->n, v);
	else
		put_le32(f->b + f->n, v);
	f->n += 4;
}

static void u16x2(struct file *f, uint16_t a, uint16_t b)
{
	u32(f, f->big ? (uint32_t)a << 16 | b : (uint32_t)b << 16 | a);
}

static void text(struct file *f, const char *s, size_t padded)
{
	memset(f->b + f->n, 0, padded);
	memcpy(f->b + f->n, s, strlen(s));
	f->n += padded;
}

static void section(struct file *f)
{
	u32(f, 0x0a0d0d0a);
	u32(f, 28);
	u32(f, 0x1a2b3c4d);
	u16x2(f, 1, 0);
	u32(f, 0xffffffff);
	u32(f, 0xffffffff);
	u32(f, 28);
}

static void interface(struct file *f, uint16_t link, uint32_t snap, uint8_t resolution)
{
	u32(f, 1);
	u32(f, 32);
	u16x2(f, link, 0);
	u32(f, snap);
	u16x2(f, 9, 1);
	text(f, (const char[]){(char)resolution, 0}, 4);
	u16x2(f, 0, 0);
	u32(f, 32);
}

static void enhanced(struct file *f, uint32_t interface_id, uint64_t ticks, const char *data)
{
	uint32_t n = (uint32_t)strlen(data), padded = (n + 3) & ~3u;

	u32(f, 6);
	u32(f, 32 + padded + 8);
	u32(f, interface_id);
	u32(f, (uint32_t)(ticks >> 32));
	u32(f, (uint32_t)ticks);
	u32(f, n);
	u32(f, n + 100);
	text(f, data, padded);
	u16x2(f, 1, 4);
	text(f, "note", 4);
	u32(f, 32 + padded + 8);
}

static struct blocks *open_blocks(const struct file *f, char *err, size_t errlen)
{
	char path[] = "/tmp/rocemu-blocks-XXXXXX";
	int fd = mkstemp(path);
	struct source *s;
	struct blocks *b;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, f->b, f->n), f->n);
	close(fd);
	assert_int_equal(source_open(&s, path, err, errlen), 0);
	unlink(path);
	return blocks_open(&b, s, err, errlen) == 0 ? b : NULL;
}

static void expect_frame(struct blocks *f, uint32_t interface_id, uint32_t link, uint64_t ts_ns,
			 const char *data)
{
	struct block b;

	do
		assert_int_equal(blocks_next(f, &b), 1);
	while (b.kind != BLOCK_FRAME);
	assert_int_equal(b.interface, interface_id);
	assert_int_equal(b.link, link);
	assert_int_equal(b.ts_ns, ts_ns);
	assert_int_equal(b.caplen, strlen(data));
	assert_memory_equal(b.data, data, strlen(data));
}

static void blocks_next__pcapng__frames_of_all_interfaces(void **state)
{
	(void)state;
	for (int big = 0; big < 2; big++) {
		struct file f = {.big = big};
		struct block b;
		struct blocks *r;
		char err[256];

		section(&f);
		interface(&f, LINK_ETHERNET, 0, 9);
		interface(&f, LINK_RAW, 0, 6);
		interface(&f, LINK_SLL2, 0, 0x80 | 20);
		enhanced(&f, 0, TIME_NS, "abcde");
		u32(&f, 0x80000bad); /* a block of an unknown kind */
		u32(&f, 16);
		u32(&f, 4711);
		u32(&f, 16);
		enhanced(&f, 1, TIME_NS / 1000, "");
		enhanced(&f, 2, (uint64_t)5 << 20 | 1 << 19, "xyz");
		u32(&f, 3); /* a simple packet */
		u32(&f, 20);
		u32(&f, 4);
		text(&f, "simp", 4);
		u32(&f, 20);
		section(&f);
		interface(&f, LINK_NULL, 0, 3);
		enhanced(&f, 0, 77, "next");
		r = open_blocks(&f, err, sizeof(err));
		assert_non_null(r);
		assert_true(blocks_are_pcapng(r));
		expect_frame(r, 0, LINK_ETHERNET, TIME_NS, "abcde");
		expect_frame(r, 1, LINK_RAW, TIME_NS / 1000 * 1000, "");
		expect_frame(r, 2, LINK_SLL2, UINT64_C(5500000000), "xyz");
		expect_frame(r, 0, LINK_ETHERNET, 0, "simp");
		expect_frame(r, 0, LINK_NULL, UINT64_C(77000000), "next");
		assert_int_equal(blocks_big_endian(r), big);
		assert_int_equal(blocks_next(r, &b), 0);
		blocks_close(r);
	}
}

static void blocks_next__pcap__both_byte_orders_and_units(void **state)
{
	static const uint32_t magics[] = {0xa1b2c3d4, 0xa1b23c4d, 0xa1b2cd34};

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		uint32_t magic = magics[i / 2];
		struct file f = {.big = i % 2};
		struct block b;
		struct blocks *r;
		char err[256];

		u32(&f, magic);
		u16x2(&f, 2, 4);
		u32(&f, 0);
		u32(&f, 0);
		u32(&f, 65535);
		u32(&f, LINK_SLL);
		u32(&f, 5);
		u32(&f, 7);
		u32(&f, 3);
		u32(&f, 9);
		if (magic == 0xa1b2cd34) {
			u32(&f, 1);
			u32(&f, 1);
		}
		text(&f, "abc", 3);
		r = open_blocks(&f, err, sizeof(err));
		assert_non_null(r);
		assert_false(blocks_are_pcapng(r));
		expect_frame(r, 0, LINK_SLL,
			     UINT64_C(5000000000) + (magic == 0xa1b23c4d ? 7 : 7000), "abc");
		assert_int_equal(blocks_next(r, &b), 0);
		blocks_close(r);
	}
}

/* A file that is right up to where change makes it wrong. */
static void expect_damaged(void (*change)(struct file *f), const char *says)
{
	struct file f = {0};
	struct block b;
	struct blocks *r;
	char err[256];
	int n;

	section(&f);
	interface(&f, LINK_ETHERNET, 0, 9);
	enhanced(&f, 0, 0, "abcd");
	change(&f);
	r = open_blocks(&f, err, sizeof(err));
	assert_non_null(r);
	while ((n = blocks_next(r, &b)) == 1)
		;
	assert_int_equal(n, -EIO);
	if (strstr(blocks_error(r), says) == NULL)
		fail_msg("%s", blocks_error(r));
	blocks_close(r);
}

enum { AT_INTERFACE = 28, AT_FRAME = 60 };

static void no_order(struct file *f)
{
	f->b[8] ^= 1;
}

static void no_such_interface(struct file *f)
{
	f->b[AT_FRAME + 8] = 1;
}

static void longer_than_block(struct file *f)
{
	f->b[AT_FRAME + 20] = 40;
}

static void huge_block(struct file *f)
{
	f->b[AT_FRAME + 7] = 0x7f;
}

static void other_length_behind(struct file *f)
{
	f->b[f->n - 4] ^= 4;
}

static void short_block(struct file *f)
{
	f->b[AT_INTERFACE + 4] = 8;
}

static void cut_off(struct file *f)
{
	f->n -= 3;
}

static void cut_in_header(struct file *f)
{
	f->n = AT_FRAME + 3;
}

static void nothing_but_magic(struct file *f)
{
	f->n = 4;
}

static void blocks_next__damaged__told(void **state)
{
	(void)state;
	expect_damaged(no_order, "byte order");
	expect_damaged(no_such_interface, "interface 1, of 1");
	expect_damaged(longer_than_block, "a frame of 40 bytes");
	expect_damaged(huge_block, "a block of");
	expect_damaged(other_length_behind, "two lengths");
	expect_damaged(short_block, "a block of 8 bytes");
	expect_damaged(cut_off, "ends within");
	expect_damaged(cut_in_header, "ends within");
	expect_damaged(nothing_but_magic, "cut off");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_next__pcapng__frames_of_all_interfaces),
		cmocka_unit_test(blocks_next__pcap__both_byte_orders_and_units),
		cmocka_unit_test(blocks_next__damaged__told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
