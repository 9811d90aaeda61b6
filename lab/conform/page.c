/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run as a page: a table of families with a cell for each case, and each case with its rule, its
 * lines, what differs, and the packets. There is no script, and nothing is loaded.
 */
#include "conform/page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "base/xml.h"
#include "conform/ladder.h"

enum { WIDTH = 104, HEX_PACKETS = 64, HEX_BYTES = 512, HEX_LINE = 16 };

/** page/style.css with a zero behind it; a source made of it when building. */
extern const unsigned char conform_style[];

/* ---- the frame ---- */

void conform_page_begin(FILE *f, const char *title)
{
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'\">\n<title>rocemu conform: ",
	      f);
	xml_text(f, title);
	fprintf(f, "</title>\n<style>\n%s</style></head><body>\n<h1>", (const char *)conform_style);
	xml_text(f, title);
	fputs("</h1>\n", f);
}

void conform_page_end(FILE *f)
{
	fputs("</body></html>\n", f);
}

/* ---- the table ---- */

static void put_cell(FILE *f, const struct conform_result *r)
{
	const char *verdict = conform_verdict_text[r->verdict];

	fprintf(f, "<a class=\"%s\" href=\"#", verdict);
	xml_text(f, r->c->id);
	fputs("\" title=\"", f);
	xml_text(f, r->c->id);
	fprintf(f, " %s: ", verdict);
	xml_text(f, r->c->sentence);
	fprintf(f, "\">%c</a>", conform_letter(r->verdict));
}

static void put_table(FILE *f, const struct conform_report *p)
{
	fputs("<table class=\"families\">\n", f);
	for (unsigned i = 0; i < p->results; i++) {
		const struct conform_case *c = p->result[i].c;

		if (!i || !conform_same_family(p->result[i - 1].c, c)) {
			fputs(i ? "</td></tr>\n<tr><th>" : "<tr><th>", f);
			xml_text_n(f, c->id, (size_t)conform_family_len(c->id));
			fputs("</th><td class=\"cells\">", f);
		}
		put_cell(f, &p->result[i]);
	}
	fputs(p->results ? "</td></tr>\n</table>\n" : "</table>\n", f);
}

static void put_head(FILE *f, const struct conform_report *p)
{
	const time_t seconds = (time_t)(p->started_ns / NS_PER_S);
	char text[64];
	struct tm t;

	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&seconds, &t));
	fprintf(f, "<p class=\"dim\">%s, from %s, by rocemu ", p->target, p->from);
	xml_text(f, p->version);
	fprintf(f, ", %s, %.1f s%s%s</p>\n<p>", text, (double)p->ns / 1e9,
		p->stopped ? ", stopped: " : "", p->stopped ? p->stopped : "");
	for (unsigned i = 0; i < CONFORM_VERDICT_COUNT; i++)
		if (p->count[i])
			fprintf(f, "<span class=\"v %s\">%u %s</span> ", conform_verdict_text[i],
				p->count[i], conform_verdict_text[i]);
	fputs("</p>\n", f);
}

/* ---- a case ---- */

static void put_term(FILE *f, const char *term, const char *text, size_t len)
{
	if (!len)
		return;
	fprintf(f, "<dt>%s</dt><dd>", term);
	xml_text_n(f, text, len);
	fputs("</dd>\n", f);
}

static void put_terms(FILE *f, const struct conform_result *r)
{
	const char *line = conform_line_text(r->c, r->line);
	struct conform_difference d;
	struct conform_series s;
	char text[512];

	conform_difference(r, &d);
	fputs("<dl>\n", f);
	snprintf(text, sizeof(text), "%s, IBTA %s", conform_level_text[r->c->about.level],
		 r->c->about.clause);
	put_term(f, "Rule", text, strlen(text));
	put_term(f, "At the device", conform_peer_text[r->c->about.peer],
		 strlen(conform_peer_text[r->c->about.peer]));
	put_term(f, "Line", line, strlen(line));
	put_term(f, "Text", d.what.at, (size_t)d.what.len);
	put_term(f, "Expected", d.expected.at, (size_t)d.expected.len);
	put_term(f, "Came", d.came.at, (size_t)d.came.len);
	if (r->known)
		put_term(f, "Known", r->known, strlen(r->known));
	for (unsigned at = 0; conform_series_next(r, &at, &s);) {
		conform_series_text(&s, text, sizeof(text));
		put_term(f, "Measured", text, strlen(text));
	}
	fputs("</dl>\n", f);
}

static void put_lines(FILE *f, const struct conform_case *c)
{
	const struct scenario_case *from = &c->s->cases[c->number];

	fputs("<pre class=\"case\">", f);
	for (unsigned i = 0; i < from->lines; i++) {
		xml_text(f, c->s->line[from->first + i].text);
		fputc('\n', f);
	}
	fputs("</pre>\n", f);
}

static void put_ladder(FILE *f, const struct conform_result *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *m = r->packets ? open_memstream(&text, &len) : NULL;

	if (!m)
		return;
	conform_ladder(m, r, 0, WIDTH);
	fputs("<pre class=\"ladder\">", f);
	if (fclose(m) == 0)
		xml_text_n(f, text, len);
	free(text);
	fputs("</pre>\n", f);
}

static void put_bytes(FILE *f, const struct conform_packet *p)
{
	for (uint32_t i = 0; i < p->len && i < HEX_BYTES; i++)
		fprintf(f, i % HEX_LINE ? " %02x" : "\n  %02x", p->data[i]);
	fprintf(f, "%s\n", p->len > HEX_BYTES ? "\n  ..." : "");
}

/** From the BTH to the ICRC. */
static void put_hex(FILE *f, const struct conform_result *r)
{
	char text[CONFORM_PACKET_TEXT];
	unsigned n = 0;

	fputs("<details><summary>Bytes of the packets, from the BTH to the ICRC</summary>"
	      "<pre class=\"bytes\">",
	      f);
	for (unsigned i = 0; i < r->packets && n < HEX_PACKETS; i++) {
		if (r->packet[i].hello)
			continue;
		conform_packet_text(&r->packet[i], text);
		fprintf(f, "%s: ", r->packet[i].sent ? "tester" : "device");
		xml_text(f, text);
		put_bytes(f, &r->packet[i]);
		n++;
	}
	fputs("</pre></details>\n", f);
}

static void put_again(FILE *f, const struct conform_report *p, const struct conform_case *c)
{
	char *text = NULL;
	size_t len = 0;
	FILE *m = open_memstream(&text, &len);

	if (!m)
		return;
	conform_again(m, p, c);
	if (fclose(m) == 0)
		xml_text_n(f, text, len);
	free(text);
}

static bool is_open(enum conform_verdict v)
{
	return v == CONFORM_FAIL || v == CONFORM_WARN;
}

static void put_case(FILE *f, const struct conform_report *p, const struct conform_result *r)
{
	const char *verdict = conform_verdict_text[r->verdict];

	fputs("<details id=\"", f);
	xml_text(f, r->c->id);
	fprintf(f, "\"%s><summary><span class=\"v %s\">%s</span> <code>",
		is_open(r->verdict) ? " open" : "", verdict, verdict);
	xml_text(f, r->c->id);
	fputs("</code> ", f);
	xml_text(f, r->c->sentence);
	fputs("</summary>\n", f);
	put_terms(f, r);
	put_lines(f, r->c);
	if (r->verdict != CONFORM_PASS) {
		put_ladder(f, r);
		if (r->packets)
			put_hex(f, r);
	}
	fputs("<p>Again: <code>", f);
	put_again(f, p, r->c);
	fputs("</code></p></details>\n", f);
}

void conform_html(FILE *f, const struct conform_report *p)
{
	conform_page_begin(f, *p->name ? p->name : p->target);
	put_head(f, p);
	put_table(f, p);
	for (unsigned i = 0; i < p->results; i++) {
		const struct conform_case *c = p->result[i].c;

		if (!i || !conform_same_family(p->result[i - 1].c, c)) {
			fputs("<h2>", f);
			xml_text_n(f, c->id, (size_t)conform_family_len(c->id));
			fputs("</h2>\n", f);
		}
		put_case(f, p, &p->result[i]);
	}
	conform_page_end(f);
}
