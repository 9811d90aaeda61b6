/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declares the exports of the drop-in librdmacm, and its convention for errors: internal functions
 * return -errno, exported ones -1 with errno.
 */
#ifndef RDMACM_API_H
#define RDMACM_API_H

/*
 * Exports the declarations of these headers: the version script selects symbols, but cannot make
 * hidden ones visible.
 */
#pragma GCC visibility push(default)
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* Of newer versions of rdma_cma.h; exported where the system's library has them. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
#pragma GCC visibility pop

#include <errno.h>

#include "base/why.h"

/** Events of newer versions of rdma_cma.h. */
enum {
	RCM_EVENT_ADDRINFO_RESOLVED = 16,
	RCM_EVENT_ADDRINFO_ERROR = 17,
	RCM_EVENT_USER = 18,
};

/** -errno to the API's convention; 0 stays. */
static inline int rcm_ret(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

/** Convert a result of a verbs call (an errno, or -1 with errno, or 0) to 0 or -errno. */
static inline int rcm_verbs_err(int ret)
{
	return ret == 0 ? 0 : ret < 0 ? -errno : -ret;
}

#endif
