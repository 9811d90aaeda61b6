/* SPDX-License-Identifier: BSD-2-Clause */
/* An agent that is started with its listening socket, as systemd does it. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/launch.h"
#include "peer.h"
#include "test.h"
#include "user.h"
#include "users.h"

/* The PID in LISTEN_PID. */
enum { NO_PID, OWN_PID, OTHER_PID };

static int local_socket(int type, bool system, const char *suffix, bool listens)
{
	struct agent_instance instance;
	struct sockaddr_un sa;
	socklen_t len;
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	assert_int_equal(agent_instance_init(&instance, system), 0);
	len = agent_instance_addr(&instance, suffix, &sa);
	assert_int_equal(bind(fd, (struct sockaddr *)(void *)&sa, len), 0);
	if (listens)
		assert_int_equal(listen(fd, 16), 0);
	return fd;
}

/* Start an agent with fd as descriptor 3. `said`: its standard error, or NULL. */
static pid_t start(int fd, int whose, const char *count, bool system, uid_t uid, FILE **said)
{
	int out[2];
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char text[16];

		snprintf(text, sizeof(text), "%d", whose == OWN_PID ? (int)getpid() : 1);
		if (whose != NO_PID)
			setenv("LISTEN_PID", text, 1);
		if (count)
			setenv("LISTEN_FDS", count, 1);
		if (said)
			dup2(out[1], STDERR_FILENO);
		if (fd == 3)
			(void)fcntl(3, F_SETFD, 0);
		else
			dup2(fd, 3);
		if (uid && user_become(uid))
			_exit(9);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(AGENT_BIN, AGENT_BIN, "--foreground", "--idle-timeout", "0.05",
		      system ? "--system" : NULL, NULL);
		_exit(8);
	}
	close(out[1]);
	if (said)
		*said = fdopen(out[0], "r");
	else
		close(out[0]);
	return pid;
}

static int exit_code(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* It leaves by itself when its only client has left; the listener stays. */
static void serve_once(int listener, bool system, uid_t uid)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct pollfd waits = {.fd = listener, .events = POLLIN};
	struct peer client = peer_start(0);
	pid_t agent;

	/* There is no agent yet: the connection waits for one. An agent without clients leaves
	 * soon. */
	peer_send_join(&client);
	assert_int_equal(poll(&waits, 1, 20000), 1);
	agent = start(listener, OWN_PID, "1", system, uid, NULL);
	assert_int_equal(peer_reply(&client).value, 1);
	assert_int_equal(peer_socket(&client, &addr), 0);
	send_to_qpn(&addr, 1 << 14 | 5);
	assert_int_equal(peer_receive(&client, 0), 1 << 14 | 5);
	assert_int_equal(peer_leave(&client), 0);
	peer_kill(&client);
	assert_int_equal(exit_code(agent), 0);
}

TEST(passed, listener__agents_come_and_go_and_clients_do_not_notice)
{
	int fd;

	env_enter();
	fd = local_socket(SOCK_SEQPACKET, false, "", true);
	serve_once(fd, false, 0);
	serve_once(fd, false, 0);
	close(fd);
}

TEST(passed, listener_made_by_root__an_agent_without_privileges_serves_all_users)
{
	int fd;

	need_users(AGENT_BIN);
	fd = local_socket(SOCK_SEQPACKET, true, "", true);
	serve_once(fd, true, ANN);
	serve_once(fd, true, ANN);
	close(fd);
}

/* The agent does not start. @return its message. */
static const char *refusal(int fd, const char *count, bool system, uid_t uid)
{
	static char line[512];
	FILE *said;
	pid_t pid = start(fd, OWN_PID, count, system, uid, &said);

	*line = '\0';
	(void)!fgets(line, sizeof(line), said);
	fclose(said);
	assert_int_equal(exit_code(pid), 1);
	close(fd);
	return line;
}

#define REFUSED(why, ...) assert_non_null(strstr(refusal(__VA_ARGS__), why))

TEST(passed, another_kind_of_descriptor__refused)
{
	env_enter();
	REFUSED("no listening", open("/dev/null", O_RDWR | O_CLOEXEC), "1", false, 0);
	REFUSED("no listening", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "1", false, 0);
	REFUSED("no listening", local_socket(SOCK_STREAM, false, "", true), "1", false, 0);
	REFUSED("no listening", local_socket(SOCK_DGRAM, false, "", false), "1", false, 0);
	REFUSED("no listening", local_socket(SOCK_SEQPACKET, false, "", false), "1", false, 0);
	REFUSED("another name", local_socket(SOCK_SEQPACKET, false, "+0", true), "1", false, 0);
	REFUSED("another name", local_socket(SOCK_SEQPACKET, true, "", true), "1", false, 0);
	assert_int_equal(agent_pid(), 0);
}

TEST(passed, wrong_number_of_descriptors__refused)
{
	static const char *const counts[] = {"2", "", "1 ", " 1", "+1", "-1", "01x", "4294967297"};

	env_enter();
	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		REFUSED("is not one", local_socket(SOCK_SEQPACKET, false, "", true), counts[i],
			false, 0);
}

TEST(passed, variables_for_another_process__not_looked_at)
{
	static const struct {
		int whose;
		const char *count;
	} cases[] = {{OTHER_PID, "1"}, {NO_PID, "1"}, {OWN_PID, NULL}, {OWN_PID, "0"}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		env_enter();
		/* It listens itself, and exits because no client comes. */
		assert_int_equal(
			exit_code(start(fd, cases[i].whose, cases[i].count, false, 0, NULL)), 0);
		close(fd);
	}
}

TEST(passed, listener_of_another_user__refused)
{
	int fd;

	need_users(AGENT_BIN);
	user_act_as(ANN);
	fd = local_socket(SOCK_SEQPACKET, true, "", true);
	user_return();
	REFUSED("made by user", fd, "1", true, 0);
	/* No socket is passed: then it needs root. */
	REFUSED("only root", open("/dev/null", O_RDWR | O_CLOEXEC), "0", true, ANN);
}

TEST(passed, an_agent_runs_under_another_name__refused)
{
	int fd;

	need_users(NULL);
	user_act_as(ANN);
	fd = local_socket(SOCK_SEQPACKET, true, "", true);
	user_return();
	run_system();
	close(fd);
	REFUSED("another agent runs", local_socket(SOCK_SEQPACKET, true, "", true), "1", true, 0);
	stop_system();
}
