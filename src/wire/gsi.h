/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1, the general services interface: a MAD with its addresses, as it crosses the agent's socket,
 * and the packet that carries it. The agent makes and checks packets; processes make them only for
 * captures and rules of fault injection. Pure.
 *
 * Sources: IBTA vol. 1, 3.5.3 (general services), 9.8.3 (UD), 10.2.5 and C10-122 (Q_Key and P_Key).
 */
#ifndef WIRE_GSI_H
#define WIRE_GSI_H

#include <stddef.h>
#include <stdint.h>

#include <rocemu/mad.h>
#include <rocemu/wire.h>

enum {
	GSI_HDR_LEN = 12 + 8, /* BTH, DETH */
	GSI_PACKET_LEN = GSI_HDR_LEN + ROCEMU_MAD_LEN + ROCEMU_ICRC_LEN,
	GSI_FLIPS_MAX = 12,
	GSI_FLIP_SEALED = 0x8000, /* before the ICRC is computed, so that it fits */
};

/** A MAD and its addressing; host byte order but for hdr and mad. */
struct gsi_mad {
	struct rocemu_gid src, dst; /* both IPv4-mapped, or none of them */
	uint32_t scope_id;	    /* interface of link-local addresses, else 0 */
	uint16_t sport;		    /* UDP source port; to send: filled in by the agent */
	uint16_t ip_id;		    /* received: the IPv4 identification with which the ICRC fits */
	uint8_t tclass;		    /* traffic class, TOS */
	uint8_t hop_limit; /* TTL; to send: 0 is the system's default; received: 0 is not known */
	/* To send: bits to invert, counted from the first of the BTH; | GSI_FLIP_SEALED. */
	uint16_t nflips, flips[GSI_FLIPS_MAX];
	uint8_t hdr[GSI_HDR_LEN]; /* BTH and DETH; to send: filled in by the agent */
	uint8_t mad[ROCEMU_MAD_LEN];
};

enum gsi_verdict {
	GSI_OK = 0,
	GSI_FORM, /* no packet from QP 1 to QP 1 with one MAD */
	GSI_KEY,  /* wrong Q_Key or P_Key */
	GSI_ICRC,
};

/** Fill in BTH and DETH. */
void gsi_hdr_encode(struct gsi_mad *m, uint32_t psn);

/** Make the packet: headers, MAD, ICRC, and the flips. */
void gsi_packet_encode(const struct gsi_mad *m, uint8_t packet[static GSI_PACKET_LEN]);

/**
 * Check packet[0..len) and take headers and MAD from it. m->src, dst and sport are given; so is
 * ip_id, as a guess, because a UDP socket does not show it: it becomes the one with which the ICRC
 * fits. Any bytes are safe.
 */
enum gsi_verdict gsi_packet_decode(struct gsi_mad *m, const uint8_t *packet, size_t len);

#endif
