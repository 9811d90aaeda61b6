/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/ladder.h"

#include <inttypes.h>
#include <string.h>

#include <rocemu/mad.h>

#include "base/util.h"
#include "wire/print.h"
#include "wire/text.h"

enum { ROWS = 200, LABEL_LEAST = 24 };

/* ---- a packet ---- */

static bool is_mad(const struct rocemu_packet *p)
{
	return p->h.dqpn == ROCEMU_GSI_QPN && p->h.opcode == ROCEMU_UD_SEND_ONLY;
}

/** What is wrong below the headers, or in them. */
static void add_faults(struct text *t, const struct conform_packet *c, enum rocemu_drop why,
		       const struct rocemu_packet *p)
{
	const struct rocemu_icrc_ctx ctx = ip_icrc_ctx(&c->ip);

	if (why != ROCEMU_DROP_NONE)
		text_add(t, " (%s)", rocemu_drop_text(why));
	if (p->h.dqpn != c->dqpn && c->dqpn && !is_mad(p))
		text_add(t, " to QP 0x%" PRIx32, p->h.dqpn);
	if (p->h.pkey != ROCEMU_PKEY_DEFAULT)
		text_add(t, " P_Key 0x%04x", p->h.pkey);
	if (!p->h.migreq)
		text_add(t, " MigReq 0");
	if ((c->ip.tclass & 3) == 3)
		text_add(t, " CE");
	if (c->len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN &&
	    rocemu_icrc_check(&ctx, c->sent, c->data, c->len) < 0)
		text_add(t, " (wrong ICRC)");
}

void conform_packet_text(const struct conform_packet *c, char to[CONFORM_PACKET_TEXT])
{
	const struct scenario_setup psns = {.sq_psn = c->sq_psn, .rq_psn = c->rq_psn};
	struct text t = text_start(to, CONFORM_PACKET_TEXT);
	char text[CONFORM_PACKET_TEXT];
	struct rocemu_packet p = {0};
	const enum rocemu_drop why = rocemu_packet_decode(&p, c->data, c->len);

	if (why == ROCEMU_DROP_SHORT || why == ROCEMU_DROP_OPCODE) {
		text_add(&t, "%" PRIu32 " bytes (%s)", c->len, rocemu_drop_text(why));
		return;
	}
	if (why == ROCEMU_DROP_NONE && is_mad(&p)) {
		print_mad(text, sizeof(text), p.payload, p.payload_len);
		text_add(&t, "%s", text);
	} else {
		/* As of the second end of a pair: it sends requests from the PSN on that the device
		 * receives from. */
		scenario_packet_text(&psns, c->sent ? 1 : 0, &p, text, sizeof(text));
		text_add(&t, "%s", text);
		if (p.payload_len)
			text_add(&t, " len %" PRIu32, p.payload_len);
	}
	if (why != ROCEMU_DROP_NONE)
		text_add(&t, ", %" PRIu32 " bytes", c->len);
	add_faults(&t, c, why, &p);
}

/* ---- all of them ---- */

static void arrow(FILE *f, const struct conform_packet *p, unsigned width)
{
	char text[CONFORM_PACKET_TEXT];
	unsigned len, left;

	conform_packet_text(p, text);
	len = (unsigned)strlen(text);
	if (len > width - 6)
		len = width - 6;
	left = (width - 6 - len) / 2;
	fputc(p->sent ? '-' : '<', f);
	for (unsigned i = 0; i < left + 1; i++)
		fputc('-', f);
	fprintf(f, " %.*s ", (int)len, text);
	for (unsigned i = left + len + 5; i < width; i++)
		fputc('-', f);
	fputc(p->sent ? '>' : '-', f);
}

void conform_ladder(FILE *f, const struct conform_result *r, unsigned indent, unsigned width)
{
	const unsigned left = indent + 15;
	const unsigned inner = width > left + LABEL_LEAST ? width - left : LABEL_LEAST;
	unsigned rows = 0;

	if (!r->packets)
		return;
	fprintf(f, "%*s       time  tester%*s\n", (int)indent, "", (int)inner - 4, "device");
	for (unsigned i = 0; i < r->packets && rows < ROWS; i++) {
		const struct conform_packet *p = &r->packet[i];

		if (p->hello && i && r->packet[i - 1].hello)
			continue;
		fprintf(f, "%*s%8.3f ms  |", (int)indent, "",
			(double)(p->ns - r->packet[0].ns) / 1e6);
		if (p->hello)
			fprintf(f, "%*s%-*s", (int)inner / 2 - 14, "",
				(int)(inner - inner / 2) + 14, "(QP 1 is asked, and answers)");
		else
			arrow(f, p, inner);
		fputs("|\n", f);
		rows++;
	}
	if (rows == ROWS)
		fprintf(f, "%*sand more\n", (int)indent + 13, "");
}
