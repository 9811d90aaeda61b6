/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entry points that only real devices support: rocemu's objects are never shared between processes
 * by kernel handles, and do not use other devices' memory.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memfile.h"
#include "verbs/context.h"
#include "verbs/dmabuf.h"
#include "verbs/real.h"

#define PLACEHOLDER "rocemu-context"

int vb_placeholder_fd(void)
{
	return memfile(PLACEHOLDER, MFD_CLOEXEC);
}

static bool is_placeholder(int fd)
{
	static const char name[] = "/memfd:" PLACEHOLDER;
	char link[64], target[64] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, target, sizeof(target) - 1) > 0 &&
	       !strncmp(target, name, sizeof(name) - 1);
}

static int import_refused(const char *call)
{
	return REFUSE(EOPNOTSUPP, 0,
		      "%s: objects of an emulated device cannot be shared between processes: "
		      "create them in each",
		      call);
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *ctx;

	if (is_placeholder(cmd_fd))
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_import_device: descriptor %d is of an emulated device, "
				      "which cannot be shared between processes: open the device",
				      cmd_fd));
	/* The program may have got the file descriptor without requesting a device list. */
	real_load();
	ctx = REAL_CALL(ibv_import_device, cmd_fd);
	if (ctx)
		real_ops_wrap(ctx);
	return ctx;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	return vb_context_of(context) ? vb_null(import_refused("ibv_import_pd"))
				      : REAL_CALL(ibv_import_pd, context, pd_handle);
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	return vb_context_of(pd->context) ? vb_null(import_refused("ibv_import_mr"))
					  : REAL_CALL(ibv_import_mr, pd, mr_handle);
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	return vb_context_of(context) ? vb_null(import_refused("ibv_import_dm"))
				      : REAL_CALL(ibv_import_dm, context, dm_handle);
}

/** Objects that cannot be rocemu's are passed to the real library, or refused with a message. */
static bool unimportable(struct ibv_context *ctx, const char *call)
{
	if (vb_context_of(ctx))
		log_error("%s: an object of a rocemu device, which cannot have been imported",
			  call);
	return vb_context_of(ctx);
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (!unimportable(pd->context, __func__))
		REAL_CALL_VOID(ibv_unimport_pd, pd);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!unimportable(mr->context, __func__))
		REAL_CALL_VOID(ibv_unimport_mr, mr);
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (!unimportable(dm->context, __func__))
		REAL_CALL_VOID(ibv_unimport_dm, dm);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return vb_context_of(pd->context)
		       ? vb_reg_dmabuf_mr(pd, offset, length, iova, fd, access)
		       : REAL_CALL(ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
}
