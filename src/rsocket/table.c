/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of sockets by their numbers. A thread that uses a socket holds a reference, which keeps
 * rclose() from freeing it; rclose() wakes sleeping threads, and waits until they have left.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/log.h"
#include "rsocket/rs.h"

static struct {
	pthread_mutex_t lock; /* a leaf; taken with or without a socket's lock */
	pthread_cond_t gone;  /* a reference was released */
	struct rs **at;	      /* by number */
	size_t size;
	bool complained; /* about a socket of before fork() */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .gone = PTHREAD_COND_INITIALIZER};

static struct rs *find(int fd)
{
	return fd >= 0 && (size_t)fd < table.size ? table.at[fd] : NULL;
}

/*
 * ---- fork: the child's copies of sockets are unusable, since the parent owns their connections
 * ----
 */

static void fork_prepare(void)
{
	pthread_mutex_lock(&table.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&table.lock);
}

static void fork_child(void)
{
	for (size_t i = 0; i < table.size; i++) {
		struct rs *rs = table.at[i];

		if (!rs)
			continue;
		mutex_init(&rs->lock);
		rs->orphan = true;
		rs->refs = 0;
	}
	table.complained = false;
	pthread_cond_init(&table.gone, NULL);
	pthread_mutex_unlock(&table.lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_SOCKETS, &handlers);
}

/** @return true: it was one, and its number is free now. Its resources are not freed. */
bool rs_close_orphan(int fd)
{
	struct rs *rs;
	bool orphan;

	pthread_mutex_lock(&table.lock);
	rs = find(fd);
	orphan = rs && rs->orphan;
	if (orphan)
		table.at[fd] = NULL;
	pthread_mutex_unlock(&table.lock);
	if (orphan)
		close(fd);
	return orphan;
}

static struct rs *refuse_orphan(struct rs *rs)
{
	bool complained;

	pthread_mutex_lock(&table.lock);
	complained = table.complained;
	table.complained = true;
	pthread_mutex_unlock(&table.lock);
	if (!complained)
		log_error("process %d (%s) uses an rsocket from before fork() or daemon(): its "
			  "calls fail (ENODEV); make and connect it after that",
			  (int)getpid(), program_invocation_short_name);
	rs_unref(rs);
	errno = ENODEV;
	return NULL;
}

/* ---- references ---- */

bool rs_is(int fd)
{
	bool is;

	pthread_mutex_lock(&table.lock);
	is = find(fd) != NULL;
	pthread_mutex_unlock(&table.lock);
	return is;
}

struct rs *rs_ref(int fd)
{
	struct rs *rs;

	pthread_mutex_lock(&table.lock);
	rs = find(fd);
	if (rs)
		rs->refs++;
	pthread_mutex_unlock(&table.lock);
	if (!rs)
		errno = EBADF;
	return rs;
}

void rs_unref(struct rs *rs)
{
	pthread_mutex_lock(&table.lock);
	rs->refs--;
	pthread_cond_broadcast(&table.gone);
	pthread_mutex_unlock(&table.lock);
}

struct rs *rs_get(int fd)
{
	struct rs *rs = rs_ref(fd);

	if (!rs)
		return NULL;
	if (rs->orphan)
		return refuse_orphan(rs);
	mutex_lock(&rs->lock);
	if (!rs->sleep.closing)
		return rs;
	/* It was closed while this thread waited for the lock. */
	rs_put(rs);
	errno = EBADF;
	return NULL;
}

void rs_put(struct rs *rs)
{
	mutex_unlock(&rs->lock);
	rs_unref(rs);
}

/** Room for a number. -ENOMEM. */
static int grow(size_t fd)
{
	enum { AT_LEAST = 64 };
	size_t size = table.size ? table.size : AT_LEAST;
	struct rs **at;

	while (size <= fd)
		size *= 2;
	if (size == table.size)
		return 0;
	at = reallocarray(table.at, size, sizeof(struct rs *));
	if (!at)
		return -ENOMEM;
	memset(at + table.size, 0, (size - table.size) * sizeof(struct rs *));
	table.at = at;
	table.size = size;
	return 0;
}

int rs_add(struct rs *rs)
{
	int ret;

	pthread_mutex_lock(&table.lock);
	ret = rs->fd < 0 ? -EBADF : grow((size_t)rs->fd);
	if (ret == 0)
		table.at[rs->fd] = rs;
	pthread_mutex_unlock(&table.lock);
	return ret;
}

void rs_remove(struct rs *rs)
{
	rs->sleep.closing = true;
	rs_wake(rs);
	mutex_unlock(&rs->lock);
	rs_keepalive_stop(rs);

	pthread_mutex_lock(&table.lock);
	table.at[rs->fd] = NULL;
	while (rs->refs > 1)
		pthread_cond_wait(&table.gone, &table.lock);
	pthread_mutex_unlock(&table.lock);

	mutex_lock(&rs->lock);
}

void rs_init(struct rs *rs, const struct rs_ops *ops, int domain, int type)
{
	rs->ops = ops;
	rs->domain = domain;
	rs->type = type;
	rs->fd = -1;
	mutex_init(&rs->lock);
	rs_sleep_init(&rs->sleep);
	rs_keepalive_init(&rs->keep);
	rs_settings_load(&rs->set);
}

void rs_fini(struct rs *rs)
{
	rs_sleep_fini(&rs->sleep);
	mutex_destroy(&rs->lock);
}
