/* SPDX-License-Identifier: BSD-2-Clause */
/* What the words of a line mean: names, and the fields of requests and QPs. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "scenario/internal.h"

#include "base/util.h"

static const struct field setup_fields[] = {
#define X(name, member, max, value) FIELD(scenario_setup, name, member, max),
	SCENARIO_SETUP_FIELDS(X)
#undef X
};
static const struct field request_fields[] = {
#define X(name, member, max) FIELD(scenario_request, name, member, max),
	SCENARIO_REQUEST_FIELDS(X)
#undef X
};

static const struct name types[] = {
	{"RC", IBV_QPT_RC},
	{"UC", IBV_QPT_UC},
	{"UD", IBV_QPT_UD},
	{"XRC_SEND", IBV_QPT_XRC_SEND},
	{"XRC_RECV", IBV_QPT_XRC_RECV},
};
static const struct name states[] = {
	{"RESET", IBV_QPS_RESET}, {"INIT", IBV_QPS_INIT},	  {"RTR", IBV_QPS_RTR},
	{"RTS", IBV_QPS_RTS},	  {"SQD", IBV_QPS_SQD},		  {"SQE", IBV_QPS_SQE},
	{"ERR", IBV_QPS_ERR},	  {"destroyed", IBV_QPS_UNKNOWN},
};
static const struct name rights[] = {
	{"LOCAL_WRITE", IBV_ACCESS_LOCAL_WRITE},
	{"REMOTE_WRITE", IBV_ACCESS_REMOTE_WRITE},
	{"REMOTE_READ", IBV_ACCESS_REMOTE_READ},
	{"REMOTE_ATOMIC", IBV_ACCESS_REMOTE_ATOMIC},
	{"FLUSH_GLOBAL", 1 << 8},
	{"FLUSH_PERSISTENT", 1 << 9},
	{"MW_BIND", IBV_ACCESS_MW_BIND},
	{"ZERO_BASED", IBV_ACCESS_ZERO_BASED},
};
static const struct name flags[] = {
	{"FENCE", IBV_SEND_FENCE},
	{"SIGNALED", IBV_SEND_SIGNALED},
	{"SOLICITED", IBV_SEND_SOLICITED},
	{"INLINE", IBV_SEND_INLINE},
};
static const struct name requests[] = {
	{"SEND", IBV_WR_SEND},
	{"SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM},
	{"SEND_WITH_INV", IBV_WR_SEND_WITH_INV},
	{"RDMA_WRITE", IBV_WR_RDMA_WRITE},
	{"RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM},
	{"RDMA_READ", IBV_WR_RDMA_READ},
	{"ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP},
	{"ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
	{"LOCAL_INV", IBV_WR_LOCAL_INV},
	{"BIND_MW", IBV_WR_BIND_MW},
	{"FLUSH", 14},
	{"ATOMIC_WRITE", 15},
};
const struct name area_names[] = {
	{"mem", SCENARIO_MEM},
	{"send", SCENARIO_SEND},
	{"recv", SCENARIO_RECV},
	{"last", SCENARIO_LAST},
};
static const struct name errnos[] = {
	{"EINVAL", EINVAL},	    {"ENOMEM", ENOMEM}, {"EBUSY", EBUSY},
	{"EOPNOTSUPP", EOPNOTSUPP}, {"ENXIO", ENXIO},	{"EPERM", EPERM},
};
/* Fields of the setup that can be changed later. */
static const struct name attributes[] = {
	{"path_mtu", IBV_QP_PATH_MTU},
	{"timeout", IBV_QP_TIMEOUT},
	{"retry_cnt", IBV_QP_RETRY_CNT},
	{"rnr_retry", IBV_QP_RNR_RETRY},
	{"min_rnr_timer", IBV_QP_MIN_RNR_TIMER},
	{"max_rd_atomic", IBV_QP_MAX_QP_RD_ATOMIC},
	{"max_dest_rd_atomic", IBV_QP_MAX_DEST_RD_ATOMIC},
	{"sq_psn", IBV_QP_SQ_PSN},
	{"rq_psn", IBV_QP_RQ_PSN},
	{"qkey", IBV_QP_QKEY},
	{"other_address", IBV_QP_AV},
	{"sqd_notify", IBV_QP_EN_SQD_ASYNC_NOTIFY},
};

void print_words(FILE *f)
{
	PRINT(f, "queue pairs", types, text);
	PRINT(f, "attributes", setup_fields, name);
	PRINT(f, "rights", rights, text);
	PRINT(f, "states", states, text);
	PRINT(f, "operations", requests, text);
	PRINT(f, "of a request", request_fields, name);
	PRINT(f, "flags", flags, text);
	PRINT(f, "areas", area_names, text);
	PRINT(f, "errors", errnos, text);
}

bool refuse(struct round *r, const char *fmt, ...)
{
	struct scenario_error *e = &r->r->error;
	va_list ap;

	r->r->verdict = SCENARIO_ERROR;
	e->line = r->line->number;
	e->column = r->next && r->next <= r->nwords ? r->word[r->next - 1].column : 0;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return false;
}

bool cannot(struct round *r, const char *what)
{
	refuse(r, "'%s' is not possible here", what);
	r->r->verdict = SCENARIO_CANNOT;
	return false;
}

bool fail(struct round *r, const char *fmt, ...)
{
	struct scenario_error *e = &r->r->error;
	va_list ap;

	r->r->verdict = SCENARIO_FAIL;
	e->line = r->line->number;
	e->column = 0;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return false;
}

bool expect_result(struct round *r, int got, int want)
{
	if (got == -EOPNOTSUPP && want != got)
		return cannot(r, r->word[0].text);
	return got == want ||
	       fail(r, "the call returned %d (%s), not %d", got, strerror(-got), want);
}

/* ---- words ---- */

const char *next_word(struct round *r)
{
	return r->next < r->nwords ? r->word[r->next++].text : NULL;
}

bool take_word(struct round *r, const char *text)
{
	if (r->next >= r->nwords || strcmp(r->word[r->next].text, text) != 0)
		return false;
	r->next++;
	return true;
}

const char *need_word(struct round *r, const char *what)
{
	const char *w = next_word(r);

	if (!w)
		refuse(r, "%s is expected behind '%s'", what, r->word[r->next - 1].text);
	return w;
}

bool end_of_line(struct round *r)
{
	const char *w = next_word(r);

	return !w || refuse(r, "'%s' is not expected here", w);
}

bool find_name(const struct name *names, size_t n, const char *text, unsigned *value)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i].text, text) == 0) {
			*value = names[i].value;
			return true;
		}
	}
	return false;
}

static bool refuse_name(struct round *r, const struct name *names, size_t n, const char *text,
			const char *what)
{
	char list[512] = "";
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "",
					names[i].text);
	return refuse(r, "'%s' is not %s; known: %s", text, what, list);
}

bool need_name(struct round *r, const struct name *names, size_t n, const char *what,
	       unsigned *value)
{
	const char *w = need_word(r, what);

	return w && (find_name(names, n, w, value) || refuse_name(r, names, n, w, what));
}

/** Some of the names, with commas between them. */
#define NEED_BITS(r, names, what, bits) need_bits(r, names, ARRAY_LEN(names), what, bits)
static bool need_bits(struct round *r, const struct name *names, size_t n, const char *what,
		      unsigned *bits)
{
	const char *w = need_word(r, what);

	*bits = 0;
	if (!w || strcmp(w, "none") == 0)
		return w;
	for (size_t len; *w; w += len + (w[len] == ',')) {
		char one[SCENARIO_WORD_LEN];
		unsigned bit;

		len = strcspn(w, ",");
		memcpy(one, w, len);
		one[len] = 0;
		if (!find_name(names, n, one, &bit))
			return refuse_name(r, names, n, one, what);
		*bits |= bit;
	}
	return true;
}

bool need_area(struct round *r, enum scenario_area *area)
{
	unsigned v;

	if (!need_name(r, area_names, SCENARIO_AREAS, "an area of memory", &v))
		return false;
	*area = (enum scenario_area)v;
	return true;
}

bool need_state(struct round *r, enum ibv_qp_state *state)
{
	unsigned v;

	if (!NEED_NAME(r, states, "a state", &v))
		return false;
	*state = (enum ibv_qp_state)v;
	return true;
}

const char *state_text(enum ibv_qp_state state)
{
	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (states[i].value == state)
			return states[i].text;
	return "unknown";
}

/* ---- fields ---- */

static void store(void *to, size_t size, uint64_t v)
{
	const uint32_t v32 = (uint32_t)v;
	const uint16_t v16 = (uint16_t)v;
	const uint8_t v8 = (uint8_t)v;

	memcpy(to,
	       size == 8   ? (const void *)&v
	       : size == 4 ? (const void *)&v32
	       : size == 2 ? (const void *)&v16
			   : (const void *)&v8,
	       size);
}

void store_field(const struct field *field, void *of, uint64_t v)
{
	store((uint8_t *)of + field->offset, field->size, v);
}

uint64_t field_value(const struct field *field, const void *of)
{
	uint64_t v = 0;
	uint32_t v32;
	uint16_t v16;
	const uint8_t *from = (const uint8_t *)of + field->offset;

	switch (field->size) {
	case 8:
		memcpy(&v, from, sizeof(v));
		return v;
	case 4:
		memcpy(&v32, from, sizeof(v32));
		return v32;
	case 2:
		memcpy(&v16, from, sizeof(v16));
		return v16;
	default:
		return *from;
	}
}

int read_field(struct round *r, const struct field *fields, size_t n, void *to)
{
	const char *name = r->word[r->next - 1].text;
	uint64_t v;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(fields[i].name, name) != 0)
			continue;
		if (!need_number(r, "a number", fields[i].max, &v))
			return -1;
		store_field(&fields[i], to, v);
		return (int)i;
	}
	refuse(r, "'%s' is not known here", name);
	return -1;
}

struct scenario_setup setup_defaults(void)
{
	return (struct scenario_setup){
#define X(name, member, max, value) .member = value,
		SCENARIO_SETUP_FIELDS(X)
#undef X
			.state = IBV_QPS_RTS,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | 1 << 8 | 1 << 9,
		.delay_ns = 5000,
	};
}

static const struct field *setup_field(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(setup_fields); i++)
		if (strcmp(setup_fields[i].name, name) == 0)
			return &setup_fields[i];
	return NULL;
}

bool scenario_default(struct scenario *s, const char *name, uint64_t value)
{
	const struct field *f = setup_field(name);

	if (!f || value > f->max)
		return false;
	store_field(f, &s->defaults, value);
	return true;
}

bool setup_value(const struct scenario_setup *s, const char *name, uint64_t *value)
{
	const struct field *f = setup_field(name);

	if (f)
		*value = field_value(f, s);
	return f;
}

bool read_setup(struct round *r)
{
	struct scenario_setup *s = &r->setup;
	const unsigned ends = s->ends;
	const char *w;
	unsigned v;

	*s = r->s->defaults;
	s->ends = ends;
	if (!NEED_NAME(r, types, "a type of queue pair", &v))
		return false;
	s->type = (enum ibv_qp_type)v;
	while ((w = next_word(r))) {
		if (strcmp(w, "state") == 0) {
			if (!need_state(r, &s->state))
				return false;
		} else if (strcmp(w, "access") == 0) {
			if (!NEED_BITS(r, rights, "a right", &s->access))
				return false;
		} else if (strcmp(w, "delay") == 0) {
			if (!need_time(r, &s->delay_ns))
				return false;
		} else if (read_field(r, setup_fields, ARRAY_LEN(setup_fields), s) < 0) {
			return false;
		}
	}
	return true;
}

/* ---- requests ---- */

bool read_errno(struct round *r, int *error)
{
	unsigned v = 0;

	*error = 0;
	if (take_word(r, "errno") && !NEED_NAME(r, errnos, "an error", &v))
		return false;
	*error = -(int)v;
	return true;
}

/** Where the memory of a request is. */
static bool need_memory(struct round *r, struct scenario_place *p)
{
	return need_place(r, p) && ((p->area < SCENARIO_AREAS && p->offset <= r->setup.area) ||
				    refuse(r, "a place in mem, send or recv is expected"));
}

/** "PLACE LEN" */
static bool read_sge(struct round *r, struct scenario_request *q)
{
	struct scenario_sge *s = &q->sge[q->sges];
	uint64_t len;

	if (q->sges == SCENARIO_SGES)
		return refuse(r, "more than %d pieces", SCENARIO_SGES);
	if (!need_memory(r, &s->at) || !need_number(r, "a length", r->setup.area, &len))
		return false;
	s->len = (uint32_t)len;
	q->sges++;
	return true;
}

/** Inline data is read when it is posted, whatever is there. */
static bool inline_fits(struct round *r, const struct scenario_request *q)
{
	const struct scenario_sge all = {.at = q->from, .len = q->len};

	for (unsigned i = 0; q->flags & IBV_SEND_INLINE && i < MAX(q->sges, 1u); i++) {
		const struct scenario_sge *s = q->sges ? &q->sge[i] : &all;

		if (s->len > r->setup.area - s->at.offset)
			return refuse(r, "inline data beyond the end of the area");
	}
	return true;
}

static bool read_request(struct round *r, struct scenario_request *q, int *error)
{
	const char *w;

	*error = 0;
	while (r->next < r->nwords && strcmp(r->word[r->next].text, "errno") != 0) {
		w = next_word(r);
		if (strcmp(w, "from") == 0 || strcmp(w, "at") == 0) {
			if (!need_memory(r, &q->from))
				return false;
		} else if (strcmp(w, "sge") == 0) {
			if (!read_sge(r, q))
				return false;
		} else if (strcmp(w, "to") == 0) {
			if (!need_place(r, &q->to))
				return false;
		} else if (strcmp(w, "access") == 0) {
			if (!NEED_BITS(r, rights, "a right", &q->access))
				return false;
		} else if (strcmp(w, "no_mr") == 0) {
			q->no_mr = true;
		} else if (strcmp(w, "no_sge") == 0) {
			q->no_sge = true;
		} else if (strcmp(w, "more") == 0) {
			q->more = true;
		} else if (strcmp(w, "flags") == 0) {
			if (!NEED_BITS(r, flags, "a flag", &q->flags))
				return false;
		} else if (read_field(r, request_fields, ARRAY_LEN(request_fields), q) < 0) {
			return false;
		}
	}
	return inline_fits(r, q) && read_errno(r, error) && end_of_line(r);
}

bool read_send(struct round *r, struct scenario_request *q, int *error)
{
	unsigned opcode;

	*q = (struct scenario_request){
		.from = {(uint8_t)r->end, SCENARIO_SEND, 0},
		.to = {(uint8_t)(r->setup.ends - 1 - r->end), SCENARIO_MEM, 0},
	};
	if (r->next < r->nwords && isdigit((unsigned char)*r->word[r->next].text)) {
		uint64_t v;

		if (!need_number(r, "an operation", 255, &v))
			return false;
		opcode = (unsigned)v;
	} else if (!NEED_NAME(r, requests, "an operation", &opcode)) {
		return false;
	}
	q->opcode = (enum ibv_wr_opcode)opcode;
	if (q->opcode == IBV_WR_BIND_MW)
		q->from.area = SCENARIO_MEM;
	return read_request(r, q, error);
}

bool read_recv(struct round *r, struct scenario_request *q, int *error)
{
	*q = (struct scenario_request){.from = {(uint8_t)r->end, SCENARIO_RECV, 0}};
	return read_request(r, q, error);
}

/* ---- attributes and regions ---- */

bool read_modify(struct round *r, enum ibv_qp_state *to, struct scenario_setup *s, int *mask,
		 int *error)
{
	*s = r->setup;
	*mask = 0;
	if (!need_state(r, to))
		return false;
	while (r->next < r->nwords && strcmp(r->word[r->next].text, "errno") != 0) {
		const char *w = next_word(r);
		unsigned bit = IBV_QP_ACCESS_FLAGS;

		if (strcmp(w, "access") == 0) {
			if (!NEED_BITS(r, rights, "a right", &s->access))
				return false;
		} else if (!find_name(attributes, ARRAY_LEN(attributes), w, &bit)) {
			return refuse(r, "'%s' cannot be changed", w);
		} else if (read_field(r, setup_fields, ARRAY_LEN(setup_fields), s) < 0) {
			return false;
		}
		*mask |= (int)bit;
	}
	return read_errno(r, error) && end_of_line(r);
}

bool read_reg(struct round *r, enum scenario_area *area, int *access, bool *other_pd, int *error)
{
	unsigned bits;

	*access = -1;
	if (!need_area(r, area))
		return false;
	if (take_word(r, "access")) {
		if (!NEED_BITS(r, rights, "a right", &bits))
			return false;
		*access = (int)bits;
	}
	*other_pd = take_word(r, "other_pd");
	return read_errno(r, error) && end_of_line(r);
}
