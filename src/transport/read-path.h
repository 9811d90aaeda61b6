/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Estimates how many bytes of READ responses the paths to the endpoint hold. The READ budget
 * protects the socket buffer, which bytes still on a path do not fill: READs may exceed the budget
 * by these.
 */
#ifndef TRANSPORT_READ_PATH_H
#define TRANSPORT_READ_PATH_H

#include <rocemu/endpoint.h>

enum {
	/*
	 * With more, all READs that a QP may have in flight would be in flight to a far peer, and
	 * one that waits for a lost response would keep it from sending more.
	 */
	READ_PATH_MAX = 256 * 1024,
};

struct read_path {
	uint64_t bytes; /* on the paths, as the last interval showed */
	/* This interval. */
	rocemu_ns_t since;
	rocemu_ns_t rtt; /* the longest path of those below */
	uint64_t came;	 /* sum of each response's bytes times the round trip of its path */
	bool congested;	 /* a response came through a buffer that was filling up, or marked */
};

/** A response of these bytes came, from a lane whose empty path takes rtt; 0: not measured. */
void read_path_came(struct read_path *p, rocemu_ns_t now, uint32_t bytes, rocemu_ns_t rtt);
/** A READ is sent, and no response is on its way. */
void read_path_idle(struct read_path *p, rocemu_ns_t now);

#endif
