/* SPDX-License-Identifier: BSD-2-Clause */
#include "users.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/launch.h"
#include "peer.h"
#include "test.h"
#include "user.h"

static pid_t holder; /* of the system-wide agent of the test */

void need_users(const char *program)
{
	struct rlimit rl;

	user_need(ANN, program);
	user_need(BOB, program);
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

void run_system(void)
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

void start_system(void)
{
	need_users(NULL);
	run_system();
}

void stop_system(void)
{
	int status;

	kill(holder, SIGTERM);
	wait_gone(holder);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_int_equal(status, 0);
}

struct agent_client *join(void)
{
	struct agent_client *c;
	char text[400];

	if (agent_client_new(&c, text, sizeof(text)))
		fail_msg("%s", text);
	return c;
}

/* A connection to the agent as another user. The calling process keeps its user. */
int connect_as(uid_t uid, bool system)
{
	struct agent_instance instance;
	int fd;

	assert_int_equal(agent_instance_init(&instance, system), 0);
	user_act_as(uid);
	fd = agent_connect(&instance, 10000);
	user_return();
	assert_true(fd >= 0);
	return fd;
}

/* Send, and take the answer. @return an error's errno, or 0. */
int ask(int fd, const struct agent_msg *m, struct agent_msg *answer)
{
	assert_int_equal(agent_msg_send(fd, m, 0), 0);
	assert_int_equal(agent_msg_recv(fd, answer, 0), 0);
	return answer->type == AGENT_ERROR ? (int)answer->u.error.err : 0;
}

int hello(int fd, enum agent_kind kind, struct agent_msg *answer)
{
	struct agent_msg m = {.type = AGENT_HELLO, .u.hello = {kind}};

	return ask(fd, &m, answer);
}

/* A user's slot and its socket, used by hand. @return the socket. */
int take_socket(int fd, const struct rocemu_gid *addr)
{
	struct agent_msg m = {.type = AGENT_SOCKET, .u.socket = {*addr, 0, 0}}, answer;

	assert_int_equal(ask(fd, &m, &answer), 0);
	return answer.fds[0];
}

void expect_service(unsigned slot)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct peer p = peer_start(0);

	assert_int_equal(peer_join(&p).value, slot);
	assert_int_equal(peer_socket(&p, &addr), 0);
	send_to_qpn(&addr, QPN(slot, 1));
	assert_int_equal(peer_receive(&p, 0), QPN(slot, 1));
	peer_kill(&p);
}
