/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulated devices that are open. A device is opened when it is needed, through public verbs,
 * and stays open until the process ends, as rdma_get_devices() guarantees. It is opened a second
 * time when IDs may be on it, for its events.
 */
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "rdmacm/device.h"
#include "rdmacm/globals.h"
#include "rdmacm/private.h"

static struct rcm_devices *const devices = &rcm_globals.devices;

/* 0: an interface that is not known counts as there. */
static bool has_interface(unsigned ifindex)
{
	char name[IF_NAMESIZE];

	return !ifindex || if_indextoname(ifindex, name) || errno != ENXIO;
}

bool rcm_device_is_there(const struct rcm_device *d)
{
	return !atomic_load(&d->gone) && has_interface(d->ifindex);
}

/* 0: it has no address. */
static unsigned interface_of(struct ibv_context *c)
{
	struct ibv_gid_entry e;
	int err = ENODATA; /* a hole */

	for (uint32_t i = 0; i < RCM_GIDS_MAX && err == ENODATA; i++)
		err = ibv_query_gid_ex(c, 1, i, &e, 0);
	return err ? 0 : e.ndev_ifindex;
}

static uint64_t name_key(const char *name)
{
	return hash_bytes(name, strlen(name));
}

struct rcm_device *rcm_device_find_open(const char *name)
{
	hash_for_each (d, struct rcm_device, by_name, &devices->by_name, name_key(name))
		/* A removed device does not come back, even under the same name. */
		if (strcmp(ibv_get_device_name(d->verbs->device), name) == 0 &&
		    rcm_device_is_there(d))
			return d;
	return NULL;
}

static uint8_t limit(int value)
{
	return (uint8_t)(value > 0xfe ? 0xfe : value < 0 ? 0 : value);
}

/* A real device that libibverbs lists as well uses the kernel's connection manager.
 */
static bool emulated(struct ibv_device *device)
{
	private_emulates_fn *emulates = rcm_private()->emulates;

	return !emulates || emulates(device);
}

int rcm_device_events_fd(void)
{
	int none = -1, fd = atomic_load(&devices->events_fd), made;

	if (fd >= 0)
		return fd;
	made = epoll_create1(EPOLL_CLOEXEC);
	if (made < 0 || atomic_compare_exchange_strong(&devices->events_fd, &none, made))
		return made;
	close(made); /* another thread was quicker */
	return none;
}

/* A second context: the events of the first are the program's to read. */
static void open_events(struct rcm_device *d)
{
	struct epoll_event want = {.events = EPOLLIN, .data.ptr = d};
	struct ibv_context *c = ibv_open_device(d->verbs->device);

	d->events = c; /* before the thread that follows it can get one */
	if (c && fcntl(c->async_fd, F_SETFL, fcntl(c->async_fd, F_GETFL) | O_NONBLOCK) == 0 &&
	    epoll_ctl(rcm_device_events_fd(), EPOLL_CTL_ADD, c->async_fd, &want) == 0)
		return;
	log_info("%s: its removal will not be seen: %s", ibv_get_device_name(d->verbs->device),
		 strerror(errno));
	d->events = NULL;
	if (c)
		ibv_close_device(c);
}

/* What is known of the device from now on. -errno. */
static int query(struct rcm_device *d)
{
	struct ibv_device_attr attr;
	int err = rcm_verbs_err(ibv_query_device(d->verbs, &attr));

	if (err)
		return err;
	d->guid = be64toh(ibv_get_device_guid(d->verbs->device));
	/* The address may have gone since the device was listed. */
	if (!d->ifindex)
		d->ifindex = interface_of(d->verbs);
	d->max_responder_resources = limit(attr.max_qp_rd_atom);
	d->max_initiator_depth = limit(attr.max_qp_init_rd_atom);
	d->pd = ibv_alloc_pd(d->verbs);
	return d->pd ? 0 : -errno;
}

static int open_new(struct ibv_device *device, unsigned ifindex, struct rcm_device **out)
{
	struct rcm_device *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	d->ifindex = ifindex;
	d->verbs = ibv_open_device(device);
	if (!d->verbs) {
		err = errno ? -errno : -ENODEV;
		free(d);
		return err;
	}
	err = query(d);
	if (err) {
		ibv_close_device(d->verbs);
		free(d);
		return err;
	}
	list_init(&d->ids);
	list_append(&devices->list, &d->node);
	hash_add(&devices->by_name, &d->by_name, name_key(ibv_get_device_name(device)));
	*out = d;
	return 0;
}

int rcm_device_open(struct ibv_device *device, unsigned ifindex, bool follow,
		    struct rcm_device **out)
{
	struct rcm_device *d = rcm_device_find_open(ibv_get_device_name(device));
	int err = 0;

	if (!d && !emulated(device))
		return -ENODEV;
	if (!d && !has_interface(ifindex))
		return -ENOENT;
	if (!d)
		err = open_new(device, ifindex, &d);
	if (err)
		return err;
	if (follow && !d->followed) {
		d->followed = true;
		open_events(d);
	}
	*out = d;
	return 0;
}

void rcm_device_recheck(void)
{
	atomic_store(&devices->recheck, true);
}

/* One whose recheck is set. */
static struct rcm_device *find_recheck(void)
{
	struct rcm_device *found = NULL;

	if (!atomic_load(&devices->recheck))
		return NULL;
	mutex_lock(&devices->lock);
	/* Before the walk: what is set meanwhile is found by the next one. */
	atomic_store(&devices->recheck, false);
	list_for_each_entry (d, struct rcm_device, node, &devices->list)
		if (!found && atomic_load(&d->recheck))
			found = d;
	/* There may be more. */
	if (found)
		atomic_store(&devices->recheck, true);
	mutex_unlock(&devices->lock);
	return found;
}

struct rcm_device *rcm_device_changed(void)
{
	struct rcm_device *d = find_recheck();
	struct epoll_event event;

	if (!d && epoll_wait(rcm_device_events_fd(), &event, 1, 0) == 1)
		d = event.data.ptr;
	return d;
}

int rcm_device_is_listed(const struct rcm_device *dev)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **p = list;
	const char *name = ibv_get_device_name(dev->verbs->device);
	int listed;

	if (!list)
		return -errno;
	while (*p && strcmp(ibv_get_device_name(*p), name) != 0)
		p++;
	listed = *p != NULL;
	ibv_free_device_list(list);
	return listed;
}

struct ibv_xrcd *rcm_device_xrcd(struct rcm_device *dev)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	mutex_lock(&devices->lock);
	if (!dev->xrcd)
		dev->xrcd = ibv_open_xrcd(dev->verbs, &attr);
	xrcd = dev->xrcd;
	mutex_unlock(&devices->lock);
	return xrcd;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context **out;
	struct rcm_device *d;
	int n = 0;

	if (!list)
		return NULL;
	while (list[n])
		n++;
	out = calloc((size_t)n + 1, sizeof(struct ibv_context *));
	n = 0;
	mutex_lock(&devices->lock);
	for (struct ibv_device **p = list; out && *p; p++)
		if (rcm_device_open(*p, 0, false, &d) == 0)
			out[n++] = d->verbs;
	mutex_unlock(&devices->lock);
	ibv_free_device_list(list);
	if (num_devices)
		*num_devices = n;
	if (out && n == 0) {
		free(out);
		errno = ENODEV;
		return NULL;
	}
	return out;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
