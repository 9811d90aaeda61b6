/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is done before a program ends that ends as soon as it has seen a completion, perhaps by
 * _exit().
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dev.h"
#include "engine/lane-internal.h"
#include "verbs/context.h"

enum { PATIENCE_S = 20 };

/* The system call that a thread waits in, and its first argument. -1: none, or not known. */
static int waits_in(const char *task, unsigned long *arg)
{
	char path[300], text[256];
	int number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", task);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (!fgets(text, sizeof(text), f) || sscanf(text, "%d 0x%lx", &number, arg) != 2)
		number = -1;
	fclose(f);
	return number;
}

/* Containers may hide what a process waits for. */
static void need_system_calls(void)
{
	if (access("/proc/self/syscall", R_OK) == 0)
		return;
	print_message("skipped: /proc/self/syscall is not there\n");
	skip();
}

static void message(struct dev *d, struct ibv_qp *from, struct ibv_qp *to, uint32_t room)
{
	struct ibv_sge sge = dev_sge(d, 0, 100);
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	dev_post_recv(d, to, 2, 1024, room);
	assert_int_equal(ibv_post_send(from, &wr, &bad), 0);
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

/* ---- the lock ---- */

/* Another thread has the lane's lock, and gives it up when the first one waits for it. */
struct holder {
	struct lane *lane;
	char first[16]; /* thread */
	atomic_bool holds;
};

static void *hold(void *arg)
{
	struct holder *h = arg;
	unsigned long futex = 0;

	lane_lock(h->lane);
	atomic_store(&h->holds, true);
	while (waits_in(h->first, &futex) != SYS_futex || futex != (uintptr_t)&h->lane->lock)
		sched_yield();
	lane_unlock(h->lane);
	return NULL;
}

/* A packet that a fault holds back leaves at exit, and is in the capture when it leaves. */
static void send_and_exit(const char *path)
{
	struct holder h = {0};
	pthread_t thread;
	struct pair p;

	setenv("ROCEMU_PCAP", path, 1);
	setenv("ROCEMU_IMPAIR", "delay=10s", 1);
	pair_open(&p);
	message(&p.d, p.a, p.b, 100);
	h.lane = vb_context_of(p.d.ctx)->lanes.lane[0];
	snprintf(h.first, sizeof(h.first), "%d", (int)getpid());
	assert_int_equal(pthread_create(&thread, NULL, hold, &h), 0);
	assert_int_equal(pthread_detach(thread), 0); /* exit() does not wait for it */
	while (!atomic_load(&h.holds))
		sched_yield();
	exit(0);
}

/* The first test: no threads in the child of a process with threads under ThreadSanitizer. */
TEST(exit, other_thread_has_the_lock__waited_for)
{
	char path[] = "/tmp/rocemu-exit-XXXXXX";
	const int fd = mkstemp(path);
	struct stat st;
	pid_t child;
	int status;

	need_system_calls();
	assert_true(fd >= 0);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		send_and_exit(path);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(fstat(fd, &st), 0);
	unlink(path);
	close(fd);
	assert_int_equal(status, 0);
	/* The file's header has 24 bytes, a SEND of 100 more than 150. */
	assert_true(st.st_size > 150);
}

/* ---- the first thread ---- */

static void *take_event_and_exit(void *channel)
{
	struct ibv_cq *cq;
	void *user;

	/* Not exit(): what the first thread had on its stack would count as leaked. */
	_exit(ibv_get_cq_event(channel, &cq, &user) ? 1 : 0);
}

/* It arms the CQ with a completion in it, and leaves the event to another thread. */
static void arm_and_end(void)
{
	static struct pair p; /* other threads use it longer */
	struct ibv_cq *send_cq;
	pthread_t thread;

	dev_open(&p.d);
	send_cq = ibv_create_cq(p.d.ctx, 16, NULL, NULL, 0);
	assert_non_null(send_cq);
	p.a = ibv_create_qp(p.d.pd, &(struct ibv_qp_init_attr){
					    .send_cq = send_cq,
					    .recv_cq = send_cq,
					    .cap = {.max_send_wr = 4, .max_send_sge = 1},
					    .qp_type = IBV_QPT_RC,
				    });
	assert_non_null(p.a);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	message(&p.d, p.a, p.b, 100);
	dev_poll(send_cq); /* so the receive completion is there */
	assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, take_event_and_exit, p.d.channel), 0);
	pthread_exit(NULL);
}

TEST(exit, first_thread_ended_after_arming__event_for_the_others)
{
	const pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		alarm(PATIENCE_S);
		arm_and_end();
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- reasons ---- */

/* stderr is a pipe without room: a thread that prints waits, in write(). */
struct full_pipe {
	int fd[2];
	int before; /* the test's stderr */
};

static void flags(int fd, int set)
{
	assert_int_equal(fcntl(fd, F_SETFL, set), 0);
}

static void fill(struct full_pipe *p)
{
	static const char zeros[4096];

	assert_int_equal(pipe2(p->fd, O_CLOEXEC | O_NONBLOCK), 0);
	for (size_t len = sizeof(zeros); len; len /= 2)
		while (write(p->fd[1], zeros, len) > 0)
			;
	assert_int_equal(errno, EAGAIN);
	flags(p->fd[1], 0);
	p->before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	assert_true(p->before >= 0 && dup2(p->fd[1], STDERR_FILENO) == STDERR_FILENO);
}

/* From now on there is room. */
static void drain(const struct full_pipe *p)
{
	char bytes[4096];

	while (read(p->fd[0], bytes, sizeof(bytes)) > 0)
		;
}

static void restore(struct full_pipe *p)
{
	assert_int_equal(dup2(p->before, STDERR_FILENO), STDERR_FILENO);
	close(p->before);
	close(p->fd[0]);
	close(p->fd[1]);
}

/* A thread waits in write() to stderr. */
static bool a_thread_prints(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned long fd;
	bool found = false;

	assert_non_null(d);
	for (struct dirent *e; !found && (e = readdir(d));)
		found = waits_in(e->d_name, &fd) == SYS_write && fd == STDERR_FILENO;
	closedir(d);
	return found;
}

/*
 * The lane's thread handles the packet, since no other thread polls until it prints. While it does,
 * it has the lane's lock, so polls take what is in the CQ and drive nothing.
 */
TEST(exit, completion_in_error__not_seen_before_its_reason_is_printed)
{
	struct full_pipe full = {0};
	struct ibv_wc early, wc;
	struct pair p;
	int found;

	need_system_calls();
	setenv("ROCEMU_LOG", "why", 1);
	pair_open(&p);
	fill(&full);
	message(&p.d, p.a, p.b, 50);
	while (!a_thread_prints())
		sched_yield();
	found = ibv_poll_cq(p.d.cq, 1, &early);
	drain(&full);
	if (!found)
		early = dev_poll(p.d.cq);
	wc = dev_poll(p.d.cq);
	restore(&full);
	assert_int_equal(early.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(found, 0);
	ibv_destroy_qp(p.a);
	ibv_destroy_qp(p.b);
	dev_close(&p.d);
}
