/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Defines the messages between `rocemu stat` and a process (stat-server.h): a request; then a head,
 * and for each lane a struct stat_lane and its QPs' reports. Structs as in memory: both ends are on
 * one machine; other versions are refused.
 */
#ifndef ENGINE_STAT_MSG_H
#define ENGINE_STAT_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/report.h>

#include "engine/portcount.h"

enum {
	STAT_MAGIC = 0x72736d75,
	STAT_VERSION = 1, /* counts on with the layout */
	STAT_NAME = 16,	  /* name of a process or thread in the kernel */
	STAT_BYTES_MAX = 128 << 20,
};

struct stat_request {
	uint32_t magic, version;
	uint32_t reserved[2];
};

struct stat_head {
	uint32_t magic, version;
	uint32_t lane_size, qp_size; /* also distinguish versions */
	int32_t err;		     /* errno why lanes are missing at the end; 0: none is */
	uint32_t pid;
	uint32_t nlanes;
	uint32_t reserved;
	uint64_t now_ns; /* monotonic */
	char comm[STAT_NAME];
};

struct stat_lane {
	char device[64];
	uint32_t slot;
	uint32_t nqps;	   /* reports that follow */
	uint32_t busy;	   /* 1: the lock could not be taken; the rest is incomplete */
	uint32_t busy_tid; /* thread that held it; 0: not known */
	char holder[STAT_NAME];
	uint32_t objects[8]; /* by enum rocemu_object */
	struct port_counts counts;
};

bool stat_request_is_valid(const void *data, size_t len);

/**
 * Is this a whole answer? data: aligned as by malloc(). Names in it end with a 0; other values are
 * not checked.
 * @return 0, -EPROTO, or -EPROTONOSUPPORT: of another version.
 */
int stat_check(const void *data, size_t len);

/** The lane after this one (NULL: the first), of an answer that was checked. NULL: no more. */
const struct stat_lane *stat_lane_next(const struct stat_head *h, const struct stat_lane *l);

static inline const struct rocemu_qp_report *stat_qps(const struct stat_lane *l)
{
	return (const struct rocemu_qp_report *)(const void *)(l + 1);
}

/** An answer as it grows. */
struct stat_buf {
	uint8_t *data; /* owned */
	size_t len, room;
};

/** Room for n bytes behind len. NULL: no memory. Moves the data. */
void *stat_buf_reserve(struct stat_buf *b, size_t n);

#endif
