/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair of conform-peer: packets as in backend.c, and what verbs do by lines to it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conform/remote.h"
#include "conform/session.h"
#include "scenario/setup.h"

enum {
	LOOK_MS = 1, /* between two looks, unless a packet comes */
	INLINE_DATA = 64,
};

static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

/* ---- states ---- */

static void add_gid(char *line, size_t size, const struct rocemu_gid *gid)
{
	size_t len = strlen(line);

	len += (size_t)snprintf(line + len, size - len, " gid=");
	for (unsigned i = 0; i < sizeof(gid->raw); i++)
		len += (size_t)snprintf(line + len, size - len, "%02x", gid->raw[i]);
}

static int look(struct remote *r)
{
	const int error = remote_ask(r, "look");

	return error ? error : remote_read_look(r, r->answer) ? 0 : -EPROTO;
}

static unsigned all_rights(const struct remote *r)
{
	return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	       (r->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static int modify(void *world, unsigned which, enum ibv_qp_state to, const struct scenario_setup *s,
		  int mask)
{
	struct conform_world *w = world;
	struct remote *r = w->remote;
	struct ibv_qp_attr a = scenario_attr(s, 0, to);
	char line[512] = "";
	int error = look(r);

	(void)which;
	if (error)
		return error;
	a.dest_qp_num = s->dest_qp_num ? s->dest_qp_num : w->peer.qpn;
	a.qp_access_flags &= s->type == IBV_QPT_UC
				     ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
				     : all_rights(r);
	mask |= scenario_attr_mask(s->type, r->state, to);
	remote_add_attributes(line, sizeof(line), &a, mask);
	if (to == IBV_QPS_RTR)
		add_gid(line, sizeof(line), &w->peer.gid);
	error = remote_ask(r, "modify state=%s%s", state_names[to], line);
	if (!error && to != IBV_QPS_ERR)
		r->seen_error = r->told_error = false;
	return error;
}

/* ---- begin and end ---- */

static const char *type_name(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC   ? "RC"
	       : type == IBV_QPT_UC ? "UC"
	       : type == IBV_QPT_UD ? "UD"
				    : NULL;
}

static int ask_qp(const struct conform_world *w, unsigned inline_data)
{
	const struct scenario_setup *u = &w->setup;

	return remote_ask(w->remote, "qp type=%s send_wr=%u recv_wr=%u sge=%d inline=%u sig_all=%u",
			  type_name(u->type), u->send_wr, u->recv_wr, SCENARIO_QP_SGES, inline_data,
			  u->sig_all);
}

/** Not each device has inline data, or UC. */
static int create_qp(const struct conform_world *w)
{
	int error = ask_qp(w, INLINE_DATA);

	if (error)
		error = ask_qp(w, 0);
	return error && w->setup.type == IBV_QPT_UC ? -EOPNOTSUPP : error;
}

/** A second queue pair; without it QP 1 is asked whether the device has looked at what was sent. */
static void make_probe(struct conform_world *w)
{
	char gid[64] = "";
	uint64_t qpn;

	add_gid(gid, sizeof(gid), &w->peer.gid);
	w->remote->has_probe = remote_ask(w->remote, "probe qpn=%d%s", WIRE_PROBE_QPN, gid) == 0 &&
			       remote_number(w->remote->answer, "qpn", &qpn) &&
			       qpn <= ROCEMU_QPN_MASK;
	if (w->remote->has_probe)
		wire_begin(w->s->wire, (uint32_t)qpn);
}

static int make_qp(struct conform_world *w)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct scenario_setup *u = &w->setup;
	struct remote *r = w->remote;
	int error = create_qp(w);

	if (!error && !remote_read_qp(r, r->answer, u))
		error = -EPROTO;
	r->datagrams = u->type == IBV_QPT_UD;
	w->peer.device_qpn = r->qpn;
	w->peer.device_rkey = r->rkey[SCENARIO_MEM];
	memcpy(w->peer.device_va, r->va, sizeof(r->va));
	for (unsigned i = 0; i < ARRAY_LEN(way) && !error && u->state != IBV_QPS_RESET; i++) {
		error = modify(w, 0, way[i], u, 0);
		if (way[i] == u->state)
			break;
	}
	if (!error)
		make_probe(w);
	return error;
}

static int open_peer(const struct conform_session *s, struct remote *r)
{
	int error = remote_open(r, &s->o.target, s->o.port[SCENARIO_PEER_CONFORM_PEER]);

	if (!error)
		error = remote_ask(r, "hello");
	return error ? error : remote_read_hello(r, r->answer) ? 0 : -EPROTO;
}

int remote_connect(struct conform_world *w)
{
	const struct scenario_setup *u = &w->setup;
	int error;

	if (!type_name(u->type) || u->srq || u->area != SCENARIO_AREA)
		return -EOPNOTSUPP;
	w->remote = malloc(sizeof(*w->remote));
	if (!w->remote)
		return -ENOMEM;
	error = open_peer(w->s, w->remote);
	if (!error) {
		w->peer.device_gid = w->remote->gid;
		error = make_qp(w);
	}
	if (error)
		remote_end(w);
	return error;
}

void remote_end(struct conform_world *w)
{
	if (!w->remote)
		return;
	/* Behind the answer it sends nothing that the next queue pair could get. */
	remote_ask(w->remote, "destroy");
	remote_close(w->remote);
	free(w->remote);
	w->remote = NULL;
}

bool remote_there(struct conform_session *s, char *why, size_t size)
{
	struct remote *r = malloc(sizeof(*r));
	const int error = r ? open_peer(s, r) : -ENOMEM;

	if (error)
		snprintf(why, size, "TCP port %u: %s", s->o.port[SCENARIO_PEER_CONFORM_PEER],
			 r && r->len ? r->answer : strerror(-error));
	if (r)
		remote_close(r);
	free(r);
	return !error;
}

/* ---- requests ---- */

static int input(void *world, const struct scenario_packet *p)
{
	const uint32_t ops = rocemu_opcode_ops(p->h.opcode);

	if (ops & ROCEMU_OP_ATOMIC && !((struct conform_world *)world)->remote->atomics)
		return -EOPNOTSUPP;
	return conform_backend.input(world, p);
}

/** The parameters that the operation has. */
static void add_operands(const struct conform_world *w, const struct scenario_request *q,
			 char *line, size_t size)
{
	const struct remote *r = w->remote;
	const uint64_t to = scenario_peer_va(&w->peer, &q->to);
	const uint32_t rkey = q->rkey ? q->rkey : r->rkey[SCENARIO_MEM];

	if (q->opcode == IBV_WR_BIND_MW)
		snprintf(line, size, " access=%u rkey=%u", q->access, q->rkey);
	else if (q->opcode == IBV_WR_LOCAL_INV)
		snprintf(line, size, " inv=%u", q->imm);
	else if (w->setup.type == IBV_QPT_UD)
		snprintf(line, size, " imm=%u qpn=%u qkey=%u", q->imm,
			 q->remote_qpn ? q->remote_qpn : w->peer.qpn,
			 q->qkey ? q->qkey : w->setup.qkey);
	else if (q->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		snprintf(line, size, " raddr=%llu rkey=%u compare=%llu swap=%llu",
			 (unsigned long long)to, rkey, (unsigned long long)q->compare,
			 (unsigned long long)q->swap_add);
	else if (q->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		snprintf(line, size, " raddr=%llu rkey=%u add=%llu", (unsigned long long)to, rkey,
			 (unsigned long long)q->swap_add);
	else
		snprintf(line, size, " raddr=%llu rkey=%u %s=%u", (unsigned long long)to, rkey,
			 q->opcode == IBV_WR_SEND_WITH_INV ? "inv" : "imm", q->imm);
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static int post_send(void *world, unsigned which, const struct scenario_request *q)
{
	struct conform_world *w = world;
	struct remote *r = w->remote;
	char pieces[REMOTE_PIECES], operands[256];
	uint64_t key;
	int error;

	(void)which;
	if (!remote_op_name(q->opcode) || q->more || (is_atomic(q->opcode) && !r->atomics))
		return -EOPNOTSUPP;
	if (q->no_mr)
		*pieces = 0;
	else if (!remote_add_pieces(pieces, q))
		return -EINVAL;
	add_operands(w, q, operands, sizeof(operands));
	error = remote_ask(r, "send op=%s id=%llu flags=%u%s%s", remote_op_name(q->opcode),
			   (unsigned long long)(q->id ? q->id : r->sends + 1), q->flags, pieces,
			   operands);
	r->sends += !error;
	if (!error && remote_number(r->answer, "mw_rkey", &key))
		r->mw_rkey = (uint32_t)key;
	return error;
}

static int post_recv(void *world, unsigned which, const struct scenario_request *q)
{
	struct remote *r = ((struct conform_world *)world)->remote;
	char pieces[REMOTE_PIECES];
	int error;

	(void)which;
	if (q->srq)
		return -EOPNOTSUPP;
	if (!remote_add_pieces(pieces, q))
		return -EINVAL;
	error = remote_ask(r, "recv id=%llu%s", (unsigned long long)(q->id ? q->id : r->recvs + 1),
			   pieces);
	r->recvs += !error;
	return error;
}

/* ---- looks ---- */

static bool is_new_error(const struct remote *r)
{
	return r->state == IBV_QPS_ERR && !r->told_error;
}

static void drain(struct conform_world *w)
{
	const char *came;

	while ((came = conform_next(w)))
		remote_add(w->remote->packets, came);
}

/** Nothing is to come: what was sent has been looked at when the probe has answered. */
static bool has_settled(const struct conform_world *w, unsigned n)
{
	if (n)
		return true;
	if (w->remote->has_probe)
		return wire_probe(w->s->wire, &w->peer) == 0;
	return gsi_hello(w->s) == 0 && gsi_hello(w->s) == 0;
}

/**
 * All that has come. The NAK of an error may be behind the state: the probe answers behind it.
 * @return false: the peer does not answer.
 */
static bool see(struct conform_world *w)
{
	drain(w);
	if (look(w->remote))
		return false;
	if (is_new_error(w->remote) && !w->remote->seen_error) {
		w->remote->seen_error = true;
		has_settled(w, 0);
		drain(w);
	}
	return true;
}

/** Wait until there are n, or for too long. @return false: the peer does not answer. */
static bool wait_for(struct conform_world *w, unsigned (*have)(const struct remote *r), unsigned n)
{
	const uint64_t until = conform_now() + w->s->o.patience_ms * (uint64_t)NS_PER_MS;
	struct pollfd p = {.fd = wire_fd(w->s->wire), .events = POLLIN};

	while (see(w)) {
		if (have(w->remote) >= n || conform_now() >= until)
			return true;
		poll(&p, 1, LOOK_MS);
	}
	return false;
}

static void run_wait(void *world, uint64_t ns)
{
	struct conform_world *w = world;
	const uint64_t begin = conform_now();
	struct pollfd p = {.fd = wire_fd(w->s->wire), .events = POLLIN};

	while (ns != UINT64_MAX && conform_now() - begin < ns) {
		drain(w);
		poll(&p, 1, LOOK_MS);
	}
}

static unsigned effects_of(const struct remote *r)
{
	return remote_count(r->packets) + remote_count(r->completions) + is_new_error(r);
}

static unsigned completions_of(const struct remote *r)
{
	return remote_count(r->completions);
}

static unsigned events_of(const struct remote *r)
{
	return remote_count(r->events);
}

/** Packets, completions, and the error state; asynchronous events have a command of their own. */
static const char *effects(void *world, unsigned which, unsigned n)
{
	struct conform_world *w = world;
	struct remote *r = w->remote;

	(void)which;
	w->text[0] = 0;
	if (!has_settled(w, n))
		return "THE PROBE DOES NOT ANSWER";
	if (!wait_for(w, effects_of, n))
		return "CONFORM-PEER DOES NOT ANSWER";
	if (*r->packets)
		remote_add(w->text, r->packets);
	if (*r->completions)
		remote_add(w->text, r->completions);
	if (is_new_error(r))
		remote_add(w->text, "ERR");
	r->told_error |= is_new_error(r);
	*r->packets = *r->completions = 0;
	return w->text;
}

static const char *taken(struct conform_world *w, char *list)
{
	memcpy(w->text, list, sizeof(w->text));
	*list = 0;
	return w->text;
}

static const char *completions(void *world, unsigned which, unsigned n)
{
	struct conform_world *w = world;

	(void)which;
	if (!has_settled(w, n))
		return "THE PROBE DOES NOT ANSWER";
	if (!wait_for(w, completions_of, n))
		return "CONFORM-PEER DOES NOT ANSWER";
	return taken(w, w->remote->completions);
}

static const char *events(void *world, unsigned which, unsigned n)
{
	struct conform_world *w = world;

	(void)which;
	if (!wait_for(w, events_of, n))
		return "CONFORM-PEER DOES NOT ANSWER";
	return taken(w, w->remote->events);
}

static enum ibv_qp_state state(void *world, unsigned which)
{
	struct conform_world *w = world;

	(void)which;
	return see(w) ? w->remote->state : IBV_QPS_UNKNOWN;
}

/* ---- memory ---- */

static uint8_t *memory(void *world, unsigned which, enum scenario_area area)
{
	struct conform_world *w = world;

	(void)which;
	return area == SCENARIO_LAST ? w->payload : w->remote->memory[area];
}

static int read_memory(struct remote *r, unsigned area, uint64_t offset, unsigned len)
{
	const int error = remote_ask(r, "read area=%s offset=%llu len=%u", remote_area[area],
				     (unsigned long long)offset, len);

	if (error)
		return error;
	return remote_bytes(r->answer + 3, "", r->memory[area] + offset, len) == (int)len ? 0
											  : -EPROTO;
}

static int write_memory(struct remote *r, unsigned area, uint64_t offset, unsigned len)
{
	char hex[2 * REMOTE_COPY + 1];

	for (unsigned i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", r->memory[area][offset + i]);
	hex[2 * len] = 0;
	return remote_ask(r, "write area=%s offset=%llu hex=%s", remote_area[area],
			  (unsigned long long)offset, hex);
}

static void copy(void *world, unsigned which, enum scenario_area area, uint64_t offset,
		 uint64_t len, bool changed)
{
	struct remote *r = ((struct conform_world *)world)->remote;
	int error = 0;

	(void)which;
	if (area >= SCENARIO_AREAS)
		return;
	for (uint64_t done = 0; done < len && !error; done += REMOTE_COPY) {
		const unsigned n = (unsigned)MIN(len - done, (uint64_t)REMOTE_COPY);

		error = changed ? write_memory(r, area, offset + done, n)
				: read_memory(r, area, offset + done, n);
	}
	/* Memory that was not read must not look right. */
	if (error)
		remote_close(r);
	if (error && !changed)
		for (uint64_t i = 0; i < len; i++)
			r->memory[area][offset + i] = (uint8_t)~scenario_byte(area, offset + i);
}

/* ---- regions and windows ---- */

static int dereg(void *world, unsigned which, enum scenario_area area)
{
	(void)which;
	return remote_ask(((struct conform_world *)world)->remote, "dereg area=%s",
			  remote_area[area]);
}

static int reg(void *world, unsigned which, enum scenario_area area, int access, bool other_pd)
{
	struct conform_world *w = world;
	struct remote *r = w->remote;
	uint64_t lkey, rkey;
	int error;

	(void)which;
	if (access < 0)
		access = area == SCENARIO_MEM ? (int)all_rights(r) : IBV_ACCESS_LOCAL_WRITE;
	error = remote_ask(r, "reg area=%s access=%d other_pd=%d", remote_area[area], access,
			   other_pd);
	if (error)
		return error;
	if (!remote_number(r->answer, "lkey", &lkey) || !remote_number(r->answer, "rkey", &rkey))
		return -EPROTO;
	r->lkey[area] = (uint32_t)lkey;
	r->rkey[area] = (uint32_t)rkey;
	w->peer.device_rkey = r->rkey[SCENARIO_MEM];
	return 0;
}

static uint32_t key(void *world, unsigned which, enum scenario_area area, bool remote)
{
	const struct remote *r = ((struct conform_world *)world)->remote;

	(void)which;
	return remote ? r->rkey[area] : r->lkey[area];
}

static int new_mw(void *world, unsigned which, unsigned type, bool other_pd)
{
	struct remote *r = ((struct conform_world *)world)->remote;
	const int error = remote_ask(r, "mw type=%u other_pd=%d", type, other_pd);
	uint64_t rkey = 0;

	(void)which;
	if (!error && type && !remote_number(r->answer, "rkey", &rkey))
		return -EPROTO;
	r->mw_rkey = (uint32_t)rkey;
	return error;
}

static bool mw_key(void *world, unsigned which, uint32_t *rkey)
{
	(void)which;
	*rkey = ((struct conform_world *)world)->remote->mw_rkey;
	return *rkey;
}

static int destroy_qp(void *world, unsigned which)
{
	(void)which;
	return remote_ask(((struct conform_world *)world)->remote, "destroy");
}

const struct scenario_backend *remote_backend(void)
{
	static struct scenario_backend b;

	b = conform_backend;
	b.input = input;
	b.post_send = post_send;
	b.post_recv = post_recv;
	b.modify = modify;
	b.wait = run_wait;
	b.effects = effects;
	b.completions = completions;
	b.events = events;
	b.state = state;
	b.memory = memory;
	b.copy = copy;
	b.dereg = dereg;
	b.reg = reg;
	b.key = key;
	b.mw = new_mw;
	b.mw_key = mw_key;
	b.destroy_qp = destroy_qp;
	return &b;
}
