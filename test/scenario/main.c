/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carries scenarios out: scenario with endpoints in memory; scenario-verbs (compiled with
 * WITH_VERBS) with queue pairs of a device.
 */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_VERBS
#include "verbs.h"
static const struct scenario_backend *const backend = &scenario_verbs;
#define NAME "scenario-verbs --device NAME"
#define WITH "pairs of queue pairs of a device"
#define MORE "  --device NAME   the device (ibv_devices)\n  --gid N         index of its GID (0)\n"
#else
#include "endpoint.h"
static const struct scenario_backend *const backend = &scenario_endpoint;
#define NAME "scenario"
#define WITH "endpoints in memory, in virtual time"
#define MORE ""
#endif

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage[] =
	"Usage: " NAME " [OPTION]... FILE...\n"
	"Carries out the cases of scenario files with " WITH ".\n"
	"\n" MORE "  --only PATTERN  cases whose name matches (fnmatch, or a part of the name)\n"
	"  --skip          leave out, and count, cases that are not possible with them\n"
	"  --list          print the names and the number of rounds instead\n"
	"  --verbose       print each line and what came\n"
	"  --words         print the words of the language\n"
	"  --help          this text\n"
	"\n"
	"Exit code 0: all passed. 1: a case failed, or a file is wrong. 2: usage.\n";

struct options {
	const char *only;
	bool list, verbose, skip;
	const char *device;
	int gid;
};

struct totals {
	unsigned cases, rounds, failed, skipped;
};

static char *read_file(const char *name, size_t *len)
{
	FILE *f = fopen(name, "r");
	char *text = malloc(SCENARIO_TEXT_MAX + 1);

	if (!f || !text) {
		perror(name);
		free(text);
		text = NULL;
	} else {
		*len = fread(text, 1, SCENARIO_TEXT_MAX + 1, f);
		if (ferror(f)) {
			perror(name);
			free(text);
			text = NULL;
		}
	}
	if (f)
		fclose(f);
	return text;
}

static void print_error(const char *name, const struct scenario_result *r)
{
	const struct scenario_error *e = &r->error;

	fprintf(stderr, "%s:%u:", e->file, e->line);
	if (e->column)
		fprintf(stderr, "%u:", e->column);
	fprintf(stderr, " %s\n", e->text);
	if (name)
		fprintf(stderr, "  case: %s%s%s%s\n", name, *r->values ? " (" : "", r->values,
			*r->values ? ")" : "");
}

static bool selected(const struct options *o, const char *name)
{
	return !o->only || strstr(name, o->only) || fnmatch(o->only, name, 0) == 0;
}

static void run_case(const struct scenario *s, unsigned i, const struct options *o,
		     struct totals *t)
{
	const struct scenario_case *c = &s->cases[i];
	struct scenario_result r;

	if (!selected(o, c->head.text))
		return;
	t->cases++;
	t->rounds += c->rounds;
	if (o->list) {
		printf("%s:%u: %s (%u)\n", s->file, c->head.number, c->head.text, c->rounds);
		return;
	}
	for (unsigned round = 0; round < c->rounds; round++) {
		if (o->verbose)
			printf("%s\n", c->head.text);
		scenario_run(s, i, round, backend, o->verbose ? stdout : NULL, &r);
		if (r.verdict == SCENARIO_PASS)
			continue;
		if (r.verdict == SCENARIO_CANNOT && o->skip) {
			t->skipped++;
			if (o->verbose)
				print_error(c->head.text, &r);
			return;
		}
		fflush(stdout);
		print_error(c->head.text, &r);
		t->failed++;
		return;
	}
}

static void run_file(const char *name, const struct options *o, struct totals *t)
{
	struct scenario_result r = {0};
	struct scenario *s;
	size_t len = 0;
	char *text = read_file(name, &len);

	s = text ? scenario_read(text, len, name, &r.error) : NULL;
	if (text && !s)
		print_error(NULL, &r);
	if (s && !s->ncases)
		fprintf(stderr, "%s: no case\n", name);
	t->failed += !s || !s->ncases;
	for (unsigned i = 0; s && i < s->ncases; i++)
		run_case(s, i, o, t);
	scenario_free(s);
	free(text);
}

/** false: usage. */
static bool use_device(const struct options *o)
{
#ifdef WITH_VERBS
	int error = o->device ? scenario_verbs_device(o->device, o->gid) : -EINVAL;

	if (o->device && error)
		fprintf(stderr, "%s: %s\n", o->device, strerror(-error));
	return !error;
#else
	return !o->device;
#endif
}

static bool read_gid(const char *text, int *index)
{
	char *end;
	const long v = strtol(text, &end, 10);

	*index = (int)v;
	if (!*end && end != text && v >= 0 && v < 256)
		return true;
	fprintf(stderr, "--gid %s: an index from 0 to 255 is expected\n", text);
	return false;
}

enum { GO_ON = -1 };

/** @return GO_ON, or an exit code. */
static int read_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{"device", required_argument, NULL, 'd'},
		{"gid", required_argument, NULL, 'g'},
		{"only", required_argument, NULL, 'o'},
		{"list", no_argument, NULL, 'l'},
		{"skip", no_argument, NULL, 's'},
		{"verbose", no_argument, NULL, 'v'},
		{"words", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'd':
			o->device = optarg;
			break;
		case 'g':
			if (!read_gid(optarg, &o->gid))
				return EXIT_USAGE;
			break;
		case 'o':
			o->only = optarg;
			break;
		case 'l':
			o->list = true;
			break;
		case 's':
			o->skip = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'w':
			scenario_print_words(stdout);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc && use_device(o))
		return GO_ON;
	fputs(usage, stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct options o = {0};
	struct totals t = {0};
	int code = read_options(argc, argv, &o);

	if (code != GO_ON)
		return code;
	for (; optind < argc; optind++)
		run_file(argv[optind], &o, &t);
	printf("%u cases in %u rounds, %u failed", t.cases, t.rounds, t.failed);
	if (o.skip)
		printf(", %u not possible here", t.skipped);
	putchar('\n');
	return t.failed || t.skipped == t.cases ? EXIT_FAILED : 0;
}
