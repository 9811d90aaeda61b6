/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process has, to see what a run of calls leaves behind. */
#ifndef TEST_SHORTAGE_COUNT_H
#define TEST_SHORTAGE_COUNT_H

#include <stdbool.h>

enum { COUNT_SETTLE_MS = 5000 };

struct count {
	long fds, threads, blocks, maps;
};

/** Entries of a directory, which exists. */
long count_entries(const char *directory);

/**
 * librdmacm keeps its devices open, and their lanes open a socket for each flow until they have
 * enough, and one for each receiver of UD: do not count those.
 */
void count_keep_send_sockets(void);

struct count count_take(void);
/** The same, when there is no more than before, or after a while. */
struct count count_settled(const struct count *before);
bool count_is_more(const struct count *now, const struct count *before);
struct count count_most(const struct count *a, const struct count *b);
void count_print_descriptors(void);

#endif
