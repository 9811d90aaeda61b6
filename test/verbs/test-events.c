/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels, asynchronous events, the extended CQ. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "dev.h"
#include "verbs/private.h"

enum { PATIENCE_S = 20 };

private_unpolled_fn rocemu_private_unpolled;

/* The library's clocks, which tests set back. */
static _Atomic int64_t clock_shift_ns[2];

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	const long ret = syscall(SYS_clock_gettime, clock, ts);
	int64_t ns;

	if (ret || clock < 0 || clock > 1)
		return (int)ret;
	ns = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec + clock_shift_ns[clock];
	*ts = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	return 0;
}

struct pair {
	struct dev d;
	struct ibv_qp *a, *b;
};

static void pair_open(struct pair *p)
{
	dev_open(&p->d);
	p->a = dev_qp(&p->d, IBV_QPT_RC, 0);
	p->b = dev_qp(&p->d, IBV_QPT_RC, 0);
	dev_connect(p->a, p->b);
}

static void pair_close(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	dev_close(&p->d);
}

/* One message a -> b; two completions on the CQ. */
static void message(struct pair *p, unsigned send_flags)
{
	struct ibv_sge sge = dev_sge(&p->d, 0, 32);
	struct ibv_send_wr wr =
				   {
					   .wr_id = 1,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND_WITH_IMM,
					   .send_flags = send_flags,
					   .imm_data = htonl(0x12345678),
				   },
			   *bad;

	dev_post_recv(&p->d, p->b, 2, 1024, 64);
	assert_int_equal(ibv_post_send(p->a, &wr, &bad), 0);
}

static void nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

/* ---- completion channels ---- */

TEST(channel, empty_and_nonblocking__eagain)
{
	struct ibv_cq *cq;
	void *user;
	struct dev d;

	dev_open(&d);
	nonblocking(d.channel->fd);
	assert_int_equal(ibv_get_cq_event(d.channel, &cq, &user), -1);
	assert_int_equal(errno, EAGAIN);
	dev_close(&d);
}

TEST(channel, moderated__event_by_count_or_by_time)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 4, .cq_period = 0}};
	struct ibv_cq *cq = NULL;
	struct pollfd fd;
	void *user;
	struct pair p;

	pair_open(&p);
	fd = (struct pollfd){.fd = p.d.channel->fd, .events = POLLIN};
	assert_int_equal(ibv_modify_cq(p.d.cq, &attr), 0);
	assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
	message(&p, IBV_SEND_SIGNALED);
	dev_poll(p.d.cq);
	dev_poll(p.d.cq);
	assert_int_equal(poll(&fd, 1, 0), 0); /* two completions, of four */
	message(&p, IBV_SEND_SIGNALED);
	assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
	dev_poll(p.d.cq);
	dev_poll(p.d.cq);

	attr.moderate.cq_count = 1000;
	attr.moderate.cq_period = 2000;
	assert_int_equal(ibv_modify_cq(p.d.cq, &attr), 0);
	assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
	message(&p, IBV_SEND_SIGNALED);
	assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
	dev_poll(p.d.cq);
	dev_poll(p.d.cq);
	ibv_ack_cq_events(p.d.cq, 2);
	attr.attr_mask = 1u << 7;
	assert_int_equal(ibv_modify_cq(p.d.cq, &attr), EOPNOTSUPP);
	pair_close(&p);
}

TEST(channel, cq_armed__one_event_then_none_until_armed_again)
{
	struct ibv_cq *cq = NULL;
	void *user = NULL;
	struct pair p;

	pair_open(&p);
	assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
	message(&p, IBV_SEND_SIGNALED);
	assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
	assert_ptr_equal(cq, p.d.cq);
	assert_ptr_equal(user, &p.d);
	dev_poll(p.d.cq);
	dev_poll(p.d.cq);
	nonblocking(p.d.channel->fd);
	message(&p, IBV_SEND_SIGNALED);
	dev_poll(p.d.cq);
	dev_poll(p.d.cq);
	assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), -1);
	assert_int_equal(errno, EAGAIN);
	ibv_ack_cq_events(p.d.cq, 1);
	pair_close(&p);
}

TEST(channel, armed_for_solicited_only__no_event_for_others)
{
	struct pollfd pfd = {.events = POLLIN};
	struct ibv_cq *cq;
	void *user;
	struct pair p;

	pair_open(&p);
	pfd.fd = p.d.channel->fd;
	assert_int_equal(ibv_req_notify_cq(p.d.cq, 1), 0);
	message(&p, IBV_SEND_SIGNALED);
	dev_poll(p.d.cq);
	dev_poll(p.d.cq);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	message(&p, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
	ibv_ack_cq_events(cq, 1);
	pair_close(&p);
}

/*
 * The send completion, in a separate CQ, shows that the receive completion is there. A program that
 * arms the CQ now and sleeps is woken, as by hardware that compares the CQ's indices.
 */
TEST(channel, armed_with_a_completion_in_it__event)
{
	struct ibv_cq *send_cq, *cq = NULL;
	struct pair p;
	void *user;

	dev_open(&p.d);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	send_cq = ibv_create_cq(p.d.ctx, 16, NULL, NULL, 0);
	assert_non_null(send_cq);
	p.a = ibv_create_qp(p.d.pd, &(struct ibv_qp_init_attr){
					    .send_cq = send_cq,
					    .recv_cq = send_cq,
					    .cap = {.max_send_wr = 4, .max_send_sge = 1},
					    .qp_type = IBV_QPT_RC,
				    });
	assert_non_null(p.a);
	dev_connect(p.a, p.b);
	for (int solicited = 0; solicited < 2; solicited++) {
		message(&p, IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0));
		dev_poll(send_cq);
		assert_int_equal(ibv_req_notify_cq(p.d.cq, solicited), 0);
		assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
		assert_ptr_equal(cq, p.d.cq);
		/* Armed once more without a poll: once more. */
		assert_int_equal(ibv_req_notify_cq(p.d.cq, solicited), 0);
		assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
		assert_int_equal(ibv_poll_cq(p.d.cq, 1, &(struct ibv_wc){0}), 1);
	}
	ibv_ack_cq_events(cq, 4);
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	assert_int_equal(ibv_destroy_cq(send_cq), 0);
	dev_close(&p.d);
}

/* The check of librdmacm before it reports DISCONNECTED. */
TEST(private_unpolled, successful_completions_of_that_qp_alone)
{
	struct pair p;

	pair_open(&p);
	assert_false(rocemu_private_unpolled(p.d.ctx, p.a->qp_num));
	message(&p, IBV_SEND_SIGNALED);
	/* It receives: no thread polls here. */
	while (!rocemu_private_unpolled(p.d.ctx, p.a->qp_num))
		;
	assert_true(rocemu_private_unpolled(p.d.ctx, p.b->qp_num));
	assert_false(rocemu_private_unpolled(p.d.ctx, 0xfffff));
	assert_int_equal(dev_poll(p.d.cq).qp_num, p.b->qp_num); /* the receive is before the ACK */
	assert_false(rocemu_private_unpolled(p.d.ctx, p.b->qp_num));
	assert_true(rocemu_private_unpolled(p.d.ctx, p.a->qp_num));
	dev_poll(p.d.cq);
	assert_false(rocemu_private_unpolled(p.d.ctx, p.a->qp_num));
	/* Flushed ones are none. */
	dev_post_recv(&p.d, p.b, 3, 1024, 64);
	assert_int_equal(
		ibv_modify_qp(p.b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
		0);
	assert_false(rocemu_private_unpolled(p.d.ctx, p.b->qp_num));
	assert_int_equal(dev_poll(p.d.cq).status, IBV_WC_WR_FLUSH_ERR);
	pair_close(&p);
}

/*
 * What is posted after arming raises its event, though a poll makes the progress and takes the
 * completion: as hardware does, whose polls make none.
 */
TEST(channel, polled_after_arming_and_posting__event)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct pair p;
	void *user;

	pair_open(&p);
	for (int i = 0; i < 300; i++) {
		struct pollfd fd = {.fd = p.d.channel->fd, .events = POLLIN};

		assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
		message(&p, IBV_SEND_SIGNALED);
		for (int got = 0; got < 2;)
			got += ibv_poll_cq(p.d.cq, 1, &wc);
		assert_int_equal(poll(&fd, 1, 10000), 1);
		assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
		ibv_ack_cq_events(cq, 1);
	}
	pair_close(&p);
}

static void *poll_one(void *cq)
{
	dev_poll(cq);
	return NULL;
}

/* A thread that polls does not wake another one, which armed the CQ and sleeps: the event does, as
 * on hardware. */
TEST(channel, polled_by_another_thread_after_arming__event)
{
	struct ibv_cq *cq;
	struct dev other;
	struct pair p;
	pthread_t t;
	void *user;

	dev_open(&p.d);
	dev_open(&other);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	p.a = dev_qp(&other, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	for (int i = 0; i < 100; i++) {
		struct pollfd fd = {.fd = p.d.channel->fd, .events = POLLIN};
		struct ibv_sge sge = dev_sge(&other, 0, 64);
		struct ibv_send_wr *bad, wr = {.sg_list = &sge,
					       .num_sge = 1,
					       .opcode = IBV_WR_SEND,
					       .send_flags = IBV_SEND_SIGNALED};

		dev_post_recv(&p.d, p.b, 2, 1024, 64);
		assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
		assert_int_equal(ibv_post_send(p.a, &wr, &bad), 0);
		assert_int_equal(pthread_create(&t, NULL, poll_one, p.d.cq), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
		assert_int_equal(poll(&fd, 1, 10000), 1);
		assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
		ibv_ack_cq_events(cq, 1);
		dev_poll(other.cq);
	}
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	dev_close(&other);
	dev_close(&p.d);
}

static void *destroy_cq(void *cq)
{
	return (void *)(intptr_t)ibv_destroy_cq(cq);
}

TEST(channel, cq_destroyed__waits_for_acks_and_takes_unread_events_along)
{
	struct ibv_cq *cq;
	struct pair p;
	void *user, *ret;
	pthread_t t;

	pair_open(&p);
	nonblocking(p.d.channel->fd);
	for (int i = 0; i < 3; i++) {
		struct pollfd pfd = {.fd = p.d.channel->fd, .events = POLLIN};

		assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
		message(&p, IBV_SEND_SIGNALED);
		assert_int_equal(poll(&pfd, 1, 20000), 1);
		dev_poll(p.d.cq);
		dev_poll(p.d.cq);
		if (i < 2)
			assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), 0);
	}
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	assert_int_equal(pthread_create(&t, NULL, destroy_cq, p.d.cq), 0);
	ibv_ack_cq_events(p.d.cq, 1);
	assert_int_equal(pthread_tryjoin_np(t, NULL), EBUSY);
	ibv_ack_cq_events(p.d.cq, 1);
	pthread_join(t, &ret);
	assert_null(ret);
	assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &user), -1);
	assert_int_equal(errno, EAGAIN);
	p.d.cq = ibv_create_cq(p.d.ctx, 1, NULL, p.d.channel, 0);
	assert_non_null(p.d.cq);
	dev_close(&p.d);
}

/* ---- asynchronous events ---- */

TEST(async, srq_below_limit__one_event_and_destroy_after_ack)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_async_event ev;
	struct ibv_srq *srq;
	struct dev d;

	dev_open(&d);
	nonblocking(d.ctx->async_fd);
	assert_int_equal(ibv_get_async_event(d.ctx, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	srq = ibv_create_srq(d.pd, &sattr);
	assert_non_null(srq);
	/*
	 * Set above what is posted: reached at once or with the next receive taken; here nothing is
	 * posted.
	 */
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	if (ibv_get_async_event(d.ctx, &ev) == 0) {
		assert_int_equal(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
		assert_ptr_equal(ev.element.srq, srq);
		ibv_ack_async_event(&ev);
	}
	assert_int_equal(ibv_destroy_srq(srq), 0);
	dev_close(&d);
}

TEST(async, qp_with_srq_goes_to_error__last_wqe_reached)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_qp_attr to_err = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event ev;
	struct ibv_srq *srq;
	struct ibv_qp *a, *b;
	struct dev d;

	dev_open(&d);
	srq = ibv_create_srq(d.pd, &sattr);
	assert_non_null(srq);
	attr.send_cq = attr.recv_cq = d.cq;
	attr.srq = srq;
	a = ibv_create_qp(d.pd, &attr);
	b = ibv_create_qp(d.pd, &attr);
	assert_non_null(a);
	assert_non_null(b);
	dev_connect(a, b);
	nonblocking(d.ctx->async_fd);
	assert_int_equal(ibv_modify_qp(a, &to_err, IBV_QP_STATE), 0);
	assert_int_equal(a->state, IBV_QPS_ERR);
	assert_int_equal(ibv_get_async_event(d.ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(ev.element.qp, a);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	dev_close(&d);
}

/* ---- the extended completion queue ---- */

static struct ibv_cq_ex *make_cq_ex(struct dev *d)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.cq_context = d,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(d->ctx, &attr);

	assert_non_null(cq);
	return cq;
}

TEST(cq_ex, completions_read_field_by_field__as_sent)
{
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *ex;
	struct ibv_cq *plain;
	struct pair p;
	uint64_t ts;
	int got = 0;

	dev_open(&p.d);
	ex = make_cq_ex(&p.d);
	plain = p.d.cq;
	p.d.cq = ibv_cq_ex_to_cq(ex);
	p.a = dev_qp(&p.d, IBV_QPT_RC, 0);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	assert_int_equal(ibv_start_poll(ex, &none), ENOENT);
	message(&p, IBV_SEND_SIGNALED);
	while (got < 2) {
		if (ibv_start_poll(ex, &none))
			continue;
		do {
			assert_int_equal(ex->status, IBV_WC_SUCCESS);
			ts = ibv_wc_read_completion_ts(ex);
			assert_true(ts > 0);
			if (ex->wr_id == 2) {
				assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_RECV);
				assert_int_equal(ibv_wc_read_byte_len(ex), 32);
				assert_int_equal(ibv_wc_read_imm_data(ex), htonl(0x12345678));
				assert_int_equal(ibv_wc_read_qp_num(ex), p.b->qp_num);
				assert_true(ibv_wc_read_wc_flags(ex) & IBV_WC_WITH_IMM);
			} else {
				assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_SEND);
				assert_int_equal(ibv_wc_read_qp_num(ex), p.a->qp_num);
			}
			got++;
		} while (ibv_next_poll(ex) == 0);
		ibv_end_poll(ex);
	}
	assert_int_equal(ibv_start_poll(ex, &none), ENOENT);
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	assert_int_equal(ibv_destroy_cq(p.d.cq), 0);
	p.d.cq = plain;
	dev_close(&p.d);
}

/* The two completions of a message, in one poll; between them the wall clock is set back. */
TEST(cq_ex, wall_clock_set_back_during_a_poll__times_do_not_go_back)
{
	struct ibv_poll_cq_attr none = {0};
	uint64_t first, second, stamp;
	struct ibv_cq *plain;
	struct ibv_cq_ex *ex;
	struct pair p;

	dev_open(&p.d);
	ex = make_cq_ex(&p.d);
	plain = p.d.cq;
	p.d.cq = ibv_cq_ex_to_cq(ex);
	p.a = dev_qp(&p.d, IBV_QPT_RC, 0);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);

	message(&p, IBV_SEND_SIGNALED);
	while (ibv_start_poll(ex, &none))
		;
	first = ibv_wc_read_completion_wallclock_ns(ex);
	clock_shift_ns[CLOCK_REALTIME] = -5000000000;
	while (ibv_next_poll(ex))
		;
	second = ibv_wc_read_completion_wallclock_ns(ex);
	stamp = ibv_wc_read_completion_ts(ex);
	assert_true(second >= first);
	ibv_end_poll(ex);

	/* The next poll has the new time; its completions are later than the others, whichever
	 * clock was read. */
	clock_shift_ns[CLOCK_MONOTONIC] = -100000000;
	message(&p, IBV_SEND_SIGNALED);
	for (int i = 0; i < 2; i++) {
		while (ibv_start_poll(ex, &none))
			;
		assert_true(ibv_wc_read_completion_wallclock_ns(ex) < first);
		assert_true(ibv_wc_read_completion_ts(ex) >= stamp);
		stamp = ibv_wc_read_completion_ts(ex);
		ibv_end_poll(ex);
	}
	clock_shift_ns[CLOCK_MONOTONIC] = 0;
	clock_shift_ns[CLOCK_REALTIME] = 0;
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	assert_int_equal(ibv_destroy_cq(p.d.cq), 0);
	p.d.cq = plain;
	dev_close(&p.d);
}

static void *move_to_error(void *qp)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	return (void *)(intptr_t)ibv_modify_qp(qp, &err, IBV_QP_STATE);
}

/* A program that handles a completion before the next one: in that poll it ends the connection,
 * or waits for another thread that does. */
TEST(cq_ex, qp_moved_to_error_during_a_poll__does_not_wait_for_its_end)
{
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq *plain;
	struct timespec end;
	struct ibv_cq_ex *ex;
	struct pair p;
	pthread_t t;
	void *ret;

	dev_open(&p.d);
	ex = make_cq_ex(&p.d);
	plain = p.d.cq;
	p.d.cq = ibv_cq_ex_to_cq(ex);
	p.a = dev_qp(&p.d, IBV_QPT_RC, 0);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	message(&p, IBV_SEND_SIGNALED);
	while (ibv_start_poll(ex, &none))
		;
	assert_int_equal(pthread_create(&t, NULL, move_to_error, p.a), 0);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	assert_int_equal(pthread_timedjoin_np(t, &ret, &end), 0);
	assert_null(ret);
	assert_null(move_to_error(p.b));
	ibv_end_poll(ex);
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	assert_int_equal(ibv_destroy_cq(p.d.cq), 0);
	p.d.cq = plain;
	dev_close(&p.d);
}

TEST(cq_ex, wish_that_cannot_be_granted__eopnotsupp)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_CVLAN};
	struct ibv_poll_cq_attr bad = {.comp_mask = 1};
	struct ibv_cq_ex *ex;
	struct dev d;

	dev_open(&d);
	assert_null(ibv_create_cq_ex(d.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.wc_flags = 0;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	assert_null(ibv_create_cq_ex(d.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	ex = make_cq_ex(&d);
	assert_int_equal(ibv_start_poll(ex, &bad), EINVAL);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	dev_close(&d);
}
