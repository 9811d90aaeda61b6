/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The abstract names on which sockets of this network namespace listen, from the kernel's list. Any
 * user may take any free name, and the list does not show whose a name is: the caller connects and
 * requests the other end's credentials.
 */
#ifndef BASE_UNIXNAMES_H
#define BASE_UNIXNAMES_H

#include <stdbool.h>
#include <stdio.h>

struct unix_names {
	FILE *file; /* owned, or NULL */
	char name[112];
};

/** Without /proc the list is empty. */
void unix_names_open(struct unix_names *u);
void unix_names_close(struct unix_names *u);
/**
 * The next name of a listening SOCK_SEQPACKET socket that begins with prefix.
 * @return the part after the prefix, valid until the next call; or NULL: there are no more.
 */
const char *unix_names_next(struct unix_names *u, const char *prefix);

#endif
