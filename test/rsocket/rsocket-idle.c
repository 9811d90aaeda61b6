/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usage: rsocket-idle PORT [SERVER]
 *
 * Two of them connect, exchange a message, are idle for long enough that both sides' keepalive
 * probes three times, and exchange another. The other end may use another librdmacm. Exit code 0:
 * all messages came.
 */
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <string.h>

enum { IDLE_S = 1, SILENCE_MS = 3500 };

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int talk(int fd)
{
	const int on = 1, idle = IDLE_S;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char word[4];

	if (rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) ||
	    rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)))
		return fail("rsetsockopt");
	for (int i = 0; i < 2; i++) {
		if (rsend(fd, i ? "last" : "word", 4, 0) != 4)
			return fail("rsend");
		if (rrecv(fd, word, sizeof(word), MSG_WAITALL) != 4)
			return fail("rrecv");
		if (memcmp(word, i ? "last" : "word", 4) != 0) {
			fprintf(stderr, "got %.4s\n", word);
			return 1;
		}
		/* The other end is silent for as long. */
		if (i == 0 && rpoll(&p, 1, SILENCE_MS) < 0)
			return fail("rpoll");
	}
	puts("both words came");
	return rclose(fd) ? fail("rclose") : 0;
}

static int connect_to(const struct addrinfo *at)
{
	int fd = rsocket(at->ai_family, SOCK_STREAM, 0);

	if (fd < 0 || rconnect(fd, at->ai_addr, at->ai_addrlen))
		return fail("rconnect");
	return talk(fd);
}

static int serve(const struct addrinfo *at)
{
	int fd = rsocket(at->ai_family, SOCK_STREAM, 0), conn;

	if (fd < 0 || rbind(fd, at->ai_addr, at->ai_addrlen) || rlisten(fd, 1))
		return fail("rlisten");
	conn = raccept(fd, NULL, NULL);
	return conn < 0 ? fail("raccept") : talk(conn);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_family = AF_INET6, .ai_flags = AI_PASSIVE}, *at;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: rsocket-idle PORT [SERVER]\n");
		return 2;
	}
	hints.ai_socktype = SOCK_STREAM;
	if (argc == 3)
		hints.ai_family = AF_UNSPEC;
	if (getaddrinfo(argc == 3 ? argv[2] : NULL, argv[1], &hints, &at)) {
		fprintf(stderr, "no such address\n");
		return 2;
	}
	return argc == 3 ? connect_to(at) : serve(at);
}
