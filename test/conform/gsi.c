/* SPDX-License-Identifier: BSD-2-Clause */
/* QP 1: which datagrams it takes (IBTA 9.6.1, 10.2.5, 13.4.2), and those that it sends. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "responder.h"

enum {
	SPORT = 0xc001,
	PKEY_MASK = 0x7fff,
	ECT0 = 2,
	MAD_CLASS = 1,
	MAD_CLASS_VERSION = 2,
	DSCP_SHIFT = 2,
};

static struct {
	int fd;
	uint32_t psn;
} gsi = {.fd = -1};

int gsi_open(void)
{
	static const uint8_t nops[4] = {1, 1, 1, 0};

	gsi.fd = net_sender(SPORT, mutant(M_GSI_ECT) ? ECT0 : 0);
	if (mutant(M_OPTIONS_SENT))
		setsockopt(gsi.fd, IPPROTO_IP, IP_OPTIONS, nops, sizeof(nops));
	return gsi.fd;
}

void gsi_send(const struct rocemu_gid *to, uint16_t dport, const struct rocemu_cm_msg *m)
{
	struct rocemu_hdrs h = {
		.opcode = ROCEMU_UD_SEND_ONLY,
		.migreq = true,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.dqpn = ROCEMU_GSI_QPN,
		.psn = gsi.psn++ & ROCEMU_PSN_MASK,
		.deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN},
	};
	uint8_t mad[ROCEMU_MAD_LEN];

	if (!rocemu_cm_encode(m, mad))
		return;
	net_send(gsi.fd, SPORT, to, mutant(M_SOURCE_PORT) ? dport : ROCEMU_UDP_PORT, &h, mad,
		 sizeof(mad));
}

/** Rules that there are not: mutants. */
static bool refused_by_mutant(const struct input *in)
{
	const struct rocemu_hdrs *h = &in->p.h;

	return (mutant(M_ICRC_VARIANT) && in->tos >> DSCP_SHIFT) ||
	       (mutant(M_PKEY_LIMITED) && h->pkey != ROCEMU_PKEY_DEFAULT) ||
	       (mutant(M_GSI_MIGREQ) && !h->migreq) ||
	       (mutant(M_RESERVED) && (h->resv8a || h->resv7 || h->deth.resv));
}

static bool service_fits(const struct input *in)
{
	if (mutant(M_GSI_SERVICE))
		return in->p.payload_len >= ROCEMU_MAD_LEN;
	return in->p.h.opcode == ROCEMU_UD_SEND_ONLY;
}

static bool takes(const struct input *in)
{
	const struct rocemu_hdrs *h = &in->p.h;

	if (!service_fits(in) || refused_by_mutant(in))
		return false;
	if ((h->pkey & PKEY_MASK) != (ROCEMU_PKEY_DEFAULT & PKEY_MASK) && !mutant(M_GSI_PKEY))
		return false;
	/* Packets of other services have no Q_Key. */
	if (mutant(M_GSI_SERVICE) && !(rocemu_opcode_hdrs(h->opcode) & ROCEMU_HDR_DETH))
		return true;
	return h->deth.qkey == ROCEMU_GSI_QKEY || mutant(M_GSI_QKEY);
}

/** A MAD of 256 bytes; mutants take others. */
static enum rocemu_mad_verdict decode(const struct input *in, struct rocemu_cm_msg *m)
{
	uint8_t mad[ROCEMU_MAD_LEN] = {0};
	const size_t len = in->p.payload_len;

	if (len != sizeof(mad) && !mutant(M_MAD_SIZE))
		return ROCEMU_MAD_LENGTH;
	memcpy(mad, in->p.payload, len < sizeof(mad) ? len : sizeof(mad));
	if (mutant(M_MAD_GARBAGE)) {
		mad[0] = 1;
		mad[MAD_CLASS] = ROCEMU_CM_CLASS;
		mad[MAD_CLASS_VERSION] = ROCEMU_CM_CLASS_VERSION;
		mad[3] = ROCEMU_CM_METHOD_SEND;
		if (!rocemu_cm_name(get_be16(mad + 16)))
			put_be16(mad + 16, ROCEMU_CM_REQ);
	}
	return rocemu_cm_decode(m, mad, sizeof(mad));
}

void gsi_input(const struct input *in)
{
	struct rocemu_cm_msg m;

	if (takes(in) && decode(in, &m) == ROCEMU_MAD_OK)
		cm_input(in, &m);
}
