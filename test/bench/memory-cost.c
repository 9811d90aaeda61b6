/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floors of shared memory: what a cache line costs that two cores pass to and fro, how quickly one
 * core copies messages out of a window of several, and the same out of another process's memory
 * (process_vm_readv(); 0: it is not permitted). The first two CPUs of the process.
 *
 *     memory-cost
 *     line_ns 93 copy_gbit_s 101.2 read_gbit_s 63.5 copy_bytes 1048576
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

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

/** Copy the n-th message of a process, or of this one: 0. @return false: not permitted. */
static bool copy(char *to, char *from, unsigned n, pid_t of)
{
	const size_t at = (size_t)BYTES * (n % WINDOW);
	const struct iovec here = {.iov_base = to + at, .iov_len = BYTES};
	const struct iovec there = {.iov_base = from + at, .iov_len = BYTES};

	if (of)
		return process_vm_readv(of, &here, 1, &there, 1, 0) == BYTES;
	memcpy(to + at, from + at, BYTES);
	__asm__ volatile("" ::"r"(to) : "memory");
	return true;
}

static double copies_gbit_s(char *to, char *from, pid_t of)
{
	const uint64_t begin = bench_now_ns();

	for (unsigned i = 0; i < COPIES; i++)
		if (!copy(to, from, i, of))
			return 0;
	return (double)BYTES * COPIES * 8 / (double)(bench_now_ns() - begin);
}

static char *window(int value)
{
	char *p = mmap(NULL, (size_t)BYTES * WINDOW, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("memory");
	memset(p, value, (size_t)BYTES * WINDOW);
	return p;
}

/** A process with pages of its own at the same addresses. @return its pid, when it has them. */
static pid_t other_process(char *from)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready) || (pid = fork()) < 0)
		bench_die("process");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(from, 3, (size_t)BYTES * WINDOW);
		if (write(ready[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		bench_die("process");
	close(ready[0]);
	return pid;
}

int main(void)
{
	const double line = line_ns();
	char *from = window(1), *to = window(2);
	const double own = copies_gbit_s(to, from, 0);
	const pid_t pid = other_process(from);
	const double other = copies_gbit_s(to, from, pid);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("line_ns %.0f copy_gbit_s %.1f read_gbit_s %.1f copy_bytes %d\n", line, own, other,
	       BYTES);
	return 0;
}
