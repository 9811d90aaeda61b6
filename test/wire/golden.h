/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of test/golden, recorded from the kernel's Soft-RoCE driver, for tests to walk over.
 */
#ifndef TEST_WIRE_GOLDEN_H
#define TEST_WIRE_GOLDEN_H

#include <stddef.h>

#include <rocemu/wire.h>

#include "capture/capture-read.h"

/** A packet; everything borrowed for the call. */
typedef void golden_fn(const char *file, const struct capture_rec *rec, void *user);

/**
 * Call fn for every RoCEv2 packet of every capture in the directory GOLDEN_DIR, files in the order
 * of their names. Ends the test when a file cannot be read. @return packets seen.
 */
size_t golden_for_each(golden_fn *fn, void *user);

/** What the ICRC of a recorded packet was computed over. */
struct rocemu_icrc_ctx golden_icrc_ctx(const struct ip_udp *ip);

/** A copy of data[0..len), malloc()ed that large, so that a sanitizer sees a byte read beyond. */
uint8_t *exact_copy(const uint8_t *data, size_t len);

#endif
