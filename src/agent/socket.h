/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the data sockets: UDP port 4791 of one address, as described in protocol.h. Used by the
 * agent, and by a client without one.
 */
#ifndef AGENT_SOCKET_H
#define AGENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rocemu/wire.h>

#include "netdev/addr.h"

enum { AGENT_ADDR_STRLEN = 64 };

/** "10.0.0.1", "fe80::1%2". */
const char *data_addr_str(const struct rocemu_gid *addr, uint32_t scope_id,
			  char buf[static AGENT_ADDR_STRLEN]);

/** Open, set up and bind a socket, alone. @return a descriptor, or -errno of bind(). */
int data_socket_open(const struct rocemu_gid *addr, uint32_t scope_id, uint16_t port);

/** Open and set up a socket for an address, not bound yet. shared: to be a member of the address's
 * reuseport group, which it joins at the last place. */
int data_socket_open_unbound(const struct rocemu_gid *addr, bool shared);
/** @return 0 or -errno. */
int data_socket_bind(int fd, const struct rocemu_gid *addr, uint32_t scope_id, uint16_t port);
/** A bound socket that was not shared is the first member of a group from now on. */
int data_socket_share(int fd);

/**
 * Restrict the socket to packets for that slot, for as long as it or a copy of it is open: the
 * filter is locked and cannot be removed.
 */
int data_socket_guard(int fd, unsigned slot);

/** The socket leaves its group and receives nothing any more; nor do copies of it. */
int data_socket_stop_input(int fd);

/** May an address be served at all? Not a wildcard, a multicast or a broadcast address.
 * @return 0, -EADDRNOTAVAIL, or another -errno. */
int data_socket_check_addr(const struct rocemu_gid *addr, uint32_t scope_id);

/**
 * A separate socket for a multicast group's address, joined on an interface (0: the kernel's
 * choice). The kernel delivers a copy of each packet to all such sockets of all users; by interface
 * where possible (IPv4 always, IPv6 where binding to a device is allowed).
 * @return a descriptor, or -errno.
 */
int data_socket_open_group(const struct rocemu_gid *group, unsigned ifindex);

/** Slots that follow each other, at places that do. */
struct data_run {
	unsigned slot, place, n;
};

/**
 * Give the group that fd belongs to the program that steers each packet by its QPN to the place of
 * its slot, and to place 0 when the slot has none. Replaces an earlier program at once.
 * @return 0 or -errno.
 */
int data_socket_steer(int fd, const struct data_run *run, unsigned n);

/** Discard all datagrams in the socket. @return their number. */
unsigned data_socket_drain(int fd);

/**
 * One line for a user: why the port could not be had (err: what open or probe returned) and what to
 * do. It names the owner of the port if the system shows it.
 */
void data_socket_explain(int err, const struct rocemu_gid *addr, uint32_t scope_id, char *buf,
			 size_t len);

#endif
