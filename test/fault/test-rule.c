/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules by packet: what is refused and where; which packets a rule means; what it does to them. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "fault/impair.h"

/* ---- parsing ---- */

static struct impair im; /* large */

static void parse(const char *text)
{
	struct fault_error e;

	impair_init(&im);
	if (impair_add(&im, text, NULL, &e) || impair_finish(&im, &e))
		fail_msg("\"%s\": %s", text, e.text);
}

TEST(fault_rule, wrong_text__refused_where_it_stands)
{
	static const struct {
		const char *text;
		unsigned line, column;
		const char *expected;
	} cases[] = {
		{"drip", 1, 1, "drop, dup, delay, corrupt, mark"},
		{"drip", 1, 1, "key=value"},
		{"=", 1, 1, "one of the keys loss, dup, reorder, corrupt, delay, rate, queue"},
		{"=drop nth=1", 1, 1, "one of the keys"},
		{"drop opcode", 1, 6, "opcode=names"},
		{"drop opcode=", 1, 6, "opcode=names"},
		{"drop opcode=RC_NACK", 1, 6, "RC_SEND_*"},
		{"drop opcode=RC_ACK|", 1, 6, "opcode=names"},
		{"drop opcode=|RC_ACK", 1, 6, "opcode=names"},
		{"drop opcode=UNKNOWN", 1, 6, "opcode=names"},
		{"drop nht=3", 1, 6,
		 "one of opcode=, qp=, dqp=, psn=, len=, peer=, dir=, message=, nth=, every=, "
		 "times=, chance=, first, once"},
		{"delay nht=3", 1, 7, "once, time="},
		{"corrupt nht=3", 1, 9, "bit=, field=, icrc="},
		{"drop nth=0", 1, 6, "from 1 on"},
		{"drop nth=x", 1, 6, "from 1 on"},
		{"drop nth=3..2", 1, 6, "a range A..B"},
		{"drop nth=1 nth=2", 1, 12, "once in a rule"},
		{"drop every=0", 1, 6, "from 1 on"},
		{"drop times=0", 1, 6, "from 1 on"},
		{"drop once=1", 1, 6, "\"once\" without a value"},
		{"drop first=1", 1, 6, "\"first\" without a value"},
		{"drop once times=3", 1, 6, "either once or times="},
		{"drop chance=101%", 1, 6, "from 0% to 100%"},
		{"drop qp=0x1000000", 1, 6, "up to 0xffffff"},
		{"drop dqp=-1", 1, 6, "up to 0xffffff"},
		{"drop psn=5..", 0, 0, NULL},
		{"drop psn=16777216", 1, 6, "up to 0xffffff"},
		{"drop len=4097", 1, 6, "bytes of payload"},
		{"drop peer=host", 1, 6, "an IPv4 or IPv6 address"},
		{"drop peer=10.0.0.256", 1, 6, "an IPv4 or IPv6 address"},
		{"drop dir=in", 1, 6, "tx (packets that are sent) or rx"},
		{"drop message=0", 1, 6, "from 1 on"},
		{"drop time=1us", 1, 6, "for \"drop\" one of"},
		{"drop bit=1", 1, 6, "for \"drop\" one of"},
		{"delay", 1, 6, "time="},
		{"delay time=0us", 1, 7, "a time or a range"},
		{"delay time=11s", 1, 7, "up to 10s"},
		{"corrupt bit=99999", 1, 9, "0 being the first one of the BTH"},
		{"corrupt field=psm", 1, 9, "opcode, migreq"},
		{"corrupt icrc=maybe", 1, 9, "right or wrong"},
		{"corrupt bit=1 field=psn", 1, 9, "either bit= or field="},
		{"corrupt field=icrc icrc=right", 1, 20, "icrc=wrong"},
		{"drop nth=1,every=2", 1, 12, "blanks between the conditions"},
		{"loss=1% nth=2", 1, 9, "a comma before it, or \";\""},
		{"loss=1%,drop", 1, 9, "key=value"},
		{"drop;dup x", 1, 10, "for \"dup\" one of"},
		{"drop # all\n\n dup x", 3, 6, "for \"dup\" one of"},
		{"loss=1%\nloss=x", 2, 1, "from 0% to 100%"},
		{"rate=1", 1, 1, "kbit, Mbit or Gbit"},
		{"rate=1Gbit,queue=1k", 1, 12, "8k to 64M"},
		{"rate=1Gbit,queue=64k/16k", 1, 12, "BYTES/mark=BYTES"},
		{"rate=1Gbit,queue=64k/mark=65k", 1, 12, "no more than the first"},
		{"rate=1Gbit,queue=64k/mark=0", 1, 12, "BYTES/mark=BYTES"},
		{"queue=64k", 0, 0, "expected rate="},
	};
	struct fault_error e;

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		const char *text = cases[i].text;
		int ret;

		impair_init(&im);
		ret = impair_add(&im, text, NULL, &e);
		if (!ret)
			ret = impair_finish(&im, &e);
		if (!cases[i].expected) {
			assert_int_equal(ret, 0);
			continue;
		}
		if (!ret || e.line != cases[i].line || e.column != cases[i].column ||
		    !strstr(e.text, cases[i].expected))
			fail_msg("\"%s\": %d, %u:%u, \"%s\"", text, ret, e.line, e.column, e.text);
		assert_null(strchr(e.text, '\n'));
	}
}

TEST(fault_rule, more_rules_than_there_may_be__refused)
{
	char text[(FAULT_RULES + 1) * 5 + 1] = "";
	struct fault_error e;

	for (unsigned i = 0; i < FAULT_RULES; i++)
		strcat(text, "drop;");
	parse(text);
	assert_int_equal(im.nrules, FAULT_RULES);
	strcat(text, "drop;");
	impair_init(&im);
	assert_true(impair_add(&im, text, NULL, &e) < 0);
	assert_int_equal(e.column, FAULT_RULES * 5 + 1);
}

TEST(fault_rule, rates_and_rules__both_taken)
{
	parse("loss=1%,rate=1Gbit; drop opcode=RC_ACK nth=3 # why\nqueue=64k/mark=16k,seed=7");
	assert_true(im.on);
	assert_int_equal(im.nrules, 1);
	assert_string_equal(im.rule[0].text, "drop opcode=RC_ACK nth=3");
	assert_int_equal(im.rate_bps, 1000000000);
	assert_int_equal(im.queue_bytes, 65536);
	assert_int_equal(im.mark_bytes, 16384);
	assert_int_equal(im.seed, 7);
	parse("# nothing\n;\n");
	assert_false(im.on);
	parse("rate=1Gbit");
	assert_int_equal(im.queue_bytes, IMPAIR_DEFAULT_QUEUE);
	assert_int_equal(im.mark_bytes, 0);
}

/* ---- which packets, and what of them ---- */

enum { PAYLOAD = 16 };

static const struct rocemu_gid peer = {.raw = {[10] = 0xff, 0xff, 10, 0, 0, 2}};

/* A packet of this opcode, and what the rules of im do to it. */
static struct fault_verdict put(struct faults *f, enum fault_dir dir, uint8_t opcode, uint32_t qp,
				uint32_t dqp, uint32_t psn)
{
	const struct rocemu_hdrs h = {.opcode = opcode, .dqpn = dqp, .psn = psn};
	uint8_t buf[ROCEMU_MAX_HDR_LEN + PAYLOAD + ROCEMU_ICRC_LEN] = {0};
	const bool payload = rocemu_opcode_ops(opcode) & ROCEMU_OP_PAYLOAD;
	struct fault_packet p = {.dir = dir, .qp = qp, .peer = &peer, .hdr = buf};
	struct fault_verdict v;

	p.len = (uint32_t)rocemu_hdrs_encode(&h, buf) + (payload ? PAYLOAD : 0) + ROCEMU_ICRC_LEN;
	faults_decide(f, &p, &v);
	return v;
}

static struct faults *start(const char *text)
{
	struct faults *f;

	parse(text);
	f = faults_new(im.rule, im.nrules, 1);
	assert_non_null(f);
	return f;
}

/* The numbers of those that the rule acts on, of n packets with PSNs from 1 on, alternately of two
 * QPs. */
static void assert_acts(const char *text, unsigned n, const char *expected)
{
	struct faults *f = start(text);
	char out[256] = "";

	for (unsigned i = 1; i <= n; i++) {
		struct fault_verdict v =
			put(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 0x10 + i % 2, 0x20 + i % 2, i);

		if (v.acted & 1)
			snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%u",
				 *out ? " " : "", i);
	}
	faults_free(f);
	if (strcmp(out, expected) != 0)
		fail_msg("\"%s\": \"%s\" instead of \"%s\"", text, out, expected);
}

TEST(fault_rule, counting__these_packets)
{
	assert_acts("drop", 4, "1 2 3 4");
	assert_acts("drop nth=3", 9, "3");
	assert_acts("drop nth=3..5", 9, "3 4 5");
	assert_acts("drop nth=8..", 9, "8 9");
	assert_acts("drop every=3", 9, "3 6 9");
	assert_acts("drop every=3 times=2", 30, "3 6");
	assert_acts("drop once", 9, "1");
	assert_acts("drop times=2", 9, "1 2");
	assert_acts("drop nth=5.. every=2 once", 9, "6");
	assert_acts("drop first", 9, "1 2");
	assert_acts("drop first nth=2", 9, "2");
	assert_acts("drop qp=0x10 nth=2", 9, "4");
	assert_acts("drop dqp=0x21", 5, "1 3 5");
	assert_acts("drop psn=3..4", 9, "3 4");
	assert_acts("drop psn=0x5", 9, "5");
	assert_acts("drop peer=10.0.0.2 nth=1", 9, "1");
	assert_acts("drop peer=10.0.0.3", 9, "");
	assert_acts("drop peer=::ffff:10.0.0.2 nth=2", 9, "2");
	assert_acts("drop dir=tx nth=2", 9, "2");
	assert_acts("drop dir=rx", 9, "");
	assert_acts("drop chance=0", 9, "");
	assert_acts("drop chance=100% nth=9", 9, "9");
	assert_acts("drop opcode=RC_SEND_ONLY nth=1", 9, "1");
	assert_acts("drop opcode=RC_ACK|*_SEND_* nth=1", 9, "1");
	assert_acts("drop opcode=UC_*", 9, "");
	assert_acts("drop message=2", 9, "3 4");
	assert_acts("drop message=2..3 qp=0x10", 9, "4 6");
}

TEST(fault_rule, many_packets__chance_as_asked_and_the_same_again)
{
	enum { N = 20000 };
	struct faults *a = start("drop chance=5%"), *b = start("drop chance=5%");
	unsigned dropped = 0;

	for (unsigned i = 0; i < N; i++) {
		const bool drop = put(a, FAULT_TX, ROCEMU_RC_ACK, 1, 2, i).drop;

		assert_int_equal(put(b, FAULT_TX, ROCEMU_RC_ACK, 1, 2, i).drop, drop);
		dropped += drop;
	}
	assert_in_range(dropped, N / 20 - 200, N / 20 + 200);
	faults_free(a);
	faults_free(b);
}

/* Another rule beside it, or packets that it does not mean, do not shift a rule's dice. */
TEST(fault_rule, dice__each_rule_has_its_own)
{
	struct faults *alone = start("drop chance=30% opcode=RC_ACK");
	struct faults *both = start("drop chance=30% opcode=RC_ACK;dup chance=30%");

	for (unsigned i = 0; i < 1000; i++) {
		const bool drop = put(alone, FAULT_TX, ROCEMU_RC_ACK, 1, 2, i).drop;
		struct fault_verdict v = put(both, FAULT_TX, ROCEMU_RC_ACK, 1, 2, i);

		put(both, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1, 2, i);
		assert_int_equal(v.drop, drop);
	}
	faults_free(alone);
	faults_free(both);
}

TEST(fault_rule, several_on_one_packet__all_act)
{
	struct faults *f = start("dup;dup;delay time=10us;delay time=5us;mark;corrupt bit=3;"
				 "corrupt bit=72 icrc=right;drop nth=2;drop dir=rx");
	struct fault_verdict v = put(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1, 2, 3);

	assert_int_equal(v.acted, 0x7f);
	assert_int_equal(v.matched, 0xff);
	assert_int_equal(v.dups, 2);
	assert_int_equal(v.delay_ns, 15000);
	assert_true(v.mark && !v.drop);
	assert_int_equal(v.nraw, 1);
	assert_int_equal(v.raw[0], 3);
	assert_int_equal(v.nsealed, 1);
	assert_int_equal(v.sealed[0], 72);
	assert_true(put(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1, 2, 3).drop);
	assert_true(put(f, FAULT_RX, ROCEMU_RC_SEND_ONLY, 1, 2, 3).drop);
	assert_true(faults_wants(f, FAULT_RX));
	faults_free(f);
	f = start("drop");
	assert_false(faults_wants(f, FAULT_RX));
	assert_true(faults_wants(f, FAULT_TX));
	assert_false(faults_wants(NULL, FAULT_TX));
	faults_free(f);
}

TEST(fault_rule, delay_range__within_it)
{
	struct faults *f = start("delay time=10us..20us");
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < 1000; i++) {
		struct fault_verdict v = put(f, FAULT_TX, ROCEMU_RC_ACK, 1, 2, i);

		least = MIN(least, v.delay_ns);
		most = MAX(most, v.delay_ns);
	}
	assert_in_range(least, 10000, 10200);
	assert_in_range(most, 19800, 20000);
	faults_free(f);
}

/* ---- messages ---- */

static void assert_message(struct faults *f, enum fault_dir dir, uint8_t opcode, uint32_t psn,
			   bool hit)
{
	struct fault_verdict v = put(f, dir, opcode, 5, 6, psn);

	if ((v.acted != 0) != hit)
		fail_msg("%s PSN %u %s", rocemu_opcode_name(opcode), psn, hit ? "missed" : "hit");
}

/* A SEND of len bytes: does the rule act on it? */
static bool acts_on_len(const char *text, uint32_t len)
{
	struct rocemu_hdrs h = {.opcode = ROCEMU_RC_SEND_ONLY};
	uint8_t buf[ROCEMU_MAX_HDR_LEN + PAYLOAD + 4 + ROCEMU_ICRC_LEN] = {0};
	struct fault_packet p = {.dir = FAULT_TX, .qp = 5, .peer = &peer, .hdr = buf};
	struct faults *f = start(text);
	struct fault_verdict v;

	h.pad = -len & 3;
	p.len = (uint32_t)rocemu_hdrs_encode(&h, buf) + len + h.pad + ROCEMU_ICRC_LEN;
	faults_decide(f, &p, &v);
	faults_free(f);
	return v.drop;
}

TEST(fault_rule, len__bytes_of_payload_without_the_pad)
{
	assert_true(acts_on_len("drop len=0", 0));
	assert_false(acts_on_len("drop len=0", 1));
	for (uint32_t len = 0; len <= 8; len++)
		assert_int_equal(acts_on_len("drop len=3..5", len), len >= 3 && len <= 5);
	assert_true(acts_on_len("drop len=5..", 8));
}

/* Message 2 has PSNs 12 to 14; all across the end of the PSNs. */
TEST(fault_rule, message__its_packets_their_repetitions_and_responses)
{
	const uint32_t base = 0xfffffd;
	struct faults *f = start("drop message=2; drop message=2 dir=rx");

	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, base, false);
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_FIRST, base + 1, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_MIDDLE, base + 2, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_LAST, (base + 3) & ROCEMU_PSN_MASK, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_WRITE_ONLY, (base + 4) & ROCEMU_PSN_MASK, false);
	/* Again, from the first one. */
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, base, false);
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_FIRST, base + 1, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_WRITE_ONLY, (base + 4) & ROCEMU_PSN_MASK, false);
	/* What answers them. */
	assert_message(f, FAULT_RX, ROCEMU_RC_ACK, base, false);
	assert_message(f, FAULT_RX, ROCEMU_RC_ACK, base + 2, true);
	assert_message(f, FAULT_RX, ROCEMU_RC_ACK, (base + 4) & ROCEMU_PSN_MASK, false);
	/* The other direction counts by itself. */
	assert_message(f, FAULT_RX, ROCEMU_RC_SEND_ONLY, 100, false);
	assert_message(f, FAULT_RX, ROCEMU_RC_READ_REQUEST, 101, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_READ_RESP_FIRST, 101, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_READ_RESP_MIDDLE, 150, true);
	assert_message(f, FAULT_RX, ROCEMU_RC_SEND_ONLY, 200, false);
	assert_message(f, FAULT_TX, ROCEMU_RC_READ_RESP_LAST, 199, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_ACK, 200, false);
	faults_free(f);
}

TEST(fault_rule, message_of_ud__each_packet)
{
	struct faults *f = start("drop message=3");

	assert_message(f, FAULT_TX, ROCEMU_UD_SEND_ONLY, 7, false);
	assert_message(f, FAULT_TX, ROCEMU_UD_SEND_ONLY, 7, false);
	assert_message(f, FAULT_TX, ROCEMU_UD_SEND_ONLY, 1, true);
	assert_message(f, FAULT_TX, ROCEMU_CNP, 1, false);
	assert_message(f, FAULT_TX, ROCEMU_UD_SEND_ONLY, 2, false);
	faults_free(f);
}

TEST(fault_rule, more_messages_than_remembered__numbers_go_on)
{
	struct faults *f = start("drop message=1000");

	for (unsigned i = 1; i < 1000; i++)
		assert_message(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, i, false);
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1000, true);
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1001, false);
	assert_message(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1000, true);
	faults_free(f);
}

/* ---- corruption ---- */

/* The place of a field, by what changes when it is decoded. */
static bool differs(const char *field, const struct rocemu_packet *a, const struct rocemu_packet *b)
{
	const struct rocemu_hdrs *x = &a->h, *y = &b->h;
	const struct {
		const char *name;
		bool differs;
	} all[] = {
		{"opcode", x->opcode != y->opcode},
		{"migreq", x->migreq != y->migreq},
		{"padcnt", x->pad != y->pad},
		{"tver", x->tver != y->tver},
		{"pkey", x->pkey != y->pkey},
		{"becn", x->becn != y->becn},
		{"dqpn", x->dqpn != y->dqpn},
		{"ackreq", x->ackreq != y->ackreq},
		{"psn", x->psn != y->psn},
		{"srqn", x->xrceth.srqn != y->xrceth.srqn},
		{"qkey", x->deth.qkey != y->deth.qkey},
		{"sqpn", x->deth.sqpn != y->deth.sqpn},
		{"va", x->reth.va != y->reth.va || x->atomiceth.va != y->atomiceth.va},
		{"rkey", x->reth.rkey != y->reth.rkey || x->atomiceth.rkey != y->atomiceth.rkey},
		{"length", x->reth.length != y->reth.length},
		{"swap", x->atomiceth.swap_add != y->atomiceth.swap_add},
		{"compare", x->atomiceth.compare != y->atomiceth.compare},
		{"syndrome", x->aeth.syndrome != y->aeth.syndrome},
		{"msn", x->aeth.msn != y->aeth.msn},
		{"atomic", x->atomicack != y->atomicack},
		{"imm", x->imm != y->imm},
		{"ieth", x->ieth != y->ieth},
		{"payload",
		 a->payload_len && b->payload && memcmp(a->payload, b->payload, PAYLOAD) != 0},
		{"icrc", a->icrc != b->icrc},
	};

	for (unsigned i = 0; i < ARRAY_LEN(all); i++)
		if (!strcmp(field, all[i].name))
			return all[i].differs;
	fail_msg("no field %s", field);
	return false;
}

/* Flip each bit of the field of a packet. */
static void check_field(const char *name, uint8_t opcode)
{
	const struct rocemu_hdrs h = {.opcode = opcode};
	const bool payload = rocemu_opcode_ops(opcode) & ROCEMU_OP_PAYLOAD;
	uint8_t a[128] = {0}, b[128];
	struct rocemu_packet pa, pb;
	uint32_t first, bits, len;

	len = (uint32_t)rocemu_hdrs_encode(&h, a) + (payload ? PAYLOAD : 0) + ROCEMU_ICRC_LEN;
	if (!fault_field_place(fault_field_find(name), a, len, &first, &bits))
		return;
	assert_int_equal(rocemu_packet_decode(&pa, a, len), ROCEMU_DROP_NONE);
	for (uint32_t i = 0; i < bits; i++) {
		memcpy(b, a, sizeof(a));
		fault_flip(b, first + i);
		pb = (struct rocemu_packet){.payload_len = 0};
		rocemu_packet_decode(&pb, b, len);
		if (strcmp(name, "opcode") != 0 && strcmp(name, "padcnt") != 0 &&
		    strcmp(name, "tver") != 0)
			assert_int_equal(pa.h.opcode, pb.h.opcode);
		if (!differs(name, &pa, &pb))
			fail_msg("%s of %s: bit %u", name, rocemu_opcode_name(opcode), i);
	}
}

TEST(fault_field, every_field_of_every_opcode__where_the_decoder_finds_it)
{
	char names[256];
	unsigned n = 0;

	snprintf(names, sizeof(names), "%s", fault_field_names());
	for (char *rest = names, *name; (name = strsep(&rest, ", ")) != NULL;) {
		if (!*name)
			continue;
		n++;
		assert_true(fault_field_find(name) >= 0);
		for (unsigned op = 0; op < 256; op++)
			if (rocemu_opcode_hdr_len((uint8_t)op))
				check_field(name, (uint8_t)op);
	}
	assert_int_equal(n, 24);
}

TEST(fault_field, none_of_that_name_in_the_packet__rule_does_not_match)
{
	struct faults *f = start("corrupt field=syndrome;corrupt field=payload;corrupt bit=130");

	assert_int_equal(put(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1, 2, 3).matched, 6);
	assert_int_equal(put(f, FAULT_TX, ROCEMU_RC_ACK, 1, 2, 3).matched, 5);
	assert_int_equal(put(f, FAULT_TX, ROCEMU_RC_SEND_MIDDLE, 1, 2, 3).matched, 6);
	faults_free(f);
}

TEST(fault_field, no_field_named__any_bit_before_the_icrc)
{
	struct faults *f = start("corrupt");
	const uint32_t bits = (ROCEMU_BTH_LEN + PAYLOAD) * 8;
	uint32_t least = bits, most = 0;

	for (unsigned i = 0; i < 5000; i++) {
		struct fault_verdict v = put(f, FAULT_TX, ROCEMU_RC_SEND_ONLY, 1, 2, i);

		assert_int_equal(v.nraw, 1);
		least = MIN(least, v.raw[0]);
		most = MAX(most, v.raw[0]);
	}
	assert_int_equal(least, 0);
	assert_int_equal(most, bits - 1);
	faults_free(f);
}
