/* SPDX-License-Identifier: BSD-2-Clause */
/* A thousand sockets, at once and one after the other: nothing of them stays. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/test.h"
#include "sock.h"
#include "verbs/dev.h"

enum { MANY = 1000, SOME = 200 };

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static size_t allocated(void)
{
	return mallinfo2().uordblks + mallinfo2().hblkhd;
}

static void open_limit(void)
{
	struct rlimit l;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = l.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &l), 0);
	if (l.rlim_cur < 5 * MANY) {
		print_message("skipped: too few descriptors\n");
		skip();
	}
}

static void all_at_once(int type)
{
	static int fds[MANY];

	for (int i = 0; i < MANY; i++) {
		fds[i] = rsocket(AF_INET, type, 0);
		assert_true(fds[i] >= 0);
	}
	for (int i = 0; i < MANY; i++)
		assert_int_equal(rclose(fds[i]), 0);
}

static void check_all_at_once(int type)
{
	size_t memory;
	int fds;

	dev_namespace();
	open_limit();
	all_at_once(type); /* tables grow the first time */
	fds = open_fds();
	memory = allocated();
	all_at_once(type);
	assert_int_equal(open_fds(), fds);
	assert_true(allocated() <= memory + MANY * 16);
}

TEST(streams, thousand_at_once__nothing_stays)
{
	check_all_at_once(SOCK_STREAM);
}

TEST(datagram_sockets, thousand_at_once__nothing_stays)
{
	check_all_at_once(SOCK_DGRAM);
}

static void one_connection(uint32_t seed)
{
	uint8_t out[500], in[500];
	int fds[2];

	sock_pair(AF_INET, fds);
	sock_fill(out, sizeof(out), seed);
	sock_send_all(fds[0], out, sizeof(out));
	assert_int_equal(sock_recv_all(fds[1], in, sizeof(in)), sizeof(in));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(rclose(fds[0]), 0);
	assert_int_equal(rclose(fds[1]), 0);
}

/*
 * The connection manager keeps ended connections for a while (time wait), so the check allows for a
 * connection's own memory: 300 KiB.
 */
TEST(connections, one_after_the_other__nothing_stays)
{
	size_t memory;
	int fds;

	dev_namespace();
	for (uint32_t i = 0; i < SOME; i++)
		one_connection(i);
	fds = open_fds();
	memory = allocated();
	for (uint32_t i = 0; i < MANY - SOME; i++)
		one_connection(i);
	assert_int_equal(open_fds(), fds);
	assert_true(allocated() <= memory + (MANY - SOME) * 8192);
}
