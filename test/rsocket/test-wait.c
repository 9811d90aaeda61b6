/* SPDX-License-Identifier: BSD-2-Clause */
/* The table and the waiting, with a kind of socket that is a pipe. */
#include <stdlib.h>
#include <unistd.h>

#include "lib/test.h"
#include "rsocket/rs.h"
#include "sock.h"

struct fake {
	struct rs rs;
	int in, out;
	unsigned bytes; /* taken from the pipe by a woken thread */
};

static struct fake *fake_of(struct rs *rs)
{
	return container_of(rs, struct fake, rs);
}

static short fake_ready(struct rs *rs, short events)
{
	return fake_of(rs)->bytes ? events & POLLIN : 0;
}

static unsigned fake_arm(struct rs *rs, short events, struct pollfd *fds)
{
	fds[0] = (struct pollfd){.fd = fake_of(rs)->in, .events = events};
	return 1;
}

/** All that is there is taken by one, as from a completion queue. */
static void fake_woken(struct rs *rs)
{
	uint8_t buf[64];
	ssize_t n = read(fake_of(rs)->in, buf, sizeof(buf));

	if (n > 0)
		fake_of(rs)->bytes += (unsigned)n;
}

static void fake_close(struct rs *rs)
{
	struct fake *f = fake_of(rs);

	close(f->in);
	close(f->out);
	mutex_unlock(&rs->lock);
	rs_fini(rs);
	free(f);
}

static const struct rs_ops fake_ops = {
	.close = fake_close,
	.ready = fake_ready,
	.arm = fake_arm,
	.woken = fake_woken,
};

static struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));
	int p[2];

	assert_non_null(f);
	assert_int_equal(pipe2(p, O_NONBLOCK | O_CLOEXEC), 0);
	rs_init(&f->rs, &fake_ops, AF_INET, SOCK_STREAM);
	f->in = p[0];
	f->out = p[1];
	f->rs.fd = f->in;
	assert_int_equal(rs_add(&f->rs), 0);
	return f;
}

static int wait_for(int fd, short events, int flags, int timeout_ms)
{
	struct rs *rs = rs_get(fd);
	int ret;

	if (!rs)
		return -errno;
	ret = rs_wait(rs, events, flags, timeout_ms);
	if (ret == 0 && fake_of(rs)->bytes)
		fake_of(rs)->bytes--;
	rs_put(rs);
	return ret;
}

struct waiter {
	pthread_t thread;
	int fd, ret;
};

static void *run_waiter(void *arg)
{
	struct waiter *w = arg;

	w->ret = wait_for(w->fd, POLLIN, 0, SOCK_GUARD_MS);
	return NULL;
}

/** Until so many threads sleep on it. */
static void until_asleep(struct fake *f, unsigned n)
{
	const uint64_t end = rs_now() + (uint64_t)SOCK_GUARD_MS * 1000000;
	unsigned now;

	do {
		mutex_lock(&f->rs.lock);
		now = f->rs.sleep.sleepers;
		mutex_unlock(&f->rs.lock);
		assert_true(rs_now() < end);
	} while (now < n);
}

TEST(table, number_that_is_none__ebadf)
{
	static const int none[] = {-1, 0, 3, 1000000};

	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		errno = 0;
		assert_false(rs_is(none[i]));
		assert_null(rs_get(none[i]));
		assert_int_equal(errno, EBADF);
	}
}

TEST(table, large_number__grows)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	rs_init(&f->rs, &fake_ops, AF_INET, SOCK_STREAM);
	f->in = f->out = -1;
	f->rs.fd = 1000000;
	assert_int_equal(rs_add(&f->rs), 0);
	assert_true(rs_is(1000000));
	assert_false(rs_is(999999));
	assert_false(rs_is(1000001));
	assert_int_equal(rclose(1000000), 0);
	assert_false(rs_is(1000000));
}

TEST(wait, nothing_comes__eagain)
{
	struct fake *f = fake_new();
	const uint64_t begin = rs_now();

	assert_int_equal(wait_for(f->in, POLLIN, 0, 0), -EAGAIN);
	assert_int_equal(wait_for(f->in, POLLIN, MSG_DONTWAIT, -1), -EAGAIN);
	f->rs.nonblock = true;
	assert_int_equal(wait_for(f->in, POLLIN, 0, -1), -EAGAIN);
	f->rs.nonblock = false;
	assert_int_equal(wait_for(f->in, POLLIN, 0, 20), -EAGAIN);
	assert_true(rs_now() - begin >= 20 * 1000000);
	rclose(f->in);
}

TEST(wait, one_takes_what_came_for_two__both_wake)
{
	enum { WAITERS = 4 };

	for (int round = 0; round < 50; round++) {
		struct fake *f = fake_new();
		struct waiter w[WAITERS];

		for (int i = 0; i < WAITERS; i++) {
			w[i] = (struct waiter){.fd = f->in, .ret = 1};
			w[i].thread = sock_thread(run_waiter, &w[i]);
		}
		until_asleep(f, WAITERS);
		assert_int_equal(write(f->out, "1234", WAITERS), WAITERS);
		for (int i = 0; i < WAITERS; i++) {
			sock_join(w[i].thread);
			assert_int_equal(w[i].ret, 0);
		}
		assert_int_equal(f->bytes, 0);
		rclose(f->in);
	}
}

TEST(wait, closed_meanwhile__ebadf)
{
	struct fake *f = fake_new();
	struct waiter w[2];

	for (int i = 0; i < 2; i++) {
		w[i] = (struct waiter){.fd = f->in, .ret = 1};
		w[i].thread = sock_thread(run_waiter, &w[i]);
	}
	until_asleep(f, 2);
	assert_int_equal(rclose(f->in), 0);
	for (int i = 0; i < 2; i++) {
		sock_join(w[i].thread);
		assert_int_equal(w[i].ret, -EBADF);
	}
}

struct poller {
	struct pollfd fds[3];
	int ret;
};

static void *run_poller(void *arg)
{
	struct poller *p = arg;

	p->ret = rpoll(p->fds, 3, SOCK_GUARD_MS);
	return NULL;
}

TEST(poll, ours_and_others__each_wakes)
{
	struct fake *f = fake_new();
	struct poller p;
	pthread_t t;
	int other[2];

	assert_int_equal(pipe(other), 0);
	for (int which = 0; which < 2; which++) {
		p = (struct poller){.fds = {{.fd = other[0], .events = POLLIN},
					    {.fd = f->in, .events = POLLIN | POLLRDNORM},
					    {.fd = -1, .events = POLLIN, .revents = 7}}};
		t = sock_thread(run_poller, &p);
		until_asleep(f, 1);
		assert_int_equal(write(which == 0 ? other[1] : f->out, "x", 1), 1);
		sock_join(t);
		assert_int_equal(p.ret, 1);
		assert_int_equal(p.fds[0].revents, which == 0 ? POLLIN : 0);
		assert_int_equal(p.fds[1].revents, which == 1 ? POLLIN | POLLRDNORM : 0);
		assert_int_equal(p.fds[2].revents, 0);
		if (which == 0)
			assert_int_equal(read(other[0], &p, 1), 1);
	}
	/* Level-triggered: what is so stays so. */
	assert_int_equal(rpoll(p.fds, 3, 0), 1);
	close(other[0]);
	close(other[1]);
	rclose(f->in);
}

TEST(poll, closed_meanwhile__nval)
{
	struct fake *f = fake_new();
	struct poller p = {.fds = {{.fd = f->in, .events = POLLIN}, {.fd = -1}, {.fd = -1}}};
	pthread_t t = sock_thread(run_poller, &p);

	until_asleep(f, 1);
	assert_int_equal(rclose(f->in), 0);
	sock_join(t);
	assert_int_equal(p.ret, 1);
	assert_int_equal(p.fds[0].revents, POLLNVAL);
}

TEST(poll, many__are_all_seen)
{
	enum { MANY = 100 };
	struct fake *f[MANY];
	struct pollfd fds[MANY];

	for (int i = 0; i < MANY; i++) {
		f[i] = fake_new();
		fds[i] = (struct pollfd){.fd = f[i]->in, .events = POLLIN};
	}
	assert_int_equal(rpoll(fds, MANY, 0), 0);
	f[7]->bytes = f[93]->bytes = 1;
	assert_int_equal(rpoll(fds, MANY, -1), 2);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(fds[i].revents, i == 7 || i == 93 ? POLLIN : 0);
	for (int i = 0; i < MANY; i++)
		rclose(fds[i].fd);
}

TEST(poll, bad_descriptor__nval)
{
	struct fake *f = fake_new();
	struct pollfd fds[] = {{.fd = 999999, .events = POLLIN}, {.fd = f->in, .events = POLLIN}};

	assert_int_equal(rpoll(fds, 2, -1), 1);
	assert_int_equal(fds[0].revents, POLLNVAL);
	rclose(f->in);
}

TEST(select, ours_and_others__sets_say_which)
{
	struct fake *f = fake_new();
	struct timeval none = {0}, some = {.tv_usec = 10000};
	fd_set r, w, e;
	int other[2];

	assert_int_equal(pipe(other), 0);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(f->in, &r);
	FD_SET(other[0], &r);
	FD_SET(other[1], &w);
	FD_SET(f->in, &e);
	assert_int_equal(rselect(FD_SETSIZE, &r, &w, &e, &none), 1);
	assert_false(FD_ISSET(f->in, &r));
	assert_false(FD_ISSET(other[0], &r));
	assert_true(FD_ISSET(other[1], &w));
	assert_false(FD_ISSET(f->in, &e));

	f->bytes = 1;
	FD_SET(f->in, &r);
	FD_CLR(other[1], &w);
	assert_int_equal(rselect(FD_SETSIZE, &r, &w, &e, NULL), 1);
	assert_true(FD_ISSET(f->in, &r));

	f->bytes = 0;
	assert_int_equal(rselect(FD_SETSIZE, &r, NULL, NULL, &some), 0);
	assert_int_equal(rselect(-1, &r, NULL, NULL, &some), -1);
	assert_int_equal(errno, EINVAL);
	FD_ZERO(&r);
	FD_SET(FD_SETSIZE - 1, &r);
	assert_int_equal(rselect(FD_SETSIZE, &r, NULL, NULL, &none), -1);
	assert_int_equal(errno, EBADF);
	close(other[0]);
	close(other[1]);
	rclose(f->in);
}
