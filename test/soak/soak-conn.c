/* SPDX-License-Identifier: BSD-2-Clause */
/* soak: the TCP connection, the device, queue pairs, patterns. See soak.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../bench/connect-qp.h"
#include "soak.h"

void soak_die(const char *format, ...)
{
	va_list args;

	fputs("soak: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

int soak_listen(unsigned port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(s, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(s, 1) < 0)
		soak_die("TCP port %u: %s", port, strerror(errno));
	return s;
}

int soak_dial(const char *host, unsigned port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai = NULL;
	char service[16];
	int s, rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hints, &ai);
	if (rc)
		soak_die("%s: %s", host, gai_strerror(rc));
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || connect(s, ai->ai_addr, ai->ai_addrlen) < 0)
		soak_die("connect to %s port %u: %s", host, port, strerror(errno));
	freeaddrinfo(ai);
	return s;
}

bool soak_swap(int sock, const void *mine, void *theirs, size_t len)
{
	return send(sock, mine, len, MSG_NOSIGNAL) == (ssize_t)len &&
	       recv(sock, theirs, len, MSG_WAITALL) == (ssize_t)len;
}

struct ibv_context *soak_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!name || strcmp(ibv_get_device_name(list[i]), name) == 0)
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		soak_die("no RDMA device%s%s", name ? " " : "", name ? name : "");
	ibv_free_device_list(list);
	return ctx;
}

void soak_connect_qp(struct ibv_qp *qp, const struct soak_hello *peer, uint32_t dest,
		     enum ibv_mtu mtu)
{
	const struct ibv_qp_attr attr = {
		.path_mtu = mtu,
		.dest_qp_num = dest,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.max_rd_atomic = 8,
		.min_rnr_timer = 1,
		.timeout = (uint8_t)peer->timeout,
		.ah_attr.grh.dgid = peer->gid,
	};

	if (connect_qp(qp, attr))
		soak_die("ibv_modify_qp: %s", strerror(errno));
}

/* splitmix64 */
static uint64_t next_word(uint64_t *s)
{
	uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void soak_fill(uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = next_word(&seed);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

long soak_compare(const uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = next_word(&seed);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8) != 0)
			return (long)i;
	}
	return -1;
}
