/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures of RoCEv2 packets, writing: pcap with nanoseconds, raw IP (no link layer). Reading:
 * capture-read.h.
 *
 * No locks inside. Error texts are for the user: they name the file and what is wrong with it.
 */
#ifndef WIRE_CAPTURE_H
#define WIRE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/ip.h"

struct capture_writer;

/** A packet to write: iov[0..niov) together reach from the BTH to the ICRC inclusive. All borrowed.
 */
struct capture_pkt {
	struct ip_udp ip;
	const struct iovec *iov;
	unsigned niov;
};

/**
 * Create or truncate the file at path and write its header.
 * Errors: -errno of open(), -ENOMEM; the text is in errbuf.
 */
int capture_writer_open(struct capture_writer **out, const char *path, char *errbuf, size_t errlen);

/**
 * Append a packet with the time ts_ns (nanoseconds since 1970). Buffered: write errors are returned
 * by the flush. Errors: -EMSGSIZE more than a captured frame of 65535 bytes holds, nothing is
 * written.
 */
int capture_write(struct capture_writer *w, uint64_t ts_ns, const struct capture_pkt *pkt);

/** Pass everything written so far to the kernel. Errors: -errno of the first write that failed
 * (disk full, ...). */
int capture_flush(struct capture_writer *w);

/** Flush, close and free. NULL is allowed. Errors as capture_flush(); the writer is gone all the
 * same. */
int capture_writer_close(struct capture_writer *w);

#endif
