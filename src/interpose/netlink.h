/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Emulates sockets of NETLINK_RDMA, which the kernel does not have or answers for other devices: a
 * program gets a socket of NETLINK_USERSOCK, and its messages to the kernel go to the process that
 * keeps the tree (tools/tree-nl.h), which answers in the kernel's format.
 *
 * As map.h: no allocation, no locks, no stdio, errno as it was.
 */
#ifndef INTERPOSE_NETLINK_H
#define INTERPOSE_NETLINK_H

#include <stdbool.h>
#include <sys/socket.h>

/** The protocol to use instead of the given one in socket(2). */
int netlink_protocol(int domain, int protocol);

/** A socket was made with another protocol in the place of RDMA's: it is one of those below. */
void netlink_made(int fd);

/** A socket was bound: what it sends without an address, with any call, goes to the keeper from now
 * on. */
void netlink_bound(int fd, const void *address, socklen_t len);

/**
 * Where to send or to connect, when a program names an address.
 * @return to itself, or *out, an address of the same size: struct sockaddr_nl.
 */
const void *netlink_to(int fd, const void *to, socklen_t len, struct sockaddr_storage *out);

/** An address that something was received from, as the program is to see it. */
void netlink_from(void *from, socklen_t len);

#endif
