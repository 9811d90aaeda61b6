/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets of a captured frame: itself, or those of a burst that it shows as one (segment.h). */
#ifndef CAPTURE_BURST_H
#define CAPTURE_BURST_H

#include <stdbool.h>

#include "capture/capture-read.h"

/** segment: the packet's number in the frame, from 1; 0: it is all of the frame. Not for packets
 * that the capture cut: icrc_wrong. */
typedef void burst_fn(void *arg, const struct capture_rec *packet, unsigned segment,
		      bool icrc_wrong);

/** Call fn with each packet of a frame; those of a burst have the headers that its interface gives
 * them. */
void burst_each(const struct capture_rec *rec, burst_fn *fn, void *arg);

#endif
