/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main() of a fuzz target without libFuzzer: a bounded number of inputs, each a mutation of a
 * corpus entry or random bytes, each determined by seed and iteration alone. When the target dies,
 * by a check, a signal or a sanitizer, the input is saved and the command that repeats it printed.
 *
 *	fuzz-NAME [-n ITERATIONS] [-s SEED] [-i ITERATION] [-w DIR] [FILE...]
 *
 *	-i runs just this iteration; -w writes the corpus to DIR, for libFuzzer; FILEs are run as
 * they are.
 */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"

enum {
	MAX_INPUT = 16384,
	MAX_MUTATIONS = 6,
	DEFAULT_ITERATIONS = 100000,
	PROGRESS_STEPS = 4,
};

struct input {
	uint8_t *data; /* owned */
	size_t size;
};

struct fuzz_corpus {
	struct input *inputs; /* owned */
	size_t count;
};

/* What is under way, for the report of a death. */
static struct {
	const char *program;
	uint64_t seed, iteration;
	const uint8_t *data;
	size_t size;
	bool active;
} current;

static void *must(void *p)
{
	if (p == NULL) {
		fputs("out of memory\n", stderr);
		exit(2);
	}
	return p;
}

void fuzz_corpus_add(struct fuzz_corpus *c, const void *data, size_t size)
{
	struct input *in;

	if (size > MAX_INPUT)
		return;
	c->inputs = must(realloc(c->inputs, (c->count + 1) * sizeof(*c->inputs)));
	in = &c->inputs[c->count++];
	in->data = must(malloc(size != 0 ? size : 1));
	in->size = size;
	if (size != 0)
		memcpy(in->data, data, size);
}

/* ---- when the target dies ---- */

static void report_death(void)
{
	static char name[128], text[512];
	int fd, n;

	if (!current.active)
		return;
	current.active = false;
	snprintf(name, sizeof(name), "fuzz-crash-%" PRIu64 "-%" PRIu64, current.seed,
		 current.iteration);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0) {
		if (write(fd, current.data, current.size) != (ssize_t)current.size)
			name[0] = '\0';
		close(fd);
	}
	n = snprintf(text, sizeof(text),
		     "FAILED with seed %" PRIu64 ", iteration %" PRIu64
		     ", %zu bytes. Repeat with: %s -s %" PRIu64 " -i %" PRIu64 "%s%s\n",
		     current.seed, current.iteration, current.size, current.program, current.seed,
		     current.iteration, fd >= 0 && name[0] != '\0' ? "; input saved as " : "",
		     fd >= 0 ? name : "");
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		return;
}

static void on_signal(int sig)
{
	report_death();
	signal(sig, SIG_DFL);
	raise(sig);
}

/* There under a sanitizer, which dies without a signal. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch_for_death(void)
{
	static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};

	if (__sanitizer_set_death_callback != NULL)
		__sanitizer_set_death_callback(report_death);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* Leave a sanitizer's handlers alone. */
		if (__sanitizer_set_death_callback == NULL || signals[i] == SIGABRT ||
		    signals[i] == SIGALRM)
			signal(signals[i], on_signal);
	}
}

/* ---- inputs ---- */

static uint8_t interesting_byte(struct rng *rng)
{
	static const uint8_t v[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};

	return v[rng_below(rng, sizeof(v))];
}

/* One change at a random place; returns the new size. */
static size_t mutate_once(uint8_t *p, size_t size, const struct fuzz_corpus *c, struct rng *rng)
{
	/* Headers matter more than payload: half of the changes fall into the first bytes. */
	size_t span = size > 64 && rng_chance(rng, 0.5) ? 64 : size;
	size_t at = span != 0 ? rng_below(rng, (uint32_t)span) : 0, n;
	const struct input *other;

	switch (rng_below(rng, 7)) {
	case 0: /* flip a bit */
		if (size != 0)
			p[at] ^= (uint8_t)(1u << rng_below(rng, 8));
		return size;
	case 1: /* set a byte */
		if (size != 0)
			p[at] = (uint8_t)rng_u32(rng);
		return size;
	case 2: /* set a run to a value that is often a limit */
		n = 1 + rng_below(rng, 4);
		for (uint8_t v = interesting_byte(rng); n > 0 && at < size; n--)
			p[at++] = v;
		return size;
	case 3: /* cut */
		return size != 0 ? rng_below(rng, (uint32_t)size + 1) : 0;
	case 4: /* grow */
		n = 1 + rng_below(rng, 16);
		for (; n > 0 && size < MAX_INPUT; n--)
			p[size++] = (uint8_t)rng_u32(rng);
		return size;
	case 5: /* take bytes out */
		n = 1 + rng_below(rng, 8);
		if (at + n >= size)
			return size;
		memmove(p + at, p + at + n, size - at - n);
		return size - n;
	default: /* splice with another input */
		if (c->count == 0)
			return size;
		other = &c->inputs[rng_below(rng, (uint32_t)c->count)];
		if (at < other->size) {
			memcpy(p + at, other->data + at, other->size - at);
			return other->size;
		}
		return size;
	}
}

static size_t make_input(uint8_t *p, const struct fuzz_corpus *c, struct rng *rng)
{
	const struct input *in;
	size_t size;

	if (c->count == 0 || rng_below(rng, 16) == 0) {
		size = rng_below(rng, rng_chance(rng, 0.9) ? 256 : MAX_INPUT);
		for (size_t i = 0; i < size; i++)
			p[i] = (uint8_t)rng_u32(rng);
		return size;
	}
	in = &c->inputs[rng_below(rng, (uint32_t)c->count)];
	size = in->size;
	memcpy(p, in->data, size);
	for (unsigned n = 1 + rng_below(rng, MAX_MUTATIONS); n > 0; n--)
		size = mutate_once(p, size, c, rng);
	return size;
}

static void run_input(const uint8_t *data, size_t size)
{
	/* Exactly as large as it is, so that a sanitizer sees the first byte read beyond. */
	uint8_t *copy = must(malloc(size != 0 ? size : 1));

	if (size != 0)
		memcpy(copy, data, size);
	current.data = copy;
	current.size = size;
	current.active = true;
	LLVMFuzzerTestOneInput(copy, size);
	current.active = false;
	free(copy);
}

static void run_iteration(const struct fuzz_corpus *c, uint64_t seed, uint64_t iteration)
{
	static uint8_t buf[MAX_INPUT];
	struct rng rng;

	current.iteration = iteration;
	rng_init(&rng, seed);
	rng_init(&rng, rng_u64(&rng) ^ iteration);
	run_input(buf, make_input(buf, c, &rng));
}

static int run_file(const char *path)
{
	static uint8_t buf[1 << 20];
	FILE *f = fopen(path, "rb");

	if (f == NULL) {
		fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
		return 2;
	}
	run_input(buf, fread(buf, 1, sizeof(buf), f));
	fclose(f);
	return 0;
}

static int write_corpus(const struct fuzz_corpus *c, const char *dir)
{
	char path[512];
	FILE *f;

	for (size_t i = 0; i < c->count; i++) {
		snprintf(path, sizeof(path), "%s/seed-%zu", dir, i);
		f = fopen(path, "wb");
		if (f == NULL ||
		    fwrite(c->inputs[i].data, 1, c->inputs[i].size, f) != c->inputs[i].size ||
		    fclose(f) != 0) {
			fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
			return 2;
		}
	}
	return 0;
}

static void run_all(const struct fuzz_corpus *c, uint64_t seed, uint64_t iterations)
{
	uint64_t step = iterations / PROGRESS_STEPS + 1;

	for (size_t i = 0; i < c->count; i++)
		run_input(c->inputs[i].data, c->inputs[i].size);
	for (uint64_t i = 0; i < iterations; i++) {
		run_iteration(c, seed, i);
		if (i % step == step - 1)
			printf("%" PRIu64 " of %" PRIu64 "\n", i + 1, iterations);
	}
	printf("%zu inputs and %" PRIu64 " mutations, seed %" PRIu64 ": all hold\n", c->count,
	       iterations, seed);
}

static void free_corpus(struct fuzz_corpus *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->inputs[i].data);
	free(c->inputs);
}

static uint64_t number(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 0);

	if (*s == '\0' || *end != '\0') {
		fprintf(stderr, "not a number: %s\n", s);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv)
{
	uint64_t iterations = DEFAULT_ITERATIONS, only = UINT64_MAX;
	struct fuzz_corpus corpus = {0};
	const char *dir = NULL;
	int opt, r = 0;

	current.program = argv[0];
	current.seed = 1;
	while ((opt = getopt(argc, argv, "n:s:i:w:")) != -1) {
		switch (opt) {
		case 'n':
			iterations = number(optarg);
			break;
		case 's':
			current.seed = number(optarg);
			break;
		case 'i':
			only = number(optarg);
			break;
		case 'w':
			dir = optarg;
			break;
		default:
			fprintf(stderr,
				"usage: %s [-n ITERATIONS] [-s SEED] [-i ITERATION] [-w DIR] "
				"[FILE...]\n",
				argv[0]);
			return 2;
		}
	}
	watch_for_death();
	fuzz_seed(&corpus);
	if (dir != NULL)
		r = write_corpus(&corpus, dir);
	else if (optind < argc)
		for (; optind < argc && r == 0; optind++)
			r = run_file(argv[optind]);
	else if (only != UINT64_MAX)
		run_iteration(&corpus, current.seed, only);
	else
		run_all(&corpus, current.seed, iterations);
	free_corpus(&corpus);
	return r;
}
