/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer of a queue pair of a device, on UDP port 4791 of an address of its own: it sends the
 * packets that a scenario writes, and keeps those that come.
 *
 * It has a second queue pair at the device, the probe. A good request to the probe is answered when
 * the device has looked at all packets before it: what has not come then does not come for them. So
 * no time has to pass to show that nothing comes.
 */
#ifndef TEST_SCENARIO_WIRE_H
#define TEST_SCENARIO_WIRE_H

#include "scenario/peer.h"

enum {
	WIRE_QPN = 7 << 14 | 3, /* of the peer; scenarios know it */
	WIRE_PROBE_QPN = 7 << 14 | 4,
};

struct wire;

/** To be closed. @return NULL with *error negative: of socket() or bind(), or -EINVAL: no address.
 */
struct wire *wire_open(const char *address, int *error);
void wire_close(struct wire *w);

struct rocemu_gid wire_gid(const struct wire *w);

/** A case begins: what came and was not read belongs to the last one. */
void wire_begin(struct wire *w, uint32_t probe_qpn);

/** Send a complete packet. -EOPNOTSUPP: a socket cannot do what it asks for. */
int wire_send(struct wire *w, const struct scenario_peer *peer, const struct scenario_packet *p);

/** Wait until the probe has answered. -ETIMEDOUT: it does not. */
int wire_probe(struct wire *w, const struct scenario_peer *peer);

/** A packet that came, and has not been read: its text, which is valid until the next call. */
const char *wire_next(struct wire *w, const struct scenario_peer *peer);

/** The last packet that was read; NULL: none since wire_begin(). payload[] has its payload. */
const struct rocemu_packet *wire_last(const struct wire *w);
uint8_t *wire_last_payload(struct wire *w);

#endif
