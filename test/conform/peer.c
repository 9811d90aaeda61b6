/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server of conform-peer, whose protocol is described in lab/conform/peer/conform-peer.c: a
 * tester has a queue pair, memory, completions and events. What cases do not use is refused.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "responder.h"

enum {
	AREAS = 3,
	AREA = 128 << 10,
	COPY_MAX = 16 << 10,
	LINE = 2 * COPY_MAX + 256,
	HAPPENED = 16 << 10,
	REGIONS = 16,
	RD_ATOMIC = KEPT,
	GATHERED = BUFFER / WRS,
	FIRST_KEY = 0x1000,
	KEY_STEP = 0x100,
	ALL_RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
};

static const char *const area_names[AREAS] = {"mem", "send", "recv"};
static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

struct peer {
	int fd;
	struct qp *qp; /* borrowed; qpn shows whether it is still the same */
	uint32_t qpn;
	enum ibv_qp_state state;
	enum qp_kind kind;
	bool sig_all;
	uint8_t *area[AREAS];	       /* owned */
	struct region region[REGIONS]; /* key 0: unused; the first ones are the areas' */
	unsigned last[AREAS];	       /* the region that was registered last; REGIONS: none */
	unsigned window;	       /* REGIONS: none */
	size_t have, len, happened_len;
	char line[LINE], answer[LINE], happened[HAPPENED];
};

static uint32_t keys = FIRST_KEY;

/* ---- text ---- */

__attribute__((format(printf, 4, 5))) static void add(char *to, size_t room, size_t *len,
						      const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(to + *len, room - *len, format, ap);
	va_end(ap);
	*len = MIN(*len + (size_t)MAX(n, 0), room - 1);
}

#define SAY(p, ...)	 add((p)->answer, sizeof((p)->answer), &(p)->len, __VA_ARGS__)
#define HAPPENED(p, ...) add((p)->happened, sizeof((p)->happened), &(p)->happened_len, __VA_ARGS__)

static void refuse(struct peer *p, int error, const char *what)
{
	p->len = 0;
	SAY(p, "error %d %s", error, what);
}

/** The value of a parameter of the line; NULL: it is not given. It ends at a blank. */
static const char *value_of(const char *line, const char *name)
{
	const size_t n = strlen(name);

	for (const char *s = strchr(line, ' '); s; s = strchr(s + 1, ' '))
		if (!strncmp(s + 1, name, n) && s[1 + n] == '=')
			return s + 2 + n;
	return NULL;
}

static uint64_t number(const char *line, const char *name, uint64_t otherwise)
{
	const char *s = value_of(line, name);

	return s ? strtoull(s, NULL, 0) : otherwise;
}

static bool is(const char *s, const char *word)
{
	return s && !strncmp(s, word, strlen(word)) && strchr(" ,+", s[strlen(word)]);
}

static unsigned word(const char *s, const char *const *words, unsigned n)
{
	unsigned i = 0;

	while (i < n && !is(s, words[i]))
		i++;
	return i;
}

static unsigned hex(const char *s, uint8_t *to, unsigned max)
{
	unsigned n = 0, byte;

	for (; s && n < max && sscanf(s, "%2x", &byte) == 1 && *s != ' '; s += 2)
		to[n++] = (uint8_t)byte;
	return n;
}

/* ---- what happens ---- */

static void completion(struct qp *qp, bool recv, uint64_t id, enum ibv_wc_status status)
{
	struct peer *p = qp->app.peer;

	if (p)
		HAPPENED(p, "; completion queue=%s id=%llu status=%d vendor_err=0x0 qpn=0x%x",
			 recv ? "recv" : "send", (unsigned long long)id, (int)status, qp->qpn);
}

static void on_event(struct qp *qp, enum ibv_event_type event)
{
	struct peer *p = qp->app.peer;

	if (p)
		HAPPENED(p, "; event code=%d", (int)event);
}

static void on_received(struct qp *qp, const struct receive *r, uint32_t len,
			const struct rocemu_packet *pkt)
{
	struct peer *p = qp->app.peer;
	const uint32_t ops = rocemu_opcode_ops(pkt->h.opcode);
	const unsigned flags = (ops & ROCEMU_OP_IMM ? IBV_WC_WITH_IMM : 0) |
			       (ops & ROCEMU_OP_INV ? IBV_WC_WITH_INV : 0) |
			       (qp->kind == QP_UD ? IBV_WC_GRH : 0);

	completion(qp, true, r->id, IBV_WC_SUCCESS);
	if (!p)
		return;
	HAPPENED(p, " opcode=%d len=%u flags=0x%x src_qp=0x%x sl=0",
		 ops & ROCEMU_OP_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, len, flags,
		 qp->kind == QP_UD ? pkt->h.deth.sqpn : qp->peer_qpn);
	if (ops & ROCEMU_OP_IMM)
		HAPPENED(p, " imm=0x%x", mutant(M_IMM_TAKEN) ? 0 : pkt->h.imm);
	if (ops & ROCEMU_OP_INV)
		HAPPENED(p, " inv=0x%x", pkt->h.ieth);
}

static int wc_opcode(uint8_t opcode)
{
	const uint32_t ops = rocemu_opcode_ops(opcode);

	if (opcode == ROCEMU_RC_CMP_SWAP)
		return IBV_WC_COMP_SWAP;
	if (opcode == ROCEMU_RC_FETCH_ADD)
		return IBV_WC_FETCH_ADD;
	return ops & ROCEMU_OP_READ_REQ ? IBV_WC_RDMA_READ
	       : ops & ROCEMU_OP_WRITE	? IBV_WC_RDMA_WRITE
					: IBV_WC_SEND;
}

static void on_completed(struct qp *qp, const struct wr *wr)
{
	if ((!wr->signaled && !mutant(M_SIGNALED)) || !qp->app.peer)
		return;
	completion(qp, false, wr->id, IBV_WC_SUCCESS);
	HAPPENED(qp->app.peer, " opcode=%d len=%u flags=0x0 src_qp=0x0 sl=0", wc_opcode(wr->opcode),
		 wr->len);
}

/* ---- memory ---- */

static unsigned free_region(const struct peer *p)
{
	unsigned i = 0;

	while (i < REGIONS && p->region[i].key)
		i++;
	return i;
}

static unsigned register_area(struct peer *p, unsigned area, unsigned access, bool other_pd)
{
	const unsigned i = free_region(p);

	if (i < REGIONS)
		p->region[i] = (struct region){.key = keys += KEY_STEP,
					       .va = (uintptr_t)p->area[area],
					       .len = AREA,
					       .access = access,
					       .other_pd = other_pd,
					       .at = p->area[area]};
	return i;
}

static uint32_t key_of(const struct peer *p, unsigned area)
{
	return p->last[area] < REGIONS ? p->region[p->last[area]].key : 0;
}

static void cmd_reg(struct peer *p)
{
	const unsigned area = word(value_of(p->line, "area"), area_names, AREAS);
	unsigned i;

	if (area == AREAS)
		return refuse(p, EINVAL, "area");
	i = register_area(p, area, (unsigned)number(p->line, "access", 0),
			  number(p->line, "other_pd", 0));
	if (i == REGIONS)
		return refuse(p, ENOMEM, "regions");
	p->last[area] = i;
	SAY(p, "ok lkey=0x%x rkey=0x%x", p->region[i].key, p->region[i].key);
}

static void cmd_dereg(struct peer *p)
{
	const unsigned area = word(value_of(p->line, "area"), area_names, AREAS);

	if (area == AREAS || p->last[area] == REGIONS)
		return refuse(p, EINVAL, "area");
	if (!mutant(M_KEY_GONE))
		p->region[p->last[area]].key = 0;
	p->last[area] = REGIONS;
	SAY(p, "ok");
}

static void cmd_mw(struct peer *p)
{
	if (p->window < REGIONS)
		p->region[p->window].key = 0;
	p->window = REGIONS;
	if (!number(p->line, "type", 0)) {
		SAY(p, "ok");
		return;
	}
	p->window = free_region(p);
	if (p->window == REGIONS)
		return refuse(p, ENOMEM, "windows");
	p->region[p->window] = (struct region){.window = true, .key = keys += KEY_STEP};
	SAY(p, "ok rkey=0x%x", p->region[p->window].key);
}

static void cmd_copy(struct peer *p)
{
	const unsigned area = word(value_of(p->line, "area"), area_names, AREAS);
	const uint64_t offset = number(p->line, "offset", 0), len = number(p->line, "len", 0);

	if (area == AREAS || offset > AREA || len > MIN((uint64_t)COPY_MAX, AREA - offset))
		return refuse(p, EINVAL, "range");
	SAY(p, "ok ");
	if (!strncmp(p->line, "write", 5))
		hex(value_of(p->line, "hex"), p->area[area] + offset,
		    (unsigned)MIN((uint64_t)COPY_MAX, AREA - offset));
	for (uint64_t i = 0; i < len; i++)
		SAY(p, "%02x", p->area[area][offset + i]);
}

/* ---- the queue pair ---- */

static struct qp *alive(struct peer *p)
{
	if (p->qp && (!p->qp->used || p->qp->qpn != p->qpn))
		p->qp = NULL;
	return p->qp;
}

static void drop_qp(struct peer *p)
{
	if (alive(p)) {
		p->qp->app.peer = NULL;
		qp_destroy(p->qp);
	}
	p->qp = NULL;
}

static void cmd_qp(struct peer *p)
{
	static const char *const types[] = {[QP_RC] = "RC", [QP_UC] = "UC", [QP_UD] = "UD"};
	const struct rocemu_gid none = {{0}};
	const unsigned kind = word(value_of(p->line, "type"), types, ARRAY_LEN(types));

	drop_qp(p);
	if (kind == ARRAY_LEN(types))
		return refuse(p, EINVAL, "type");
	p->qp = qp_new((enum qp_kind)kind, &none, 0);
	if (!p->qp)
		return refuse(p, ENOMEM, "queue pairs");
	p->qpn = p->qp->qpn;
	p->state = IBV_QPS_RESET;
	p->sig_all = number(p->line, "sig_all", 0);
	p->qp->deaf = p->qp->quiet = true;
	p->qp->region = p->region;
	p->qp->regions = REGIONS;
	p->qp->app = (struct app){on_received, on_completed, completion, on_event};
	p->qp->app.peer = p;
	p->happened_len = 0;
	SAY(p, "ok qpn=0x%x send_wr=%d recv_wr=%d sge=1 inline=0", p->qpn, WRS, RECVS);
	for (unsigned i = 0; i < AREAS; i++)
		SAY(p, " %s=0x%llx,0x%x,0x%x", area_names[i],
		    (unsigned long long)(uintptr_t)p->area[i], key_of(p, i), key_of(p, i));
}

/** What a parameter changes, if it is given. */
static void set_attributes(struct peer *p, struct qp *qp)
{
	struct requester *r = &qp->req;
	const char *l = p->line, *gid = value_of(l, "gid");

	qp->mtu = qp->kind == QP_UD ? DEVICE_MTU : (uint32_t)number(l, "path_mtu", qp->mtu);
	qp->qkey = (uint32_t)number(l, "qkey", qp->qkey);
	qp->access = (unsigned)number(l, "access", qp->access);
	qp->peer_qpn = (uint32_t)number(l, "dest_qpn", qp->peer_qpn);
	qp->resp.epsn = (uint32_t)number(l, "rq_psn", qp->resp.epsn);
	qp->resp.depth = (unsigned)MIN(number(l, "dest_rd_atomic", qp->resp.depth), KEPT);
	qp->resp.rnr_timer = (uint8_t)number(l, "rnr_timer", qp->resp.rnr_timer);
	r->timeout = (uint8_t)number(l, "timeout", r->timeout);
	r->retry_cnt = r->retries = (uint8_t)number(l, "retry", r->retry_cnt);
	r->rnr_retry = r->rnr_retries = (uint8_t)number(l, "rnr_retry", r->rnr_retry);
	r->depth = (unsigned)number(l, "rd_atomic", r->depth);
	if (value_of(l, "sq_psn"))
		r->psn = r->una = r->next = r->end = (uint32_t)number(l, "sq_psn", 0);
	if (gid)
		hex(gid, qp->peer.raw, sizeof(qp->peer.raw));
}

static void cmd_modify(struct peer *p)
{
	const unsigned state = word(value_of(p->line, "state"), states, ARRAY_LEN(states));
	struct qp *qp = p->qp;

	if (state >= ARRAY_LEN(states) || state == IBV_QPS_SQD || state == IBV_QPS_SQE)
		return refuse(p, EOPNOTSUPP, "state");
	set_attributes(p, qp);
	if (state == IBV_QPS_ERR)
		qp_error(qp);
	if (state == IBV_QPS_RESET) {
		memset(&qp->resp, 0, sizeof(qp->resp));
		memset(&qp->req, 0, sizeof(qp->req));
		qp->error = qp->established = false;
	}
	p->state = (enum ibv_qp_state)state;
	qp->deaf = state < IBV_QPS_RTR;
	qp->quiet = state < IBV_QPS_RTS;
	if (!qp->deaf)
		qp_replay();
	SAY(p, "ok");
}

/** AREA+OFFSET:LENGTH */
static bool read_piece(struct peer *p, const char *s, struct piece *to)
{
	const unsigned area = word(s, area_names, AREAS);
	unsigned offset;

	if (area == AREAS || sscanf(strchr(s, '+'), "+%u:%u", &offset, &to->len) != 2 ||
	    offset > AREA || to->len > AREA - offset)
		return false;
	to->at = p->area[area] + offset;
	return true;
}

/** Pieces, with commas between. @return false: there are no such. */
static bool read_pieces(struct peer *p, struct receive *r)
{
	const char *s = value_of(p->line, "sge");

	r->piece[0].at = p->area[0];
	while (s && r->pieces < PIECES) {
		if (!read_piece(p, s, &r->piece[r->pieces]))
			return false;
		r->len += r->piece[r->pieces++].len;
		s += strcspn(s, ", ");
		if (*s != ',')
			return true;
		s++;
	}
	return !s;
}

/** The only piece. */
static bool piece(struct peer *p, uint8_t **at, uint32_t *len)
{
	struct receive r = {0};

	if (!read_pieces(p, &r) || r.pieces > 1)
		return false;
	*at = r.piece[0].at;
	*len = r.len;
	return true;
}

static void cmd_recv(struct peer *p)
{
	struct receive r = {.id = number(p->line, "id", 0)};

	if (!read_pieces(p, &r))
		return refuse(p, EINVAL, "sge");
	qp_post_recv(p->qp, &r);
	SAY(p, "ok");
}

static const struct {
	const char *name;
	uint8_t opcode;
} ops[] = {
	{"SEND", ROCEMU_RC_SEND_ONLY},
	{"SEND_WITH_IMM", ROCEMU_RC_SEND_ONLY_IMM},
	{"SEND_WITH_INV", ROCEMU_RC_SEND_ONLY_INV},
	{"RDMA_WRITE", ROCEMU_RC_WRITE_ONLY},
	{"RDMA_WRITE_WITH_IMM", ROCEMU_RC_WRITE_ONLY_IMM},
	{"RDMA_READ", ROCEMU_RC_READ_REQUEST},
	{"ATOMIC_CMP_AND_SWP", ROCEMU_RC_CMP_SWAP},
	{"ATOMIC_FETCH_AND_ADD", ROCEMU_RC_FETCH_ADD},
};

/** A window covers a piece of memory under a new key. */
static void bind_window(struct peer *p)
{
	const uint32_t key = (uint32_t)number(p->line, "rkey", 0);
	struct region *w = &p->region[p->window];
	uint32_t len;
	uint8_t *at;

	if (p->window == REGIONS || !piece(p, &at, &len))
		return refuse(p, EINVAL, "mw");
	*w = (struct region){.window = true,
			     .key = key ? key : w->key + 1,
			     .va = (uintptr_t)at,
			     .len = mutant(M_KEY_WINDOW) ? AREA : len,
			     .access = (unsigned)number(p->line, "access", 0),
			     .at = at};
	completion(p->qp, false, number(p->line, "id", 0), IBV_WC_SUCCESS);
	HAPPENED(p, " opcode=%d len=0 flags=0x0 src_qp=0x0 sl=0", IBV_WC_BIND_MW);
	SAY(p, "ok mw_rkey=0x%x", w->key);
}

/** The bytes of several pieces, one behind the other, where they stay until the request is
 * complete.
 */
static bool gather(struct peer *p, struct wr *wr)
{
	const struct requester *q = &p->qp->req;
	uint8_t *to = p->qp->buffer + (q->first + q->count) % WRS * GATHERED;
	struct receive r = {0};

	if (!read_pieces(p, &r) || (r.pieces > 1 && r.len > GATHERED))
		return false;
	wr->len = r.len;
	wr->at = r.pieces > 1 ? to : r.piece[0].at;
	for (unsigned i = 0; r.pieces > 1 && i < r.pieces; to += r.piece[i++].len)
		memcpy(to, r.piece[mutant(M_PIECES) ? 0 : i].at, r.piece[i].len);
	return true;
}

static void cmd_send(struct peer *p)
{
	const char *l = p->line, *op = value_of(l, "op");
	struct wr wr = {.id = number(l, "id", 0),
			.va = number(l, "raddr", 0),
			.rkey = (uint32_t)number(l, "rkey", 0),
			.swap_add = number(l, "swap", number(l, "add", 0)),
			.compare = number(l, "compare", 0),
			.imm = (uint32_t)number(l, "imm", number(l, "inv", 0)),
			.dqpn = (uint32_t)number(l, "qpn", 0),
			.qkey = (uint32_t)number(l, "qkey", 0)};
	unsigned i = 0;

	if (is(op, "BIND_MW"))
		return bind_window(p);
	while (i < ARRAY_LEN(ops) && !is(op, ops[i].name))
		i++;
	if (i == ARRAY_LEN(ops))
		return refuse(p, EOPNOTSUPP, "op");
	if (p->state != IBV_QPS_RTS && !p->qp->error)
		return refuse(p, EINVAL, "state");
	if (!gather(p, &wr))
		return refuse(p, EINVAL, "sge");
	if (mutant(M_INLINE) && number(l, "flags", 0) & IBV_SEND_INLINE)
		wr.at = p->area[AREAS - 1];
	wr.opcode = ops[i].opcode;
	wr.signaled = p->sig_all || number(l, "flags", 0) & IBV_SEND_SIGNALED;
	wr.fence = number(l, "flags", 0) & IBV_SEND_FENCE;
	req_post(p->qp, wr);
	SAY(p, "ok");
}

static void cmd_look(struct peer *p)
{
	const struct qp *qp = alive(p);

	SAY(p, "ok state=%s", !qp ? "none" : qp->error ? "ERR" : states[p->state]);
	if (p->happened_len)
		SAY(p, "%s", p->happened);
	p->happened_len = 0;
}

static void cmd_destroy(struct peer *p)
{
	drop_qp(p);
	SAY(p, "ok");
}

static void cmd_hello(struct peer *p)
{
	const struct rocemu_gid gid = net_gid();

	SAY(p, "ok version=1 device=responder vendor=0x0 part=0x0 firmware=- gid_index=0 gid=");
	for (unsigned i = 0; i < sizeof(gid.raw); i++)
		SAY(p, "%02x", gid.raw[i]);
	SAY(p, " mtu=%d rd_atomic=%d atomic=1 window2=1 area=%d", DEVICE_MTU, RD_ATOMIC, AREA);
}

/* ---- a tester ---- */

static const struct {
	const char *name;
	void (*does)(struct peer *p);
	bool needs_qp;
} commands[] = {
	{"hello", cmd_hello},	  {"qp", cmd_qp},	    {"modify", cmd_modify, true},
	{"send", cmd_send, true}, {"recv", cmd_recv, true}, {"destroy", cmd_destroy, true},
	{"look", cmd_look},	  {"reg", cmd_reg},	    {"dereg", cmd_dereg},
	{"mw", cmd_mw},		  {"read", cmd_copy},	    {"write", cmd_copy},
};

static bool carry_out(struct peer *p)
{
	unsigned i = 0;

	p->len = 0;
	while (i < ARRAY_LEN(commands) && (!is(p->line, commands[i].name)))
		i++;
	if (i == ARRAY_LEN(commands))
		refuse(p, ENOSYS, "no such command");
	else if (commands[i].needs_qp && !alive(p))
		refuse(p, EINVAL, "there is no queue pair");
	else
		commands[i].does(p);
	SAY(p, "\n");
	return send(p->fd, p->answer, p->len, MSG_NOSIGNAL) == (ssize_t)p->len;
}

static void peer_free(struct peer *p)
{
	drop_qp(p);
	for (unsigned i = 0; i < AREAS; i++)
		free(p->area[i]);
	close(p->fd);
	free(p);
}

struct peer *peer_new(int fd)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->fd = fd, p->window = REGIONS;
	for (unsigned i = 0; i < AREAS; i++) {
		p->area[i] = malloc(AREA);
		if (!p->area[i]) {
			peer_free(p);
			return NULL;
		}
		for (unsigned b = 0; b < AREA; b++)
			p->area[i][b] = (uint8_t)(i == 0   ? 13 * b + 5
						  : i == 1 ? 7 * b + b / 256
							   : 0xee);
		p->last[i] = register_area(p, i, i ? IBV_ACCESS_LOCAL_WRITE : ALL_RIGHTS, false);
	}
	return p;
}

bool peer_ready(struct peer *p)
{
	const ssize_t n = recv(p->fd, p->line + p->have, sizeof(p->line) - 1 - p->have, 0);
	bool good = n > 0 || (n < 0 && errno == EAGAIN);
	char *end;

	p->have += (size_t)MAX(n, 0);
	while (good && (end = memchr(p->line, '\n', p->have))) {
		*end++ = '\0';
		good = carry_out(p);
		p->have -= (size_t)(end - p->line);
		memmove(p->line, end, p->have);
	}
	if (!good || p->have == sizeof(p->line) - 1) {
		peer_free(p);
		return false;
	}
	return true;
}
