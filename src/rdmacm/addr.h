/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts socket addresses of AF_INET, AF_INET6 and AF_IB to GIDs and service IDs and back. */
#ifndef RDMACM_ADDR_H
#define RDMACM_ADDR_H

#include <stdbool.h>
#include <sys/socket.h>

#include "rdmacm/api.h"
#include <rocemu/cm.h>

socklen_t rcm_addr_len(const struct sockaddr *sa); /* 0: none of AF_INET, AF_INET6, AF_IB */
bool rcm_addr_any(const struct sockaddr *sa);
bool rcm_addr_loopback(const struct sockaddr *sa);
bool rcm_addr_multicast(const struct sockaddr *sa);
bool rcm_addr_link_local(const struct sockaddr *sa); /* of IPv6 */
uint16_t rcm_addr_port(const struct sockaddr *sa);   /* host order */
/** Of AF_INET or AF_INET6. */
void rcm_addr_set_port(struct sockaddr *sa, uint16_t port);
/** The service ID of a destination: its port in the ID's port space, or (AF_IB) its own. */
uint64_t rcm_addr_service(enum rdma_port_space ps, const struct sockaddr *sa);
/**
 * The service ID that an ID of a port space has when it is bound to an address; its port may be 0.
 * AF_IB gives it by value and mask: bits outside the mask follow the ID's port space, and an ID of
 * RDMA_PS_IB may have one of another port space. -EPROTONOSUPPORT: not allowed for the ID.
 */
int rcm_addr_own_service(enum rdma_port_space ps, const struct sockaddr *sa, uint64_t *service_id);
uint32_t rcm_addr_scope(const struct sockaddr *sa);
void rcm_addr_to_gid(const struct sockaddr *sa, struct rocemu_gid *gid);
void rcm_addr_from_gid(struct sockaddr *sa, const struct rocemu_gid *gid, uint16_t port,
		       uint32_t scope);
/** The IP address and port of an address: for AF_IB converted, otherwise the address itself. */
void rcm_addr_ip(const struct sockaddr *sa, struct sockaddr_storage *ip);
/** The address of a GID, of AF_IB if that is the family, else of IP, with the ID's port. */
void rcm_addr_make(struct sockaddr *sa, sa_family_t family, const struct rocemu_gid *gid,
		   uint64_t service_id, uint32_t scope);
/** Copy to a sockaddr_storage that is zero beyond it. */
void rcm_addr_copy(struct sockaddr_storage *to, const struct sockaddr *sa);
/**
 * The source address by which the kernel would route to dst; from: the required one, or NULL. All
 * are IP addresses. -errno.
 */
int rcm_addr_route(const struct sockaddr *dst, const struct sockaddr *from,
		   struct sockaddr_storage *src);

#endif
