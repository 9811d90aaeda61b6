/* SPDX-License-Identifier: BSD-2-Clause */
/* `rocemu stat`, the processes' side: the messages, where the sockets are, and what is answered
 * when. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/stat-dir.h"
#include "engine/stat-server.h"
#include "node.h"

/* ---- messages ---- */

/* Two lanes, the first with one QP. */
struct sample {
	struct stat_head head;
	struct stat_lane first;
	struct rocemu_qp_report qp;
	struct stat_lane second;
};

static struct sample sample(void)
{
	struct sample s = {
		.head = {.magic = STAT_MAGIC,
			 .version = STAT_VERSION,
			 .lane_size = sizeof(struct stat_lane),
			 .qp_size = sizeof(struct rocemu_qp_report),
			 .nlanes = 2,
			 .comm = "program"},
		.first = {.device = "dev0", .nqps = 1},
		.qp = {.qpn = 17},
		.second = {.device = "dev1"},
	};

	return s;
}

TEST(stat_check, whole_answer__taken_and_walked)
{
	const struct sample s = sample();
	const struct stat_lane *l;

	assert_int_equal(stat_check(&s, sizeof(s)), 0);
	l = stat_lane_next(&s.head, NULL);
	assert_ptr_equal(l, &s.first);
	assert_int_equal(stat_qps(l)[0].qpn, 17);
	l = stat_lane_next(&s.head, l);
	assert_ptr_equal(l, &s.second);
	assert_null(stat_lane_next(&s.head, l));
}

TEST(stat_check, cut_anywhere_or_longer__refused)
{
	const struct sample s = sample();
	uint8_t *more = calloc(1, sizeof(s) + 8);

	for (size_t len = 0; len < sizeof(s); len++) {
		uint8_t *cut = malloc(len + 1); /* so that sanitizers see a look beyond */

		memcpy(cut, &s, len);
		assert_int_not_equal(stat_check(cut, len), 0);
		free(cut);
	}
	memcpy(more, &s, sizeof(s));
	assert_int_equal(stat_check(more, sizeof(s) + 8), -EPROTO);
	free(more);
}

TEST(stat_check, other_version__said)
{
	struct sample s = sample();

	s.head.version++;
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTONOSUPPORT);
	s = sample();
	s.head.qp_size += 8;
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTONOSUPPORT);
	s.head.magic++;
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTO);
}

TEST(stat_check, counts_and_names_that_lie__refused)
{
	struct sample s = sample();

	s.first.nqps = UINT32_MAX;
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTO);
	s = sample();
	s.head.nlanes = UINT32_MAX;
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTO);
	s = sample();
	s.qp.nwqes = ROCEMU_REPORT_WQES + 1;
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTO);
	s = sample();
	memset(s.second.device, 'x', sizeof(s.second.device));
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTO);
	s = sample();
	memset(s.head.comm, 'x', sizeof(s.head.comm));
	assert_int_equal(stat_check(&s, sizeof(s)), -EPROTO);
}

/* ---- the directory ---- */

static char dir[STAT_PATH_MAX];

static void make_dir(void)
{
	strcpy(dir, "/tmp/rocemu-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv("ROCEMU_STAT", dir, 1);
}

static const char *in_dir(const char *name)
{
	static char path[2 * STAT_PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* It must be empty, but for the table of pollers, which stays. */
static void remove_dir(void)
{
	unsetenv("ROCEMU_STAT");
	unlink(in_dir("pollers"));
	assert_int_equal(rmdir(dir), 0);
}

static const char *own_name(const char *suffix)
{
	static char name[32];

	snprintf(name, sizeof(name), "%d%s", (int)getpid(), suffix);
	return name;
}

TEST(stat_dir, names__a_number_and_perhaps_one_digit)
{
	assert_int_equal(stat_name_pid("1"), 1);
	assert_int_equal(stat_name_pid("4194304.7"), 4194304);
	assert_int_equal(stat_name_pid("0"), 0);
	assert_int_equal(stat_name_pid(".17.new"), 0);
	assert_int_equal(stat_name_pid("17.10"), 0);
	assert_int_equal(stat_name_pid("17.x"), 0);
	assert_int_equal(stat_name_pid("99999999999999999999"), 0);
	assert_int_equal(stat_name_pid(""), 0);
}

TEST(stat_dir, others_may_write_to_it__not_used)
{
	int fd;

	make_dir();
	fd = stat_dir_open(dir, geteuid(), true);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(stat_dir_open(dir, geteuid() + 1, false), -EPERM);
	chmod(dir, 0770);
	assert_int_equal(stat_dir_open(dir, geteuid(), true), -EPERM);
	assert_int_equal(symlink("/tmp", in_dir("link")), 0);
	assert_true(stat_dir_open(in_dir("link"), geteuid(), true) < 0);
	unlink(in_dir("link"));
	remove_dir();
}

TEST(stat_dir, name_left_behind__taken_over)
{
	char path[STAT_PATH_MAX], again[STAT_PATH_MAX];
	int fd;

	make_dir();
	close(stat_dir_listen(dir, path));
	assert_int_equal(stat_connect(path), -ECONNREFUSED);
	fd = stat_dir_listen(dir, again);
	assert_true(fd >= 0);
	assert_string_equal(again, path);
	close(fd);
	unlink(path);
	remove_dir();
}

/* As a process of another PID namespace may have. */
TEST(stat_dir, name_in_use__another_one)
{
	char path[STAT_PATH_MAX], second[STAT_PATH_MAX];
	int a, b;

	make_dir();
	a = stat_dir_listen(dir, path);
	b = stat_dir_listen(dir, second);
	assert_true(a >= 0 && b >= 0);
	assert_string_equal(second, in_dir(own_name(".1")));
	close(a);
	close(b);
	unlink(path);
	unlink(second);
	remove_dir();
}

TEST(stat_dir, sweep__removes_what_processes_left_behind_alone)
{
	char live[2 * STAT_PATH_MAX], fresh[2 * STAT_PATH_MAX];
	struct stat st;
	const pid_t child = fork();
	int fd, status;

	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	make_dir();
	fd = stat_dir_listen(dir, live);
	snprintf(live, sizeof(live), "%s/%d", dir, (int)child);
	/* Its process does not exist, but there is a listener: of another PID namespace. */
	assert_int_equal(rename(in_dir(own_name("")), live), 0);
	status = open(dir, O_RDONLY | O_DIRECTORY);
	stat_dir_sweep(dir, status);
	assert_int_equal(stat(live, &st), 0);
	close(fd);
	/* Its process was killed before it gave the socket its name. */
	close(stat_dir_listen(dir, fresh));
	assert_int_equal(symlink("x", in_dir("note")), 0);
	assert_int_equal(rename(fresh, in_dir(own_name(".new"))), 0);
	snprintf(fresh, sizeof(fresh), "%s/.%d.new", dir, (int)child);
	assert_int_equal(rename(in_dir(own_name(".new")), fresh), 0);
	stat_dir_sweep(dir, status);
	assert_int_equal(stat(live, &st), -1);
	assert_int_equal(stat(fresh, &st), -1);
	assert_int_equal(lstat(in_dir("note"), &st), 0);
	unlink(in_dir("note"));
	close(status);
	remove_dir();
}

/* ---- the server ---- */

static int fill_one(struct stat_buf *b, uint32_t *n, const atomic_bool *stop)
{
	const struct stat_lane l = {.device = "dev0"};

	(void)stop;
	memcpy(stat_buf_reserve(b, sizeof(l)), &l, sizeof(l));
	b->len += sizeof(l);
	*n = 1;
	return 0;
}

static int fill_busy(struct stat_buf *b, uint32_t *n, const atomic_bool *stop)
{
	(void)b;
	(void)n;
	(void)stop;
	return -EBUSY;
}

/* Connected, with the request sent. */
static int ask(void)
{
	const struct stat_request r = {.magic = STAT_MAGIC, .version = STAT_VERSION};
	const int fd = stat_connect(in_dir(own_name("")));

	assert_true(fd >= 0);
	assert_int_equal(send(fd, &r, sizeof(r), MSG_NOSIGNAL), sizeof(r));
	return fd;
}

/* All that comes, up to the end. */
static size_t take(int fd, void *data, size_t size)
{
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		assert_int_equal(poll(&p, 1, NODE_PATIENCE_MS), 1);
		n = recv(fd, (uint8_t *)data + len, size - len, 0);
		len += n > 0 ? (size_t)n : 0;
		assert_true(len < size);
	}
	close(fd);
	return len;
}

static _Alignas(8) uint8_t got[65536];

TEST(stat_server, asked__answers_and_removes_its_socket_at_the_end)
{
	const struct stat_head *h = (const void *)got;

	make_dir();
	stat_server_use(fill_one);
	stat_server_use(fill_one);
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	assert_int_equal(h->pid, getpid());
	assert_int_equal(h->nlanes, 1);
	stat_server_unuse();
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	stat_server_unuse();
	remove_dir();
}

TEST(stat_server, lanes_missing__says_why)
{
	const struct stat_head *h = (const void *)got;

	make_dir();
	stat_server_use(fill_busy);
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	assert_int_equal(h->err, EBUSY);
	assert_int_equal(h->nlanes, 0);
	stat_server_unuse();
	remove_dir();
}

TEST(stat_server, nonsense__gets_nothing)
{
	static const char junk[64] = "GET / HTTP/1.0\r\n\r\n";
	int fd;

	make_dir();
	stat_server_use(fill_one);
	fd = stat_connect(in_dir(own_name("")));
	assert_int_equal(send(fd, junk, sizeof(struct stat_request), MSG_NOSIGNAL),
			 sizeof(struct stat_request));
	assert_int_equal(take(fd, got, sizeof(got)), 0);
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	stat_server_unuse();
	remove_dir();
}

/* A silent client delays the end of the process only briefly, and the next client, too. */
TEST(stat_server, silent_client__does_not_hang_it)
{
	int fd;

	make_dir();
	stat_server_use(fill_one);
	fd = stat_connect(in_dir(own_name("")));
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	close(fd);
	fd = stat_connect(in_dir(own_name("")));
	stat_server_unuse();
	close(fd);
	remove_dir();
}

TEST(stat_server, no_directory__goes_without)
{
	setenv("ROCEMU_STAT", "/proc/nowhere", 1);
	stat_server_use(fill_one);
	stat_server_unuse();
	setenv("ROCEMU_STAT", "off", 1);
	stat_server_use(fill_one);
	stat_server_unuse();
	unsetenv("ROCEMU_STAT");
}

/* The client's descriptor is the last one; when there are more again it is answered. */
TEST(stat_server, no_descriptor_for_a_client__answers_when_there_is_one)
{
	struct rlimit before, few;
	int last, fd;

	make_dir();
	stat_server_use(fill_one);
	last = dup(STDERR_FILENO);
	close(last);
	getrlimit(RLIMIT_NOFILE, &before);
	few = before;
	few.rlim_cur = (rlim_t)last + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	fd = ask();
	assert_int_equal(fd, last);
	assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(stat_check(got, take(fd, got, sizeof(got))), 0);
	stat_server_unuse();
	remove_dir();
}

TEST(stat_server, forked_child__is_not_the_parents)
{
	int status;
	pid_t child;

	if (HAVE_TSAN)
		skip();
	make_dir();
	stat_server_use(fill_one);
	child = fork();
	if (child == 0) {
		stat_server_forget();
		stat_server_exit();
		/* One of its own, beside the parent's. */
		stat_server_use(fill_one);
		const bool ok = stat_check(got, take(ask(), got, sizeof(got))) == 0;
		stat_server_unuse();
		_exit(!ok);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	stat_server_unuse();
	remove_dir();
}

/* ---- lanes ---- */

TEST(stat_lane, sent_message__counted)
{
	const struct stat_head *h = (const void *)got;
	const struct stat_lane *l = NULL;
	uint64_t sent = 0, rcvd = 0;
	unsigned lanes = 0;
	struct node a, b;

	make_dir();
	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_write(&a, &b, 0, 64, true);
	node_poll(&a);
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	assert_int_equal(h->err, 0);
	while ((l = stat_lane_next(h, l))) {
		lanes++;
		assert_int_equal(l->busy, 0);
		assert_int_equal(l->nqps, 1);
		assert_int_equal(l->objects[ROCEMU_OBJECT_QP], 1);
		assert_int_equal(stat_qps(l)->state, IBV_QPS_RTS);
		sent += stat_qps(l)->stats.tx_bytes;
		rcvd += stat_qps(l)->stats.rx_bytes;
	}
	assert_int_equal(lanes, 2);
	assert_true(sent >= 64 && rcvd >= 64);
	node_close_pair(&a, &b);
	remove_dir();
}

static atomic_bool poll_on;

static void *poll_all_the_time(void *lane)
{
	while (atomic_load(&poll_on))
		lane_poll(lane);
	return NULL;
}

/* It has the lock nearly all the time, and takes it again before a thread that waits is awake. */
TEST(stat_lane, thread_polls__leaves_the_lock_to_it)
{
	enum { ASKED = 20 };
	unsigned answered = 0;
	pthread_t poller;
	struct node n;

	make_dir();
	node_open(&n, "127.0.0.1");
	atomic_store(&poll_on, true);
	assert_int_equal(pthread_create(&poller, NULL, poll_all_the_time, n.lane), 0);
	for (unsigned i = 0; i < ASKED; i++) {
		assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
		answered += !stat_lane_next((const void *)got, NULL)->busy;
	}
	atomic_store(&poll_on, false);
	pthread_join(poller, NULL);
	/* All of them, if the machine schedules the poller. */
	assert_in_range(answered, ASKED / 2, ASKED);
	node_close(&n);
	remove_dir();
}

/* As when a thread hangs with it. */
TEST(stat_lane, lock_is_held__busy_with_who_holds_it)
{
	const struct stat_head *h = (const void *)got;
	const struct stat_lane *l;
	struct node n;

	make_dir();
	node_open(&n, "127.0.0.1");
	lane_lock(n.lane);
	assert_int_equal(stat_check(got, take(ask(), got, sizeof(got))), 0);
	lane_unlock(n.lane);
	l = stat_lane_next(h, NULL);
	assert_non_null(l);
	assert_int_equal(l->busy, 1);
	assert_int_equal(l->busy_tid, syscall(SYS_gettid));
	assert_int_equal(l->nqps, 0);
	assert_true(*l->device);
	node_close(&n);
	remove_dir();
}
