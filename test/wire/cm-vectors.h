/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Known answers: every CM message with a value of its own in each field, and its bytes as the
 * tables of IBTA vol. 1, chapter 12 lay them out, written by hand. test-cm-tshark.py has the same
 * values as Wireshark names them.
 */
#ifndef TEST_WIRE_CM_VECTORS_H
#define TEST_WIRE_CM_VECTORS_H

#include <rocemu/cm.h>

struct cm_vector {
	struct rocemu_cm_msg msg;
	uint8_t bytes[ROCEMU_MAD_LEN];
};

enum { CM_VECTORS = 11 };

/** The vectors, in the order of ROCEMU_CM_MESSAGES; static. */
const struct cm_vector *cm_vectors(void);

#endif
