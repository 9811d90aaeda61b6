/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/traits.h"

#include "base/util.h"
#include "transport/credit.h"
#include "transport/qp.h"
#include "wire/bth.h"
#include "wire/opcode.h"

/** The AETH of a positive ACK, which responses to READs and atomics have as well; or NULL. */
static uint8_t *ack_of(struct rocemu_tx *tx)
{
	const uint32_t ops = opcode_ops(tx->hdr[0]);
	uint8_t *aeth = tx->hdr + ROCEMU_BTH_LEN;

	if (!(ops & ROCEMU_OP_RESPONSE) || (ops & ROCEMU_OP_MIDDLE) ||
	    (*aeth & ROCEMU_AETH_CLASS_MASK) != ROCEMU_AETH_ACK)
		return NULL;
	return aeth;
}

/** IBTA 9.7.7.2.1: the receives that are posted. An SRQ's are of several QPs: no number. */
static void put_credits(const struct rocemu_qp *qp, struct rocemu_tx *tx)
{
	uint8_t *aeth = ack_of(tx);

	if (aeth && !qp->resp.srq)
		*aeth = ROCEMU_AETH_ACK | credit_code(rq_count(&qp->rq));
}

void traits_put(const struct rocemu_qp *qp, struct rocemu_tx *tx, unsigned n)
{
	const struct rocemu_traits *t = &qp->ep->cfg.traits;

	for (unsigned i = 0; i < n; i++) {
		if (t->no_migreq)
			tx[i].hdr[1] &= (uint8_t)~BTH_MIGREQ;
		if (t->sends_credits && qp_is_reliable(qp))
			put_credits(qp, &tx[i]);
	}
}
