/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the emulated devices by their addresses, through public verbs. A device is opened at its
 * first use and stays open until the process ends, as rdma_get_devices() guarantees; GID tables are
 * read each time.
 */
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/syssocket.h"
#include "rdmacm/addr.h"
#include "rdmacm/device.h"
#include "rdmacm/globals.h"
#include "rdmacm/private.h"

static struct rcm_devices *const devices = &rcm_globals.devices;

enum { GIDS_MAX = 1024 }; /* entries of a GID table that are looked at */

bool rcm_device_is_there(const struct rcm_device *d)
{
	char name[IF_NAMESIZE];

	return !atomic_load(&d->gone) &&
	       (!d->ifindex || if_indextoname(d->ifindex, name) || errno != ENXIO);
}

/* 0: it has no address. */
static unsigned interface_of(struct ibv_context *c)
{
	struct ibv_gid_entry e;
	int err = ENODATA; /* a hole */

	for (uint32_t i = 0; i < GIDS_MAX && err == ENODATA; i++)
		err = ibv_query_gid_ex(c, 1, i, &e, 0);
	return err ? 0 : e.ndev_ifindex;
}

static struct rcm_device *find_open(const char *name)
{
	list_for_each (n, &devices->list) {
		struct rcm_device *d = list_entry(n, struct rcm_device, node);

		/* A removed device does not come back, even under the same name. */
		if (strcmp(ibv_get_device_name(d->verbs->device), name) == 0 &&
		    rcm_device_is_there(d))
			return d;
	}
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

/* All that have addresses, loopback where programs do not list it too. */
static struct ibv_device **list_all(void)
{
	private_devices_fn *list = rcm_private()->devices;

	return list ? list() : ibv_get_device_list(NULL);
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
	struct epoll_event want = {.events = EPOLLIN};
	struct ibv_context *c = ibv_open_device(d->verbs->device);

	if (c && fcntl(c->async_fd, F_SETFL, fcntl(c->async_fd, F_GETFL) | O_NONBLOCK) == 0 &&
	    epoll_ctl(rcm_device_events_fd(), EPOLL_CTL_ADD, c->async_fd, &want) == 0) {
		d->events = c;
		return;
	}
	log_info("%s: its removal will not be seen: %s", ibv_get_device_name(d->verbs->device),
		 strerror(errno));
	if (c)
		ibv_close_device(c);
}

/* -errno; -ENODEV: not an emulated device */
static int open_device(struct ibv_device *device, struct rcm_device **out)
{
	struct rcm_device *d = find_open(ibv_get_device_name(device));
	struct ibv_device_attr attr;
	int err;

	*out = d;
	if (d)
		return 0;
	if (!emulated(device))
		return -ENODEV;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->verbs = ibv_open_device(device);
	if (!d->verbs) {
		err = errno ? -errno : -ENODEV;
		free(d);
		return err;
	}
	d->guid = be64toh(ibv_get_device_guid(device));
	d->ifindex = interface_of(d->verbs);
	err = rcm_verbs_err(ibv_query_device(d->verbs, &attr));
	if (!err) {
		d->max_responder_resources = limit(attr.max_qp_rd_atom);
		d->max_initiator_depth = limit(attr.max_qp_init_rd_atom);
		d->pd = ibv_alloc_pd(d->verbs);
		if (!d->pd)
			err = -errno;
	}
	if (err) {
		ibv_close_device(d->verbs);
		free(d);
		return err;
	}
	list_init(&d->ids);
	open_events(d);
	list_append(&devices->list, &d->node);
	*out = d;
	return 0;
}

/* ---- addresses ---- */

struct addresses {
	struct rcm_local *v; /* owned */
	int n;
};

static int add_device(struct addresses *a, struct rcm_device *d)
{
	unsigned changes = atomic_load(&d->changes); /* before: see rcm_id_set_local() */
	struct ibv_gid_entry *entries = calloc(GIDS_MAX, sizeof(*entries));
	ssize_t n = entries ? ibv_query_gid_table(d->verbs, entries, GIDS_MAX, 0) : -1;
	struct rcm_local *v = n > 0 ? realloc(a->v, ((size_t)a->n + (size_t)n) * sizeof(*v)) : a->v;

	a->v = v ? v : a->v;
	for (const struct ibv_gid_entry *e = entries; v && n > 0; e++, n--) {
		struct rcm_local l = {
			.dev = d,
			.port_num = (uint8_t)e->port_num,
			.sgid_index = (uint8_t)e->gid_index,
			.changes = changes,
		};

		if (e->gid_type != IBV_GID_TYPE_ROCE_V2 || e->gid_index > 0xff)
			continue;
		memcpy(l.gid.raw, e->gid.raw, 16);
		if (l.gid.raw[0] == 0xfe && (l.gid.raw[1] & 0xc0) == 0x80)
			l.scope_id = e->ndev_ifindex;
		v[a->n++] = l;
	}
	free(entries);
	return entries && (v || n <= 0) ? 0 : -ENOMEM;
}

/* Of the devices that are open, which spares making the list. */
static int add_open(struct addresses *a)
{
	int err = 0;

	mutex_lock(&devices->lock);
	list_for_each (n, &devices->list) {
		struct rcm_device *d = list_entry(n, struct rcm_device, node);

		if (!err && rcm_device_is_there(d))
			err = add_device(a, d);
	}
	mutex_unlock(&devices->lock);
	return err;
}

/* Of all devices, which are opened for it. -errno: no device could be opened, or out of memory. */
static int add_all(struct addresses *a)
{
	struct ibv_device **list = list_all();
	struct rcm_device *d;
	int opened = 0, not_opened = 0, err = 0;

	if (!list)
		return -errno;
	mutex_lock(&devices->lock);
	for (struct ibv_device **p = list; *p && !err; p++) {
		int ret = open_device(*p, &d);

		opened += !ret;
		if (ret)
			not_opened = ret;
		else
			err = add_device(a, d);
	}
	mutex_unlock(&devices->lock);
	ibv_free_device_list(list);
	return err || opened ? err : not_opened;
}

void rcm_local_ah(const struct rcm_local *local, const struct rocemu_gid *gid, uint8_t tclass,
		  struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = local->port_num,
		.grh.sgid_index = local->sgid_index,
		.grh.traffic_class = tclass,
		.grh.hop_limit = RCM_HOP_LIMIT,
	};
	memcpy(ah->grh.dgid.raw, gid->raw, 16);
}

bool rcm_device_is_ours(const struct sockaddr *sa)
{
	struct sockaddr_storage ss;
	int fd = sys_socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ours = false;

	if (fd < 0)
		return false;
	rcm_addr_copy(&ss, sa);
	rcm_addr_set_port((struct sockaddr *)&ss, 0);
	ours = bind(fd, (struct sockaddr *)&ss, rcm_addr_len(sa)) == 0;
	close(fd);
	return ours;
}

static bool find(const struct addresses *a, const struct sockaddr *sa, struct rcm_local *out)
{
	const uint32_t scope_id = rcm_addr_scope(sa); /* 0: any */
	struct rocemu_gid gid;

	rcm_addr_to_gid(sa, &gid);
	for (int i = 0; i < a->n; i++) {
		const struct rcm_local *l = &a->v[i];

		if (!rocemu_gid_equal(&l->gid, &gid) ||
		    (scope_id && l->scope_id && scope_id != l->scope_id))
			continue;
		*out = *l;
		return true;
	}
	return false;
}

int rcm_device_find(const struct sockaddr *sa, struct rcm_local *out)
{
	struct addresses a = {0};
	int err = 0;

	add_open(&a);
	if (!find(&a, sa, out)) {
		err = add_all(&a);
		if (!err && !find(&a, sa, out))
			err = rcm_device_is_ours(sa) ? -ENODEV : -EADDRNOTAVAIL;
	}
	free(a.v);
	return err;
}

static bool is_loopback(const struct rcm_local *l, int family)
{
	struct sockaddr_storage ss;
	struct sockaddr *sa = (struct sockaddr *)&ss;

	rcm_addr_from_gid(sa, &l->gid, 0, 0);
	return sa->sa_family == family && rcm_addr_loopback(sa);
}

int rcm_device_find_loopback(int family, struct rcm_local *out)
{
	struct rcm_local *v = NULL;
	int i = 0, n = rcm_device_addresses(&v);

	while (i < n && !is_loopback(&v[i], family))
		i++;
	if (i < n)
		*out = v[i];
	free(v);
	return n < 0 ? n : i < n ? 0 : -ENODEV;
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

/* err: of what has filled a. */
static int given(int err, struct addresses *a, struct rcm_local **out)
{
	if (err)
		free(a->v);
	else
		*out = a->v;
	return err ? err : a->n;
}

int rcm_device_addresses(struct rcm_local **out)
{
	struct addresses a = {0};

	return given(add_all(&a), &a, out);
}

int rcm_device_table(struct rcm_device *dev, struct rcm_local **out)
{
	struct addresses a = {0};

	return given(add_device(&a, dev), &a, out);
}

struct rcm_device *rcm_device_next(struct rcm_device *after)
{
	struct list *n;

	mutex_lock(&devices->lock);
	n = after ? after->node.next : devices->list.next;
	mutex_unlock(&devices->lock);
	return n == &devices->list ? NULL : list_entry(n, struct rcm_device, node);
}

uint64_t rcm_device_guid(void)
{
	struct addresses a = {0};
	uint64_t guid;

	if (add_open(&a) || !a.n)
		add_all(&a);
	guid = a.n ? a.v[0].dev->guid : 0;
	free(a.v);
	return guid;
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
		if (open_device(*p, &d) == 0)
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
