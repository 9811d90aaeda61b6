/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults with aim on a pair of lanes: each action and direction, what it does to the packets and
 * that the messages arrive. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/util.h"
#include "engine/lane-internal.h"
#include "fault/report.h"
#include "netns.h"
#include "node.h"
#include "capture/capture-read.h"

enum {
	LEN = 256,
	ECN_CE = 3,
};

/* a has the faults, b has none. */
struct pair {
	struct node a, b;
	char capture[32]; /* a's packets */
};

static void open_pair(struct pair *p, const char *impairment)
{
	int fd;

	netns_enter_once();
	snprintf(p->capture, sizeof(p->capture), "/tmp/rocemu-faults-XXXXXX");
	fd = mkstemp(p->capture);
	assert_true(fd >= 0);
	close(fd);
	setenv("ROCEMU_IMPAIR", impairment, 1);
	setenv("ROCEMU_PCAP", p->capture, 1);
	node_open(&p->a, "127.0.0.1");
	unsetenv("ROCEMU_PCAP");
	unsetenv("ROCEMU_IMPAIR");
	node_open(&p->b, "127.0.0.2");
	node_connect(&p->a, &p->b);
	for (unsigned i = 0; i < NODE_MEM; i++)
		p->a.mem[i] = (uint8_t)(i * 7 + i / 256);
}

static void close_pair(struct pair *p)
{
	node_close_pair(&p->a, &p->b);
	unlink(p->capture);
}

/* n messages of one packet each. @return how long they took. */
static rocemu_ns_t write_all(struct pair *p, unsigned n)
{
	const rocemu_ns_t start = lane_now();

	for (unsigned i = 0; i < n; i++)
		node_write(&p->a, &p->b, i * LEN, LEN, i == n - 1);
	node_poll(&p->a);
	return lane_now() - start;
}

/* What the lanes' threads have stored until now is to be seen. */
static void see(struct pair *p)
{
	lane_lock(p->a.lane);
	lane_unlock(p->a.lane);
	lane_lock(p->b.lane);
	lane_unlock(p->b.lane);
}

static void assert_arrived(struct pair *p, unsigned n)
{
	see(p);
	assert_memory_equal(p->a.mem, p->b.mem, n * LEN);
}

static unsigned bits_different(struct pair *p, unsigned n)
{
	unsigned bits = 0;

	see(p);
	for (unsigned i = 0; i < n * LEN; i++)
		bits += (unsigned)__builtin_popcount(p->a.mem[i] ^ p->b.mem[i]);
	return bits;
}

static struct rocemu_ep_stats ep_stats(struct node *n)
{
	struct rocemu_ep_stats s;

	lane_lock(n->lane);
	s = *rocemu_ep_get_stats(lane_ep(n->lane));
	lane_unlock(n->lane);
	return s;
}

/* The captured packets that a sent: for each, what each() makes of it. */
static void for_each_sent(struct pair *p, void (*each)(const struct capture_rec *rec, void *user),
			  void *user)
{
	struct capture_reader *r;
	struct capture_rec rec;
	char err[256] = "";

	lane_lock(p->a.lane);
	tap_flush(p->a.lane->tap);
	lane_unlock(p->a.lane);
	if (capture_reader_open(&r, p->capture, err, sizeof(err)))
		fail_msg("%s", err);
	while (capture_next(r, &rec) == 1)
		if (rocemu_gid_equal(&rec.ip.src, &p->a.gid))
			each(&rec, user);
	capture_reader_close(r);
}

/* ---- the actions ---- */

TEST(faults, drop__sent_again)
{
	struct pair p;

	open_pair(&p, "drop opcode=RC_WRITE_ONLY nth=2");
	write_all(&p, 3);
	assert_arrived(&p, 3);
	assert_int_equal(node_stats(&p.a).impair_lost, 1);
	assert_true(ep_stats(&p.a).retransmits >= 1);
	close_pair(&p);
}

TEST(faults, drop_what_comes_in__as_if_it_were_lost)
{
	struct pair p;

	open_pair(&p, "drop dir=rx opcode=RC_ACK once");
	write_all(&p, 1);
	assert_arrived(&p, 1);
	assert_int_equal(node_stats(&p.a).impair_lost, 1);
	assert_true(ep_stats(&p.a).retransmits >= 1);
	close_pair(&p);
}

TEST(faults, dup__comes_twice)
{
	struct pair p;

	open_pair(&p, "dup opcode=RC_WRITE_ONLY message=1 once; dup dir=rx opcode=RC_ACK once");
	write_all(&p, 2);
	assert_arrived(&p, 2);
	assert_int_equal(node_stats(&p.a).impair_dup, 2);
	/* The second copy may come after the ACK of all. */
	while (!ep_stats(&p.b).duplicates)
		node_try(&p.b);
	close_pair(&p);
}

enum { COPIES_MAX = 8 };

struct copies {
	unsigned n;
	struct {
		unsigned same; /* so far, this one included */
		uint32_t len;
		uint8_t data[ROCEMU_MAX_PACKET];
	} packet[COPIES_MAX];
};

static void count_copies(const struct capture_rec *rec, void *user)
{
	struct copies *c = user;
	unsigned i = 0;

	if (rec->data[0] != ROCEMU_RC_WRITE_ONLY || c->n == COPIES_MAX)
		return;
	while (i < c->n && (c->packet[i].len != rec->len ||
			    memcmp(c->packet[i].data, rec->data, rec->len) != 0))
		i++;
	c->packet[i].same++;
	if (i < c->n)
		return;
	c->n++;
	c->packet[i].len = (uint32_t)rec->len;
	memcpy(c->packet[i].data, rec->data, rec->len);
}

/* Each is made of the packet, not of the copy before it, which may be harmed or gone. */
TEST(faults, dup_of_what_is_harmed_or_late__the_same_packet_again)
{
	static const char *const texts[] = {
		"dup once;dup once;corrupt field=payload icrc=right once",
		"dup once;dup once;corrupt field=payload icrc=right once;delay time=1ms once",
		"dup=100%,delay=1ms",
	};

	for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
		static struct copies c;
		unsigned most = 0;
		struct pair p;

		c = (struct copies){.n = 0};
		open_pair(&p, texts[i]);
		write_all(&p, 1);
		/* The last copy may leave after the ACK of the first. */
		while (node_stats(&p.a).tx_datagrams < 2)
			node_try(&p.a);
		assert_int_equal(bits_different(&p, 1), i < 2);
		/* What a probe sends again is another packet: it is not harmed. */
		for_each_sent(&p, count_copies, &c);
		for (unsigned k = 0; k < c.n; k++)
			most = MAX(most, c.packet[k].same);
		assert_true(most >= (i < 2 ? 3 : 2));
		close_pair(&p);
	}
}

TEST(faults, delay__no_earlier)
{
	const rocemu_ns_t ms = 1000000;
	struct pair p;

	/* Each of them: what the probe timer sends again must be late as well. */
	open_pair(&p, "delay time=20ms opcode=RC_WRITE_ONLY; delay time=30ms dir=rx opcode=RC_ACK");
	assert_true(write_all(&p, 1) >= 50 * ms);
	assert_arrived(&p, 1);
	assert_true(node_stats(&p.a).impair_delay >= 2);
	close_pair(&p);
}

static void count_marked(const struct capture_rec *rec, void *user)
{
	*(unsigned *)user += (rec->ip.tclass & ECN_CE) == ECN_CE;
}

TEST(faults, mark__congestion_experienced)
{
	struct pair p;
	unsigned marked = 0;

	open_pair(&p, "mark opcode=RC_WRITE_ONLY nth=2; mark dir=rx once");
	write_all(&p, 3);
	assert_arrived(&p, 3);
	for_each_sent(&p, count_marked, &marked);
	assert_int_equal(marked, 1);
	assert_int_equal(node_stats(&p.a).impair_marked, 2);
	close_pair(&p);
}

TEST(faults, corrupt_icrc_wrong__refused_and_sent_again)
{
	struct pair p;

	open_pair(&p, "corrupt field=payload opcode=RC_WRITE_ONLY once;seed=1");
	write_all(&p, 2);
	assert_arrived(&p, 2);
	assert_int_equal(ep_stats(&p.b).drops[ROCEMU_DROP_ICRC], 1);
	close_pair(&p);
}

TEST(faults, corrupt_icrc_right__taken)
{
	struct pair p;

	open_pair(&p, "corrupt field=payload opcode=RC_WRITE_ONLY once icrc=right;seed=1");
	write_all(&p, 2);
	assert_int_equal(bits_different(&p, 2), 1);
	assert_int_equal(ep_stats(&p.b).drops[ROCEMU_DROP_ICRC], 0);
	close_pair(&p);
}

/* The other way: a reads, so what comes in has payload. */
static void read_back(struct pair *p)
{
	write_all(p, 1);
	node_write(&p->b, &p->a, LEN, LEN, true);
	node_poll(&p->b);
}

TEST(faults, corrupt_what_comes_in__icrc_wrong_or_right)
{
	struct pair p;

	open_pair(&p, "corrupt field=payload dir=rx opcode=RC_WRITE_ONLY once;seed=1");
	read_back(&p);
	see(&p);
	assert_memory_equal(p.a.mem + LEN, p.b.mem + LEN, LEN);
	assert_int_equal(ep_stats(&p.a).drops[ROCEMU_DROP_ICRC], 1);
	close_pair(&p);
	open_pair(&p, "corrupt field=payload dir=rx opcode=RC_WRITE_ONLY once icrc=right;seed=1");
	read_back(&p);
	assert_int_equal(bits_different(&p, 2), 1);
	assert_int_equal(ep_stats(&p.a).drops[ROCEMU_DROP_ICRC], 0);
	close_pair(&p);
}

TEST(faults, by_peer_and_qp__others_are_left_alone)
{
	struct pair p;
	char text[64];

	snprintf(text, sizeof(text), "drop peer=127.0.0.3; drop qp=1; drop dqp=1");
	open_pair(&p, text);
	write_all(&p, 2);
	assert_arrived(&p, 2);
	assert_int_equal(node_stats(&p.a).impair_lost, 0);
	close_pair(&p);
}

/* ---- order ---- */

struct order {
	bool any;
	uint32_t highest;
	unsigned gaps; /* a PSN came out before the one before it */
};

static void follow(const struct capture_rec *rec, void *user)
{
	struct order *o = user;
	const uint32_t psn = bth_psn(rec->data);
	const int32_t ahead = rocemu_psn_diff(psn, o->highest);

	if (!(rocemu_opcode_ops(rec->data[0]) & ROCEMU_OP_REQUEST))
		return;
	o->gaps += o->any && ahead > 1;
	if (!o->any || ahead > 0)
		o->highest = psn;
	o->any = true;
}

static unsigned gaps(const char *impairment)
{
	struct order o = {.any = false};
	struct pair p;

	open_pair(&p, impairment);
	write_all(&p, 200);
	assert_arrived(&p, 200);
	for_each_sent(&p, follow, &o);
	close_pair(&p);
	return o.gaps;
}

TEST(faults, range_of_delays__order_kept)
{
	assert_int_equal(gaps("delay=0us..2ms,dup=10%,corrupt=1%,seed=1"), 0);
	assert_int_equal(gaps("delay=10us..300us,seed=2"), 0);
}

TEST(faults, reorder_and_rules__order_not_kept)
{
	assert_true(gaps("delay=0us..2ms,reorder=20%,seed=1") > 0);
	assert_true(gaps("delay time=1ms nth=20") > 0);
}

/* ---- rate and queue ---- */

TEST(faults, rate__not_faster)
{
	struct pair p;
	const uint64_t bits = 200 * LEN * 8;

	open_pair(&p, "rate=10Mbit,queue=1M");
	/* All but the last packet have to be gone when it leaves. */
	assert_true(write_all(&p, 200) >= (bits - LEN * 8) * 1000000000 / 10000000);
	assert_arrived(&p, 200);
	assert_int_equal(node_stats(&p.a).impair_lost, 0);
	close_pair(&p);
}

TEST(faults, queue_too_short__what_is_over_is_lost_or_before_that_marked)
{
	struct pair p;

	open_pair(&p, "rate=10Mbit,queue=8k");
	write_all(&p, 100);
	assert_arrived(&p, 100);
	assert_true(node_stats(&p.a).impair_lost > 0);
	close_pair(&p);
	open_pair(&p, "rate=10Mbit,queue=1M/mark=4k");
	write_all(&p, 100);
	assert_arrived(&p, 100);
	assert_true(node_stats(&p.a).impair_marked > 0);
	assert_int_equal(node_stats(&p.a).impair_lost, 0);
	close_pair(&p);
}

/* ---- held packets and reports at a lane's end ---- */

TEST(faults, held_back_when_the_lane_ends__leaves_then)
{
	struct pair p;
	bool there;

	open_pair(&p, "delay time=10s opcode=RC_WRITE_ONLY");
	node_write(&p.a, &p.b, 0, LEN, true);
	lane_free(p.a.lane);
	p.a.lane = NULL;
	do {
		node_try(&p.b);
		lane_lock(p.b.lane);
		there = !memcmp(p.a.mem, p.b.mem, LEN);
		lane_unlock(p.b.lane);
	} while (!there);
	node_close_pair(&p.a, &p.b);
	unlink(p.capture);
}

static char *read_text(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n;

	assert_non_null(f);
	n = fread(buf, 1, size - 1, f);
	fclose(f);
	buf[n] = '\0';
	return buf;
}

TEST(faults, log__a_line_for_each_decision)
{
	char path[] = "/tmp/rocemu-faults-log-XXXXXX", text[4096], expected[128];
	struct pair p;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	setenv("ROCEMU_IMPAIR_LOG", path, 1);
	open_pair(&p, "drop opcode=RC_WRITE_ONLY nth=2");
	unsetenv("ROCEMU_IMPAIR_LOG");
	write_all(&p, 3);
	snprintf(expected, sizeof(expected),
		 " 127.0.0.1 tx \"drop opcode=RC_WRITE_ONLY nth=2\" RC_WRITE_ONLY qp=0x%06x "
		 "dqp=0x%06x psn=1 drop\n",
		 rocemu_qp_num(p.a.qp), rocemu_qp_num(p.b.qp));
	close_pair(&p);
	read_text(path, text, sizeof(text));
	if (!strstr(text, expected))
		fail_msg("\"%s\" is not in \"%s\"", expected, text);
	assert_ptr_equal(strchr(text, '\n') + 1, text + strlen(text));
	unlink(path);
}

TEST(faults, log_cannot_be_written__said_when_the_lane_is_made)
{
	struct lane_config config = {.device = "x"};
	struct lane *l = NULL;
	char err[256] = "";

	setenv("ROCEMU_IMPAIR", "drop nth=1", 1);
	setenv("ROCEMU_IMPAIR_LOG", "/nonexistent/log", 1);
	assert_int_equal(lane_new(&l, &config, err, sizeof(err)), -ENOENT);
	unsetenv("ROCEMU_IMPAIR_LOG");
	unsetenv("ROCEMU_IMPAIR");
	assert_null(l);
	assert_non_null(strstr(err, "/nonexistent/log"));
}

TEST(faults, rules_from_a_file__position_in_it)
{
	struct lane_config config = {.device = "x"};
	struct lane *l = NULL;
	char path[] = "/tmp/rocemu-faults-rules-XXXXXX", name[64], err[256] = "";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "# rules\ndrip\n", 13), 13);
	close(fd);
	snprintf(name, sizeof(name), "@%s", path);
	setenv("ROCEMU_IMPAIR", name, 1);
	assert_int_equal(lane_new(&l, &config, err, sizeof(err)), -EINVAL);
	unsetenv("ROCEMU_IMPAIR");
	unlink(path);
	assert_non_null(strstr(err, path));
	assert_non_null(strstr(err, "line 2, column 1"));
}

static unsigned times(const char *text, const char *what)
{
	unsigned n = 0;

	for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
		n++;
	return n;
}

TEST(faults, receives_not_found_and_port_down__in_log_and_summary)
{
	char path[] = "/tmp/rocemu-faults-log-XXXXXX", text[16384];
	struct pair p;
	uint64_t rnr;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	setenv("ROCEMU_IMPAIR_LOG", path, 1);
	open_pair(&p, "rnr=50%,seed=3");
	unsetenv("ROCEMU_IMPAIR_LOG");
	for (unsigned i = 0; i < 8; i++) {
		node_recv(&p.a, 0, LEN);
		node_send(&p.b, 0, LEN, true);
		node_poll(&p.a);
		node_poll(&p.b);
	}
	rnr = ep_stats(&p.a).rnr_on_purpose;
	assert_true(rnr > 0);
	lane_set_link(p.a.lane, false);
	lane_set_link(p.a.lane, false);
	lane_set_link(p.a.lane, true);
	close_pair(&p);
	read_text(path, text, sizeof(text));
	assert_int_equal(times(text, " 127.0.0.1 rx \"rnr\" RC_SEND_ONLY "), rnr);
	assert_int_equal(times(text, " 127.0.0.1 port down\n"), 1);
	assert_int_equal(times(text, " 127.0.0.1 port up\n"), 1);
	fault_report_text(text, sizeof(text));
	assert_non_null(strstr(text, " receives not found"));
	assert_non_null(strstr(text, "1 times a port went down"));
	unlink(path);
}
