/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire-peers: a process with RC connections to several peers at once, with WRITEs, READs and SENDs
 * in both directions on each, and all data checked. A server takes any number of clients, each with
 * a thread, CQ and QP of its own, and runs until SIGTERM, which ends its clients as well.
 *
 *	wire-peers --port P [...]			the server
 *	wire-peers --port P --name NAME [...] HOST	a client
 *
 *	--device D, --gid-index I
 *	--timeout CODE	ACK timeout of the client's connection, on both sides
 *	--rounds N	then the client's connection pauses: both sides wait in ibv_get_cq_event()
 *	--poll		poll for completions, do not wait for events
 *	--careless	wrong data is no error, for peers that harm it on purpose
 *
 * It prints a line for each event: "NAME connected to QP N", "NAME rounds N" now and then,
 * "NAME pauses", and "NAME ended after N rounds", "NAME status S after N rounds" (of a completion)
 *or "NAME wrong ..." at the end. A client whose connection failed keeps it until SIGTERM.
 */
#include "wire-peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CONNS = 64 };

struct device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

noreturn void die(const char *what)
{
	fprintf(stderr, "wire-peers: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct device open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct device d = {0};

	for (unsigned i = 0; list && list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			d.ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!d.ctx)
		die("no such device");
	d.pd = ibv_alloc_pd(d.ctx);
	if (!d.pd)
		die("ibv_alloc_pd");
	return d;
}

static struct conn *conn_new(const struct options *o, const struct device *d, int sock)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c || pthread_mutex_init(&c->lock, NULL))
		die("connection");
	c->o = o;
	c->sock = sock;
	c->ctx = d->ctx;
	c->pd = d->pd;
	c->serves = !o->host;
	return c;
}

static void conn_free(struct conn *c)
{
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/** SIGTERM is blocked from now on. @return what is readable when it has come. */
static int signal_fd(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		die("signalfd");
	return fd;
}

/* ---- the server ---- */

static void *serve(void *arg)
{
	return conn_run(arg) ? arg : NULL;
}

static int listen_on(unsigned port)
{
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(s, (const struct sockaddr *)&any, sizeof(any)) < 0 || listen(s, 8) < 0)
		die("TCP port");
	return s;
}

static int run_server(const struct options *o)
{
	struct pollfd fds[2] = {{.fd = signal_fd(), .events = POLLIN}, {.events = POLLIN}};
	const struct device d = open_device(o->device);
	struct conn *conns[MAX_CONNS];
	unsigned n = 0;
	bool ok = true;

	fds[1].fd = listen_on(o->port);
	while (!fds[0].revents && n < MAX_CONNS) {
		if (poll(fds, 2, -1) < 0)
			die("poll");
		if (!fds[1].revents)
			continue;
		conns[n] = conn_new(o, &d, accept(fds[1].fd, NULL, NULL));
		conn_open(conns[n]);
		if (pthread_create(&conns[n]->thread, NULL, serve, conns[n]))
			die("pthread_create");
		n++;
	}
	for (unsigned i = 0; i < n; i++)
		conn_stop(conns[i]);
	for (unsigned i = 0; i < n; i++) {
		void *ended;

		pthread_join(conns[i]->thread, &ended);
		ok &= ended != NULL;
		conn_close(conns[i]);
		conn_free(conns[i]);
	}
	ibv_dealloc_pd(d.pd);
	ibv_close_device(d.ctx);
	return !ok;
}

/* ---- a client ---- */

static int run_client(const struct options *o)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
	const struct device d = open_device(o->device);
	struct conn *c = conn_new(o, &d, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	struct pollfd end = {.fd = signal_fd(), .events = POLLIN};
	bool ok;

	if (inet_pton(AF_INET, o->host, &to.sin_addr) != 1 ||
	    connect(c->sock, (struct sockaddr *)&to, sizeof(to)) < 0)
		die(o->host);
	conn_open(c);
	ok = conn_run(c);
	if (!ok && poll(&end, 1, -1) < 0)
		die("poll");
	conn_close(c);
	conn_free(c);
	ibv_dealloc_pd(d.pd);
	ibv_close_device(d.ctx);
	return !ok;
}

/* ---- options ---- */

static noreturn void usage(void)
{
	fprintf(stderr, "usage: wire-peers --port P [--device D] [--gid-index I] [--timeout CODE] "
			"[--rounds N] [--poll] [--careless] [--name NAME HOST]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"port", required_argument, NULL, 'p'},
		{"device", required_argument, NULL, 'd'},
		{"gid-index", required_argument, NULL, 'g'},
		{"timeout", required_argument, NULL, 't'},
		{"rounds", required_argument, NULL, 'n'},
		{"name", required_argument, NULL, 'N'},
		{"poll", no_argument, NULL, 'P'},
		{"careless", no_argument, NULL, 'C'},
		{0},
	};
	struct options o = {.timeout = 18, .name = "client"};
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		switch (c) {
		case 'p':
			o.port = (unsigned)atoi(optarg);
			break;
		case 'd':
			o.device = optarg;
			break;
		case 'g':
			o.gid_index = (uint8_t)atoi(optarg);
			break;
		case 't':
			o.timeout = (uint8_t)atoi(optarg);
			break;
		case 'n':
			o.rounds = (unsigned)atoi(optarg);
			break;
		case 'N':
			o.name = optarg;
			break;
		case 'P':
			o.poll = true;
			break;
		case 'C':
			o.careless = true;
			break;
		default:
			usage();
		}
	}
	if (!o.port || argc - optind > 1 || strlen(o.name) >= NAME_LEN)
		usage();
	o.host = argv[optind];
	return o.host ? run_client(&o) : run_server(&o);
}
