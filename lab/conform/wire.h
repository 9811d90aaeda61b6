/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer of a queue pair of a device, on UDP port 4791 of an address of its own: it sends the
 * packets that a scenario writes, and keeps those that come.
 *
 * It has a second queue pair at the device, the probe. A good request to the probe is answered when
 * the device has looked at all packets before it: what has not come then does not come for them. So
 * no time has to pass to show that nothing comes.
 */
#ifndef CONFORM_WIRE_H
#define CONFORM_WIRE_H

#include "scenario/peer.h"
#include "wire/ip.h"

enum {
	WIRE_QPN = 7 << 14 | 3, /* of the peer; scenarios know it */
	WIRE_PROBE_QPN = 7 << 14 | 4,
	WIRE_TCLASS = 0x20, /* of packets for which nothing else is given */
};

struct wire;

/** A packet that came or was sent. */
struct wire_packet {
	struct ip_udp ip; /* ip_id: not known of one that came */
	uint64_t ns;	  /* since 1970; of one that came: when the kernel had it */
	bool sent;
	bool forbidden; /* it came with IP options, or in fragments */
	uint32_t len;	/* from the BTH to the ICRC */
	uint8_t *data;	/* borrowed, until the call returns */
};

/** To be closed. @return NULL with *error negative: of socket() or bind(), or -EINVAL: no address.
 */
struct wire *wire_open(const char *address, int *error);
void wire_close(struct wire *w);

struct rocemu_gid wire_gid(const struct wire *w);

/** Each packet that is sent or comes, from now on. */
void wire_tap(struct wire *w, void (*tap)(void *arg, const struct wire_packet *p), void *arg);

/** take() sees each packet that comes, but for answers to the probe. true: it took it, and no one
 * else gets it. */
void wire_take(struct wire *w, bool (*take)(void *arg, const struct wire_packet *p), void *arg);

/** The socket of port 4791, for poll(). */
int wire_fd(const struct wire *w);
/** Read what there is. @return true: the probe's answer is among it. */
bool wire_receive(struct wire *w);

/** A case begins: what came and was not read belongs to the last one. */
void wire_begin(struct wire *w, uint32_t probe_qpn);

/** Send bytes, from the BTH to the ICRC, to an address. @return 0 or a negative errno value. */
int wire_send_bytes(struct wire *w, const struct rocemu_gid *to, uint16_t sport, uint8_t tclass,
		    uint8_t *data, size_t len);

/** Send a complete packet. -EOPNOTSUPP: a socket cannot do what it asks for. */
int wire_send(struct wire *w, const struct scenario_peer *peer, const struct scenario_packet *p);
/** Why not, of the last packet: a sentence, or NULL. */
const char *wire_why_not(const struct wire *w);

/** Wait until the probe has answered. -ETIMEDOUT: it does not. */
int wire_probe(struct wire *w, const struct scenario_peer *peer);

/** A packet that came, and has not been read: its text, which is valid until the next call. */
const char *wire_next(struct wire *w, const struct scenario_peer *peer);

/** The last packet that was read; NULL: none since wire_begin(). payload[] has its payload. */
const struct rocemu_packet *wire_last(const struct wire *w);
/** When it came. */
uint64_t wire_read_ns(const struct wire *w);
/** What was sent last is what wire_latency() counts from. */
void wire_mark(struct wire *w);
/** When that was sent; 0: nothing was. */
uint64_t wire_marked_ns(const struct wire *w);
/** What came then is an effect. */
void wire_effect(struct wire *w, uint64_t ns);
/** From the packet at wire_mark() to the first effect behind it; and between the last two effects.
 * @return false: there are none. */
bool wire_latency(const struct wire *w, uint64_t *ns);
bool wire_interval(const struct wire *w, uint64_t *ns);
uint8_t *wire_last_payload(struct wire *w);
/** Its headers in front of the BTH. */
const struct ip_udp *wire_last_ip(const struct wire *w);

#endif
