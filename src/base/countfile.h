/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of counters that several processes write and any process may read at any moment, without
 * locks. Each writer maps the file and counts in a row of its own, by plain additions; a counter is
 * the sum of values over all rows. Rows outlive their writers, so counters never decrease: the next
 * writer of a row starts at 0, and its predecessors' counts are kept.
 *
 * The file contains the names of its counters and the values that each is made of. No function here
 * but countfile_create() allocates or takes locks: librocemu-paths.so reads such files in programs
 * of any kind.
 */
#ifndef BASE_COUNTFILE_H
#define BASE_COUNTFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	COUNTFILE_ROWS = 1024,
	COUNTFILE_VALUES = 128, /* of a row */
	COUNTFILE_COUNTERS = 96,
	COUNTFILE_NAME = 56,
	COUNTFILE_TERMS = 6,
};

/** (sum of values + base) / divisor. A term is the index of a value plus 1; negative: subtracted.
 */
struct countfile_counter {
	char name[COUNTFILE_NAME]; /* "counters/port_xmit_data" */
	int16_t term[COUNTFILE_TERMS];
	uint16_t divisor; /* at least 1 */
	uint16_t offset;  /* a constant, added last */
};

struct countfile_row {
	uint64_t owner; /* process and its PID namespace; 0: none */
	uint64_t folds; /* odd while live is being added to past */
	uint64_t past[COUNTFILE_VALUES];
	uint64_t live[COUNTFILE_VALUES]; /* the writer's: plain additions */
} __attribute__((aligned(128)));

struct countfile {
	uint64_t magic;
	uint32_t used; /* rows [0, used) have had a writer; COUNTFILE_ROWS at most */
	uint32_t ncounters;
	struct countfile_counter counter[COUNTFILE_COUNTERS];
	struct countfile_row row[COUNTFILE_ROWS];
};

/** Make the file. -errno, -EINVAL: too many counters, or one that is not well formed. */
int countfile_create(const char *path, const struct countfile_counter *counters, unsigned n);

/**
 * Map it, to be read. NULL: it is not there, may not be opened, or is not such a file of this
 * version.
 */
struct countfile *countfile_map(const char *path);
void countfile_unmap(struct countfile *f);

/**
 * Map it, and take a row to count in, until countfile_release() or the process's end.
 * @return 0 or -errno: -EUSERS: all rows are in use, -ENOSPC: the file system has no room for one,
 * -EINVAL: as NULL from countfile_map().
 */
int countfile_join(const char *path, struct countfile **f, struct countfile_row **row);
void countfile_release(struct countfile_row *row);

/**
 * Have memory behind a part of a file that is mapped: a file has none where it was not written, and
 * an access to such a page is a SIGBUS when the file system is full. 0 or -errno. Of the parts of a
 * struct countfile, readers may access the head and the rows before used.
 */
int countfile_reserve(int fd, off_t at, size_t len);

/** Index of a counter, or -1. */
int countfile_find(const struct countfile *f, const char *name);
/** A counter's value now. index: below f->ncounters. */
uint64_t countfile_get(const struct countfile *f, unsigned index);

/** The sum of a value of all rows, whatever counters it is in. value: below COUNTFILE_VALUES. */
uint64_t countfile_value(const struct countfile *f, unsigned value);

/** The process that counts in a row; 0: none, or one of another PID namespace. row: below f->used.
 */
uint32_t countfile_owner(const struct countfile *f, uint32_t row);

#endif
