/* SPDX-License-Identifier: BSD-2-Clause */
/* Users who take the names of others' agents. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"
#include "test.h"
#include "user.h"
#include "users.h"

/* Another user's program that has a name. */
struct squatter {
	int fds[3];
	unsigned n;
};

/* queue: limit of waiting connections, none of which is accepted; -1: does not listen. */
static void squat(struct squatter *s, bool system, const char *suffix, int queue)
{
	struct agent_instance instance;
	struct sockaddr_un sa;
	socklen_t len;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(agent_instance_init(&instance, system), 0);
	len = agent_instance_addr(&instance, suffix, &sa);
	user_act_as(ANN);
	assert_int_equal(bind(fd, (struct sockaddr *)(void *)&sa, len), 0);
	if (queue >= 0)
		assert_int_equal(listen(fd, queue), 0);
	user_return();
	s->fds[s->n++] = fd;
}

static void release(struct squatter *s)
{
	while (s->n)
		close(s->fds[--s->n]);
}

TEST(users, names_of_the_agent_taken_by_another_user__the_agent_is_found_by_another_name)
{
	struct squatter s = {0};
	struct agent_client *c, *d;
	pid_t pid;

	need_users(NULL);
	squat(&s, false, "", 1000);
	squat(&s, false, "+0000000000000000", 1000);
	squat(&s, true, "", 1000);
	c = join();
	d = join();
	assert_int_equal(agent_client_slot(c), 1);
	assert_int_equal(agent_client_slot(d), 2);
	expect_service(3);
	/* Also by clients that had it before its worker died, ... */
	pid = agent_pid();
	kill_agent();
	assert_int_equal(agent_client_service(c), 0);
	assert_int_not_equal(agent_pid(), pid);
	/* ... and when the names are free again. */
	release(&s);
	pid = agent_pid();
	expect_service(3);
	assert_int_equal(agent_pid(), pid);
	agent_client_free(c);
	agent_client_free(d);
	env_leave();
}

TEST(users, name_taken_and_not_listened_on__the_agent_starts_with_another_one)
{
	struct squatter s = {0};

	need_users(NULL);
	squat(&s, false, "", -1);
	expect_service(1);
	release(&s);
	env_leave();
}

/* It accepts no connection, and its queue is full. */
TEST(users, name_taken_and_its_queue_full__the_agent_is_found_by_another_name)
{
	struct squatter s = {0};
	struct agent_instance instance;
	struct sockaddr_un sa;
	int fds[64];
	unsigned n = 0;
	socklen_t len;

	need_users(NULL);
	squat(&s, false, "", 1);
	assert_int_equal(agent_instance_init(&instance, false), 0);
	len = agent_instance_addr(&instance, "", &sa);
	do
		fds[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	while (connect(fds[n], (struct sockaddr *)(void *)&sa, len) == 0 && ++n < 63);
	assert_in_range(n, 1, 62);
	expect_service(1);
	for (unsigned i = 0; i <= n; i++)
		close(fds[i]);
	release(&s);
	env_leave();
}

TEST(users, name_of_the_system_wide_agent_taken__it_starts_and_serves)
{
	struct squatter s = {0};
	struct peer ann;

	need_users(NULL);
	squat(&s, true, "", 1000);
	run_system();
	ann = peer_start(ANN);
	assert_int_equal(peer_join(&ann).value, 1);
	peer_kill(&ann);
	stop_system();
	release(&s);
}

TEST(users, many_started_at_once_beside_a_squatter__one_agent_stays)
{
	enum { N = 16 };
	struct squatter s = {0};
	struct agent_status *st;
	struct peer p[N];
	char text[400];

	need_users(NULL);
	squat(&s, false, "", 1000);
	for (unsigned i = 0; i < N; i++)
		p[i] = peer_start(0);
	for (unsigned i = 0; i < N; i++)
		peer_send_join(&p[i]);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(peer_reply(&p[i]).r, 0);
	assert_int_equal(agent_client_status(false, &st, text, sizeof(text)), 0);
	assert_int_equal(st->agent.nclients, N);
	agent_status_free(st);
	for (unsigned i = 0; i < N; i++)
		peer_kill(&p[i]);
	release(&s);
	env_leave();
}

TEST(users, two_names_of_one_user__two_agents_that_do_not_share_an_address)
{
	struct rocemu_gid one = gid_v4(127, 0, 0, 1), two = gid_v4(127, 0, 0, 2);
	char name[2][33] = {"x", "x.1"};
	struct peer p[2];

	need_users(NULL);
	for (unsigned i = 0; i < 2; i++) {
		setenv("ROCEMU_AGENT_NAME", name[i], 1);
		p[i] = peer_start(0);
		assert_int_equal(peer_join(&p[i]).value, 1);
	}
	assert_int_equal(peer_socket(&p[0], &one), 0);
	assert_int_equal(peer_socket(&p[1], &one), -EADDRINUSE);
	assert_int_equal(peer_socket(&p[1], &two), 0);
	assert_int_equal(peer_socket(&p[0], &two), -EADDRINUSE);
	for (unsigned i = 0; i < 20; i++) {
		send_to_qpn(&one, QPN(1, i));
		assert_int_equal(peer_receive(&p[0], 0), QPN(1, i));
		send_to_qpn(&two, QPN(1, i));
		assert_int_equal(peer_receive(&p[1], 0), QPN(1, i));
	}
	for (unsigned i = 0; i < 2; i++) {
		peer_kill(&p[i]);
		setenv("ROCEMU_AGENT_NAME", name[i], 1);
		env_leave();
	}
}
