/* SPDX-License-Identifier: BSD-2-Clause */
/* Which packets are ECN-capable, on loopback sockets too, and what marks and full buffers lead to.
 */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/ecn.h"
#include "engine/lane-internal.h"
#include "node.h"
#include "capture/capture-read.h"

enum { CE = 3 };

static const struct rocemu_path far = {
	.sgid = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
	.dgid = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
	.tclass = 96,
};

static struct rocemu_path path_to(struct rocemu_gid dgid)
{
	struct rocemu_path p = far;

	p.dgid = dgid;
	return p;
}

TEST(ecn_parse, words__three_modes)
{
	enum ecn_mode m;

	assert_true(ecn_parse(&m, NULL) && m == ECN_AUTO);
	assert_true(ecn_parse(&m, "") && m == ECN_AUTO);
	assert_true(ecn_parse(&m, "auto") && m == ECN_AUTO);
	assert_true(ecn_parse(&m, "on") && m == ECN_ON);
	assert_true(ecn_parse(&m, "off") && m == ECN_OFF);
	assert_false(ecn_parse(&m, "On"));
	assert_false(ecn_parse(&m, "1"));
}

TEST(ecn_tclass, service__rc_and_xrc_only)
{
	assert_int_equal(ecn_tclass(ECN_AUTO, &far, ROCEMU_RC_WRITE_ONLY), 98);
	assert_int_equal(ecn_tclass(ECN_AUTO, &far, ROCEMU_RC_ACK), 98);
	assert_int_equal(ecn_tclass(ECN_AUTO, &far, ROCEMU_XRC_SEND_ONLY), 98);
	assert_int_equal(ecn_tclass(ECN_AUTO, &far, ROCEMU_UC_SEND_ONLY), 96);
	assert_int_equal(ecn_tclass(ECN_AUTO, &far, ROCEMU_UD_SEND_ONLY), 96);
	assert_int_equal(ecn_tclass(ECN_ON, &far, ROCEMU_CNP), 96);
	assert_int_equal(ecn_tclass(ECN_OFF, &far, ROCEMU_RC_WRITE_ONLY), 96);
}

TEST(ecn_tclass, bits_of_the_program__left_but_for_cnps)
{
	struct rocemu_path p = far;

	for (uint8_t bits = 1; bits <= CE; bits++) {
		p.tclass = (uint8_t)(96 | bits);
		assert_int_equal(ecn_tclass(ECN_ON, &p, ROCEMU_RC_WRITE_ONLY), 96 | bits);
		assert_int_equal(ecn_tclass(ECN_OFF, &p, ROCEMU_CNP), 96);
	}
}

TEST(ecn_tclass, loopback__only_when_on)
{
	const struct rocemu_path near[] = {
		path_to((struct rocemu_gid){{[10] = 0xff, [11] = 0xff, 127, 1, 2, 3}}),
		path_to((struct rocemu_gid){{[15] = 1}}),
		path_to(far.sgid),
	};

	for (unsigned i = 0; i < ARRAY_LEN(near); i++) {
		assert_int_equal(ecn_tclass(ECN_AUTO, &near[i], ROCEMU_RC_ACK), 96);
		assert_int_equal(ecn_tclass(ECN_ON, &near[i], ROCEMU_RC_ACK), 98);
	}
}

TEST(ecn_mark, packets_of_several_kinds__each_its_path)
{
	static struct ecn e;
	struct rocemu_path other = path_to((struct rocemu_gid){{[0] = 0xfd, [15] = 9}});
	struct rocemu_tx tx[5] = {
		{.path = &far, .hdr = {ROCEMU_RC_WRITE_FIRST}},
		{.path = &far, .hdr = {ROCEMU_RC_WRITE_LAST}},
		{.path = &far, .hdr = {ROCEMU_CNP}},
		{.path = &other, .hdr = {ROCEMU_RC_ACK}},
		{.path = &other, .hdr = {ROCEMU_UD_SEND_ONLY}},
	};
	struct rocemu_tx *pkt[5] = {&tx[0], &tx[1], &tx[2], &tx[3], &tx[4]};
	static const uint8_t want[5] = {98, 98, 96, 98, 96};

	ecn_mark(&e, pkt, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(pkt[i]->path->tclass, want[i]);
	assert_ptr_equal(pkt[0]->path, pkt[1]->path);
	assert_ptr_equal(pkt[2]->path, &far);
	assert_memory_equal(&pkt[3]->path->dgid, &other.dgid, sizeof(other.dgid));
}

/* ---- on sockets ---- */

static struct rocemu_ep_stats stats(struct node *n)
{
	struct rocemu_ep_stats s;

	lane_lock(n->lane);
	s = *rocemu_ep_get_stats(lane_ep(n->lane));
	lane_unlock(n->lane);
	return s;
}

/* Bits 1 << (ECN bits of a captured packet); what comes in is as the kernel shows it. */
static unsigned ecn_seen(const char *path)
{
	struct capture_reader *r;
	struct capture_rec rec;
	char err[256] = "";
	unsigned seen = 0, n = 0;

	if (capture_reader_open(&r, path, err, sizeof(err)))
		fail_msg("%s", err);
	for (; capture_next(r, &rec) == 1; n++)
		seen |= 1u << (rec.ip.tclass & ECN_MASK);
	capture_reader_close(r);
	assert_true(n > 0);
	return seen;
}

static unsigned ecn_on_the_wire(const char *mode, const char *from, const char *to)
{
	char path[] = "/tmp/rocemu-ecn-XXXXXX";
	struct node a, b;
	unsigned seen;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	setenv("ROCEMU_PCAP", path, 1);
	setenv("ROCEMU_ECN", mode, 1);
	node_open_pair(&a, &b, from, to);
	unsetenv("ROCEMU_PCAP");
	unsetenv("ROCEMU_ECN");
	node_write(&a, &b, 0, 100000, true); /* bursts that GRO merges */
	node_poll(&a);
	node_ping_pong(&a, &b, 4, 100);
	node_close_pair(&a, &b);
	seen = ecn_seen(path);
	unlink(path);
	return seen;
}

TEST(ecn_wire, loopback__as_the_mode_says)
{
	assert_int_equal(ecn_on_the_wire("auto", "127.0.0.1", "127.0.0.2"), 1u << 0);
	assert_int_equal(ecn_on_the_wire("off", "127.0.0.1", "127.0.0.2"), 1u << 0);
	assert_int_equal(ecn_on_the_wire("on", "127.0.0.1", "127.0.0.2"), 1u << ECN_ECT0);
	assert_int_equal(ecn_on_the_wire("on", "::1", "::1"), 1u << ECN_ECT0);
}

TEST(ecn_mode, not_a_word__said_at_once)
{
	struct lane_config config = {.device = "x", .ep = {.seed = 1}};
	struct lane *l = NULL;
	char err[256] = "";

	setenv("ROCEMU_ECN", "maybe", 1);
	assert_int_equal(lane_new(&l, &config, err, sizeof(err)), -EINVAL);
	unsetenv("ROCEMU_ECN");
	assert_null(l);
	assert_non_null(strstr(err, "ROCEMU_ECN=maybe"));
}

/* The sender's program sets the bits that a switch would. */
static void mark_and_expect_cnp(const char *from, const char *to)
{
	uint64_t marked, cnps;
	struct node a, b;

	node_open(&a, from);
	node_open(&b, to);
	a.tclass = CE;
	node_connect(&a, &b);
	node_write(&a, &b, 0, 100, true);
	node_poll(&a);
	marked = stats(&b).ecn_marked;
	cnps = stats(&b).cnps_sent;
	/* On a busy machine the packet may have been sent again. */
	assert_in_range(marked, 1, 1 + stats(&a).retransmits);
	assert_in_range(cnps, 1, marked);
	assert_in_range(stats(&a).cnps_rcvd, 1, marked);
	node_close_pair(&a, &b);
}

TEST(ecn_marked, one_packet__one_cnp)
{
	mark_and_expect_cnp("127.0.0.1", "127.0.0.2");
	mark_and_expect_cnp("::1", "::1");
}

TEST(ecn_full, buffer_filled_before_it_is_read__cnp)
{
	enum { MESSAGES = 16 };
	const int size = 8192;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_lock(b.lane);
	assert_int_equal(
		setsockopt(b.lane->socks[0]->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	for (unsigned i = 0; i < MESSAGES; i++) {
		node_write(&a, &b, 0, 64, true);
		lane_lock(a.lane);
		lane_flush(a.lane); /* a datagram of its own */
		lane_unlock(a.lane);
	}
	lane_unlock(b.lane);
	for (unsigned i = 0; i < MESSAGES; i++)
		node_poll(&a);
	assert_true(node_stats(&b).rx_congested > 0);
	assert_true(stats(&b).cnps_sent > 0);
	node_close_pair(&a, &b);
}

TEST(ecn_full, one_message_at_a_time__no_cnp)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_ping_pong(&a, &b, 200, 100);
	assert_int_equal(node_stats(&b).rx_congested, 0);
	assert_int_equal(stats(&b).cnps_sent + stats(&a).cnps_sent, 0);
	node_close_pair(&a, &b);
}
