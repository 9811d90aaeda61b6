/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "netns.h"
#include "test.h"
#include "user.h"

enum { PATIENCE_MS = 10000 };

struct command {
	char what;
	uint8_t index;
	struct rocemu_gid addr;
};

void env_enter(void)
{
	static unsigned count;
	char name[33];

	netns_enter();
	snprintf(name, sizeof(name), "test-%d-%u", (int)getpid(), count++);
	setenv("ROCEMU_AGENT_NAME", name, 1);
	setenv("ROCEMU_AGENT_BIN", AGENT_BIN, 1);
	unsetenv("ROCEMU_AGENT");
}

void env_leave(void)
{
	pid_t pid = agent_pid(), holder = agent_holder();

	if (pid) {
		kill(pid, SIGTERM);
		wait_gone(pid);
		wait_gone(holder);
	}
}

struct rocemu_gid gid_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct rocemu_gid){
		.raw = {[10] = 0xff, [11] = 0xff, [12] = a, [13] = b, [14] = c, [15] = d}};
}

struct rocemu_gid gid_v6_loopback(void)
{
	return (struct rocemu_gid){.raw = {[15] = 1}};
}

static pid_t query_pid(bool holder)
{
	struct agent_status *st;
	char text[400];
	pid_t pid;

	if (agent_client_status(false, &st, text, sizeof(text)))
		return 0;
	pid = (pid_t)(holder ? st->agent.holder : st->agent.pid);
	agent_status_free(st);
	return pid;
}

pid_t agent_pid(void)
{
	return query_pid(false);
}

pid_t agent_holder(void)
{
	return query_pid(true);
}

void wait_gone(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	if (fd < 0) {
		assert_int_equal(errno, ESRCH);
		return;
	}
	assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
	close(fd);
}

void kill_agent(void)
{
	pid_t pid = agent_pid();

	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	wait_gone(pid);
}

void kill_holder(void)
{
	pid_t pid = agent_holder();

	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	wait_gone(pid);
	/* The worker answers in order: by its second answer it has seen that the holder is gone. */
	for (unsigned i = 0; i < 2; i++)
		assert_true(agent_pid() > 0);
	assert_int_not_equal(agent_holder(), pid);
	assert_int_not_equal(agent_holder(), 0);
}

void kill_both(void)
{
	pid_t holder = agent_holder(), worker = agent_pid();

	assert_true(holder > 0 && worker > 0);
	/* Stopped, so that none of them sees the other die. */
	assert_int_equal(kill(holder, SIGSTOP), 0);
	assert_int_equal(kill(worker, SIGKILL), 0);
	assert_int_equal(kill(holder, SIGKILL), 0);
	wait_gone(worker);
	wait_gone(holder);
}

static uint32_t receive(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	uint8_t buf[64];

	if (poll(&pfd, 1, PATIENCE_MS) != 1 || recv(fd, buf, sizeof(buf), 0) < 8)
		return ~0u;
	return get_be32(buf + 4) & 0xffffff;
}

static int fork_and_forget(struct agent_client *c, int ctl)
{
	int done[2];
	char byte;
	pid_t pid;

	if (pipe2(done, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		agent_client_forget(c);
		agent_client_free(c);
		close(ctl);
		if (write(done[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	close(done[1]);
	if (read(done[0], &byte, 1) != 1)
		pid = -1;
	close(done[0]);
	return (int)pid;
}

/* The client process: obey until the other end of ctl is closed. */
static void peer_main(int ctl)
{
	struct agent_client *client = NULL;
	int fds[16], nfds = 0;
	struct command cmd;

	while (read(ctl, &cmd, sizeof(cmd)) == sizeof(cmd)) {
		struct peer_reply re = {0};
		struct pollfd pfd;

		switch (cmd.what) {
		case 'j':
			re.r = agent_client_new(&client, re.text, sizeof(re.text));
			if (!re.r) {
				re.value = agent_client_slot(client);
				re.first_index = agent_client_first_index(client);
			}
			break;
		case 'l':
			agent_client_free(client);
			client = NULL;
			while (nfds)
				close(fds[--nfds]);
			break;
		case 's':
			re.r = agent_client_socket(client, &cmd.addr, 0, re.text, sizeof(re.text));
			if (re.r >= 0 && nfds < 16) {
				fds[nfds++] = re.r;
				re.r = 0;
			}
			break;
		case 'r':
			re.value = receive(fds[cmd.index]);
			break;
		case 'v':
			pfd = (struct pollfd){.fd = agent_client_fd(client), .events = POLLIN};
			re.r = poll(&pfd, 1, PATIENCE_MS) == 1 ? 0 : -ETIME;
			close(pfd.fd);
			if (!re.r)
				re.r = agent_client_service(client);
			break;
		case 'V':
			re.r = agent_client_service(client);
			break;
		case 'f':
			re.r = fork_and_forget(client, ctl);
			break;
		case 'c':
			re.r = count_fds(getpid());
			break;
		default:
			_exit(3);
		}
		if (write(ctl, &re, sizeof(re)) != sizeof(re))
			break;
	}
}

struct peer peer_spawn(uid_t uid, void (*run)(int ctl))
{
	struct peer p;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	p.pid = fork();
	assert_true(p.pid >= 0);
	if (p.pid == 0) {
		close(pair[0]);
		if (uid && user_become(uid))
			_exit(4);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	p.ctl = pair[0];
	return p;
}

struct peer peer_start(uid_t uid)
{
	return peer_spawn(uid, peer_main);
}

void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	close(p->ctl);
}

static void peer_send(struct peer *p, struct command cmd)
{
	assert_int_equal(write(p->ctl, &cmd, sizeof(cmd)), sizeof(cmd));
}

struct peer_reply peer_reply(struct peer *p)
{
	struct peer_reply re;
	struct pollfd pfd = {.fd = p->ctl, .events = POLLIN};

	assert_int_equal(poll(&pfd, 1, 3 * PATIENCE_MS), 1);
	assert_int_equal(read(p->ctl, &re, sizeof(re)), sizeof(re));
	return re;
}

static struct peer_reply peer_do(struct peer *p, struct command cmd)
{
	peer_send(p, cmd);
	return peer_reply(p);
}

void peer_send_join(struct peer *p)
{
	peer_send(p, (struct command){.what = 'j'});
}

void peer_send_socket(struct peer *p, const struct rocemu_gid *addr)
{
	peer_send(p, (struct command){.what = 's', .addr = *addr});
}

struct peer_reply peer_join(struct peer *p)
{
	return peer_do(p, (struct command){.what = 'j'});
}

int peer_leave(struct peer *p)
{
	return peer_do(p, (struct command){.what = 'l'}).r;
}

int peer_socket(struct peer *p, const struct rocemu_gid *addr)
{
	return peer_do(p, (struct command){.what = 's', .addr = *addr}).r;
}

uint32_t peer_receive(struct peer *p, uint8_t i)
{
	return peer_do(p, (struct command){.what = 'r', .index = i}).value;
}

int peer_service(struct peer *p)
{
	return peer_do(p, (struct command){.what = 'v'}).r;
}

int peer_service_now(struct peer *p)
{
	return peer_do(p, (struct command){.what = 'V'}).r;
}

int peer_fork_and_forget(struct peer *p)
{
	return peer_do(p, (struct command){.what = 'f'}).r;
}

int peer_count_fds(struct peer *p)
{
	return peer_do(p, (struct command){.what = 'c'}).r;
}

void send_to_qpn(const struct rocemu_gid *addr, uint32_t qpn)
{
	bool v6 = addr->raw[10] != 0xff;
	struct sockaddr_in v4sa = {.sin_family = AF_INET, .sin_port = htons(4791)};
	struct sockaddr_in6 v6sa = {.sin6_family = AF_INET6, .sin6_port = htons(4791)};
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint8_t packet[16] = {0};
	ssize_t n;

	assert_true(fd >= 0);
	put_be32(packet + 4, 0xff000000 | qpn); /* the reserved byte set: it must not matter */
	memcpy(&v4sa.sin_addr, addr->raw + 12, 4);
	memcpy(&v6sa.sin6_addr, addr->raw, 16);
	if (v6)
		n = sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)(void *)&v6sa,
			   sizeof(v6sa));
	else
		n = sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)(void *)&v4sa,
			   sizeof(v4sa));
	assert_int_equal(n, sizeof(packet));
	close(fd);
}

int count_fds(pid_t pid)
{
	char path[64];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	if (!d)
		return -errno;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
