/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of devices: what ibv_get_device_list() shows. A device that a list or an open
 * context holds keeps its address from one list to the next, because programs compare pointers.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/forks.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/util.h"
#include "base/why.h"
#include "netdev/netdev.h"
#include "verbs/device.h"
#include "verbs/real.h"

/** The program's array: devices of rocemu, then the real ones, then NULL. */
struct vb_list {
	struct ibv_device **real; /* owned, the real library's own list; NULL without one */
	struct ibv_device *devices[];
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
/* struct vb_device, by address and by name; guarded by registry_lock */
static struct hash by_address, by_name;

static uint64_t address_key(const struct ibv_device *device)
{
	return (uintptr_t)device;
}

static uint64_t name_key(const struct netdev *nd)
{
	return hash_bytes(nd->name, strlen(nd->name)) ^ nd->ifindex;
}

/* A child of fork() must find the lock free, also when another thread held it. */
static void registry_before_fork(void)
{
	pthread_mutex_lock(&registry_lock);
}

static void registry_after_fork(void)
{
	pthread_mutex_unlock(&registry_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {registry_before_fork, registry_after_fork,
						      registry_after_fork};

	forks_add(FORK_DEVICES, &handlers);
}

static void device_fill(struct vb_device *d, const struct netdev *nd)
{
	struct ibv_device *b = &d->base;

	b->node_type = IBV_NODE_CA;
	b->transport_type = IBV_TRANSPORT_IB;
	snprintf(b->name, sizeof(b->name), "%s", nd->name);
	snprintf(b->dev_name, sizeof(b->dev_name), "%s", nd->name);
	snprintf(b->dev_path, sizeof(b->dev_path), "/sys/class/infiniband_verbs/%s", nd->name);
	snprintf(b->ibdev_path, sizeof(b->ibdev_path), "/sys/class/infiniband/%s", nd->name);
}

/** The live device of that name on that interface, or a new one. Registry lock held. Others may be
 * reading what programs see of it, which does not change. */
static struct vb_device *device_find_or_new(const struct netdev *nd)
{
	const uint64_t key = name_key(nd);
	struct vb_device *new;

	hash_for_each (d, struct vb_device, by_name, &by_name, key)
		if (!strcmp(d->netdev.name, nd->name) && d->netdev.ifindex == nd->ifindex)
			return d;
	new = calloc(1, sizeof(*new));
	if (!new)
		return NULL;
	device_fill(new, nd);
	hash_add(&by_address, &new->by_address, address_key(&new->base));
	hash_add(&by_name, &new->by_name, key);
	return new;
}

/** The rocemu device with this address, or NULL. Registry lock held. */
static struct vb_device *device_of_locked(struct ibv_device *device)
{
	hash_for_each (d, struct vb_device, by_address, &by_address, address_key(device))
		if (&d->base == device)
			return d;
	return NULL;
}

static void device_put_locked(struct vb_device *d)
{
	if (--d->refs > 0)
		return;
	hash_remove(&by_address, &d->by_address);
	hash_remove(&by_name, &d->by_name);
	free(d);
}

void vb_device_get(struct vb_device *dev)
{
	pthread_mutex_lock(&registry_lock);
	dev->refs++;
	pthread_mutex_unlock(&registry_lock);
}

void vb_device_put(struct vb_device *dev)
{
	pthread_mutex_lock(&registry_lock);
	device_put_locked(dev);
	pthread_mutex_unlock(&registry_lock);
}

void vb_device_netdev(struct vb_device *dev, struct netdev *out)
{
	pthread_mutex_lock(&registry_lock);
	*out = dev->netdev;
	pthread_mutex_unlock(&registry_lock);
}

struct vb_device *vb_device_of(struct ibv_device *device)
{
	struct vb_device *found;

	pthread_mutex_lock(&registry_lock);
	found = device_of_locked(device);
	pthread_mutex_unlock(&registry_lock);
	return found;
}

/**
 * Print why there is no list: a wrong variable (-EINVAL) or a lack of resources. Once per process,
 * because programs request the list repeatedly.
 */
static void complain(const char *variable, int err, const char *text)
{
	static atomic_flag said[2];

	if (atomic_flag_test_and_set(&said[err == -EINVAL]))
		return;
	if (err == -EINVAL)
		log_error("%s: %s", variable, text);
	else
		log_failure(err, text);
}

/**
 * Room for n rocemu devices and those of real, of which it takes ownership. NULL without memory.
 */
static struct vb_list *list_new(unsigned n, struct ibv_device **real, unsigned nreal)
{
	struct vb_list *l = calloc(1, sizeof(*l) + (n + nreal + 1) * sizeof(l->devices[0]));

	if (l)
		l->real = real;
	else if (real)
		REAL_CALL_VOID(ibv_free_device_list, real);
	return l;
}

/** Append the rocemu devices to the list. Registry lock held. @return false when memory ran out. */
static bool list_ours(struct vb_list *l, unsigned *out, const struct netdev *found, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct vb_device *d = device_find_or_new(&found[i]);

		if (!d)
			return false;
		d->netdev = found[i];
		d->index = (int)i;
		d->refs++;
		l->devices[(*out)++] = &d->base;
	}
	return true;
}

typedef int netdevs_fn(const char *spec, struct netdev **out, unsigned *n, char *errbuf,
		       size_t errlen);

static struct ibv_device **list_make(netdevs_fn *netdevs, int *num_devices)
{
	struct ibv_device **real;
	unsigned n, nreal, out = 0;
	struct netdev *found;
	struct vb_list *l;
	char err[768];
	bool ok;
	int ret;

	if (num_devices)
		*num_devices = 0;
	ret = netdevs(secure_getenv("ROCEMU_DEVICES"), &found, &n, err, sizeof(err));
	if (ret < 0) {
		complain("ROCEMU_DEVICES", ret, err);
		return vb_null(-ret);
	}
	ret = netdev_set_layout(secure_getenv("ROCEMU_GID_LAYOUT"), found, n, err, sizeof(err));
	if (ret < 0) {
		complain("ROCEMU_GID_LAYOUT", ret, err);
		free(found);
		return vb_null(-ret);
	}
	real = real_device_list(&nreal);
	if (!n && !nreal)
		why_say(0, "ibv_get_device_list: no device: %s", err);
	l = list_new(n, real, nreal);
	if (!l) {
		free(found);
		return vb_null(ENOMEM);
	}
	pthread_mutex_lock(&registry_lock);
	ok = list_ours(l, &out, found, n);
	pthread_mutex_unlock(&registry_lock);
	free(found);
	if (!ok) {
		ibv_free_device_list(l->devices);
		return vb_null(ENOMEM);
	}
	for (unsigned i = 0; i < nreal; i++)
		l->devices[out++] = l->real[i];
	if (num_devices)
		*num_devices = (int)out;
	return l->devices;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	return list_make(netdev_list, num_devices);
}

struct ibv_device **vb_device_list_all(void)
{
	return list_make(netdev_list_all, NULL);
}

void ibv_free_device_list(struct ibv_device **list)
{
	struct vb_list *l = container_of(list, struct vb_list, devices);

	pthread_mutex_lock(&registry_lock);
	for (unsigned i = 0; list[i]; i++) {
		struct vb_device *d = device_of_locked(list[i]);

		if (d)
			device_put_locked(d);
	}
	pthread_mutex_unlock(&registry_lock);
	if (l->real)
		REAL_CALL_VOID(ibv_free_device_list, l->real);
	free(l);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return vb_device_of(device) ? device->name : REAL_CALL(ibv_get_device_name, device);
}

int ibv_get_device_index(struct ibv_device *device)
{
	struct vb_device *d;
	int index = 0;

	pthread_mutex_lock(&registry_lock);
	d = device_of_locked(device);
	if (d)
		index = d->index;
	pthread_mutex_unlock(&registry_lock);
	return d ? index : REAL_CALL(ibv_get_device_index, device);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct vb_device *d;
	uint8_t bytes[8];
	__be64 guid;

	pthread_mutex_lock(&registry_lock);
	d = device_of_locked(device);
	if (d)
		put_be64(bytes, d->netdev.guid);
	pthread_mutex_unlock(&registry_lock);
	if (!d)
		return REAL_CALL(ibv_get_device_guid, device);
	memcpy(&guid, bytes, sizeof(guid));
	return guid;
}
