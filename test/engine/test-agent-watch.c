/* SPDX-License-Identifier: BSD-2-Clause */
/* A loop that watches a client's connection, which another thread closes meanwhile. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/agent-watch.h"
#include "engine/loop.h"

/* ---- the client ---- */

static struct {
	int fd; /* of its connection; -1: none */
	int peer;
	unsigned served;
	pthread_mutex_t service; /* held: the helper waits */
} client = {.service = PTHREAD_MUTEX_INITIALIZER};

static void connect_client(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	client.fd = pair[0];
	client.peer = pair[1];
}

int __wrap_agent_client_fd(struct agent_client *c);
int __wrap_agent_client_service(struct agent_client *c);

int __wrap_agent_client_fd(struct agent_client *c)
{
	(void)c;
	return client.fd < 0 ? -ENOTCONN : fcntl(client.fd, F_DUPFD_CLOEXEC, 0);
}

/* Finds the next agent. */
int __wrap_agent_client_service(struct agent_client *c)
{
	(void)c;
	pthread_mutex_lock(&client.service);
	client.served++;
	if (client.fd < 0)
		connect_client();
	pthread_mutex_unlock(&client.service);
	return 0;
}

/* ---- the loop ---- */

static struct loop loop;
static struct agent_watch *watch;

/* Ends the loop as soon as it has nothing more to do at once. */
static void on_woken(struct loop *l)
{
	agent_watch_woken(watch);
	loop_stop(l);
}

static void begin(void)
{
	client.served = 0;
	connect_client();
	assert_int_equal(loop_init(&loop, on_woken, NULL, NULL), 0);
	assert_int_equal(agent_watch_new(&watch, &loop, NULL), 0);
}

static void look(void)
{
	agent_watch_look(watch);
	loop.stopped = false;
	assert_int_equal(loop_run(&loop), 0);
}

static bool something_is_readable(void)
{
	struct pollfd p = {.fd = loop.epoll_fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void finish(void)
{
	agent_watch_free(watch);
	loop_fini(&loop);
	if (client.fd >= 0)
		close(client.fd);
	close(client.peer);
}

static void ignore(struct loop_io *io)
{
	(void)io;
}

/* As agent_client_socket() does when it finds the agent dead, and no other. */
static int lose_connection(void)
{
	const int number = client.fd;

	close(client.fd);
	client.fd = -1;
	return number;
}

TEST(agent_watch, number_of_a_closed_connection_used_again__the_other_stays_watched)
{
	struct loop_io other;
	int number, fd;

	begin();
	number = lose_connection();
	fd = eventfd(1, EFD_CLOEXEC);
	if (fd != number) {
		assert_int_equal(dup3(fd, number, O_CLOEXEC), number);
		close(fd);
	}
	loop_io_init(&other, number, ignore, NULL);
	assert_int_equal(loop_watch(&loop, &other), 0);
	look();
	assert_true(something_is_readable());
	loop_unwatch(&loop, &other);
	assert_false(something_is_readable());
	finish();
	close(number);
}

/* A forked child may have it. A helper that finishes would wake the loop: it waits. */
TEST(agent_watch, copy_of_a_closed_connection__not_readable_any_more)
{
	int copy;

	begin();
	copy = dup(client.fd);
	close(client.peer);
	lose_connection();
	assert_true(something_is_readable());
	pthread_mutex_lock(&client.service);
	look();
	assert_false(something_is_readable());
	pthread_mutex_unlock(&client.service);
	finish();
	close(copy);
}

TEST(agent_watch, connection_lost_by_another_thread__next_agent_looked_for)
{
	int peer;

	begin();
	peer = client.peer;
	lose_connection();
	look();
	close(peer); /* only now, so that it is not the copy that shows the loss */
	do {
		loop.stopped = false;
		assert_int_equal(loop_run(&loop), 0); /* until the helper has finished */
	} while (client.fd < 0 || !client.served);
	assert_false(something_is_readable());
	assert_int_equal(write(client.peer, "", 1), 1);
	assert_true(something_is_readable());
	finish();
}
