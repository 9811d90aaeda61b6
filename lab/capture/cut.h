/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of which a capture has only the beginning, because of a snap length or as the first IP
 * fragment. Pure; any bytes are safe.
 */
#ifndef CAPTURE_CUT_H
#define CAPTURE_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/wire.h>

#include "capture/capture-read.h"

/** The BTH is there, and so the opcode, the PSN, and by the length on the wire the payload's. */
static inline bool cut_has_bth(const struct capture_rec *rec)
{
	return rec->len >= ROCEMU_BTH_LEN;
}

/**
 * As rocemu_packet_decode(), also of a packet that was cut: by its length on the wire, with zeros
 * in place of the bytes that are not there. *hdrs are the ROCEMU_HDR_* of the opcode's extension
 * headers that are there as a whole; payload is NULL if the packet was cut. With ROCEMU_DROP_LENGTH
 * the headers and payload_len, pad included, are set as well: a burst has both.
 * @return ROCEMU_DROP_SHORT also if the BTH was cut.
 */
enum rocemu_drop cut_decode(struct rocemu_packet *p, uint32_t *hdrs, const struct capture_rec *rec);

/**
 * Can a frame be a burst that was not taken apart, because it was cut, or its ICRCs are wrong? The
 * first packet shows it by a length that it cannot have (one that is there as a whole may have a
 * wrong length); and in a host's own capture, before its interface segments, the last packets of
 * messages can be followed by others.
 */
bool cut_may_be_burst(const struct capture_rec *rec);

/** "RETH, ImmDt": names of ROCEMU_HDR_* bits into buf; as snprintf(). */
size_t cut_names(char *buf, size_t size, uint32_t hdrs);

#endif
