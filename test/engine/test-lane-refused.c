/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that the kernel refuses, with reasons requested. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/lane-internal.h"
#include "netns.h"
#include "node.h"
#include "test.h"

enum { REFUSED = 1000 };

static unsigned mtu_lookups;

/* In place of the C library's: counts the questions for the MTU of a path. */
int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict len)
{
	mtu_lookups += level == IPPROTO_IP && name == IP_MTU;
	return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
}

static void refuse(struct node *n, const struct rocemu_gid *to)
{
	const struct rocemu_path path = {.dgid = *to};

	lane_lock(n->lane);
	for (unsigned i = 0; i < REFUSED; i++)
		lane_send_refused(n->lane, EMSGSIZE, &path, 1);
	lane_unlock(n->lane);
}

TEST(lane_refused, too_long_for_the_path__mtu_looked_up_once_a_line)
{
	struct node a, b;

	setenv("ROCEMU_LOG", "why", 1);
	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	refuse(&a, &b.gid);
	assert_int_equal(mtu_lookups, 1);
	refuse(&a, &a.gid);
	assert_int_equal(mtu_lookups, 2);
	node_close_pair(&a, &b);
}

/*
 * A connected socket returns ICMP errors of earlier messages in place of sending the next one. No
 * message is lost by that.
 */
TEST(lane_refused, nothing_receives_there__all_messages_sent)
{
	enum { MESSAGES = 100 };
	static const uint8_t data[32];
	struct rocemu_path path = {.hop_limit = 64, .sport = 0xd000};
	struct node n;

	netns_ip("address add fd00::1/128 dev lo nodad");
	netns_ip("address add fd00::2/128 dev lo nodad");
	node_open(&n, "fd00::1");
	path.sgid = n.gid;
	path.dgid = (struct rocemu_gid){{[0] = 0xfd, [15] = 2}};
	lane_lock(n.lane);
	for (unsigned i = 0; i < MESSAGES; i++)
		lane_tx_send_raw(n.lane, &path, data, sizeof(data));
	assert_int_equal(n.lane->stats->tx_errors, 0);
	assert_int_equal(n.lane->stats->tx_datagrams, MESSAGES);
	lane_unlock(n.lane);
	node_close(&n);
}
