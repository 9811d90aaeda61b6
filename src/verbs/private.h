/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private calls of rocemu's libibverbs.so.1 for its librdmacm.so.1: exported in a separate version
 * node (ROCEMU_PRIVATE, gen-symbols.py) and looked up at run time, so that each library works
 * without the other. Both are of one build: nothing here is kept compatible.
 */
#ifndef VERBS_PRIVATE_H
#define VERBS_PRIVATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/tap.h"
#include "fault/verb.h"

#define PRIVATE_VERSION "ROCEMU_PRIVATE"

/**
 * Write a packet that did not go through a lane to the process's capture, if there is one (a
 * process has one file). packet: BTH to ICRC.
 */
typedef void private_capture_fn(const struct tap_addr *a, const void *packet, size_t len);
#define PRIVATE_CAPTURE "rocemu_private_capture"

/**
 * As ibv_get_device_list(), with the loopback device that it leaves out beside others: addresses
 * like 127.0.0.1 are reached by it. Freed by ibv_free_device_list().
 */
typedef struct ibv_device **private_devices_fn(void);
#define PRIVATE_DEVICES "rocemu_private_devices"

/**
 * As ibv_query_gid_table(), of a rocemu device that need not be open: the table that it had when it
 * was listed last. @return how many, or -ENODEV: it is a real one.
 */
typedef ssize_t private_gids_fn(struct ibv_device *device, struct ibv_gid_entry *entries,
				size_t max_entries);
#define PRIVATE_GIDS "rocemu_private_gids"

/** Is it a rocemu device, and not a real one? */
typedef bool private_emulates_fn(struct ibv_device *device);
#define PRIVATE_EMULATES "rocemu_private_emulates"

/** A call of librdmacm begins: 0, or the -errno with which fault injection makes it fail. */
typedef int private_fault_fn(enum fault_verb verb);
#define PRIVATE_FAULT "rocemu_private_fault"

/**
 * Receive what has come for the context. @return whether a CQ holds successful completions of that
 * QP; false if there is no such QP.
 */
typedef bool private_unpolled_fn(struct ibv_context *context, uint32_t qpn);
#define PRIVATE_UNPOLLED "rocemu_private_unpolled"

#endif
