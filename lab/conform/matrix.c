/* SPDX-License-Identifier: BSD-2-Clause */
/* Cases x devices, from several runs. */
#include <string.h>

#include "base/xml.h"
#include "conform/page.h"
#include "conform/past.h"

enum { COLUMN = 14, ID_WIDTH = 24 };

/** A case of one of the runs. false: there is none behind it. Its run is *which. */
static const struct conform_past_case *next_case(const struct conform_past *p, unsigned n,
						 unsigned *which, unsigned *at)
{
	for (; *which < n; ++*which, *at = 0) {
		while (*at < p[*which].ncases) {
			const struct conform_past_case *c = &p[*which].cases[(*at)++];
			unsigned before = 0;

			while (before < *which && !conform_past_find(&p[before], c->id))
				before++;
			if (before == *which)
				return c;
		}
	}
	return NULL;
}

/** "keeps", or "" where the device's run has it not. */
static const char *trait_of(const struct conform_past *p, const char *id, const char *name)
{
	const struct conform_past_case *c = conform_past_find(p, id);

	for (unsigned i = 0; c && i < c->traits; i++)
		if (strcmp(c->trait[i].name, name) == 0)
			return c->trait[i].value;
	return "";
}

static const char *verdict_of(const struct conform_past *p, const char *id)
{
	const struct conform_past_case *c = conform_past_find(p, id);

	return c ? conform_verdict_text[c->verdict] : "absent";
}

/** In verdicts, or in what is no time. */
static bool devices_differ(const struct conform_past *p, unsigned n,
			   const struct conform_past_case *c)
{
	for (unsigned i = 1; i < n; i++) {
		if (strcmp(verdict_of(&p[0], c->id), verdict_of(&p[i], c->id)) != 0)
			return true;
		for (unsigned k = 0; k < c->traits; k++)
			if (!c->trait[k].time &&
			    strcmp(trait_of(&p[0], c->id, c->trait[k].name),
				   trait_of(&p[i], c->id, c->trait[k].name)) != 0)
				return true;
	}
	return false;
}

static char letter(unsigned i)
{
	return (char)('A' + i % 26);
}

/* ---- text ---- */

static void put_row(FILE *f, const struct conform_past *p, unsigned n,
		    const struct conform_past_case *c)
{
	fprintf(f, "%c %-*s", devices_differ(p, n, c) ? '*' : ' ', ID_WIDTH, c->id);
	for (unsigned i = 0; i < n; i++)
		fprintf(f, " %-*s", COLUMN, verdict_of(&p[i], c->id));
	fputc('\n', f);
	for (unsigned k = 0; k < c->traits; k++) {
		fprintf(f, "    %-*s", ID_WIDTH - 2, c->trait[k].name);
		for (unsigned i = 0; i < n; i++)
			fprintf(f, " %-*s", COLUMN, trait_of(&p[i], c->id, c->trait[k].name));
		fputc('\n', f);
	}
}

void conform_matrix(FILE *f, const struct conform_past *p, unsigned n)
{
	const struct conform_past_case *c;
	unsigned which = 0, at = 0;

	for (unsigned i = 0; i < n; i++)
		fprintf(f, "%c: %s (%s, %s)\n", letter(i), conform_past_name(&p[i]), p[i].path,
			p[i].started);
	fprintf(f, "\n  %-*s", ID_WIDTH, "");
	for (unsigned i = 0; i < n; i++)
		fprintf(f, " %-*c", COLUMN, letter(i));
	fputc('\n', f);
	while ((c = next_case(p, n, &which, &at)))
		put_row(f, p, n, c);
}

/* ---- the page ---- */

static void put_cell(FILE *f, const struct conform_past *p, const struct conform_past_case *c)
{
	const struct conform_past_case *own = conform_past_find(p, c->id);
	const char *verdict = verdict_of(p, c->id);

	fprintf(f, "<td><span class=\"v %s\">%s</span>", verdict, verdict);
	for (unsigned i = 0; own && i < own->traits; i++) {
		fputs("<br>", f);
		xml_text(f, own->trait[i].name);
		fputc(' ', f);
		xml_text(f, own->trait[i].value);
	}
	if (own && *own->came && own->verdict != CONFORM_MEASURED) {
		fputs("<br><span class=\"dim\">came: ", f);
		xml_text(f, own->came);
		fputs("</span>", f);
	}
	fputs("</td>", f);
}

static void put_heads(FILE *f, const struct conform_past *p, unsigned n)
{
	fputs("<tr><th>Case</th>", f);
	for (unsigned i = 0; i < n; i++) {
		fputs("<th title=\"", f);
		xml_text(f, p[i].target);
		fputc(' ', f);
		xml_text(f, p[i].started);
		fputs("\">", f);
		xml_text(f, conform_past_name(&p[i]));
		fputs("</th>", f);
	}
	fputs("</tr>\n", f);
}

void conform_matrix_html(FILE *f, const struct conform_past *p, unsigned n)
{
	const struct conform_past_case *c;
	unsigned which = 0, at = 0;

	conform_page_begin(f, "cases and devices");
	fputs("<p class=\"dim\">Rows with a grey background differ between the devices.</p>\n"
	      "<table class=\"devices\">\n",
	      f);
	put_heads(f, p, n);
	while ((c = next_case(p, n, &which, &at))) {
		fprintf(f, "<tr%s><td><code>", devices_differ(p, n, c) ? " class=\"differs\"" : "");
		xml_text(f, c->id);
		fputs("</code><br><span class=\"dim\">", f);
		xml_text(f, c->sentence);
		fputs("</span></td>", f);
		for (unsigned i = 0; i < n; i++)
			put_cell(f, &p[i], c);
		fputs("</tr>\n", f);
	}
	fputs("</table>\n", f);
	conform_page_end(f);
}
