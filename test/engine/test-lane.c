/* SPDX-License-Identifier: BSD-2-Clause */
/* Two lanes of one process that talk over loopback sockets in a namespace of their own, with a real
 * agent. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/forward.h"
#include "engine/lane-internal.h"
#include "netns.h"
#include "node.h"
#include "transport/ep.h"
#include "capture/capture-read.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static void send_and_compare(const char *addr_a, const char *addr_b)
{
	struct node a, b;

	node_open_pair(&a, &b, addr_a, addr_b);
	for (uint32_t len = 0; len < 10000; len = len * 3 + 1) {
		node_fill(&a, len, len);
		node_recv(&b, 0, len);
		node_send(&a, 0, len, true);
		node_poll(&b);
		node_poll(&a);
		assert_memory_equal(a.mem, b.mem, len);
	}
	node_close_pair(&a, &b);
}

TEST(lane, send_over_ipv4__bytes_arrive)
{
	send_and_compare("127.0.0.1", "127.0.0.2");
}

TEST(lane, send_within_one_address__bytes_arrive)
{
	send_and_compare("127.0.0.1", "127.0.0.1");
}

TEST(lane, send_over_ipv6__bytes_arrive)
{
	send_and_compare("::1", "::1");
}

TEST(lane, long_write__travels_in_bursts)
{
	const uint32_t len = 2 << 20;
	struct node a, b;
	struct lane_stats s;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_fill(&a, 1, len);
	node_write(&a, &b, 0, len, true);
	node_poll(&a);
	assert_memory_equal(a.mem, b.mem, len);
	s = node_stats(&a);
	assert_true(s.tx_datagrams >= len / 1024);
	assert_true(s.tx_syscalls * 8 < s.tx_datagrams);
	assert_int_equal(s.tx_errors, 0);
	node_close_pair(&a, &b);
}

/*
 * a's lane is locked, so that its thread takes none. Datagrams, because the kernel may merge some.
 */
TEST(lane, acks_in_the_socket__all_taken_by_one_look)
{
	enum { WRITES = 16 };
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct node a, b;
	uint64_t before;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_write(&a, &b, 0, 8, true); /* the socket has received something */
	node_poll(&a);
	lane_lock(a.lane);
	before = a.lane->stats->rx_datagrams;
	for (unsigned i = 0; i < WRITES; i++) {
		const uint64_t acks = node_stats(&b).tx_datagrams;

		assert_int_equal(rocemu_qp_post_send(a.qp, lane_now(), &wr, NULL), 0);
		lane_posted(a.lane, lane_now(), (struct lane_post){.bytes = SIZE_MAX});
		while (node_stats(&b).tx_datagrams == acks)
			lane_poll(b.lane);
	}
	/* The first call on an idle socket requests one datagram. */
	lane_rx_hot(a.lane, lane_now());
	lane_rx_hot(a.lane, lane_now());
	assert_int_equal(a.lane->stats->rx_datagrams - before, WRITES);
	lane_unlock(a.lane);
	node_close_pair(&a, &b);
}

TEST(lane, source_port_taken__next_one_and_right_icrc)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	struct node a, b;
	struct rocemu_path path;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	/* The first choice of all, the whole end of the range: wraps to its start. */
	path = (struct rocemu_path){.sgid = a.gid, .dgid = b.gid, .sport = 0xffff, .hop_limit = 64};
	inet_pton(AF_INET, "127.0.0.1", &sin.sin_addr);
	sin.sin_port = htons(0xffff);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	lane_lock(a.lane);
	assert_int_equal(lane_prepare_path(a.lane, &path, 0), 0);
	assert_int_equal(a.lane->tx.set[0]->sock[0].port, 0xc000);
	assert_int_equal(a.lane->tx.set[0]->sock[0].want, 0xffff);
	/* The same flow again finds the same socket; sixteen more flows share what there is. */
	for (uint16_t i = 0; i < 40; i++) {
		path.sport = (uint16_t)(0xffff - i);
		assert_int_equal(lane_prepare_path(a.lane, &path, 0), 0);
		assert_true(a.lane->tx.set[0]->count <= TXSOCK_PER_ADDRESS);
	}
	lane_unlock(a.lane);
	close(fd);
	/* The QP's own flow shares a socket now, and its packets still pass the ICRC check. */
	node_ping_pong(&a, &b, 10, 100);
	node_close_pair(&a, &b);
}

TEST(lane, path_of_another_address__refused)
{
	struct rocemu_path path = {.sport = 0xc000, .sgid_index = 0};
	struct node a;

	node_open(&a, "127.0.0.1");
	path.sgid = path.dgid = a.gid;
	path.sgid.raw[15] = 99;
	lane_lock(a.lane);
	assert_int_equal(lane_prepare_path(a.lane, &path, 0), -EADDRNOTAVAIL);
	path.sgid = a.gid;
	path.sgid_index = 200;
	assert_int_equal(lane_prepare_path(a.lane, &path, 0), -EADDRNOTAVAIL);
	lane_unlock(a.lane);
	node_close(&a);
}

/** Do all the node's sockets deliver the hop limits of datagrams, or none? */
static bool delivers_hop_limits(struct node *n)
{
	unsigned on = 0, nsocks;

	lane_lock(n->lane);
	nsocks = n->lane->nsocks;
	for (unsigned i = 0; i < nsocks; i++) {
		const struct lane_sock *s = n->lane->socks[i];
		const bool v4 = rocemu_gid_is_ipv4(&s->gid);
		int value;
		socklen_t len = sizeof(value);

		assert_int_equal(getsockopt(s->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
					    v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &value, &len),
				 0);
		on += value != 0;
	}
	lane_unlock(n->lane);
	assert_true(nsocks > 0 && (on == 0 || on == nsocks));
	return on > 0;
}

TEST(lane, hop_limits__only_for_ud)
{
	static const char *const addresses[] = {"127.0.0.1", "::1"};
	struct node n;

	for (unsigned i = 0; i < 2; i++) {
		node_open(&n, addresses[i]);
		assert_false(delivers_hop_limits(&n));
		lane_lock(n.lane);
		lane_want_hop_limits(n.lane);
		lane_unlock(n.lane);
		assert_true(delivers_hop_limits(&n));
		node_close(&n);
		node_open_ud(&n, addresses[i], 1);
		assert_true(delivers_hop_limits(&n));
		node_close(&n);
	}
}

/* One burst for two slots, as GRO makes of two QPs' packets with one source port. */
TEST(lane, burst_for_two_slots__second_forwarded)
{
	enum { SEG = 32 };
	uint8_t data[3 * SEG] = {0};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};
	const int seg = SEG;
	struct node a, b;
	uint64_t end;
	int fd;

	node_open(&a, "127.0.0.1");
	node_open(&b, "127.0.0.1");
	fd = socket(AF_INET, SOCK_DGRAM, 0); /* in the namespace that the nodes are in */
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	put_be24(data + 5, rocemu_qp_num(a.qp));
	put_be24(data + SEG + 5, rocemu_qp_num(b.qp));
	put_be24(data + 2 * SEG + 5, rocemu_qp_num(b.qp));
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &seg, sizeof(seg)), 0);
	assert_int_equal(sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(data));
	end = lane_now() + NODE_PATIENCE_MS * (uint64_t)1000000;
	while (node_stats(&b).rx_datagrams < 2 && lane_now() < end)
		sched_yield();
	assert_int_equal(node_stats(&a).rx_datagrams, 1);
	assert_int_equal(node_stats(&a).rx_forwarded, 2);
	assert_int_equal(node_stats(&b).rx_datagrams, 2);
	assert_int_equal(node_stats(&b).rx_misrouted, 0);
	/* b may have a UD QP. */
	assert_true(delivers_hop_limits(&a));
	close(fd);
	node_close_pair(&a, &b);
}

/** A datagram for the QP of n: with IP options or hop-by-hop options, or longer than the MTU. */
static void send_forbidden(struct node *n, bool ipv4, bool options)
{
	static const uint8_t nops[4] = {1, 1, 1, 0}, hop[8] = {[2] = 1, [3] = 4};
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(4791),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 to6 = {.sin6_family = AF_INET6,
					 .sin6_port = htons(4791),
					 .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
	const int level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6, may_fragment = IP_PMTUDISC_DONT;
	uint8_t data[2000] = {0};

	put_be24(data + 5, rocemu_qp_num(n->qp));
	if (options)
		assert_int_equal(setsockopt(fd, level, ipv4 ? IP_OPTIONS : IPV6_HOPOPTS,
					    ipv4 ? nops : hop, ipv4 ? sizeof(nops) : sizeof(hop)),
				 0);
	else
		netns_ip("link set lo mtu 1280");
	assert_int_equal(setsockopt(fd, level, ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
				    &may_fragment, sizeof(may_fragment)),
			 0);
	assert_int_equal(sendto(fd, data, sizeof(data), 0,
				ipv4 ? (const struct sockaddr *)&to : (const struct sockaddr *)&to6,
				ipv4 ? sizeof(to) : sizeof(to6)),
			 sizeof(data));
	netns_ip("link set lo mtu 65536");
	close(fd);
}

/* IBTA CA17-3, CA17-8, CA17-24. */
TEST(lane, ip_options_and_fragments__dropped)
{
	for (unsigned ipv4 = 0; ipv4 < 2; ipv4++) {
		struct node a;
		uint64_t end;

		node_open(&a, ipv4 ? "127.0.0.1" : "::1");
		send_forbidden(&a, ipv4, true);
		send_forbidden(&a, ipv4, false);
		end = lane_now() + NODE_PATIENCE_MS * (uint64_t)1000000;
		while (node_stats(&a).rx_forbidden < 2 && lane_now() < end)
			lane_poll(a.lane);
		assert_int_equal(node_stats(&a).rx_forbidden, 2);
		assert_int_equal(node_stats(&a).rx_datagrams, 0);
		node_close(&a);
	}
}

/* Hostile messages from another process of this very user: a right header with anything behind it,
 * or not. */
static void forward_garbage(uint16_t slot, const uint8_t *data, size_t len)
{
	const struct forward_hdr h = {
		.dst = {{[10] = 0xff, 0xff, 127, 0, 0, 1}},
		.seg_len = (uint16_t)(len % 3 + 1),
	};
	const char *name = getenv("ROCEMU_AGENT_NAME");
	char instance[FORWARD_INSTANCE_LEN];
	struct forward *f;
	int err;

	snprintf(instance, sizeof(instance), ":%s", name ? name : "");
	assert_int_equal(forward_new(&f, instance, 1020), 0);
	do
		err = forward_send(f, slot, &h, data, len);
	while (err == -EAGAIN);
	assert_int_equal(err, 0);
	forward_free(f);
}

TEST(lane, any_bytes__nothing_but_counters)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};
	uint8_t data[2000];
	struct node a, b;
	struct rng r;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	rng_init(&r, 7);
	for (unsigned i = 0; i < 500; i++) {
		size_t len = i < 100 ? i : rng_below(&r, sizeof(data));

		for (size_t k = 0; k < len; k++)
			data[k] = (uint8_t)rng_u32(&r);
		if (len >= 12)
			put_be24(data + 5, rocemu_qp_num(a.qp));
		assert_int_equal(sendto(fd, data, len, 0, (struct sockaddr *)&to, sizeof(to)), len);
		/* Hostile forwarded messages too: from this very user. */
		if (i % 5 == 0)
			forward_garbage(a.lane->slot, data, len);
	}
	node_ping_pong(&a, &b, 20, 64);
	close(fd);
	node_close_pair(&a, &b);
}

TEST(lane, impaired__all_arrives_all_the_same)
{
	const uint32_t len = 512 << 10;
	struct node a, b;
	struct lane_stats s;

	setenv("ROCEMU_IMPAIR", "loss=2%,dup=2%,reorder=2%,corrupt=2%,delay=0us..200us,seed=3", 1);
	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	unsetenv("ROCEMU_IMPAIR");
	node_fill(&a, 4, len);
	for (uint32_t at = 0; at < len; at += 32 << 10)
		node_write(&a, &b, at, 32 << 10, at + (32 << 10) == len);
	node_poll(&a);
	assert_memory_equal(a.mem, b.mem, len);
	s = node_stats(&a);
	assert_true(s.impair_lost && s.impair_dup && s.impair_reorder && s.impair_corrupt &&
		    s.impair_delay);
	node_close_pair(&a, &b);
}

TEST(lane, port_down_on_purpose__nothing_passes_until_it_is_up)
{
	struct node a, b;
	struct lane_stats s;
	uint64_t before;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_ping_pong(&a, &b, 2, 64);
	lane_set_link(a.lane, false);
	node_fill(&a, 4, 64);
	node_write(&a, &b, 0, 64, true);
	s = node_stats(&a);
	assert_true(s.impair_down >= 1); /* and possibly a held acknowledgement */
	assert_int_equal(s.impair_flaps, 1);
	assert_false(node_try(&a));
	lane_set_link(a.lane, true);
	node_poll(&a); /* sent again */
	assert_memory_equal(a.mem, b.mem, 64);
	/* The other way: what comes in is not taken either. */
	lane_set_link(a.lane, false);
	before = node_stats(&a).impair_down;
	node_write(&b, &a, 0, 64, true);
	while (node_stats(&a).impair_down == before)
		sched_yield();
	assert_false(node_try(&b));
	lane_set_link(a.lane, true);
	node_poll(&b);
	node_close_pair(&a, &b);
}

TEST(lane, impairment_spec_bad__said_at_once)
{
	struct lane_config config = {.device = "x"};
	struct lane *l = NULL;
	char err[256] = "";

	setenv("ROCEMU_IMPAIR", "loss=200%", 1);
	assert_int_equal(lane_new(&l, &config, err, sizeof(err)), -EINVAL);
	unsetenv("ROCEMU_IMPAIR");
	assert_null(l);
	assert_non_null(strstr(err, "loss=200%"));
}

static unsigned check_capture(const char *path)
{
	struct capture_reader *r;
	struct capture_rec rec;
	char err[256] = "";
	unsigned n = 0;

	if (capture_reader_open(&r, path, err, sizeof(err)))
		fail_msg("%s", err);
	for (; capture_next(r, &rec) == 1; n++) {
		const struct rocemu_icrc_ctx c = {
			.src = rec.ip.src,
			.dst = rec.ip.dst,
			.sport = rec.ip.sport,
			.dport = rec.ip.dport,
			.ip_id = rec.ip.ip_id,
			.ip_frag = rec.ip.ip_frag,
		};

		assert_int_equal(rec.len, rec.wire_len);
		assert_true(rec.len >= 16);
		if (rocemu_icrc_check(&c, true, rec.data, rec.len) < 0)
			fail_msg("frame %llu: ICRC wrong", (unsigned long long)rec.number);
	}
	capture_reader_close(r);
	return n;
}

TEST(lane, captured__every_packet_once_icrc_right)
{
	char path[] = "/tmp/rocemu-lane-XXXXXX";
	struct node a, b;
	struct lane_stats sa, sb;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	setenv("ROCEMU_PCAP", path, 1);
	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	unsetenv("ROCEMU_PCAP");
	assert_true(delivers_hop_limits(&a));
	node_ping_pong(&a, &b, 20, 100);
	node_ping_pong(&a, &b, 5, 9000);
	node_write(&a, &b, 0, 300000, true);
	node_poll(&a);
	/* Stop the threads, so that no acknowledgement comes between counting and closing. */
	lane_lock(a.lane);
	lane_lock(b.lane);
	sa = *a.lane->stats;
	sb = *b.lane->stats;
	tap_flush(a.lane->tap);
	assert_int_equal(check_capture(path), sa.tx_datagrams + sb.tx_datagrams);
	lane_unlock(b.lane);
	lane_unlock(a.lane);
	node_close_pair(&a, &b);
	unlink(path);
}

TEST(lane, forked_child__own_lane_works_and_parents_too)
{
	struct node a, b;
	int status;
	pid_t pid;

#if HAVE_TSAN
	print_message("skipped: ThreadSanitizer allows no threads after such a fork\n");
	skip();
#endif
	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_ping_pong(&a, &b, 50, 64);
	pid = fork();
	if (pid == 0) {
		struct node c, d;
		char err[256];

		/* The copies are dead, and report it. */
		if (!lane_poll(a.lane) || lane_attach(a.lane, err, sizeof(err)) != -ENODEV)
			_exit(1);
		node_close(&a);
		node_open_pair(&c, &d, "127.0.0.1", "127.0.0.3");
		node_ping_pong(&c, &d, 50, 64);
		node_close_pair(&c, &d);
		_exit(0);
	}
	node_ping_pong(&a, &b, 500, 64);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	node_ping_pong(&a, &b, 50, 64);
	node_close_pair(&a, &b);
}

TEST(lane, attached__read_budget_is_half_of_the_receive_buffer)
{
	struct node a, b;
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_lock(a.lane);
	assert_int_equal(getsockopt(a.lane->socks[0]->fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len), 0);
	assert_int_equal(a.lane->ep->cfg.read_budget, bytes / 2);
	lane_unlock(a.lane);
	node_close(&a);
	node_close(&b);
}

TEST(lane, opened_and_closed__again_and_again)
{
	struct node a, b;

	for (unsigned i = 0; i < 20; i++) {
		node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
		node_ping_pong(&a, &b, 2, 64);
		node_close_pair(&a, &b);
	}
}

TEST(lane, address_not_here__clear_error)
{
	struct lane_gid gid = {.gid = {{[10] = 0xff, 0xff, 10, 99, 99, 99}}};
	struct lane_config config = {.device = "x", .gids = &gid, .ngids = 1};
	struct lane *l;
	char err[256] = "";

	netns_enter_once();
	assert_int_equal(lane_new(&l, &config, err, sizeof(err)), 0);
	assert_int_equal(lane_attach(l, err, sizeof(err)), -EADDRNOTAVAIL);
	assert_non_null(strstr(err, "10.99.99.99"));
	lane_free(l);
}
