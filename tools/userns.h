/* SPDX-License-Identifier: BSD-2-Clause */
/* Namespaces for users without privileges. */
#ifndef TOOLS_USERNS_H
#define TOOLS_USERNS_H

#include <stddef.h>

/**
 * unshare(flags). A caller without the privilege gets a user namespace as well, which has the
 * caller's IDs and no others. Not to be called with threads.
 * @return 0, or -errno with a line in errbuf; then the process may be in other namespaces.
 */
int userns_unshare(int flags, char *errbuf, size_t errlen);

/**
 * A setting of this machine that refuses user namespaces, and what to do: a text that begins with
 * ": ", or "" where none was found. AppArmor refuses late: a user namespace can be made, and what
 * needs a capability in it fails with EPERM or EACCES.
 */
const char *userns_refusal(void);

#endif
