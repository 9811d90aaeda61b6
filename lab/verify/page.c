/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page: page/ with the findings and the packets in it as JSON. Nothing else is needed to look
 * at it, and nothing is loaded. Packets are columns of numbers, so that 100,000 of them are read in
 * a fraction of a second: one array for each field, or one number when all packets have the same.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "lesson.h"
#include "names.h"
#include "packetlog.h"
#include "report.h"
#include "verify.h"
#include "wire/print.h"

enum { MAX_STEPS = 5000 };

/* page/ in one, with a zero behind it; a source made of it when building. */
extern const unsigned char page_html[];

static const char data_mark[] = "@DATA@";

/* ---- columns ---- */

/* The page has the same numbers. */
enum {
	FLAG_BACK = 1,
	FLAG_DECODED = 2,
	FLAG_CUT = 4,
	FLAG_SE = 8,
	FLAG_MIGREQ = 16,
	FLAG_FECN = 32,
	FLAG_BECN = 64,
	FLAG_ACKREQ = 128,
	FLAG_AGAIN = 256,
	FLAG_LATE = 512,
	FLAG_HINT = 1024,
	FLAG_HIDES = 2048,
	FLAG_V1 = 4096,
};

static int64_t get_flags(const struct logged *e)
{
	return (e->back ? FLAG_BACK : 0) | (e->decoded ? FLAG_DECODED : 0) |
	       (e->cut ? FLAG_CUT : 0) | (e->h.se ? FLAG_SE : 0) | (e->h.migreq ? FLAG_MIGREQ : 0) |
	       (e->h.fecn ? FLAG_FECN : 0) | (e->h.becn ? FLAG_BECN : 0) |
	       (e->h.ackreq ? FLAG_ACKREQ : 0) | (e->again ? FLAG_AGAIN : 0) |
	       (e->late ? FLAG_LATE : 0) | (e->hint ? FLAG_HINT : 0) | (e->hides ? FLAG_HIDES : 0) |
	       (e->v1 ? FLAG_V1 : 0);
}

#define GETTER(name, member)                              \
	static int64_t get_##name(const struct logged *e) \
	{                                                 \
		return (int64_t)(e->member);              \
	}
GETTER(number, number)
GETTER(time, ts_ns)
GETTER(session, session)
GETTER(opcode, h.opcode)
GETTER(psn, h.psn)
GETTER(rel, psn)
GETTER(len, payload_len)
GETTER(wire, len)
GETTER(missing, missing)
GETTER(dqpn, h.dqpn)
GETTER(pkey, h.pkey)
GETTER(pad, h.pad)
GETTER(tver, h.tver)
GETTER(icrc, icrc)
GETTER(sport, ip.sport)
GETTER(ip_id, ip.ip_id)
GETTER(tclass, ip.tclass)
GETTER(hop_limit, ip.hop_limit)

static const struct column {
	const char *name;
	int64_t (*get)(const struct logged *e);
	bool delta; /* each is what it is more than the one before */
} columns[] = {
	{"number", get_number, true},
	{"time", get_time, true},
	{"session", get_session, false},
	{"flags", get_flags, false},
	{"opcode", get_opcode, false},
	{"psn", get_psn, false},
	{"rel", get_rel, false},
	{"len", get_len, false},
	{"wire", get_wire, false},
	{"missing", get_missing, false},
	{"dqpn", get_dqpn, false},
	{"pkey", get_pkey, false},
	{"pad", get_pad, false},
	{"tver", get_tver, false},
	{"icrc", get_icrc, false},
	{"sport", get_sport, false},
	{"ip_id", get_ip_id, false},
	{"tclass", get_tclass, false},
	{"hop_limit", get_hop_limit, false},
};

static bool constant(const struct packet_log *l, const struct column *c)
{
	for (unsigned i = 1; i < l->n; i++) {
		if (c->get(&l->at[i]) != c->get(&l->at[0]))
			return false;
	}
	return l->n != 0;
}

static void put_column(struct json *j, const struct packet_log *l, const struct column *c,
		       int64_t base)
{
	json_line(j);
	if (!c->delta && constant(l, c)) {
		json_i64(j, c->name, c->get(&l->at[0]));
		return;
	}
	json_open(j, c->name, '[');
	for (unsigned i = 0; i < l->n; i++) {
		int64_t value = c->get(&l->at[i]);

		/* There are many of them: without spaces. */
		fprintf(j->f, "%s%" PRId64, i != 0 ? "," : "", c->delta ? value - base : value);
		base = value;
	}
	json_close(j, ']');
}

struct header_name {
	uint32_t bit;
	const char *fields; /* "name:kind ..."; kind x: 64 bits in two numbers */
};

static const struct header_name headers[] = {
	{ROCEMU_HDR_XRCETH, "xrceth.srqn"},
	{ROCEMU_HDR_DETH, "deth.qkey deth.sqpn"},
	{ROCEMU_HDR_FETH, "feth"},
	{ROCEMU_HDR_RETH, "reth.va:x reth.rkey reth.length"},
	{ROCEMU_HDR_ATOMICETH, "atomic.va:x atomic.rkey atomic.swap_add:x atomic.compare:x"},
	{ROCEMU_HDR_AETH, "aeth.syndrome aeth.msn"},
	{ROCEMU_HDR_ATOMICACK, "atomic.original:x"},
	{ROCEMU_HDR_IMMDT, "imm"},
	{ROCEMU_HDR_IETH, "ieth.rkey"},
};

/* Numbers that a header makes in the columns. */
static unsigned header_numbers(uint32_t hdr)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		if (headers[i].bit != hdr)
			continue;
		n = 1;
		for (const char *p = headers[i].fields; *p != 0; p++)
			n += *p == ' ' || *p == ':';
	}
	return n;
}

/* JavaScript's numbers end at 2^53. */
static void put_u64(FILE *f, uint64_t value)
{
	fprintf(f, "%" PRIu32 ",%" PRIu32 ",", (uint32_t)(value >> 32), (uint32_t)value);
}

static void put_extension(FILE *f, const struct rocemu_hdrs *h, uint32_t hdr)
{
	switch (hdr) {
	case ROCEMU_HDR_XRCETH:
		fprintf(f, "%u,", h->xrceth.srqn);
		break;
	case ROCEMU_HDR_DETH:
		fprintf(f, "%u,%u,", h->deth.qkey, h->deth.sqpn);
		break;
	case ROCEMU_HDR_FETH:
		fprintf(f, "%u,", h->feth.raw);
		break;
	case ROCEMU_HDR_RETH:
		put_u64(f, h->reth.va);
		fprintf(f, "%u,%u,", h->reth.rkey, h->reth.length);
		break;
	case ROCEMU_HDR_ATOMICETH:
		put_u64(f, h->atomiceth.va);
		fprintf(f, "%u,", h->atomiceth.rkey);
		put_u64(f, h->atomiceth.swap_add);
		put_u64(f, h->atomiceth.compare);
		break;
	case ROCEMU_HDR_AETH:
		fprintf(f, "%u,%u,", h->aeth.syndrome, h->aeth.msn);
		break;
	case ROCEMU_HDR_ATOMICACK:
		put_u64(f, h->atomicack);
		break;
	case ROCEMU_HDR_IMMDT:
		fprintf(f, "%u,", h->imm);
		break;
	case ROCEMU_HDR_IETH:
		fprintf(f, "%u,", h->ieth);
		break;
	default:
		break;
	}
}

/*
 * In the order of the bits ROCEMU_HDR_*, which the page walks through; -1 is a number that was cut.
 */
static void put_extensions(FILE *f, const struct logged *e)
{
	uint32_t all = rocemu_opcode_hdrs(e->h.opcode);

	for (uint32_t left = all; left != 0; left &= left - 1) {
		uint32_t hdr = left & -left;

		if (logged_has(e, hdr))
			put_extension(f, &e->h, hdr);
		else
			for (unsigned n = header_numbers(hdr); n > 0; n--)
				fputs("-1,", f);
	}
}

static void put_log(struct json *j, const struct verify *v)
{
	const struct packet_log *l = v->log;

	json_line(j);
	json_open(j, "log", '{');
	json_u64(j, "n", l->n);
	for (unsigned i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		put_column(j, l, &columns[i],
			   columns[i].get == get_time ? (int64_t)v->first_ns : 0);
	json_line(j);
	json_open(j, "extensions", '[');
	for (unsigned i = 0; i < l->n; i++) {
		if (l->at[i].decoded)
			put_extensions(j->f, &l->at[i]);
	}
	fputc('0', j->f);
	json_close(j, ']');
	json_close(j, '}');
}

/* ---- what the columns refer to ---- */

/* Of each opcode that occurs: name, class, whether it begins and ends a message, its fields. */
static void put_opcode(struct json *j, uint8_t opcode)
{
	uint32_t ops = rocemu_opcode_ops(opcode), hdrs = rocemu_opcode_hdrs(opcode);
	char name[64], number[8], fields[256];
	struct text t = text_start(name, sizeof(name));
	const char *class = "other";
	size_t n = 0;

	if (ops & ROCEMU_OP_REQUEST)
		class = ops & ROCEMU_OP_READ_REQ ? "read" : "request";
	else if (ops & ROCEMU_OP_RESPONSE)
		class = ops & ROCEMU_OP_READ_RESP ? "data" : "response";
	name_opcode(&t, opcode);
	*fields = 0;
	for (size_t i = 0; i < ARRAY_LEN(headers); i++)
		if (hdrs & headers[i].bit)
			n += (size_t)snprintf(fields + n, sizeof(fields) - n, "%s%s", n ? " " : "",
					      headers[i].fields);
	snprintf(number, sizeof(number), "%u", opcode);
	json_open(j, number, '[');
	json_text(j, NULL, name);
	json_text(j, NULL, class);
	json_u64(j, NULL, (ops & ROCEMU_OP_FIRST) != 0);
	json_u64(j, NULL, (ops & ROCEMU_OP_LAST) != 0);
	json_text(j, NULL, fields);
	json_close(j, ']');
}

static void put_nak(struct json *j, uint8_t syndrome)
{
	char name[64], number[8];
	struct text t = text_start(name, sizeof(name));

	name_syndrome(&t, syndrome);
	snprintf(number, sizeof(number), "%u", syndrome);
	json_text(j, number, name);
}

static void put_names(struct json *j, const struct packet_log *l)
{
	bool opcodes[256] = {0}, syndromes[256] = {0};

	for (unsigned i = 0; i < l->n; i++) {
		opcodes[l->at[i].h.opcode] = true;
		if (logged_is_nak(&l->at[i]))
			syndromes[l->at[i].h.aeth.syndrome] = true;
	}
	json_line(j);
	json_open(j, "opcodes", '{');
	for (unsigned i = 0; i < 256; i++)
		if (opcodes[i])
			put_opcode(j, (uint8_t)i);
	json_close(j, '}');
	json_line(j);
	json_open(j, "naks", '{');
	for (unsigned i = 0; i < 256; i++)
		if (syndromes[i])
			put_nak(j, (uint8_t)i);
	json_close(j, '}');
}

static void put_mads(struct json *j, const struct packet_log *l)
{
	json_line(j);
	json_open(j, "mads", '{');
	for (unsigned i = 0; i < l->n; i++) {
		const struct logged *e = &l->at[i];
		const char *name = name_cm(e->mad_attr);
		char text[PRINT_MAD_MAX], number[16];

		if (e->mad == NULL)
			continue;
		print_mad(text, sizeof(text), e->mad, e->mad_len);
		snprintf(number, sizeof(number), "%u", i);
		json_line(j);
		json_open(j, number, '[');
		json_text(j, NULL, name != NULL ? name : "MAD");
		json_text(j, NULL, text);
		json_close(j, ']');
	}
	json_close(j, '}');
}

static void put_side(struct json *j, const struct session_side *s)
{
	char address[64];

	print_gid(address, sizeof(address), &s->gid);
	json_open(j, NULL, '[');
	json_text(j, NULL, address);
	json_u64(j, NULL, s->qpn);
	if (s->psn_known)
		json_u64(j, NULL, s->psn);
	else
		json_null(j, NULL);
	json_close(j, ']');
}

static void put_sessions(struct json *j, const struct packet_log *l)
{
	static const char *const kinds[] = {"connection", "datagrams", "cm", "other"};

	json_line(j);
	json_open(j, "sessions", '[');
	for (unsigned i = 0; i < l->session_n; i++) {
		const struct session *s = &l->sessions[i];

		json_line(j);
		json_open(j, NULL, '{');
		json_text(j, "kind", kinds[s->kind]);
		json_text(j, "service", service_name(s->svc));
		json_u64(j, "connection", s->connection);
		json_u64(j, "mtu", s->mtu);
		json_open(j, "sides", '[');
		put_side(j, &s->side[0]);
		put_side(j, &s->side[1]);
		json_close(j, ']');
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_step(struct json *j, unsigned session, const struct lesson *lesson,
		     const struct step *s)
{
	char text[STEP_TEXT];
	struct text t = text_start(text, sizeof(text));

	lesson_text(lesson, s, &t);
	json_line(j);
	json_open(j, NULL, '[');
	json_u64(j, NULL, session);
	json_u64(j, NULL, lesson_packet(lesson, s->first)->number);
	json_u64(j, NULL, lesson_packet(lesson, s->last)->number);
	json_text(j, NULL, text);
	json_close(j, ']');
}

/* Of all sessions: session, first and last packet, the sentence. */
static void put_steps(struct json *j, const struct packet_log *l)
{
	unsigned left = MAX_STEPS;

	json_line(j);
	json_open(j, "steps", '[');
	for (unsigned i = 0; i < l->session_n && left != 0; i++) {
		struct lesson lesson;
		bool ok = lesson_init(&lesson, l, &l->sessions[i]);

		for (unsigned k = 0; ok && k < lesson.step_n && left != 0; k++, left--)
			put_step(j, i, &lesson, &lesson.steps[k]);
		lesson_fini(&lesson);
	}
	json_close(j, ']');
	json_bool(j, "steps_cut", left == 0);
}

static void page_data(const struct verify *v, FILE *f, const char *name)
{
	const struct packet_log *l = v->log;
	struct json j = {.f = f};

	json_open(&j, NULL, '{');
	report_json(v, &j, name);
	json_line(&j);
	json_u64(&j, "left_out", l->left_out);
	put_names(&j, l);
	put_mads(&j, l);
	put_sessions(&j, l);
	put_steps(&j, l);
	put_log(&j, v);
	json_close(&j, '}');
}

bool verify_html(struct verify *v, FILE *f, const char *name)
{
	const char *page = (const char *)page_html;
	const char *mark = strstr(page, data_mark);

	if (v->log->sessions == NULL && !sessions_make(v))
		return false;
	fwrite(page, 1, (size_t)(mark - page), f);
	page_data(v, f, name);
	fputs(mark + strlen(data_mark), f);
	return true;
}
