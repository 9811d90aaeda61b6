/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads with the smallest stack that the C library allows do all that programs do with verbs. */
#include <arpa/inet.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <sys/mman.h>
#include <unistd.h>

#include "habits.h"

enum { STACK = 16384, GUARD = 4096, PAINT = 0xa5, ROUNDS = 100 };

static struct server server;
static struct sockaddr_in stream_at;

static void *verbs(void *unused)
{
	struct end a, b;

	end_open(&a);
	end_open(&b);
	end_connect(&a, &b);
	end_connect(&b, &a);
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK(end_post(&a, &b, i % 2 ? 8 : BUF) == 0);
		end_wait(&a);
	}
	end_close(&b);
	end_close(&a);
	return unused;
}

static void *cm(void *unused)
{
	server_use(&server);
	return unused;
}

static void *stream(void *unused)
{
	char text[8] = "1234567";
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK(!rconnect(fd, (struct sockaddr *)&stream_at, sizeof(stream_at)));
	CHECK(rsend(fd, text, sizeof(text), 0) == sizeof(text));
	CHECK(rrecv(fd, text, sizeof(text), MSG_WAITALL) == sizeof(text));
	CHECK(!rclose(fd));
	return unused;
}

/** Accepts one and echoes. */
static void *echo(void *arg)
{
	const int listener = *(int *)arg, fd = raccept(listener, NULL, NULL);
	char text[8];

	CHECK(fd >= 0);
	CHECK(rrecv(fd, text, sizeof(text), MSG_WAITALL) == sizeof(text));
	CHECK(rsend(fd, text, sizeof(text), 0) == sizeof(text));
	CHECK(rrecv(fd, text, 1, 0) == 0);
	rclose(fd);
	rclose(listener);
	return NULL;
}

static void run(const char *name, void *(*call)(void *))
{
	unsigned char *at = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned left = 0;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	CHECK(at != MAP_FAILED && !mprotect(at, GUARD, PROT_NONE));
	memset(at + GUARD, PAINT, STACK);
	pthread_attr_init(&attr);
	CHECK(!pthread_attr_setstack(&attr, at + GUARD, STACK));
	err = pthread_create(&thread, &attr, call, NULL);
	if (err)
		printf("%s: no thread with a stack of %d bytes: %s\n", name, STACK, strerror(err));
	CHECK(!err && !pthread_join(thread, NULL));
	while (left < STACK && at[GUARD + left] == PAINT)
		left++;
	printf("%s: %u of %d bytes\n", name, STACK - left, STACK);
	pthread_attr_destroy(&attr);
	munmap(at, GUARD + STACK);
}

int run_stack(void)
{
	socklen_t len = sizeof(stream_at);
	pthread_t thread;
	int listener;

	run("verbs", verbs);
	server_start(&server);
	run("rdma_cm", cm);
	server_stop(&server);
	stream_at = (struct sockaddr_in){.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	CHECK(!rbind(listener, (struct sockaddr *)&stream_at, sizeof(stream_at)));
	CHECK(!rlisten(listener, 1));
	CHECK(!rgetsockname(listener, (struct sockaddr *)&stream_at, &len));
	CHECK(!pthread_create(&thread, NULL, echo, &listener));
	run("rsocket", stream);
	CHECK(!pthread_join(thread, NULL));
	return 0;
}
