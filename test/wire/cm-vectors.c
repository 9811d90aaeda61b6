/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm-vectors.h"

#include <string.h>

#define TID 0xe1e2e3e4e5e6e7e8u
/* clang-format off */
#define MAD_HDR_MOD(attr, ...)                          \
	0x01, 0x07, 0x02, 0x03, 0, 0, 0, 0,             \
	0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, \
	0, attr, 0, 0, __VA_ARGS__
#define MAD_HDR(attr) MAD_HDR_MOD(attr, 0, 0, 0, 0)
#define ECE .ece = {.vendor_id = 0xf1f2f3, .options = 0xd5d6d7d8}
#define ECE_OPTIONS 0xd5, 0xd6, 0xd7, 0xd8

#define GID(b) {{b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7, \
		 b + 8, b + 9, b + 10, b + 11, b + 12, b + 13, b + 14, b + 15}}
#define GID_BYTES(b) b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7, \
		     b + 8, b + 9, b + 10, b + 11, b + 12, b + 13, b + 14, b + 15
#define COMM_IDS .local_comm_id = 0x01020304, .remote_comm_id = 0x05060708
#define COMM_IDS_BYTES 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08

/* Private data and information are filled in below. */
static struct cm_vector vectors[CM_VECTORS] = {
	{
		.msg = {.attr_id = ROCEMU_CM_REQ, .tid = TID, .req = {
			.local_comm_id = 0x01020304, ECE, .service_id = 0x1112131415161718,
			.local_ca_guid = 0x2122232425262728, .local_qkey = 0x31323334,
			.local_qpn = 0x414243, .responder_resources = 0x44,
			.local_eecn = 0x515253, .initiator_depth = 0x54,
			.remote_eecn = 0x616263, .remote_cm_timeout = 0x15, .transport = 2, .flow_control = true,
			.starting_psn = 0x717273, .local_cm_timeout = 0x0b, .retry_count = 6,
			.pkey = 0x8182, .path_mtu = 5, .rdc_exists = true, .rnr_retry_count = 3,
			.max_cm_retries = 12, .srq = false, .extended_transport = 5,
			.primary = {
				.local_lid = 0x9192, .remote_lid = 0x9394,
				.local_gid = GID(0xa0), .remote_gid = GID(0xb0),
				.flow_label = 0xc1c2c, .packet_rate = 0x2d, .tclass = 0xd1, .hop_limit = 0xd2,
				.sl = 14, .subnet_local = true, .ack_timeout = 0x13,
			},
			.alternate = {
				.local_lid = 0x1a1b, .remote_lid = 0x1c1d,
				.local_gid = GID(0x40), .remote_gid = GID(0x50),
				.flow_label = 0x2a2b2, .packet_rate = 0x33, .tclass = 0x3a, .hop_limit = 0x3b,
				.sl = 7, .subnet_local = false, .ack_timeout = 0x0d,
			},
			.sap_supported = true,
		}},
		.bytes = {MAD_HDR_MOD(0x10, ECE_OPTIONS),
			0x01, 0x02, 0x03, 0x04, 0, 0xf1, 0xf2, 0xf3,
			0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
			0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
			0, 0, 0, 0, 0x31, 0x32, 0x33, 0x34,
			0x41, 0x42, 0x43, 0x44,
			0x51, 0x52, 0x53, 0x54,
			0x61, 0x62, 0x63, 0xad, /* 10101 10 1 */
			0x71, 0x72, 0x73, 0x5e, /* 01011 110 */
			0x81, 0x82, 0x5b, 0xc5, /* 0101 1 011, 1100 0 101 */
			0x91, 0x92, 0x93, 0x94, GID_BYTES(0xa0), GID_BYTES(0xb0),
			0xc1, 0xc2, 0xc0, 0x2d, 0xd1, 0xd2, 0xe8, 0x98, /* 1110 1, 10011 */
			0x1a, 0x1b, 0x1c, 0x1d, GID_BYTES(0x40), GID_BYTES(0x50),
			0x2a, 0x2b, 0x20, 0x33, 0x3a, 0x3b, 0x70, 0x6c, /* 0111 0, 01101 1 */
		},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_MRA, .tid = TID, .mra = {
			COMM_IDS, .answered = 2, .service_timeout = 0x16,
		}},
		.bytes = {MAD_HDR(0x11), COMM_IDS_BYTES, 0x80, 0xb0},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_REJ, .tid = TID, .rej = {
			COMM_IDS, .answered = 1, .ari_len = 0x2a, .reason = 0x1c1d,
		}},
		.bytes = {MAD_HDR(0x12), COMM_IDS_BYTES, 0x40, 0x54, 0x1c, 0x1d},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_REP, .tid = TID, .rep = {
			COMM_IDS, ECE, .local_qkey = 0x11121314, .local_qpn = 0x212223, .local_eecn = 0x313233,
			.starting_psn = 0x414243, .responder_resources = 0x51, .initiator_depth = 0x52,
			.target_ack_delay = 0x1a, .failover_accepted = 2, .flow_control = false,
			.rnr_retry_count = 5, .srq = true, .local_ca_guid = 0x6162636465666768,
		}},
		.bytes = {MAD_HDR_MOD(0x13, ECE_OPTIONS), COMM_IDS_BYTES,
			0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0xf1, 0x31, 0x32, 0x33, 0xf2,
			0x41, 0x42, 0x43, 0xf3,
			0x51, 0x52, 0xd4, 0xb0, /* 11010 10 0, 101 1 */
			0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
		},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_RTU, .tid = TID, .rtu = {COMM_IDS}},
		.bytes = {MAD_HDR(0x14), COMM_IDS_BYTES},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_DREQ, .tid = TID, .dreq = {COMM_IDS, .remote_qpn = 0x212223}},
		.bytes = {MAD_HDR(0x15), COMM_IDS_BYTES, 0x21, 0x22, 0x23, 0},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_DREP, .tid = TID, .drep = {COMM_IDS}},
		.bytes = {MAD_HDR(0x16), COMM_IDS_BYTES},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_SIDR_REQ, .tid = TID, .sidr_req = {
			.request_id = 0x01020304, .pkey = 0x8182, .service_id = 0x1112131415161718,
		}},
		.bytes = {MAD_HDR(0x17), 0x01, 0x02, 0x03, 0x04, 0x81, 0x82, 0, 0,
			0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_SIDR_REP, .tid = TID, .sidr_rep = {
			.request_id = 0x01020304, .status = 5, .info_len = 0x2a, ECE, .qpn = 0x212223,
			.service_id = 0x3132333435363738, .qkey = 0x41424344,
		}},
		.bytes = {MAD_HDR_MOD(0x18, ECE_OPTIONS),
			0x01, 0x02, 0x03, 0x04, 0x05, 0x2a, 0xf1, 0xf2, 0x21, 0x22, 0x23, 0xf3,
			0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_LAP, .tid = TID, .lap = {
			COMM_IDS, .remote_qpn = 0x212223, .remote_cm_timeout = 0x15,
			.alternate = {
				.local_lid = 0x3132, .remote_lid = 0x3334,
				.local_gid = GID(0xa0), .remote_gid = GID(0xb0),
				.flow_label = 0xc1c2c, .packet_rate = 0x2d, .tclass = 0xd1, .hop_limit = 0xd2,
				.sl = 14, .subnet_local = true, .ack_timeout = 0x13,
			},
		}},
		.bytes = {MAD_HDR(0x19), COMM_IDS_BYTES, 0, 0, 0, 0, 0x21, 0x22, 0x23, 0xa8, 0, 0, 0, 0,
			0x31, 0x32, 0x33, 0x34, GID_BYTES(0xa0), GID_BYTES(0xb0),
			0xc1, 0xc2, 0xc0, 0xd1, 0xd2, 0x2d, 0xe8, 0x98},
	},
	{
		.msg = {.attr_id = ROCEMU_CM_APR, .tid = TID, .apr = {COMM_IDS, .info_len = 0x2a, .status = 11}},
		.bytes = {MAD_HDR(0x1a), COMM_IDS_BYTES, 0x2a, 0x0b},
	},
};

/* Where each message's private data begins in the MAD's data, and where its information: tables of chapter 12. */
static const struct fill {
	uint8_t *private_data;
	size_t private_at;
	uint8_t *info;
	size_t info_at;
} fills[CM_VECTORS] = {
	{vectors[0].msg.req.private_data,      140, NULL,                           0},
	{vectors[1].msg.mra.private_data,      10,  NULL,                           0},
	{vectors[2].msg.rej.private_data,      84,  vectors[2].msg.rej.ari,         12},
	{vectors[3].msg.rep.private_data,      36,  NULL,                           0},
	{vectors[4].msg.rtu.private_data,      8,   NULL,                           0},
	{vectors[5].msg.dreq.private_data,     12,  NULL,                           0},
	{vectors[6].msg.drep.private_data,     8,   NULL,                           0},
	{vectors[7].msg.sidr_req.private_data, 16,  NULL,                           0},
	{vectors[8].msg.sidr_rep.private_data, 96,  vectors[8].msg.sidr_rep.info,   24},
	{vectors[9].msg.lap.private_data,      64,  NULL,                           0},
	{vectors[10].msg.apr.private_data,     84,  vectors[10].msg.apr.info,       12},
};
/* clang-format on */

/* Private data reaches to the end of the MAD: its last byte shows that its length is right. */
static void fill(const struct fill *f, uint8_t *data)
{
	for (size_t i = f->private_at; i < ROCEMU_MAD_DATA_LEN; i++)
		f->private_data[i - f->private_at] = data[i] = (uint8_t)i;
	for (size_t i = 0; f->info != NULL && i < 72; i++)
		f->info[i] = data[f->info_at + i] = (uint8_t)~i;
}

const struct cm_vector *cm_vectors(void)
{
	for (unsigned i = 0; i < CM_VECTORS; i++)
		fill(&fills[i], vectors[i].bytes + ROCEMU_MAD_HDR_LEN);
	return vectors;
}
