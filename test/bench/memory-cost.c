/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floors of shared memory: what a cache line costs that two cores pass to and fro, and how quickly
 * one core copies messages out of a window of several. The first two CPUs of the process.
 *
 *     memory-cost
 *     line_ns 93 copy_gbit_s 101.2 copy_bytes 1048576
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { PASSES = 200000, BYTES = 1 << 20, WINDOW = 16, COPIES = 4000 };

struct lines {
	alignas(128) atomic_uint there;
	alignas(128) atomic_uint back;
};

static struct lines lines;

/** The n-th CPU that the process may use. */
static void pin(unsigned n)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		bench_die("sched_getaffinity");
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || n--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one))
			bench_die("affinity");
		return;
	}
	bench_die("two CPUs are needed");
}

static void *answer(void *unused)
{
	(void)unused;
	pin(1);
	for (unsigned i = 1; i <= PASSES; i++) {
		while (atomic_load_explicit(&lines.there, memory_order_acquire) != i)
			;
		atomic_store_explicit(&lines.back, i, memory_order_release);
	}
	return NULL;
}

/** ns, one way. */
static double line_ns(void)
{
	pthread_t thread;
	uint64_t begin = 0;

	if (pthread_create(&thread, NULL, answer, NULL))
		bench_die("thread");
	pin(0);
	for (unsigned i = 1; i <= PASSES; i++) {
		if (i == PASSES / 10) /* both run by now */
			begin = bench_now_ns();
		atomic_store_explicit(&lines.there, i, memory_order_release);
		while (atomic_load_explicit(&lines.back, memory_order_acquire) != i)
			;
	}
	begin = bench_now_ns() - begin;
	pthread_join(thread, NULL);
	return (double)begin / (PASSES - PASSES / 10) / 2;
}

static double copy_gbit_s(void)
{
	char *from = malloc((size_t)BYTES * WINDOW), *to = malloc((size_t)BYTES * WINDOW);
	uint64_t begin;

	if (!from || !to)
		bench_die("memory");
	memset(from, 1, (size_t)BYTES * WINDOW);
	memset(to, 2, (size_t)BYTES * WINDOW);
	begin = bench_now_ns();
	for (unsigned i = 0; i < COPIES; i++) {
		memcpy(to + (size_t)BYTES * (i % WINDOW), from + (size_t)BYTES * (i % WINDOW),
		       BYTES);
		__asm__ volatile("" ::"r"(to) : "memory");
	}
	begin = bench_now_ns() - begin;
	free(from);
	free(to);
	return (double)BYTES * COPIES * 8 / (double)begin;
}

int main(void)
{
	const double line = line_ns();

	printf("line_ns %.0f copy_gbit_s %.1f copy_bytes %d\n", line, copy_gbit_s(), BYTES);
	return 0;
}
