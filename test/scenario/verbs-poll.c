/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of an end, polled by either of two functions, with and without events. */
#include "verbs-end.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/util.h"

enum { GRH_LEN = 40 };

/* ---- what a completion states ---- */

/** The 40 bytes before a UD message: an IPv4 header in the last 20, or an IPv6 header. */
static bool grh_right(const struct verbs_end *e, uint64_t id)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	const struct scenario_place *p = &e->grh[id % VERBS_RECVS];
	const uint8_t *at = e->memory[p->area % SCENARIO_AREAS] + p->offset;

	if (p->offset + GRH_LEN > e->setup.area)
		return false;
	if (memcmp(e->self.gid.raw, v4, sizeof(v4)) == 0)
		return at[20] == 0x45 && memcmp(at + 32, e->peer.gid.raw + 12, 4) == 0 &&
		       memcmp(at + 36, e->self.gid.raw + 12, 4) == 0;
	return at[0] >> 4 == 6 && memcmp(at + 8, e->peer.gid.raw, 16) == 0 &&
	       memcmp(at + 24, e->self.gid.raw, 16) == 0;
}

/** What is wrong with a completion that no scenario could name, or "". */
static const char *fault(const struct verbs_end *e, const struct ibv_wc *wc)
{
	const bool recv = wc->wr_id & SCENARIO_RECV_ID;
	const bool ud = e->setup.type == IBV_QPT_UD, xrc = e->setup.type == IBV_QPT_XRC_SEND;

	if (wc->qp_num != (recv && xrc ? e->self.target_qpn : e->self.qpn))
		return " WITH another qp_num";
	if (wc->status != IBV_WC_SUCCESS || !recv)
		return "";
	if ((ud || xrc) && wc->src_qp != e->peer.qpn)
		return " WITH another src_qp";
	if (wc->wc_flags & IBV_WC_WITH_INV && !verbs_way.rxe_inv &&
	    wc->invalidated_rkey != e->self.mw_rkey)
		return " WITH another invalidated_rkey";
	if (ud && !(wc->wc_flags & IBV_WC_GRH))
		return " WITH no IBV_WC_GRH";
	return ud && !grh_right(e, wc->wr_id) ? " WITH another GRH" : "";
}

static void say_completion(struct verbs_end *e, struct ibv_wc *wc)
{
	struct scenario_completion c = {
		.id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
		.byte_len = wc->byte_len,
		.imm = be32toh(wc->imm_data),
		.src_qp = wc->src_qp,
		.sl = e->setup.ends == 1 ? wc->sl : 0,
	};
	const bool fails = wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR;
	char text[160];

	if (fails && !e->vendor_err)
		e->vendor_err = wc->vendor_err;
	if (verbs_way.vendor_err && !fails && wc->vendor_err)
		verbs_say(e, "vendor_err without an error");
	if (verbs_way.rxe_inv && e->setup.type == IBV_QPT_RC && wc->opcode == IBV_WC_RECV &&
	    wc->wc_flags & IBV_WC_IP_CSUM_OK)
		wc->wc_flags |= IBV_WC_WITH_INV;
	/* Of UD in a pair, it is checked by fault(); of others, it means nothing. */
	c.flags = wc->wc_flags;
	if (e->setup.type != IBV_QPT_UD || e->setup.ends == SCENARIO_ENDS)
		c.flags &= ~(unsigned)IBV_WC_GRH;
	scenario_completion_text(&c, text, sizeof(text));
	verbs_say(e, "%s%s", text, fault(e, wc));
}

/* ---- ways to poll ---- */

static bool poll_ex(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = {0};

	if (ibv_start_poll(x, &attr))
		return false;
	*wc = (struct ibv_wc){
		.wr_id = x->wr_id,
		.status = x->status,
		.vendor_err = ibv_wc_read_vendor_err(x),
		.qp_num = ibv_wc_read_qp_num(x),
	};
	/* As with ibv_poll_cq(), the rest means nothing in a failed completion. */
	if (x->status == IBV_WC_SUCCESS) {
		wc->opcode = ibv_wc_read_opcode(x);
		wc->byte_len = ibv_wc_read_byte_len(x);
		wc->wc_flags = ibv_wc_read_wc_flags(x);
		wc->src_qp = ibv_wc_read_src_qp(x);
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			wc->imm_data = ibv_wc_read_imm_data(x);
		if (wc->wc_flags & IBV_WC_WITH_INV)
			wc->invalidated_rkey = ibv_wc_read_invalidated_rkey(x);
	}
	ibv_end_poll(x);
	return true;
}

unsigned verbs_poll(struct verbs_end *e, unsigned n)
{
	unsigned got = 0;
	struct ibv_wc wc;

	for (unsigned i = 0; i < ARRAY_LEN(e->cq); i++) {
		while (got < n && (verbs_way.cq_ex ? poll_ex(e->cq[i], &wc)
						   : ibv_poll_cq(e->cq[i], 1, &wc) == 1)) {
			say_completion(e, &wc);
			got++;
		}
	}
	return got;
}

/* ---- waiting ---- */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int patience(int ms)
{
	return ms ? ms : VERBS_GUARD_S * 1000;
}

static bool take_event(struct verbs_end *e, unsigned i)
{
	struct ibv_cq *which = NULL;
	void *context;

	if (ibv_get_cq_event(e->channel[i], &which, &context) || which != e->cq[i]) {
		verbs_say(e, "event of another completion queue");
		return false;
	}
	ibv_ack_cq_events(which, 1);
	return true;
}

/** Until either queue has an event. */
static void sleep_on_channels(struct verbs_end *e)
{
	struct pollfd p[2] = {{e->channel[0]->fd, POLLIN, 0}, {e->channel[1]->fd, POLLIN, 0}};

	if (poll(p, 2, patience(verbs_way.wait_ms)) <= 0)
		return;
	for (unsigned i = 0; i < 2; i++)
		if (p[i].revents)
			take_event(e, i);
}

void verbs_wait(struct verbs_end *e, unsigned n)
{
	const int64_t until = now_ms() + patience(verbs_way.wait_ms);
	unsigned got = verbs_poll(e, UINT32_MAX);

	while (got < n && now_ms() < until) {
		if (verbs_way.events) {
			ibv_req_notify_cq(e->cq[0], 0);
			ibv_req_notify_cq(e->cq[1], 0);
			got += verbs_poll(e, UINT32_MAX);
			if (got < n)
				sleep_on_channels(e);
		} else {
			sched_yield();
		}
		got += verbs_poll(e, UINT32_MAX);
	}
}

bool verbs_cq_event(struct verbs_end *e, bool wait)
{
	struct pollfd p = {.fd = e->channel[1]->fd, .events = POLLIN};

	return poll(&p, 1, wait ? VERBS_GUARD_S * 1000 : 0) == 1 && take_event(e, 1);
}

/** Of the host's network: it is no effect of a scenario. */
static bool is_of_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_PORT_ACTIVE ||
	       type == IBV_EVENT_PORT_ERR;
}

void verbs_async(struct verbs_end *e, unsigned n, const char *word)
{
	const int64_t until = now_ms() + patience(verbs_way.event_ms);
	struct pollfd p = {.fd = e->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;
	unsigned got = 0;

	for (;;) {
		while (ibv_get_async_event(e->ctx, &event) == 0) {
			if (!is_of_port(event.event_type)) {
				verbs_say(e, "%s%s", word, scenario_event_name(event.event_type));
				got++;
			}
			ibv_ack_async_event(&event);
		}
		if (got >= n || now_ms() >= until)
			return;
		poll(&p, 1, (int)MAX(until - now_ms(), 0));
	}
}
