/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to QP 1 in scenarios: a device of a few lines answers them. */
#include "test.h"

#include <rocemu/cm.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "scenario/peer.h"
#include "wire/gsi.h"

enum {
	PEER_QPN = 0x1c005,
	DEVICE_QPN = 0x77,
	DEVICE_ID = 0x4711,
	SPORT = 0xc123,
	PORT = 7174,
	/* Services to which the device answers in a wrong way. */
	OTHER_ID = 0xbad1,
	OTHER_TID = 0xbad2,
	OTHER_KEY = 0xbad3,
	NO_CM = 0xbad4,
	NEW_ID = 0xbad5, /* a new one of its own in each answer */
};

/** The world: the peer, and the device's last packet. */
static struct {
	struct scenario_setup setup;
	struct scenario_peer peer;
	uint32_t comm_id; /* of the peer, of the exchange that was begun last */
	uint64_t tid;
	uint32_t new_id;
	struct rocemu_packet last;
	uint8_t payload[ROCEMU_MAX_MTU];
	char text[SCENARIO_LINE_MAX];
} w;

static const struct rocemu_gid peer_gid = {{[10] = 0xff, 0xff, 127, 0, 0, 2}};
static const struct rocemu_gid device_gid = {{[10] = 0xff, 0xff, 127, 0, 0, 1}};

static void *start(const struct scenario_setup *s, int *error)
{
	memset(&w, 0, sizeof(w));
	*error = 0;
	w.setup = *s;
	w.peer = (struct scenario_peer){.setup = &w.setup,
					.gid = peer_gid,
					.device_gid = device_gid,
					.qpn = PEER_QPN,
					.device_qpn = ROCEMU_GSI_QPN,
					.sport = SPORT};
	return &w;
}

static void end(void *world)
{
	(void)world;
}

/** A message of the device comes to the peer. */
static void answer(const struct rocemu_cm_msg *m, uint64_t service)
{
	struct gsi_mad g = {.src = device_gid, .dst = peer_gid, .sport = SPORT};
	uint8_t packet[GSI_PACKET_LEN];
	char text[SCENARIO_LINE_MAX - 32];

	rocemu_cm_encode(m, g.mad);
	if (service == NO_CM)
		g.mad[1] = 4;
	gsi_hdr_encode(&g, 0);
	if (service == OTHER_KEY)
		g.hdr[15] ^= 1;
	gsi_packet_encode(&g, packet);
	assert_int_equal(rocemu_packet_decode(&w.last, packet, sizeof(packet)), ROCEMU_DROP_NONE);
	scenario_packet_text(&w.setup, 0, &w.last, text, sizeof(text));
	snprintf(w.text, sizeof(w.text), "%s%s", text,
		 scenario_packet_fault(&w.peer, SPORT, packet, sizeof(packet), &w.last.h));
	scenario_peer_take_mad(&w.peer, w.last.payload, w.last.payload_len);
	memcpy(w.payload, w.last.payload, w.last.payload_len);
	w.last.payload = NULL;
}

static void answer_req(const struct rocemu_cm_msg *m)
{
	const struct rocemu_cm_req *q = &m->req;
	struct rocemu_cm_msg a = {.attr_id = ROCEMU_CM_REJ,
				  .tid = m->tid ^ (q->service_id == OTHER_TID),
				  .rej = {.reason = ROCEMU_CM_REJ_SERVICE_ID}};
	struct rocemu_cma c;

	w.comm_id = q->local_comm_id;
	w.tid = m->tid;
	if (q->service_id == NEW_ID)
		a.rej.local_comm_id = ++w.new_id;
	a.rej.remote_comm_id = w.comm_id ^ (q->service_id == OTHER_ID);
	if (q->service_id == rocemu_cm_service_id(ROCEMU_PS_TCP, PORT)) {
		assert_int_equal(rocemu_cma_decode(&c, q->private_data, sizeof(q->private_data)),
				 ROCEMU_MAD_OK);
		assert_int_equal(c.ip_version, 4);
		assert_true(rocemu_gid_equal(&c.src, &peer_gid));
		assert_true(rocemu_gid_equal(&c.dst, &device_gid));
		a = (struct rocemu_cm_msg){.attr_id = ROCEMU_CM_REP,
					   .tid = m->tid,
					   .rep = {.local_comm_id = DEVICE_ID,
						   .remote_comm_id = w.comm_id,
						   .local_qpn = DEVICE_QPN}};
	}
	answer(&a, q->service_id);
}

/** What the device does with a right message. */
static void receive(const struct rocemu_cm_msg *m)
{
	struct rocemu_cm_msg a = {.attr_id = ROCEMU_CM_DREP, .tid = m->tid};

	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		answer_req(m);
		break;
	case ROCEMU_CM_RTU:
		assert_int_equal(m->rtu.remote_comm_id, DEVICE_ID);
		assert_int_equal(m->rtu.local_comm_id, w.comm_id);
		assert_int_equal(m->tid, w.tid);
		break;
	case ROCEMU_CM_DREQ:
		assert_int_equal(m->dreq.remote_comm_id, DEVICE_ID);
		assert_int_equal(m->dreq.remote_qpn, DEVICE_QPN);
		a.drep.local_comm_id = DEVICE_ID;
		a.drep.remote_comm_id = m->dreq.local_comm_id;
		answer(&a, 0);
		break;
	case ROCEMU_CM_SIDR_REQ:
		a.attr_id = ROCEMU_CM_SIDR_REP;
		a.sidr_rep.request_id = m->sidr_req.request_id;
		a.sidr_rep.status = ROCEMU_CM_SIDR_SERVICE_ID;
		answer(&a, 0);
		break;
	default:
		snprintf(w.text, sizeof(w.text), "%s CAME", rocemu_cm_name(m->attr_id));
		break;
	}
}

static int input(void *world, const struct scenario_packet *given)
{
	static uint32_t comm_id;
	struct gsi_mad g = {.src = peer_gid, .dst = device_gid};
	uint8_t data[ROCEMU_MAX_PACKET];
	struct scenario_packet p = *given;
	struct rocemu_cm_msg m;
	size_t hdr_len, len;

	(void)world;
	scenario_peer_begin_mad(&w.peer, given, given->again ? 0 : ++comm_id);
	scenario_peer_complete(&w.peer, &p);
	len = scenario_peer_encode(&w.peer, &p, data, &hdr_len);
	g.sport = p.sport;
	if (gsi_packet_decode(&g, data, len) == GSI_OK &&
	    rocemu_cm_decode(&m, g.mad, sizeof(g.mad)) == ROCEMU_MAD_OK)
		receive(&m);
	return 0;
}

static const char *effects(void *world, unsigned which, unsigned n)
{
	static char taken[SCENARIO_LINE_MAX];

	(void)world;
	(void)which;
	(void)n;
	memcpy(taken, w.text, sizeof(taken));
	w.text[0] = 0;
	return taken;
}

static const struct rocemu_packet *last(void *world, unsigned which)
{
	(void)world;
	(void)which;
	return &w.last;
}

static uint8_t *memory(void *world, unsigned which, enum scenario_area area)
{
	(void)world;
	(void)which;
	(void)area;
	return w.payload;
}

static uint32_t comm_id_of(void *world)
{
	(void)world;
	return w.peer.exchange.comm_id;
}

static const struct scenario_backend device = {
	.comm_id = comm_id_of,
	.start = start,
	.end = end,
	.input = input,
	.effects = effects,
	.last = last,
	.memory = memory,
};

/** "ok", or "line:column: text". */
static const char *run(const char *lines)
{
	static char out[512];
	struct scenario_result r = {0};
	char text[512];
	struct scenario *s;

	snprintf(text, sizeof(text), "case a\nqp UD\n%s", lines);
	s = scenario_read(text, strlen(text), "x", &r.error);
	scenario_run(s, 0, 0, &device, NULL, &r);
	snprintf(out, sizeof(out), "%u:%u: %.400s", r.error.line, r.error.column, r.error.text);
	scenario_free(s);
	return r.verdict == SCENARIO_PASS ? "ok" : out;
}

static void check(const char *const *rows, size_t n)
{
	for (size_t i = 0; i < n; i += 2)
		assert_string_equal(run(rows[i]), rows[i + 1]);
}
#define CHECK(rows) check(rows, ARRAY_LEN(rows))

TEST(mad, message__what_is_not_given_is_right)
{
	static const char *const rows[] = {
		"< mad REQ service_id 1\nexpect REJ 8 to REQ\n",
		"ok",
		"< mad REQ sport 9\nexpect REJ 8 to REQ\nlast reason 8 answered 0 status 0 qkey "
		"0x80010000\n",
		"ok",
		"< mad SIDR_REQ service_id 1\nexpect SIDR_REP 1\nlast cm_status 1 qpn 0 attr_id "
		"0x18\n",
		"ok",
		"< mad REQ service_id 0x1061c06\nexpect REP\nlast local_qpn 0x77\n< mad RTU\n< mad "
		"DREQ\nexpect DREP\n",
		"ok",
		"< mad REQ local_comm_id 0x1234 tid 0x56\nexpect REJ 8 to REQ\nlast remote_comm_id "
		"0x1234 tid 0x56\n",
		"ok",
		"< mad REQ service_id 0x1061c06\nexpect REP\nlet id comm_id\n< again\nexpect REP\n"
		"last remote_comm_id id tid id\n< mad REQ\nexpect REJ 8 to REQ\nlast "
		"remote_comm_id id+1\n",
		"ok",
		"< mad REQ reserved 1 dscp 63 ecn 1\nexpect REJ 8 to REQ\n",
		"ok",
		"< mad LAP\nexpect LAP CAME\n< mad APR\nexpect APR CAME\n< mad MRA\nexpect MRA "
		"CAME\n< mad REP\nexpect REP CAME\n< mad SIDR_REP\nexpect SIDR_REP CAME\n",
		"ok",
		"< mad REQ primary.local_gid 20010db8000000000000000000000001 private_data 0102 "
		"path_mtu 5\nexpect REJ 8 to REQ\n",
		"ok",
	};

	CHECK(rows);
}

TEST(mad, message__wrong_where_the_line_says_so)
{
	static const char *const wrong[] = {
		"bad_icrc 1",	"qkey 5",	   "dqpn 2",	  "opcode RC_SEND_ONLY",
		"pkey 0x1234",	"class_version 1", "mad_class 3", "base_version 2",
		"mad_len 255",	"mad_len 257",	   "mad_len 0",	  "method 0x81",
		"attr_id 0x99", "tver 1",
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		snprintf(text, sizeof(text), "< mad REQ %s\nexpect nothing\n", wrong[i]);
		assert_string_equal(run(text), "ok");
	}
}

TEST(mad, line__wrong_word__refused_with_its_place)
{
	static const char *const rows[] = {
		"< mad\n",
		"3:3: a message is expected behind 'mad'",
		"< mad RPE\n",
		"3:7: 'RPE' is not a message of communication management",
		"< mad REQ reason 1\n",
		"3:11: 'reason' is not known here",
		"< mad REQ path_mtu 16\n",
		"3:20: '16' is larger than 15, or negative",
		"< mad REQ mad_len 301\n",
		"3:19: '301' is larger than 300, or negative",
		"< mad REQ primary.local_gid 1\n",
		"3:29: '1': a byte is two of 0..9 and a..f",
		"< mad REQ primary.local_gid 0102030405060708090a0b0c0d0e0f1011\n",
		"3:29: 'primary.local_gid' has 16 bytes",
		"< mad REQ bytes 00\n",
		"3:17: the payload is the message, not 'bytes'",
		"< mad REQ opcode X\n",
		"3:18: 'X' is not an opcode",
	};

	CHECK(rows);
}

TEST(mad, answer__in_another_way__its_text_says_so)
{
	static const char *const rows[] = {
		"< mad REQ service_id 0xbad1\nexpect REJ 8 to REQ WITH ANOTHER COMM_ID\n",
		"ok",
		"< mad REQ service_id 0xbad2\nexpect REJ 8 to REQ WITH ANOTHER TID\n",
		"ok",
		"< mad REQ service_id 0xbad3\nexpect REJ 8 to REQ WITH ANOTHER Q_KEY\n",
		"ok",
		"< mad REQ service_id 0xbad5\nexpect REJ 8 to REQ\n< again\nexpect REJ 8 to REQ "
		"FROM "
		"ANOTHER COMM_ID\n",
		"ok",
		"< mad REQ service_id 0xbad4\nexpect MAD class 4 method 3 attr_id 18 status 0\n",
		"ok",
		"< mad REQ\nexpect REJ 8 to REQ\nlast answered 0 reason 9\n",
		"5:0: reason is 0x8, not 0x9",
		"< mad REQ\nexpect REJ 8 to REQ\nlast ari 01\n",
		"5:0: ari has other bytes",
		"< mad REQ\nexpect REJ 8 to REQ\nlast reason 8 service_id 1\n",
		"5:15: 'service_id' is not known here",
		"< mad REQ\nexpect REJ 8 to REQ\nlast status 1\n",
		"5:0: status is 0x0, not 0x1",
	};

	CHECK(rows);
}

TEST(mad, not_a_mad__or_too_short__has_a_text)
{
	static const uint8_t bytes[ROCEMU_MAD_LEN];
	char text[64];

	scenario_mad_text(bytes, 0, text, sizeof(text));
	assert_string_equal(text, "MAD of 0 bytes");
	scenario_mad_text(bytes, sizeof(bytes), text, sizeof(text));
	assert_string_equal(text, "MAD of 256 bytes");
}
