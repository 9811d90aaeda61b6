/* SPDX-License-Identifier: BSD-2-Clause */
#include "scenario.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"

/* ---- steps ---- */

static void a_connects(struct net *n)
{
	net_connect(n, A);
}

static void a_disconnects(struct net *n)
{
	n->side[A].refused += cm_disconnect(n->side[A].conn, n->now, NULL, 0) != 0;
}

static void b_disconnects(struct net *n)
{
	n->side[B].refused += cm_disconnect(n->side[B].conn, n->now, NULL, 0) != 0;
}

static void both_disconnect(struct net *n)
{
	a_disconnects(n);
	b_disconnects(n);
}

static void a_destroys(struct net *n)
{
	cm_conn_destroy(n->side[A].conn, n->now);
	n->side[A].conn = NULL;
}

static void both_destroy(struct net *n)
{
	a_destroys(n);
	cm_conn_destroy(n->side[B].conn, n->now);
	n->side[B].conn = NULL;
}

static void propose(struct net *n, unsigned side)
{
	struct rocemu_cm_path path = cm_conn_req(n->side[side].conn)->primary;

	path.local_gid.raw[15] += 100;
	assert_int_equal(cm_lap(n->side[side].conn, n->now, &path, CM_DEFAULT_TIMEOUT, NULL, 0), 0);
}

static void a_proposes(struct net *n)
{
	propose(n, A);
}

static void b_proposes(struct net *n)
{
	propose(n, B);
}

static void a_asks(struct net *n)
{
	net_sidr(n, A);
}

static void b_stops_listening(struct net *n)
{
	cm_unlisten(n->side[B].listener, n->now);
}

/** A has sent its RTU, and data right behind it, which comes first. */
static void b_learns_by_data(struct net *n)
{
	net_connect(n, A);
	while (cm_conn_state(n->side[A].conn) != CM_ESTABLISHED)
		net_run_until(n, n->now + NET_DELAY_NS);
	assert_true(cm_establish(n->side[B].conn, n->now) >= 0);
}

/** Both connect to each other's service at once: two connections, which have nothing to do with
 * each other. */
static void both_connect(struct net *n)
{
	const struct cm_listen_param listen = {.service_id = NET_SERVICE, .any_addr = true};
	struct cm_connect_param p;

	assert_int_equal(cm_listen(n->side[A].cm, &listen, &n->side[A].listener), 0);
	net_connect_param(n, A, &p);
	p.req.local_qpn = 0x666;
	assert_int_equal(cm_connect(n->side[A].cm, n->now, &p, &n->side[A].extra), 0);
	net_connect_param(n, B, &p);
	p.req.local_qpn = 0x777;
	assert_int_equal(cm_connect(n->side[B].cm, n->now, &p, &n->side[B].extra), 0);
}

static void peers_connect(struct net *n)
{
	struct cm_connect_param p;

	b_stops_listening(n);
	for (unsigned i = 0; i < 2; i++) {
		net_connect_param(n, i, &p);
		p.peer_to_peer = true;
		assert_int_equal(cm_connect(n->side[i].cm, n->now, &p, &n->side[i].conn), 0);
	}
}

static void peer_is_late(struct net *n, unsigned first)
{
	struct cm_connect_param p;

	b_stops_listening(n);
	for (unsigned i = 0; i < 2; i++) {
		unsigned side = i ? !first : first;

		net_connect_param(n, side, &p);
		p.peer_to_peer = true;
		assert_int_equal(cm_connect(n->side[side].cm, n->now, &p, &n->side[side].conn), 0);
		net_run_until(n, n->now + 1000000000);
	}
}

static void peer_a_first(struct net *n)
{
	peer_is_late(n, A);
}

static void peer_b_first(struct net *n)
{
	peer_is_late(n, B);
}

#define TW "; TIMEWAIT_EXIT"

/* clang-format off */
const struct scenario scenarios[] = {
	{ "connect, A disconnects", { 0, 0 }, false, { a_connects, a_disconnects },
	  { { "REP; DREP" TW, "REQ; RTU; DREQ" TW } } },
	{ "connect, B disconnects", { 0, 0 }, false, { a_connects, b_disconnects },
	  { { "REP; DREQ" TW, "REQ; RTU; DREP" TW } } },
	{ "both disconnect at once", { 0, 0 }, false, { a_connects, both_disconnect },
	  { { "REP; DREP" TW, "REQ; RTU; DREP" TW } } },
	{ "A destroys when connected", { 0, 0 }, false, { a_connects, a_destroys },
	  { { "REP", "REQ; RTU; DREQ" TW } } },
	{ "B destroys instead of DREP", { 0, NET_DESTROY }, false, { a_connects, a_disconnects },
	  { { "REP; DREP" TW, "REQ; RTU; DREQ" } } },
	{ "both destroy at once", { 0, 0 }, false, { a_connects, both_destroy },
	  { { "REP", "REQ; RTU" } } },
	{ "A disconnects with its RTU", { NET_HASTY, 0 }, false, { a_connects },
	  { { "REP; DREP" TW, "REQ; RTU; DREQ" TW }, { "REP; DREP" TW, "REQ; DREQ" TW } } },
	{ "B disconnects at the RTU", { 0, NET_HASTY }, false, { a_connects },
	  { { "REP; DREQ" TW, "REQ; RTU; DREP" TW } } },
	{ "both disconnect in haste", { NET_HASTY, NET_HASTY }, false, { a_connects },
	  { { "REP; DREP" TW, "REQ; RTU; DREQ" TW }, { "REP; DREP" TW, "REQ; DREQ" TW },
	    { "REP; DREP" TW, "REQ; RTU; DREP" TW } } },
	{ "data comes before the RTU", { 0, 0 }, false, { b_learns_by_data, a_disconnects },
	  { { "REP; DREP" TW, "REQ; DREQ" TW }, { "REP; DREP" TW, "REQ; RTU; DREQ" TW } } },
	{ "B rejects", { 0, NET_REJECT }, false, { a_connects },
	  { { "REJ 28", "REQ" } } },
	{ "A rejects the REP", { NET_REJECT_REP, 0 }, false, { a_connects },
	  { { "REP" TW, "REQ; REJ 28" TW }, { "REP" TW, "REQ; REJ 10" TW }, { "REP" TW, "REQ; REJ 6" TW } } },
	{ "nobody listens", { 0, 0 }, false, { b_stops_listening, a_connects },
	  { { "REJ 8", "" } } },
	{ "B needs time", { 0, NET_MRA }, false, { a_connects, a_disconnects },
	  { { "MRA; REP; DREP" TW, "REQ; RTU; DREQ" TW }, { "REP; DREP" TW, "REQ; RTU; DREQ" TW } } },
	{ "A needs time", { NET_MRA, 0 }, false, { a_connects, b_disconnects },
	  { { "REP; DREQ" TW, "REQ; MRA; RTU; DREP" TW }, { "REP; DREQ" TW, "REQ; RTU; DREP" TW } } },
	{ "both need time, and do not say so", { NET_SLOW, NET_SLOW }, false, { a_connects, a_disconnects },
	  { { "REP; DREP" TW, "REQ; RTU; DREQ" TW } } },
	{ "B needs time to reject", { 0, NET_MRA | NET_REJECT }, false, { a_connects },
	  { { "MRA; REJ 28", "REQ" }, { "REJ 28", "REQ" } } },
	{ "A proposes a path", { 0, 0 }, false, { a_connects, a_proposes, a_proposes, a_disconnects },
	  { { "REP; APR; APR; DREP" TW, "REQ; RTU; LAP; LAP; DREQ" TW } } },
	{ "B proposes a path", { 0, 0 }, false, { a_connects, b_proposes, b_proposes, a_disconnects },
	  { { "REP; LAP; LAP; DREP" TW, "REQ; RTU; APR; APR; DREQ" TW } } },
	{ "a path that needs time", { 0, NET_MRA }, false, { a_connects, a_proposes, a_disconnects },
	  { { "MRA; REP; MRA; APR; DREP" TW, "REQ; RTU; LAP; DREQ" TW },
	    { "REP; MRA; APR; DREP" TW, "REQ; RTU; LAP; DREQ" TW },
	    { "MRA; REP; APR; DREP" TW, "REQ; RTU; LAP; DREQ" TW },
	    { "REP; APR; DREP" TW, "REQ; RTU; LAP; DREQ" TW } } },
	{ "REQs cross", { 0, 0 }, true, { both_connect },
	  { { "REQ; REP; RTU", "REQ; REP; RTU" } } },
	{ "peer to peer", { 0, 0 }, false, { peers_connect, a_disconnects },
	  { { "REQ; RTU; DREP" TW, "REP; DREQ" TW } } },
	{ "peer to peer, the passive one first", { 0, 0 }, false, { peer_a_first, b_disconnects },
	  { { "REQ; RTU; DREQ" TW, "REP; DREP" TW } } },
	{ "peer to peer, the active one first", { 0, 0 }, false, { peer_b_first, b_disconnects },
	  { { "REQ; RTU; DREQ" TW, "REP; DREP" TW } } },
	{ "SIDR", { 0, 0 }, false, { a_asks },
	  { { "SIDR_REP", "SIDR_REQ" } } },
	{ "SIDR, nobody listens", { 0, 0 }, false, { b_stops_listening, a_asks },
	  { { "SIDR_REP", "" } } },
};
/* clang-format on */
const unsigned scenario_count = ARRAY_LEN(scenarios);

static unsigned count(const char *log, const char *event)
{
	size_t len = strlen(event);
	unsigned n = 0;

	for (const char *p = log; *p; p += strspn(p, "; ")) {
		size_t word = strcspn(p, ";");

		n += word == len && !strncmp(p, event, len);
		p += word;
	}
	return n;
}

/** The same events, in whatever order. */
static bool same_events(const char *a, const char *b)
{
	if (strlen(a) != strlen(b))
		return false;
	for (unsigned type = 0; type < CM_EV_COUNT; type++) {
		const char *event = cm_event_text((enum cm_event_type)type);

		if (count(a, event) != count(b, event))
			return false;
	}
	return true;
}

static bool log_equal(const struct scenario *s, const char *a, const char *b)
{
	return s->any_order ? same_events(a, b) : !strcmp(a, b);
}

static bool log_allowed(const struct scenario *s, const struct net *n)
{
	for (unsigned i = 0; i < SCENARIO_LOGS && s->logs[i].a; i++)
		if (log_equal(s, s->logs[i].a, n->side[A].log) &&
		    log_equal(s, s->logs[i].b, n->side[B].log))
			return true;
	return false;
}

void scenario_run(const struct scenario *s, struct net *n, const char *what)
{
	for (unsigned i = 0; i < 2; i++)
		n->side[i].policy = s->policy[i];
	for (unsigned i = 0; i < SCENARIO_STEPS && s->steps[i]; i++) {
		s->steps[i](n);
		net_run(n);
	}
	if (!log_allowed(s, n) || n->side[A].refused || n->side[B].refused)
		fail_msg("%s, %s:\nA %s\nB %s\nwire %s\nrefused %u %u", s->name, what,
			 n->side[A].log, n->side[B].log, n->wire, n->side[A].refused,
			 n->side[B].refused);
	net_finish(n);
}
