/* SPDX-License-Identifier: BSD-2-Clause */
#include "waits.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/lane-internal.h"
#include "test.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"

void waits_end_open(struct waits_end *e)
{
	dev_open(&e->d);
	e->send_cq = ibv_create_cq(e->d.ctx, DEV_CQE, NULL, NULL, 0);
	assert_non_null(e->send_cq);
	e->qp = ibv_create_qp(e->d.pd, &(struct ibv_qp_init_attr){
					       .send_cq = e->send_cq,
					       .recv_cq = e->d.cq,
					       .cap = {.max_send_wr = DEV_WR,
						       .max_recv_wr = DEV_WR,
						       .max_send_sge = 1,
						       .max_recv_sge = 1},
					       .qp_type = IBV_QPT_RC,
				       });
	assert_non_null(e->qp);
}

void waits_end_close(struct waits_end *e)
{
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	assert_int_equal(ibv_destroy_cq(e->send_cq), 0);
	dev_close(&e->d);
}

void waits_open_both(struct waits_end *a, struct waits_end *b)
{
	waits_end_open(a);
	waits_end_open(b);
	dev_connect(a->qp, b->qp);
}

void waits_close_both(struct waits_end *a, struct waits_end *b)
{
	waits_end_close(a);
	waits_end_close(b);
}

void waits_send(struct waits_end *from, struct waits_end *to)
{
	struct ibv_sge sge = dev_sge(&from->d, 0, WAITS_LEN);
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	dev_post_recv(&to->d, to->qp, 1, 0, WAITS_LEN);
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
}

void waits_channel_keen(struct ibv_comp_channel *ch)
{
	struct spin *s = &vb_channel_of(ch)->spin;

	atomic_store(&s->need, 1);
	atomic_store(&s->run, SPIN_NEED_MAX);
}

void waits_keen(struct waits_end *e)
{
	waits_channel_keen(e->d.channel);
}

void waits_lane_polled(struct ibv_cq *cq)
{
	struct lane *l = vb_lane_of(&vb_cq_of(cq)->place);
	bool polled = false;

	while (!polled) {
		lane_lock(l);
		l->progress.need = 1;
		if (l->progress.mode == PROGRESS_ARMED)
			lane_thread_request(l, LANE_REQ_STOP_WATCHING);
		else
			polled = true;
		lane_unlock(l);
		assert_int_equal(ibv_poll_cq(cq, 1, &(struct ibv_wc){0}), 0);
	}
}

static void *wait_for_event(void *arg)
{
	struct waits_thread *w = arg;
	struct ibv_cq *cq;
	void *user;

	atomic_store(&w->tid, gettid());
	w->ret = ibv_get_cq_event(w->end->d.channel, &cq, &user);
	w->err = errno;
	if (!w->ret)
		ibv_ack_cq_events(cq, 1);
	return NULL;
}

/* In read(2): a lock is another call, and a thread that runs has none. */
static bool is_asleep(const struct waits_thread *w)
{
	char path[64], line[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atomic_load(&w->tid));
	f = fopen(path, "re");
	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	return strncmp(line, "0 ", 2) == 0;
}

static void wait_until_it_runs(const struct waits_thread *w)
{
	while (!atomic_load(&w->tid))
		sched_yield();
}

void waits_until_asleep(const struct waits_thread *w)
{
	wait_until_it_runs(w);
	while (!is_asleep(w))
		sched_yield();
}

bool waits_until_looking(const struct waits_thread *w)
{
	struct evq *events = &vb_channel_of(w->end->d.channel)->events;

	wait_until_it_runs(w);
	while (!is_asleep(w))
		for (unsigned i = 0; i < 100; i++)
			if (evq_is_looked_at(events))
				return true;
	return false;
}

void waits_start(struct waits_thread *w, struct waits_end *e)
{
	*w = (struct waits_thread){.end = e};
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for_event, w), 0);
}
