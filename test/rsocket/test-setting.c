/* SPDX-License-Identifier: BSD-2-Clause */
/* The administrator's files, whatever they hold. */
#include "rsocket/setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/test.h"
#include "rsocket/rs.h"

static char dir[] = "/tmp/rsocket-XXXXXX";

static void put(const char *name, const void *text, size_t len)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static uint32_t sqsize_of(const char *text)
{
	struct rs_files f;

	put("sqsize_default", text, strlen(text));
	rs_files_read(dir, &f);
	return f.sqsize;
}

static void begin(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	assert_non_null(mkdtemp(dir));
}

static void end(void)
{
	static const char *const names[] = {"mem_default",    "wmem_default",	 "sqsize_default",
					    "rqsize_default", "iomap_size",	 "inline_default",
					    "polling_time",   "wake_up_interval"};
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		remove(path);
	}
	assert_int_equal(rmdir(dir), 0);
}

TEST(setting, no_files__defaults)
{
	struct rs_files f;

	rs_files_read("/nonexistent", &f);
	assert_int_equal(f.sqsize, RS_DEFAULT_QUEUE);
	assert_int_equal(f.rqsize, RS_DEFAULT_QUEUE);
	assert_int_equal(f.mem, RS_DEFAULT_BUFFER);
	assert_int_equal(f.wmem, RS_DEFAULT_BUFFER);
	assert_int_equal(f.inline_size, RS_DEFAULT_INLINE);
	assert_int_equal(f.iomap_size, 0);
	assert_int_equal(f.polling_us, RS_SPIN_NS / 1000);
	assert_int_equal(f.wake_up_ms, 5000);
}

TEST(setting, each_file__sets_its_number)
{
	struct rs_files f;

	begin();
	put("mem_default", "1000000\n", 8);
	put("wmem_default", "500000", 6);
	put("sqsize_default", "64 \n", 4);
	put("rqsize_default", "128\r\n", 5);
	put("inline_default", "0\n", 2);
	put("iomap_size", "127\n", 4);
	put("polling_time", "3\n", 2);
	put("wake_up_interval", "100\n", 4);
	rs_files_read(dir, &f);
	assert_int_equal(f.mem, 1000000);
	assert_int_equal(f.wmem, 500000);
	assert_int_equal(f.sqsize, 64);
	assert_int_equal(f.rqsize, 128);
	assert_int_equal(f.inline_size, 0);
	assert_int_equal(f.iomap_size, 127);
	assert_int_equal(f.polling_us, 3);
	assert_int_equal(f.wake_up_ms, 100);
	end();
}

TEST(setting, what_is_no_number_in_range__changes_nothing)
{
	static const char *const bad[] = {
		"",
		"\n",
		"x",
		"12x",
		"-1",
		"+64",
		"0x40",
		"64 65",
		"0",
		"4294967360",
		"99999999999999999999999",
		"0000000000000000000000000000000000000064",
		"64.0",
		" 64",
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(sqsize_of(bad[i]), RS_DEFAULT_QUEUE);
	assert_int_equal(sqsize_of("64"), 64);
	end();
}

TEST(setting, nul_fifo_or_folder__changes_nothing)
{
	struct rs_files f;
	char path[128];

	begin();
	put("sqsize_default", "64\0", 3);
	snprintf(path, sizeof(path), "%s/rqsize_default", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	snprintf(path, sizeof(path), "%s/mem_default", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	rs_files_read(dir, &f);
	assert_int_equal(f.sqsize, RS_DEFAULT_QUEUE);
	assert_int_equal(f.rqsize, RS_DEFAULT_QUEUE);
	assert_int_equal(f.mem, RS_DEFAULT_BUFFER);
	end();
}
