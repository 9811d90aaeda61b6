/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tap: records every packet of the process as on the wire, in the timeline (base/trace.h) and
 * in the file that ROCEMU_PCAP names. One tap per process, shared by its lanes; "%p" in the name
 * stands for the process ID. A name that another live process (or the parent of a fork) writes to
 * already gets ".PID" appended.
 *
 * Sent packets are written as passed to the kernel, after impairment: lost ones are not in it,
 * duplicates twice, corrupted ones corrupted. Received ones are written by the process whose lane
 * takes them. A packet that a process sends to itself is written once.
 */
#ifndef ENGINE_TAP_H
#define ENGINE_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rocemu/wire.h>

struct tap;

/** The addressing of a packet. UDP destination port is always 4791. */
struct tap_addr {
	uint64_t when_ns; /* tap_now() of the moment */
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint16_t ip_id;
	uint8_t tclass, hop_limit;
	uint32_t flow_label; /* IPv6 */
	bool sent;
	/* For the timeline only. */
	bool again;    /* was sent before */
	uint32_t lqpn; /* the sender's QPN where sent, 0: not known */
};

/**
 * The process's tap; *out is NULL without ROCEMU_PCAP and ROCEMU_TRACE. A reference, to be
 * released.
 * @return 0, or -errno with one line in errbuf: the file cannot be written.
 */
int tap_get(struct tap **out, char *errbuf, size_t errlen);
/** Release a reference; the last one closes the file. NULL is allowed. */
void tap_put(struct tap *t);

/** Nanoseconds since 1970, for tap_addr::when_ns. */
uint64_t tap_now(void);

/** Write one packet, in pieces from the BTH to the ICRC. After a write error nothing more is
 * written. */
void tap_write(struct tap *t, const struct tap_addr *a, const struct iovec *iov, unsigned niov);

/** Flush to the file, so that a killed process leaves a readable one. */
void tap_flush(struct tap *t);
/** For destructors: may this thread capture and flush? See mutex_lock_at_exit(). */
bool tap_works_at_exit(void);

#endif
