/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/rng.h"
#include "capture/source.h"

enum { LEN = 1000000, ROOM = LEN + LEN / 2, BOMB = 1 << 28, PART = 1 << 20 };

static uint8_t text[LEN], packed[ROOM], back[LEN + 1];

static int setup(void **state)
{
	char *path = strdup("/tmp/rocemu-source-XXXXXX");
	int fd = path != NULL ? mkstemp(path) : -1;
	struct rng rng;

	if (fd < 0)
		return -1;
	close(fd);
	*state = path;
	rng_init(&rng, 1);
	for (size_t i = 0; i < LEN; i++)
		text[i] = (uint8_t)(rng_u32(&rng) & 0x0f);
	return 0;
}

static int teardown(void **state)
{
	unlink(*state);
	free(*state);
	return 0;
}

static void put(const char *path, const char *mode, const void *p, size_t n)
{
	FILE *f = fopen(path, mode);

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static struct source *open_source(const char *path)
{
	struct source *s;
	char err[256];

	if (source_open(&s, path, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	return s;
}

/* The file's text is text[], n times. */
static void expect_text(const char *path, unsigned n)
{
	struct source *s = open_source(path);

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(source_read(s, back, 1), 1);
		assert_int_equal(source_read(s, back + 1, LEN - 1), LEN - 1);
		assert_memory_equal(back, text, LEN);
	}
	assert_int_equal(source_read(s, back, 1), 0);
	assert_int_equal(source_read(s, back, 1), 0);
	source_close(s);
}

static void expect_error(const char *path, const char *says)
{
	struct source *s = open_source(path);
	long n;

	while ((n = source_read(s, back, LEN)) > 0)
		;
	assert_true(n < 0);
	if (strstr(source_error(s), says) == NULL)
		fail_msg("%s", source_error(s));
	source_close(s);
}

static void source_read__plain__as_it_is(void **state)
{
	struct source *s;

	put(*state, "w", text, LEN);
	expect_text(*state, 1);
	put(*state, "w", text, 2);
	s = open_source(*state);
	assert_int_equal(source_read(s, back, LEN), 2);
	source_close(s);
}

static size_t gzip(const uint8_t *p, size_t n)
{
#ifdef HAVE_ZLIB
	z_stream z = {0};

	assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)p;
	z.avail_in = (uInt)n;
	z.next_out = packed;
	z.avail_out = ROOM;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return ROOM - z.avail_out;
#else
	(void)p;
	(void)n;
	skip();
	return 0;
#endif
}

static size_t zstd(const uint8_t *p, size_t n)
{
#ifdef HAVE_ZSTD
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t made;

	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 1);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	made = ZSTD_compress2(c, packed, ROOM, p, n);
	ZSTD_freeCCtx(c);
	return made;
#else
	(void)p;
	(void)n;
	skip();
	return 0;
#endif
}

static void check_packed(const char *path, size_t (*pack)(const uint8_t *, size_t))
{
	size_t n = pack(text, LEN);

	put(path, "w", packed, n);
	expect_text(path, 1);
	put(path, "a", packed, n);
	expect_text(path, 2);
	put(path, "w", packed, n - 9);
	expect_error(path, "end early");
	packed[n / 2] ^= 0x55;
	packed[n / 2 + 1] ^= 0x55;
	put(path, "w", packed, n);
	expect_error(path, "damaged");
}

static void source_read__gzip__decompressed(void **state)
{
	check_packed(*state, gzip);
	/* what follows the last part is left, as gzip leaves it */
	put(*state, "w", packed, gzip(text, LEN));
	put(*state, "a", "zeros\0\0", 7);
	expect_text(*state, 1);
}

static void source_read__zstd__decompressed(void **state)
{
	check_packed(*state, zstd);
}

/* Little that becomes much: it takes time, and no memory. */
static void check_bomb(const char *path, size_t (*pack)(const uint8_t *, size_t))
{
	static const uint8_t zeros[PART];
	struct rusage before, after;
	struct source *s;
	size_t n = pack(zeros, PART);
	long all = 0, got;

	put(path, "w", packed, n);
	for (unsigned i = 1; i < BOMB / PART; i++)
		put(path, "a", packed, n);
	getrusage(RUSAGE_SELF, &before);
	s = open_source(path);
	while ((got = source_read(s, back, LEN)) > 0)
		all += got;
	getrusage(RUSAGE_SELF, &after);
	source_close(s);
	assert_int_equal(got, 0);
	assert_int_equal(all, BOMB);
	assert_true(after.ru_maxrss - before.ru_maxrss < 16 << 10);
}

static void source_read__bomb__memory_is_bounded(void **state)
{
	check_bomb(*state, gzip);
	check_bomb(*state, zstd);
}

#ifdef HAVE_ZSTD
/* One byte each becomes 128 KiB: 300 KB would become 10 GB. */
static void source_read__bomb_of_repeated_bytes__refused(void **state)
{
	enum { BLOCKS = 75000, BLOCK = 4 };
	static const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38};
	static const uint8_t block[BLOCK] = {2, 0, 16, 0}; /* repeated, not the last, 1 << 17 */
	static const uint8_t last[] = {1, 0, 0};
	static uint8_t bomb[sizeof(head) + BLOCKS * BLOCK + sizeof(last)];
	uint64_t all = 0;
	struct source *s;
	long got;

	memcpy(bomb, head, sizeof(head));
	for (unsigned i = 0; i < BLOCKS; i++)
		memcpy(bomb + sizeof(head) + i * BLOCK, block, BLOCK);
	memcpy(bomb + sizeof(bomb) - sizeof(last), last, sizeof(last));
	put(*state, "w", bomb, sizeof(bomb));
	s = open_source(*state);
	while ((got = source_read(s, back, LEN)) > 0)
		all += (uint64_t)got;
	assert_int_equal(got, -EIO);
	assert_string_equal(source_error(s),
			    "decompressed, it has more than 2000 times its length");
	assert_in_range(all, 1 << 29, UINT64_C(2) << 30);
	source_close(s);
}
#endif

static void source_open__nothing_there__told(void **state)
{
	struct source *s;
	char err[256];

	(void)state;
	assert_int_equal(source_open(&s, "/nonexistent", err, sizeof(err)), -2);
	assert_null(s);
	assert_string_equal(err, "cannot read the capture /nonexistent: No such file or directory");
	assert_int_equal(source_open(&s, "/", err, sizeof(err)), -22);
	assert_non_null(strstr(err, "Is a directory"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(source_read__plain__as_it_is),
		T(source_read__gzip__decompressed),
		T(source_read__zstd__decompressed),
		T(source_read__bomb__memory_is_bounded),
		T(source_open__nothing_there__told),
#ifdef HAVE_ZSTD
		T(source_read__bomb_of_repeated_bytes__refused),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
