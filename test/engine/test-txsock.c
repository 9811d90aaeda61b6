/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that packets are sent from, and who else can have them. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/txsock.h"

enum { PORT = 0xd234 };

#define HERE                                                    \
	{                                                       \
		{                                               \
			[10] = 0xff, [11] = 0xff, 127, 0, 0, 61 \
		}                                               \
	}

static const struct rocemu_gid here = HERE;
static const struct rocemu_path path = {.sgid = HERE, .dgid = HERE, .sport = PORT, .hop_limit = 64};

/** A socket at another address of this machine; its errno as a negative number. */
static int elsewhere(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	assert_true(fd >= 0);
	a.sin_addr.s_addr = htonl(0x7f00003e);
	if (!bind(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	err = errno;
	close(fd);
	return -err;
}

static struct txsock *open_one(struct txsock_set *set, uint16_t port)
{
	struct rocemu_path p = path;
	int err = 0;

	p.sport = port;
	return txsock_find(set, &p, &err);
}

TEST(txsock_find, port__is_free_at_no_other_address)
{
	struct txsock_set set;
	struct txsock *s;
	uint16_t port;
	int fd;

	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT);
	assert_non_null(s);
	port = s->port;
	assert_int_equal(elsewhere(port), -EADDRINUSE);
	txsock_set_fini(&set);
	fd = elsewhere(port);
	assert_true(fd >= 0);
	close(fd);
}

TEST(txsock_find, port_in_use_at_another_address__the_next_one)
{
	struct txsock_set set;
	struct txsock *s;
	int fd = -1;
	uint16_t port;

	for (port = PORT + 100; fd < 0; port++)
		fd = elsewhere(port);
	port--;
	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, port);
	assert_non_null(s);
	assert_int_not_equal(s->port, port);
	assert_int_equal(s->want, port);
	txsock_set_fini(&set);
	close(fd);
}

TEST(txsock_find, neighbours_all_in_use__one_further_away)
{
	enum { HELD = 32 };
	struct txsock_set set;
	struct txsock *s;
	int fd[HELD];

	for (unsigned i = 0; i < HELD; i++)
		fd[i] = elsewhere((uint16_t)(PORT + 300 + i));
	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT + 300);
	assert_non_null(s);
	assert_true(s->port >= 0xc000);
	assert_not_in_range(s->port, PORT + 300, PORT + 300 + HELD - 1);
	txsock_set_fini(&set);
	for (unsigned i = 0; i < HELD; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

/* Two processes of one user, or two lanes of a process, send from the same port. */
TEST(txsock_find, port_of_another_lane__shared)
{
	struct txsock_set one, two;
	struct txsock *a, *b;

	txsock_set_init(&one, &here, 0, 0);
	txsock_set_init(&two, &here, 0, 0);
	a = open_one(&one, PORT + 200);
	b = open_one(&two, PORT + 200);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(a->port, b->port);
	txsock_set_fini(&two);
	assert_int_equal(elsewhere(a->port), -EADDRINUSE);
	txsock_set_fini(&one);
}
