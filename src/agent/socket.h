/* SPDX-License-Identifier: BSD-2-Clause */
/* The data sockets: UDP port 4791 of one address, as protocol.h describes them. Used by the agent,
 * and by a client that works without one. */
#ifndef AGENT_SOCKET_H
#define AGENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rocemu/wire.h>

enum { AGENT_ADDR_STRLEN = 64 };

/** "10.0.0.1", "fe80::1%2". */
const char *data_addr_str(const struct rocemu_gid *addr, uint32_t scope_id,
			  char buf[static AGENT_ADDR_STRLEN]);

union data_addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/** @return the address's length. */
socklen_t data_addr_from_gid(const struct rocemu_gid *g, uint32_t scope_id, uint16_t port,
			     union data_addr *a);

/** As data_socket_open(), on another port. */
int data_socket_open_port(const struct rocemu_gid *addr, uint32_t scope_id, uint16_t port,
			  bool shared);

/**
 * Open, set up and bind a socket on port 4791. shared: as a member of the address's reuseport
 * group, which it joins at the last place; else alone.
 * @return a descriptor, or -errno, as bind() has it.
 */
int data_socket_open(const struct rocemu_gid *addr, uint32_t scope_id, bool shared);

/**
 * A socket of one's own for a multicast group's address, joined on an interface (0: the kernel's
 * choice). The kernel gives a copy of each packet to all that are open, whoever's they are; it goes
 * by interface where it can (IPv4 always, IPv6 where binding to a device is allowed).
 * @return a descriptor, or -errno.
 */
int data_socket_open_group(const struct rocemu_gid *group, unsigned ifindex);

/** Would an unshared socket get the port? Nothing stays open. @return 0 or -errno. */
int data_socket_probe(const struct rocemu_gid *addr, uint32_t scope_id);

/**
 * Give the group that fd belongs to the program that steers each packet by its QPN to the place of
 * its slot, and to place 0 when the slot is not below places. Replaces an earlier program at once.
 * @return 0 or -errno.
 */
int data_socket_steer(int fd, unsigned places);

/** Throw away whatever waits in the socket. @return datagrams. */
unsigned data_socket_drain(int fd);

/** Is fd what data_socket_open() made for that address? */
bool data_socket_is(int fd, const struct rocemu_gid *addr, uint32_t scope_id);

/**
 * One line for a user: why the port could not be had (err: what open or probe returned) and what to
 * do. It names who has the port as far as the system tells.
 */
void data_socket_explain(int err, const struct rocemu_gid *addr, uint32_t scope_id, char *buf,
			 size_t len);

#endif
