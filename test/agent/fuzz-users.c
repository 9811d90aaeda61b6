/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three users use the protocol of a system-wide agent at once: valid and invalid
 * messages, descriptors, deaths of clients and of the agent's processes. After each step the
 * agent's answers are compared with a model of what each user has; after each round nothing may be
 * left.
 *
 * The seed repeats the messages. The agent's own random numbers and the time differ.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/link.h"
#include "base/clock.h"
#include "base/util.h"
#include "fuzz-users.h"
#include "gsi-peer.h"
#include "test.h"
#include "users.h"

enum {
	NOTES = 24,
	TRIES = 3000,	     /* of a millisecond, until the agent has what the model has */
	LEFT_MS = 40000,     /* until nothing is left */
	ROUND_MS = 60000,    /* at most */
	RSS_KIB = 3 * 65536, /* a user with all quotas full fills 42 MiB; some is for fragments */
	CAROL = 65532,
};

struct fuzz fz = {.uids = {ANN, BOB, CAROL, 0}};

static struct options {
	uint64_t seed, steps;
	unsigned ms;
} options;

static char notes[NOTES][160];
static uint64_t step;
static unsigned rss_most;

/* ---- what is wrong ---- */

void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(notes[fz.done++ % NOTES], sizeof(notes[0]), fmt, ap);
	va_end(ap);
}

void wrong(const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (uint64_t i = fz.done > NOTES ? fz.done - NOTES : 0; i < fz.done; i++)
		print_message("  %s\n", notes[i % NOTES]);
	acts_close_all();
	/* Stopped, so that none of them replaces the other. */
	kill(fz.holder, SIGSTOP);
	kill(fz.worker, SIGSTOP);
	kill(fz.holder, SIGKILL);
	kill(fz.worker, SIGKILL);
	fail_msg("step %llu: %s (--seed %llu)", (unsigned long long)step, text,
		 (unsigned long long)options.seed);
	abort();
}

int request(int fd, const struct agent_msg *m, struct agent_msg *answer)
{
	const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	int r;

	/* It may have hung up with a reason. */
	(void)agent_msg_send(fd, m, 0);
	r = agent_msg_recv(fd, answer, 0);
	if (r && r != -ECONNRESET)
		wrong("no answer to message %u: %s", m->type, strerror(-r));
	fz.slowest_us = MAX(fz.slowest_us, (clock_ns(CLOCK_MONOTONIC) - begin) / 1000);
	if (!r && answer->type == AGENT_ERROR)
		r = (int)answer->u.error.err;
	fz.refused += r != 0;
	return r;
}

struct agent_status *status_by(int fd)
{
	const struct agent_msg m = {.type = AGENT_STATUS};
	struct agent_status *st = calloc(1, sizeof(*st));
	struct agent_msg answer;
	struct stat file;
	int r = request(fd, &m, &answer);

	if (r)
		wrong("no status: %s", strerror(abs(r)));
	assert_true(st && !fstat(answer.fds[0], &file));
	st->data = malloc((size_t)file.st_size);
	assert_int_equal(pread(answer.fds[0], st->data, (size_t)file.st_size, 0), file.st_size);
	agent_msg_close_fds(&answer);
	if (agent_status_parse(st, (size_t)file.st_size))
		wrong("a status that cannot be read");
	return st;
}

/* The agent has what the model has, as root sees it; soon, since the agent reads in its own order.
 */
static void settle(void)
{
	const char *how = NULL;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct agent_status *st = status_by(fz.root);

		if ((pid_t)st->agent.pid != fz.worker || (pid_t)st->agent.holder != fz.holder)
			wrong("a process of the agent has died");
		how = model_differs(&fz.m, MODEL_ROOT, fz.uids, st);
		if (!how && !st->agent.lingering)
			memset(fz.m.lingering_most, 0, sizeof(fz.m.lingering_most));
		agent_status_free(st);
		if (!how)
			return;
		if (tries > 10)
			poll(NULL, 0, 1);
	}
	wrong("%s", how);
}

/* And as a user sees it. */
static void check_view(void)
{
	const unsigned first = fz.m.n ? below(fz.m.n) : 0;

	for (unsigned i = 0; i < fz.m.n; i++) {
		const struct party *p = fz.m.all[(first + i) % fz.m.n];
		struct agent_status *st;
		const char *how;

		if (!p->conn || p->fd < 0 || party_is_tokenless(p))
			continue;
		st = status_by(p->fd);
		how = model_differs(&fz.m, p->user, fz.uids, st);
		agent_status_free(st);
		if (how)
			wrong("to user %u: %s", fz.uids[p->user], how);
		return;
	}
}

static unsigned rss_of(pid_t pid)
{
	char line[200];
	unsigned kib = 0;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %u", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static void check_memory(void)
{
	const unsigned kib = rss_of(fz.worker) + rss_of(fz.holder);

	rss_most = MAX(rss_most, kib);
	/* The memory of a sanitizer is several times the agent's. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	if (kib > RSS_KIB)
		wrong("the agent has %u KiB", kib);
#endif
}

/* ---- deaths of the agent ---- */

static void meet_agent(void)
{
	struct agent_status *st;

	fz.root = connect_as(0, true);
	st = status_by(fz.root);
	fz.worker = (pid_t)st->agent.pid;
	fz.holder = (pid_t)st->agent.holder;
	agent_status_free(st);
}

static void worker_dies(void)
{
	note("the worker is killed");
	kill(fz.worker, SIGKILL);
	wait_gone(fz.worker);
	close(fz.root);
	meet_agent();
	for (unsigned i = fz.m.n; i-- > 0;) {
		struct party *p = fz.m.all[i];

		model_hang_up(&fz.m, p);
		/* Some come back, with the token. */
		if (p->held && !p->keeper && p->user != MODEL_ROOT && one_in(2)) {
			acts_close(p);
			p->held = false;
		}
		if (p->fd >= 0)
			close(p->fd);
		if (p->frames >= 0)
			close(p->frames);
		p->fd = p->frames = -1;
		model_settle(&fz.m, p);
	}
	memset(fz.m.lingering_most, 0, sizeof(fz.m.lingering_most));
}

static void holder_dies(void)
{
	const pid_t old = fz.holder;

	note("the holder is killed");
	kill(old, SIGKILL);
	wait_gone(old);
	for (unsigned tries = 0; tries < TRIES && (fz.holder == old || !fz.holder); tries++) {
		struct agent_status *st = status_by(fz.root);

		fz.holder = (pid_t)st->agent.holder;
		agent_status_free(st);
	}
	if (fz.holder == old || !fz.holder)
		wrong("no other holder");
}

/* ---- a round ---- */

struct baseline {
	int worker, holder;
	bool renewed; /* a process is another one */
};

static int slots_ever(void)
{
	int n = 0;

	for (unsigned i = 1; i < AGENT_SEATS; i++)
		n += fz.m.owner[AGENT_LANE][i] != 0;
	return n;
}

/* Tokens of slots are kept: they show whose these were. */
static const char *what_is_left(const struct baseline *base)
{
	struct agent_status *st = status_by(fz.root);
	const struct agent_status_head h = st->agent;
	const int spare = slots_ever() + (base->renewed ? 2 : 0);
	static char text[200];
	const int worker = count_fds(fz.worker), holder = count_fds(fz.holder);

	agent_status_free(st);
	snprintf(text, sizeof(text),
		 "left: %u lanes, %u numbers, %u listeners, %u addresses, %u exit MADs; "
		 "descriptors %d of %d, %d of %d",
		 h.nclients, h.ngsi_clients, h.nlisteners, h.naddrs, h.lingering, worker,
		 base->worker + spare, holder, base->holder + spare);
	return h.nclients || h.ngsi_clients || h.nlisteners || h.naddrs || h.lingering ||
			       worker > base->worker + spare || holder > base->holder + spare
		       ? text
		       : NULL;
}

/* The tokens of numbers are closed when the next number is given. */
static void take_a_number(void)
{
	struct agent_msg m = {.type = AGENT_HELLO, .u.hello = {AGENT_GSI}}, answer;
	int fd = connect_as(0, true);

	if (request(fd, &m, &answer))
		wrong("no number for root");
	close(fd);
	agent_msg_close_fds(&answer);
}

static void expect_nothing_left(const struct baseline *base)
{
	const uint64_t end = link_now_ms() + LEFT_MS;
	const char *left;

	take_a_number();
	while ((left = what_is_left(base))) {
		if (link_now_ms() > end)
			wrong("%s", left);
		poll(NULL, 0, 20);
	}
}

static void stop(void)
{
	close(fz.root);
	kill(fz.holder, SIGTERM);
	wait_gone(fz.worker);
	wait_gone(fz.holder);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	model_fini(&fz.m);
}

static struct baseline start(void)
{
	struct baseline base;

	run_system();
	meet_agent();
	model_init(&fz.m);
	take_a_number();
	/* The second answer: it has seen the end. */
	for (unsigned i = 0; i < 2; i++)
		agent_status_free(status_by(fz.root));
	base = (struct baseline){count_fds(fz.worker) + 1, count_fds(fz.holder) + 1, false};
	if (fz.crowded)
		acts_crowd();
	return base;
}

static bool maybe_kill(struct baseline *base)
{
	const unsigned what = below(700);

	if (what > 2)
		return false;
	if (what == 0)
		worker_dies();
	else
		holder_dies();
	base->renewed = true;
	return true;
}

static void round_of(uint64_t end_ms, uint64_t last_step)
{
	struct baseline base = start();

	while (link_now_ms() < end_ms && step < last_step) {
		step++;
		if (!maybe_kill(&base))
			acts_step();
		settle();
		check_view();
		if (step % 32 == 0)
			check_memory();
	}
	note("all leave");
	acts_close_all();
	expect_nothing_left(&base);
	stop();
}

TEST(users, three_at_random__each_has_its_own_and_nothing_is_left)
{
	const struct rocemu_gid far = gid_v4(127, 77, 0, 9);
	struct rlimit rl = {65536, 65536};
	uint64_t end;

	(void)setrlimit(RLIMIT_NOFILE, &rl);
	need_users(NULL);
	fz.wire = wire_open(&far);
	rng_init(&fz.rng, options.seed);
	print_message("seed %llu\n", (unsigned long long)options.seed);
	end = link_now_ms() + options.ms;
	/* At least one with room and one without. */
	for (unsigned i = 0; i < 2 || (link_now_ms() < end && step < options.steps); i++) {
		const uint64_t now = link_now_ms(), left = end > now ? end - now : 0;

		fz.crowded = i % 2;
		round_of(now + MIN(i ? left : left / 2, (uint64_t)ROUND_MS),
			 i ? options.steps : options.steps / 2);
	}
	close(fz.wire);
}

static int usage(void)
{
	fputs("usage: fuzz-users [--seed N] [--seconds N] [--steps N]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"seed", required_argument, NULL, 's'},
					      {"seconds", required_argument, NULL, 't'},
					      {"steps", required_argument, NULL, 'n'},
					      {0}};
	int opt;

	options.seed = clock_ns(CLOCK_REALTIME) / 1000;
	options.ms = 8000;
	options.steps = UINT64_MAX;
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == 's')
			options.seed = strtoull(optarg, NULL, 10);
		else if (opt == 't')
			options.ms = (unsigned)(1000 * atof(optarg));
		else if (opt == 'n')
			options = (struct options){options.seed, strtoull(optarg, NULL, 10),
						   UINT32_MAX};
		else
			return usage();
	}
	if (optind < argc)
		return usage();
	opt = test_run(argv[0], NULL, 0);
	printf("fuzz-users: seed %llu: %llu steps, %llu refused, slowest answer %llu us, memory %u "
	       "KiB\n",
	       (unsigned long long)options.seed, (unsigned long long)step,
	       (unsigned long long)fz.refused, (unsigned long long)fz.slowest_us, rss_most);
	return opt;
}
