/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registers ports and service IDs in use and their listeners: one table for all clients of the
 * agent, that is, for the host (and user). Pure: no sockets, no time.
 */
#ifndef AGENT_GSI_PORTS_H
#define AGENT_GSI_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/seat-set.h"
#include "agent/protocol.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/prf.h"

/** A binding. */
struct gsi_port {
	struct hash_node by_service, by_key; /* in tables of struct gsi_ports */
	struct list of_client;		     /* in a list of its owner */
	uint16_t number;		     /* of the client */
	uint32_t uid;			     /* the client's user */
	uint32_t key;			     /* the client's name for it */
	bool listens;
	struct agent_gsi_bind bind;
};

struct gsi_ports {
	struct hash by_service, by_key;
	struct prf prf;	      /* of the tables' keys: users choose service IDs and keys */
	uint16_t first, last; /* of the ports that are given out */
	unsigned listeners;
};

/** first..last: the ports to choose from when none is requested. */
void gsi_ports_init(struct gsi_ports *p, uint16_t first, uint16_t last, struct prf prf);

/**
 * Take a port or service ID, as agent_gsi_bind(). b->service_id is filled in when the port is 0.
 * The binding is appended to the list of_client.
 * @return 0, -EADDRINUSE, -EADDRNOTAVAIL: no port is free, -EEXIST: the client has that key
 *	   already, -ENOMEM.
 */
int gsi_ports_bind(struct gsi_ports *p, uint16_t number, uint32_t uid, uint32_t key,
		   struct agent_gsi_bind *b, struct list *of_client);

/** @return 0, -ENOENT: no such key, -EADDRINUSE: another one listens there. */
int gsi_ports_listen(struct gsi_ports *p, uint16_t number, uint32_t key);

/** @return 0, -ENOENT. */
int gsi_ports_unbind(struct gsi_ports *p, uint16_t number, uint32_t key);

/** Release all bindings of a client's list. */
void gsi_ports_drop(struct gsi_ports *p, struct list *of_client);

/**
 * The listener of a service ID at an address. Wildcards only of clients in open. The more specific
 * one has precedence: the address, the wildcard of its family, the wildcard of both.
 * @return borrowed until the table changes, or NULL.
 */
const struct gsi_port *gsi_ports_find(const struct gsi_ports *p, uint64_t service_id,
				      const struct rocemu_gid *addr, uint32_t scope_id,
				      const struct seat_set *open);

/** Is it bound there without a listener (yet)? */
bool gsi_ports_is_bound(const struct gsi_ports *p, uint64_t service_id,
			const struct rocemu_gid *addr, uint32_t scope_id);

#endif
