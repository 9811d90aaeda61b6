/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes network namespaces for a test, so that it meets no other process and leaves nothing behind.
 */
#ifndef TEST_LIB_NETNS_H
#define TEST_LIB_NETNS_H

/** Enter a new one, in which only lo is, up. Skips the test where none can be made. */
void netns_enter(void);
/** As netns_enter(), but of this process's calls only the first does it. */
void netns_enter_once(void);
/** Skips the test where this process has no sockets of IPv6. */
void netns_need_ipv6(void);
/** Run ip with these arguments. Skips the test without ip, or without the right to use it. */
void netns_ip(const char *args);

#endif
