/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the emulated devices and their addresses, through public calls of verbs. */
#ifndef RDMACM_DEVICE_H
#define RDMACM_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/mutex.h"
#include "rdmacm/api.h"
#include <rocemu/wire.h>

enum {
	RCM_HOP_LIMIT = 64,
	RCM_GIDS_MAX = 1024, /* entries of a GID table that are looked at */
};

/** An opened device; exists until the process ends. */
struct rcm_device {
	struct list node; /* guarded by device.c's lock, as are the next two */
	struct hash_node by_name;
	bool followed;		    /* it was opened a second time, or that has failed */
	struct ibv_context *verbs;  /* owned */
	struct ibv_context *events; /* owned: the second one, for its events; or NULL */
	struct ibv_pd *pd;	    /* owned: the default PD */
	struct ibv_xrcd *xrcd; /* owned, or NULL until it is needed; guarded by device.c's lock */
	uint64_t guid;	       /* node GUID as a number */
	unsigned ifindex;      /* of its interface; 0: not known */
	uint8_t max_responder_resources, max_initiator_depth;
	struct list ids;     /* rcm_id.on_device; guarded by rcm_lock */
	atomic_uint changes; /* counts its changes */
	atomic_bool recheck; /* an ID came while something changed */
	atomic_bool gone;
};

/** The addresses of all devices as they were when they were listed last: listing.c. */
struct rcm_listing {
	struct ibv_device **list; /* owned; NULL: there is no listing */
	struct rcm_listed *v;	  /* owned: addresses, in the order of the devices */
	unsigned n, room;
	struct hash by_gid;
};

struct rcm_devices {
	/* Guards the open devices, the listing, and what they open. Held while verbs lists and
	 * opens devices; taken under no other lock. */
	struct mutex lock;
	struct list list;
	struct hash by_name;
	struct rcm_listing listing;
	atomic_int events_fd; /* made once; readable when a device has events */
	atomic_bool recheck;  /* of one of them */
};

/** Where an address is: device, port, index in its GID table. */
struct rcm_local {
	struct rcm_device *dev; /* NULL: none, or one that is not open yet */
	uint8_t port_num;
	uint8_t sgid_index;
	struct rocemu_gid gid;
	uint32_t scope_id; /* interface index for link-local IPv6, else 0 */
	unsigned changes;  /* the device's, when this was found out */
};

/** An AV from the address towards gid. */
void rcm_local_ah(const struct rcm_local *local, const struct rocemu_gid *gid, uint8_t tclass,
		  struct ibv_ah_attr *ah);
/** A device that is open, by its name; NULL: there is none. The devices' lock held. */
struct rcm_device *rcm_device_find_open(const char *name);
/**
 * Have a listed device open; follow: for IDs, which get its events. ifindex: its interface as it
 * was listed; 0: not known. The devices' lock held. @return 0, -ENODEV: it is not an emulated
 * device, -ENOENT: the interface is gone, though another one may have its name; or why it could not
 * be opened.
 */
int rcm_device_open(struct ibv_device *device, unsigned ifindex, bool follow,
		    struct rcm_device **out);
/**
 * Find, and open, the device that has an address (port and wildcards do not count).
 * @return 0, -ENODEV: no device has it; -EADDRNOTAVAIL: it is not this host's; or why no device
 * could be opened.
 */
int rcm_device_find(const struct sockaddr *sa, struct rcm_local *out);
/** Is the IP address this host's? */
bool rcm_device_is_ours(const struct sockaddr *sa);
/** The first loopback address that a device has, of that family. As rcm_device_find(). */
int rcm_device_find_loopback(int family, struct rcm_local *out);
/** Is it among those that programs list? Loopback is not, beside an interface that leads out.
 * @return 1 or 0, or -errno where the devices cannot be listed. */
int rcm_device_is_listed(const struct rcm_device *dev);
/** All addresses of all devices; of a device that is not open, dev is NULL.
 * @return how many, *out for the caller to free(); or -errno. */
int rcm_device_addresses(struct rcm_local **out);
/** The addresses of one device now. As rcm_device_addresses(). */
int rcm_device_table(struct rcm_device *dev, struct rcm_local **out);
/**
 * The node GUID of the first device, which the process's connection manager sends as its CA GUID;
 * 0: none.
 */
uint64_t rcm_device_guid(void);
/**
 * Does its interface still exist? The device's event comes slightly later, and by then another
 * interface may have its name and addresses.
 */
bool rcm_device_is_there(const struct rcm_device *dev);
/** The device's default XRC domain. NULL with errno. */
struct ibv_xrcd *rcm_device_xrcd(struct rcm_device *dev);
/** Readable when a followed device has changed. -1: there is none. */
int rcm_device_events_fd(void);
/** A device that has changed, or whose recheck was set, one after another; NULL: there is none now.
 */
struct rcm_device *rcm_device_changed(void);
/** The recheck of a device was set. */
void rcm_device_recheck(void);

#endif
