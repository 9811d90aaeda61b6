/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * With an auditor, glibc lays out the static thread-local memory before it loads the program's
 * libraries. Those that need much of it (libtsan, liblsan, libjemalloc) do not fit then: "cannot
 * allocate memory in static TLS block". So a program with such libraries is executed a second time,
 * before anything of it has run, with the room that they need (GLIBC_TUNABLES,
 * glibc.rtld.optional_static_tls; since glibc 2.33).
 */
#ifndef INTERPOSE_AUDIT_TLS_H
#define INTERPOSE_AUDIT_TLS_H

#include <link.h>

/** The process begins. The arguments and the environment are borrowed until audit_tls_end(). */
void audit_tls_begin(char **argv, char **envp);

/** An object was mapped, and is not yet relocated. May execute the program again. */
void audit_tls_add(const struct link_map *map);

/** The program's own code begins to run. */
void audit_tls_end(void);

#endif
