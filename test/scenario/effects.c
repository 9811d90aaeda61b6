/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an end did, as text. The words, joined by "; ":
 *	drop WHY                   a packet was not taken
 *	SEND_FIRST 0, ack 0/1, ... packets sent: scenario_packet_text()
 *	send 1, recv 1 len 8, ...  completions: scenario_completion_text()
 *	event NAME                 asynchronous event, IBV_EVENT_ left out; CQ: of a CQ that was
 *armed ERR                        the QP is in the error state (once) Packets come in the order in
 *which they were taken or sent, then completions, then events.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

#include "base/util.h"

void say(struct end *e, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (e->log_len && e->log_len + 3 < SCENARIO_EFFECTS_MAX) {
		memcpy(e->log + e->log_len, "; ", 3);
		e->log_len += 2;
	}
	va_start(ap, fmt);
	n = vsnprintf(e->log + e->log_len, SCENARIO_EFFECTS_MAX - e->log_len, fmt, ap);
	va_end(ap);
	e->log_len = MIN(e->log_len + (size_t)n, (size_t)SCENARIO_EFFECTS_MAX - 1);
}

void say_drop(struct end *e, enum rocemu_drop why)
{
	static const char *const names[] = {
#define X(name, text) #name,
		ROCEMU_DROPS(X)
#undef X
	};

	if (why)
		say(e, "drop %s", names[why]);
}

/* ---- completions and events ---- */

void say_completions(struct end *e)
{
	struct rocemu_cqe cqe;

	while (rocemu_cq_poll(e->cq, &cqe, 1)) {
		const bool fails =
			cqe.status != IBV_WC_SUCCESS && cqe.status != IBV_WC_WR_FLUSH_ERR;
		const struct scenario_completion c = {
			.id = cqe.wr_id,
			.status = cqe.status,
			.opcode = cqe.opcode,
			.byte_len = cqe.byte_len,
			.imm = cqe.imm,
			.src_qp = cqe.src_qp,
			.flags = cqe.wc_flags,
			.sl = cqe.sl,
			.solicited = cqe.solicited,
		};
		char text[160];

		e->vendor_err = cqe.vendor_err;
		if (fails && !e->first_vendor_err)
			e->first_vendor_err = cqe.vendor_err;
		if (!fails && cqe.vendor_err)
			say(e, "vendor_err without an error");
		if (cqe.qpn != e->qpn)
			say(e, "completion of QP %x", cqe.qpn);
		scenario_completion_text(&c, text, sizeof(text));
		say(e, "%s", text);
	}
}

static const char *event_name(const struct rocemu_event *ev)
{
	return ev->type == ROCEMU_EVENT_CQ ? "CQ" : scenario_event_name(ev->async);
}

const char *take_events(struct end *e)
{
	struct rocemu_event ev;
	size_t n = 0;

	e->text[0] = 0;
	while (rocemu_ep_next_event(e->ep, &ev) && n < sizeof(e->text) - 64)
		n += (size_t)snprintf(e->text + n, sizeof(e->text) - n, "%s%s", n ? "; " : "",
				      event_name(&ev));
	return e->text;
}

void say_rest(struct end *e)
{
	struct rocemu_event ev;

	say_completions(e);
	while (rocemu_ep_next_event(e->ep, &ev))
		say(e, "event %s", event_name(&ev));
	if (e->qp && rocemu_qp_state(e->qp) == IBV_QPS_ERR && !e->told_error) {
		e->told_error = true;
		say(e, "ERR");
	}
}
