/* SPDX-License-Identifier: BSD-2-Clause */
/* What the words of a message to QP 1 mean. */
#include <string.h>

#include "scenario/mad.h"

#include "base/util.h"

/* ---- names of members ---- */

/* A member of struct rocemu_cm_msg that is a number, and one that is bytes. */
#define NUMBER(name, member, max)                      \
	{name, offsetof(struct rocemu_cm_msg, member), \
	 sizeof(((struct rocemu_cm_msg *)0)->member), max},
#define BYTES(name, member) NUMBER(name, member, 0)

/* clang-format off */
#define PATH(name, member)                                            \
	NUMBER(name ".local_lid", member.local_lid, UINT16_MAX)       \
	NUMBER(name ".remote_lid", member.remote_lid, UINT16_MAX)     \
	BYTES(name ".local_gid", member.local_gid)                    \
	BYTES(name ".remote_gid", member.remote_gid)                  \
	NUMBER(name ".flow_label", member.flow_label, 0xfffff)        \
	NUMBER(name ".packet_rate", member.packet_rate, 63)           \
	NUMBER(name ".tclass", member.tclass, 255)                    \
	NUMBER(name ".hop_limit", member.hop_limit, 255)              \
	NUMBER(name ".sl", member.sl, 15)                             \
	NUMBER(name ".subnet_local", member.subnet_local, 1)          \
	NUMBER(name ".ack_timeout", member.ack_timeout, 31)

/* "cm_": the packet or the header has a field of the same name. */
static const struct field req_members[] = {
	NUMBER("local_comm_id", req.local_comm_id, UINT32_MAX)
	NUMBER("ece.vendor_id", req.ece.vendor_id, 0xffffff)
	NUMBER("ece.options", req.ece.options, UINT32_MAX)
	NUMBER("service_id", req.service_id, UINT64_MAX)
	NUMBER("local_ca_guid", req.local_ca_guid, UINT64_MAX)
	NUMBER("local_qkey", req.local_qkey, UINT32_MAX)
	NUMBER("local_qpn", req.local_qpn, ROCEMU_QPN_MASK)
	NUMBER("responder_resources", req.responder_resources, 255)
	NUMBER("local_eecn", req.local_eecn, ROCEMU_QPN_MASK)
	NUMBER("initiator_depth", req.initiator_depth, 255)
	NUMBER("remote_eecn", req.remote_eecn, ROCEMU_QPN_MASK)
	NUMBER("remote_cm_timeout", req.remote_cm_timeout, 31)
	NUMBER("transport", req.transport, 3)
	NUMBER("flow_control", req.flow_control, 1)
	NUMBER("starting_psn", req.starting_psn, ROCEMU_PSN_MASK)
	NUMBER("local_cm_timeout", req.local_cm_timeout, 31)
	NUMBER("retry_count", req.retry_count, 7)
	NUMBER("cm_pkey", req.pkey, UINT16_MAX)
	NUMBER("path_mtu", req.path_mtu, 15)
	NUMBER("rdc_exists", req.rdc_exists, 1)
	NUMBER("rnr_retry_count", req.rnr_retry_count, 7)
	NUMBER("max_cm_retries", req.max_cm_retries, 15)
	NUMBER("srq", req.srq, 1)
	NUMBER("extended_transport", req.extended_transport, 7)
	PATH("primary", req.primary)
	PATH("alternate", req.alternate)
	NUMBER("sap_supported", req.sap_supported, 1)
	BYTES("private_data", req.private_data)
};

#define COMM_IDS(msg)                                                 \
	NUMBER("local_comm_id", msg.local_comm_id, UINT32_MAX)        \
	NUMBER("remote_comm_id", msg.remote_comm_id, UINT32_MAX)

static const struct field mra_members[] = {
	COMM_IDS(mra)
	NUMBER("answered", mra.answered, 3)
	NUMBER("service_timeout", mra.service_timeout, 31)
	BYTES("private_data", mra.private_data)
};
static const struct field rej_members[] = {
	COMM_IDS(rej)
	NUMBER("answered", rej.answered, 3)
	NUMBER("ari_len", rej.ari_len, ROCEMU_CM_INFO_LEN)
	NUMBER("reason", rej.reason, UINT16_MAX)
	BYTES("ari", rej.ari)
	BYTES("private_data", rej.private_data)
};
static const struct field rep_members[] = {
	COMM_IDS(rep)
	NUMBER("ece.vendor_id", rep.ece.vendor_id, 0xffffff)
	NUMBER("ece.options", rep.ece.options, UINT32_MAX)
	NUMBER("local_qkey", rep.local_qkey, UINT32_MAX)
	NUMBER("local_qpn", rep.local_qpn, ROCEMU_QPN_MASK)
	NUMBER("local_eecn", rep.local_eecn, ROCEMU_QPN_MASK)
	NUMBER("starting_psn", rep.starting_psn, ROCEMU_PSN_MASK)
	NUMBER("responder_resources", rep.responder_resources, 255)
	NUMBER("initiator_depth", rep.initiator_depth, 255)
	NUMBER("target_ack_delay", rep.target_ack_delay, 31)
	NUMBER("failover_accepted", rep.failover_accepted, 3)
	NUMBER("flow_control", rep.flow_control, 1)
	NUMBER("rnr_retry_count", rep.rnr_retry_count, 7)
	NUMBER("srq", rep.srq, 1)
	NUMBER("local_ca_guid", rep.local_ca_guid, UINT64_MAX)
	BYTES("private_data", rep.private_data)
};
static const struct field rtu_members[] = {
	COMM_IDS(rtu)
	BYTES("private_data", rtu.private_data)
};
static const struct field dreq_members[] = {
	COMM_IDS(dreq)
	NUMBER("remote_qpn", dreq.remote_qpn, ROCEMU_QPN_MASK)
	BYTES("private_data", dreq.private_data)
};
static const struct field drep_members[] = {
	COMM_IDS(drep)
	BYTES("private_data", drep.private_data)
};
static const struct field sidr_req_members[] = {
	NUMBER("request_id", sidr_req.request_id, UINT32_MAX)
	NUMBER("cm_pkey", sidr_req.pkey, UINT16_MAX)
	NUMBER("service_id", sidr_req.service_id, UINT64_MAX)
	BYTES("private_data", sidr_req.private_data)
};
static const struct field sidr_rep_members[] = {
	NUMBER("request_id", sidr_rep.request_id, UINT32_MAX)
	NUMBER("cm_status", sidr_rep.status, 255)
	NUMBER("info_len", sidr_rep.info_len, ROCEMU_CM_INFO_LEN)
	NUMBER("ece.vendor_id", sidr_rep.ece.vendor_id, 0xffffff)
	NUMBER("ece.options", sidr_rep.ece.options, UINT32_MAX)
	NUMBER("qpn", sidr_rep.qpn, ROCEMU_QPN_MASK)
	NUMBER("service_id", sidr_rep.service_id, UINT64_MAX)
	NUMBER("cm_qkey", sidr_rep.qkey, UINT32_MAX)
	BYTES("info", sidr_rep.info)
	BYTES("private_data", sidr_rep.private_data)
};
static const struct field lap_members[] = {
	COMM_IDS(lap)
	NUMBER("remote_qpn", lap.remote_qpn, ROCEMU_QPN_MASK)
	NUMBER("remote_cm_timeout", lap.remote_cm_timeout, 31)
	PATH("alternate", lap.alternate)
	BYTES("private_data", lap.private_data)
};
static const struct field apr_members[] = {
	COMM_IDS(apr)
	NUMBER("info_len", apr.info_len, ROCEMU_CM_INFO_LEN)
	NUMBER("cm_status", apr.status, 255)
	BYTES("info", apr.info)
	BYTES("private_data", apr.private_data)
};

/* Of the MAD's header: offset and size are those of the bytes. */
static const struct field header_members[] = {
	{"base_version", 0, 1, 255},
	{"mad_class", 1, 1, 255},
	{"class_version", 2, 1, 255},
	{"method", 3, 1, 255},
	{"status", 4, 2, UINT16_MAX},
	{"tid", 8, 8, UINT64_MAX},
	{"attr_id", 16, 2, UINT16_MAX},
	{"attr_mod", 20, 4, UINT32_MAX},
};
/* clang-format on */

static const struct message {
	const char *name;
	uint16_t attr_id;
	const struct field *members;
	size_t n;
} messages[] = {
#define X(name, id, member, len) {#name, id, member##_members, ARRAY_LEN(member##_members)},
	ROCEMU_CM_MESSAGES(X)
#undef X
};

static const struct message *message_of(uint16_t attr_id)
{
	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		if (messages[i].attr_id == attr_id)
			return &messages[i];
	return NULL;
}

static const struct field *find_field(const struct field *fields, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

/** Does a message before this one have a member of the name? */
static bool is_printed(size_t message, const char *name)
{
	for (size_t i = 0; i < message; i++)
		if (find_field(messages[i].members, messages[i].n, name))
			return true;
	return false;
}

void print_mad_words(FILE *f)
{
	PRINT(f, "messages", messages, name);
	fprintf(f, "of a message:");
	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		for (size_t k = 0; k < messages[i].n; k++)
			if (!is_printed(i, messages[i].members[k].name))
				fprintf(f, " %s", messages[i].members[k].name);
	putc('\n', f);
	PRINT(f, "of a MAD", header_members, name);
}

/* ---- a line ---- */

/** A value behind the name of a member. */
static bool need_value(struct round *r, const struct field *f, struct scenario_mad_value *v)
{
	unsigned n;

	if (f->max)
		return need_number(r, "a number", f->max, &v->number);
	if (!need_hex(r, v->bytes, &n))
		return false;
	v->len = (uint8_t)n;
	return n <= f->size || refuse(r, "'%s' has %zu bytes", f->name, f->size);
}

/** The member that the word names; NULL: none. */
static const struct field *member_of(uint16_t attr_id, const char *w, bool *header)
{
	const struct message *m = message_of(attr_id);
	const struct field *f = m ? find_field(m->members, m->n, w) : NULL;

	*header = !f;
	return f ? f : find_field(header_members, ARRAY_LEN(header_members), w);
}

/** The word that was read last and what belongs to it. */
static bool read_mad_word(struct round *r, struct scenario_packet *p)
{
	const char *w = r->word[r->next - 1].text;
	struct scenario_mad_value *v = &p->mad.value[p->mad.values];
	const struct field *f;
	uint64_t len;

	if (strcmp(w, "mad_len") == 0) {
		if (!need_number(r, "a number of bytes", SCENARIO_MAD_MAX, &len))
			return false;
		p->mad.len = (uint16_t)len;
		return true;
	}
	if (strcmp(w, "opcode") == 0)
		return need_opcode(r, &p->h.opcode);
	f = member_of(p->mad.attr_id, w, &v->header);
	if (!f)
		return read_packet_field(r, p);
	*v = (struct scenario_mad_value){.header = v->header, .field = f};
	p->mad.values++;
	return need_value(r, f, v);
}

bool read_mad(struct round *r, struct scenario_packet *p)
{
	const char *w = need_word(r, "a message");

	*p = (struct scenario_packet){.mad.len = ROCEMU_MAD_LEN};
	for (size_t i = 0; w && i < ARRAY_LEN(messages); i++)
		if (strcmp(messages[i].name, w) == 0)
			p->mad.attr_id = messages[i].attr_id;
	if (!p->mad.attr_id)
		return w && refuse(r, "'%s' is not a message of communication management", w);
	p->h.opcode = ROCEMU_UD_SEND_ONLY;
	while (next_word(r))
		if (!read_mad_word(r, p))
			return false;
	if (p->data_len)
		return refuse(r, "the payload is the message, not 'bytes'");
	if (!scenario_given(p, SCENARIO_PACKET_LEN))
		p->len = p->mad.len;
	return true;
}

/* ---- values that were given ---- */

void mad_set_values(const struct scenario_mad *given, struct rocemu_cm_msg *m)
{
	for (unsigned i = 0; i < given->values; i++) {
		const struct scenario_mad_value *v = &given->value[i];

		if (!v->header && v->field->max)
			store_field(v->field, m, v->number);
		else if (!v->header)
			memcpy((uint8_t *)m + v->field->offset, v->bytes, v->len);
	}
}

void mad_set_header(const struct scenario_mad *given, uint8_t mad[ROCEMU_MAD_LEN])
{
	for (unsigned i = 0; i < given->values; i++) {
		const struct scenario_mad_value *v = &given->value[i];

		for (size_t k = 0; v->header && k < v->field->size; k++)
			mad[v->field->offset + k] =
				(uint8_t)(v->number >> 8 * (v->field->size - 1 - k));
	}
}

bool mad_gives(const struct scenario_mad *given, const char *name, uint64_t *number)
{
	for (unsigned i = 0; i < given->values; i++) {
		if (strcmp(given->value[i].field->name, name) == 0) {
			*number = given->value[i].number;
			return true;
		}
	}
	return false;
}

/* ---- messages that came ---- */

static uint64_t header_value(const struct field *f, const uint8_t *mad)
{
	uint64_t v = 0;

	for (size_t i = 0; i < f->size; i++)
		v = v << 8 | mad[f->offset + i];
	return v;
}

/** "VALUE" of a member of a message, or of the header. */
static bool expect_value(struct round *r, const struct field *f, bool header, const uint8_t *mad,
			 const struct rocemu_cm_msg *m)
{
	struct scenario_mad_value v = {0};
	uint64_t got;

	if (!need_value(r, f, &v))
		return false;
	if (!f->max)
		return memcmp((const uint8_t *)m + f->offset, v.bytes, v.len) == 0 ||
		       fail(r, "%s has other bytes", f->name);
	got = header ? header_value(f, mad) : field_value(f, m);
	return got == v.number || fail(r, "%s is 0x%llx, not 0x%llx", f->name,
				       (unsigned long long)got, (unsigned long long)v.number);
}

bool expect_mad_values(struct round *r, const uint8_t *mad, size_t len)
{
	struct rocemu_cm_msg m = {0};
	bool good = true;

	if (len < ROCEMU_MAD_LEN)
		return true;
	if (rocemu_cm_decode(&m, mad, len) != ROCEMU_MAD_OK)
		m.attr_id = 0;
	while (good && r->next < r->nwords) {
		bool header;
		const struct field *f = member_of(m.attr_id, r->word[r->next].text, &header);

		if (!f)
			return true;
		r->next++;
		good = expect_value(r, f, header, mad, &m);
	}
	return good;
}
