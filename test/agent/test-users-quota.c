/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of an agent one user may have. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/give.h"
#include "agent/group.h"
#include "agent/quota.h"
#include "peer.h"
#include "test.h"
#include "users.h"

static unsigned addresses(void)
{
	struct agent_status *st;
	char text[400];
	unsigned n;

	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	n = (unsigned)st->agent.naddrs;
	agent_status_free(st);
	return n;
}

TEST(users, as_many_places_as_one_user_may_have__others_are_served)
{
	struct agent_msg welcome[QUOTA_PLACES + 1];
	int fds[QUOTA_PLACES + 1];
	struct peer bob;

	start_system();
	for (unsigned kind = 0; kind < AGENT_KIND_COUNT; kind++) {
		for (unsigned i = 0; i <= QUOTA_PLACES; i++) {
			fds[i] = connect_as(ANN, true);
			assert_int_equal(hello(fds[i], (enum agent_kind)kind, &welcome[i]),
					 i < QUOTA_PLACES ? 0 : ENOSPC);
		}
		assert_non_null(strstr(welcome[QUOTA_PLACES].u.error.text, "256"));
		bob = peer_start(BOB);
		assert_int_equal(peer_join(&bob).r, 0);
		peer_kill(&bob);
		agent_client_free(join());
		/* One goes, and there is room for one. */
		agent_msg_close_fds(&welcome[7]);
		close(fds[7]);
		fds[7] = connect_as(ANN, true);
		assert_int_equal(hello(fds[7], (enum agent_kind)kind, &welcome[7]), 0);
		for (unsigned i = 0; i <= QUOTA_PLACES; i++) {
			if (i < QUOTA_PLACES)
				agent_msg_close_fds(&welcome[i]);
			close(fds[i]);
		}
	}
	stop_system();
}

/* Any client may request a place without a proof, as those of an agent that has died do. */
TEST(users, places_without_a_proof__as_many_as_one_user_may_have_and_no_other_users)
{
	unsigned given = 0;
	struct peer bob;

	start_system();
	bob = peer_start(BOB);
	assert_int_equal(peer_join(&bob).r, 0);
	peer_kill(&bob);
	for (uint16_t slot = 1; slot < AGENT_SLOTS; slot++) {
		struct agent_msg m = {.type = AGENT_REJOIN, .u.rejoin = {AGENT_LANE, slot, 0}},
				 answer;
		int fd = connect_as(ANN, true), r = ask(fd, &m, &answer);

		assert_int_equal(r, slot == 1 ? EBADMSG : given < QUOTA_PLACES ? 0 : ENOSPC);
		given += !r;
		if (!r)
			agent_msg_close_fds(&answer);
		close(fd);
	}
	expect_service(QUOTA_PLACES + 2);
	stop_system();
}

/* Its token is the place; what else it has must not hold it. */
static int give_back(enum agent_kind kind)
{
	int fd = connect_as(ANN, true);
	struct agent_msg m;

	assert_int_equal(hello(fd, kind, &m), 0);
	close(m.fds[--m.nfds]);
	return fd;
}

static void expect_hung_up(int fd, const struct agent_msg *m)
{
	struct agent_msg answer;

	assert_int_equal(agent_msg_send(fd, m, 0), 0);
	assert_int_equal(agent_msg_recv(fd, &answer, 0), -ECONNRESET);
	close(fd);
}

static unsigned numbers(void)
{
	struct agent_status *st;
	char text[400];
	unsigned n;

	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	n = st->agent.ngsi_clients;
	agent_status_free(st);
	return n;
}

TEST(users, token_closed_and_connection_kept__the_place_is_given_back)
{
	struct agent_msg m = {.type = AGENT_SOCKET, .u.socket = {gid_v4(127, 0, 0, 1), 0, 0}};
	int fds[QUOTA_PLACES + 1];

	start_system();
	expect_hung_up(give_back(AGENT_LANE), &m);
	m.type = AGENT_GSI_OPEN;
	expect_hung_up(give_back(AGENT_GSI), &m);
	for (unsigned i = 0; i <= QUOTA_PLACES; i++)
		fds[i] = give_back(AGENT_GSI);
	assert_int_equal(numbers(), 1);
	for (unsigned i = 0; i <= QUOTA_PLACES; i++)
		close(fds[i]);
	stop_system();
}

TEST(users, as_many_connections_as_one_user_may_have__told_so_and_others_are_served)
{
	int fds[QUOTA_CLIENTS + 1];
	struct agent_msg m;
	struct peer bob;

	start_system();
	for (unsigned i = 0; i <= QUOTA_CLIENTS; i++)
		fds[i] = connect_as(ANN, true);
	assert_int_equal(agent_msg_recv(fds[QUOTA_CLIENTS], &m, 0), 0);
	assert_int_equal(m.type, AGENT_ERROR);
	assert_int_equal(m.u.error.err, ENOSPC);
	bob = peer_start(BOB);
	assert_int_equal(peer_join(&bob).r, 0);
	peer_kill(&bob);
	for (unsigned i = 0; i <= QUOTA_CLIENTS; i++)
		close(fds[i]);
	stop_system();
}

TEST(users, strangers_connect_to_a_users_own_agent__they_take_no_room)
{
	int fds[2 * AGENT_SLOTS + 1];
	struct agent_client *c;

	need_users(NULL);
	c = join();
	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		fds[i] = connect_as(ANN, false);
	expect_service(2);
	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
	agent_client_free(c);
	env_leave();
}

TEST(users, as_many_addresses_as_one_user_may_have__told_so_and_shared_ones_do_not_count)
{
	struct rocemu_gid shared = gid_v4(127, 0, 3, 1);
	struct agent_msg welcome, bob_welcome, m = {.type = AGENT_SOCKET}, answer;
	int ann, bob;

	start_system();
	ann = connect_as(ANN, true);
	bob = connect_as(BOB, true);
	assert_int_equal(hello(ann, AGENT_LANE, &welcome), 0);
	assert_int_equal(hello(bob, AGENT_LANE, &bob_welcome), 0);
	close(take_socket(bob, &shared));
	for (unsigned i = 0; i < QUOTA_ADDRS; i++) {
		struct rocemu_gid addr = gid_v4(127, 2, (uint8_t)(i / 200), (uint8_t)(i % 200 + 1));

		close(take_socket(ann, &addr));
	}
	m.u.socket.addr = gid_v4(127, 2, 200, 200);
	assert_int_equal(ask(ann, &m, &answer), ENOSPC);
	assert_non_null(strstr(answer.u.error.text, "512 addresses"));
	close(take_socket(ann, &shared));
	close(take_socket(bob, &m.u.socket.addr));
	agent_msg_close_fds(&welcome);
	agent_msg_close_fds(&bob_welcome);
	close(ann);
	close(bob);
	stop_system();
}

TEST(users, as_many_ports_as_one_user_may_have__told_so_and_others_are_served)
{
	struct agent_msg welcome[2], m = {.type = AGENT_GSI_BIND}, answer;
	int fds[2];

	start_system();
	for (unsigned i = 0; i < 2; i++) {
		fds[i] = connect_as(i ? BOB : ANN, true);
		assert_int_equal(hello(fds[i], AGENT_GSI, &welcome[i]), 0);
	}
	for (uint32_t i = 0; i <= QUOTA_PORTS_MAX; i++) {
		m.u.gsi_bind.key = i;
		m.u.gsi_bind.bind = (struct agent_gsi_bind){.service_id = 0x100000000u + i};
		assert_int_equal(ask(fds[0], &m, &answer), i < QUOTA_PORTS_MAX ? 0 : ENOBUFS);
	}
	assert_int_equal(ask(fds[1], &m, &answer), 0);
	for (unsigned i = 0; i < 2; i++) {
		agent_msg_close_fds(&welcome[i]);
		close(fds[i]);
	}
	stop_system();
}

/* A client with as many listeners as one user may have: its status takes long to write. */
static int listener_of(uid_t uid, struct agent_msg *welcome)
{
	struct agent_msg m = {.type = AGENT_GSI_BIND}, answer;
	int fd = connect_as(uid, true);

	assert_int_equal(hello(fd, AGENT_GSI, welcome), 0);
	for (uint32_t i = 0; i < QUOTA_PORTS_MAX; i++) {
		m.u.gsi_bind.key = i;
		m.u.gsi_bind.bind = (struct agent_gsi_bind){.service_id = 0x100000000u + i};
		m.type = AGENT_GSI_BIND;
		assert_int_equal(ask(fd, &m, &answer), 0);
		m.type = AGENT_GSI_LISTEN;
		assert_int_equal(ask(fd, &m, &answer), 0);
	}
	return fd;
}

static pid_t worker(void)
{
	struct agent_status *st;
	char text[400];
	pid_t pid;

	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	pid = (pid_t)st->agent.pid;
	agent_status_free(st);
	return pid;
}

TEST(users, many_long_requests_of_one_user__others_are_served_in_between)
{
	enum { REQUESTS = 400, BOBS = 3 };
	const struct agent_msg m = {.type = AGENT_STATUS};
	struct agent_msg welcome, answer;
	struct pollfd ann[REQUESTS];
	int listener, bob;
	pid_t pid;

	start_system();
	listener = listener_of(ANN, &welcome);
	for (unsigned i = 0; i < REQUESTS; i++)
		ann[i] = (struct pollfd){.fd = connect_as(ANN, true), .events = POLLIN};
	bob = connect_as(BOB, true);
	pid = worker();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (unsigned i = 0; i < REQUESTS; i++)
		assert_int_equal(agent_msg_send(ann[i].fd, &m, 0), 0);
	assert_int_equal(agent_msg_send(bob, &m, 0), 0);
	assert_int_equal(kill(pid, SIGCONT), 0);
	/* In whatever order a round of the agent's loop takes the clients. */
	for (unsigned i = 0; i < BOBS; i++) {
		assert_int_equal(agent_msg_recv(bob, &answer, 0), 0);
		assert_int_equal(answer.type, AGENT_STATUS_IS);
		agent_msg_close_fds(&answer);
		if (i + 1 < BOBS)
			assert_int_equal(agent_msg_send(bob, &m, 0), 0);
	}
	assert_in_range(poll(ann, REQUESTS, 0), 0, REQUESTS / 2);
	for (unsigned i = 0; i < REQUESTS; i++)
		close(ann[i].fd);
	close(bob);
	agent_msg_close_fds(&welcome);
	close(listener);
	stop_system();
}

TEST(users, table_of_addresses_full_of_dead_users__there_is_room)
{
	struct agent_msg welcome;
	int fd;

	start_system();
	for (unsigned user = 0; user < GROUPS_MAX / QUOTA_ADDRS; user++) {
		fd = connect_as(1000 + user, true);
		assert_int_equal(hello(fd, AGENT_LANE, &welcome), 0);
		for (unsigned i = 0; i < QUOTA_ADDRS; i++) {
			struct rocemu_gid addr = gid_v4(127, (uint8_t)(user + 1),
							(uint8_t)(i / 200), (uint8_t)(i % 200 + 1));

			close(take_socket(fd, &addr));
		}
		agent_msg_close_fds(&welcome);
		close(fd);
	}
	expect_service(GROUPS_MAX / QUOTA_ADDRS + 1);
	assert_in_range(addresses(), 1, GROUPS_MAX - 1);
	stop_system();
}
