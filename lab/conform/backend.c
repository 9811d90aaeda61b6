/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair of a device, of which the tester has its packets only: a back end of scenarios. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conform/session.h"

enum { WINDOW_NS = 10 * NS_PER_MS, WINDOW_PACKETS = 500 };

static struct conform_session *session;

void conform_use(struct conform_session *s)
{
	session = s;
}

/* ---- begin and end ---- */

/** The case has QP 1, and no other. */
static int use_gsi(struct conform_world *w)
{
	if (w->setup.type != IBV_QPT_UD)
		return -EOPNOTSUPP;
	w->peer.device_qpn = ROCEMU_GSI_QPN;
	w->setup.qkey = ROCEMU_GSI_QKEY;
	w->s->case_id = w->s->comm_id;
	w->s->gsi = true;
	return 0;
}

/** A connection that a case left to the end is none any more. */
static void leave_gsi(struct conform_world *w)
{
	const struct scenario_exchange *x = &w->peer.exchange;

	w->s->gsi = false;
	if (!x->qpn || x->over)
		return;
	w->comm_id = x->comm_id;
	w->remote_comm_id = x->peer_id;
	w->peer.device_qpn = x->qpn;
	rping_end(w);
}

static int connect_to(struct conform_world *w)
{
	switch (w->s->kind) {
	case SCENARIO_PEER_RC_PINGPONG:
		return w->setup.type == IBV_QPT_RC ? pingpong_connect(w) : -EOPNOTSUPP;
	case SCENARIO_PEER_UC_PINGPONG:
		return w->setup.type == IBV_QPT_UC ? pingpong_connect(w) : -EOPNOTSUPP;
	case SCENARIO_PEER_UD_PINGPONG:
		return w->setup.type == IBV_QPT_UD ? pingpong_connect(w) : -EOPNOTSUPP;
	case SCENARIO_PEER_RPING:
		return w->setup.type == IBV_QPT_RC ? rping_connect(w) : use_gsi(w);
	case SCENARIO_PEER_WRITE_BW:
	case SCENARIO_PEER_READ_BW:
	case SCENARIO_PEER_ATOMIC_BW:
		return w->setup.type == IBV_QPT_RC ? perftest_connect(w) : -EOPNOTSUPP;
	case SCENARIO_PEER_CONFORM_PEER:
		return remote_connect(w);
	case SCENARIO_PEER_NONE:
		return use_gsi(w);
	default:
		return -EOPNOTSUPP;
	}
}

void conform_choose_port(struct scenario_peer *peer)
{
	uint64_t v = (uint64_t)peer->qpn * peer->device_qpn;

	v ^= v >> 20;
	v ^= v >> 40;
	peer->sport = ibv_flow_label_to_udp_sport((uint32_t)v & 0xfffff);
}

/** Has a line of the case this word? */
static bool names(const struct conform_case *c, const char *word)
{
	const struct scenario_case *from = &c->s->cases[c->number];

	for (unsigned i = 0; i < from->lines; i++)
		if (strstr(c->s->line[from->first + i].text, word))
			return true;
	return false;
}

static void *start(const struct scenario_setup *given, int *error)
{
	struct conform_world *w = calloc(1, sizeof(*w));

	*error = -ENOMEM;
	if (!w)
		return NULL;
	w->s = session;
	w->takes_cnps = session->c && names(session->c, "cnp");
	w->setup = *given;
	w->peer = (struct scenario_peer){.setup = &w->setup,
					 .gid = wire_gid(session->wire),
					 .device_gid = session->o.target,
					 .qpn = ++session->qpn};
	w->setup.ip = rocemu_gid_is_ipv4(&w->peer.gid) ? 4 : 6;
	wire_begin(session->wire, 0);
	session->count = 0;
	session->world = w;
	session->ending = false;
	*error = given->ends == 1 && given->ip <= w->setup.ip ? connect_to(w) : -EOPNOTSUPP;
	conform_choose_port(&w->peer);
	if (!*error)
		return w;
	session->world = NULL;
	free(w);
	return NULL;
}

static void disconnect(struct conform_world *w)
{
	switch (w->s->kind) {
	case SCENARIO_PEER_RC_PINGPONG:
	case SCENARIO_PEER_UC_PINGPONG:
	case SCENARIO_PEER_UD_PINGPONG:
		pingpong_end(w);
		break;
	case SCENARIO_PEER_RPING:
		rping_end(w);
		break;
	case SCENARIO_PEER_WRITE_BW:
	case SCENARIO_PEER_READ_BW:
	case SCENARIO_PEER_ATOMIC_BW:
		perftest_end(w);
		break;
	case SCENARIO_PEER_CONFORM_PEER:
		remote_end(w);
		break;
	default:
		break;
	}
}

static void end(void *world)
{
	struct conform_world *w = world;

	w->s->ending = true;
	w->s->world = NULL;
	if (w->s->gsi)
		leave_gsi(w);
	else
		disconnect(w);
	free(w);
}

static void actual(void *world, unsigned which, struct scenario_setup *s)
{
	const struct conform_world *w = world;

	(void)which;
	*s = w->setup;
}

/* ---- packets ---- */

void conform_pace(struct conform_session *s)
{
	uint64_t now = conform_now();

	if (now - s->window_ns >= WINDOW_NS) {
		s->window_ns = now;
		s->sent = 0;
	}
	if (s->sent++ < WINDOW_PACKETS)
		return;
	now = s->window_ns + WINDOW_NS - now;
	nanosleep(&(struct timespec){.tv_nsec = (long)now}, NULL);
}

int conform_send(struct conform_world *w, struct scenario_packet *p)
{
	conform_pace(w->s);
	scenario_peer_complete(&w->peer, p);
	return wire_send(w->s->wire, &w->peer, p);
}

static int post_send(void *world, unsigned which, const struct scenario_request *r)
{
	struct conform_world *w = world;

	(void)which;
	return w->s->kind == SCENARIO_PEER_RPING && w->setup.type == IBV_QPT_RC ? rping_post(w, r)
										: -EOPNOTSUPP;
}

static int modify(void *world, unsigned which, enum ibv_qp_state to, const struct scenario_setup *s,
		  int mask)
{
	struct conform_world *w = world;

	(void)which;
	(void)s;
	(void)mask;
	return w->s->kind == SCENARIO_PEER_RPING && w->setup.state == IBV_QPS_RTR &&
			       to == IBV_QPS_RTS
		       ? rping_establish(w)
		       : -EOPNOTSUPP;
}

static int input(void *world, const struct scenario_packet *given)
{
	struct conform_world *w = world;
	struct scenario_packet p = *given;
	const bool nak = (p.h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) != ROCEMU_AETH_ACK;
	int error;

	if (rocemu_opcode_ops(p.h.opcode) & ROCEMU_OP_RESPONSE &&
	    !scenario_given(&p, SCENARIO_PACKET_MSN))
		p.h.aeth.msn = requests_msn(w, (p.h.psn - nak) & ROCEMU_PSN_MASK);
	if (p.mad.attr_id && !p.again)
		scenario_peer_begin_mad(&w->peer, &p, ++w->s->comm_id);
	error = conform_send(w, &p);
	wire_mark(w->s->wire);
	/* It does not fit the tester's link. */
	return error == -EMSGSIZE ? -EOPNOTSUPP : error;
}

static const char *why_not(void *world)
{
	const struct conform_world *w = world;

	return wire_why_not(w->s->wire);
}

/** What a packet tells of the PSN that the device expects. */
static void note_expected(struct conform_world *w, const struct rocemu_hdrs *h)
{
	const uint32_t psn = (h->psn - w->setup.rq_psn) & ROCEMU_PSN_MASK;

	if (!(rocemu_opcode_hdrs(h->opcode) & ROCEMU_HDR_AETH) ||
	    rocemu_opcode_ops(h->opcode) & ROCEMU_OP_READ_RESP)
		return;
	w->ahead = (h->aeth.syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK
			   ? (psn + 1) & ROCEMU_PSN_MASK
			   : psn;
}

/** How many receives the device offers by an ACK is no difference: most devices count them. */
static const char *without_credits(const char *text)
{
	static const char word[] = " credits ";
	static char line[SCENARIO_LINE_MAX];
	const char *at = strstr(text, word);
	size_t n;

	if (!at)
		return text;
	n = strlen(word) + strspn(at + strlen(word), "0123456789");
	snprintf(line, sizeof(line), "%.*s%s", (int)(at - text), text, at + n);
	return line;
}

/** A packet that came: is it an effect? */
static bool is_effect(struct conform_world *w, const struct rocemu_hdrs *h)
{
	bool again;

	if (h->opcode == ROCEMU_CNP && !w->takes_cnps)
		return false;
	note_expected(w, h);
	if (w->setup.type != IBV_QPT_RC)
		return true;
	if (!(rocemu_opcode_ops(h->opcode) & ROCEMU_OP_REQUEST))
		return !rping_is_own_ack(w, h);
	again = requests_note(w, h);
	if (w->answers || (again && w->answers_repeats))
		requests_answer(w, h);
	/* What came before the tester's last packet is no effect of that. */
	if (again && wire_read_ns(w->s->wire) < wire_marked_ns(w->s->wire))
		return false;
	return !w->answers && !(again && (w->answers_repeats || w->ignores_repeats));
}

static void keep_last(struct conform_world *w, const struct rocemu_packet *p)
{
	wire_effect(w->s->wire, wire_read_ns(w->s->wire));
	if (!p)
		return;
	w->last = *p;
	w->last_ip = *wire_last_ip(w->s->wire);
	w->any_last = true;
	memcpy(w->payload, wire_last_payload(w->s->wire), p->payload_len);
}

const char *conform_next(struct conform_world *w)
{
	const char *text;

	while ((text = wire_next(w->s->wire, &w->peer))) {
		const struct rocemu_packet *p = wire_last(w->s->wire);

		if (p && !is_effect(w, &p->h))
			continue;
		if (p && scenario_is_mad(&p->h))
			scenario_peer_take_mad(&w->peer, wire_last_payload(w->s->wire),
					       p->payload_len);
		keep_last(w, p);
		return p ? without_credits(text) : text;
	}
	return rping_leaves(w) ? "DREQ" : NULL;
}

/* ---- looks ---- */

/**
 * What comes is answered in the order of packets of one queue pair; so a case shows by a good
 * packet that a bad one had no effect. Nothing has to be waited for here.
 */
static int settle(void *world)
{
	(void)world;
	return 0;
}

/** Add what has come to the effects. */
static void drain(struct conform_world *w)
{
	const char *came;

	if (w->shown) {
		w->len = w->count = 0;
		w->text[0] = 0;
		w->shown = false;
	}
	while ((came = conform_next(w))) {
		w->len += (size_t)snprintf(w->text + w->len, sizeof(w->text) - w->len, "%s%s",
					   w->len ? "; " : "", came);
		w->len = MIN(w->len, sizeof(w->text) - 1);
		w->count++;
	}
}

/** Until there are n effects, or so many ns are over. */
static void wait_for(struct conform_world *w, unsigned n, uint64_t ns)
{
	const uint64_t until = conform_now() + ns;
	struct pollfd wait = {.fd = wire_fd(w->s->wire), .events = POLLIN};

	for (;;) {
		const uint64_t now = conform_now();

		drain(w);
		if (w->count >= n || now >= until)
			return;
		poll(&wait, 1, (int)((until - now) / NS_PER_MS) + 1);
	}
}

/** Nothing is asked for: QP 1 has answered twice behind what was sent. */
static const char *effects(void *world, unsigned which, unsigned n)
{
	struct conform_world *w = world;

	(void)which;
	if (!n && (gsi_hello(w->s) || gsi_hello(w->s)))
		return "QP 1 DOES NOT ANSWER";
	wait_for(w, n, w->s->o.patience_ms * (uint64_t)NS_PER_MS);
	w->shown = true;
	return w->text;
}

static void run_wait(void *world, uint64_t ns)
{
	if (ns != UINT64_MAX)
		wait_for(world, UINT_MAX, ns);
}

static void ignore_repeats(void *world, bool ignore)
{
	struct conform_world *w = world;

	drain(w);
	w->ignores_repeats = ignore;
}

static const struct rocemu_packet *last(void *world, unsigned which)
{
	struct conform_world *w = world;

	(void)which;
	return w->any_last ? &w->last : NULL;
}

static void last_ip(void *world, struct scenario_ip *ip)
{
	const struct conform_world *w = world;
	const struct ip_udp *h = &w->last_ip;

	*ip = (struct scenario_ip){.sport = h->sport, .tclass = h->tclass, .ttl = h->hop_limit};
}

static uint8_t *memory(void *world, unsigned which, enum scenario_area area)
{
	struct conform_world *w = world;

	(void)which;
	return area == SCENARIO_LAST ? w->payload : NULL;
}

static uint64_t address(void *world, const struct scenario_place *p)
{
	struct conform_world *w = world;

	return scenario_peer_va(&w->peer, p);
}

static uint32_t key(void *world, unsigned which, enum scenario_area area, bool remote)
{
	const struct conform_world *w = world;

	(void)which;
	return area == SCENARIO_MEM && remote ? w->peer.device_rkey : 0;
}

static uint32_t qpn(void *world, unsigned which)
{
	struct conform_world *w = world;

	(void)which;
	return w->peer.device_qpn;
}

static uint32_t comm_id(void *world)
{
	const struct conform_world *w = world;

	return w->peer.exchange.comm_id;
}

static int run_answer(void *world, bool repeats)
{
	struct conform_world *w = world;

	w->answers |= !repeats;
	w->answers_repeats |= repeats;
	return 0;
}

static bool latency(void *world, uint64_t *ns)
{
	const struct conform_world *w = world;

	return wire_latency(w->s->wire, ns);
}

static bool interval(void *world, uint64_t *ns)
{
	const struct conform_world *w = world;

	return wire_interval(w->s->wire, ns);
}

/** Packets that leave now are those of this line, if it sends. */
static void begin_line(void *world, const struct scenario_line *l)
{
	const struct conform_world *w = world;

	w->s->line = strstr(l->text, "< ") ? l->number : 0;
}

const struct scenario_backend conform_backend = {
	.start = start,
	.end = end,
	.actual = actual,
	.post_send = post_send,
	.modify = modify,
	.line = begin_line,
	.input = input,
	.why_not = why_not,
	.wait = run_wait,
	.settle = settle,
	.effects = effects,
	.last = last,
	.last_ip = last_ip,
	.memory = memory,
	.address = address,
	.key = key,
	.qpn = qpn,
	.comm_id = comm_id,
	.answer = run_answer,
	.ignore_repeats = ignore_repeats,
	.latency = latency,
	.interval = interval,
};
