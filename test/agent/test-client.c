/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots, sockets and steering, by real client processes and a real agent. */
#include <errno.h>
#include <poll.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"
#include "test.h"

enum { MANY = 64 };

#define QPN(slot, index) ((uint32_t)(slot) << 14 | (index))

static void start_many(struct peer *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = peer_start(0);
}

static void kill_many(struct peer *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		peer_kill(&p[i]);
}

/* All at once; slots[i] is what p[i] got. They must be 1 .. n in any order. */
static void join_many(struct peer *p, uint32_t *slots, unsigned n)
{
	bool seen[1024] = {0};

	for (unsigned i = 0; i < n; i++)
		peer_send_join(&p[i]);
	for (unsigned i = 0; i < n; i++) {
		struct peer_reply re = peer_reply(&p[i]);

		assert_string_equal(re.text, "");
		assert_int_equal(re.r, 0);
		slots[i] = re.value;
		assert_in_range(re.value, 1, n);
		assert_false(seen[re.value]);
		seen[re.value] = true;
	}
}

static void assert_steered(struct peer *p, uint32_t slot, uint8_t socket,
			   const struct rocemu_gid *addr, uint32_t index)
{
	send_to_qpn(addr, QPN(slot, index));
	assert_int_equal(peer_receive(p, socket), QPN(slot, index));
}

TEST(agent_client, sixty_four_at_once__distinct_slots_and_one_agent)
{
	struct agent_status *st;
	struct peer p[MANY];
	uint32_t slots[MANY];
	char text[400];

	env_enter();
	start_many(p, MANY);
	join_many(p, slots, MANY);
	/* All of them are clients of the one that answers, so no second agent was left with some.
	 */
	assert_int_equal(agent_client_status(false, &st, text, sizeof(text)), 0);
	assert_int_equal(st->agent.nclients, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		bool found = false;

		for (unsigned k = 0; k < st->agent.nclients; k++)
			if (st->clients[k].pid == (uint32_t)p[i].pid)
				found = st->clients[k].slot == slots[i];
		assert_true(found);
	}
	agent_status_free(st);
	kill_many(p, MANY);
	env_leave();
}

TEST(agent_client, sixty_four_slots_two_addresses__each_packet_reaches_its_slot)
{
	struct rocemu_gid addr[2] = {gid_v4(127, 0, 0, 1), gid_v6_loopback()};
	struct peer p[MANY];
	uint32_t slots[MANY];

	env_enter();
	start_many(p, MANY);
	join_many(p, slots, MANY);
	for (unsigned a = 0; a < 2; a++) {
		for (unsigned i = 0; i < MANY; i++)
			peer_send_socket(&p[i], &addr[a]);
		for (unsigned i = 0; i < MANY; i++)
			assert_int_equal(peer_reply(&p[i]).r, 0);
	}
	for (unsigned i = 0; i < MANY; i++)
		for (uint8_t a = 0; a < 2; a++)
			assert_steered(&p[i], slots[i], a, &addr[a], 0x3fff - i);
	kill_many(p, MANY);
	env_leave();
}

TEST(agent_client, killed__slot_is_free_and_others_unharmed)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 2);
	struct peer p[5], next;
	struct peer_reply re;
	uint16_t index = 0;

	env_enter();
	start_many(p, 5);
	for (unsigned i = 0; i < 5; i++) {
		re = peer_join(&p[i]);
		assert_int_equal(re.value, i + 1);
		if (i == 1)
			index = re.first_index;
		assert_int_equal(peer_socket(&p[i], &addr), 0);
	}
	peer_kill(&p[1]);
	send_to_qpn(&addr,
		    QPN(2, index)); /* to the dead: the next owner of the slot must not see it */
	for (unsigned i = 0; i < 5; i++)
		if (i != 1)
			assert_steered(&p[i], i + 1, 0, &addr, 7);
	next = peer_start(0);
	re = peer_join(&next);
	assert_int_equal(re.value, 2);
	assert_int_not_equal(re.first_index, index);
	assert_int_equal(peer_socket(&next, &addr), 0);
	assert_steered(&next, 2, 0, &addr, 9);
	peer_kill(&next);
	peer_kill(&p[0]);
	kill_many(p + 2, 3);
	env_leave();
}

TEST(agent_client, agent_killed__sockets_work_and_the_next_agent_goes_on)
{
	struct rocemu_gid addr[2] = {gid_v4(127, 0, 0, 1), gid_v6_loopback()},
			  later = gid_v4(127, 0, 0, 3);
	struct peer p[6], fresh;
	struct peer_reply re;
	pid_t first;

	env_enter();
	start_many(p, 6);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(peer_join(&p[i]).value, i + 1);
		for (unsigned a = 0; a < 2; a++)
			assert_int_equal(peer_socket(&p[i], &addr[a]), 0);
	}
	/* A hole: only the holder keeps slot 3's sockets open. */
	peer_kill(&p[2]);
	first = agent_pid();
	kill_agent();
	for (unsigned i = 0; i < 6; i++)
		if (i != 2)
			assert_steered(&p[i], i + 1, 0, &addr[0], 1);
	for (unsigned i = 0; i < 6; i++)
		if (i != 2)
			assert_int_equal(peer_service(&p[i]), 0);
	assert_int_not_equal(agent_pid(), first);
	fresh = peer_start(0);
	re = peer_join(&fresh);
	assert_int_equal(re.r, 0);
	assert_int_equal(re.value, 3);
	for (uint8_t a = 0; a < 2; a++) {
		assert_int_equal(peer_socket(&fresh, &addr[a]), 0);
		assert_steered(&fresh, 3, a, &addr[a], 2);
	}
	for (uint8_t i = 0; i < 6; i++) {
		if (i == 2)
			continue;
		assert_steered(&p[i], i + 1u, 1, &addr[1], 3);
		assert_int_equal(peer_socket(&p[i], &later), 0);
		assert_steered(&p[i], i + 1u, 2, &later, 4);
	}
	peer_kill(&fresh);
	kill_many(p, 2);
	kill_many(p + 3, 3);
	env_leave();
}

TEST(agent_client, agent_killed_when_there_are_many_sockets__all_places_right)
{
	struct rocemu_gid addr[3] = {gid_v4(127, 1, 0, 1), gid_v4(127, 1, 0, 2), gid_v6_loopback()};
	struct peer p[MANY], fresh;
	uint32_t slots[MANY];

	env_enter();
	start_many(p, MANY);
	join_many(p, slots, MANY);
	for (unsigned i = 0; i < MANY; i++)
		for (unsigned a = 0; a < 3; a++)
			assert_int_equal(peer_socket(&p[i], &addr[a]), 0);
	for (unsigned round = 0; round < 2; round++) {
		kill_agent();
		for (unsigned i = 0; i < MANY; i++)
			assert_int_equal(peer_service(&p[i]), 0);
	}
	fresh = peer_start(0);
	assert_int_equal(peer_join(&fresh).value, MANY + 1);
	for (uint8_t a = 0; a < 3; a++) {
		assert_int_equal(peer_socket(&fresh, &addr[a]), 0);
		assert_steered(&fresh, MANY + 1, a, &addr[a], 5);
		for (unsigned i = 0; i < MANY; i++)
			assert_steered(&p[i], slots[i], a, &addr[a], i);
	}
	peer_kill(&fresh);
	kill_many(p, MANY);
	env_leave();
}

/* Take n replies to joins in the order in which they come, servicing as an engine would. */
static void take_joins(struct peer *p, uint32_t *slots, unsigned n)
{
	struct pollfd pfd[MANY];

	for (unsigned i = 0; i < n; i++)
		pfd[i] = (struct pollfd){.fd = p[i].ctl, .events = POLLIN};
	for (unsigned left = n; left;) {
		assert_true(poll(pfd, n, 30000) > 0);
		for (unsigned i = 0; i < n; i++) {
			struct peer_reply re;

			if (!(pfd[i].revents & POLLIN))
				continue;
			re = peer_reply(&p[i]);
			assert_string_equal(re.text, "");
			assert_int_equal(re.r, 0);
			slots[i] = re.value;
			pfd[i].fd = -1;
			left--;
			assert_int_equal(peer_service_now(&p[i]), 0);
		}
	}
}

TEST(agent_client, agent_killed_while_many_join__each_gets_a_slot_of_its_own)
{
	enum { N = 16, ROUNDS = 8 };
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct peer p[N], first;
	uint32_t slots[N];

	env_enter();
	first = peer_start(0);
	assert_int_equal(peer_join(&first).value, 1);
	assert_int_equal(peer_socket(&first, &addr), 0);
	start_many(p, N);
	for (unsigned round = 0; round < ROUNDS; round++) {
		/* Each round the agent is a little further on when it is killed. */
		for (unsigned i = 0; i < N; i++) {
			peer_send_join(&p[i]);
			if (i == round * 2)
				kill_agent();
		}
		assert_int_equal(peer_service_now(&first), 0);
		take_joins(p, slots, N);
		for (unsigned i = 0; i < N; i++) {
			assert_in_range(slots[i], 2, 1023);
			for (unsigned k = 0; k < i; k++)
				assert_int_not_equal(slots[i], slots[k]);
			assert_int_equal(peer_socket(&p[i], &addr), 0);
			assert_steered(&p[i], slots[i], 0, &addr, round);
		}
		assert_steered(&first, 1, 0, &addr, round);
		for (unsigned i = 0; i < N; i++)
			assert_int_equal(peer_leave(&p[i]), 0);
	}
	peer_kill(&first);
	kill_many(p, N);
	env_leave();
}

TEST(agent_client, fresh_one_meets_the_new_worker_first__served_at_once)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct peer old, fresh;

	env_enter();
	old = peer_start(0);
	assert_int_equal(peer_join(&old).value, 1);
	assert_int_equal(peer_socket(&old, &addr), 0);
	kill_agent();
	fresh = peer_start(0);
	assert_int_equal(peer_join(&fresh).value, 2);
	assert_int_equal(peer_socket(&fresh, &addr), 0);
	assert_steered(&fresh, 2, 0, &addr, 1);
	assert_steered(&old, 1, 0, &addr, 1);
	assert_int_equal(peer_service(&old), 0);
	peer_kill(&old);
	peer_kill(&fresh);
	env_leave();
}

TEST(agent_client, old_one_does_not_come_back__its_slot_is_not_given_away)
{
	struct peer old, fresh;

	env_enter();
	old = peer_start(0);
	assert_int_equal(peer_join(&old).value, 1);
	kill_agent();
	fresh = peer_start(0);
	assert_int_equal(peer_join(&fresh).value, 2);
	assert_int_equal(peer_leave(&fresh), 0);
	/* It dies without ever having come. */
	peer_kill(&old);
	assert_int_equal(peer_join(&fresh).value, 1);
	peer_kill(&fresh);
	env_leave();
}

TEST(agent_client, worker_and_holder_killed_in_turn_under_traffic__nothing_is_lost)
{
	enum { N = 4, ROUNDS = 6 };
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct peer p[N], next;

	env_enter();
	start_many(p, N);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(peer_join(&p[i]).value, i + 1);
		assert_int_equal(peer_socket(&p[i], &addr), 0);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct rocemu_gid more = gid_v4(127, 0, 1, (uint8_t)(1 + round));

		for (uint32_t i = 0; i < N; i++)
			send_to_qpn(&addr, QPN(i + 1, round));
		if (round % 2)
			kill_agent();
		else
			kill_holder();
		for (uint32_t i = 0; i < N; i++) {
			assert_int_equal(peer_receive(&p[i], 0), QPN(i + 1, round));
			assert_steered(&p[i], i + 1, 0, &addr, 100 + round);
		}
		for (unsigned i = 0; i < N && round % 2; i++)
			assert_int_equal(peer_service(&p[i]), 0);
		/* And the agent can go on to make sockets and to give slots. */
		assert_int_equal(peer_socket(&p[0], &more), 0);
		assert_steered(&p[0], 1, (uint8_t)(1 + round), &more, 9);
		next = peer_start(0);
		assert_int_equal(peer_join(&next).value, N + 1);
		assert_int_equal(peer_socket(&next, &addr), 0);
		assert_steered(&next, N + 1, 0, &addr, 9);
		peer_kill(&next);
	}
	kill_many(p, N);
	env_leave();
}

/*
 * The order of the sockets is lost, which nothing survives. It must be reported, and the slots be
 * kept.
 */
TEST(agent_client,
     worker_and_holder_killed_at_once__the_next_agent_says_so_and_takes_the_slots_over)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1), later = gid_v4(127, 0, 0, 2);
	struct peer p[2], fresh;

	env_enter();
	start_many(p, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(peer_join(&p[i]).value, i + 1);
		assert_int_equal(peer_socket(&p[i], &addr), 0);
	}
	kill_both();
	assert_int_equal(peer_service(&p[1]), 0);
	assert_int_equal(peer_service(&p[0]), 0);
	fresh = peer_start(0);
	assert_int_equal(peer_join(&fresh).value, 3);
	assert_int_equal(peer_socket(&fresh, &addr), -EADDRINUSE);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(peer_socket(&p[i], &later), 0);
		assert_steered(&p[i], i + 1, 1, &later, 3);
	}
	kill_many(p, 2);
	/* The old sockets are closed. */
	assert_int_equal(peer_socket(&fresh, &addr), 0);
	assert_steered(&fresh, 3, 0, &addr, 4);
	peer_kill(&fresh);
	env_leave();
}

TEST(agent_client, socket_asked_for_when_the_agent_is_dead__next_agent_gives_it)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct peer p;

	env_enter();
	p = peer_start(0);
	assert_int_equal(peer_join(&p).value, 1);
	kill_agent();
	assert_int_equal(peer_socket(&p, &addr), 0);
	assert_steered(&p, 1, 0, &addr, 1);
	peer_kill(&p);
	env_leave();
}

TEST(agent_client, forked_child_forgets__parent_keeps_and_frees_the_slot)
{
	struct peer p, q;
	int child, fds;

	env_enter();
	p = peer_start(0);
	fds = peer_count_fds(&p);
	assert_int_equal(peer_join(&p).value, 1);
	child = peer_fork_and_forget(&p);
	assert_true(child > 0);
	q = peer_start(0);
	assert_int_equal(peer_join(&q).value, 2);
	assert_int_equal(peer_leave(&p), 0);
	assert_int_equal(peer_count_fds(&p), fds);
	/* The child lives, and holds nothing. */
	assert_int_equal(peer_join(&p).value, 1);
	kill(child, SIGKILL);
	peer_kill(&p);
	peer_kill(&q);
	env_leave();
}

static int take_port(const char *address)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(4791)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	assert_int_equal(inet_pton(AF_INET, address, &sa.sin_addr), 1);
	/* Even a socket that would share the port is not a member of the group. */
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)(void *)&sa, sizeof(sa)), 0);
	return fd;
}

TEST(agent_client, port_taken__says_which_and_what_to_do)
{
	static const char *const holders[] = {"127.0.0.1", "0.0.0.0"};
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1), other = gid_v4(127, 0, 0, 2);
	struct agent_client *c;
	char text[400];
	int fd;

	env_enter();
	assert_int_equal(agent_client_new(&c, text, sizeof(text)), 0);
	for (unsigned i = 0; i < 2; i++) {
		int taken = take_port(holders[i]);

		assert_int_equal(agent_client_socket(c, &addr, 0, text, sizeof(text)), -EADDRINUSE);
		assert_non_null(strstr(
			text, "UDP port 4791 of 127.0.0.1 is taken by another program of user"));
		assert_non_null(strstr(text, "ss -ulpn"));
		close(taken);
	}
	fd = agent_client_socket(c, &other, 0, text, sizeof(text));
	assert_true(fd >= 0);
	close(fd);
	/* Free again. */
	fd = agent_client_socket(c, &addr, 0, text, sizeof(text));
	assert_true(fd >= 0);
	close(fd);
	agent_client_free(c);
	env_leave();
}

TEST(agent_client, wildcard_multicast_or_broadcast_address__refused)
{
	const struct rocemu_gid addrs[] = {
		gid_v4(0, 0, 0, 0),	      gid_v4(224, 0, 0, 1),
		gid_v4(239, 255, 255, 250),   gid_v4(255, 255, 255, 255),
		gid_v4(127, 255, 255, 255),   {.raw = {0}},
		{.raw = {0xff, 2, [15] = 1}},
	};
	struct rocemu_gid good = gid_v4(127, 0, 0, 1);
	struct agent_client *c;
	struct agent_status *st;
	char text[400];
	int fd;

	env_enter();
	assert_int_equal(agent_client_new(&c, text, sizeof(text)), 0);
	for (unsigned i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++) {
		assert_int_equal(agent_client_socket(c, &addrs[i], 0, text, sizeof(text)),
				 -EADDRNOTAVAIL);
		assert_non_null(strstr(text, "not an address"));
	}
	assert_int_equal(agent_client_status(false, &st, text, sizeof(text)), 0);
	assert_int_equal(st->agent.naddrs, 0);
	agent_status_free(st);
	fd = agent_client_socket(c, &good, 0, text, sizeof(text));
	assert_true(fd >= 0);
	close(fd);
	agent_client_free(c);
	env_leave();
}

TEST(agent_client, foreign_address__says_so)
{
	struct rocemu_gid addr = gid_v4(192, 0, 2, 1);
	struct agent_client *c;
	char text[400];

	env_enter();
	assert_int_equal(agent_client_new(&c, text, sizeof(text)), 0);
	assert_int_equal(agent_client_socket(c, &addr, 0, text, sizeof(text)), -EADDRNOTAVAIL);
	assert_non_null(strstr(text, "192.0.2.1 is not an address of this host"));
	agent_client_free(c);
	env_leave();
}

TEST(agent_client, agent_off__slot_1_and_the_port_alone)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_client *a, *b;
	char text[400];
	int fd;

	env_enter();
	setenv("ROCEMU_AGENT", "off", 1);
	assert_int_equal(agent_client_new(&a, text, sizeof(text)), 0);
	assert_int_equal(agent_client_new(&b, text, sizeof(text)), 0);
	assert_int_equal(agent_client_slot(a), 1);
	assert_int_equal(agent_client_fd(a), -ENOENT);
	assert_int_equal(agent_client_service(a), 0);
	fd = agent_client_socket(a, &addr, 0, text, sizeof(text));
	assert_true(fd >= 0);
	assert_int_equal(agent_client_socket(b, &addr, 0, text, sizeof(text)), -EADDRINUSE);
	assert_non_null(strstr(text, "127.0.0.1"));
	close(fd);
	agent_client_free(a);
	agent_client_free(b);
	assert_int_equal(agent_pid(), 0);
	unsetenv("ROCEMU_AGENT");
}

TEST(agent_client, wrong_environment__refused_with_what_was_expected)
{
	struct agent_client *c;
	char text[400];

	env_enter();
	setenv("ROCEMU_AGENT", "perhaps", 1);
	assert_int_equal(agent_client_new(&c, text, sizeof(text)), -EINVAL);
	assert_string_equal(text, "ROCEMU_AGENT is 'perhaps': expected 'on' or 'off'");
	unsetenv("ROCEMU_AGENT");
	setenv("ROCEMU_AGENT_NAME", "a:b", 1);
	assert_int_equal(agent_client_new(&c, text, sizeof(text)), -EINVAL);
	assert_non_null(strstr(text, "ROCEMU_AGENT_NAME"));
	unsetenv("ROCEMU_AGENT_NAME");
}
