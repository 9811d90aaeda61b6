/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests UD over IPv6: the address handle's values are in the network header that the receiver gets.
 */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dev.h"

enum {
	GRH = 40,
	LEN = 100,
	QKEY = 0x11111111,
	AT = 1024,
	TCLASS = 0x68,
	HOPS = 33,
	LABEL = 0x54321
};

static struct ibv_ah *make_ah(struct dev *d, uint32_t label)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.hop_limit = HOPS, .traffic_class = TCLASS, .flow_label = label},
	};
	static const uint8_t loopback[16] = {[15] = 1};

	for (int i = 0; !ibv_query_gid(d->ctx, 1, i, &a.grh.dgid); i++) {
		if (memcmp(a.grh.dgid.raw, loopback, sizeof(loopback)) != 0)
			continue;
		a.grh.sgid_index = (uint8_t)i;
		return ibv_create_ah(d->pd, &a);
	}
	print_message("skipped: no IPv6 on lo\n");
	skip();
	return NULL;
}

/* @return the first word of the header that came: version, traffic class, flow label. */
static uint32_t send_to_self(struct dev *d, struct ibv_qp *qp, struct ibv_ah *ah,
			     struct ibv_ah_attr *back)
{
	struct ibv_sge sge = dev_sge(d, 0, LEN);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_grh *grh = (struct ibv_grh *)(void *)(d->mem + AT);
	struct ibv_wc wc;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	dev_post_recv(d, qp, 1, AT, GRH + LEN);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	do
		wc = dev_poll(d->cq);
	while (wc.opcode != IBV_WC_RECV);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_int_equal(ibv_init_ah_from_wc(d->ctx, 1, &wc, grh, back), 0);
	assert_int_equal(grh->hop_limit, HOPS);
	return ntohl(grh->version_tclass_flow);
}

TEST(grh, flow_label_and_traffic_class__as_the_sender_set_them)
{
	static const uint32_t labels[] = {LABEL, 0, 0xfffff, 1};
	struct ibv_ah_attr back;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(qp, NULL);
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_ah *ah = make_ah(&d, labels[i]);

		assert_int_equal(send_to_self(&d, qp, ah, &back),
				 6u << 28 | TCLASS << 20 | labels[i]);
		assert_int_equal(back.grh.flow_label, labels[i]);
		assert_int_equal(back.grh.traffic_class, TCLASS);
		assert_int_equal(ibv_destroy_ah(ah), 0);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

/* From <linux/in6.h>, which cannot be had beside <netinet/in.h>. */
struct label_req {
	struct in6_addr dst;
	uint32_t label;
	uint8_t action, share;
	uint16_t flags, expires, linger;
	uint32_t pad;
};

/* While a process holds a label exclusively, the kernel refuses labels that were not requested. */
static void labels_refused(const char *impairment)
{
	enum { MGR = 32, GET = 0, EXCLUSIVE = 1, CREATE = 1 };
	static uint32_t
		label; /* the kernel holds one for some seconds after its socket is closed */
	struct label_req req = {.dst = IN6ADDR_LOOPBACK_INIT,
				.label = htonl(++label),
				.action = GET,
				.share = EXCLUSIVE,
				.flags = CREATE};
	struct ibv_ah_attr back;
	struct ibv_ah *ah;
	struct ibv_qp *qp;
	struct dev d;
	int fd;

	if (impairment)
		setenv("ROCEMU_IMPAIR", impairment, 1);
	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	unsetenv("ROCEMU_IMPAIR");
	dev_connect(qp, NULL);
	ah = make_ah(&d, LABEL);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IPV6, MGR, &req, sizeof(req)), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(send_to_self(&d, qp, ah, &back), 6u << 28 | TCLASS << 20);
	close(fd);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(grh, labels_refused_by_the_kernel__sent_without)
{
	labels_refused(NULL);
}

/* Packets that are late on purpose leave another way. */
TEST(grh, labels_refused_and_packets_delayed__sent_without)
{
	labels_refused("delay=1us");
}
