/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usage: sock-echo fork|one PORT [SERVER]
 *
 * Plain sockets, for rdma-core's preload library: a server that answers two connections, each in a
 * process of its own or all in one, and a client that has two. Exit code 0: what was sent has come
 * back.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 2, BYTES = 100000, PART = 20000 };

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int echo(int fd)
{
	static char buf[4096];
	ssize_t n, done, sent;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (done = 0; done < n; done += sent) {
			sent = send(fd, buf + done, (size_t)(n - done), 0);
			if (sent < 0)
				return fail("send");
		}
	}
	return n < 0 ? fail("recv") : close(fd);
}

static int answer(int conn, int forks)
{
	pid_t pid;
	int status;

	if (!forks)
		return echo(conn);
	pid = fork();
	if (pid < 0)
		return fail("fork");
	if (pid == 0)
		_exit(echo(conn));
	close(conn);
	if (waitpid(pid, &status, 0) != pid)
		return fail("waitpid");
	return status ? 1 : 0;
}

static int serve(int fd, const struct sockaddr_in *at, int forks)
{
	int conn, ret = 0;

	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) || listen(fd, 4))
		return fail("listen");
	for (int i = 0; i < CONNECTIONS && ret == 0; i++) {
		conn = accept(fd, NULL, NULL);
		ret = conn < 0 ? fail("accept") : answer(conn, forks);
	}
	close(fd);
	return ret;
}

static int ask(const struct sockaddr_in *at)
{
	static char out[BYTES], in[BYTES];
	ssize_t n, done = 0;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	for (size_t i = 0; i < BYTES; i++)
		out[i] = (char)(i * 31 >> 3);
	if (fd < 0 || connect(fd, (const struct sockaddr *)at, sizeof(*at)))
		return fail("connect");
	for (ssize_t sent = 0; sent < BYTES; sent += n) {
		n = send(fd, out + sent, BYTES - sent < PART ? (size_t)(BYTES - sent) : PART, 0);
		if (n < 0)
			return fail("send");
		for (ssize_t got; done < sent + n; done += got) {
			got = recv(fd, in + done, (size_t)(sent + n - done), 0);
			if (got <= 0)
				return fail("recv");
		}
	}
	close(fd);
	if (memcmp(out, in, BYTES) != 0) {
		fprintf(stderr, "other bytes came back\n");
		return 1;
	}
	puts("all came back");
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	int fd;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: sock-echo fork|one PORT [SERVER]\n");
		return 2;
	}
	at.sin_port = htons((in_port_t)atoi(argv[2]));
	if (argc == 4) {
		at.sin_addr.s_addr = inet_addr(argv[3]);
		return ask(&at) || ask(&at);
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd < 0 ? fail("socket") : serve(fd, &at, argv[1][0] == 'f');
}
