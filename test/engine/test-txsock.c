/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that packets are sent from, and who else can have them. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/udp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/util.h"
#include "engine/ipid.h"
#include "engine/txsock.h"
#include "netns.h"
#include "wire/ip.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { PORT = 0xd234, SEGMENT = 24, LATER = 16 /* messages after which a socket takes a size */ };

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

static int segment_of(const struct txsock *s)
{
	int size = -1;
	socklen_t len = sizeof(size);

	assert_int_equal(getsockopt(s->fd, IPPROTO_UDP, UDP_SEGMENT, &size, &len), 0);
	return size;
}

/** Messages that need a size: until the socket has it. */
static void use_segment(const struct txsock_set *set, struct txsock *s, uint16_t size, size_t len)
{
	for (unsigned i = 0; i < LATER; i++) {
		assert_int_not_equal(segment_of(s), size);
		assert_true(txsock_needs_segment(s, size, len));
		txsock_messages_sent(set, s, 1);
	}
	assert_int_equal(segment_of(s), size);
	assert_false(txsock_needs_segment(s, size, len));
}

TEST(txsock_segment, bursts_of_one_size__the_sockets_own)
{
	struct txsock_set set;
	struct txsock *s;

	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT + 400);
	assert_non_null(s);
	assert_false(txsock_needs_segment(s, 0, 4096));
	use_segment(&set, s, SEGMENT, SEGMENT + 20);
	/* One datagram: only a longer one has to be kept in one piece. */
	assert_false(txsock_needs_segment(s, 0, SEGMENT));
	assert_true(txsock_needs_segment(s, 0, SEGMENT + 1));
	use_segment(&set, s, SEGMENT + 4, 2 * SEGMENT);
	use_segment(&set, s, 0, 4096);
	txsock_set_fini(&set);
}

TEST(txsock_segment, sizes_in_turn__stays)
{
	struct txsock_set set;
	struct txsock *s;

	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT + 401);
	assert_non_null(s);
	for (unsigned i = 0; i < 10 * LATER; i++) {
		txsock_needs_segment(s, SEGMENT, 2 * SEGMENT);
		txsock_needs_segment(s, 0, 4096);
		txsock_messages_sent(&set, s, 1);
	}
	assert_int_equal(segment_of(s), 0);
	txsock_set_fini(&set);
}

TEST(txsock_segment, dropped__once)
{
	struct txsock_set set;
	struct txsock *s;

	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT + 402);
	assert_non_null(s);
	assert_false(txsock_make_plain(s));
	use_segment(&set, s, SEGMENT, 2 * SEGMENT);
	assert_true(txsock_make_plain(s));
	assert_int_equal(segment_of(s), 0);
	assert_false(txsock_make_plain(s));
	txsock_set_fini(&set);
}

/** A message through s; control: with UDP_SEGMENT 0. */
static void send_to(const struct txsock *s, const struct sockaddr_in *to, size_t len, bool control)
{
	static char data[256];
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct iovec iov = {data, len};
	struct msghdr m = {.msg_name = (void *)(uintptr_t)to,
			   .msg_namelen = sizeof(*to),
			   .msg_iov = &iov,
			   .msg_iovlen = 1};

	if (control) {
		struct cmsghdr *c;

		m.msg_control = space;
		m.msg_controllen = sizeof(space);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	}
	assert_int_equal(sendmsg(s->fd, &m, 0), len);
}

/* What the code assumes of the kernel. */
TEST(txsock_segment, of_the_socket__splits_all_but_messages_with_size_0)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f00003d)};
	socklen_t len = sizeof(to);
	const int in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	static const size_t got[] = {SEGMENT, 20, SEGMENT, 100};
	struct txsock_set set;
	struct txsock *s;
	char buf[256];

	assert_true(in >= 0);
	assert_int_equal(bind(in, (struct sockaddr *)&to, len), 0);
	assert_int_equal(getsockname(in, (struct sockaddr *)&to, &len), 0);
	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT + 403);
	assert_non_null(s);
	use_segment(&set, s, SEGMENT, 2 * SEGMENT);
	send_to(s, &to, SEGMENT + 20, false);
	send_to(s, &to, SEGMENT, false);
	send_to(s, &to, 100, true);
	for (unsigned i = 0; i < ARRAY_LEN(got); i++)
		assert_int_equal(recv(in, buf, sizeof(buf), MSG_DONTWAIT), got[i]);
	txsock_set_fini(&set);
	close(in);
}

#define HERE6                    \
	{                        \
		{                \
			[15] = 1 \
		}                \
	}
#define OTHER6                                     \
	{                                          \
		{                                  \
			[0] = 0x20, 0x01, [15] = 2 \
		}                                  \
	}

static const struct rocemu_path here6 = {.sgid = HERE6, .dgid = HERE6, .sport = PORT},
				other6 = {.sgid = HERE6, .dgid = OTHER6, .sport = PORT};

static struct txsock *open_v6(struct txsock_set *set, uint16_t port)
{
	struct rocemu_path p = here6;
	int err = 0;

	p.sport = port;
	txsock_set_init(set, &here6.sgid, 0, 0);
	return txsock_find(set, &p, &err);
}

/** The address that a socket is connected to. @return false: none. */
static bool peer_of(const struct txsock *s, struct rocemu_gid *gid)
{
	union addr a;
	socklen_t len = sizeof(a);
	uint16_t port;

	if (getpeername(s->fd, &a.sa, &len))
		return false;
	assert_int_equal(addr_to_gid(&a, len, gid, &port), 0);
	assert_int_equal(port, ROCEMU_UDP_PORT);
	return true;
}

/** Messages to a path's destination that need its address: until the socket is connected to it. */
static void use_peer(const struct txsock_set *set, struct txsock *s, const struct rocemu_path *p)
{
	struct rocemu_gid peer;

	for (unsigned i = 0; i < LATER; i++) {
		assert_false(peer_of(s, &peer) && rocemu_gid_equal(&peer, &p->dgid));
		assert_false(txsock_is_connected(set, s, p));
		txsock_messages_sent(set, s, 1);
	}
	assert_true(peer_of(s, &peer));
	assert_true(rocemu_gid_equal(&peer, &p->dgid));
	assert_true(txsock_is_connected(set, s, p));
}

TEST(txsock_peer, most_messages__connected_to_it)
{
	struct txsock_set set;
	struct txsock *s = open_v6(&set, PORT + 500);

	assert_non_null(s);
	use_peer(&set, s, &here6);
	assert_false(txsock_is_connected(&set, s, &other6));
	txsock_messages_sent(&set, s, 1);
	assert_true(txsock_is_connected(&set, s, &here6));
	txsock_set_fini(&set);
}

TEST(txsock_peer, other_flow_label__another_peer)
{
	struct rocemu_path labelled = here6;
	struct txsock_set set;
	struct txsock *s = open_v6(&set, PORT + 501);

	labelled.flow_label = 0x12345;
	assert_non_null(s);
	use_peer(&set, s, &here6);
	assert_false(txsock_is_connected(&set, s, &labelled));
	txsock_set_fini(&set);
}

/** However many messages go to two paths' destinations in turn. */
static void never_connects(const struct txsock_set *set, struct txsock *s,
			   const struct rocemu_path *one, const struct rocemu_path *other)
{
	struct rocemu_gid peer;

	assert_non_null(s);
	for (unsigned i = 0; i < 10 * LATER; i++) {
		assert_false(txsock_is_connected(set, s, one));
		assert_false(txsock_is_connected(set, s, other));
		txsock_messages_sent(set, s, 1);
	}
	assert_false(peer_of(s, &peer));
}

TEST(txsock_peer, two_in_turn__not_connected)
{
	struct txsock_set set;
	struct txsock *s = open_v6(&set, PORT + 502);

	never_connects(&set, s, &here6, &other6);
	txsock_set_fini(&set);
}

/* Its packets may leave this machine: the identification stays 0. */
TEST(txsock_peer, ipv4_another_address__not_connected)
{
	struct rocemu_path there = path;
	struct txsock_set set;

	there.dgid.raw[15]++;
	txsock_set_init(&set, &here, 0, 0);
	never_connects(&set, open_one(&set, PORT + 503), &there, &there);
	txsock_set_fini(&set);
}

/* Receivers have seen identifications of 0, and take no others. */
TEST(txsock_peer, ipv4_first_another_address__not_connected)
{
	struct rocemu_path there = path;
	struct txsock_set set;
	struct txsock *s;

	there.dgid.raw[15]++;
	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT + 505);
	assert_non_null(s);
	assert_false(txsock_is_connected(&set, s, &there));
	never_connects(&set, s, &path, &path);
	txsock_set_fini(&set);
}

TEST(txsock_peer, ipv4_packets_sealed_for_0__not_connected)
{
	struct txsock_set set;

	txsock_set_init(&set, &here, 0, 0);
	set.no_count = true;
	never_connects(&set, open_one(&set, PORT + 506), &path, &path);
	txsock_set_fini(&set);
}

/* The port is not held: the packet that shows the identification might be received. */
TEST(txsock_peer, ipv4_no_guard__not_connected)
{
	struct txsock_set set;
	struct txsock *s;
	int guard;

	txsock_set_init(&set, &here, 0, 0);
	s = open_one(&set, PORT + 507);
	assert_non_null(s);
	guard = s->guard;
	s->guard = -1;
	never_connects(&set, s, &path, &path);
	s->guard = guard;
	txsock_set_fini(&set);
}

/** A socket that receives the packets of the loopback interface, from the IP header on. */
static int open_sniffer(void)
{
	const struct sockaddr_ll lo = {.sll_family = AF_PACKET,
				       .sll_protocol = htons(ETH_P_IP),
				       .sll_ifindex = (int)if_nametoindex("lo")};
	const int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&lo, sizeof(lo)), 0);
	return fd;
}

/** The identification of the next packet from this port to RoCE's. */
static uint16_t sniff_id(int sniffer, uint16_t sport)
{
	uint8_t ip[IPV4_LEN + UDP_LEN];

	do
		assert_true(recv(sniffer, ip, sizeof(ip), MSG_TRUNC) >= (ssize_t)sizeof(ip));
	while (get_be16(ip + IPV4_LEN) != sport || get_be16(ip + IPV4_LEN + 2) != ROCEMU_UDP_PORT);
	return get_be16(ip + 4);
}

struct counting {
	struct txsock_set set;
	struct txsock *s;
	int receiver, sniffer;
	union addr to;
	socklen_t to_len;
};

/** A socket that is connected to its own address, where RoCE's port is open. */
static void counting_open(struct counting *c, uint16_t port)
{
	netns_enter_once();
	txsock_set_init(&c->set, &here, 0, 0);
	c->s = open_one(&c->set, port);
	assert_non_null(c->s);
	c->to_len = txsock_address(&c->set, c->s, &path, &c->to);
	c->receiver = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(c->receiver, &c->to.sa, c->to_len), 0);
	use_peer(&c->set, c->s, &path);
	c->sniffer = open_sniffer();
}

static void counting_close(struct counting *c)
{
	close(c->sniffer);
	close(c->receiver);
	txsock_set_fini(&c->set);
}

/** Sends a message, with an address if it is not connected. */
static void send_message(struct counting *c, size_t len)
{
	static const char data[256];
	const bool connected = txsock_is_connected(&c->set, c->s, &path);

	assert_int_equal(sendto(c->s->fd, data, len, 0, connected ? NULL : &c->to.sa,
				connected ? 0 : c->to_len),
			 len);
	txsock_messages_sent(&c->set, c->s, 1);
}

TEST(txsock_id, messages_to_the_own_address__as_on_the_wire)
{
	struct counting c;

	counting_open(&c, PORT + 520);
	for (unsigned i = 0; i < 3; i++) {
		const uint16_t id = txsock_id(c.s, 0);

		assert_int_equal(txsock_id(c.s, 2), (uint16_t)(id + 2));
		send_message(&c, 40);
		assert_int_equal(sniff_id(c.sniffer, c.s->port), id);
	}
	counting_close(&c);
}

/* On this interface a burst stays whole, its first packet's identification is what is seen. */
TEST(txsock_id, bursts__count_once)
{
	struct counting c;

	counting_open(&c, PORT + 521);
	use_segment(&c.set, c.s, SEGMENT, 5 * SEGMENT);
	/* No message left for these. */
	c.s->next_id = (uint16_t)(c.s->next_id - LATER);
	for (unsigned i = 0; i < 3; i++) {
		const uint16_t id = txsock_id(c.s, 0);

		send_message(&c, 5 * SEGMENT);
		assert_int_equal(sniff_id(c.sniffer, c.s->port), id);
	}
	counting_close(&c);
}

TEST(txsock_id, not_connected_any_more__0_for_good)
{
	struct counting c;
	struct rocemu_gid peer;

	counting_open(&c, PORT + 522);
	txsock_stop_counting(c.s);
	assert_false(peer_of(c.s, &peer));
	for (unsigned i = 0; i < 2 * LATER; i++) {
		assert_int_equal(txsock_id(c.s, i), 0);
		send_message(&c, 40);
		assert_int_equal(sniff_id(c.sniffer, c.s->port), 0);
	}
	counting_close(&c);
}

TEST(txsock_id, messages_to_another_address__soon_0)
{
	struct rocemu_path there = path;
	struct counting c;

	there.dgid.raw[15]++;
	counting_open(&c, PORT + 523);
	for (unsigned i = 0; i < LATER; i++) {
		assert_true(c.s->counts);
		assert_false(txsock_is_connected(&c.set, c.s, &there));
		txsock_messages_sent(&c.set, c.s, 1);
	}
	assert_false(c.s->counts);
	send_message(&c, 40);
	assert_int_equal(sniff_id(c.sniffer, c.s->port), 0);
	counting_close(&c);
}

TEST(txsock_id, refused__sent_again_with_0)
{
	struct counting c;

	counting_open(&c, PORT + 524);
	close(c.receiver);
	send_message(&c, 40);
	assert_int_equal(send(c.s->fd, "2", 1, 0), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_true(txsock_make_plain(c.s));
	sniff_id(c.sniffer, c.s->port);
	send_message(&c, 40);
	assert_int_equal(sniff_id(c.sniffer, c.s->port), 0);
	c.receiver = -1;
	counting_close(&c);
}

/* Nothing receives at port 4791 of this namespace. */
TEST(txsock_peer, port_unreachable__plain_and_sent_again)
{
	struct txsock_set set;
	struct txsock *s = open_v6(&set, PORT + 504);
	struct rocemu_gid peer;
	union addr to;
	socklen_t len;

	assert_non_null(s);
	assert_false(txsock_make_plain(s));
	use_peer(&set, s, &here6);
	assert_int_equal(send(s->fd, "1", 1, 0), 1);
	assert_int_equal(send(s->fd, "2", 1, 0), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_true(txsock_make_plain(s));
	assert_false(peer_of(s, &peer));
	assert_false(txsock_make_plain(s));
	assert_false(txsock_is_connected(&set, s, &here6));
	len = txsock_address(&set, s, &here6, &to);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(sendto(s->fd, "2", 1, 0, &to.sa, len), 1);
	txsock_set_fini(&set);
}
