/* SPDX-License-Identifier: BSD-2-Clause */
/* An XRC domain of several contexts: its ends, forks, and threads. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xrc-member.h"

/* ---- ends ---- */

TEST(xrcd_shared, srq_destroyed_within_a_message__its_connection_fails_alone)
{
	struct ibv_wc wc;
	struct two t;

	two_open(&t);
	/* No receive is posted: the message waits for one, its end for the SRQ. */
	two_post_send(&t, t.b.srqn, 1, 4096);
	assert_int_equal(ibv_destroy_srq(t.b.srq), 0);
	t.b.srq = NULL;
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(ibv_poll_cq(t.b.rcq, 1, &wc), 0);
	two_close(&t);
}

TEST(xrcd_shared, maker_closes_first__target_lives_by_the_other_handle)
{
	struct ibv_xrcd *late;
	struct member c;
	struct two t;

	two_open(&t);
	/* Initiator in a third context, which has no part in the domain. */
	dev_open(&c.d);
	assert_int_equal(ibv_destroy_qp(t.from), 0);
	assert_int_equal(ibv_destroy_qp(t.to), 0);
	t.from = dev_xrc_initiator(&c.d, 0);
	t.to = dev_xrc_target(&t.a.d, t.a.xrcd, NULL);
	dev_connect(t.from, t.to);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp *handle = member_share(&t.b, t.to->qp_num);

		assert_non_null(handle);
		assert_int_equal(ibv_destroy_qp(t.to), 0);
		t.to = handle;
	}
	member_close(&t.a);
	t.a.d = c.d; /* for what is sent; the region is c's */
	t.a.d.mr = ibv_reg_mr(c.d.pd, t.a.d.mem, sizeof(t.a.d.mem), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(t.a.d.mr);
	two_expect_message(&t, &t.b, 1);
	/* Only b has the domain, and contexts that open it later. */
	late = dev_xrcd(&c.d, t.fd, 0);
	assert_non_null(late);
	c.xrcd = late;
	{
		struct ibv_qp *third = member_share(&c, t.to->qp_num);

		assert_non_null(third);
		assert_int_equal(ibv_destroy_qp(t.to), 0);
		two_expect_message(&t, &t.b, 3);
		assert_int_equal(ibv_destroy_qp(third), 0);
		assert_null(member_share(&c, t.from->qp_num - 1));
	}
	assert_int_equal(ibv_destroy_qp(t.from), 0);
	assert_int_equal(ibv_dereg_mr(t.a.d.mr), 0);
	assert_int_equal(ibv_close_xrcd(late), 0);
	dev_close(&c.d);
	member_close(&t.b);
	close(t.fd);
}

TEST(xrcd_shared, srqs_context_closed_with_all_in_it__number_unknown)
{
	struct two t;

	two_open(&t);
	two_expect_message(&t, &t.b, 1);
	member_post_recv(&t.b, 3, 1024, 64);
	member_abandon(&t.b);
	two_expect_message(&t, &t.a, 5);
	two_post_send(&t, t.b.srqn, 7, 8);
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_REM_INV_REQ_ERR);
	member_open(&t.b, t.fd);
	two_close(&t);
}

TEST(xrcd_shared, context_closed_with_a_handle__others_keep_theirs)
{
	struct ibv_qp *left, *kept;
	struct two t;

	/* A guest's handle. */
	two_open(&t);
	left = member_share(&t.b, t.to->qp_num);
	assert_non_null(left);
	member_abandon(&t.b);
	free(left);
	two_expect_message(&t, &t.a, 1);

	/* The last one; then nothing is left of QP and context. */
	member_open(&t.b, t.fd);
	left = member_share(&t.b, t.to->qp_num);
	assert_non_null(left);
	assert_int_equal(ibv_destroy_qp(t.to), 0);
	assert_int_equal(ibv_destroy_qp(t.from), 0);
	member_close(&t.a);
	member_abandon(&t.b);
	free(left);
	member_open(&t.a, t.fd);

	/* The maker's own, while the guest's stays. */
	member_open(&t.b, t.fd);
	left = dev_xrc_target(&t.b.d, t.b.xrcd, NULL);
	t.from = dev_xrc_initiator(&t.a.d, 0);
	kept = member_share(&t.a, left->qp_num);
	assert_non_null(kept);
	dev_connect(t.from, kept);
	assert_int_equal(ibv_close_device(t.b.d.ctx), 0);
	two_expect_message(&t, &t.a, 9);
	assert_int_equal(ibv_destroy_qp(kept), 0);
	{
		void *objects[] = {t.b.srq,	  t.b.rcq,  t.b.xrcd, t.b.d.cq,
				   t.b.d.channel, t.b.d.mr, t.b.d.pd, left};

		for (unsigned i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
			free(objects[i]);
	}
	t.to = dev_xrc_target(&t.a.d, t.a.xrcd, NULL);
	assert_int_equal(ibv_destroy_qp(t.from), 0);
	assert_int_equal(ibv_destroy_qp(t.to), 0);
	member_close(&t.a);
	close(t.fd);
}

TEST(xrcd_shared, fork__the_child_has_domains_of_its_own)
{
	struct two t;
	pid_t child;
	int status;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer lets no forked child start threads\n");
	skip();
#endif
	two_open(&t);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct two mine;

		dev_open(&mine.a.d);
		if (dev_xrcd(&mine.a.d, t.fd, 0) || errno != EAGAIN)
			_exit(1);
		dev_close(&mine.a.d);
		two_open(&mine);
		two_expect_message(&mine, &mine.b, 1);
		two_close(&mine);
		_exit(0);
	}
	two_expect_message(&t, &t.b, 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	two_expect_message(&t, &t.b, 3);
	two_close(&t);
}

/* ---- threads ---- */

enum { MESSAGES = 400, AHEAD = 8 };

/* Sends to the other's SRQ by a target of its own context, and takes what the other sends. */
struct talker {
	struct member m;
	struct ibv_qp *from, *to;
	struct talker *other;
	atomic_bool *stop;
	bool by_event, ok;
};

static bool talker_post_recv(struct talker *t)
{
	struct ibv_sge sge = dev_sge(&t->m.d, 1024, 64);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(t->m.srq, &wr, &bad) == 0;
}

static bool talker_send(struct talker *t)
{
	struct ibv_sge sge = dev_sge(&t->m.d, 0, 64);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.qp_type.xrc.remote_srqn = t->other->m.srqn;
	return ibv_post_send(t->from, &wr, &bad) == 0;
}

/* One receive, if there is one, or wait for it. @return 1, 0, or -1. */
static int talker_take(struct talker *t, bool wait)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *user;
	int n = ibv_poll_cq(t->m.rcq, 1, &wc);

	while (n == 0 && wait) {
		if (ibv_req_notify_cq(t->m.rcq, 0))
			return -1;
		n = ibv_poll_cq(t->m.rcq, 1, &wc);
		if (n)
			break;
		if (ibv_get_cq_event(t->m.d.channel, &cq, &user))
			return -1;
		ibv_ack_cq_events(cq, 1);
		n = ibv_poll_cq(t->m.rcq, 1, &wc);
	}
	if (n <= 0)
		return n;
	return wc.status == IBV_WC_SUCCESS && talker_post_recv(t) ? 1 : -1;
}

static void *talk(void *arg)
{
	struct talker *t = arg;
	unsigned sent = 0, done = 0, got = 0;
	struct ibv_wc wc;

	t->ok = true;
	while (t->ok && (done < MESSAGES || got < MESSAGES)) {
		int n;

		/* Who waits for an event has sent what the other waits for. */
		while (t->ok && sent < MESSAGES && sent < got + AHEAD && sent < done + DEV_WR) {
			t->ok = talker_send(t);
			sent++;
		}
		while ((n = ibv_poll_cq(t->m.d.cq, 1, &wc)) > 0 && wc.status == IBV_WC_SUCCESS)
			done++;
		t->ok = t->ok && n == 0;
		if (got < MESSAGES) {
			n = talker_take(t,
					t->by_event && (sent == MESSAGES || sent >= got + AHEAD));
			t->ok = t->ok && n >= 0;
			got += n > 0;
		}
		if (n == 0)
			sched_yield();
	}
	return NULL;
}

/* Contexts that join the domain, use it a little and go. */
static void *come_and_go(void *arg)
{
	struct talker *t = arg;

	while (!atomic_load(t->stop)) {
		struct member m;
		struct ibv_qp *qp;

		member_open(&m, -1);
		assert_int_equal(ibv_destroy_srq(m.srq), 0);
		assert_int_equal(ibv_close_xrcd(m.xrcd), 0);
		m.srq = NULL;
		m.xrcd = dev_xrcd(&m.d, t->m.d.mem[DEV_MEM - 1], 0); /* the file's number */
		assert_non_null(m.xrcd);
		qp = member_share(&m, t->to->qp_num);
		assert_non_null(qp);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		member_close(&m);
	}
	return NULL;
}

static void traffic(bool by_event)
{
	static struct talker t[2];
	atomic_bool stop = false;
	pthread_t thread[3];
	int fd = memfd_create("domain", MFD_CLOEXEC);

	assert_true(fd >= 0 && fd < 256);
	for (unsigned i = 0; i < 2; i++) {
		t[i] = (struct talker){.other = &t[!i], .stop = &stop, .by_event = by_event};
		member_open(&t[i].m, fd);
		t[i].m.d.mem[DEV_MEM - 1] = (uint8_t)fd;
		t[i].from = dev_xrc_initiator(&t[i].m.d, 0);
		t[i].to = dev_xrc_target(&t[i].m.d, t[i].m.xrcd, NULL);
		dev_connect(t[i].from, t[i].to);
		for (unsigned k = 0; k < AHEAD; k++)
			assert_true(talker_post_recv(&t[i]));
	}
	assert_int_equal(pthread_create(&thread[2], NULL, come_and_go, &t[0]), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, talk, &t[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&stop, true);
	pthread_join(thread[2], NULL);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(t[i].ok);
		assert_int_equal(ibv_destroy_qp(t[i].from), 0);
		assert_int_equal(ibv_destroy_qp(t[i].to), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		member_close(&t[i].m);
	close(fd);
}

TEST(xrcd_shared, two_threads_with_a_context_each__by_polling)
{
	traffic(false);
}

TEST(xrcd_shared, two_threads_with_a_context_each__by_event)
{
	traffic(true);
}
