/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "responder.h"

enum { POLLED = 96 };

struct options {
	const char *address;
	uint16_t port[TCP_SERVERS];
};

static int usage(int code)
{
	fprintf(code ? stderr : stdout, "usage: responder --address A [--mutant NAME][--ports "
					"rc=N,uc=N,ud=N,cp=N,wr=N,rd=N,at=N]\n"
					"       responder --list-mutants\n");
	return code;
}

/** "rc=N,uc=N" and so on */
static bool read_ports(const char *text, struct options *o)
{
	static const char *const names[] = {
		[QP_RC] = "rc=",	[QP_UC] = "uc=",	[QP_UD] = "ud=",
		[TCP_PEER] = "cp=",	[TCP_WRITE_BW] = "wr=", [TCP_READ_BW] = "rd=",
		[TCP_ATOMIC_BW] = "at="};
	const size_t len = strlen(names[0]);
	char *end;

	for (;; text = end + 1) {
		unsigned kind = 0;

		while (kind < ARRAY_LEN(names) && strncmp(text, names[kind], len))
			kind++;
		if (kind == ARRAY_LEN(names))
			return false;
		o->port[kind] = (uint16_t)strtoul(text + len, &end, 10);
		if (*end != ',')
			return !*end;
	}
}

/** @return -1: go on; else the exit code. */
static int read_options(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{"address", required_argument, NULL, 'a'}, {"mutant", required_argument, NULL, 'm'},
		{"ports", required_argument, NULL, 'p'},   {"list-mutants", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},	   {0}};
	int key;

	while ((key = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (key == 'a') {
			o->address = optarg;
		} else if (key == 'm' && !mutant_choose(optarg)) {
			fprintf(stderr, "responder: no mutant \"%s\"\n", optarg);
			return 2;
		} else if (key == 'p' && !read_ports(optarg, o)) {
			return usage(2);
		} else if (key == 'l') {
			mutants_print();
			return 0;
		} else if (key == 'h') {
			return usage(0);
		} else if (key == '?') {
			return usage(2);
		}
	}
	return o->address ? -1 : usage(2);
}

static int fails(const char *what, int error)
{
	fprintf(stderr, "responder: %s: %s\n", what, strerror(-error));
	return 1;
}

static void take_packets(void)
{
	struct input in;

	while (net_receive(&in)) {
		const uint32_t qpn = in.p.h.dqpn;

		if (qpn == ROCEMU_GSI_QPN || (mutant(M_QP0) && qpn == 0))
			gsi_input(&in);
		else if (!qp_input(&in) && mutant(M_NO_QP) && qpn)
			gsi_input(&in);
	}
}

static uint64_t timers(void)
{
	const uint64_t now = net_now(), a = qp_timers(now), b = cm_timers(now);

	return a && b ? MIN(a, b) : a + b;
}

static void wait_until(int fd, uint64_t next)
{
	struct pollfd p[POLLED] = {{.fd = fd, .events = POLLIN}};
	const unsigned n = 1 + tcp_poll(p + 1);
	const uint64_t now = net_now(), ns = next > now ? next - now : 0;
	const struct timespec t = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

	ppoll(p, n, next ? &t : NULL, NULL);
}

int main(int argc, char **argv)
{
	struct options o = {.port = {[QP_RC] = 18515,
				     [QP_UC] = 18516,
				     [QP_UD] = 18517,
				     [TCP_PEER] = 18520,
				     [TCP_WRITE_BW] = 18521,
				     [TCP_READ_BW] = 18522,
				     [TCP_ATOMIC_BW] = 18523}};
	int fd, error = read_options(argc, argv, &o);

	if (error >= 0)
		return error;
	fd = net_open(o.address);
	if (fd < 0)
		return fails(o.address, fd);
	error = gsi_open();
	if (error < 0)
		return fails("QP 1", error);
	for (int k = 0; k < TCP_SERVERS; k++) {
		error = tcp_open(k, o.port[k]);
		if (error < 0)
			return fails("a TCP port", error);
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		take_packets();
		tcp_ready();
		wait_until(fd, timers());
	}
}
