/* SPDX-License-Identifier: BSD-2-Clause */
#include "faulty.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

enum { PATIENCE_MS = 20000 };

void faulty_set_rules(const char *rules)
{
	static unsigned number;
	char text[512];

	setenv("ROCEMU_IMPAIR_SUMMARY", "off", 1);
	snprintf(text, sizeof(text), "%s # %u", rules, ++number);
	setenv("ROCEMU_IMPAIR", text, 1);
}

void faulty_open(struct dev *d, const char *rules)
{
	faulty_set_rules(rules);
	dev_open(d);
	unsetenv("ROCEMU_IMPAIR");
}

void faulty_expect_event(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&pfd, 1, PATIENCE_MS) != 1)
		fail_msg("no %s", ibv_event_type_str(type));
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_string_equal(ibv_event_type_str(ev.event_type), ibv_event_type_str(type));
	ibv_ack_async_event(&ev);
}

void pair_open(struct pair *p, uint64_t ops, const char *rules)
{
	faulty_open(&p->d, rules);
	p->a = dev_qp(&p->d, IBV_QPT_RC, ops);
	p->b = dev_qp(&p->d, IBV_QPT_RC, 0);
	dev_connect(p->a, p->b);
}

void pair_close(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	dev_close(&p->d);
}

int pair_write(struct pair *p, struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = dev_sge(&p->d, 0, PAIR_LEN);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)p->d.mem + 4096, .rkey = p->d.mr->rkey},
	};
	struct ibv_send_wr *bad = NULL;
	const int ret = ibv_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, ret ? &wr : NULL);
	return ret;
}

void pair_expect_wc(struct pair *p, uint64_t wr_id, enum ibv_wc_status status)
{
	const struct ibv_wc wc = dev_poll(p->d.cq);

	if (wc.wr_id != wr_id || wc.status != status)
		fail_msg("%u %s", (unsigned)wc.wr_id, ibv_wc_status_str(wc.status));
}

enum ibv_qp_state pair_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}
