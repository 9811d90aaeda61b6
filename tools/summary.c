/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "child.h"
#include "engine/portcount.h"
#include "stat-show.h"
#include "tool.h"

/* The columns; a value may be the sum of several. 0: no more. */
enum { TERMS = 3 };
#define VALUE(member) (offsetof(struct port_counts, member) / sizeof(uint64_t) + 1)
static const struct column {
	const char *name;
	size_t value[TERMS]; /* of a row, plus 1 */
} columns[] = {
	{"TX", {VALUE(ep.tx_packets)}},
	{"BYTES", {VALUE(ep.tx_bytes)}},
	{"RX", {VALUE(ep.rx_packets)}},
	{"BYTES", {VALUE(ep.rx_bytes)}},
	{"RETRY", {VALUE(ep.retransmits)}},
	{"TMO", {VALUE(ep.timeouts)}},
	{"PROBE", {VALUE(ep.probes)}},
	{"NAK<", {VALUE(ep.naks_rcvd), VALUE(ep.err_naks_rcvd)}},
	{"NAK>", {VALUE(ep.naks_sent), VALUE(ep.err_naks_sent)}},
	{"RNR<", {VALUE(ep.rnr_naks_rcvd)}},
	{"RNR>", {VALUE(ep.rnr_naks_sent)}},
	{"EARLY", {VALUE(ep.kept), VALUE(ep.kept_full)}},
	{"CNP<", {VALUE(ep.cnps_rcvd)}},
	{"DROP", {VALUE(lane.rx_sock_drops), VALUE(lane.tx_errors)}},
};

int summary_open(struct summary *s, const char *root, const struct netdev *devs, unsigned n)
{
	char path[PATH_MAX];

	s->dev = calloc(n + 1, sizeof(*s->dev));
	if (!s->dev)
		return -ENOMEM;
	for (s->n = 0; s->n < n; s->n++) {
		struct summary_device *d = &s->dev[s->n];

		snprintf(d->name, sizeof(d->name), "%s", devs[s->n].name);
		if (portcount_path(path, sizeof(path), root, d->name))
			d->file = countfile_map(path);
	}
	return 0;
}

static void print_row(FILE *f, const struct summary_device *d)
{
	char text[16];

	fprintf(f, "rocemu: %-16s", d->name);
	for (unsigned i = 0; i < ARRAY_LEN(columns); i++) {
		uint64_t sum = 0;

		for (unsigned t = 0; t < TERMS && columns[i].value[t]; t++)
			sum += countfile_value(d->file, (unsigned)columns[i].value[t] - 1);
		fprintf(f, " %5s", stat_short(text, sum));
	}
	fputc('\n', f);
}

/** In one write, so that tables of several processes do not mix. */
static void print(const struct summary *s)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	fprintf(f, "rocemu: %-16s", "device");
	for (unsigned i = 0; i < ARRAY_LEN(columns); i++)
		fprintf(f, " %5s", columns[i].name);
	fputc('\n', f);
	for (unsigned d = 0; d < s->n; d++)
		if (s->dev[d].file)
			print_row(f, &s->dev[d]);
	if (fclose(f) == 0)
		fputs(text, stderr);
	free(text);
}

int summary_run(struct summary *s, const char *self, char **argv)
{
	int status = 0, ret = child_run(self, argv, &status);

	if (ret)
		return ret;
	print(s);
	for (unsigned d = 0; d < s->n; d++)
		countfile_unmap(s->dev[d].file);
	free(s->dev);
	return child_end_as(status);
}
