/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many MADs of connection management the agent routes: two processes exchange REQ, REP and RTU
 * through it, many exchanges at a time, with nothing behind the messages: the ceiling of what
 * rdma_cm can set up per second.
 *
 *	ROCEMU_AGENT_BIN=build/src/agent/rocemu-agent mad-rate [ADDRESS [CONNECTIONS [AT A TIME]]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rocemu/cm.h>

#include "agent/client-gsi.h"

/* A REQ that is lost is repeated when nothing came for so long. */
enum { PATIENCE_MS = 500 };
#define SERVICE rocemu_cm_service_id(ROCEMU_PS_TCP, 7471)

struct side {
	struct agent_gsi *c;
	struct rocemu_gid addr;
};

static void die(const char *what)
{
	fprintf(stderr, "mad-rate: %s\n", what);
	exit(1);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void join(struct side *s, const struct rocemu_gid *addr)
{
	char text[AGENT_TEXT_MAX];

	s->addr = *addr;
	if (agent_gsi_new(&s->c, text))
		die(text);
	if (agent_gsi_open(s->c, addr, 0, text))
		die(text);
}

static void send_msg(struct side *s, const struct rocemu_cm_msg *m)
{
	struct gsi_mad d = {.src = s->addr, .dst = s->addr};
	int r;

	(void)rocemu_cm_encode(m, d.mad);
	r = agent_gsi_send(s->c, &d, false);
	if (r && r != -EAGAIN)
		die(strerror(-r));
}

/* @return false: nothing came for a while. */
static bool recv_msg(struct side *s, struct rocemu_cm_msg *m)
{
	struct gsi_frame f;
	int r;

	while ((r = agent_gsi_recv(s->c, &f)) == 0 || (r == 1 && f.type != GSI_FRAME_MAD)) {
		struct pollfd pfd = {.fd = agent_gsi_fd(s->c), .events = POLLIN};

		agent_gsi_flush(s->c);
		if (poll(&pfd, 1, PATIENCE_MS) == 0)
			return false;
	}
	if (r < 0 || rocemu_cm_decode(m, f.m.mad, sizeof(f.m.mad)))
		die("the agent is gone, or passes on what is no MAD");
	return true;
}

/* Take what comes until killed. */
static void listener(const struct rocemu_gid *addr, int ready)
{
	struct agent_gsi_bind b = {.service_id = SERVICE, .addr = *addr};
	struct rocemu_cm_msg m;
	struct side s = {0};
	char text[AGENT_TEXT_MAX];
	uint32_t key;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	join(&s, addr);
	if (agent_gsi_bind(s.c, &b, &key, text) || agent_gsi_listen(s.c, key, text) ||
	    write(ready, "", 1) != 1)
		die(text);
	for (;;) {
		struct rocemu_cm_msg rep = {.attr_id = ROCEMU_CM_REP};

		if (!recv_msg(&s, &m) || m.attr_id != ROCEMU_CM_REQ)
			continue;
		rep.tid = m.tid;
		rep.rep.local_comm_id = agent_comm_id(agent_gsi_number(s.c), m.req.local_comm_id);
		rep.rep.remote_comm_id = m.req.local_comm_id;
		send_msg(&s, &rep);
	}
}

static void request(struct side *s, uint32_t i)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REQ, .tid = i};

	m.req.local_comm_id = agent_comm_id(agent_gsi_number(s->c), i);
	m.req.service_id = SERVICE;
	send_msg(s, &m);
}

/* @return how often there was nothing for so long that messages must have been lost. */
static unsigned connect_all(struct side *s, uint32_t n, uint32_t window)
{
	const uint32_t mask = (1u << AGENT_GSI_ID_BITS) - 1;
	bool *done = calloc(n, 1);
	unsigned stalls = 0;
	uint32_t next = 0, ndone = 0;
	struct rocemu_cm_msg m;

	if (!done)
		die("out of memory");
	while (ndone < n) {
		struct rocemu_cm_msg rtu = {.attr_id = ROCEMU_CM_RTU};
		uint32_t i;

		while (next < n && next - ndone < window)
			request(s, next++);
		if (!recv_msg(s, &m)) {
			stalls++;
			for (i = 0; i < next; i++)
				if (!done[i])
					request(s, i);
			continue;
		}
		i = m.rep.remote_comm_id & mask;
		if (m.attr_id != ROCEMU_CM_REP || i >= n || done[i])
			continue;
		done[i] = true;
		ndone++;
		rtu.tid = m.tid;
		rtu.rtu.local_comm_id = m.rep.remote_comm_id;
		rtu.rtu.remote_comm_id = m.rep.local_comm_id;
		send_msg(s, &rtu);
	}
	free(done);
	return stalls;
}

int main(int argc, char **argv)
{
	struct rocemu_gid addr = {.raw = {[10] = 0xff, [11] = 0xff}};
	uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100000;
	uint32_t window = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 64;
	struct side s = {0};
	unsigned stalls;
	double t0, t;
	int ready[2];
	pid_t pid;
	char byte;

	if (inet_pton(AF_INET, argc > 1 ? argv[1] : "127.0.0.1", addr.raw + 12) != 1 || n == 0 ||
	    n >> AGENT_GSI_ID_BITS || window == 0) {
		fputs("usage: mad-rate [ADDRESS [CONNECTIONS [AT A TIME]]]\n", stderr);
		return 2;
	}
	if (pipe(ready))
		die(strerror(errno));
	pid = fork();
	if (pid == 0)
		listener(&addr, ready[1]);
	close(ready[1]);
	join(&s, &addr);
	if (pid < 0 || read(ready[0], &byte, 1) != 1)
		die("no listener");
	t0 = now_s();
	stalls = connect_all(&s, n, window);
	t = now_s() - t0;
	printf("%u exchanges, %u at a time: %.0f exchanges/s, %.0f MADs/s through the agent, %u "
	       "stalls\n",
	       n, window, n / t, 3 * n / t, stalls);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	agent_gsi_free(s.c);
	return 0;
}
