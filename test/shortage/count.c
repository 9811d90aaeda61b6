/* SPDX-License-Identifier: BSD-2-Clause */
#include "count.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "test.h"

static bool keep_send_sockets;

long count_entries(const char *directory)
{
	DIR *dir = opendir(directory);
	long n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool is_send_socket(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int type, type_is = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof(type)});

	if (type_is < 0 || type != SOCK_DGRAM || getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return false;
	return (sa.ss_family == AF_INET || sa.ss_family == AF_INET6) &&
	       (ntohs(((struct sockaddr_in *)&sa)->sin_port) >= 0xc000 ||
		ntohs(((struct sockaddr_in *)&sa)->sin_port) == 4791);
}

static long descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	long n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		n += !keep_send_sockets || !is_send_socket(atoi(e->d_name));
	closedir(dir);
	return n;
}

void count_print_descriptors(void)
{
	char link[64], target[200];

	for (int fd = 3; fd < 200; fd++) {
		struct sockaddr_in sa = {0};
		socklen_t len = sizeof(sa);
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, target, sizeof(target));
		if (n <= 0)
			continue;
		if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
			sa.sin_family = 0;
		fprintf(stderr, "    descriptor %d: %.*s family %d port %d\n", fd, (int)n, target,
			sa.sin_family, ntohs(sa.sin_port));
	}
}

void count_keep_send_sockets(void)
{
	keep_send_sockets = true;
}

struct count count_take(void)
{
	const struct fault_live live = fault_live();

	return (struct count){
		.fds = descriptors(),
		.threads = count_entries("/proc/self/task"),
		.blocks = live.blocks,
		.maps = live.maps,
	};
}

bool count_is_more(const struct count *now, const struct count *before)
{
	return now->fds > before->fds || now->threads > before->threads ||
	       now->blocks > before->blocks || now->maps > before->maps;
}

struct count count_most(const struct count *a, const struct count *b)
{
	return (struct count){
		.fds = a->fds > b->fds ? a->fds : b->fds,
		.threads = a->threads > b->threads ? a->threads : b->threads,
		.blocks = a->blocks > b->blocks ? a->blocks : b->blocks,
		.maps = a->maps > b->maps ? a->maps : b->maps,
	};
}

/* A thread that was joined is in /proc for a moment longer; a peer's end takes its time. */
struct count count_settled(const struct count *before)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct count now = count_take();

	for (unsigned ms = 0; ms < COUNT_SETTLE_MS && count_is_more(&now, before); ms++) {
		nanosleep(&pause, NULL);
		now = count_take();
	}
	return now;
}
