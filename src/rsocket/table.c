/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of sockets by their numbers. A thread that uses a socket holds a reference, which keeps
 * rclose() from freeing it; rclose() wakes those that sleep, and waits until they are gone.
 */
#include <stdlib.h>
#include <string.h>

#include "rsocket/rs.h"

static struct {
	pthread_mutex_t lock; /* a leaf; taken with or without a socket's lock */
	pthread_cond_t gone;  /* a reference was given back */
	struct rs **at;	      /* by number */
	size_t size;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .gone = PTHREAD_COND_INITIALIZER};

static struct rs *find(int fd)
{
	return fd >= 0 && (size_t)fd < table.size ? table.at[fd] : NULL;
}

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
	pthread_mutex_lock(&rs->lock);
	if (!rs->sleep.closing)
		return rs;
	/* It was closed while we waited for the lock. */
	rs_put(rs);
	errno = EBADF;
	return NULL;
}

void rs_put(struct rs *rs)
{
	pthread_mutex_unlock(&rs->lock);
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
	pthread_mutex_unlock(&rs->lock);
	rs_keepalive_stop(rs);

	pthread_mutex_lock(&table.lock);
	table.at[rs->fd] = NULL;
	while (rs->refs > 1)
		pthread_cond_wait(&table.gone, &table.lock);
	pthread_mutex_unlock(&table.lock);

	pthread_mutex_lock(&rs->lock);
}

void rs_init(struct rs *rs, const struct rs_ops *ops, int domain, int type)
{
	rs->ops = ops;
	rs->domain = domain;
	rs->type = type;
	rs->fd = -1;
	pthread_mutex_init(&rs->lock, NULL);
	rs_sleep_init(&rs->sleep);
	rs_keepalive_init(&rs->keep);
	rs_settings_load(&rs->set);
}

void rs_fini(struct rs *rs)
{
	rs_sleep_fini(&rs->sleep);
	pthread_mutex_destroy(&rs->lock);
}
