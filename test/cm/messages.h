/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages that contain both communication IDs. */
#ifndef TEST_CM_MESSAGES_H
#define TEST_CM_MESSAGES_H

/** X(name, member of struct rocemu_cm_msg) for each: all but REQ and the two of SIDR. */
#define CM_MESSAGES_WITH_IDS(X) \
	X(MRA, mra)             \
	X(REJ, rej)             \
	X(REP, rep)             \
	X(RTU, rtu)             \
	X(DREQ, dreq)           \
	X(DREP, drep)           \
	X(LAP, lap)             \
	X(APR, apr)

#endif
