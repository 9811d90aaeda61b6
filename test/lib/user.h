/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests with a second user. All that become one do it here, so that each is skipped, with the
 * reason, where there is none: without root or its capabilities, or below a directory that only its
 * owner may enter.
 */
#ifndef TEST_LIB_USER_H
#define TEST_LIB_USER_H

#include <sys/types.h>

/** Skips the test unless this process can become uid and run program as uid. program NULL: none. */
void user_need(uid_t uid, const char *program);
/** This process becomes uid, with that group alone. @return 0, or -1 with errno. */
int user_become(uid_t uid);
/** As user_become(), until user_return(). Fails the test. Descriptors and memory stay root's. */
void user_act_as(uid_t uid);
void user_return(void);

#endif
