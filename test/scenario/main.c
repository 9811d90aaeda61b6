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

#include "base/util.h"

#ifdef WITH_VERBS
#include "verbs.h"
static const struct scenario_backend *const backend = &scenario_verbs;
#define NAME "scenario-verbs --device NAME"
#define WITH "pairs of queue pairs of a device"
#define MORE                                                                                       \
	"  --device NAME   the device (ibv_devices)\n"                                             \
	"  --gid N         index of its GID (0)\n"                                                 \
	"  --listen PORT   be end b for another process, which is run with --peer; no FILE. The\n" \
	"                  first that connects has the end: not for networks of others\n"          \
	"  --peer HOST:PORT  end b is there; with --from, the only end\n"                          \
	"  --from ADDRESS  cases with one queue pair: its peer is at this address, which is\n"     \
	"                  not the device's, and writes the packets, on UDP port 4791\n"           \
	"  --wr            post by ibv_wr_*, not by ibv_post_send()\n"                             \
	"  --cq-ex         poll by ibv_start_poll(), not by ibv_poll_cq()\n"                       \
	"  --events        sleep on completion channels\n"                                         \
	"  --vendor-err    the device is rocemu's: compare vendor_err as well\n"                   \
	"  --wait MS       for a completion at most (60000)\n"                                     \
	"  --event-wait MS for an asynchronous event (60000)\n"                                    \
	"  --rxe-inv       the device marks receives of SEND with invalidate as rxe does\n"
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
	"  --with NAME=WORD     rounds in which NAME of a table stands for WORD, and cases without "
	"it\n"
	"  --without NAME=WORD  not these rounds\n"
	"  --set NAME=NUMBER    an attribute that a line does not give\n"
	"  --results       print a line 'ok NAME' or 'not ok NAME' for each case, behind its "
	"error\n"
	"  --rounds        the same for each round, and before it what differs; then go on\n"
	"  --verbose       print each line and what came\n"
	"  --words         print the words of the language\n"
	"  --help          this text\n"
	"\n"
	"Exit code 0: all passed. 1: a case failed, or a file is wrong. 2: usage.\n";

enum { SELECT_MAX = 32, WAIT_MAX_MS = 600000 };

/** "NAME=..." */
struct select {
	char name[SCENARIO_WORD_LEN];
	const char *value;
	bool without;
};

struct options {
	const char *only;
	int list, verbose, skip, results, each, words, help; /* as getopt_long() sets them */
	const char *device, *listen, *peer, *from;
	int gid, wait_ms, event_ms;
	struct select round[SELECT_MAX], set[SELECT_MAX];
	unsigned rounds, sets;
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

static void print_error(FILE *f, const char *name, const struct scenario_result *r)
{
	const struct scenario_error *e = &r->error;

	fprintf(f, "%s:%u:", e->file, e->line);
	if (e->column)
		fprintf(f, "%u:", e->column);
	fprintf(f, " %s\n", e->text);
	if (name)
		fprintf(f, "  case: %s%s%s%s\n", name, *r->values ? " (" : "", r->values,
			*r->values ? ")" : "");
}

static bool selected(const struct options *o, const char *name)
{
	return !o->only || strstr(name, o->only) || fnmatch(o->only, name, FNM_EXTMATCH) == 0;
}

static bool round_selected(const struct scenario *s, unsigned i, unsigned round,
			   const struct options *o)
{
	for (unsigned k = 0; k < o->rounds; k++) {
		const struct select *l = &o->round[k];

		if (scenario_round_has(s, i, round, l->name, l->value, !l->without) == l->without)
			return false;
	}
	return true;
}

/** @return the rounds that were carried out and passed; -1: one did not. */
static int run_rounds(const struct scenario *s, unsigned i, const struct options *o,
		      struct totals *t)
{
	const struct scenario_case *c = &s->cases[i];
	struct scenario_result r;
	int n = 0;

	for (unsigned round = 0; round < c->rounds; round++) {
		if (!round_selected(s, i, round, o))
			continue;
		n++;
		if (o->list)
			continue;
		if (o->verbose)
			printf("%s\n", c->head.text);
		scenario_run(s, i, round, backend, o->verbose ? stdout : NULL, &r);
		if (r.verdict == SCENARIO_PASS)
			continue;
		if (r.verdict == SCENARIO_CANNOT && o->skip) {
			t->skipped++;
			if (o->verbose)
				print_error(o->results ? stdout : stderr, c->head.text, &r);
			return n;
		}
		fflush(stdout);
		print_error(o->results ? stdout : stderr, c->head.text, &r);
		return -1;
	}
	return n;
}

/** What differs, in a line. */
static void print_difference(const struct scenario_result *r)
{
	printf("differs %u: ", r->error.line);
	for (const char *p = r->error.text; *p; p++)
		putchar(*p == '\n' ? ';' : *p);
	putchar('\n');
}

/** A line for each round, whatever came of the one before. @return as run_rounds(). */
static int run_each(struct scenario *s, unsigned i, const struct options *o, struct totals *t)
{
	static const char *const text[] = {"ok", "not ok", "not ok", "skipped"};
	const struct scenario_case *c = &s->cases[i];
	struct scenario_result r = {0};
	bool failed = false;
	int n = 0;

	s->differs = print_difference;
	for (unsigned round = 0; round < c->rounds && r.verdict != SCENARIO_CANNOT; round++) {
		if (!round_selected(s, i, round, o))
			continue;
		n++;
		scenario_run(s, i, round, backend, NULL, &r);
		if (r.verdict == SCENARIO_ERROR)
			print_difference(&r);
		failed |= r.verdict == SCENARIO_FAIL || r.verdict == SCENARIO_ERROR;
		printf("%s %s (%s)\n", text[r.verdict], c->head.text, r.values);
		fflush(stdout);
	}
	if (r.verdict == SCENARIO_CANNOT && o->skip)
		t->skipped++;
	return failed || (r.verdict == SCENARIO_CANNOT && !o->skip) ? -1 : n;
}

static void run_case(struct scenario *s, unsigned i, const struct options *o, struct totals *t)
{
	const struct scenario_case *c = &s->cases[i];
	int n;

	if (!selected(o, c->head.text))
		return;
	n = o->each && !o->list ? run_each(s, i, o, t) : run_rounds(s, i, o, t);
	if (!n)
		return;
	t->cases++;
	t->rounds += (unsigned)MAX(n, 0);
	t->failed += n < 0;
	if (o->list)
		printf("%s:%u: %s (%d)\n", s->file, c->head.number, c->head.text, n);
	else if (o->results)
		printf("%s %s\n", n < 0 ? "not ok" : "ok", c->head.text);
	fflush(stdout);
}

/** What is to hold for all lines that do not state anything else. */
static bool set_defaults(struct scenario *s, const struct options *o)
{
	for (unsigned k = 0; k < o->sets; k++) {
		char *end;
		const unsigned long v = strtoul(o->set[k].value, &end, 0);

		if (*end || end == o->set[k].value || !scenario_default(s, o->set[k].name, v)) {
			fprintf(stderr, "--set %s=%s: not an attribute and its value\n",
				o->set[k].name, o->set[k].value);
			return false;
		}
	}
	return true;
}

static void run_file(const char *name, const struct options *o, struct totals *t)
{
	struct scenario_result r = {0};
	struct scenario *s;
	size_t len = 0;
	char *text = read_file(name, &len);

	s = text ? scenario_read(text, len, name, &r.error) : NULL;
	if (text && !s)
		print_error(stderr, NULL, &r);
	if (s && !s->ncases)
		fprintf(stderr, "%s: no case\n", name);
	if (!s || !s->ncases || !set_defaults(s, o))
		t->failed++;
	else
		for (unsigned i = 0; i < s->ncases; i++)
			run_case(s, i, o, t);
	scenario_free(s);
	free(text);
}

/** false: usage. */
static bool use_device(const struct options *o)
{
#ifdef WITH_VERBS
	int error;

	verbs_way.wait_ms = o->wait_ms;
	verbs_way.event_ms = o->event_ms;
	/* Packets of a UDP socket to another process's device need none here. */
	error = o->device	     ? scenario_verbs_device(o->device, o->gid)
		: o->from && o->peer ? 0
				     : -EINVAL;

	if (o->device && error)
		fprintf(stderr, "%s: %s\n", o->device, strerror(-error));
	if (!error && o->from) {
		error = scenario_verbs_from(o->from);
		if (error)
			fprintf(stderr, "%s, UDP port 4791: %s\n", o->from, strerror(-error));
	}
	return !error;
#else
	return !o->device;
#endif
}

static bool read_number(const char *option, const char *text, long max, int *number)
{
	char *end;
	const long v = strtol(text, &end, 10);

	*number = (int)v;
	if (!*end && end != text && v >= 0 && v <= max)
		return true;
	fprintf(stderr, "%s %s: a number from 0 to %ld is expected\n", option, text, max);
	return false;
}

static bool read_select(const char *text, bool without, struct select *list, unsigned *n)
{
	const char *equals = strchr(text, '=');
	struct select *l = &list[*n];

	if (*n == SELECT_MAX || !equals || (size_t)(equals - text) >= sizeof(l->name)) {
		fprintf(stderr, "%s: NAME=VALUE is expected, up to %d times\n", text, SELECT_MAX);
		return false;
	}
	memcpy(l->name, text, (size_t)(equals - text));
	l->value = equals + 1;
	l->without = without;
	++*n;
	return true;
}

/** An option that has a value. */
static bool read_value(int c, struct options *o)
{
	switch (c) {
	case 'd':
		o->device = optarg;
		return true;
	case 'g':
		return read_number("--gid", optarg, 255, &o->gid);
	case 't':
		return read_number("--wait", optarg, WAIT_MAX_MS, &o->wait_ms);
	case 'e':
		return read_number("--event-wait", optarg, WAIT_MAX_MS, &o->event_ms);
	case 'o':
		o->only = optarg;
		return true;
	case 'w':
	case 'x':
		return read_select(optarg, c == 'x', o->round, &o->rounds);
	case 's':
		return read_select(optarg, false, o->set, &o->sets);
	case 'l':
		o->listen = optarg;
		return true;
	case 'f':
		o->from = optarg;
		return true;
	case 'p':
		o->peer = optarg;
		return true;
	default:
		return false;
	}
}

enum { GO_ON = -1 };

/** @return GO_ON, or an exit code. */
static int read_options(int argc, char **argv, struct options *o)
{
	const struct option known[] = {
		{"device", required_argument, NULL, 'd'},
		{"gid", required_argument, NULL, 'g'},
		{"only", required_argument, NULL, 'o'},
		{"with", required_argument, NULL, 'w'},
		{"without", required_argument, NULL, 'x'},
		{"set", required_argument, NULL, 's'},
		{"list", no_argument, &o->list, 1},
		{"skip", no_argument, &o->skip, 1},
		{"verbose", no_argument, &o->verbose, 1},
		{"results", no_argument, &o->results, 1},
		{"rounds", no_argument, &o->each, 1},
#ifdef WITH_VERBS
		{"listen", required_argument, NULL, 'l'},
		{"peer", required_argument, NULL, 'p'},
		{"from", required_argument, NULL, 'f'},
		{"wr", no_argument, &verbs_way.wr, 1},
		{"cq-ex", no_argument, &verbs_way.cq_ex, 1},
		{"events", no_argument, &verbs_way.events, 1},
		{"vendor-err", no_argument, &verbs_way.vendor_err, 1},
		{"wait", required_argument, NULL, 't'},
		{"event-wait", required_argument, NULL, 'e'},
		{"rxe-inv", no_argument, &verbs_way.rxe_inv, 1},
#endif
		{"words", no_argument, &o->words, 1},
		{"help", no_argument, &o->help, 1},
		{0},
	};
	bool good = true;
	int c;

	while (good && (c = getopt_long(argc, argv, "", known, NULL)) != -1)
		good = c == 0 || read_value(c, o);
	if (good && (o->words || o->help)) {
		if (o->words)
			scenario_print_words(stdout);
		else
			fputs(usage, stdout);
		return 0;
	}
	if (good && (optind < argc) != (o->listen != NULL) && use_device(o))
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
#ifdef WITH_VERBS
	if (o.listen)
		return scenario_verbs_listen(o.listen);
	if (o.peer && !scenario_verbs_connect(o.peer))
		return EXIT_FAILED;
#endif
	for (; optind < argc; optind++)
		run_file(argv[optind], &o, &t);
	printf("%u cases in %u rounds, %u failed", t.cases, t.rounds, t.failed);
	if (o.skip)
		printf(", %u not possible here", t.skipped);
	putchar('\n');
	return t.failed || t.skipped == t.cases ? EXIT_FAILED : 0;
}
