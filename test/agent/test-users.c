/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several users of one machine: what one of them may do to the others, with a system-wide agent and
 * beside the agent of one user. Needs root, to be several users.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/give.h"
#include "agent/group.h"
#include "agent/launch.h"
#include "base/bytes.h"
#include "peer.h"
#include "test.h"

enum { ANN = 65534, BOB = 65533 };

#define QPN(slot, index) ((uint32_t)(slot) << 14 | (index))

static pid_t holder; /* of the system-wide agent of the test */

static void need_users(void)
{
	struct rlimit rl;

	if (geteuid() != 0) {
		print_message("skipped: needs root, to be several users\n");
		skip();
	}
	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_max < 8192) {
		print_message("skipped: the hard limit of open files is below 8192\n");
		skip();
	}
	rl.rlim_cur = rl.rlim_max < 65536 ? rl.rlim_max : 65536;
	setrlimit(RLIMIT_NOFILE, &rl);
	env_enter();
}

static bool is_up(bool system)
{
	struct agent_status *st;
	char text[400];

	if (agent_client_status(system, &st, text, sizeof(text)))
		return false;
	agent_status_free(st);
	return true;
}

static void run_system(void)
{
	holder = fork();
	assert_true(holder >= 0);
	if (holder == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(AGENT_BIN, AGENT_BIN, "--foreground", "--system", NULL);
		_exit(8);
	}
	while (!is_up(true)) {
		assert_int_equal(waitpid(holder, NULL, WNOHANG), 0);
		poll(NULL, 0, 1);
	}
}

static void start_system(void)
{
	need_users();
	run_system();
}

static void stop_system(void)
{
	int status;

	kill(holder, SIGTERM);
	wait_gone(holder);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_int_equal(status, 0);
}

static unsigned addresses(void)
{
	struct agent_status *st;
	char text[400];
	unsigned n;

	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	n = (unsigned)st->naddrs;
	agent_status_free(st);
	return n;
}

static struct agent_client *join(void)
{
	struct agent_client *c;
	char text[400];

	if (agent_client_new(&c, text, sizeof(text)))
		fail_msg("%s", text);
	return c;
}

/* A connection to the agent, as somebody else's. The calling process goes on as it was. */
static int connect_as(uid_t uid, bool system)
{
	struct agent_realm realm;
	int fd;

	assert_int_equal(agent_realm_init(&realm, system), 0);
	assert_int_equal(seteuid(uid), 0);
	fd = agent_connect(&realm, 10000);
	assert_int_equal(seteuid(0), 0);
	assert_true(fd >= 0);
	return fd;
}

/* Send, and take the answer. @return an error's errno, or 0. */
static int ask(int fd, const struct agent_msg *m, struct agent_msg *answer)
{
	assert_int_equal(agent_msg_send(fd, m, 0), 0);
	assert_int_equal(agent_msg_recv(fd, answer, 0), 0);
	return answer->type == AGENT_ERROR ? (int)answer->u.error.err : 0;
}

static int hello(int fd, enum agent_kind kind, struct agent_msg *answer)
{
	struct agent_msg m = {.type = AGENT_HELLO, .u.hello = {kind}};

	return ask(fd, &m, answer);
}

/* A user's slot and its socket, used by hand. @return the socket. */
static int take_socket(int fd, const struct rocemu_gid *addr)
{
	struct agent_msg m = {.type = AGENT_SOCKET, .u.socket = {*addr, 0, 0}}, answer;

	assert_int_equal(ask(fd, &m, &answer), 0);
	return answer.fds[0];
}

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
	assert_int_equal(ask(ann, &m, &answer), ENOENT); /* it has not asked for it */
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
	assert_int_equal(seteuid(BOB), 0);
	assert_int_equal(setsockopt(bob_fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &off, sizeof(off)),
			 0);
	assert_int_equal(setsockopt(bob_fd, SOL_SOCKET, SO_DETACH_FILTER, &off, sizeof(off)), -1);
	assert_int_equal(seteuid(0), 0);
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
	struct agent_realm realm;
	struct sockaddr_un sa;
	int ann, bob, status;
	socklen_t len;
	pid_t pid;

	start_system();
	ann = connect_as(ANN, true);
	bob = connect_as(BOB, true);
	assert_int_equal(hello(ann, AGENT_LANE, &welcome), 0);
	assert_int_equal(welcome.u.welcome.place, 1);
	assert_int_equal(agent_realm_init(&realm, true), 0);
	len = agent_realm_addr(&realm, "", &sa);
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

/* ---- names ---- */

/* Another user's program that has a name. */
struct squatter {
	int fds[3];
	unsigned n;
};

/* queue: how many may wait to be accepted, which nobody is; -1: does not listen. */
static void squat(struct squatter *s, bool system, const char *suffix, int queue)
{
	struct agent_realm realm;
	struct sockaddr_un sa;
	socklen_t len;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(agent_realm_init(&realm, system), 0);
	len = agent_realm_addr(&realm, suffix, &sa);
	assert_int_equal(seteuid(ANN), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)(void *)&sa, len), 0);
	if (queue >= 0)
		assert_int_equal(listen(fd, queue), 0);
	assert_int_equal(seteuid(0), 0);
	s->fds[s->n++] = fd;
}

static void release(struct squatter *s)
{
	while (s->n)
		close(s->fds[--s->n]);
}

static void expect_service(unsigned slot)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct peer p = peer_start(0);

	assert_int_equal(peer_join(&p).value, slot);
	assert_int_equal(peer_socket(&p, &addr), 0);
	send_to_qpn(&addr, QPN(slot, 1));
	assert_int_equal(peer_receive(&p, 0), QPN(slot, 1));
	peer_kill(&p);
}

TEST(users, names_of_the_agent_taken_by_another_user__the_agent_is_found_by_another_name)
{
	struct squatter s = {0};
	struct agent_client *c, *d;
	pid_t pid;

	need_users();
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

	need_users();
	squat(&s, false, "", -1);
	expect_service(1);
	release(&s);
	env_leave();
}

/* It accepts nobody, and so many have connected that it cannot be connected to. */
TEST(users, name_taken_and_its_queue_full__the_agent_is_found_by_another_name)
{
	struct squatter s = {0};
	struct agent_realm realm;
	struct sockaddr_un sa;
	int fds[64];
	unsigned n = 0;
	socklen_t len;

	need_users();
	squat(&s, false, "", 1);
	assert_int_equal(agent_realm_init(&realm, false), 0);
	len = agent_realm_addr(&realm, "", &sa);
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

	need_users();
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

	need_users();
	squat(&s, false, "", 1000);
	for (unsigned i = 0; i < N; i++)
		p[i] = peer_start(0);
	for (unsigned i = 0; i < N; i++)
		peer_send_join(&p[i]);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(peer_reply(&p[i]).r, 0);
	assert_int_equal(agent_client_status(false, &st, text, sizeof(text)), 0);
	assert_int_equal(st->nclients, N);
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

	need_users();
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

/* ---- how much one user may have ---- */

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

	need_users();
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
	for (uint8_t i = 0; i < QUOTA_ADDRS; i++) {
		struct rocemu_gid addr = gid_v4(127, 0, 2, (uint8_t)(i + 1));

		close(take_socket(ann, &addr));
	}
	m.u.socket.addr = gid_v4(127, 0, 2, 200);
	assert_int_equal(ask(ann, &m, &answer), ENOSPC);
	assert_non_null(strstr(answer.u.error.text, "32 addresses"));
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
	for (uint32_t i = 0; i <= QUOTA_BINDS; i++) {
		m.u.gsi_bind.key = i;
		m.u.gsi_bind.bind = (struct agent_gsi_bind){.service_id = 0x100000000u + i};
		assert_int_equal(ask(fds[0], &m, &answer), i < QUOTA_BINDS ? 0 : ENOBUFS);
	}
	assert_int_equal(ask(fds[1], &m, &answer), 0);
	for (unsigned i = 0; i < 2; i++) {
		agent_msg_close_fds(&welcome[i]);
		close(fds[i]);
	}
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
			struct rocemu_gid addr = gid_v4(127, 1, (uint8_t)user, (uint8_t)(i + 1));

			close(take_socket(fd, &addr));
		}
		agent_msg_close_fds(&welcome);
		close(fd);
	}
	expect_service(GROUPS_MAX / QUOTA_ADDRS + 1);
	assert_in_range(addresses(), 1, GROUPS_MAX - 1);
	stop_system();
}
