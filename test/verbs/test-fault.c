/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose that are not a packet's (ROCEMU_IMPAIR, rules by verb): each looks as the real
 * failure does, and what is not concerned goes on. In processes of their own:
 * test/prog/cases_faults.py.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "faulty.h"

/* ---- calls that make something ---- */

static void *make_pd(struct dev *d)
{
	return ibv_alloc_pd(d->ctx);
}

static int end_pd(void *o)
{
	return ibv_dealloc_pd(o);
}

static void *make_mr(struct dev *d)
{
	return ibv_reg_mr(d->pd, d->mem, 4096, IBV_ACCESS_LOCAL_WRITE);
}

static void *make_mr_flags(struct dev *d)
{
	/* As ibv_reg_mr() calls it with flags that the compiler does not see. */
	return ibv_reg_mr_iova2(d->pd, d->mem, 4096, (uintptr_t)d->mem, IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *o)
{
	return ibv_dereg_mr(o);
}

static void *make_channel(struct dev *d)
{
	return ibv_create_comp_channel(d->ctx);
}

static int end_channel(void *o)
{
	return ibv_destroy_comp_channel(o);
}

static void *make_cq(struct dev *d)
{
	return ibv_create_cq(d->ctx, 4, NULL, NULL, 0);
}

static void *make_cq_ex(struct dev *d)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 4};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(d->ctx, &a);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static int end_cq(void *o)
{
	return ibv_destroy_cq(o);
}

static void *make_srq(struct dev *d)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 4, .max_sge = 1}};

	return ibv_create_srq(d->pd, &a);
}

static int end_srq(void *o)
{
	return ibv_destroy_srq(o);
}

static void *make_qp(struct dev *d)
{
	struct ibv_qp_init_attr a = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(d->pd, &a);
}

static int end_qp(void *o)
{
	return ibv_destroy_qp(o);
}

static void *make_ah(struct dev *d)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};

	assert_int_equal(ibv_query_gid(d->ctx, 1, 0, &a.grh.dgid), 0);
	return ibv_create_ah(d->pd, &a);
}

static int end_ah(void *o)
{
	return ibv_destroy_ah(o);
}

static void *make_mw(struct dev *d)
{
	return ibv_alloc_mw(d->pd, IBV_MW_TYPE_2);
}

static int end_mw(void *o)
{
	return ibv_dealloc_mw(o);
}

static void *make_dm(struct dev *d)
{
	struct ibv_alloc_dm_attr a = {.length = 4096};

	return ibv_alloc_dm(d->ctx, &a);
}

static int end_dm(void *o)
{
	return ibv_free_dm(o);
}

static void *make_xrcd(struct dev *d)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(d->ctx, &a);
}

static int end_xrcd(void *o)
{
	return ibv_close_xrcd(o);
}

static const struct maker {
	const char *verb;
	void *(*make)(struct dev *d);
	int (*end)(void *o);
	unsigned by_dev_open; /* calls of it */
} makers[] = {
	{"ibv_alloc_pd", make_pd, end_pd, 1},
	{"ibv_reg_mr", make_mr, end_mr, 1},
	{"ibv_reg_mr", make_mr_flags, end_mr, 1},
	{"ibv_create_comp_channel", make_channel, end_channel, 1},
	{"ibv_create_cq", make_cq, end_cq, 1},
	{"ibv_create_cq", make_cq_ex, end_cq, 1},
	{"ibv_create_srq", make_srq, end_srq, 0},
	{"ibv_create_qp", make_qp, end_qp, 0},
	{"ibv_create_ah", make_ah, end_ah, 0},
	{"ibv_alloc_mw", make_mw, end_mw, 0},
	{"ibv_alloc_dm", make_dm, end_dm, 0},
	{"ibv_open_xrcd", make_xrcd, end_xrcd, 0},
};

TEST(fault, creating_calls__the_second_of_three_fails)
{
	for (unsigned i = 0; i < ARRAY_LEN(makers); i++) {
		const struct maker *m = &makers[i];
		char rule[128];
		struct dev d;

		snprintf(rule, sizeof(rule), "fail verb=%s nth=%u errno=ENOSPC", m->verb,
			 m->by_dev_open + 2);
		faulty_open(&d, rule);
		for (int n = 1; n <= 3; n++) {
			void *o;

			errno = 0;
			o = m->make(&d);
			if (!o != (n == 2))
				fail_msg("%s, call %d: %s", rule, n, strerror(errno));
			if (o)
				assert_int_equal(m->end(o), 0);
			else
				assert_int_equal(errno, ENOSPC);
		}
		dev_close(&d);
	}
}

TEST(fault, open_device__null_and_errno)
{
	struct ibv_device **list;
	struct ibv_context *ctx;

	dev_namespace();
	faulty_set_rules("fail verb=ibv_open_device times=1 errno=ENODEV");
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	errno = 0;
	assert_null(ibv_open_device(list[0]));
	assert_int_equal(errno, ENODEV);
	ctx = ibv_open_device(list[0]);
	assert_non_null(ctx);
	unsetenv("ROCEMU_IMPAIR");
	ibv_free_device_list(list);
	assert_int_equal(ibv_close_device(ctx), 0);
}

TEST(fault, wrong_rule__device_not_opened)
{
	struct ibv_device **list;

	dev_namespace();
	setenv("ROCEMU_IMPAIR", "fail verb=ibv_frobnicate", 1);
	list = ibv_get_device_list(NULL);
	errno = 0;
	assert_null(ibv_open_device(list[0]));
	assert_int_equal(errno, EINVAL);
	unsetenv("ROCEMU_IMPAIR");
	ibv_free_device_list(list);
}

TEST(fault, queries__fail_as_they_do)
{
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	struct ibv_gid_entry e;
	union ibv_gid gid;
	struct dev d;

	faulty_open(&d, "fail verb=ibv_query_device nth=1..2 errno=EIO; fail verb=ibv_query_port "
			"first errno=EIO;"
			"fail verb=ibv_query_gid nth=1..2 errno=EIO");
	assert_int_equal(ibv_query_device(d.ctx, &dev), EIO);
	assert_int_equal(ibv_query_device_ex(d.ctx, NULL, &ex), EIO);
	assert_int_equal(ibv_query_device(d.ctx, &dev), 0);
	assert_int_equal(ibv_query_port(d.ctx, 1, &port), EIO);
	assert_int_equal(ibv_query_port(d.ctx, 1, &port), 0);
	assert_int_equal(ibv_query_gid(d.ctx, 1, 0, &gid), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_query_gid_ex(d.ctx, 1, 0, &e, 0), EIO);
	assert_int_equal(ibv_query_gid(d.ctx, 1, 0, &gid), 0);
	dev_close(&d);
}

/* ---- attributes and posts ---- */

TEST(fault, modify_qp__nth_fails_and_the_state_stays)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct pair p;

	/* Each QP is modified three times until it is in RTS. */
	pair_open(&p, 0, "fail verb=ibv_modify_qp nth=4 per=qp errno=EAGAIN");
	assert_int_equal(ibv_modify_qp(p.a, &a, IBV_QP_STATE), EAGAIN);
	assert_int_equal(pair_state(p.a), IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(p.a, &a, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(p.b, &a, IBV_QP_STATE), EAGAIN);
	pair_close(&p);
}

TEST(fault, post_send__nth_fails_and_nothing_of_it_is_done)
{
	struct pair p;

	pair_open(&p, 0, "fail verb=ibv_post_send nth=2");
	memset(p.d.mem, 1, PAIR_LEN);
	assert_int_equal(pair_write(&p, p.a, 1), 0);
	pair_expect_wc(&p, 1, IBV_WC_SUCCESS);
	memset(p.d.mem, 2, PAIR_LEN);
	assert_int_equal(pair_write(&p, p.a, 2), ENOMEM);
	assert_int_equal(pair_write(&p, p.b, 3), 0);
	pair_expect_wc(&p, 3, IBV_WC_SUCCESS);
	pair_close(&p);
}

TEST(fault, wr_complete__counts_as_post_send)
{
	const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE;
	struct ibv_qp_ex *qpx;
	struct pair p;

	pair_open(&p, ops, "fail verb=ibv_post_send nth=1 errno=EIO");
	qpx = ibv_qp_to_qp_ex(p.a);
	for (uint64_t i = 1; i <= 2; i++) {
		ibv_wr_start(qpx);
		qpx->wr_id = i;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qpx, p.d.mr->rkey, (uintptr_t)p.d.mem + 4096);
		ibv_wr_set_sge(qpx, p.d.mr->lkey, (uintptr_t)p.d.mem, PAIR_LEN);
		assert_int_equal(ibv_wr_complete(qpx), i == 1 ? EIO : 0);
	}
	pair_expect_wc(&p, 2, IBV_WC_SUCCESS);
	pair_close(&p);
}

TEST(fault, post_recv_and_srq__fail_with_the_first_request_as_bad)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	struct ibv_srq *srq;
	struct pair p;

	pair_open(&p, 0,
		  "fail verb=ibv_post_recv once\nfail verb=ibv_post_srq_recv once errno=EIO");
	sge = dev_sge(&p.d, 0, PAIR_LEN);
	assert_int_equal(ibv_post_recv(p.b, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_post_recv(p.b, &wr, &bad), 0);
	srq = make_srq(&p.d);
	bad = NULL;
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EIO);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	pair_close(&p);
}

/* ---- completions and CQs ---- */

TEST(fault, wc_error__in_its_turn_and_the_qp_ends)
{
	struct pair p;

	pair_open(&p, 0, "wc-error qp=first status=REM_ACCESS_ERR nth=3");
	p.d.mem[4096] = 0;
	for (uint64_t i = 1; i <= 2; i++) {
		p.d.mem[0] = (uint8_t)i;
		assert_int_equal(pair_write(&p, p.a, i), 0);
		pair_expect_wc(&p, i, IBV_WC_SUCCESS);
	}
	p.d.mem[0] = 3;
	for (uint64_t i = 3; i <= 5; i++)
		assert_int_equal(pair_write(&p, p.a, i), 0);
	pair_expect_wc(&p, 3, IBV_WC_REM_ACCESS_ERR);
	pair_expect_wc(&p, 4, IBV_WC_WR_FLUSH_ERR);
	pair_expect_wc(&p, 5, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair_state(p.a), IBV_QPS_ERR);
	assert_int_equal(p.d.mem[4096], 2);
	/* Not the first QP of the process, and it is well. */
	assert_int_equal(pair_state(p.b), IBV_QPS_RTS);
	pair_close(&p);
}

TEST(fault, wc_error_by_number__that_qp_alone)
{
	struct ibv_qp *next;
	char rule[64];
	struct pair p;

	pair_open(&p, 0, "wc-error qp=0xffffff");
	/* QPNs are assigned in sequence, per device context: this shows what a rule can use. */
	snprintf(rule, sizeof(rule), "wc-error qp=%u status=RETRY_EXC_ERR", p.a->qp_num);
	assert_int_equal(pair_write(&p, p.a, 1), 0);
	pair_expect_wc(&p, 1, IBV_WC_SUCCESS);
	faulty_set_rules(rule);
	ibv_close_device(dev_open_named("rocemu_lo"));
	unsetenv("ROCEMU_IMPAIR");
	assert_int_equal(pair_write(&p, p.b, 2), 0);
	pair_expect_wc(&p, 2, IBV_WC_SUCCESS);
	assert_int_equal(pair_write(&p, p.a, 3), 0);
	pair_expect_wc(&p, 3, IBV_WC_RETRY_EXC_ERR);
	next = make_qp(&p.d);
	assert_non_null(next);
	assert_int_equal(ibv_destroy_qp(next), 0);
	pair_close(&p);
}

TEST(fault, cq_overflow__completion_lost_and_event)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, 0, "cq-overflow nth=2 cq=first");
	assert_int_equal(pair_write(&p, p.a, 1), 0);
	pair_expect_wc(&p, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair_write(&p, p.a, 2), 0);
	faulty_expect_event(p.d.ctx, IBV_EVENT_CQ_ERR);
	assert_int_equal(ibv_poll_cq(p.d.cq, 1, &wc), 0);
	pair_close(&p);
}

/* ---- report ---- */

TEST(fault, log__has_a_line_for_each)
{
	char path[] = "/tmp/rocemu-fault-XXXXXX", text[4096] = "";
	struct dev d;
	FILE *f;

	close(mkstemp(path));
	setenv("ROCEMU_IMPAIR_LOG", path, 1);
	faulty_open(&d, "fail verb=ibv_alloc_pd nth=2..3 errno=EIO");
	assert_null(ibv_alloc_pd(d.ctx));
	assert_null(ibv_alloc_pd(d.ctx));
	dev_close(&d);
	/* Another device opened without a log: what there is, is written. */
	unsetenv("ROCEMU_IMPAIR_LOG");
	faulty_open(&d, "fail verb=ibv_alloc_pd nth=9");
	dev_close(&d);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	unlink(path);
	assert_non_null(strstr(
		text, "call \"fail verb=ibv_alloc_pd nth=2..3 errno=EIO\" ibv_alloc_pd errno=5"));
	assert_int_equal(strchr(strchr(text, '\n') + 1, '\n')[1], '\0');
}
