/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers messages of NETLINK_RDMA like the kernel's "nldev" client: devices, ports, resources and
 * counters, for the rdma tool of iproute2 and its like. Read-only; requests for changes are
 * refused. The messages come from programs of any kind: all of a message is checked.
 */
#ifndef TOOLS_NLDEV_H
#define TOOLS_NLDEV_H

#include "base/countfile.h"
#include "netdev/netdev.h"
#include "nlout.h"

struct nldev_qp {
	uint32_t pid;
	struct rocemu_qp_info info;
};

/** What there is. All borrowed. */
struct nldev_world {
	const struct netdev *devs;
	unsigned ndevs;
	const char *fw_ver;
	/** A device's counters, NULL: none. */
	const struct countfile *(*counts)(void *user, unsigned dev);
	/** The number of objects of a kind that a device's processes have. */
	uint64_t (*objects)(void *user, unsigned dev, enum rocemu_object kind);
	/** The next QP of a device; *cursor is 0 at first. @return false: there are no more. */
	bool (*next_qp)(void *user, unsigned dev, uint64_t *cursor, struct nldev_qp *qp);
	void *user;
};

/**
 * Answer a datagram, which may have several messages. o: its seq, port, send and user; the rest is
 * 0. seq is set from each message.
 */
void nldev_answer(const struct nldev_world *w, const void *data, size_t len, struct nlout *o);

#endif
