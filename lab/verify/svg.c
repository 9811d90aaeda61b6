/* SPDX-License-Identifier: BSD-2-Clause */
/* Ladder diagrams as SVG. What comes from the capture or the command line is escaped. */
#include <inttypes.h>

#include "ladder.h"
#include "names.h"

enum {
	WIDTH = 860,
	LINE_A = 170,
	LINE_B = 820,
	ROW_HEIGHT = 30,
	SLANT = 7,
	HEAD_HEIGHT = 62,
	FOOT = 18,
	LABEL = 160,
};

static const char style[] =
	"<style>\n"
	".bg { fill: #ffffff } .t { fill: #1f2328 } .dim { fill: #656d76; stroke: none }\n"
	".life { stroke: #afb8c1 } .req { stroke: #0550ae; fill: #0550ae }\n"
	".resp { stroke: #116329; fill: #116329 } .nak { stroke: #bc4c00; fill: #bc4c00 }\n"
	".again { stroke: #a40e26; fill: #a40e26 } .cm { stroke: #6639ba; fill: #6639ba }\n"
	".gap { stroke: #8c959f; fill: #a40e26; stroke-dasharray: 5 4 }\n"
	"text { font: 13px system-ui, sans-serif; stroke: none }\n"
	".mono { font: 11px ui-monospace, monospace } .who { font-weight: bold }\n"
	"line { stroke-width: 1.5 }\n"
	"@media (prefers-color-scheme: dark) {\n"
	".bg { fill: #0d1117 } .t { fill: #e6edf3 } .dim { fill: #8d96a0 }\n"
	".life { stroke: #484f58 } .req { stroke: #79c0ff; fill: #79c0ff }\n"
	".resp { stroke: #7ee787; fill: #7ee787 } .nak { stroke: #ffa657; fill: #ffa657 }\n"
	".again { stroke: #ff7b72; fill: #ff7b72 } .cm { stroke: #d2a8ff; fill: #d2a8ff }\n"
	".gap { stroke: #6e7681; fill: #ff7b72 }\n"
	"}\n"
	"</style>\n";

static void escaped(FILE *f, const char *text)
{
	for (; *text != 0; text++) {
		if (*text == '<')
			fputs("&lt;", f);
		else if (*text == '>')
			fputs("&gt;", f);
		else if (*text == '&')
			fputs("&amp;", f);
		else if ((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f)
			fputc(*text, f);
		else
			fputc('?', f);
	}
}

static const char *row_class(const struct row *r)
{
	if (r->kind == ROW_MISSING)
		return "gap";
	if (!r->e->decoded || r->e->again)
		return "again";
	if (r->e->mad != NULL)
		return "cm";
	if (logged_is_nak(r->e))
		return "nak";
	return rocemu_opcode_ops(r->e->h.opcode) & ROCEMU_OP_REQUEST ? "req" : "resp";
}

static void row_arrow(FILE *f, const struct row *r, int y)
{
	int from = r->e->back ? LINE_B : LINE_A, to = r->e->back ? LINE_A : LINE_B;
	int way = r->e->back ? -1 : 1;

	if (r->kind == ROW_MISSING) { /* it ends on the way */
		int x = from + way * (LINE_B - LINE_A) / 2;

		fprintf(f,
			"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>"
			"<path d=\"M%d %d l8 8 m0 -8 l-8 8\" style=\"stroke-dasharray: none\"/>\n",
			from, y, x, y + SLANT / 2, x - 4, y - 1);
		return;
	}
	fprintf(f,
		"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>"
		"<path d=\"M%d %d l%d -5 v8 z\" stroke=\"none\"/>\n",
		from, y, to - way * 4, y + SLANT, to, y + SLANT, -way * 9);
}

static void row(FILE *f, const struct row *r, int y)
{
	char label[LABEL], time[32];
	struct text l = text_start(label, sizeof(label)), t = text_start(time, sizeof(time));

	row_label(r, &l);
	if (r->kind == ROW_MORE) {
		fprintf(f,
			"<text class=\"dim\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			(LINE_A + LINE_B) / 2, y, label);
		return;
	}
	fprintf(f, "<g class=\"%s\"><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", row_class(r),
		(LINE_A + LINE_B) / 2, y - 3);
	escaped(f, label);
	fputs("</text>\n", f);
	row_arrow(f, r, y);
	fputs("</g>\n", f);
	if (r->kind != ROW_PACKET)
		return;
	row_time(r, &t);
	fprintf(f,
		"<text class=\"dim mono\" x=\"52\" y=\"%d\" text-anchor=\"end\">%" PRIu64
		"</text><text class=\"dim mono\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
		y + 4, r->e->number, LINE_A - 10, y + 4, time);
}

static void side(FILE *f, const struct session *s, unsigned side, int x, int y)
{
	char text[LABEL];
	struct text t = text_start(text, sizeof(text));

	text_add_gid(&t, &s->side[side].gid);
	if (s->side[side].qpn != 0)
		text_add(&t, "  QP 0x%" PRIx32, s->side[side].qpn);
	fprintf(f,
		"<text class=\"t who\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>"
		"<text class=\"dim mono\" x=\"%d\" y=\"%d\" text-anchor=\"%s\">",
		x, y, side == 0 ? "A" : "B", x + (int)side * 30, y + 15,
		side == 0 ? "middle" : "end");
	escaped(f, text);
	fputs("</text>\n", f);
}

static int height_of(const struct ladder *d)
{
	return HEAD_HEIGHT + (int)d->row_n * ROW_HEIGHT + FOOT;
}

static void diagram(FILE *f, const struct ladder *d, int top)
{
	int bottom = top + height_of(d) - FOOT;

	side(f, d->lesson->session, 0, LINE_A, top + 20);
	side(f, d->lesson->session, 1, LINE_B, top + 20);
	for (unsigned i = 0; i < 2; i++)
		fprintf(f, "<line class=\"life\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n",
			i ? LINE_B : LINE_A, top + 42, i ? LINE_B : LINE_A, bottom);
	for (unsigned i = 0; i < d->row_n; i++)
		row(f, &d->rows[i], top + HEAD_HEIGHT + (int)i * ROW_HEIGHT);
}

void svg_write(const struct ladder *ladders, unsigned n, FILE *f, const char *name)
{
	int height = 0, top = 0;

	for (unsigned i = 0; i < n; i++)
		height += height_of(&ladders[i]);
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\">\n<title>",
		WIDTH, height, WIDTH, height);
	escaped(f, name);
	fprintf(f, "</title>\n%s<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", style, WIDTH,
		height);
	for (unsigned i = 0; i < n; i++) {
		diagram(f, &ladders[i], top);
		top += height_of(&ladders[i]);
	}
	fputs("</svg>\n", f);
}
