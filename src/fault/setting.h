/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ROCEMU_IMPAIR says, for all that act on it: lanes, calls of verbs, timed faults, connection
 * management. Read here alone, and parsed once for each text, so that all of a process have the
 * same rules and the same seed. "@FILE" is such a text: the file is not read again.
 */
#ifndef FAULT_SETTING_H
#define FAULT_SETTING_H

#include <stddef.h>

#include "fault/impair.h"

/**
 * Copy the setting as it is now; off where there is none. *serial: another number for each change
 * of the text, 0 as long as there was none; or serial is NULL.
 * @return 0, or as impair_parse(), then *im is off.
 */
int setting_get(struct impair *im, unsigned *serial, char *errbuf, size_t errlen);

#endif
