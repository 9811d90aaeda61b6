/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of NETLINK_RDMA, which the kernel has none of, or others' devices at: a program gets one
 * of NETLINK_USERSOCK, and what it sends to the kernel goes to the process that keeps the tree
 * (tools/tree-nl.h), whose answers look as the kernel's.
 *
 * As map.h: no allocation, no locks, no stdio, errno as it was.
 */
#ifndef INTERPOSE_NETLINK_H
#define INTERPOSE_NETLINK_H

#include <stdbool.h>
#include <sys/socket.h>

/** The protocol to use in the place of another one in socket(2). */
int netlink_protocol(int domain, int protocol);

/**
 * Where to send what is for an address of a socket.
 * @return to itself, or *out, an address of the same size: struct sockaddr_nl.
 */
const void *netlink_to(int fd, const void *to, socklen_t len, struct sockaddr_storage *out);

/** An address that something was received from, as the program is to see it. */
void netlink_from(void *from, socklen_t len);

#endif
