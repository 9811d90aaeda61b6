/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The errors table as a document: docs/errors.md on stdout, or with that file as the argument: is
 * it what would be printed?
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/why.h>

#include "errors.h"

static const char head[] =
	"# Errors and what they look like\n"
	"\n"
	"Printed by `errors-table` from the rows in `lab/parity/error-rows.c` and\n"
	"`test/errors/bodies.c`. These rows run over the drop-in libibverbs on real sockets,\n"
	"on one device and between two devices, and in the simulator with all losses of\n"
	"their first packets (RC). [interop.md](interop.md) has the same rows between rocemu\n"
	"and the kernel's Soft-RoCE, in both roles. In each row a second request follows the\n"
	"first one, and each side has one more receive, so that flushes are visible.\n"
	"\n"
	"The columns:\n"
	"\n"
	"- *local*: the completion of the request; *behind*: that of the request posted\n"
	"  after it.\n"
	"- *NAK*: the AETH syndrome on the wire, also in `vendor_err` (other errors: [a\n"
	"  code](#reasons-and-vendor_err)).\n"
	"- *receive*: the completion of the receive that the request takes at the peer;\n"
	"  *peer behind*: that of the next receive.\n"
	"- *states*: the states of the requester's and the responder's QP afterwards.\n"
	"- *event*: the asynchronous event, at the responder unless marked \"local\".\n"
	"\n"
	"A dash means none. If the answer with a NAK is lost, the requester ends with\n"
	"`RETRY_EXC_ERR` instead, as with any RNIC: the responder is then in ERR and does\n"
	"not answer.\n";

static void print_events(FILE *out, const struct err_ends *w)
{
	bool any = false;

	err_event_names(w->events[REQ], " (local)", &any, out);
	err_event_names(w->events[RSP], "", &any, out);
	if (!any)
		fputs("-", out);
}

static void print_row(FILE *out, const struct err_row *r)
{
	const struct err_ends *w = &r->want;
	char nak[8] = "-";

	fprintf(out, "| %s | %s | ",
		r->type == IBV_QPT_RC	? "RC"
		: r->type == IBV_QPT_UC ? "UC"
					: "UD",
		r->how);
	if (r->err) {
		fprintf(out, "refused: EINVAL | | | | | | |\n");
		return;
	}
	if (w->nak)
		snprintf(nak, sizeof(nak), "0x%02x", w->nak);
	fprintf(out, "%s | %s | %s | %s | %s%s | %s / %s | ", err_status_name(w->first),
		err_status_name(w->behind), nak, err_status_name(w->recv),
		err_status_name(w->recv_behind), r->behind_passes ? " or SUCCESS" : "",
		err_state_name(w->state[REQ]), err_state_name(w->state[RSP]));
	print_events(out, w);
	fputs(" |\n", out);
}

static void print_rows(FILE *out, const char *title, const struct err_row *rows, unsigned n)
{
	fprintf(out,
		"\n## %s\n\n| service | what | local | behind | NAK | receive | peer behind | "
		"states | event |\n"
		"|---|---|---|---|---|---|---|---|---|\n",
		title);
	for (unsigned i = 0; i < n; i++)
		print_row(out, &rows[i]);
}

static void print_absent(FILE *out, const char *title, const struct err_absent *list, unsigned n)
{
	fprintf(out, "\n## %s\n\n| | |\n|---|---|\n", title);
	for (unsigned i = 0; i < n; i++)
		fprintf(out, "| %s | %s |\n", list[i].name, list[i].why);
}

/** A text of the table; a bar would end the cell. */
static void print_cell(FILE *out, const char *text)
{
	for (; *text; text++)
		fprintf(out, *text == '|' ? "\\|" : "%c", *text);
	fputs(" | ", out);
}

static void print_reasons(FILE *out)
{
	static const struct {
		unsigned number;
		const char *text, *rule, *remedy;
	} table[] = {
#define X(number, name, text, rule, remedy) {number, text, rule, remedy},
		ROCEMU_WHYS(X)
#undef X
	};

	fputs("\n"
	      "## Reasons, and vendor_err\n"
	      "\n"
	      "`rocemu run --log why` (or ROCEMU_LOG=why) prints the reason of each error in a\n"
	      "line: the object, what it was and its values, the rule, what to do, and the code.\n"
	      "The line is printed before the program can see the completion or event of the "
	      "error.\n"
	      "The same reason for an object is printed at most once a minute, with the number of\n"
	      "repetitions in between; each code has at most 16 lines a minute. At its end the\n"
	      "process prints how many lines were suppressed.\n"
	      "\n"
	      "`vendor_err` of a completion in error is the syndrome of the received NAK\n"
	      "(0x60-0x63; an RNR NAK: 0x20 with its timer), as on the wire. If the error was not\n"
	      "caused by a NAK, it is one of these codes, a different one for each cause. For a\n"
	      "flushed request it is 0. The codes do not change between versions. Below, {words} "
	      "stand\n"
	      "for values.\n"
	      "\n"
	      "Refused calls print their reason in the same way, without a code.\n"
	      "\n"
	      "| code | what is printed | rule | remedy |\n|---|---|---|---|\n",
	      out);
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		fprintf(out, "| 0x%x | ", table[i].number);
		print_cell(out, table[i].text);
		print_cell(out, table[i].rule);
		fprintf(out, "%s |\n", table[i].remedy);
	}
}

static void print_all(FILE *out)
{
	fputs(head, out);
	print_rows(out, "A request that fails", err_rows, err_nrows);
	print_rows(out, "States, queues, events", err_bodies, err_nbodies);
	print_absent(out, "Statuses that have no row", err_absent_statuses, err_nabsent_statuses);
	print_absent(out, "Asynchronous events that have no row", err_absent_events,
		     err_nabsent_events);
	print_reasons(out);
}

static bool same(FILE *f, const char *text, size_t len)
{
	char *have = malloc(len + 1);
	bool ok = have && fread(have, 1, len + 1, f) == len && !memcmp(have, text, len);

	free(have);
	return ok;
}

int main(int argc, char **argv)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f;
	bool ok;

	if (argc < 2) {
		print_all(stdout);
		return 0;
	}
	f = open_memstream(&text, &len);
	if (!f)
		return 2;
	print_all(f);
	fclose(f);
	f = fopen(argv[1], "r");
	if (!f) {
		perror(argv[1]);
		return 2;
	}
	ok = same(f, text, len);
	if (!ok)
		fprintf(stderr, "%s is not what the rows say: write it anew with \"%s > %s\"\n",
			argv[1], argv[0], argv[1]);
	fclose(f);
	free(text);
	return !ok;
}
