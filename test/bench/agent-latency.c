/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures how long a system-wide agent takes to give a user a place while another user attacks it,
 * and the memory of its two processes. As root, in a network namespace of its own. Prints a row for
 * each attack: the median of some rounds.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/client-gsi.h"
#include "agent/gsi-frame.h"
#include "agent/quota.h"
#include "base/clock.h"
#include "base/util.h"
#include "gsi-peer.h"
#include "peer.h"
#include "test.h"
#include "users.h"

enum {
	PLACES = 256,
	ADDRS = 512,
	HELLOS_MAX = 1 << 20,
	PAUSE_US = 1000, /* between two HELLOs */
	PACKETS = 4096,
	SERVICE = 7000,
};

static struct {
	unsigned ms, rounds;
	const char *only;
} options = {3000, 3, NULL};

static int ready; /* the attacker's end of a pipe */

static void begin(void)
{
	assert_int_equal(write(ready, "", 1), 1);
}

static struct rocemu_gid addr_of(unsigned i)
{
	return gid_v4(127, 5, (uint8_t)(i / 250), (uint8_t)(i % 250 + 1));
}

/* ---- what an attacker does ---- */

struct client {
	int fd, frames;
	uint16_t place;
};

static struct client take(enum agent_kind kind)
{
	struct client c = {.fd = connect_as(ANN, true), .frames = -1};
	struct agent_msg a;

	if (hello(c.fd, kind, &a))
		fail_msg("%s", a.u.error.text);
	c.place = a.u.welcome.place;
	c.frames = a.fds[0];
	return c;
}

static void open_addr(const struct client *c, enum agent_msg_type how, unsigned i)
{
	struct agent_msg m = {.type = how, .u.socket = {addr_of(i), 0, 0}}, a;

	if (ask(c->fd, &m, &a))
		fail_msg("%s", a.u.error.text);
	agent_msg_close_fds(&a);
}

static void send_mad(const struct client *c, enum gsi_frame_type type, const struct gsi_mail *mail,
		     uint32_t id, uint8_t timeout)
{
	struct gsi_frame f = {.magic = GSI_FRAME_MAGIC,
			      .type = (uint8_t)type,
			      .comm_id = id,
			      .cm_timeout = timeout,
			      .retries = 15,
			      .m = {.src = mail->src, .dst = mail->dst}};

	(void)rocemu_cm_encode(&mail->m, f.m.mad);
	assert_int_equal(send(c->frames, &f, sizeof(f), MSG_NOSIGNAL), sizeof(f));
}

static void set_exits(const struct client *c, unsigned n, uint8_t timeout)
{
	const struct rocemu_gid src = addr_of(0), dst = gid_v4(127, 200, 0, 1);

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t id = agent_comm_id(c->place, i);
		const struct gsi_mail mail = mail_ids(&src, &dst, ROCEMU_CM_DREQ, id, 77);

		send_mad(c, GSI_FRAME_EXIT_SET, &mail, id, timeout);
	}
}

static void exits(unsigned clients, uint8_t timeout, struct client *c)
{
	for (unsigned i = 0; i < clients; i++) {
		c[i] = take(AGENT_GSI);
		open_addr(&c[i], AGENT_GSI_OPEN, 0);
		set_exits(&c[i], QUOTA_EXIT_MADS_MAX / clients, timeout);
		/* It has read them. */
		open_addr(&c[i], AGENT_GSI_OPEN, 0);
	}
}

static void exits_live(void)
{
	struct client c[8];

	exits(8, 31, c);
	begin();
	for (;;)
		for (unsigned i = 0; i < 8; i++)
			set_exits(&c[i], QUOTA_EXIT_MADS_MAX / 8, 31);
}

static void exits_linger(void)
{
	struct client c[8];

	exits(8, 31, c);
	begin();
}

static void exits_repeated(void)
{
	struct client c[8];

	exits(8, 0, c);
	begin();
}

static void places(void)
{
	struct agent_msg m = {.type = AGENT_REJOIN}, a;

	for (unsigned i = 0; i < PLACES - 2; i++) {
		struct agent_msg w[2];

		for (unsigned kind = 0; kind < AGENT_KIND_COUNT; kind++) {
			int fd = connect_as(ANN, true);

			assert_int_equal(hello(fd, (enum agent_kind)kind, &w[kind]), 0);
			close(fd);
		}
	}
	begin();
	for (unsigned i = 0;; i++) {
		int fd = connect_as(ANN, true);

		m.u.rejoin.kind = i % 2;
		m.u.rejoin.place = 1 + i / 2 % (AGENT_SEATS - 1);
		(void)ask(fd, &m, &a);
		agent_msg_close_fds(&a);
		close(fd);
	}
}

static void connections(void)
{
	begin();
	for (;;)
		close(connect_as(ANN, true));
}

static void hellos(void)
{
	struct agent_msg a;

	for (unsigned i = 0; i < 3 && fork(); i++)
		;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin();
	for (unsigned i = 0;; i++) {
		int fd = connect_as(ANN, true);

		(void)hello(fd, i % 2 ? AGENT_GSI : AGENT_LANE, &a);
		agent_msg_close_fds(&a);
		close(fd);
	}
}

static void bind_ports(const struct client *c, enum agent_msg_type how)
{
	struct agent_msg m = {.type = how}, a;

	for (uint32_t i = 0; i < QUOTA_PORTS_MAX; i++) {
		m.u.gsi_bind.key = i;
		m.u.gsi_bind.bind.service_id = 0x100000000u + i;
		assert_int_equal(ask(c->fd, &m, &a), 0);
	}
}

static void ports(void)
{
	const struct client c = take(AGENT_GSI);

	bind_ports(&c, AGENT_GSI_BIND);
	begin();
	for (;;) {
		bind_ports(&c, AGENT_GSI_LISTEN);
		bind_ports(&c, AGENT_GSI_UNBIND);
		bind_ports(&c, AGENT_GSI_BIND);
	}
}

static void addresses(void)
{
	struct client c = take(AGENT_GSI);

	for (unsigned i = 0; i < ADDRS; i++)
		open_addr(&c, AGENT_GSI_OPEN, i);
	begin();
	/* Those that are given up wait for the sweep. */
	for (unsigned at = 0;; at = at ? 0 : ADDRS) {
		for (unsigned i = 0; i < ADDRS; i++)
			open_addr(&c, AGENT_GSI_CLOSE, i + at);
		for (unsigned i = 0; i < ADDRS; i++)
			open_addr(&c, AGENT_GSI_OPEN, i + (at ? 0 : ADDRS));
	}
}

static void statuses(void)
{
	const struct client c = take(AGENT_GSI);
	struct agent_msg m = {.type = AGENT_STATUS}, a;

	bind_ports(&c, AGENT_GSI_BIND);
	bind_ports(&c, AGENT_GSI_LISTEN);
	for (unsigned i = 0; i < 3 && fork(); i++)
		;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin();
	for (int fd = connect_as(ANN, true);;) {
		assert_int_equal(ask(fd, &m, &a), 0);
		agent_msg_close_fds(&a);
	}
}

static void listen_on(const struct client *c, uint16_t port)
{
	struct agent_msg m = {.type = AGENT_GSI_BIND}, a;

	m.u.gsi_bind.bind.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, port);
	m.u.gsi_bind.bind.addr = addr_of(0);
	assert_int_equal(ask(c->fd, &m, &a), 0);
	m.type = AGENT_GSI_LISTEN;
	assert_int_equal(ask(c->fd, &m, &a), 0);
}

/* As many as possible, of connection requests for a listener that does not read. */
static void requests(void)
{
	static uint8_t packets[PACKETS][GSI_PACKET_LEN];
	const struct rocemu_gid src = gid_v4(127, 0, 0, 9), dst = addr_of(0);
	const struct client c = take(AGENT_GSI);
	int wire = wire_open(&src);

	open_addr(&c, AGENT_GSI_OPEN, 0);
	listen_on(&c, SERVICE);
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct gsi_mail mail = mail_req(&src, &dst, i + 1, 0);

		mail.m.req.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, SERVICE);
		mail.sport = AGENT_PORT;
		mail_seal(&mail);
		memcpy(packets[i], mail.bytes, sizeof(packets[i]));
	}
	begin();
	for (uint32_t i = 0;; i++)
		wire_send_bytes(wire, &dst, packets[i % PACKETS], GSI_PACKET_LEN);
}

/* Each of the user's clients has a full queue. */
static void deaf(void)
{
	const struct rocemu_gid at = addr_of(0);
	struct client c[PLACES - 2];

	for (unsigned i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = take(AGENT_GSI);
		open_addr(&c[i], AGENT_GSI_OPEN, 0);
		listen_on(&c[i], (uint16_t)(SERVICE + i));
	}
	for (uint32_t i = 0;; i++) {
		const unsigned to = i / PACKETS % (unsigned)ARRAY_LEN(c);
		struct gsi_mail mail = mail_req(&at, &at, agent_comm_id(c[0].place, i), 0);

		if (i == PACKETS * ARRAY_LEN(c))
			begin();
		mail.m.req.service_id =
			rocemu_cm_service_id(ROCEMU_PS_TCP, (uint16_t)(SERVICE + to));
		send_mad(&c[0], GSI_FRAME_MAD, &mail, 0, 0);
	}
}

static const struct attack {
	const char *name;
	void (*run)(void);
} attacks[] = {
	{"none", begin},
	{"32,768 exit MADs of 8 clients, set again and again", exits_live},
	{"the same after the clients' end, repeated each minute", exits_linger},
	{"the same, repeated each 10 ms", exits_repeated},
	{"254 slots and numbers; REJOIN without a proof", places},
	{"connections", connections},
	{"HELLO, four processes", hellos},
	{"8,192 ports, bound and given up", ports},
	{"512 addresses, opened and closed", addresses},
	{"STATUS with 8,192 listeners, four processes", statuses},
	{"REQ to QP 1, as many as possible", requests},
	{"254 clients that do not read, REQs for all", deaf},
};

/* ---- measuring ---- */

struct figures {
	double median_ms, p99_ms, worst_ms;
	unsigned rss, pss; /* KiB, of both, at most */
};

static unsigned sum_kib(pid_t pid, const char *file, const char *field)
{
	char line[200];
	unsigned kib = 0, n;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/%s", (int)pid, file);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)) &&
		    sscanf(line + strlen(field), " %u", &n) == 1)
			kib += n;
	if (f)
		fclose(f);
	return kib;
}

static void look_at_memory(struct figures *f, const pid_t pids[2])
{
	unsigned rss = 0, pss = 0;

	for (unsigned i = 0; i < 2; i++) {
		rss += sum_kib(pids[i], "status", "VmRSS:");
		pss += sum_kib(pids[i], "smaps_rollup", "Pss:");
	}
	f->rss = MAX(f->rss, rss);
	f->pss = MAX(f->pss, pss);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* From connecting to having the place, in milliseconds. */
static double hello_ms(unsigned i)
{
	const uint64_t start = clock_ns(CLOCK_MONOTONIC);
	struct agent_msg a;
	int fd = connect_as(BOB, true);

	if (hello(fd, i % 2 ? AGENT_GSI : AGENT_LANE, &a))
		fail_msg("refused: %s", a.u.error.text);
	agent_msg_close_fds(&a);
	close(fd);
	return (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e6;
}

static struct figures measure(const pid_t pids[2])
{
	static double ms[HELLOS_MAX];
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + options.ms * UINT64_C(1000000);
	struct figures f = {0};
	unsigned n = 0;

	while (clock_ns(CLOCK_MONOTONIC) < end && n < HELLOS_MAX) {
		ms[n] = hello_ms(n);
		if (n++ % 100 == 0)
			look_at_memory(&f, pids);
		usleep(PAUSE_US);
	}
	qsort(ms, n, sizeof(ms[0]), compare);
	f.median_ms = ms[n / 2];
	f.p99_ms = ms[n * 99 / 100];
	f.worst_ms = ms[n - 1];
	return f;
}

static pid_t attack(const struct attack *a)
{
	int pair[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* With its children. */
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		ready = pair[1];
		a->run();
		_exit(0);
	}
	close(pair[1]);
	if (read(pair[0], &byte, 1) != 1)
		fail_msg("%s: the attack did not begin", a->name);
	close(pair[0]);
	return pid;
}

static struct figures round_of(const struct attack *a)
{
	struct agent_status *st;
	struct figures f;
	char text[400];
	pid_t pid, pids[2];

	run_system();
	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	pids[0] = (pid_t)st->agent.pid;
	pids[1] = (pid_t)st->agent.holder;
	agent_status_free(st);
	pid = attack(a);
	f = measure(pids);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
	stop_system();
	wait_gone(pids[0]);
	return f;
}

static int compare_p99(const void *a, const void *b)
{
	return compare(&((const struct figures *)a)->p99_ms, &((const struct figures *)b)->p99_ms);
}

TEST(agent, another_user_attacks__it_answers_others)
{
	struct rlimit rl = {65536, 65536};
	struct figures *f = calloc(options.rounds, sizeof(*f));

	(void)setrlimit(RLIMIT_NOFILE, &rl);
	need_users(NULL);
	assert_non_null(f);
	puts("| attack | HELLO: median | p99 | slowest | both processes: RSS | PSS |");
	puts("|---|---|---|---|---|---|");
	for (unsigned i = 0; i < ARRAY_LEN(attacks); i++) {
		if (options.only && !strstr(attacks[i].name, options.only))
			continue;
		for (unsigned k = 0; k < options.rounds; k++)
			f[k] = round_of(&attacks[i]);
		qsort(f, options.rounds, sizeof(*f), compare_p99);
		printf("| %s | %.2f ms | %.2f ms | %.1f ms | %.1f MiB | %.1f MiB |\n",
		       attacks[i].name, f[options.rounds / 2].median_ms,
		       f[options.rounds / 2].p99_ms, f[options.rounds / 2].worst_ms,
		       f[options.rounds / 2].rss / 1024., f[options.rounds / 2].pss / 1024.);
		fflush(stdout);
	}
	free(f);
}

static int usage(void)
{
	fputs("usage: agent-latency [--seconds N] [--rounds N] [--only PART-OF-A-NAME]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"seconds", required_argument, NULL, 's'},
					      {"rounds", required_argument, NULL, 'r'},
					      {"only", required_argument, NULL, 'o'},
					      {0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == 's')
			options.ms = (unsigned)(1000 * atof(optarg));
		else if (opt == 'r')
			options.rounds = (unsigned)MAX(atoi(optarg), 1);
		else if (opt == 'o')
			options.only = optarg;
		else
			return usage();
	}
	return optind < argc ? usage() : test_run(argv[0], NULL, 0);
}
