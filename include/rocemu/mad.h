/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams: the GRH that stands before each UD receive, and the common MAD header. What
 * the MADs of communication management contain is in cm.h. Stateless, no allocation, no I/O; safe
 * on any bytes.
 *
 * Sources: IBTA vol. 1, 8.3 (GRH), 13.4.2 and 13.4.3 (MAD), annex A17.4.5 (GRH of RoCEv2).
 */
#ifndef ROCEMU_MAD_H
#define ROCEMU_MAD_H

#include <rocemu/wire.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	ROCEMU_GRH_LEN = 40,
	ROCEMU_MAD_LEN = 256,
	ROCEMU_MAD_HDR_LEN = 24,
	ROCEMU_MAD_DATA_LEN = ROCEMU_MAD_LEN - ROCEMU_MAD_HDR_LEN,
	ROCEMU_GSI_QPN = 1, /* the QP of general services, and so of communication management */
};

#define ROCEMU_GSI_QKEY 0x80010000u /* its well-known Q_Key */

/**
 * The network header before the payload of a UD receive, host byte order.
 *
 * IP version 6: a GRH, which has the form of an IPv6 header. IP version 4: the IPv4 header of a
 * RoCEv2 packet, which takes the last 20 of the 40 bytes; what is in the first 20 is not defined.
 */
struct rocemu_grh {
	uint8_t ipver;	     /* 4 or 6 */
	uint8_t tclass;	     /* traffic class, TOS */
	uint32_t flow_label; /* 20 bits; IPv6 only */
	uint16_t paylen;     /* bytes after this header */
	uint8_t nxthdr;	     /* 0x1b InfiniBand, 17 UDP; always UDP in IPv4 */
	uint8_t hop_limit;   /* or TTL */
	struct rocemu_gid sgid, dgid;
	uint16_t ip_id;	  /* IPv4 only: identification */
	uint16_t ip_frag; /* IPv4 only: flags and fragment offset, 0x4000 is "don't fragment" */
};

/**
 * Write a GRH: for ipver 4 twenty zeros and an IPv4 header with its checksum, else an IPv6 header
 * (its version is ipver, cut to four bits). flow_label is cut to 20 bits. For ipver 4 nxthdr is not
 * used, of the GIDs the last four bytes are, and paylen is at most 65515 (more is cut to that: the
 * total length has 16 bits).
 */
ROCEMU_PUBLIC void rocemu_grh_encode(const struct rocemu_grh *g, uint8_t buf[ROCEMU_GRH_LEN]);

/**
 * Read a GRH. As the first 20 bytes may hold anything before an IPv4 header, that is looked for
 * first: an unfragmented UDP packet without options whose header checksum is right. Everything else
 * whose version is 6 is an IPv6 header.
 *
 * @return true: *g is filled; false: no such header, *g is unset.
 */
ROCEMU_PUBLIC bool rocemu_grh_decode(struct rocemu_grh *g, const uint8_t buf[ROCEMU_GRH_LEN]);

/** Why a MAD is not taken; 0 is "taken". */
/* clang-format off */
#define ROCEMU_MAD_VERDICTS(X)                                                 \
	X(OK,            "taken")                                              \
	X(LENGTH,        "wrong length")                                       \
	X(BASE_VERSION,  "MAD base version not 1")                             \
	X(CLASS,         "another management class")                           \
	X(CLASS_VERSION, "unknown version of the management class")            \
	X(METHOD,        "method not of a message of this class")              \
	X(ATTRIBUTE,     "attribute ID not of a message of this class")        \
	X(FIELD,         "a field's value is outside of what is defined")
/* clang-format on */

enum rocemu_mad_verdict {
#define X(name, text) ROCEMU_MAD_##name,
	ROCEMU_MAD_VERDICTS(X)
#undef X
		ROCEMU_MAD_VERDICT_COUNT
};

/** The text of a verdict, static; "unknown" for numbers outside the enumeration. */
ROCEMU_PUBLIC const char *rocemu_mad_verdict_text(enum rocemu_mad_verdict v);

/** The common MAD header, host byte order (IBTA 13.4.3). Its 16 reserved bits are sent as zero and
 *  not read. */
struct rocemu_mad {
	uint8_t base_version; /* 1 */
	uint8_t mgmt_class;
	uint8_t class_version;
	uint8_t method; /* with the response bit, 0x80 */
	uint16_t status;
	uint16_t class_specific;
	uint64_t tid; /* transaction ID */
	uint16_t attr_id;
	uint32_t attr_mod;
	const uint8_t *data; /* the ROCEMU_MAD_DATA_LEN bytes after the header; decode only:
				borrowed from its buf */
};

/**
 * Read the header of the MAD in buf[0..len), the payload of a UD packet.
 *
 * @return ROCEMU_MAD_OK; LENGTH: len is not 256, *m is unset; BASE_VERSION: *m is filled, but only
 * its base_version has a meaning.
 */
ROCEMU_PUBLIC enum rocemu_mad_verdict rocemu_mad_decode(struct rocemu_mad *m, const uint8_t *buf,
							size_t len);

/** Write a MAD header to buf; m->data is not looked at. */
ROCEMU_PUBLIC void rocemu_mad_encode(const struct rocemu_mad *m, uint8_t buf[ROCEMU_MAD_HDR_LEN]);

#ifdef __cplusplus
}
#endif

#endif
