/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { GIVE_UP_S = 10 };

void bench_die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

static void usage(void)
{
	fprintf(stderr,
		"usage: %s --port PORT [--size BYTES] [--iters N] [--seconds N] [--window BYTES] "
		"[--burst N] [--message N] [--block] [--poll] [--epoll] [--lane] [--ack] [HOST]\n",
		program_invocation_short_name);
	exit(2);
}

static unsigned long number(const char *s, unsigned long max)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || end == s || *end || v == 0 || v > max)
		usage();
	return v;
}

void bench_parse(struct bench_options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{"port", 1, NULL, 'p'},	   {"size", 1, NULL, 's'},   {"iters", 1, NULL, 'n'},
		{"seconds", 1, NULL, 't'}, {"window", 1, NULL, 'w'}, {"burst", 1, NULL, 'b'},
		{"block", 0, NULL, 'B'},   {"poll", 0, NULL, 'P'},   {"epoll", 0, NULL, 'E'},
		{"lane", 0, NULL, 'L'},	   {"ack", 0, NULL, 'A'},    {"message", 1, NULL, 'm'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'p')
			o->port = (uint16_t)number(optarg, 65535);
		else if (c == 's')
			o->size = number(optarg, 60000);
		else if (c == 'n')
			o->iters = (unsigned)number(optarg, 100000000);
		else if (c == 't')
			o->seconds = (unsigned)number(optarg, 3600);
		else if (c == 'w')
			o->window = number(optarg, 1u << 30);
		else if (c == 'b')
			o->burst = (unsigned)number(optarg, 1024);
		else if (c == 'm')
			o->message = (unsigned)number(optarg, 1024);
		else if (c == 'B')
			o->block = true;
		else if (c == 'P')
			o->poll = true;
		else if (c == 'E')
			o->epoll = true;
		else if (c == 'L')
			o->lane = true;
		else if (c == 'A')
			o->ack = true;
		else
			usage();
	}
	o->host = argv[optind];
	if (!o->port || (o->lane && o->port == UINT16_MAX) || (o->host && argv[optind + 1]))
		usage();
}

uint64_t bench_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int bench_socket(const struct bench_options *o, struct sockaddr_in *peer)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		bench_die("socket");
	*peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(o->port)};
	if (!o->host || o->lane)
		any.sin_port = htons((uint16_t)(o->port + (o->host ? 1 : 0)));
	if (o->host && inet_pton(AF_INET, o->host, &peer->sin_addr) != 1)
		usage();
	if (o->lane && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int)) < 0)
		bench_die("SO_REUSEPORT");
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0)
		bench_die("bind");
	return fd;
}

size_t bench_recv_spinning(int fd, void *buf, size_t len, struct sockaddr_in *from)
{
	uint64_t end = 0;

	for (unsigned spins = 0;; spins++) {
		socklen_t n = sizeof(*from);
		ssize_t got = recvfrom(fd, buf, len, MSG_DONTWAIT, (struct sockaddr *)from,
				       from ? &n : NULL);

		if (got >= 0)
			return (size_t)got;
		if (errno != EAGAIN && errno != EINTR)
			bench_die("receive");
		if (spins % 65536 == 0) {
			uint64_t now = bench_now_ns();

			if (!end)
				end = now + GIVE_UP_S * 1000000000ull;
			errno = ETIMEDOUT;
			if (now > end)
				bench_die("receive");
		}
	}
}

void bench_ready(void)
{
	puts("ready");
	fflush(stdout);
}

static int compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

void bench_print_latency(uint64_t *rtt_ns, unsigned n)
{
	double sum = 0;

	qsort(rtt_ns, n, sizeof(*rtt_ns), compare);
	for (unsigned i = 0; i < n; i++)
		sum += (double)rtt_ns[i];
	printf("one way, us: median %.3f average %.3f p99 %.3f\n", (double)rtt_ns[n / 2] / 2000,
	       sum / n / 2000, (double)rtt_ns[(uint64_t)n * 99 / 100] / 2000);
}
