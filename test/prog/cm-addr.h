/* SPDX-License-Identifier: BSD-2-Clause */
/* cm-addr: addresses by their names, and how outcomes are printed (cm-addr.c). */
#ifndef TEST_PROG_CM_ADDR_H
#define TEST_PROG_CM_ADDR_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

enum {
	PORT = 7500, /* free in every case: IDs of a case are destroyed after it */
	RESOLVE_MS = 1500,
};

/**
 * "own4"; "ib:own6": as a GID, with a service ID of RDMA_PS_TCP, or any for port 0; "ll6%": with
 * the interface as scope, "ll6%9999" with another. NULL for "-". Borrowed until the next call but
 * three.
 */
struct sockaddr *address(const char *name, uint16_t port);
socklen_t length(const struct sockaddr *sa);
/** The argument of rdma_getaddrinfo(): the text of an address's name, other text as it is. */
const char *node_text(const char *node);

void print_address(const char *what, const struct sockaddr *sa);
/** " what ok" or " what ERRNO", of a call that returns -1 with errno. */
void print_error(const char *what, int ret);
/** Both addresses, both ports, and whether it has a device. */
void print_id(struct rdma_cm_id *id);
void print_path(const struct ibv_sa_path_rec *path);

/** The tables. */
void calls(void);
void lookups(void);

#endif
