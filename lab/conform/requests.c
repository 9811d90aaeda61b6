/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests of the device: which are new, their MSNs, and answers to them. PSNs count from the
 * first one. */
#include "base/util.h"
#include "conform/session.h"

enum { ANSWER_MAX = 1 << 20 /* bytes of a READ's answer */ };

static uint32_t relative(const struct conform_world *w, uint32_t psn)
{
	return (psn - w->setup.sq_psn) & ROCEMU_PSN_MASK;
}

/** PSNs that a request packet takes: those of its responses, if it is a READ. */
static uint32_t psns_of(const struct conform_world *w, const struct rocemu_hdrs *h)
{
	if (!(rocemu_opcode_ops(h->opcode) & ROCEMU_OP_READ_REQ) || !h->reth.length)
		return 1;
	return (h->reth.length - 1) / w->setup.mtu + 1;
}

bool requests_note(struct conform_world *w, const struct rocemu_hdrs *h)
{
	struct conform_requests *q = &w->requests;
	const uint32_t ops = rocemu_opcode_ops(h->opcode), psn = relative(w, h->psn);

	if (psn != q->next)
		return rocemu_psn_diff(psn, q->next) < 0;
	q->next = (psn + psns_of(w, h)) & ROCEMU_PSN_MASK;
	if (ops & ROCEMU_OP_LAST)
		q->end[q->messages++ % CONFORM_MESSAGES] =
			ops & ROCEMU_OP_READ_REQ ? (psn + 1) & ROCEMU_PSN_MASK : q->next;
	return false;
}

uint32_t requests_msn(const struct conform_world *w, uint32_t psn)
{
	const struct conform_requests *q = &w->requests;
	uint32_t n = q->messages;

	while (n && q->messages - n < CONFORM_MESSAGES &&
	       rocemu_psn_diff(q->end[(n - 1) % CONFORM_MESSAGES], psn) > 1)
		n--;
	return n & ROCEMU_PSN_MASK;
}

/** All responses to a READ: from its first PSN on. */
static void answer_read(struct conform_world *w, const struct rocemu_hdrs *h)
{
	const uint32_t psn = relative(w, h->psn), n = psns_of(w, h), mtu = w->setup.mtu;
	const uint32_t len = h->reth.length;

	for (uint32_t i = 0; i < n && len <= ANSWER_MAX; i++) {
		struct scenario_packet a = {.given = 1u << SCENARIO_PACKET_FILL};

		a.h.psn = (psn + i) & ROCEMU_PSN_MASK;
		a.h.aeth.msn = requests_msn(w, psn);
		a.h.opcode = n == 1	  ? ROCEMU_RC_READ_RESP_ONLY
			     : i == 0	  ? ROCEMU_RC_READ_RESP_FIRST
			     : i == n - 1 ? ROCEMU_RC_READ_RESP_LAST
					  : ROCEMU_RC_READ_RESP_MIDDLE;
		a.len = MIN(len - i * mtu, mtu);
		conform_send(w, &a);
	}
}

void requests_answer(struct conform_world *w, const struct rocemu_hdrs *h)
{
	const uint32_t psn = relative(w, h->psn);
	struct scenario_packet a = {.h = {.opcode = ROCEMU_RC_ACK, .psn = psn}};

	if (rocemu_psn_diff(psn, w->requests.next) >= 0)
		return; /* one before it is missing */
	if (rocemu_opcode_ops(h->opcode) & ROCEMU_OP_READ_REQ) {
		answer_read(w, h);
	} else if (h->ackreq) {
		a.h.aeth.msn = requests_msn(w, psn);
		conform_send(w, &a);
	}
}
