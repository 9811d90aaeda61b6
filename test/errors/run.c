/* SPDX-License-Identifier: BSD-2-Clause */
/* Carries out a row of the errors table on a bench and compares. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"

enum { BEHIND_LEN = 8 };

static const unsigned all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static struct err_config config_of(const struct err_row *row, uint32_t loss_mask)
{
	struct err_config c = row->config;

	c.type = row->type;
	c.loss_mask = loss_mask;
	if (!c.access)
		c.access = all_access;
	if (!c.retry_cnt)
		c.retry_cnt = 7;
	if (!c.rnr_retry)
		c.rnr_retry = 7;
	return c;
}

struct ibv_send_wr err_wr(struct err_bench *b, enum err_end from, struct ibv_sge *sge,
			  uint64_t wr_id, uint32_t len)
{
	const struct err_row good = {.opcode = IBV_WR_SEND, .len = len};
	const enum err_end to = from == REQ ? RSP : REQ;
	struct ibv_send_wr wr =
		err_row_wr(&good, &b->mem[from], &b->mem[to], b->ops->qpn(b, to), sge);

	wr.wr_id = wr_id;
	return wr;
}

int err_post_recv(struct err_bench *b, enum err_end end, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = {.addr = b->mem[end].addr, .length = len, .lkey = b->mem[end].lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	return b->ops->recv(b, end, &wr);
}

/* ---- the request that fails ---- */

static const char *post_receives(struct err_bench *b, const struct err_row *row)
{
	const uint32_t grh = row->type == IBV_QPT_UD ? 40 : 0;
	struct ibv_sge sge = {.addr = b->mem[RSP].addr,
			      .length = row->recv_len,
			      .lkey = row->recv_lkey_bad ? (uint32_t)ERR_NO_KEY : b->mem[RSP].lkey};
	struct ibv_recv_wr wr = {.wr_id = WR_RECV, .sg_list = &sge, .num_sge = 1};

	if (row->with_recv && b->ops->recv(b, RSP, &wr))
		return "the receive was refused";
	if (!row->no_recv_behind && err_post_recv(b, RSP, WR_RECV_BEHIND, BEHIND_LEN + grh))
		return "the receive behind was refused";
	if (!row->config.srq && err_post_recv(b, REQ, WR_RECV_REQ, BEHIND_LEN + grh))
		return "the requester's receive was refused";
	return NULL;
}

/** Post the row's requests. *refused: the first one was, as it is to be. */
static const char *provoke(struct err_bench *b, const struct err_row *row, bool *refused)
{
	struct err_region at[ENDS] = {b->mem[REQ], b->mem[RSP]};
	struct ibv_sge sge, sge_behind;
	struct ibv_send_wr wr, behind;
	enum err_end end;
	unsigned access;
	const char *wrong;
	int err;

	if (err_row_region(row, &end, &access))
		at[end] = b->ops->reg(b, end, access, row->fault == FAULT_REGION_PD);
	wrong = post_receives(b, row);
	if (wrong)
		return wrong;
	wr = err_row_wr(row, &at[REQ], &at[RSP], b->ops->qpn(b, RSP), &sge);
	if (row->fault == FAULT_REGION_GONE)
		b->ops->dereg(b, RSP, &at[RSP]);
	err = b->ops->post(b, REQ, &wr);
	*refused = err != 0;
	if (err != row->err)
		return err ? strerror(err) : "the request was not refused";
	if (err)
		return NULL;
	behind = err_wr(b, REQ, &sge_behind, WR_BEHIND, BEHIND_LEN);
	err = b->ops->post(b, REQ, &behind);
	return err ? "the request behind was refused" : NULL;
}

/* ---- comparing ---- */

struct seen {
	struct err_wc wc[ERR_COMPLETIONS];
	unsigned n;
	uint32_t events;
};

bool err_differs(const char *bench, const struct err_row *row, uint32_t loss_mask, const char *what,
		 const char *got, const char *want)
{
	printf("%s, %s", bench, row->name);
	if (loss_mask)
		printf(", loss mask %#x", loss_mask);
	printf(": %s: %s, wanted %s\n", what, got, want);
	return false;
}

static bool complain(const struct err_bench *b, const struct err_row *row, uint32_t loss,
		     const char *what, const char *got, const char *want)
{
	return err_differs(b->ops->name, row, loss, what, got, want);
}

static bool complain_of_number(const struct err_bench *b, const struct err_row *row, uint32_t loss,
			       const char *what, unsigned got, unsigned want)
{
	char got_text[16], want_text[16];

	snprintf(got_text, sizeof(got_text), "%#x", got);
	snprintf(want_text, sizeof(want_text), "%#x", want);
	return complain(b, row, loss, what, got_text, want_text);
}

static int status_of(const struct seen *s, uint64_t wr_id, uint32_t *vendor_err)
{
	int status = ERR_NONE;

	for (unsigned i = 0; i < s->n; i++)
		if (s->wc[i].wr_id == wr_id) {
			status = status == ERR_NONE ? (int)s->wc[i].status : 1000; /* twice */
			*vendor_err = s->wc[i].vendor_err;
		}
	return status;
}

static unsigned wanted_at(const struct err_ends *w, enum err_end end)
{
	const int at[ENDS][3] = {{w->first, w->behind, w->recv_req},
				 {w->recv, w->recv_behind, ERR_NONE}};
	unsigned n = 0;

	for (unsigned i = 0; i < 3; i++)
		n += at[end][i] != ERR_NONE;
	return n;
}

/**
 * Whose answer was lost learns nothing of its reason: the responder has gone into the error state
 * and is silent, so the requester tries in vain.
 */
static bool may_be_in_the_dark(struct err_bench *b, const struct err_row *row, uint32_t loss,
			       int got)
{
	return loss && row->want.nak && got == IBV_WC_RETRY_EXC_ERR && b->ops->nak_lost(b);
}

/** The request behind was executed by the peer, although it is flushed here. */
static bool passed_behind(const struct err_row *row, const struct seen seen[ENDS])
{
	uint32_t vendor_err;

	return row->behind_passes &&
	       status_of(&seen[RSP], WR_RECV_BEHIND, &vendor_err) == IBV_WC_SUCCESS;
}

/** Does the emulated device report its own code for errors without a NAK? (include/rocemu/why.h) */
static bool has_code(int status, uint32_t vendor_err)
{
	enum { FIRST_CODE = 0x100, FLUSHED = 0 };

	if (status == ERR_NONE)
		return true;
	if (status == IBV_WC_SUCCESS || status == IBV_WC_WR_FLUSH_ERR)
		return vendor_err == FLUSHED;
	return vendor_err > FIRST_CODE;
}

static bool compare_completions(struct err_bench *b, const struct err_row *row, uint32_t loss,
				const struct seen seen[ENDS])
{
	const struct {
		enum err_end end;
		uint64_t wr_id;
		int want;
		const char *what;
	} list[] = {
		{REQ, WR_FIRST, row->want.first, "the request"},
		{REQ, WR_BEHIND, row->want.behind, "the request behind it"},
		{REQ, WR_RECV_REQ, row->want.recv_req, "the requester's receive"},
		{RSP, WR_RECV, row->want.recv, "the receive"},
		{RSP, WR_RECV_BEHIND, row->want.recv_behind, "the receive behind it"},
	};
	const unsigned passed = passed_behind(row, seen);
	uint32_t vendor_err = 0;
	bool ok = true;

	for (unsigned i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		int got = status_of(&seen[list[i].end], list[i].wr_id, &vendor_err);

		if (list[i].wr_id == WR_FIRST && may_be_in_the_dark(b, row, loss, got))
			continue;
		if (list[i].wr_id == WR_RECV_BEHIND && passed)
			continue;
		if (got != list[i].want)
			ok = complain(b, row, loss, list[i].what, err_status_name(got),
				      err_status_name(list[i].want));
		else if (list[i].wr_id == WR_FIRST && row->want.nak && b->vendor_err_is_nak &&
			 vendor_err != row->want.nak)
			ok = complain_of_number(b, row, loss, "vendor_err", vendor_err,
						row->want.nak);
		else if ((list[i].wr_id != WR_FIRST || !row->want.nak) && b->vendor_err_is_nak &&
			 !has_code(got, vendor_err))
			ok = complain(b, row, loss, list[i].what, "vendor_err without a code",
				      "a code");
	}
	for (unsigned end = 0; end < ENDS; end++) {
		unsigned want = wanted_at(&row->want, end) + (end == RSP ? passed : 0);

		if (seen[end].n != want)
			ok = complain_of_number(b, row, loss,
						end == REQ ? "the requester's completions"
							   : "the responder's completions",
						seen[end].n, want);
	}
	return ok;
}

static bool complain_of_events(const struct err_bench *b, const struct err_row *row, uint32_t loss,
			       enum err_end end, uint32_t got)
{
	char text[2][256] = {"none", "none"};
	const uint32_t events[2] = {got, row->want.events[end]};

	for (unsigned i = 0; i < 2; i++) {
		FILE *out = events[i] ? fmemopen(text[i], sizeof(text[i]), "w") : NULL;
		bool any = false;

		if (out) {
			err_event_names(events[i], "", &any, out);
			fclose(out);
		}
	}
	return complain(b, row, loss,
			end == REQ ? "the requester's events" : "the responder's events", text[0],
			text[1]);
}

static bool compare_states(struct err_bench *b, const struct err_row *row, uint32_t loss,
			   const struct seen seen[ENDS])
{
	bool ok = true;

	for (unsigned end = 0; end < ENDS; end++) {
		const enum ibv_qp_state got = b->ops->state(b, end);
		const char *what = end == REQ ? "the requester's QP" : "the responder's QP";

		if (got != row->want.state[end])
			ok = complain(b, row, loss, what, err_state_name(got),
				      err_state_name(row->want.state[end]));
		if (seen[end].events != row->want.events[end])
			ok = complain_of_events(b, row, loss, end, seen[end].events);
	}
	return ok;
}

static bool compare(struct err_bench *b, const struct err_row *row, uint32_t loss)
{
	struct seen seen[ENDS];
	bool ok;

	for (unsigned end = 0; end < ENDS; end++)
		seen[end].n =
			b->ops->collect(b, end, wanted_at(&row->want, end), row->want.events[end],
					seen[end].wc, &seen[end].events);
	/* Both have results. */
	ok = compare_completions(b, row, loss, seen);
	return compare_states(b, row, loss, seen) && ok;
}

bool err_run(const struct err_bench_ops *ops, const struct err_row *row, uint32_t loss_mask)
{
	const struct err_config config = config_of(row, loss_mask);
	bool refused = false, ok;
	struct err_bench *b;
	const char *wrong;

	if (row->sim_only && !ops->bad_response)
		return true;
	b = ops->open(&config);
	wrong = row->body ? row->body(b, row) : provoke(b, row, &refused);
	if (wrong)
		err_differs(ops->name, row, loss_mask, "its calls", wrong,
			    row->err ? strerror(row->err) : "no error");
	ok = !wrong && (refused || compare(b, row, loss_mask));
	ops->close(b);
	return ok;
}
