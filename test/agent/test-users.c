/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one user may do to the others, with a system-wide agent and beside the agent of one user:
 * sockets and tokens.
 */
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"
#include "test.h"
#include "user.h"
#include "users.h"

/* ---- what one user had ---- */

TEST(users, slot_of_another_user__kept_copy_of_its_socket_receives_nothing)
{
	static struct agent_client *others[AGENT_SLOTS];
	struct rocemu_gid addr[2] = {gid_v4(127, 0, 0, 1), gid_v6_loopback()};
	struct peer bob;
	struct agent_msg welcome;
	uint8_t packet[64];
	int fd, copy[2];

	start_system();
	fd = connect_as(ANN, true);
	assert_int_equal(hello(fd, AGENT_LANE, &welcome), 0);
	assert_int_equal(welcome.u.welcome.place, 1);
	for (unsigned a = 0; a < 2; a++)
		copy[a] = take_socket(fd, &addr[a]);
	send_to_qpn(&addr[0], QPN(1, 5));
	assert_int_equal(recv(copy[0], packet, sizeof(packet), 0), 16);
	/* All others have had an owner when Ann goes: the next one can only have hers. */
	for (unsigned i = 2; i < AGENT_SLOTS; i++)
		others[i] = join();
	agent_msg_close_fds(&welcome);
	close(fd);
	bob = peer_start(BOB);
	assert_int_equal(peer_join(&bob).value, 1);
	for (uint8_t a = 0; a < 2; a++) {
		assert_int_equal(peer_socket(&bob, &addr[a]), 0);
		for (unsigned i = 0; i < 40; i++)
			send_to_qpn(&addr[a], QPN(1, i));
		assert_int_equal(recv(copy[a], packet, sizeof(packet), MSG_DONTWAIT), -1);
		for (unsigned i = 0; i < 40; i++)
			assert_int_equal(peer_receive(&bob, a), QPN(1, i));
		close(copy[a]);
	}
	peer_kill(&bob);
	for (unsigned i = 2; i < AGENT_SLOTS; i++)
		agent_client_free(others[i]);
	stop_system();
}

/* One that the user took at an earlier time, and not at the last. */
TEST(users, slot_of_another_user__copy_kept_from_an_earlier_time_receives_nothing)
{
	static struct agent_client *others[AGENT_SLOTS];
	const struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_msg welcome;
	uint8_t packet[64];
	int fd, copy = -1, bobs;

	start_system();
	for (unsigned time = 0; time < 2; time++) {
		fd = connect_as(ANN, true);
		assert_int_equal(hello(fd, AGENT_LANE, &welcome), 0);
		assert_int_equal(welcome.u.welcome.place, 1);
		if (time == 0)
			copy = take_socket(fd, &addr);
		for (unsigned i = 2; time == 0 && i < AGENT_SLOTS; i++)
			others[i] = join();
		agent_msg_close_fds(&welcome);
		close(fd);
	}
	fd = connect_as(BOB, true);
	assert_int_equal(hello(fd, AGENT_LANE, &welcome), 0);
	assert_int_equal(welcome.u.welcome.place, 1);
	bobs = take_socket(fd, &addr);
	send_to_qpn(&addr, QPN(1, 5));
	assert_int_equal(recv(copy, packet, sizeof(packet), MSG_DONTWAIT), -1);
	assert_int_equal(recv(bobs, packet, sizeof(packet), MSG_DONTWAIT), 16);
	agent_msg_close_fds(&welcome);
	close(copy);
	close(bobs);
	close(fd);
	for (unsigned i = 2; i < AGENT_SLOTS; i++)
		agent_client_free(others[i]);
	stop_system();
}

TEST(users, freed_slot__goes_to_its_user_again_and_not_to_others)
{
	struct peer ann, bob;

	start_system();
	ann = peer_start(ANN);
	bob = peer_start(BOB);
	assert_int_equal(peer_join(&ann).value, 1);
	assert_int_equal(peer_leave(&ann), 0);
	assert_int_equal(peer_join(&bob).value, 2);
	assert_int_equal(peer_join(&ann).value, 1);
	peer_kill(&ann);
	peer_kill(&bob);
	stop_system();
}

TEST(users, socket_of_another_users_slot__not_to_be_looked_at)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_msg m = {.type = AGENT_PEER, .u.socket = {addr, 0, 1}}, answer, welcome;
	int ann, bob;

	start_system();
	ann = connect_as(ANN, true);
	bob = connect_as(BOB, true);
	assert_int_equal(hello(ann, AGENT_LANE, &welcome), 0);
	assert_int_equal(welcome.u.welcome.place, 1);
	assert_int_equal(ask(ann, &m, &answer), ENOENT); /* it has not requested it */
	close(take_socket(ann, &addr));
	assert_int_equal(ask(bob, &m, &answer), EPERM);
	assert_int_equal(ask(ann, &m, &answer), 0);
	agent_msg_close_fds(&answer);
	agent_msg_close_fds(&welcome);
	close(ann);
	close(bob);
	stop_system();
}

/* What steers packets is the group's; a member may change that, and gets nothing by it. */
TEST(users, steering_changed_by_a_client__it_receives_nothing_of_others)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_msg ann_welcome, bob_welcome;
	uint8_t packet[64];
	int ann, bob, ann_fd, bob_fd, off = 0;

	start_system();
	ann = connect_as(ANN, true);
	bob = connect_as(BOB, true);
	assert_int_equal(hello(ann, AGENT_LANE, &ann_welcome), 0);
	assert_int_equal(hello(bob, AGENT_LANE, &bob_welcome), 0);
	ann_fd = take_socket(ann, &addr);
	bob_fd = take_socket(bob, &addr);
	/* Back to choosing by a hash: packets for Ann's slot go anywhere. */
	user_act_as(BOB);
	assert_int_equal(setsockopt(bob_fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &off, sizeof(off)),
			 0);
	assert_int_equal(setsockopt(bob_fd, SOL_SOCKET, SO_DETACH_FILTER, &off, sizeof(off)), -1);
	user_return();
	for (unsigned i = 0; i < 200; i++)
		send_to_qpn(&addr, QPN(ann_welcome.u.welcome.place, i));
	assert_int_equal(recv(bob_fd, packet, sizeof(packet), MSG_DONTWAIT), -1);
	close(ann_fd);
	close(bob_fd);
	agent_msg_close_fds(&ann_welcome);
	agent_msg_close_fds(&bob_welcome);
	close(ann);
	close(bob);
	stop_system();
}

/* ---- tokens ---- */

TEST(users, place_claimed_with_what_was_made_in_another_namespace__refused)
{
	struct agent_msg m = {.type = AGENT_REJOIN, .u.rejoin = {AGENT_LANE, 1, 1}}, welcome,
			 answer;
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct agent_instance instance;
	struct sockaddr_un sa;
	int ann, bob, status;
	socklen_t len;
	pid_t pid;

	start_system();
	ann = connect_as(ANN, true);
	bob = connect_as(BOB, true);
	assert_int_equal(hello(ann, AGENT_LANE, &welcome), 0);
	assert_int_equal(welcome.u.welcome.place, 1);
	assert_int_equal(agent_instance_init(&instance, true), 0);
	len = agent_instance_addr(&instance, "", &sa);
	pid = fork();
	if (pid == 0) {
		int forged;

		/* Names are free in a new namespace; the connection is one of the old. */
		if (unshare(CLONE_NEWNET))
			_exit(1);
		forged = socket(AF_UNIX, SOCK_STREAM, 0);
		if (bind(forged, (struct sockaddr *)(void *)&sa, len))
			_exit(2);
		for (uint64_t i = 0; i < 64; i++) {
			m.u.rejoin.nonce = 1ull << i;
			if (agent_msg_send(bob, &m, 0) || agent_msg_recv(bob, &answer, 0) ||
			    answer.type != AGENT_ERROR)
				_exit(3);
		}
		/* A descriptor has no business here at all. */
		m.nfds = 1;
		m.fds[0] = forged;
		if (agent_msg_send(bob, &m, 0) || agent_msg_recv(bob, &answer, 0) ||
		    answer.type != AGENT_ERROR)
			_exit(4);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(take_socket(ann, &addr));
	agent_msg_close_fds(&welcome);
	close(ann);
	close(bob);
	stop_system();
}
