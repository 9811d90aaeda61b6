/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs by verbs: end a is in this process, end b as well or in another one. Time is real, so an
 * expectation waits until as many completions came as it names. What packets there are is not seen.
 */
#include "verbs-end.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct world {
	struct scenario_setup setup; /* as it came to be, of the end that was started last */
	uint32_t send_wr[SCENARIO_ENDS], recv_wr[SCENARIO_ENDS];
	unsigned ends;
	struct verbs_self self[SCENARIO_ENDS]; /* as of the last call */
	/* Requests that wait for the one behind them. */
	struct scenario_request list[SCENARIO_ENDS][VERBS_LIST];
	unsigned listed[SCENARIO_ENDS];
	uint8_t *copy[SCENARIO_AREAS]; /* owned: memory of the end in another process */
	char text[VERBS_TEXT];
};

static struct verbs_end here[SCENARIO_ENDS]; /* those that are in this process */
static bool alone;			     /* the world has one end, and packets are its peer */
static bool b_is_gone;

/** The end that is not in this process: b of a pair, or one that is alone. */
static bool is_remote(unsigned end)
{
	return verbs_remote_there() && (end == 1 || alone);
}

/** @return what the call does. Text is in w->text. */
static int do_with(struct world *w, unsigned end, struct verbs_call c, const void *data)
{
	struct verbs_answer a = {0};

	c.magic = VERBS_MAGIC;
	c.index = end;
	c.peer = w->self[!end];
	w->text[0] = 0;
	if (!is_remote(end)) {
		verbs_end_do(&here[end], &c, (void *)(uintptr_t)data, &a);
		memcpy(w->text, here[end].text, here[end].text_len + 1);
	} else if (b_is_gone || !verbs_remote_do(&c, (void *)(uintptr_t)data, &a, w->text)) {
		if (!b_is_gone && c.what != VERBS_KILL)
			fprintf(stderr, "the process of end b is gone\n");
		b_is_gone = true;
		return c.what == VERBS_KILL ? 0 : -ECONNRESET;
	}
	w->self[end] = a.self;
	if (c.what == VERBS_START) {
		w->setup = a.setup;
		w->send_wr[end] = a.setup.send_wr;
		w->recv_wr[end] = a.setup.recv_wr;
	}
	return a.result;
}

/* ---- begin and end ---- */

static void world_free(void *world)
{
	struct world *w = world;

	for (unsigned end = 0; end < w->ends; end++) {
		if (is_remote(end) && b_is_gone)
			continue;
		/* It was printed; what comes after it would mean nothing. */
		if (do_with(w, end, (struct verbs_call){.what = VERBS_STOP}, NULL))
			exit(3);
	}
	for (unsigned i = 0; i < SCENARIO_AREAS; i++)
		free(w->copy[i]);
	free(w);
}

static int modify(void *world, unsigned end, enum ibv_qp_state to, const struct scenario_setup *s,
		  int mask)
{
	const struct verbs_call c = {.what = VERBS_MODIFY, .number = to, .setup = *s, .mask = mask};

	return do_with(world, end, c, NULL);
}

static int connect_ends(struct world *w)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (size_t i = 0; i < ARRAY_LEN(way) && w->setup.state != IBV_QPS_RESET; i++) {
		for (unsigned end = 0; end < w->ends; end++) {
			int error = modify(w, end, way[i], &w->setup, 0);

			if (error)
				return error;
		}
		if (way[i] == w->setup.state)
			break;
	}
	return 0;
}

static bool possible(const struct scenario_setup *s)
{
	if (s->ends == 1)
		return verbs_wire_possible(s) &&
		       (verbs_remote_there() || here[0].ctx || verbs_end_open(&here[0]));
	return s->type != IBV_QPT_XRC_RECV && !s->srq_other_pd &&
	       (here[0].ctx || verbs_end_open(&here[0])) &&
	       (verbs_remote_there() || here[1].ctx || verbs_end_open(&here[1]));
}

static void *start(const struct scenario_setup *s, int *error)
{
	struct verbs_call c = {.what = VERBS_START, .setup = *s};
	struct world *w = possible(s) ? calloc(1, sizeof(*w)) : NULL;

	*error = possible(s) ? w ? 0 : -ENOMEM : -EOPNOTSUPP;
	if (!w)
		return NULL;
	w->ends = s->ends;
	alone = s->ends == 1;
	if (alone)
		w->self[1] = verbs_wire_self();
	if (s->type == IBV_QPT_XRC_RECV)
		c.setup.type = IBV_QPT_XRC_SEND; /* the end has both */
	for (unsigned i = 0; i < w->ends && !*error; i++)
		*error = do_with(w, i, c, NULL);
	if (alone && !*error)
		*error = do_with(w, 0, (struct verbs_call){.what = VERBS_PROBE}, NULL);
	if (alone && !*error)
		verbs_wire_begin(&w->setup, &w->self[0]);
	for (unsigned i = 0; i < SCENARIO_AREAS && !*error && verbs_remote_there(); i++) {
		w->copy[i] = malloc(s->area);
		*error = w->copy[i] ? 0 : -ENOMEM;
	}
	if (!*error)
		*error = connect_ends(w);
	if (!*error)
		return w;
	world_free(w);
	return NULL;
}

static void actual(void *world, unsigned end, struct scenario_setup *s)
{
	const struct world *w = world;

	s->send_wr = w->send_wr[end];
	s->recv_wr = w->recv_wr[end];
}

/* ---- requests ---- */

static int post_send(void *world, unsigned end, const struct scenario_request *r)
{
	struct world *w = world;
	const unsigned n = ++w->listed[end];

	w->list[end][n - 1] = *r;
	if (r->more)
		return n < VERBS_LIST ? 0 : -ENOSPC;
	w->listed[end] = 0;
	return do_with(w, end, (struct verbs_call){.what = VERBS_SEND, .number = n}, w->list[end]);
}

static int post_recv(void *world, unsigned end, const struct scenario_request *r)
{
	return do_with(world, end, (struct verbs_call){.what = VERBS_RECV, .number = 1}, r);
}

/* ---- looks ---- */

static const char *looked(struct world *w, unsigned end, enum verbs_what what, unsigned n)
{
	int error = do_with(w, end, (struct verbs_call){.what = what, .number = n}, NULL);

	/* An end that was killed does nothing any more. */
	if (error && !(is_remote(end) && b_is_gone))
		snprintf(w->text, sizeof(w->text), "%s", strerror(-error));
	return w->text;
}

static const char *look(void *world)
{
	return looked(world, 0, VERBS_EFFECTS, 0);
}

static const char *effects(void *world, unsigned end, unsigned n)
{
	static char text[VERBS_TEXT];

	if (!alone)
		return looked(world, end, VERBS_EFFECTS, 0);
	verbs_wire_effects(n, look, world, text);
	return text;
}

static const char *completions(void *world, unsigned end, unsigned n)
{
	return looked(world, end, VERBS_COMPLETIONS, n);
}

static enum ibv_qp_state state(void *world, unsigned end)
{
	int got = do_with(world, end, (struct verbs_call){.what = VERBS_STATE}, NULL);

	return got < 0 ? IBV_QPS_UNKNOWN : (enum ibv_qp_state)got;
}

static uint8_t *memory(void *world, unsigned end, enum scenario_area area)
{
	struct world *w = world;

	if (area == SCENARIO_LAST)
		return verbs_wire_payload();
	return is_remote(end) ? w->copy[area] : here[end].memory[area];
}

static void copy(void *world, unsigned end, enum scenario_area area, uint64_t offset, uint64_t len,
		 bool changed)
{
	struct world *w = world;
	const struct verbs_call c = {
		.what = changed ? VERBS_WRITE : VERBS_READ,
		.area = area,
		.offset = offset,
		.len = len,
	};

	if (is_remote(end) && area != SCENARIO_LAST)
		do_with(w, end, c, w->copy[area] + offset);
}

/* ---- packets, of an end that is alone ---- */

static int input(void *world, const struct scenario_packet *p)
{
	return verbs_wire_input(&((struct world *)world)->self[0], p);
}

static const char *why_not(void *world)
{
	(void)world;
	return verbs_wire_why_not();
}

static int settle(void *world)
{
	(void)world;
	return verbs_wire_settle();
}

static const struct rocemu_packet *last(void *world, unsigned end)
{
	(void)world;
	(void)end;
	return verbs_wire_last();
}

static uint64_t address(void *world, const struct scenario_place *p)
{
	(void)world;
	return verbs_wire_address(p);
}

/* ---- objects ---- */

static int dereg(void *world, unsigned end, enum scenario_area area)
{
	return do_with(world, end, (struct verbs_call){.what = VERBS_DEREG, .area = area}, NULL);
}

static int reg(void *world, unsigned end, enum scenario_area area, int access, bool other_pd)
{
	const struct verbs_call c = {
		.what = VERBS_REG, .area = area, .access = access, .other_pd = other_pd};

	return do_with(world, end, c, NULL);
}

static uint32_t key(void *world, unsigned end, enum scenario_area area, bool remote)
{
	const struct verbs_self *s = &((struct world *)world)->self[end];

	return remote ? s->rkey[area] : s->lkey[area];
}

static int new_mw(void *world, unsigned end, unsigned type, bool other_pd)
{
	const struct verbs_call c = {.what = VERBS_MW, .number = type, .other_pd = other_pd};

	return do_with(world, end, c, NULL);
}

static bool mw_key(void *world, unsigned end, uint32_t *rkey)
{
	*rkey = ((struct world *)world)->self[end].mw_rkey;
	return *rkey;
}

static int destroy_qp(void *world, unsigned end)
{
	return do_with(world, end, (struct verbs_call){.what = VERBS_DESTROY_QP}, NULL);
}

static int arm(void *world, unsigned end, bool solicited)
{
	const struct verbs_call c = {.what = VERBS_NOTIFY, .number = solicited};

	return do_with(world, end, c, NULL);
}

static bool cq_event(void *world, unsigned end, bool wait)
{
	return do_with(world, end, (struct verbs_call){.what = VERBS_EVENT, .number = wait}, NULL) >
	       0;
}

static const char *events(void *world, unsigned end, unsigned n)
{
	return looked(world, end, VERBS_ASYNC, n);
}

static uint32_t qpn(void *world, unsigned end)
{
	return ((struct world *)world)->self[end].qpn;
}

static bool vendor_err(void *world, unsigned end, uint32_t *value)
{
	const int got = do_with(world, end, (struct verbs_call){.what = VERBS_VENDOR_ERR}, NULL);

	*value = (uint32_t)got;
	return got != -EOPNOTSUPP;
}

static int srq(void *world, unsigned end, const struct scenario_srq *c)
{
	const struct verbs_call call = {.what = VERBS_SRQ_LIMIT, .number = c->n};

	return c->what == SCENARIO_SRQ_LIMIT ? do_with(world, end, call, NULL) : -EOPNOTSUPP;
}

static int kill_end(void *world, unsigned end)
{
	if (!is_remote(end))
		return -EOPNOTSUPP;
	return do_with(world, end, (struct verbs_call){.what = VERBS_KILL}, NULL);
}

const struct scenario_backend scenario_verbs = {
	.start = start,
	.end = world_free,
	.actual = actual,
	.post_send = post_send,
	.post_recv = post_recv,
	.modify = modify,
	.input = input,
	.why_not = why_not,
	.settle = settle,
	.last = last,
	.address = address,
	.effects = effects,
	.completions = completions,
	.state = state,
	.memory = memory,
	.copy = copy,
	.dereg = dereg,
	.reg = reg,
	.key = key,
	.mw = new_mw,
	.mw_key = mw_key,
	.destroy_qp = destroy_qp,
	.arm = arm,
	.cq_event = cq_event,
	.kill = kill_end,
	.events = events,
	.vendor_err = vendor_err,
	.qpn = qpn,
	.srq = srq,
};
