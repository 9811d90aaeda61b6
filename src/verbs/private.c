/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/private.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/log.h"
#include "base/mutex.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/fault.h"
#include "verbs/lanes.h"
#include "verbs/qp.h"

/* Guards the two; the tap's own lock is taken under it. */
static struct mutex lock = MUTEX_INITIALIZER;
static struct tap *tap; /* ref, or NULL */
static pid_t owner;	/* the process that opened it; a forked child opens its own */

static void lock_capture(void)
{
	mutex_lock(&lock);
}

static void unlock_capture(void)
{
	mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {lock_capture, unlock_capture, unlock_capture};

	forks_add(FORK_CAPTURE, &handlers);
}

static struct tap *get_tap(void)
{
	char text[512];

	if (owner == getpid())
		return tap;
	owner = getpid();
	if (tap_get(&tap, text, sizeof(text)) < 0) {
		log_error("%s", text);
		tap = NULL;
	}
	return tap;
}

#define EXPORT __attribute__((visibility("default")))
EXPORT private_capture_fn rocemu_private_capture;
EXPORT private_devices_fn rocemu_private_devices;
EXPORT private_emulates_fn rocemu_private_emulates;
EXPORT private_fault_fn rocemu_private_fault;
EXPORT private_gids_fn rocemu_private_gids;
EXPORT private_unpolled_fn rocemu_private_unpolled;

int rocemu_private_fault(enum fault_verb verb)
{
	vb_faults_load();
	return vb_fault(NULL, NULL, verb);
}

static bool holds_success(struct ibv_cq *cq, uint32_t qpn)
{
	return cq && rocemu_cq_holds_success(vb_cq_of(cq)->rcq, qpn);
}

/* A QP number belongs to one lane. @return false: the QP is not on this lane. */
static bool look_on_lane(struct lane *lane, uint32_t qpn, bool *holds)
{
	const struct ibv_qp *qp;
	struct rocemu_qp *rqp;

	lane_lock(lane);
	rqp = rocemu_qp_find(lane_ep(lane), qpn);
	if (rqp) {
		lane_flush(lane);
		qp = &((struct vb_qp *)rocemu_qp_user(rqp))->base.qp_base;
		*holds = holds_success(qp->send_cq, qpn) || holds_success(qp->recv_cq, qpn);
	}
	lane_unlock(lane);
	return rqp;
}

bool rocemu_private_unpolled(struct ibv_context *context, uint32_t qpn)
{
	struct vb_context *c = vb_context_of(context);
	struct lane *lane;
	bool holds = false;

	if (!c || !atomic_load_explicit(&c->attached, memory_order_relaxed))
		return false;
	vb_each_lane(lane, &c->lanes) if (look_on_lane(lane, qpn, &holds)) break;
	return holds;
}

struct ibv_device **rocemu_private_devices(void)
{
	return vb_device_list_all();
}

ssize_t rocemu_private_gids(struct ibv_device *device, struct ibv_gid_entry *entries,
			    size_t max_entries)
{
	struct vb_device *dev = vb_device_of(device);
	struct netdev d;

	if (!dev)
		return -ENODEV;
	vb_device_netdev(dev, &d);
	return vb_gid_table(&d, entries, max_entries, sizeof(*entries));
}

bool rocemu_private_emulates(struct ibv_device *device)
{
	return vb_device_of(device) != NULL;
}

void rocemu_private_capture(const struct tap_addr *a, const void *packet, size_t len)
{
	struct tap *t;

	mutex_lock(&lock);
	t = get_tap();
	if (t) {
		struct iovec iov = {.iov_len = len};
		struct tap_addr now = *a;

		/* An iovec has no const; it is only read. */
		iov.iov_base = (void *)(uintptr_t)packet;
		now.when_ns = tap_now();
		tap_write(t, &now, &iov, 1);
		tap_flush(t);
	}
	mutex_unlock(&lock);
}
