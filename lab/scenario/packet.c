/* SPDX-License-Identifier: BSD-2-Clause */
/* What the words of a packet mean. */
#include <ctype.h>
#include <string.h>

#include "scenario/internal.h"

#include "base/util.h"

static const struct field packet_fields[] = {
#define X(NAME, name, member, max) FIELD(scenario_packet, name, member, max),
	SCENARIO_PACKET_FIELDS(X)
#undef X
};

static const struct name naks[] = {
	{"PSN_SEQ", ROCEMU_NAK_PSN_SEQ},       {"INV_REQ", ROCEMU_NAK_INV_REQ},
	{"REM_ACCESS", ROCEMU_NAK_REM_ACCESS}, {"REM_OP", ROCEMU_NAK_REM_OP},
	{"INV_RD", ROCEMU_NAK_INV_RD},
};

void print_packet_words(FILE *f)
{
	PRINT(f, "of a packet", packet_fields, name);
	PRINT(f, "NAKs", naks, text);
}

static enum rocemu_service service(const struct round *r)
{
	switch (r->setup.type) {
	case IBV_QPT_UC:
		return ROCEMU_SVC_UC;
	case IBV_QPT_UD:
		return ROCEMU_SVC_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return ROCEMU_SVC_XRC;
	default:
		return ROCEMU_SVC_RC;
	}
}

/** "SEND_ONLY" of the QP's service, or "UD_SEND_ONLY", or a number. */
static bool read_opcode(struct round *r, const char *w, uint8_t *opcode)
{
	uint64_t v;

	for (unsigned op = 0; op < 256; op++) {
		const char *name = rocemu_opcode_name((uint8_t)op);
		const char *shortened = strchr(name, '_');

		if (strcmp(name, "UNKNOWN") == 0)
			continue;
		if (strcmp(name, w) == 0 ||
		    (shortened && rocemu_opcode_service((uint8_t)op) == service(r) &&
		     strcmp(shortened + 1, w) == 0)) {
			*opcode = (uint8_t)op;
			return true;
		}
	}
	if (!isdigit((unsigned char)*w))
		return refuse(r, "'%s' is not an opcode", w);
	if (!number_of(r, w, 255, &v))
		return false;
	*opcode = (uint8_t)v;
	return true;
}

bool need_opcode(struct round *r, uint8_t *opcode)
{
	const char *w = need_word(r, "an opcode");

	return w && read_opcode(r, w, opcode);
}

static uint8_t ack_opcode(const struct round *r)
{
	return service(r) == ROCEMU_SVC_XRC ? ROCEMU_XRC_ACK : ROCEMU_RC_ACK;
}

/** "ack PSN", "nak CODE PSN", "rnr TIMER PSN". */
static bool read_answer(struct round *r, const char *w, struct scenario_packet *p, bool *is)
{
	unsigned code = ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS;
	uint64_t v;

	*is = true;
	p->h.opcode = ack_opcode(r);
	if (strcmp(w, "nak") == 0) {
		const char *name = need_word(r, "a code");

		if (!name)
			return false;
		if (!find_name(naks, ARRAY_LEN(naks), name, &code)) {
			if (!number_of(r, name, 255, &v))
				return false;
			code = (unsigned)v;
		}
	} else if (strcmp(w, "rnr") == 0) {
		if (!need_number(r, "a timer", 31, &v))
			return false;
		code = ROCEMU_AETH_RNR | (unsigned)v;
	} else if (strcmp(w, "ack") != 0) {
		*is = false;
		return true;
	}
	p->h.aeth.syndrome = (uint8_t)code;
	p->given |= 1u << SCENARIO_PACKET_SYNDROME;
	return true;
}

/** "HEX" behind "bytes", which may be there several times. */
static bool read_bytes(struct round *r, struct scenario_packet *p)
{
	uint8_t bytes[SCENARIO_BYTES];
	unsigned n;

	if (!need_hex(r, bytes, &n))
		return false;
	if (p->data_len + n > sizeof(p->data))
		return refuse(r, "more than %zu bytes", sizeof(p->data));
	memcpy(p->data + p->data_len, bytes, n);
	p->data_len = (uint16_t)(p->data_len + n);
	return true;
}

bool read_packet_field(struct round *r, struct scenario_packet *p)
{
	const char *w = r->word[r->next - 1].text;
	int i;

	if (strcmp(w, "bytes") == 0)
		return read_bytes(r, p);
	if (strcmp(w, "at") == 0) {
		p->has_place = true;
		return need_place(r, &p->at);
	}
	i = read_field(r, packet_fields, ARRAY_LEN(packet_fields), p);
	if (i >= 0)
		p->given |= 1ull << i;
	return i >= 0;
}

static bool read_packet_fields(struct round *r, struct scenario_packet *p)
{
	while (next_word(r))
		if (!read_packet_field(r, p))
			return false;
	if (p->data_len && !scenario_given(p, SCENARIO_PACKET_LEN))
		p->len = p->data_len;
	/* The two headers have a key each. */
	p->h.atomiceth.rkey = p->h.reth.rkey;
	return true;
}

bool read_packet(struct round *r, struct scenario_packet *p)
{
	const char *w = need_word(r, "a packet");
	bool answer;

	*p = (struct scenario_packet){0};
	if (!w || !read_answer(r, w, p, &answer) || (!answer && !read_opcode(r, w, &p->h.opcode)))
		return false;
	return need_psn(r, &p->h.psn) && read_packet_fields(r, p);
}

/** What is known of the headers of a packet that was sent. */
static struct scenario_packet headers_of(const struct round *r, const struct rocemu_packet *got,
					 struct scenario_ip *ip)
{
	struct scenario_packet have = {.h = got->h, .len = got->payload_len};

	*ip = (struct scenario_ip){0};
	if (r->b->last_ip)
		r->b->last_ip(r->world, ip);
	have.sport = ip->sport;
	have.ecn = ip->tclass & 3;
	/* What atomics have in a header of their own. */
	if (rocemu_opcode_hdrs(got->h.opcode) & ROCEMU_HDR_ATOMICETH) {
		have.h.reth.va = got->h.atomiceth.va;
		have.h.reth.rkey = got->h.atomiceth.rkey;
	}
	return have;
}

/** Is the field one of the headers of a packet that was sent? */
static bool is_in_headers(const struct round *r, enum scenario_packet_field f)
{
	if (f == SCENARIO_PACKET_PORT || f == SCENARIO_PACKET_ECN)
		return r->b->last_ip;
	return packet_fields[f].offset < sizeof(struct rocemu_hdrs) || f == SCENARIO_PACKET_LEN;
}

bool last_value(struct round *r, const char *name, uint64_t *out)
{
	static const char prefix[] = "last.";
	const struct rocemu_packet *got;
	struct scenario_packet have;
	struct scenario_ip ip;

	if (strncmp(name, prefix, strlen(prefix)) != 0 || !r->world || !r->b->last)
		return false;
	got = r->b->last(r->world, r->end);
	if (!got)
		return false;
	name += strlen(prefix);
	have = headers_of(r, got, &ip);
	for (size_t i = 0; i < ARRAY_LEN(packet_fields); i++) {
		if (strcmp(packet_fields[i].name, name) != 0 ||
		    !is_in_headers(r, (enum scenario_packet_field)i))
			continue;
		*out = field_value(&packet_fields[i], &have);
		return true;
	}
	*out = strcmp(name, "ttl") == 0 ? ip.ttl : ip.tclass >> 2;
	return r->b->last_ip && (strcmp(name, "ttl") == 0 || strcmp(name, "dscp") == 0);
}

bool read_fields_of(struct round *r, const struct rocemu_packet *got)
{
	struct scenario_packet want = {0}, have;
	struct scenario_ip ip;

	if (!read_packet_fields(r, &want))
		return false;
	if (want.data_len)
		return refuse(r, "'check last' compares the payload, not 'bytes'");
	have = headers_of(r, got, &ip);
	if (want.has_place && have.h.reth.va != r->b->address(r->world, &want.at))
		return fail(r, "the address is 0x%llx", (unsigned long long)have.h.reth.va);
	for (size_t i = 0; i < ARRAY_LEN(packet_fields); i++) {
		const struct field *f = &packet_fields[i];
		uint64_t a = 0, b = 0;

		if (!(want.given >> i & 1))
			continue;
		/* The others are of packets that come. */
		if (!is_in_headers(r, (enum scenario_packet_field)i))
			return refuse(r, "'%s' is not in the headers of what was sent", f->name);
		a = field_value(f, &have);
		b = field_value(f, &want);
		if (a != b)
			return fail(r, "%s is 0x%llx, not 0x%llx", f->name, (unsigned long long)a,
				    (unsigned long long)b);
	}
	return true;
}
