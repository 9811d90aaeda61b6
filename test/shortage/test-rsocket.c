/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, descriptors and other means run out under the calls of rsockets. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "count.h"
#include "drive.h"
#include "netns.h"

enum { LEN = 64, MESSAGES = 4 };

struct ends {
	int listener, client, server;
	char mem[LEN];
};

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Wait until one of events is so of a socket; the other, which connects, gets on meanwhile, or
 * fails.
 * @return false: the section ends. */
static bool wait_for(struct drive *d, int fd, short events, int other, const char *what)
{
	struct pollfd p[2] = {{.fd = fd, .events = events}, {.fd = other}};
	int n = 0;

	if (drive_stopped(d))
		return false;
	n = drive_poll(d, rpoll, p, 2);
	if (n <= 0) {
		drive_problem(d, "%s does not come: %d", what, n);
		drive_give_up(d, what, errno);
	} else if (!(p[0].revents & events)) {
		drive_give_up(d, what, p[0].revents | p[1].revents);
	}
	return !drive_stopped(d);
}

/*
 * As with any socket, the state of one whose connect() has failed is not checked, and of a
 * connection that could not be accepted, either: others work.
 */
static void begin_connect(struct drive *d, int fd, const struct sockaddr_in *to)
{
	if (!drive_stopped(d) && rconnect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 &&
	    errno != EINPROGRESS)
		drive_call_ended(d, "rconnect", errno);
}

static void accept_server(struct drive *d, struct ends *e)
{
	e->server = raccept(e->listener, NULL, NULL);
	if (e->server < 0)
		drive_call_ended(d, "raccept", errno);
}

static void connect_ends(struct drive *d, struct ends *e)
{
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof(at);
	int err = 0;

	TRY_RET(d, e->listener = rsocket(AF_INET, SOCK_STREAM, 0));
	TRY_RET(d, rbind(e->listener, (struct sockaddr *)&at, sizeof(at)));
	TRY_RET(d, rlisten(e->listener, 4));
	TRY_RET(d, rfcntl(e->listener, F_SETFL, O_NONBLOCK));
	TRY_RET(d, rgetsockname(e->listener, (struct sockaddr *)&at, &len));
	TRY_RET(d, e->client = rsocket(AF_INET, SOCK_STREAM, 0));
	TRY_RET(d, rfcntl(e->client, F_SETFL, O_NONBLOCK));
	begin_connect(d, e->client, &at);
	if (!wait_for(d, e->listener, POLLIN, e->client, "a connection to accept"))
		return;
	accept_server(d, e);
	if (!wait_for(d, e->client, POLLOUT, e->server, "the connection"))
		return;
	len = sizeof(err);
	TRY_RET(d, rgetsockopt(e->client, SOL_SOCKET, SO_ERROR, &err, &len));
	if (err)
		drive_give_up(d, "SO_ERROR", err);
}

static void talk(struct drive *d, struct ends *e)
{
	TRY_RET(d, rsend(e->client, "some bytes", 10, 0));
	if (wait_for(d, e->server, POLLIN, e->client, "data"))
		TRY_RET(d, rrecv(e->server, e->mem, LEN, 0));
	if (!drive_stopped(d) && memcmp(e->mem, "some bytes", 10) != 0)
		drive_problem(d, "other bytes");
}

static void stream(struct drive *d)
{
	struct ends e = {.listener = -1, .client = -1, .server = -1};

	connect_ends(d, &e);
	if (!drive_stopped(d))
		talk(d, &e);
	if (e.server >= 0)
		FREE(d, rclose(e.server));
	if (e.client >= 0)
		FREE(d, rclose(e.client));
	if (e.listener >= 0)
		FREE(d, rclose(e.listener));
}

/* One may be lost, so this sends until some have come: the first by UDP, the others by QPs. */
static void datagrams(struct drive *d)
{
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof(at);
	int a = -1, b = -1, n = 0, came = 0;
	char mem[LEN];

	TRY_RET(d, a = rsocket(AF_INET, SOCK_DGRAM, 0));
	TRY_RET(d, b = rsocket(AF_INET, SOCK_DGRAM, 0));
	TRY_RET(d, rbind(a, (struct sockaddr *)&at, sizeof(at)));
	TRY_RET(d, rgetsockname(a, (struct sockaddr *)&at, &len));
	for (unsigned i = 0; i < 100 && !drive_stopped(d) && came < MESSAGES; i++) {
		struct pollfd p = {.fd = a, .events = POLLIN};

		TRY_RET(d, rsendto(b, "some bytes", 10, 0, (struct sockaddr *)&at, sizeof(at)));
		n = drive_stopped(d) ? 0 : rpoll(&p, 1, DRIVE_PATIENCE_MS);
		if (n == 0)
			drive_recover(d);
		came += n > 0;
		if (n > 0)
			TRY_RET(d, rrecv(a, mem, LEN, 0));
	}
	if (!drive_stopped(d) && came < MESSAGES)
		drive_problem(d, "no datagram comes");
	if (a >= 0)
		FREE(d, rclose(a));
	if (b >= 0)
		FREE(d, rclose(b));
}

static void prepare(void)
{
	netns_enter_once();
	count_keep_send_sockets();
	/* What was lost is sent again soon. */
	setenv("ROCEMU_TIME_SCALE", "100", 1);
}

TEST(rsocket, any_call_under_a_stream_fails__error_and_later_calls_work)
{
	prepare();
	drive_all("stream", stream);
}

TEST(rsocket, any_call_under_datagrams_fails__error_and_later_calls_work)
{
	prepare();
	drive_all("datagrams", datagrams);
}

TEST(rsocket, descriptors_run_out__emfile_and_later_calls_work)
{
	prepare();
	drive_descriptors("stream", stream);
}
