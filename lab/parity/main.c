/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu-parity: the command line and the sequence of runs. "rocemu parity" starts it with the
 * place of the drop-in libraries in ROCEMU_PARITY_LIBS; without that it uses the devices of the
 * libibverbs it is started with.
 */
#include <fnmatch.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"
#include "options.h"
#include "parity.h"

enum { EXIT_SAME = 0, EXIT_DIFFERS = 1, EXIT_USAGE = 2 };
enum { PATTERNS = 32, TIMEOUT_S = 20, JOBS_MAX = 64 };
static const char me[] = "rocemu parity";

struct options {
	struct target target[2];
	unsigned ntargets, ngids;
	const char *only[PATTERNS];
	unsigned nonly;
	struct known_list known;
	unsigned timeout_ms, jobs;
	report_fn *report;
	bool list, alone, strict, no_packets;
	char specs[4096]; /* name=interface of the devices, for ROCEMU_DEVICES */
};

/* ---- options ---- */

static int complain(const char *option, const char *what, const char *value)
{
	fprintf(stderr, "%s: %s: %s%s%s\n", me, option, what, *value ? ": " : "", value);
	return EXIT_USAGE;
}

static int add_target(struct options *o, char *arg)
{
	char *equals = strchr(arg, '=');
	size_t used = strlen(o->specs);
	int n;

	if (o->ntargets == 2)
		return complain("--device", "two are compared, not more", arg);
	if (!*arg || arg == equals)
		return complain("--device", "expected a name", arg);
	if (equals) {
		n = snprintf(o->specs + used, sizeof(o->specs) - used, "%s%s", used ? "," : "",
			     arg);
		if (n >= (int)(sizeof(o->specs) - used))
			return complain("--device", "too long", arg);
		*equals = 0;
	}
	o->target[o->ntargets].name = arg;
	o->target[o->ntargets++].gid_index = -1;
	return -1;
}

static bool number(const char *text, int least, int most, int *value)
{
	char *end;
	long v = strtol(text, &end, 10);

	*value = (int)v;
	return *text && !*end && v >= least && v <= most;
}

/** @return -1: go on. */
static int option(struct options *o, int opt, int gids[2])
{
	int v;

	switch (opt) {
	case PARITY_OPT_DEVICE:
		return add_target(o, optarg);
	case PARITY_OPT_GID:
		if (o->ngids == 2 || !number(optarg, 0, 255, &gids[o->ngids++]))
			return complain("--gid", "expected an index from 0 to 255", optarg);
		return -1;
	case PARITY_OPT_ONLY:
		if (o->nonly == PATTERNS)
			return complain("--only", "too many", optarg);
		o->only[o->nonly++] = optarg;
		return -1;
	case PARITY_OPT_KNOWN:
		return (*optarg && known_builtin(&o->known, optarg)) ||
				       known_read(&o->known, optarg)
			       ? -1
			       : EXIT_USAGE;
	case PARITY_OPT_TIMEOUT:
		if (!number(optarg, 1, 3600, &v))
			return complain("--timeout", "expected seconds from 1 to 3600", optarg);
		o->timeout_ms = (unsigned)v * 1000;
		return -1;
	case PARITY_OPT_JOBS:
		if (!number(optarg, 1, JOBS_MAX, &v))
			return complain("--jobs", "expected a number from 1 to 64", optarg);
		o->jobs = (unsigned)v;
		return -1;
	case PARITY_OPT_JSON:
		o->report = report_json;
		return -1;
	case PARITY_OPT_MARKDOWN:
		o->report = report_markdown;
		return -1;
	case PARITY_OPT_LIST:
		o->list = true;
		return -1;
	case PARITY_OPT_STRICT:
		o->strict = true;
		return -1;
	case PARITY_OPT_NO_PACKETS:
		o->no_packets = true;
		return -1;
	case PARITY_OPT_ALONE:
		o->alone = true;
		return -1;
	case 'h':
		cli_print_help(&parity_cli, stdout);
		return EXIT_SAME;
	default:
		return EXIT_USAGE; /* cli_next() has printed the error */
	}
}

static int parse(int argc, char **argv, struct options *o)
{
	int opt, ret = -1, gids[2] = {-1, -1};

	while (ret < 0 && (opt = cli_next(&parity_cli, argc, argv)) != CLI_END)
		ret = option(o, opt, gids);
	if (ret >= 0)
		return ret;
	if (optind < argc)
		return complain("unexpected argument", argv[optind], "");
	if (!o->list && o->ntargets != 2)
		return complain("--device", "expected twice", "");
	for (unsigned i = 0; i < 2; i++)
		o->target[i].gid_index = gids[i];
	return -1;
}

/* ---- which scenarios ---- */

static bool wanted(const struct options *o, const char *name)
{
	char pattern[256];

	for (unsigned i = 0; i < o->nonly; i++) {
		snprintf(pattern, sizeof(pattern), "*%s*", o->only[i]);
		if (fnmatch(pattern, name, 0) == 0)
			return true;
	}
	return o->nonly == 0;
}

static struct result *choose(const struct options *o, unsigned *n)
{
	unsigned all;
	const struct scenario *s = registry_all(&all);
	struct result *results = calloc(all, sizeof(*results));

	if (!results)
		abort();
	*n = 0;
	for (unsigned i = 0; i < all; i++)
		if (wanted(o, s[i].name))
			results[(*n)++].scenario = &s[i];
	return results;
}

/* ---- the devices ---- */

static bool known_to_system(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", name);
	return !strchr(name, '/') && access(path, F_OK) == 0;
}

/** Does it open, and is it usable? @return false: with a message printed. */
static bool probe(const struct runner *r, const struct target *t)
{
	struct transcript tr = runner_run(r, t, t, "probe");
	bool ok = tr.outcome == OUT_OK;

	if (!ok)
		fprintf(stderr, "%s: %.*s\n", me, (int)strcspn(tr.text, "\n"),
			*tr.text ? tr.text : "the device cannot be opened");
	transcript_free(&tr);
	return ok;
}

/** Can the two reach each other? @return NULL, or the permanent reason why not. */
static const char *probe_across(const struct runner *r, const struct target *a,
				const struct target *b)
{
	static char reason[256];
	struct transcript tr = runner_run(r, a, b, "data/rc/write/1");
	bool ok = tr.outcome == OUT_OK && strstr(tr.text, "send 1: success");

	if (!ok)
		snprintf(reason, sizeof(reason), "skipped, no RC connection from %s to %s: %.*s",
			 a->name, b->name, (int)strcspn(tr.text, "\n"), tr.text);
	transcript_free(&tr);
	return ok ? NULL : reason;
}

static const char *across_reason(const struct options *o, const struct runner *r)
{
	const char *why;

	if (o->alone)
		return "not wanted";
	why = probe_across(r, &o->target[0], &o->target[1]);
	return why ? why : probe_across(r, &o->target[1], &o->target[0]);
}

/* ---- all of it ---- */

/* compare() has one table, for all threads. */
static pthread_mutex_t comparing = PTHREAD_MUTEX_INITIALIZER;

static void run_once(struct result *res, const struct options *o, struct runner r, bool across)
{
	const struct target *a = &o->target[0], *b = &o->target[1];
	const char *name = res->scenario->name;

	if (res->scenario->flags & RACY)
		r.captures = false;
	res->run[RUN_A] = runner_run(&r, a, a, name);
	res->run[RUN_B] = runner_run(&r, b, b, name);
	if (across && !(res->scenario->flags & ALONE)) {
		res->run[RUN_AB] = runner_run(&r, a, b, name);
		res->run[RUN_BA] = runner_run(&r, b, a, name);
	}
	pthread_mutex_lock(&comparing);
	compare(res, &o->known);
	pthread_mutex_unlock(&comparing);
}

static void free_runs(struct result *res)
{
	for (unsigned i = 0; i < RUNS; i++)
		transcript_free(&res->run[i]);
}

/**
 * A difference has to show twice, otherwise it is reported as random behaviour of the device (or
 * the network).
 */
static void run_one(struct result *res, const struct options *o, const struct runner *r,
		    bool across)
{
	struct result again = {.scenario = res->scenario};

	run_once(res, o, *r, across);
	if (res->verdict != DIFFERS)
		return;
	run_once(&again, o, *r, across);
	if (again.verdict == SAME || again.verdict == KNOWN)
		res->verdict = UNSTABLE;
	free_runs(&again);
}

/** Scenarios, taken by as many threads as there are jobs. */
struct work {
	const struct options *o;
	const struct runner *r;
	struct result *results;
	unsigned n;
	bool across;
	atomic_uint begun, done;
};

static void *work_off(void *arg)
{
	struct work *w = arg;
	unsigned i, done;

	while ((i = atomic_fetch_add(&w->begun, 1)) < w->n) {
		run_one(&w->results[i], w->o, w->r, w->across);
		done = atomic_fetch_add(&w->done, 1) + 1;
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\r%u/%u ", done, w->n);
	}
	return NULL;
}

/** If the system refuses a thread, those that run do its work. */
static void run_scenarios(struct work *w)
{
	pthread_t threads[JOBS_MAX];
	unsigned n = 0;

	while (n + 1 < w->o->jobs && !pthread_create(&threads[n], NULL, work_off, w))
		n++;
	work_off(w);
	while (n)
		pthread_join(threads[--n], NULL);
	if (isatty(STDERR_FILENO))
		fputs("\r          \r", stderr);
}

static int run_all(const struct options *o, const struct runner *r, struct result *results,
		   unsigned n)
{
	struct work w = {.o = o, .r = r, .results = results, .n = n};
	const char *across;
	int code = EXIT_SAME;

	if (!probe(r, &o->target[0]) || !probe(r, &o->target[1]))
		return EXIT_USAGE;
	across = across_reason(o, r);
	w.across = !across;
	run_scenarios(&w);
	for (unsigned i = 0; i < n; i++)
		if (results[i].verdict == DIFFERS || results[i].verdict == FAILED)
			code = EXIT_DIFFERS;
	o->report(results, n, o->target, across);
	return code;
}

static void free_all(struct options *o, struct result *results, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		free_runs(&results[i]);
	for (unsigned i = 0; i < o->known.n; i++) {
		free(o->known.items[i].scenario);
		free(o->known.items[i].line);
		free(o->known.items[i].why);
	}
	free(o->known.items);
	free(results);
}

int main(int argc, char **argv)
{
	struct options o = {.timeout_ms = TIMEOUT_S * 1000, .jobs = 1, .report = report_table};
	struct runner r = {.self = "/proc/self/exe", .drop_in = getenv("ROCEMU_PARITY_LIBS")};
	struct result *results;
	unsigned n;
	int ret;

	if (argc > 1 && !strcmp(argv[1], "--worker"))
		return worker_main(argc, argv);
	cli_begin();
	/* Ignored, as some parents leave it, it would take the workers' exit codes away. */
	signal(SIGCHLD, SIG_DFL);
	ret = parse(argc, argv, &o);
	if (!o.strict)
		known_builtin(&o.known, "");
	results = choose(&o, &n);
	if (ret < 0 && n == 0)
		ret = complain("--only", "no scenario of that name", o.only[0]);
	if (ret < 0 && o.list) {
		for (unsigned i = 0; i < n; i++)
			puts(results[i].scenario->name);
		ret = EXIT_SAME;
	}
	if (ret < 0) {
		if (*o.specs)
			setenv("ROCEMU_DEVICES", o.specs, 1);
		for (unsigned i = 0; i < 2; i++)
			o.target[i].system = known_to_system(o.target[i].name);
		r.timeout_ms = o.timeout_ms;
		r.captures = !o.no_packets;
		ret = run_all(&o, &r, results, n);
	}
	free_all(&o, results, n);
	return cli_end(me, ret);
}
