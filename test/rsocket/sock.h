/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets for tests, in a network namespace of the test program's own. Errors end the test. */
#ifndef TEST_RSOCKET_SOCK_H
#define TEST_RSOCKET_SOCK_H

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union sock_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/** Longer than any machine needs: what has not come by then does not. */
enum { SOCK_GUARD_MS = 60000 };

socklen_t sock_len(const union sock_addr *a);
/** 127.0.0.1 or ::1 */
union sock_addr sock_loopback(int domain, uint16_t port);
/** A new socket, bound to the loopback address and any port; where it is. */
int sock_bound(int domain, int type, union sock_addr *at);

/** A pair of connected streams: [0] has connected, [1] was accepted. */
void sock_pair(int domain, int fds[2]);

/** Wait until one of events is so; what is. */
short sock_wait(int fd, short events);

void sock_send_all(int fd, const void *buf, size_t len);
/** Until len bytes or the end; how many. */
size_t sock_recv_all(int fd, void *buf, size_t len);
/** The same bytes for the same seed. */
void sock_fill(uint8_t *buf, size_t len, uint32_t seed);

/** A thread that is joined by sock_join(). */
pthread_t sock_thread(void *(*run)(void *), void *arg);
void sock_join(pthread_t t);

#endif
