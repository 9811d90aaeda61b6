/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulated devices by their addresses, through public verbs. A device is opened when it is
 * needed first and stays open as long as the process lives, as rdma_get_devices() promises; GID
 * tables are read each time.
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

		/* One that is gone does not come back, not under that name either. */
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

/* A real one that libibverbs lists beside ours has a connection manager of its own, in the kernel.
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

/* -errno; -ENODEV: not a device of ours */
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

/* Called for addresses until it returns true. */
typedef bool address_fn(const struct rcm_local *local, void *user);

/* Of one device. @return 1: fn returned true; 0; or -errno. */
static int each_gid(struct rcm_device *d, address_fn *fn, void *user)
{
	unsigned changes = atomic_load(&d->changes); /* before: see rcm_id_set_local() */
	struct ibv_gid_entry *entries = calloc(GIDS_MAX, sizeof(*entries));
	ssize_t n = entries ? ibv_query_gid_table(d->verbs, entries, GIDS_MAX, 0) : 0;
	int found = entries ? 0 : -ENOMEM;

	for (struct ibv_gid_entry *e = entries; found == 0 && n > 0; e++, n--) {
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
		found = fn(&l, user);
	}
	free(entries);
	return found;
}

/* Of the devices that are open, which spares making the list. @return did fn return true? */
static bool each_open_address(address_fn *fn, void *user)
{
	int found = 0;

	mutex_lock(&devices->lock);
	for (struct list *n = devices->list.next; n != &devices->list && found <= 0; n = n->next) {
		struct rcm_device *d = list_entry(n, struct rcm_device, node);

		found = rcm_device_is_there(d) ? each_gid(d, fn, user) : 0;
	}
	mutex_unlock(&devices->lock);
	return found > 0;
}

/* Of all devices, which are opened for it. As each_gid(); -errno: no device could be opened. */
static int each_address(address_fn *fn, void *user)
{
	struct ibv_device **list = list_all();
	struct rcm_device *d;
	int opened = 0, found = 0, err = 0;

	if (!list)
		return -errno;
	mutex_lock(&devices->lock);
	for (struct ibv_device **p = list; *p && found <= 0; p++) {
		int ret = open_device(*p, &d);

		found = ret ? 0 : each_gid(d, fn, user);
		opened += !ret;
		err = ret ? ret : err;
	}
	mutex_unlock(&devices->lock);
	ibv_free_device_list(list);
	return found ? found : opened ? 0 : err;
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

struct wanted {
	struct rocemu_gid gid;
	uint32_t scope_id; /* 0: any */
	struct rcm_local *out;
};

static bool is_wanted(const struct rcm_local *l, void *user)
{
	struct wanted *w = user;

	if (memcmp(&l->gid, &w->gid, sizeof(l->gid)) != 0 ||
	    (w->scope_id && l->scope_id && w->scope_id != l->scope_id))
		return false;
	*w->out = *l;
	return true;
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

int rcm_device_find(const struct sockaddr *sa, struct rcm_local *out)
{
	struct wanted w = {.scope_id = rcm_addr_scope(sa), .out = out};
	int ret;

	rcm_addr_to_gid(sa, &w.gid);
	if (each_open_address(is_wanted, &w))
		return 0;
	ret = each_address(is_wanted, &w);
	if (ret)
		return ret > 0 ? 0 : ret;
	return rcm_device_is_ours(sa) ? -ENODEV : -EADDRNOTAVAIL;
}

struct loopback {
	int family;
	struct rcm_local *out;
};

static bool is_loopback(const struct rcm_local *l, void *user)
{
	struct loopback *w = user;
	struct sockaddr_storage ss;
	struct sockaddr *sa = (struct sockaddr *)&ss;

	rcm_addr_from_gid(sa, &l->gid, 0, 0);
	if (sa->sa_family != w->family || !rcm_addr_loopback(sa))
		return false;
	*w->out = *l;
	return true;
}

int rcm_device_find_loopback(int family, struct rcm_local *out)
{
	struct loopback w = {.family = family, .out = out};
	int ret = each_address(is_loopback, &w);

	return ret > 0 ? 0 : ret ? ret : -ENODEV;
}

struct collection {
	struct rcm_local *v;
	int n, room;
};

static bool collect(const struct rcm_local *l, void *user)
{
	struct collection *c = user;

	if (c->n == c->room) {
		int room = c->room ? 2 * c->room : 16;
		struct rcm_local *v = realloc(c->v, (size_t)room * sizeof(*v));

		if (!v) {
			c->n = -ENOMEM;
			return true;
		}
		c->v = v;
		c->room = room;
	}
	c->v[c->n++] = *l;
	return false;
}

/* ret: what each_*() returned. */
static int collected(int ret, struct collection *c, struct rcm_local **out)
{
	if (ret >= 0 && c->n >= 0) {
		*out = c->v;
		return c->n;
	}
	free(c->v);
	return ret < 0 ? ret : c->n;
}

int rcm_device_addresses(struct rcm_local **out)
{
	struct collection c = {0};

	return collected(each_address(collect, &c), &c, out);
}

int rcm_device_table(struct rcm_device *dev, struct rcm_local **out)
{
	struct collection c = {0};

	return collected(each_gid(dev, collect, &c), &c, out);
}

struct rcm_device *rcm_device_next(struct rcm_device *after)
{
	struct list *n;

	mutex_lock(&devices->lock);
	n = after ? after->node.next : devices->list.next;
	mutex_unlock(&devices->lock);
	return n == &devices->list ? NULL : list_entry(n, struct rcm_device, node);
}

static bool take_guid(const struct rcm_local *l, void *user)
{
	*(uint64_t *)user = l->dev->guid;
	return true;
}

uint64_t rcm_device_guid(void)
{
	uint64_t guid = 0;

	if (!each_open_address(take_guid, &guid))
		each_address(take_guid, &guid);
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
