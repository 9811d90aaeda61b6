/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The MADs that the kernel's connection manager sent (captures cm_*): they decode to the programs'
 * parameters and re-encode to the same 256 bytes.
 */
#include "../lib/test.h"

#include <fnmatch.h>
#include <string.h>

#include <rocemu/cm.h>

#include "base/util.h"
#include "golden.h"

/* Default ports of rping and udaddy, and of rdma_client and ucmatose. */
enum { RPING_PORT = 7174, UCMATOSE_PORT = 7471, MTU_1024 = 3 };

static const struct rocemu_gid client4 = {{[10] = 0xff, 0xff, 10, 77, 0, 2}};
static const struct rocemu_gid server4 = {{[10] = 0xff, 0xff, 10, 77, 0, 3}};
static const struct rocemu_gid client6 = {{0xfd, 0x77, [15] = 2}},
			       server6 = {{0xfd, 0x77, [15] = 3}};

typedef void msg_fn(const char *file, const struct capture_rec *rec, const struct rocemu_cm_msg *m,
		    void *user);

struct walk {
	const char *pattern; /* of file names */
	uint16_t attr_id;    /* 0: all */
	msg_fn *fn;
	void *user;
	unsigned count;
};

static void walk_packet(const char *file, const struct capture_rec *rec, void *user)
{
	struct walk *w = user;
	struct rocemu_packet p;
	struct rocemu_cm_msg m;

	if (fnmatch(w->pattern, file, 0) != 0)
		return;
	assert_int_equal(rocemu_packet_decode(&p, rec->data, rec->len), ROCEMU_DROP_NONE);
	if (p.h.opcode != ROCEMU_UD_SEND_ONLY || p.h.dqpn != ROCEMU_GSI_QPN)
		return;
	assert_int_equal(p.h.deth.qkey, ROCEMU_GSI_QKEY);
	assert_int_equal(rocemu_cm_decode(&m, p.payload, p.payload_len), ROCEMU_MAD_OK);
	if (w->attr_id != 0 && w->attr_id != m.attr_id)
		return;
	w->count++;
	w->fn(file, rec, &m, w->user);
}

/* @return messages seen. */
static unsigned walk(const char *pattern, uint16_t attr_id, msg_fn *fn, void *user)
{
	struct walk w = {.pattern = pattern, .attr_id = attr_id, .fn = fn, .user = user};

	golden_for_each(walk_packet, &w);
	return w.count;
}

static void check_reencode(const char *file, const struct capture_rec *rec,
			   const struct rocemu_cm_msg *m, void *user)
{
	uint8_t buf[ROCEMU_MAD_LEN];
	struct rocemu_packet p;

	(void)user;
	rocemu_packet_decode(&p, rec->data, rec->len);
	memset(buf, 0xa5, sizeof(buf));
	assert_int_equal(rocemu_cm_encode(m, buf), ROCEMU_MAD_LEN);
	if (memcmp(buf, p.payload, sizeof(buf)) != 0)
		fail_msg("%s: MAD of packet %u re-encodes differently", file,
			 (unsigned)rec->number);
	/* TID: the MAD agent, then the beginner's communication ID with its bytes swapped. */
	assert_int_equal(m->tid >> 32, 2);
}

TEST(golden_mad, every_one__encodes_to_the_same_bytes)
{
	/* README: 6 + 2 + 5 + 5 + 5 + 2 */
	assert_int_equal(walk("*", 0, check_reencode, NULL), 25);
}

static void note_name(const char *file, const struct capture_rec *rec,
		      const struct rocemu_cm_msg *m, void *user)
{
	(void)file;
	(void)rec;
	strcat(strcat(user, rocemu_cm_name(m->attr_id)), " ");
}

TEST(golden_mad, sequence_per_file__as_readme_says)
{
	static const struct {
		const char *file, *names;
	} t[] = {
		{"cm_rdma_client.pcap", "REQ REP RTU DREQ DREQ DREP "},
		{"cm_reject_no_listener.pcap", "REQ REJ "},
		{"cm_rping.pcap", "REQ REP RTU DREQ DREP "},
		{"cm_rping_ipv6.pcap", "REQ REP RTU DREQ DREP "},
		{"cm_ucmatose.pcap", "REQ REP RTU DREQ DREP "},
		{"cm_udaddy.pcap", "SIDR_REQ SIDR_REP "},
	};

	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		char names[128] = "";

		walk(t[i].file, 0, note_name, names);
		assert_string_equal(names, t[i].names);
	}
}

static void check_cma(const struct capture_rec *rec, const uint8_t *private_data, size_t len)
{
	bool ipv4 = rocemu_gid_is_ipv4(&rec->ip.src);
	struct rocemu_cma c;

	assert_int_equal(rocemu_cma_decode(&c, private_data, len), ROCEMU_MAD_OK);
	assert_int_equal(c.ip_version, ipv4 ? 4 : 6);
	assert_true(c.sport >= 32768); /* ephemeral */
	assert_memory_equal(&c.src, ipv4 ? &client4 : &client6, sizeof(c.src));
	assert_memory_equal(&c.dst, ipv4 ? &server4 : &server6, sizeof(c.dst));
}

static void check_req(const char *file, const struct capture_rec *rec,
		      const struct rocemu_cm_msg *m, void *user)
{
	static const struct rocemu_cm_path none;
	const struct rocemu_cm_req *q = &m->req;
	bool rping = strncmp(file, "cm_rping", 8) == 0 || strncmp(file, "cm_reject", 9) == 0;

	(void)user;
	assert_int_equal((uint32_t)m->tid, __builtin_bswap32(q->local_comm_id));
	assert_int_equal(q->service_id,
			 rocemu_cm_service_id(ROCEMU_PS_TCP, rping ? RPING_PORT : UCMATOSE_PORT));
	assert_int_equal(q->local_ca_guid, 0x505400fffe770002);
	assert_int_equal(q->transport, ROCEMU_CM_RC);
	assert_int_equal(q->remote_cm_timeout, 20);
	assert_int_equal(q->local_cm_timeout, 20);
	assert_int_equal(q->pkey, 0xffff);
	assert_int_equal(q->path_mtu, MTU_1024);
	assert_int_equal(q->max_cm_retries, 15);
	assert_int_equal(q->primary.local_lid, 0xffff);
	assert_int_equal(q->primary.remote_lid, 0xffff);
	assert_memory_equal(&q->primary.local_gid, &rec->ip.src, 16);
	assert_memory_equal(&q->primary.remote_gid, &rec->ip.dst, 16);
	assert_int_not_equal(q->primary.flow_label, 0);
	assert_int_equal(q->primary.hop_limit, 64);
	assert_false(q->primary.subnet_local);
	assert_int_equal(q->primary.ack_timeout, 19);
	assert_memory_equal(&q->alternate, &none, sizeof(none));
	check_cma(rec, q->private_data, sizeof(q->private_data));
}

TEST(golden_mad, every_req__what_the_client_asked_for)
{
	assert_int_equal(walk("*", ROCEMU_CM_REQ, check_req, NULL), 5);
}

static void copy_msg(const char *file, const struct capture_rec *rec, const struct rocemu_cm_msg *m,
		     void *user)
{
	(void)file;
	(void)rec;
	*(struct rocemu_cm_msg *)user = *m;
}

static struct rocemu_cm_msg only(const char *file, uint16_t attr_id)
{
	struct rocemu_cm_msg m;

	assert_int_equal(walk(file, attr_id, copy_msg, &m), 1);
	return m;
}

TEST(golden_mad, rping__one_connection_through_its_life)
{
	struct rocemu_cm_msg req = only("cm_rping.pcap", ROCEMU_CM_REQ),
			     rep = only("cm_rping.pcap", ROCEMU_CM_REP);
	struct rocemu_cm_msg rtu = only("cm_rping.pcap", ROCEMU_CM_RTU),
			     dreq = only("cm_rping.pcap", ROCEMU_CM_DREQ);
	struct rocemu_cm_msg drep = only("cm_rping.pcap", ROCEMU_CM_DREP);
	uint32_t client = 0xdbe82725, server = 0xcbad23d8;

	assert_int_equal(req.tid, 0x000000022527e8db);
	assert_int_equal(req.req.local_comm_id, client);
	assert_int_equal(req.req.local_qpn, 0x45);
	assert_int_equal(req.req.starting_psn, 14768156);
	assert_int_equal(req.req.responder_resources, 1);
	assert_int_equal(req.req.initiator_depth, 1);
	assert_int_equal(req.req.retry_count, 7);
	assert_int_equal(req.req.rnr_retry_count, 7);
	assert_int_equal(req.req.primary.flow_label, 0xbc5b5); /* gives UDP source port 50586 */

	assert_int_equal(rep.tid, req.tid);
	assert_int_equal(rep.rep.local_comm_id, server);
	assert_int_equal(rep.rep.remote_comm_id, client);
	assert_int_equal(rep.rep.local_qpn, 0x45);
	assert_int_equal(rep.rep.starting_psn, 2175301);
	assert_int_equal(rep.rep.target_ack_delay, 15);
	assert_int_equal(rep.rep.failover_accepted, 0);
	assert_int_equal(rep.rep.rnr_retry_count, 7);
	assert_int_equal(rep.rep.local_ca_guid, 0x505400fffe770003);

	assert_int_equal(rtu.tid, req.tid);
	assert_int_equal(rtu.rtu.local_comm_id, client);
	assert_int_equal(rtu.rtu.remote_comm_id, server);
	assert_int_equal(dreq.dreq.local_comm_id, client);
	assert_int_equal(dreq.dreq.remote_comm_id, server);
	assert_int_equal(dreq.dreq.remote_qpn, rep.rep.local_qpn);
	assert_int_equal(drep.tid, dreq.tid);
	assert_int_equal(drep.drep.local_comm_id, server);
	assert_int_equal(drep.drep.remote_comm_id, client);
}

TEST(golden_mad, no_listener__reason_8)
{
	struct rocemu_cm_msg req = only("cm_reject_no_listener.pcap", ROCEMU_CM_REQ);
	struct rocemu_cm_msg rej = only("cm_reject_no_listener.pcap", ROCEMU_CM_REJ);

	assert_int_equal(rej.tid, req.tid);
	assert_int_equal(rej.rej.local_comm_id, 0);
	assert_int_equal(rej.rej.remote_comm_id, req.req.local_comm_id);
	assert_int_equal(rej.rej.answered, ROCEMU_CM_TO_REQ);
	assert_int_equal(rej.rej.ari_len, 0);
	assert_int_equal(rej.rej.reason, ROCEMU_CM_REJ_SERVICE_ID);
}

static void check_sidr_req(const char *file, const struct capture_rec *rec,
			   const struct rocemu_cm_msg *m, void *user)
{
	(void)file;
	(void)user;
	check_cma(rec, m->sidr_req.private_data, sizeof(m->sidr_req.private_data));
}

TEST(golden_mad, udaddy__service_resolved)
{
	struct rocemu_cm_msg req = only("cm_udaddy.pcap", ROCEMU_CM_SIDR_REQ);
	struct rocemu_cm_msg rep = only("cm_udaddy.pcap", ROCEMU_CM_SIDR_REP);

	assert_int_equal(req.sidr_req.service_id, rocemu_cm_service_id(ROCEMU_PS_UDP, RPING_PORT));
	assert_int_equal(req.sidr_req.pkey, 0xffff);
	assert_int_equal((uint32_t)req.tid, __builtin_bswap32(req.sidr_req.request_id));
	walk("cm_udaddy.pcap", ROCEMU_CM_SIDR_REQ, check_sidr_req, NULL);
	assert_int_equal(rep.tid, req.tid);
	assert_int_equal(rep.sidr_rep.request_id, req.sidr_req.request_id);
	assert_int_equal(rep.sidr_rep.status, ROCEMU_CM_SIDR_VALID);
	assert_int_equal(rep.sidr_rep.service_id, req.sidr_req.service_id);
	assert_int_equal(rep.sidr_rep.qpn, 0x48);
	assert_int_equal(rep.sidr_rep.qkey, 0x01234567);
}
