/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A "system libibverbs" with two devices and no hardware, to be loaded by ROCEMU_REAL_LIBIBVERBS.
 * Every public symbol of the system's library exists, records its calls and their arguments, and
 * returns the result that the test set; only the calls that open a device work by themselves. It is
 * in a link-map namespace of its own, so the test reads its records through a device that it has
 * listed: fake_notes().
 */
#ifndef TEST_VERBS_FAKE_NIC_H
#define TEST_VERBS_FAKE_NIC_H

#include <infiniband/verbs.h>

enum { FAKE_DEVICES = 2, FAKE_ARGS = 6 };

struct fake_notes {
	unsigned calls;	      /* of symbols and ops that take note */
	const char *last;     /* the name of what was called last */
	long args[FAKE_ARGS]; /* what it was called with; the last ones may be rubbish */
	int answering;	      /* does the test request ... */
	long answer;	      /* ... this to be returned, by all of them? */
	int err;	      /* to be left in errno */
	int err_seen;	      /* what errno was when it was called */

	unsigned lists, opened; /* lists and contexts that are alive */
	unsigned fork_inits;
};

struct fake_device {
	struct ibv_device base;
	struct fake_notes *notes; /* of the library */
};

#define FAKE_NAME "fakenic" /* and the device's number */

static inline struct fake_notes *fake_notes(struct ibv_device *device)
{
	return ((struct fake_device *)(void *)device)->notes;
}

#endif
