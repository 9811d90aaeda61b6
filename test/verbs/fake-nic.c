/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See fake-nic.h. What takes note takes six words, whatever its real arguments: the calling
 * conventions of the supported machines pass integers and pointers in the same registers, and let a
 * callee read more of them than were passed.
 */
#include "fake-nic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/real-table.h"

static struct fake_notes notes;
static struct fake_device devices[FAKE_DEVICES];

/* ---- what works ---- */

static long get_device_list(int *num)
{
	struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof(*list));

	for (unsigned i = 0; i < FAKE_DEVICES; i++) {
		struct ibv_device *d = &devices[i].base;

		snprintf(d->name, sizeof(d->name), FAKE_NAME "%u", i);
		devices[i].notes = &notes;
		list[i] = d;
	}
	*num = FAKE_DEVICES;
	notes.lists++;
	return (long)list;
}

static long free_device_list(struct ibv_device **list)
{
	/* Whatever the program did to its own list, this one must be as it was. */
	for (unsigned i = 0; i < FAKE_DEVICES; i++)
		if (list[i] != &devices[i].base)
			abort();
	free(list);
	notes.lists--;
	return 0;
}

static long open_device(struct ibv_device *device);

static long close_device(struct ibv_context *ctx)
{
	free(verbs_get_ctx(ctx));
	notes.opened--;
	return 0;
}

static long work(const char *name, long arg)
{
	if (!strcmp(name, "ibv_get_device_list"))
		return get_device_list((int *)arg);
	if (!strcmp(name, "ibv_free_device_list"))
		return free_device_list((struct ibv_device **)arg);
	if (!strcmp(name, "ibv_get_device_name"))
		return (long)((struct ibv_device *)arg)->name;
	if (!strcmp(name, "ibv_open_device"))
		return open_device((struct ibv_device *)arg);
	if (!strcmp(name, "ibv_close_device"))
		return close_device((struct ibv_context *)arg);
	if (!strcmp(name, "ibv_fork_init"))
		notes.fork_inits++;
	return 0;
}

/* ---- what takes note: everything ---- */

static long note(const char *name, const long args[FAKE_ARGS])
{
	notes.calls++;
	notes.last = name;
	memcpy(notes.args, args, sizeof(notes.args));
	notes.err_seen = errno;
	if (!notes.answering)
		return work(name, args[0]);
	errno = notes.err;
	return notes.answer;
}

#define NOTE(name, id)                                           \
	long id(long a, long b, long c, long d, long e, long f)  \
	{                                                        \
		const long args[FAKE_ARGS] = {a, b, c, d, e, f}; \
                                                                 \
		return note(#name, args);                        \
	}

/* In C it has a name of its own: verbs.h has declared the symbol's with other arguments. */
#define NOTE_SYMBOL(name, version, kind)                                        \
	__attribute__((visibility("default"), used)) long symbol_##name(        \
		long a, long b, long c, long d, long e, long f) __asm__(#name); \
	NOTE(name, symbol_##name)

REAL_TABLE(NOTE_SYMBOL)

/* ---- contexts ---- */

/* clang-format off */
#define OPS(X) \
	X(create_qp_ex) X(open_qp) X(create_cq_ex) X(create_srq_ex) X(create_wq) \
	X(alloc_parent_domain) X(open_xrcd) X(alloc_td) X(alloc_dm) X(create_counters) \
	X(create_flow_action_esp) X(create_rwq_ind_table) X(alloc_null_mr) X(reg_dm_mr) \
	X(ibv_create_flow)
#define OLD_OPS(X) X(alloc_mw) X(bind_mw) X(poll_cq)
/* clang-format on */

#define NOTE_OP(op) static NOTE(op, op_##op)
OPS(NOTE_OP)
OLD_OPS(NOTE_OP)

static long open_device(struct ibv_device *device)
{
	struct verbs_context *v = calloc(1, sizeof(*v));

	v->sz = sizeof(*v);
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->context.device = device;
	v->context.cmd_fd = v->context.async_fd = -1;
#define SET(op) v->op = (__typeof__(v->op))(void (*)(void))op_##op;
	OPS(SET)
#define SET_OLD(op) v->context.ops.op = (__typeof__(v->context.ops.op))(void (*)(void))op_##op;
	OLD_OPS(SET_OLD)
	notes.opened++;
	return (long)&v->context;
}
