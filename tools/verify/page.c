/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page: page.html with the findings and the packets in it as JSON. Nothing else is needed to
 * look at it, and nothing is loaded.
 */
#include <inttypes.h>
#include <string.h>

#include "packetlog.h"
#include "report.h"
#include "verify.h"
#include "wire/print.h"

/* page.html with a zero behind it; a source made of it when building. */
extern const unsigned char page_html[];

static const char data_mark[] = "@DATA@";

/* Extension headers as members of an object; first says whether a comma is due. */
static void extensions(FILE *f, const struct rocemu_hdrs *h)
{
	uint32_t hdrs = rocemu_opcode_hdrs(h->opcode);

	if (hdrs & ROCEMU_HDR_XRCETH)
		fprintf(f, ", \"xrceth.srqn\": %u", h->xrceth.srqn);
	if (hdrs & ROCEMU_HDR_DETH)
		fprintf(f, ", \"deth.qkey\": %u, \"deth.sqpn\": %u", h->deth.qkey, h->deth.sqpn);
	if (hdrs & ROCEMU_HDR_FETH)
		fprintf(f, ", \"feth\": %u", h->feth.raw);
	if (hdrs & ROCEMU_HDR_RETH) /* as text: JavaScript's numbers end at 2^53 */
		fprintf(f,
			", \"reth.va\": \"0x%" PRIx64 "\", \"reth.rkey\": %u, \"reth.length\": %u",
			h->reth.va, h->reth.rkey, h->reth.length);
	if (hdrs & ROCEMU_HDR_ATOMICETH)
		fprintf(f,
			", \"atomic.va\": \"0x%" PRIx64
			"\", \"atomic.rkey\": %u, \"atomic.swap_add\": "
			"\"0x%" PRIx64 "\", \"atomic.compare\": \"0x%" PRIx64 "\"",
			h->atomiceth.va, h->atomiceth.rkey, h->atomiceth.swap_add,
			h->atomiceth.compare);
	if (hdrs & ROCEMU_HDR_AETH)
		fprintf(f, ", \"aeth.syndrome\": %u, \"aeth.msn\": %u", h->aeth.syndrome,
			h->aeth.msn);
	if (hdrs & ROCEMU_HDR_ATOMICACK)
		fprintf(f, ", \"atomic.original\": \"0x%" PRIx64 "\"", h->atomicack);
	if (hdrs & ROCEMU_HDR_IMMDT)
		fprintf(f, ", \"imm\": %u", h->imm);
	if (hdrs & ROCEMU_HDR_IETH)
		fprintf(f, ", \"ieth.rkey\": %u", h->ieth);
}

static void headers(FILE *f, const struct logged *e)
{
	const struct rocemu_hdrs *h = &e->h;
	char src[64], dst[64];

	print_gid(src, sizeof(src), &e->ip.src);
	print_gid(dst, sizeof(dst), &e->ip.dst);
	fprintf(f,
		"{\"ip.src\": \"%s\", \"ip.dst\": \"%s\", \"ip.id\": %u, \"ip.tclass\": %u, "
		"\"ip.hop_limit\": %u, \"udp.sport\": %u, \"bth.se\": %d, \"bth.migreq\": %d, "
		"\"bth.pad\": %u, \"bth.tver\": %u, \"bth.pkey\": %u, \"bth.fecn\": %d, "
		"\"bth.becn\": %d, \"bth.dqpn\": %u, \"bth.ackreq\": %d, \"bth.psn\": %u",
		src, dst, e->ip.ip_id, e->ip.tclass, e->ip.hop_limit, e->ip.sport, h->se, h->migreq,
		h->pad, h->tver, h->pkey, h->fecn, h->becn, h->dqpn, h->ackreq, h->psn);
	if (e->decoded) {
		extensions(f, h);
		fprintf(f, ", \"icrc\": %u", e->icrc);
	}
	fputc('}', f);
}

/* Which way a packet goes in its connection's first direction, as the list of connections has it.
 */
static unsigned direction_of(const struct flow *f)
{
	return f != NULL && f->second;
}

static void packet(FILE *f, const struct verify *v, const struct logged *e)
{
	uint32_t ops = rocemu_opcode_ops(e->h.opcode);
	bool aeth = e->decoded && (rocemu_opcode_hdrs(e->h.opcode) & ROCEMU_HDR_AETH) != 0;
	bool nak = aeth && (e->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) != ROCEMU_AETH_ACK;

	fprintf(f, "[%" PRIu64 ", %" PRId64 ", %u, %u, \"%s\", %u, %u, ", e->number,
		(int64_t)(e->ts_ns - v->first_ns), e->flow != NULL ? e->flow->index : 0,
		direction_of(e->flow), rocemu_opcode_name(e->h.opcode), e->h.psn, e->payload_len);
	if (aeth)
		fprintf(f, "\" %s 0x%02x msn %u\"", nak ? "NAK" : "ACK", e->h.aeth.syndrome,
			e->h.aeth.msn);
	else
		fputs("null", f);
	fprintf(f, ", %s, %s, %s, %s, ", e->decoded && (ops & ROCEMU_OP_REQUEST) ? "true" : "false",
		nak ? "true" : "false", e->decoded ? "true" : "false", e->cut ? "true" : "false");
	headers(f, e);
	fputc(']', f);
}

static void page_data(const struct verify *v, FILE *f, const char *name)
{
	const struct packet_log *l = v->log;

	fputc('{', f);
	json_body(v, f, name);
	fputs(",\n\"columns\": [\"number\", \"time_ns\", \"connection\", \"direction\", "
	      "\"opcode\", "
	      "\"psn\", \"len\", \"aeth\", \"request\", \"nak\", \"good\", \"cut\", \"headers\"]",
	      f);
	fprintf(f, ",\n\"left_out\": %" PRIu64 ",\n\"log\": [", l != NULL ? l->left_out : 0);
	for (unsigned i = 0; l != NULL && i < l->n; i++) {
		fputs(i != 0 ? ",\n" : "\n", f);
		packet(f, v, &l->at[i]);
	}
	fputs("]}", f);
}

void verify_html(const struct verify *v, FILE *f, const char *name)
{
	const char *page = (const char *)page_html;
	const char *mark = strstr(page, data_mark);

	fwrite(page, 1, (size_t)(mark - page), f);
	page_data(v, f, name);
	fputs(mark + strlen(data_mark), f);
}
