/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts with several lanes: which lane objects take, and that they work as if there were one. A
 * QP's number shows its lane: each lane has its own slot. More of it: test-lanes-joined.c.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lanes.h"

static struct dev d;

TEST(lanes, qps_of_different_cqs__different_lanes)
{
	struct ibv_qp *qp[4];
	struct ibv_cq *cq[4];

	lanes_open(&d, 3);
	for (unsigned i = 0; i < 4; i++) {
		cq[i] = lanes_cq(&d);
		qp[i] = lanes_qp(&d, cq[i], cq[i], NULL);
	}
	assert_int_not_equal(lanes_slot(qp[0]), lanes_slot(qp[1]));
	assert_int_not_equal(lanes_slot(qp[0]), lanes_slot(qp[2]));
	assert_int_not_equal(lanes_slot(qp[1]), lanes_slot(qp[2]));
	assert_int_equal(lanes_slot(qp[3]), lanes_slot(qp[0]));
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	}
	dev_close(&d);
}

TEST(lanes, qps_with_a_cq_or_srq_in_common__one_lane)
{
	struct ibv_cq *send = NULL, *recv[3];
	struct ibv_srq *srq;
	struct ibv_qp *qp[4];

	lanes_open(&d, 3);
	send = lanes_cq(&d);
	srq = lanes_srq(&d);
	for (unsigned i = 0; i < 3; i++)
		recv[i] = lanes_cq(&d);
	qp[0] = lanes_qp(&d, send, recv[0], NULL);
	qp[1] = lanes_qp(&d, send, recv[1], srq);
	qp[2] = lanes_qp(&d, recv[1], recv[1], NULL);
	qp[3] = lanes_qp(&d, recv[2], recv[2], srq);
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(lanes_slot(qp[i]), lanes_slot(qp[0]));
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ibv_destroy_cq(recv[i]), 0);
	assert_int_equal(ibv_destroy_cq(send), 0);
	dev_close(&d);
}

TEST(lanes, qps_with_a_channel_in_common__one_lane)
{
	struct ibv_cq *cq[3];
	struct ibv_qp *qp[3];

	lanes_open(&d, 3);
	for (unsigned i = 0; i < 3; i++) {
		cq[i] = i == 1 ? lanes_cq(&d) : ibv_create_cq(d.ctx, DEV_CQE, NULL, d.channel, 0);
		assert_non_null(cq[i]);
		qp[i] = lanes_qp(&d, cq[i], cq[i], NULL);
	}
	assert_int_equal(lanes_slot(qp[2]), lanes_slot(qp[0]));
	assert_int_not_equal(lanes_slot(qp[1]), lanes_slot(qp[0]));
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	}
	dev_close(&d);
}

TEST(lanes, one_qp_after_the_other__first_lane)
{
	uint32_t slot = 0;

	lanes_open(&d, 3);
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_cq *cq = lanes_cq(&d);
		struct ibv_qp *qp = lanes_qp(&d, cq, cq, NULL);

		if (i == 0)
			slot = lanes_slot(qp);
		assert_int_equal(lanes_slot(qp), slot);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
	dev_close(&d);
}

TEST(lanes, setting_1__one_lane)
{
	struct lanes_end a, b;

	lanes_open(&d, 1);
	lanes_pair(&d, &a, &b);
	assert_int_equal(lanes_slot(a.qp), lanes_slot(b.qp));
	lanes_check(&d, &a, &b);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

/** The process may have no more descriptors than it has. @return the limit before. */
static struct rlimit refuse_descriptors(void)
{
	const int next = dup(0);
	struct rlimit before, none;

	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return before;
}

TEST(lanes, lane_full__next_qp_on_another_if_there_can_be_one)
{
	enum { LANE = 16381 };
	static struct ibv_qp *qp[LANE + 2];
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD};
	struct rlimit limit;

	lanes_open(&d, 1);
	attr.send_cq = attr.recv_cq = d.cq;
	for (unsigned i = 0; i < LANE; i++) {
		qp[i] = ibv_create_qp(d.pd, &attr);
		assert_non_null(qp[i]);
		assert_int_equal(lanes_slot(qp[i]), lanes_slot(qp[0]));
	}
	limit = refuse_descriptors();
	assert_null(ibv_create_qp(d.pd, &attr));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp[LANE - 1]), 0);
	qp[LANE - 1] = ibv_create_qp(d.pd, &attr);
	assert_non_null(qp[LANE - 1]);
	assert_null(ibv_create_qp(d.pd, &attr));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (unsigned i = LANE; i < LANE + 2; i++) {
		qp[i] = ibv_create_qp(d.pd, &attr);
		assert_non_null(qp[i]);
		assert_int_not_equal(lanes_slot(qp[i]), lanes_slot(qp[0]));
		assert_int_equal(lanes_slot(qp[i]), lanes_slot(qp[LANE]));
	}
	for (unsigned i = 0; i < LANE + 2; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	dev_close(&d);
}

TEST(lanes, setting_wrong__device_not_opened)
{
	static const char *const wrong[] = {"0", "65", "2x", "-1", "all", "4294967297"};
	struct ibv_device **list;

	lanes_open(&d, 1);
	dev_close(&d);
	list = ibv_get_device_list(NULL);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("ROCEMU_LANES", wrong[i], 1);
		errno = 0;
		assert_null(ibv_open_device(list[0]));
		assert_int_equal(errno, EINVAL);
	}
	unsetenv("ROCEMU_LANES");
	ibv_free_device_list(list);
}

/* ---- traffic ---- */

/* As many threads have, each with its own. */
TEST(lanes, forty__each_works)
{
	enum { PAIRS = 20 };
	static struct lanes_end a[PAIRS], b[PAIRS];

	lanes_open(&d, 2 * PAIRS);
	for (unsigned i = 0; i < PAIRS; i++)
		lanes_pair(&d, &a[i], &b[i]);
	for (unsigned i = 0; i < PAIRS; i++) {
		for (unsigned j = 0; j < i; j++) {
			assert_int_not_equal(lanes_slot(a[i].qp), lanes_slot(a[j].qp));
			assert_int_not_equal(lanes_slot(b[i].qp), lanes_slot(a[j].qp));
		}
		assert_int_not_equal(lanes_slot(a[i].qp), lanes_slot(b[i].qp));
		lanes_check(&d, &a[i], &b[i]);
	}
	for (unsigned i = 0; i < PAIRS; i++) {
		lanes_end_free(&a[i]);
		lanes_end_free(&b[i]);
	}
	dev_close(&d);
}

TEST(lanes, rc_between_them__all_operations)
{
	struct lanes_end a, b;

	lanes_open(&d, 2);
	lanes_pair(&d, &a, &b);
	assert_int_not_equal(lanes_slot(a.qp), lanes_slot(b.qp));
	for (unsigned i = 0; i < 50; i++) {
		lanes_check(&d, &a, &b);
		lanes_check(&d, &b, &a);
	}
	lanes_end_free(&b);
	lanes_end_free(&a);
	dev_close(&d);
}

TEST(lanes, region_registered_later__reached_on_each_and_gone_on_each)
{
	struct lanes_end a, b;
	struct ibv_mr *before = NULL, *later;

	lanes_open(&d, 2);
	lanes_pair(&d, &a, &b);
	before = d.mr;
	later = ibv_reg_mr(d.pd, d.mem, sizeof(d.mem), LANES_ACCESS);
	assert_non_null(later);
	d.mr = later;
	lanes_check(&d, &a, &b);
	lanes_check(&d, &b, &a);
	d.mr = before;
	assert_int_equal(ibv_rereg_mr(later, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE),
			 0);
	assert_int_equal(lanes_write(&d, &a, later->rkey), IBV_WC_REM_ACCESS_ERR);
	lanes_end_reconnect(&a, &b);
	assert_int_equal(lanes_write(&d, &b, later->rkey), IBV_WC_REM_ACCESS_ERR);
	lanes_end_reconnect(&a, &b);
	assert_int_equal(ibv_dereg_mr(later), 0);
	lanes_check(&d, &a, &b);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

/* Each posts on a lane of its own while regions come and go. */
struct writer {
	pthread_t thread;
	struct lanes_end *end;
	atomic_bool *stop;
	unsigned done;
	bool ok;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;

	w->ok = true;
	while (w->ok && (w->done < 200 || !atomic_load(w->stop))) {
		w->ok = lanes_write(&d, w->end, d.mr->rkey) == IBV_WC_SUCCESS;
		w->done++;
	}
	return NULL;
}

TEST(lanes, regions_come_and_go_while_threads_write__all_complete)
{
	struct lanes_end end[4];
	struct writer w[2];
	atomic_bool stop = false;

	lanes_open(&d, 2);
	lanes_pair(&d, &end[0], &end[1]);
	lanes_pair(&d, &end[2], &end[3]);
	for (unsigned i = 0; i < 2; i++) {
		w[i] = (struct writer){.end = &end[2 * i + i], .stop = &stop};
		assert_int_equal(pthread_create(&w[i].thread, NULL, write_on, &w[i]), 0);
	}
	for (unsigned i = 0; i < 300; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(d.ctx);
		struct ibv_mr *mr = ibv_reg_mr(pd, d.mem, 4096, LANES_ACCESS);

		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(ibv_dealloc_pd(pd), 0);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		assert_true(w[i].ok);
	}
	for (unsigned i = 0; i < 4; i++)
		lanes_end_free(&end[i]);
	dev_close(&d);
}

/* Objects are given lanes, and lanes are made, while others use theirs. */
static void *make_and_use(void *arg)
{
	bool *ok = arg;
	struct lanes_end a, b;

	*ok = true;
	for (unsigned i = 0; i < 10 && *ok; i++) {
		lanes_pair(&d, &a, &b);
		*ok = lanes_write(&d, &a, d.mr->rkey) == IBV_WC_SUCCESS &&
		      lanes_write(&d, &b, d.mr->rkey) == IBV_WC_SUCCESS;
		lanes_end_free(&a);
		lanes_end_free(&b);
	}
	return NULL;
}

TEST(lanes, threads_make_and_destroy__all_work)
{
	pthread_t t[4];
	bool ok[4];

	lanes_open(&d, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, make_and_use, &ok[i]), 0);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		assert_true(ok[i]);
	}
	dev_close(&d);
}

/* ---- CQs and SRQs before they have a QP ---- */

TEST(lanes, cq_changed_and_armed_before_its_qp__keeps_it)
{
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					      .moderate = {1, 0}};
	struct lanes_end a, b;
	struct ibv_cq *from;
	void *user;

	lanes_open(&d, 2);
	a.cq = lanes_cq(&d);
	a.qp = lanes_qp(&d, a.cq, a.cq, NULL);
	b.cq = ibv_create_cq(d.ctx, 1, &b, d.channel, 0);
	assert_int_equal(ibv_resize_cq(b.cq, 100), 0);
	assert_int_equal(ibv_modify_cq(b.cq, &moderate), 0);
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	assert_int_equal(lanes_poll_once(b.cq), 0);
	b.qp = lanes_qp(&d, b.cq, b.cq, NULL);
	assert_int_not_equal(lanes_slot(a.qp), lanes_slot(b.qp));
	assert_true(b.cq->cqe >= 100);
	dev_connect(a.qp, b.qp);
	lanes_post_write(&d, &b, d.mr->rkey);
	assert_int_equal(ibv_get_cq_event(d.channel, &from, &user), 0);
	assert_ptr_equal(from, b.cq);
	ibv_ack_cq_events(from, 1);
	assert_int_equal(dev_poll(b.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_resize_cq(b.cq, 200), 0);
	lanes_check(&d, &a, &b);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

TEST(lanes, srq_filled_before_its_qp__received_and_limit_reached)
{
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event ev;
	struct lanes_end a, b;
	struct ibv_srq *srq;

	lanes_open(&d, 2);
	srq = lanes_srq(&d);
	lanes_post_srq(&d, srq, 5);
	lanes_post_srq(&d, srq, 6);
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	a.cq = lanes_cq(&d);
	a.qp = lanes_qp(&d, a.cq, a.cq, NULL);
	b.cq = lanes_cq(&d);
	b.qp = lanes_qp(&d, b.cq, b.cq, srq);
	assert_int_not_equal(lanes_slot(a.qp), lanes_slot(b.qp));
	dev_connect(a.qp, b.qp);
	lanes_post_send(&d, &a);
	assert_int_equal(dev_poll(b.cq).wr_id, 5);
	assert_int_equal(dev_poll(a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_get_async_event(d.ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.element.srq, srq);
	ibv_ack_async_event(&ev);
	lanes_end_free(&b);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	lanes_end_free(&a);
	dev_close(&d);
}

/* ---- the device, the process ---- */

TEST(lanes, device_fails__qps_of_all_lanes_flush)
{
	struct ibv_device_attr attr;
	struct ibv_async_event ev;
	struct lanes_end a, b;

	setenv("ROCEMU_IMPAIR", "device-fatal verb=ibv_query_device", 1);
	lanes_open(&d, 2);
	lanes_pair(&d, &a, &b);
	assert_int_not_equal(lanes_slot(a.qp), lanes_slot(b.qp));
	dev_post_recv(&d, a.qp, 1, 0, 64);
	dev_post_recv(&d, b.qp, 2, 0, 64);
	assert_int_equal(ibv_query_device(d.ctx, &attr), 0);
	assert_int_equal(dev_poll(a.cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(dev_poll(b.cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_get_async_event(d.ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	unsetenv("ROCEMU_IMPAIR");
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

/** The index of an address, IPv4, in a's table; -1: none. */
static int gid_index_of(const char *address)
{
	union ibv_gid want = {.raw = {[10] = 0xff, [11] = 0xff}}, gid;

	assert_int_equal(inet_pton(AF_INET, address, want.raw + 12), 1);
	for (int i = 0; i < 64; i++)
		if (ibv_query_gid(d.ctx, 1, i, &gid) == 0 && !memcmp(&gid, &want, sizeof(gid)))
			return i;
	return -1;
}

TEST(lanes, address_added_later__connections_between_lanes_use_it)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_async_event ev;
	struct lanes_end a, b;
	int index;

	lanes_open(&d, 2);
	lanes_pair(&d, &a, &b);
	if (system("ip address add 10.9.9.9/32 dev lo") != 0)
		skip(); /* no ip, or no right to change interfaces */
	assert_int_equal(ibv_get_async_event(d.ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_GID_CHANGE);
	ibv_ack_async_event(&ev);
	index = gid_index_of("10.9.9.9");
	assert_true(index >= 0);
	assert_int_equal(ibv_modify_qp(a.qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(b.qp, &reset, IBV_QP_STATE), 0);
	dev_connect_on(a.qp, b.qp, (uint8_t)index);
	lanes_check(&d, &a, &b);
	lanes_check(&d, &b, &a);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
	assert_int_equal(system("ip address del 10.9.9.9/32 dev lo"), 0);
}

static struct ibv_qp *ud_on(struct ibv_cq *cq)
{
	struct ibv_cq *kept = d.cq;
	struct ibv_qp *qp;

	d.cq = cq;
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	d.cq = kept;
	dev_connect(qp, NULL);
	return qp;
}

TEST(lanes, multicast__each_lane_receives)
{
	const union ibv_gid group = {
		.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3}};
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = group, .hop_limit = 1}};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];

	lanes_open(&d, 2);
	sge = dev_sge(&d, 0, 32);
	for (unsigned i = 0; i < 2; i++) {
		cq[i] = lanes_cq(&d);
		qp[i] = ud_on(cq[i]);
		assert_int_equal(ibv_attach_mcast(qp[i], &group, 0), 0);
		dev_post_recv(&d, qp[i], 10 + i, 4096 * (i + 1), 256);
	}
	assert_int_not_equal(lanes_slot(qp[0]), lanes_slot(qp[1]));
	wr.wr.ud.ah = ibv_create_ah(d.pd, &attr);
	assert_non_null(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = 0x11111111;
	assert_int_equal(ibv_post_send(qp[1], &wr, &bad), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(dev_poll(cq[i]).wr_id, 10 + i);
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_detach_mcast(qp[i], &group, 0), 0);
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	}
	dev_close(&d);
}

TEST(lanes, child_of_fork__refused_and_parent_undisturbed)
{
	struct lanes_end a, b;
	struct ibv_wc wc;
	pid_t child;
	int status;

	lanes_open(&d, 2);
	lanes_pair(&d, &a, &b);
	lanes_check(&d, &a, &b);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool ok = ibv_poll_cq(b.cq, 1, &wc) < 0 && ibv_req_notify_cq(a.cq, 0) == ENODEV &&
			  !ibv_create_cq(d.ctx, 1, NULL, NULL, 0) && !ibv_destroy_qp(b.qp) &&
			  !ibv_destroy_cq(b.cq) && !ibv_close_device(d.ctx);

		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	lanes_check(&d, &a, &b);
	lanes_check(&d, &b, &a);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}
