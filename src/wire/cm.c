/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encode and decode of communication management messages (IBTA vol. 1, chapter 12).
 *
 * Each message's layout is one table here, in the standard's form: where a field's first bit is and
 * how many it has. Reader and writer use the same table, so they cannot differ. A bit that is in no
 * table is reserved: written as zero, never read.
 */
#include <stddef.h>
#include <string.h>

#include <rocemu/cm.h>

#include "base/util.h"

struct field {
	uint8_t byte;  /* in the MAD */
	uint8_t bit;   /* of that byte, 0 is the most significant */
	uint8_t bits;  /* 0: bytes, as they are */
	uint8_t shift; /* this is a part of the member, from this bit of its value on */
	uint8_t size;  /* bytes of the member */
	uint8_t max;   /* largest value allowed; 0: all that fit into bits */
	uint16_t host; /* offset of the member in its message's struct */
};

enum { MAD_ATTR_MOD = 20 };

/* clang-format off */
#define AT(msg, member)                                                                 \
	.size = (uint8_t)sizeof(((const struct rocemu_cm_##msg *)NULL)->member),        \
	.host = (uint16_t)offsetof(struct rocemu_cm_##msg, member)
/* As the standard's tables count: from the byte after the common header on. */
#define BYTE(byte_)                                                                     \
	.byte = ROCEMU_MAD_HDR_LEN + (byte_)
#define BITS(msg, member, byte_, bit_, bits_)                                           \
	{BYTE(byte_), .bit = (bit_), .bits = (bits_), AT(msg, member)}
#define PART(msg, member, byte_, bit_, bits_, shift_)                                   \
	{BYTE(byte_), .bit = (bit_), .bits = (bits_), .shift = (shift_), AT(msg, member)}
#define UPTO(msg, member, byte_, bit_, bits_, max_)                                     \
	{BYTE(byte_), .bit = (bit_), .bits = (bits_), .max = (max_), AT(msg, member)}
#define BYTES(msg, member, byte_)                                                       \
	{BYTE(byte_), AT(msg, member)}
/* A member that is in the common header. */
#define ATTR_MOD(msg, member)                                                           \
	{.byte = MAD_ATTR_MOD, .bit = 0, .bits = 32, AT(msg, member)}

/* A path in a REQ's format, 44 bytes from byte b on. */
#define REQ_PATH(path, b)                                 \
	BITS(req, path.local_lid,    (b) + 0,  0, 16),    \
	BITS(req, path.remote_lid,   (b) + 2,  0, 16),    \
	BYTES(req, path.local_gid,   (b) + 4),            \
	BYTES(req, path.remote_gid,  (b) + 20),           \
	BITS(req, path.flow_label,   (b) + 36, 0, 20),    \
	BITS(req, path.packet_rate,  (b) + 39, 2, 6),     \
	BITS(req, path.tclass,       (b) + 40, 0, 8),     \
	BITS(req, path.hop_limit,    (b) + 41, 0, 8),     \
	BITS(req, path.sl,           (b) + 42, 0, 4),     \
	BITS(req, path.subnet_local, (b) + 42, 4, 1),     \
	BITS(req, path.ack_timeout,  (b) + 43, 0, 5)

static const struct field req_fields[] = { /* table 106 */
	ATTR_MOD(req, ece.options),
	BITS(req, local_comm_id,       0,   0, 32),
	BITS(req, ece.vendor_id,       5,   0, 24),
	BITS(req, service_id,          8,   0, 64),
	BITS(req, local_ca_guid,       16,  0, 64),
	BITS(req, local_qkey,          28,  0, 32),
	BITS(req, local_qpn,           32,  0, 24),
	BITS(req, responder_resources, 35,  0, 8),
	BITS(req, local_eecn,          36,  0, 24),
	BITS(req, initiator_depth,     39,  0, 8),
	BITS(req, remote_eecn,         40,  0, 24),
	BITS(req, remote_cm_timeout,   43,  0, 5),
	BITS(req, transport,           43,  5, 2),
	BITS(req, flow_control,        43,  7, 1),
	BITS(req, starting_psn,        44,  0, 24),
	BITS(req, local_cm_timeout,    47,  0, 5),
	BITS(req, retry_count,         47,  5, 3),
	BITS(req, pkey,                48,  0, 16),
	BITS(req, path_mtu,            50,  0, 4),
	BITS(req, rdc_exists,          50,  4, 1),
	BITS(req, rnr_retry_count,     50,  5, 3),
	BITS(req, max_cm_retries,      51,  0, 4),
	BITS(req, srq,                 51,  4, 1),
	BITS(req, extended_transport,  51,  5, 3),
	REQ_PATH(primary,   52),
	REQ_PATH(alternate, 96),
	BITS(req, sap_supported,       139, 5, 1),
	BYTES(req, private_data,       140),
};

static const struct field mra_fields[] = { /* table 107 */
	BITS(mra, local_comm_id,       0,   0, 32),
	BITS(mra, remote_comm_id,      4,   0, 32),
	BITS(mra, answered,            8,   0, 2),
	BITS(mra, service_timeout,     9,   0, 5),
	BYTES(mra, private_data,       10),
};

static const struct field rej_fields[] = { /* table 108 */
	BITS(rej, local_comm_id,       0,   0, 32),
	BITS(rej, remote_comm_id,      4,   0, 32),
	BITS(rej, answered,            8,   0, 2),
	UPTO(rej, ari_len,             9,   0, 7, ROCEMU_CM_INFO_LEN),
	BITS(rej, reason,              10,  0, 16),
	BYTES(rej, ari,                12),
	BYTES(rej, private_data,       84),
};

/*
 * The vendor ID was added to the standard late: its bytes are spread over the fields that were
 * left.
 */
static const struct field rep_fields[] = { /* table 110 */
	ATTR_MOD(rep, ece.options),
	BITS(rep, local_comm_id,       0,   0, 32),
	BITS(rep, remote_comm_id,      4,   0, 32),
	BITS(rep, local_qkey,          8,   0, 32),
	BITS(rep, local_qpn,           12,  0, 24),
	PART(rep, ece.vendor_id,       15,  0, 8, 16),
	BITS(rep, local_eecn,          16,  0, 24),
	PART(rep, ece.vendor_id,       19,  0, 8, 8),
	BITS(rep, starting_psn,        20,  0, 24),
	PART(rep, ece.vendor_id,       23,  0, 8, 0),
	BITS(rep, responder_resources, 24,  0, 8),
	BITS(rep, initiator_depth,     25,  0, 8),
	BITS(rep, target_ack_delay,    26,  0, 5),
	BITS(rep, failover_accepted,   26,  5, 2),
	BITS(rep, flow_control,        26,  7, 1),
	BITS(rep, rnr_retry_count,     27,  0, 3),
	BITS(rep, srq,                 27,  3, 1),
	BITS(rep, local_ca_guid,       28,  0, 64),
	BYTES(rep, private_data,       36),
};

static const struct field rtu_fields[] = { /* table 111 */
	BITS(rtu, local_comm_id,       0,   0, 32),
	BITS(rtu, remote_comm_id,      4,   0, 32),
	BYTES(rtu, private_data,       8),
};

static const struct field dreq_fields[] = { /* table 112 */
	BITS(dreq, local_comm_id,      0,   0, 32),
	BITS(dreq, remote_comm_id,     4,   0, 32),
	BITS(dreq, remote_qpn,         8,   0, 24),
	BYTES(dreq, private_data,      12),
};

static const struct field drep_fields[] = { /* table 113 */
	BITS(drep, local_comm_id,      0,   0, 32),
	BITS(drep, remote_comm_id,     4,   0, 32),
	BYTES(drep, private_data,      8),
};

static const struct field sidr_req_fields[] = { /* table 119 */
	BITS(sidr_req, request_id,     0,   0, 32),
	BITS(sidr_req, pkey,           4,   0, 16),
	BITS(sidr_req, service_id,     8,   0, 64),
	BYTES(sidr_req, private_data,  16),
};

static const struct field sidr_rep_fields[] = { /* table 120 */
	ATTR_MOD(sidr_rep, ece.options),
	BITS(sidr_rep, request_id,     0,   0, 32),
	BITS(sidr_rep, status,         4,   0, 8),
	UPTO(sidr_rep, info_len,       5,   0, 8, ROCEMU_CM_INFO_LEN),
	PART(sidr_rep, ece.vendor_id,  6,   0, 16, 8),
	BITS(sidr_rep, qpn,            8,   0, 24),
	PART(sidr_rep, ece.vendor_id,  11,  0, 8, 0),
	BITS(sidr_rep, service_id,     12,  0, 64),
	BITS(sidr_rep, qkey,           20,  0, 32),
	BYTES(sidr_rep, info,          24),
	BYTES(sidr_rep, private_data,  96),
};

/* Unlike in a REQ, the traffic class follows the flow label and the packet rate the hop limit. */
static const struct field lap_fields[] = { /* table 115 */
	BITS(lap, local_comm_id,          0,   0, 32),
	BITS(lap, remote_comm_id,         4,   0, 32),
	BITS(lap, remote_qpn,             12,  0, 24),
	BITS(lap, remote_cm_timeout,      15,  0, 5),
	BITS(lap, alternate.local_lid,    20,  0, 16),
	BITS(lap, alternate.remote_lid,   22,  0, 16),
	BYTES(lap, alternate.local_gid,   24),
	BYTES(lap, alternate.remote_gid,  40),
	BITS(lap, alternate.flow_label,   56,  0, 20),
	BITS(lap, alternate.tclass,       59,  0, 8),
	BITS(lap, alternate.hop_limit,    60,  0, 8),
	BITS(lap, alternate.packet_rate,  61,  2, 6),
	BITS(lap, alternate.sl,           62,  0, 4),
	BITS(lap, alternate.subnet_local, 62,  4, 1),
	BITS(lap, alternate.ack_timeout,  63,  0, 5),
	BYTES(lap, private_data,          64),
};

static const struct field apr_fields[] = { /* table 116 */
	BITS(apr, local_comm_id,       0,   0, 32),
	BITS(apr, remote_comm_id,      4,   0, 32),
	UPTO(apr, info_len,            8,   0, 8, ROCEMU_CM_INFO_LEN),
	BITS(apr, status,              9,   0, 8),
	BYTES(apr, info,               12),
	BYTES(apr, private_data,       84),
};
/* clang-format on */

static const struct layout {
	const struct field *fields;
	size_t count;
} layouts[] = {
#define X(name, id, member, len) \
	[(id)-ROCEMU_CM_REQ] = {member##_fields, ARRAY_LEN(member##_fields)},
	ROCEMU_CM_MESSAGES(X)
#undef X
};

static const struct layout *layout_find(uint16_t attr_id)
{
	unsigned i = (unsigned)attr_id - ROCEMU_CM_REQ; /* below the first: huge */

	return i < ARRAY_LEN(layouts) ? &layouts[i] : NULL;
}

/* ---- a number on the wire; it reaches over at most eight bytes ---- */

static unsigned last_bit(const struct field *f)
{
	return (unsigned)f->bit + f->bits - 1;
}

static uint64_t wire_get(const struct field *f, const uint8_t *mad)
{
	const uint8_t *p = mad + f->byte, *end = p + last_bit(f) / 8;
	uint64_t v = 0;

	for (; p <= end; p++)
		v = v << 8 | *p;
	return v >> (7 - last_bit(f) % 8) & UINT64_MAX >> (64 - f->bits);
}

/* The place is zero, or holds other fields of the same byte. */
static void wire_put(const struct field *f, uint8_t *mad, uint64_t v)
{
	uint8_t *first = mad + f->byte, *p = first + last_bit(f) / 8;

	v = (v & UINT64_MAX >> (64 - f->bits)) << (7 - last_bit(f) % 8);
	for (; p >= first; p--, v >>= 8)
		*p |= (uint8_t)v;
}

/* ---- a number in a struct: any unsigned type, or bool ---- */

static uint64_t host_get(const struct field *f, const uint8_t *msg)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (f->size) {
	case 1:
		return msg[f->host];
	case 2:
		memcpy(&v16, msg + f->host, sizeof(v16));
		return v16;
	case 4:
		memcpy(&v32, msg + f->host, sizeof(v32));
		return v32;
	default:
		memcpy(&v64, msg + f->host, sizeof(v64));
		return v64;
	}
}

static void host_put(const struct field *f, uint8_t *msg, uint64_t v)
{
	uint16_t v16 = (uint16_t)v;
	uint32_t v32 = (uint32_t)v;

	switch (f->size) {
	case 1:
		msg[f->host] = (uint8_t)v;
		return;
	case 2:
		memcpy(msg + f->host, &v16, sizeof(v16));
		return;
	case 4:
		memcpy(msg + f->host, &v32, sizeof(v32));
		return;
	default:
		memcpy(msg + f->host, &v, sizeof(v));
		return;
	}
}

/* ---- messages ---- */

/* All members of the union begin where it does. */
enum { UNION = offsetof(struct rocemu_cm_msg, req) };

enum rocemu_mad_verdict rocemu_cm_decode(struct rocemu_cm_msg *m, const uint8_t *buf, size_t len)
{
	const struct layout *layout;
	struct rocemu_mad mad;
	enum rocemu_mad_verdict v = rocemu_mad_decode(&mad, buf, len);
	uint8_t *msg = (uint8_t *)m + UNION;
	uint64_t value;

	if (v != ROCEMU_MAD_OK)
		return v;
	if (mad.mgmt_class != ROCEMU_CM_CLASS)
		return ROCEMU_MAD_CLASS;
	if (mad.class_version != ROCEMU_CM_CLASS_VERSION)
		return ROCEMU_MAD_CLASS_VERSION;
	if (mad.method != ROCEMU_CM_METHOD_SEND)
		return ROCEMU_MAD_METHOD;
	layout = layout_find(mad.attr_id);
	if (layout == NULL)
		return ROCEMU_MAD_ATTRIBUTE;

	memset(m, 0, sizeof(*m));
	m->attr_id = mad.attr_id;
	m->tid = mad.tid;
	for (const struct field *f = layout->fields; f < layout->fields + layout->count; f++) {
		if (f->bits == 0) {
			memcpy(msg + f->host, buf + f->byte, f->size);
			continue;
		}
		value = wire_get(f, buf);
		if (f->max != 0 && value > f->max)
			return ROCEMU_MAD_FIELD;
		host_put(f, msg, host_get(f, msg) | value << f->shift);
	}
	return ROCEMU_MAD_OK;
}

size_t rocemu_cm_encode(const struct rocemu_cm_msg *m, uint8_t buf[ROCEMU_MAD_LEN])
{
	const struct layout *layout = layout_find(m->attr_id);
	const uint8_t *msg = (const uint8_t *)m + UNION;
	const struct rocemu_mad mad = {
		.base_version = 1,
		.mgmt_class = ROCEMU_CM_CLASS,
		.class_version = ROCEMU_CM_CLASS_VERSION,
		.method = ROCEMU_CM_METHOD_SEND,
		.tid = m->tid,
		.attr_id = m->attr_id,
	};
	uint64_t value;

	if (layout == NULL)
		return 0;
	memset(buf + ROCEMU_MAD_HDR_LEN, 0, ROCEMU_MAD_DATA_LEN);
	rocemu_mad_encode(&mad, buf);
	for (const struct field *f = layout->fields; f < layout->fields + layout->count; f++) {
		if (f->bits == 0) {
			memcpy(buf + f->byte, msg + f->host, f->size);
			continue;
		}
		value = host_get(f, msg) >> f->shift;
		wire_put(f, buf, f->max != 0 ? MIN(value, f->max) : value);
	}
	return ROCEMU_MAD_LEN;
}
