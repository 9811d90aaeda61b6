/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads and parses ROCEMU_IMPAIR for all its users: lanes, verbs calls, timed faults, connection
 * management. Each text is parsed once, so that the whole process has the same rules and the same
 * seed. "@FILE" is such a text: the file is not read again.
 */
#ifndef FAULT_SETTING_H
#define FAULT_SETTING_H

#include <stddef.h>

#include "fault/impair.h"

/**
 * Copy the setting as it is now; off where there is none. *serial: incremented with each change of
 * the text, 0 before the first; or serial is NULL.
 * @return 0, or as impair_parse(), then *im is off.
 */
int setting_get(struct impair *im, unsigned *serial, char *errbuf, size_t errlen);

#endif
