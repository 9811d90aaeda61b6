/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RoCEv2 codec: BTH and its extension headers, and the ICRC. Stateless, no allocation, no I/O;
 * safe on any bytes.
 *
 * A "packet" here is what a UDP datagram to port 4791 carries: BTH, extension headers, payload,
 * pad, ICRC. Sources: IBTA vol. 1, chapter 9 (transport), annex A17 (RoCEv2), annex A19 (memory
 * placement extensions).
 */
#ifndef ROCEMU_WIRE_H
#define ROCEMU_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include <rocemu/opcodes.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ROCEMU_PUBLIC __attribute__((visibility("default")))

enum {
	ROCEMU_UDP_PORT = 4791,
	ROCEMU_BTH_LEN = 12,
	ROCEMU_ICRC_LEN = 4,
	ROCEMU_CNP_LEN =
		16, /* payload of a congestion notification packet: zeros (annex A17.9.3) */
	ROCEMU_MAX_HDR_LEN =
		64, /* BTH and the longest legal chain of extension headers, rounded up */
	ROCEMU_MAX_MTU = 4096, /* payload bytes of one packet, at most */
	ROCEMU_MAX_PACKET = ROCEMU_MAX_HDR_LEN + ROCEMU_MAX_MTU + 4 + ROCEMU_ICRC_LEN,
	ROCEMU_QPN_MASK = 0xffffff,
	ROCEMU_PSN_MASK = 0xffffff,
	ROCEMU_MCAST_QPN = 0xffffff, /* destination of packets to a multicast group */
};

/** AETH syndromes (IBTA 9.7.5.1.1, tables 45 and 46). The low five bits of an ACK are its credit
 * field. */
enum rocemu_syndrome {
	ROCEMU_AETH_ACK = 0x00,
	ROCEMU_AETH_RNR = 0x20, /* | timer code, see rocemu_rnr_timer_ns() */
	ROCEMU_AETH_CLASS_MASK = 0x60,
	ROCEMU_AETH_VALUE_MASK = 0x1f,
	ROCEMU_AETH_NO_CREDITS = 0x1f, /* credit field: end-to-end credits are not used */
	ROCEMU_AETH_NAK = 0x60,
	ROCEMU_NAK_PSN_SEQ = 0x60,
	ROCEMU_NAK_INV_REQ = 0x61,
	ROCEMU_NAK_REM_ACCESS = 0x62,
	ROCEMU_NAK_REM_OP = 0x63,
	ROCEMU_NAK_INV_RD = 0x64,
};

/** The default P_Key, of a full member: the only one on Ethernet. */
enum { ROCEMU_PKEY_DEFAULT = 0xffff };

/** A GID: an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d. Network byte order. */
struct rocemu_gid {
	uint8_t raw[16];
};

/**
 * All the headers of a packet in host byte order. The opcode determines which extension headers are
 * valid.
 */
struct rocemu_hdrs {
	/* BTH */
	uint8_t opcode; /* enum rocemu_opcode, or any byte on decode of an unknown one */
	uint8_t pad;	/* PadCnt, 0-3 bytes after the payload */
	uint8_t tver;	/* transport header version, 0-15; 0 is the only one there is */
	bool se;	/* solicited event */
	bool migreq;
	bool fecn;
	bool becn;
	bool ackreq;
	uint8_t resv8a; /* six bits */
	uint8_t resv7;	/* seven bits */
	uint16_t pkey;
	uint32_t dqpn; /* 24 bits */
	uint32_t psn;  /* 24 bits */
	/* extension headers, valid where rocemu_opcode_hdrs(opcode) has their bit */
	struct {
		uint32_t srqn; /* 24 bits */
		uint8_t resv;
	} xrceth;
	struct {
		uint32_t qkey;
		uint32_t sqpn; /* 24 bits */
		uint8_t resv;
	} deth;
	struct {
		uint32_t
			raw; /* reserved 26 bits, selectivity level 2 bits, placement type 4 bits */
	} feth;
	struct {
		uint64_t va;
		uint32_t rkey;
		uint32_t length; /* bytes of the whole message */
	} reth;
	struct {
		uint64_t va;
		uint32_t rkey;
		uint64_t swap_add;
		uint64_t compare;
	} atomiceth;
	struct {
		uint8_t syndrome;
		uint32_t msn; /* 24 bits */
	} aeth;
	uint64_t atomicack; /* the original value */
	uint32_t imm;  /* immediate data as a host-order number of the four network-order bytes */
	uint32_t ieth; /* R_Key to invalidate */
};

/** A decoded packet. */
struct rocemu_packet {
	struct rocemu_hdrs h;
	uint16_t hdr_len;	/* bytes from the BTH to the payload */
	const uint8_t *payload; /* borrowed from the buffer given to decode */
	uint32_t payload_len;	/* without pad and ICRC */
	uint32_t icrc;		/* as received; not checked by decode */
};

/** Why a packet is not taken; 0 is "taken". One list for codes, counters' names and texts. */
/* clang-format off */
#define ROCEMU_DROPS(X)                                                        \
	X(NONE,        "taken")                                                \
	X(SHORT,       "truncated")                                            \
	X(OPCODE,      "unknown opcode")                                       \
	X(TVER,        "transport header version not 0")                      \
	X(PAD,         "pad count larger than the payload, or on an opcode without payload") \
	X(LENGTH,      "payload longer than any path MTU, or on an opcode without payload") \
	X(ICRC,        "ICRC mismatch")                                        \
	X(QPN,         "no such queue pair")                                   \
	X(SERVICE,     "opcode of another transport service than the queue pair's") \
	X(STATE,       "queue pair not in a state that receives")              \
	X(PKEY,        "P_Key mismatch")                                       \
	X(QKEY,        "Q_Key mismatch")                                       \
	X(SOURCE,      "source or destination address is not the connection's") \
	X(PSN,         "PSN that is not expected and not a duplicate")                 \
	X(SEQUENCE,    "opcode out of order within a message")                 \
	X(NO_RECV,     "no receive posted")                                    \
	X(TOO_LONG,    "message longer than the receive buffer")               \
	X(ACCESS,      "remote key, bounds or rights")                         \
	X(GHOST,       "response to nothing outstanding")                      \
	X(XRC_SRQ,     "SRQ number unknown or of another XRC domain")          \
	X(STALE_ATOMIC,"duplicate atomic no longer in the replay cache")       \
	X(STALE_READ,  "duplicate READ that is no part of one in the replay cache") \
	X(PORT,        "from another source port than the peer's, and not what is due") \
	X(SWEEP,       "would end the connection during a sweep of PSNs") \
	X(CNP,         "congestion notification (counted, not an error)")
/* clang-format on */

enum rocemu_drop {
#define X(name, text) ROCEMU_DROP_##name,
	ROCEMU_DROPS(X)
#undef X
		ROCEMU_DROP_COUNT
};

/** The text of a drop reason, static; "unknown" for numbers outside the enumeration. */
ROCEMU_PUBLIC const char *rocemu_drop_text(enum rocemu_drop why);

/** Extension headers of an opcode: ROCEMU_HDR_* bits. 0 for unknown opcodes (and those with none).
 */
ROCEMU_PUBLIC uint32_t rocemu_opcode_hdrs(uint8_t opcode);
/** Properties of an opcode: ROCEMU_OP_* bits. 0 for unknown opcodes. */
ROCEMU_PUBLIC uint32_t rocemu_opcode_ops(uint8_t opcode);
/** Bytes of BTH and extension headers of an opcode; 0 for unknown opcodes. */
ROCEMU_PUBLIC size_t rocemu_opcode_hdr_len(uint8_t opcode);
/** "RC_SEND_FIRST" and so on, static; "UNKNOWN" for unknown opcodes. */
ROCEMU_PUBLIC const char *rocemu_opcode_name(uint8_t opcode);
/** The transport service an opcode belongs to (its upper three bits). */
static inline enum rocemu_service rocemu_opcode_service(uint8_t opcode)
{
	return (enum rocemu_service)(opcode >> 5);
}

/**
 * Decode the packet in buf[0..len), which reaches from the BTH to the ICRC inclusive.
 *
 * Any bytes are safe. On success *p is filled and p->payload points into buf. Checks the format
 * only: lengths, known opcode, transport version, pad; not the ICRC, and nothing that needs state.
 *
 * @return ROCEMU_DROP_NONE, or the reason (SHORT, OPCODE, TVER, PAD, LENGTH): then p->h holds the
 * part of the BTH that was present (all zero when shorter than a BTH) and the rest is unset.
 */
ROCEMU_PUBLIC enum rocemu_drop rocemu_packet_decode(struct rocemu_packet *p, const uint8_t *buf,
						    size_t len);

/**
 * Write BTH and the extension headers of h->opcode to buf, which has room for ROCEMU_MAX_HDR_LEN
 * bytes. Fields wider than their place are cut to it.
 *
 * @return bytes written, 0 for an unknown opcode.
 */
ROCEMU_PUBLIC size_t rocemu_hdrs_encode(const struct rocemu_hdrs *h, uint8_t *buf);

/**
 * What the ICRC covers of the headers below the BTH (IBTA annex A17.3.3), without the fields that
 * count as ones (TOS/TTL/checksums, traffic class, flow label, hop limit).
 */
struct rocemu_icrc_ctx {
	struct rocemu_gid src, dst; /* both IPv4-mapped: an IPv4 header; else an IPv6 header */
	uint16_t sport, dport;	    /* UDP ports, host order */
	uint16_t ip_id;		    /* IPv4 identification; not used for IPv6 */
	uint16_t ip_frag; /* IPv4 flags and fragment offset as one word: 0x4000 is "don't fragment"
			   */
};

/**
 * ICRC of a packet given in pieces: hdr (starts with the BTH, hdr_len >= 12), then iov[0..niov),
 * then trailer (pad bytes). The ICRC itself is not among them, but its 4 bytes count in the UDP and
 * IP lengths.
 *
 * @return the value; it goes on the wire least significant byte first.
 */
ROCEMU_PUBLIC uint32_t rocemu_icrc(const struct rocemu_icrc_ctx *c, const uint8_t *hdr,
				   size_t hdr_len, const struct iovec *iov, unsigned niov,
				   const uint8_t *trailer, size_t trailer_len);

/**
 * Check the ICRC of a received packet, buf[0..len) from the BTH to the ICRC inclusive, len >= 16.
 *
 * With ip_id_known, or IPv6, it is a full 32-bit check against c->ip_id. Else c->ip_id is only a
 * guess: a UDP socket does not show the identification of what it receives, so when the guess does
 * not fit, the identification that would make it fit is solved for (the CRC is linear); a corrupted
 * packet then passes with a chance of 2^-16.
 *
 * @return the identification with which the ICRC fits (0 for IPv6), or -1: no such.
 */
ROCEMU_PUBLIC int32_t rocemu_icrc_check(const struct rocemu_icrc_ctx *c, bool ip_id_known,
					const uint8_t *buf, size_t len);

static inline bool rocemu_gid_equal(const struct rocemu_gid *a, const struct rocemu_gid *b)
{
	return !memcmp(a->raw, b->raw, sizeof(a->raw));
}

/** True for ::ffff:a.b.c.d. */
ROCEMU_PUBLIC bool rocemu_gid_is_ipv4(const struct rocemu_gid *g);

/** True for a multicast group's address: 224.0.0.0/4 as ::ffff:a.b.c.d, or ff00::/8. */
ROCEMU_PUBLIC bool rocemu_gid_is_multicast(const struct rocemu_gid *g);

/**
 * The address that packets to a GID have on the network. It is the GID, except for groups of
 * interface-local scope (ff01::/16, ff11::/16, ...): IPv6 hosts do not send such packets to a link,
 * and drop those that come from one (RFC 4291 2.7, erratum 3480), but adapters send and take
 * them. They travel to the group of link-local scope with the reserved flag: those to ff01::5 to
 * ff82::5.
 */
ROCEMU_PUBLIC struct rocemu_gid rocemu_gid_on_wire(const struct rocemu_gid *g);

/** RNR timer code (5 bits) to nanoseconds (IBTA 9.7.5.2.8, table 46): 0 is 655.36 ms, 1 is 10 us.
 */
ROCEMU_PUBLIC uint64_t rocemu_rnr_timer_ns(uint8_t code);
/** Local ACK timeout (5 bits) to nanoseconds: 4.096 us * 2^code; 0 for code 0 (never). */
ROCEMU_PUBLIC uint64_t rocemu_ack_timeout_ns(uint8_t code);

/** a - b of two 24-bit PSNs as a signed distance, -2^23 .. 2^23-1. */
static inline int32_t rocemu_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#ifdef __cplusplus
}
#endif

#endif
