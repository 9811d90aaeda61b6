/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encodes and decodes the messages of communication management, by which two sides exchange QP
 * numbers, PSNs and paths before they connect (REQ, REP, RTU ...) and look up a UD service (SIDR).
 * When to send which message is not decided here. Stateless, no allocation, no I/O; safe on any
 * bytes.
 *
 * Sources: IBTA vol. 1, chapter 12 (messages), annex A11 (RDMA IP CM service: service IDs, private
 * data header).
 */
#ifndef ROCEMU_CM_H
#define ROCEMU_CM_H

#include <rocemu/mad.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	ROCEMU_CM_CLASS = 0x07, /* management class */
	ROCEMU_CM_CLASS_VERSION = 2,
	ROCEMU_CM_METHOD_SEND = 0x03, /* of every message, answers too */
	ROCEMU_CM_INFO_LEN = 72,      /* additional information of REJ, APR and SIDR_REP, at most */
};

/** The messages: name, attribute ID, member of the union in struct rocemu_cm_msg, bytes of private
 * data. */
/* clang-format off */
#define ROCEMU_CM_MESSAGES(X)                                                  \
	X(REQ,      0x0010, req,      92)  /* request for communication */     \
	X(MRA,      0x0011, mra,      222) /* message receipt acknowledged */  \
	X(REJ,      0x0012, rej,      148) /* reject */                        \
	X(REP,      0x0013, rep,      196) /* reply */                         \
	X(RTU,      0x0014, rtu,      224) /* ready to use */                  \
	X(DREQ,     0x0015, dreq,     220) /* disconnect request */            \
	X(DREP,     0x0016, drep,     224) /* disconnect reply */              \
	X(SIDR_REQ, 0x0017, sidr_req, 216) /* service ID resolution request */ \
	X(SIDR_REP, 0x0018, sidr_rep, 136) /* and its reply */                 \
	X(LAP,      0x0019, lap,      168) /* load alternate path */           \
	X(APR,      0x001a, apr,      148) /* alternate path response */
/* clang-format on */

enum rocemu_cm_attr {
#define X(name, id, member, len) ROCEMU_CM_##name = id,
	ROCEMU_CM_MESSAGES(X)
#undef X
};

enum {
#define X(name, id, member, len) ROCEMU_CM_##name##_PRIVATE_LEN = len,
	ROCEMU_CM_MESSAGES(X)
#undef X
};

/** "REQ" and so on, static; NULL for an attribute ID that no message has. */
ROCEMU_PUBLIC const char *rocemu_cm_name(uint16_t attr_id);

/** Reasons of a REJ (IBTA 12.6.7.2, table 109). */
/* clang-format off */
#define ROCEMU_CM_REJ_REASONS(X)                                               \
	X(NO_QP,               1,  "no QP available")                          \
	X(NO_EEC,              2,  "no EE context available")                  \
	X(NO_RESOURCES,        3,  "no resources available")                   \
	X(TIMEOUT,             4,  "timeout")                                  \
	X(UNSUPPORTED,         5,  "unsupported request")                      \
	X(COMM_ID,             6,  "invalid communication ID")                 \
	X(COMM_INSTANCE,       7,  "invalid communication instance")           \
	X(SERVICE_ID,          8,  "invalid service ID")                       \
	X(TRANSPORT,           9,  "invalid transport service type")           \
	X(STALE,               10, "stale connection")                         \
	X(NO_RDC,              11, "reliable datagram channel does not exist") \
	X(PRIMARY_GID,         12, "primary remote port GID rejected")         \
	X(PRIMARY_LID,         13, "primary remote port LID rejected")         \
	X(PRIMARY_SL,          14, "invalid primary SL")                       \
	X(PRIMARY_TCLASS,      15, "invalid primary traffic class")            \
	X(PRIMARY_HOP_LIMIT,   16, "invalid primary hop limit")                \
	X(PRIMARY_RATE,        17, "invalid primary packet rate")              \
	X(ALTERNATE_GID,       18, "alternate remote port GID rejected")       \
	X(ALTERNATE_LID,       19, "alternate remote port LID rejected")       \
	X(ALTERNATE_SL,        20, "invalid alternate SL")                     \
	X(ALTERNATE_TCLASS,    21, "invalid alternate traffic class")          \
	X(ALTERNATE_HOP_LIMIT, 22, "invalid alternate hop limit")              \
	X(ALTERNATE_RATE,      23, "invalid alternate packet rate")            \
	X(CM_REDIRECT,         24, "port and CM redirection")                  \
	X(REDIRECT,            25, "port redirection")                         \
	X(MTU,                 26, "invalid path MTU")                         \
	X(RESPONDER_RESOURCES, 27, "insufficient responder resources")         \
	X(CONSUMER,            28, "rejected by the consumer")                 \
	X(RNR_RETRY,           29, "RNR retry count rejected")                 \
	X(DUPLICATE_COMM_ID,   30, "duplicate local communication ID")         \
	X(CLASS_VERSION,       31, "unsupported class version")                \
	X(PRIMARY_FLOW_LABEL,  32, "invalid primary flow label")               \
	X(ALTERNATE_FLOW_LABEL, 33, "invalid alternate flow label")            \
	X(VENDOR_OPTION,       35, "vendor option not supported")
/* clang-format on */

enum rocemu_cm_rej_reason {
#define X(name, value, text) ROCEMU_CM_REJ_##name = value,
	ROCEMU_CM_REJ_REASONS(X)
#undef X
};

/** The text of a reject reason, static; "unknown reason" for others. */
ROCEMU_PUBLIC const char *rocemu_cm_rej_text(uint16_t reason);

/** Status of a SIDR_REP (IBTA 12.11.1.2). */
/* clang-format off */
#define ROCEMU_CM_SIDR_STATUSES(X)                                             \
	X(VALID,       0, "valid QPN")                                         \
	X(SERVICE_ID,  1, "service ID not supported")                          \
	X(REJECTED,    2, "rejected by the service provider")                  \
	X(NO_QP,       3, "no QP available")                                   \
	X(REDIRECT,    4, "request redirected")                                \
	X(VERSION,     5, "version not supported")
/* clang-format on */

enum rocemu_cm_sidr_status {
#define X(name, value, text) ROCEMU_CM_SIDR_##name = value,
	ROCEMU_CM_SIDR_STATUSES(X)
#undef X
};

/** The text of a SIDR_REP status, static; "unknown status" for others. */
ROCEMU_PUBLIC const char *rocemu_cm_sidr_text(uint8_t status);

/** Status of an APR (IBTA 12.8.2). */
/* clang-format off */
#define ROCEMU_CM_APR_STATUSES(X)                                              \
	X(LOADED,       0,  "alternate path loaded")                           \
	X(COMM_ID,      1,  "invalid communication ID")                        \
	X(UNSUPPORTED,  2,  "alternate paths not supported")                   \
	X(REJECTED,     3,  "failover port rejected")                          \
	X(REDIRECT,     4,  "failover port redirected")                        \
	X(CURRENT,      5,  "proposed path is the current one")                \
	X(QPN_EECN,     6,  "QPN or EECN and communication ID do not match")   \
	X(LID,          7,  "proposed remote LID rejected")                    \
	X(GID,          8,  "proposed remote GID rejected")                    \
	X(FLOW_LABEL,   9,  "proposed flow label rejected")                    \
	X(TCLASS,       10, "proposed traffic class rejected")                 \
	X(HOP_LIMIT,    11, "proposed hop limit rejected")                     \
	X(RATE,         12, "proposed packet rate rejected")                   \
	X(SL,           13, "proposed SL rejected")
/* clang-format on */

enum rocemu_cm_apr_status {
#define X(name, value, text) ROCEMU_CM_APR_##name = value,
	ROCEMU_CM_APR_STATUSES(X)
#undef X
};

/** The text of an APR status, static; "unknown status" for others. */
ROCEMU_PUBLIC const char *rocemu_cm_apr_text(uint8_t status);

/** REQ: transport service type. 3: given by the extended transport type (1 is XRC). */
enum rocemu_cm_transport {
	ROCEMU_CM_RC = 0,
	ROCEMU_CM_UC = 1,
	ROCEMU_CM_RD = 2,
	ROCEMU_CM_EXTENDED = 3,
};

enum { ROCEMU_CM_EXTENDED_XRC = 1 };

/** MRA, REJ: the message that is answered. MRA: 2 is LAP; REJ: 2 is any other, or none (a timeout).
 */
enum rocemu_cm_answered {
	ROCEMU_CM_TO_REQ = 0,
	ROCEMU_CM_TO_REP = 1,
	ROCEMU_CM_TO_OTHER = 2,
};

/*
 * The messages, fields in host byte order in the order of the wire (except the paths of REQ and
 * LAP). Comments give the width of what is narrower than its type. Response and service timeouts
 * are 4.096 us * 2^value; reserved bits are sent as zero and not read.
 */

/** A path, as its local side sees it. On RoCEv2 the LIDs are 0xffff, and SL and flow label may be
 * zero. */
struct rocemu_cm_path {
	uint16_t local_lid, remote_lid;
	struct rocemu_gid local_gid, remote_gid;
	uint32_t flow_label; /* 20 bits */
	uint8_t packet_rate; /* 6 bits */
	uint8_t tclass;
	uint8_t hop_limit;
	uint8_t sl; /* 4 bits */
	bool subnet_local;
	uint8_t ack_timeout; /* 5 bits, see rocemu_ack_timeout_ns() */
};

/**
 * Enhanced connection establishment: options of a vendor's adapters beyond the standard. A REQ
 * offers options, the REP answers with those that both sides support. All zero: none, as sent by a
 * side without support.
 */
struct rocemu_cm_ece {
	uint32_t vendor_id; /* 24 bits: whose options; an IEEE OUI */
	uint32_t options;   /* that vendor's; it is the MAD header's attribute modifier */
};

/** IBTA 12.6.5, table 106. */
struct rocemu_cm_req {
	uint32_t local_comm_id;
	struct rocemu_cm_ece ece;
	uint64_t service_id;
	uint64_t local_ca_guid;
	uint32_t local_qkey;
	uint32_t local_qpn; /* 24 bits */
	uint8_t responder_resources;
	uint32_t local_eecn; /* 24 bits */
	uint8_t initiator_depth;
	uint32_t remote_eecn;	   /* 24 bits */
	uint8_t remote_cm_timeout; /* 5 bits: response timeout */
	uint8_t transport;	   /* 2 bits: enum rocemu_cm_transport */
	bool flow_control;	   /* end-to-end */
	uint32_t starting_psn;	  /* 24 bits: of the first request that the receiver of this message
				     sends */
	uint8_t local_cm_timeout; /* 5 bits: response timeout */
	uint8_t retry_count;	  /* 3 bits */
	uint16_t pkey;
	uint8_t path_mtu; /* 4 bits: 1 is 256 bytes, 5 is 4096, as enum ibv_mtu */
	bool rdc_exists;
	uint8_t rnr_retry_count; /* 3 bits */
	uint8_t max_cm_retries;	 /* 4 bits */
	bool srq;
	uint8_t extended_transport; /* 3 bits */
	struct rocemu_cm_path primary;
	struct rocemu_cm_path alternate; /* all zero: none */
	bool sap_supported;		 /* suggested alternate paths */
	uint8_t private_data[ROCEMU_CM_REQ_PRIVATE_LEN];
};

/** IBTA 12.6.6, table 107. */
struct rocemu_cm_mra {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t answered;	 /* 2 bits: enum rocemu_cm_answered */
	uint8_t service_timeout; /* 5 bits */
	uint8_t private_data[ROCEMU_CM_MRA_PRIVATE_LEN];
};

/** IBTA 12.6.7, table 108. */
struct rocemu_cm_rej {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t answered;		 /* 2 bits: enum rocemu_cm_answered */
	uint8_t ari_len;		 /* 0-72: bytes of ari that count */
	uint16_t reason;		 /* enum rocemu_cm_rej_reason */
	uint8_t ari[ROCEMU_CM_INFO_LEN]; /* additional reject information */
	uint8_t private_data[ROCEMU_CM_REJ_PRIVATE_LEN];
};

/** IBTA 12.6.8, table 110. */
struct rocemu_cm_rep {
	uint32_t local_comm_id, remote_comm_id;
	struct rocemu_cm_ece ece;
	uint32_t local_qkey;
	uint32_t local_qpn;    /* 24 bits */
	uint32_t local_eecn;   /* 24 bits */
	uint32_t starting_psn; /* 24 bits: of the first request that the receiver of this message
				  sends */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t target_ack_delay;  /* 5 bits */
	uint8_t failover_accepted; /* 2 bits: 0 accepted, 1 not supported, 2 rejected */
	bool flow_control;	   /* end-to-end */
	uint8_t rnr_retry_count;   /* 3 bits */
	bool srq;
	uint64_t local_ca_guid;
	uint8_t private_data[ROCEMU_CM_REP_PRIVATE_LEN];
};

/** IBTA 12.6.9, table 111. */
struct rocemu_cm_rtu {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[ROCEMU_CM_RTU_PRIVATE_LEN];
};

/** IBTA 12.6.10, table 112. */
struct rocemu_cm_dreq {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn; /* 24 bits: QPN or EECN of the receiver of this message */
	uint8_t private_data[ROCEMU_CM_DREQ_PRIVATE_LEN];
};

/** IBTA 12.6.11, table 113. */
struct rocemu_cm_drep {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[ROCEMU_CM_DREP_PRIVATE_LEN];
};

/** IBTA 12.11.1.1, table 119. */
struct rocemu_cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[ROCEMU_CM_SIDR_REQ_PRIVATE_LEN];
};

/** IBTA 12.11.1.2, table 120. */
struct rocemu_cm_sidr_rep {
	uint32_t request_id;
	uint8_t status;	  /* enum rocemu_cm_sidr_status */
	uint8_t info_len; /* 0-72: bytes of info that count */
	struct rocemu_cm_ece ece;
	uint32_t qpn; /* 24 bits */
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[ROCEMU_CM_INFO_LEN];
	uint8_t private_data[ROCEMU_CM_SIDR_REP_PRIVATE_LEN];
};

/** IBTA 12.8.1, table 115. */
struct rocemu_cm_lap {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn;	   /* 24 bits: QPN or EECN of the receiver of this message */
	uint8_t remote_cm_timeout; /* 5 bits: response timeout */
	struct rocemu_cm_path alternate;
	uint8_t private_data[ROCEMU_CM_LAP_PRIVATE_LEN];
};

/** IBTA 12.8.2, table 116. */
struct rocemu_cm_apr {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t info_len; /* 0-72: bytes of info that count */
	uint8_t status;	  /* enum rocemu_cm_apr_status */
	uint8_t info[ROCEMU_CM_INFO_LEN];
	uint8_t private_data[ROCEMU_CM_APR_PRIVATE_LEN];
};

/** A message with what counts of its MAD header. */
struct rocemu_cm_msg {
	uint16_t attr_id; /* enum rocemu_cm_attr: which member it is */
	uint64_t tid;	  /* transaction ID, from the MAD header */
	union {
#define X(name, id, member, len) struct rocemu_cm_##member member;
		ROCEMU_CM_MESSAGES(X)
#undef X
	};
};

/**
 * Read the message in buf[0..len), the payload of a UD packet to QP 1. All is copied, nothing
 * borrowed.
 *
 * Checks form only: the fields may contradict each other. MAD status and class specific field are
 * not looked at, the attribute modifier only where it is struct rocemu_cm_ece's.
 *
 * @return ROCEMU_MAD_OK, or why it is not taken (LENGTH, BASE_VERSION, CLASS, CLASS_VERSION,
 * METHOD, ATTRIBUTE; FIELD: ari_len or info_len is larger than 72): then *m is unset.
 */
ROCEMU_PUBLIC enum rocemu_mad_verdict rocemu_cm_decode(struct rocemu_cm_msg *m, const uint8_t *buf,
						       size_t len);

/**
 * Write a message, MAD header included. Fields wider than their place are cut to it, ari_len and
 * info_len to 72; of private data and information all bytes are written.
 *
 * @return ROCEMU_MAD_LEN, or 0 when attr_id is not one of enum rocemu_cm_attr: then nothing is
 * written.
 */
ROCEMU_PUBLIC size_t rocemu_cm_encode(const struct rocemu_cm_msg *m, uint8_t buf[ROCEMU_MAD_LEN]);

/**
 * Where IP programs' services are in the space of service IDs: a port space is bits 16-31, the port
 * bits 0-15, the rest is zero. Those from 0x0100 on are annex A11's, with an IP protocol number in
 * the low byte.
 */
/* clang-format off */
#define ROCEMU_PORT_SPACES(X)                                                  \
	X(SDP,   0x0001, "sdp")   /* annex A4 */                               \
	X(IPOIB, 0x0002, "ipoib") /* rdma_cm's, for multicast with IPoIB */    \
	X(TCP,   0x0106, "tcp")                                                \
	X(UDP,   0x0111, "udp")                                                \
	X(SCTP,  0x0184, "sctp")                                               \
	X(IB,    0x013f, "ib")    /* rdma_cm's, any QP type */
/* clang-format on */

enum rocemu_port_space {
#define X(name, value, text) ROCEMU_PS_##name = value,
	ROCEMU_PORT_SPACES(X)
#undef X
};

/** The text of a port space, static; NULL for numbers outside the enumeration. */
ROCEMU_PUBLIC const char *rocemu_port_space_text(uint16_t ps);

/** The service ID of a port. */
static inline uint64_t rocemu_cm_service_id(enum rocemu_port_space ps, uint16_t port)
{
	return (uint64_t)ps << 16 | port;
}

/** Take a service ID apart. @return false: it is in none of the port spaces, *ps and *port are
 * unset. */
ROCEMU_PUBLIC bool rocemu_cm_service_port(uint64_t service_id, enum rocemu_port_space *ps,
					  uint16_t *port);

/** True for the service IDs of annex A11 (0x0000000001......): private data of a REQ or SIDR_REQ to
 * one begins with a struct rocemu_cma. */
ROCEMU_PUBLIC bool rocemu_cm_service_is_ip(uint64_t service_id);

enum { ROCEMU_CMA_LEN = 36 };

/** Header of the private data of a REQ or SIDR_REQ (annex A11): IP addresses behind a connection.
 * The destination port is in the service ID. */
struct rocemu_cma {
	uint8_t ip_version; /* 4 or 6 */
	uint16_t sport;
	struct rocemu_gid src,
		dst; /* IPv4 as ::ffff:a.b.c.d; on the wire it is in the last 4 of 16 bytes */
};

/**
 * Read it from private data buf[0..len).
 *
 * @return ROCEMU_MAD_OK, or: LENGTH less than 36 bytes; FIELD version not 0, or IP version not 4 or
 * 6. Then *c is unset.
 */
ROCEMU_PUBLIC enum rocemu_mad_verdict rocemu_cma_decode(struct rocemu_cma *c, const uint8_t *buf,
							size_t len);

/**
 * Write it. @return ROCEMU_CMA_LEN, or 0 for an ip_version other than 4 or 6: then nothing is
 * written.
 */
ROCEMU_PUBLIC size_t rocemu_cma_encode(const struct rocemu_cma *c, uint8_t buf[ROCEMU_CMA_LEN]);

#ifdef __cplusplus
}
#endif

#endif
