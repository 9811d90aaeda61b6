/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles objects that a child of fork() inherits. The child has copies of the objects, but no
 * threads, and the parent keeps the sockets and numbers. So calls on them fail (the first prints
 * the remedy), and calls that destroy them only free the memory. Inline functions of verbs.h use a
 * context's operations, which are replaced in the child, so that a process that did not fork pays
 * nothing.
 */
#include "verbs/orphan.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

static atomic_bool said;

int vb_context_mark(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	(void)attr;
	return EOPNOTSUPP;
}

int vb_orphan_refuse(void)
{
	if (!atomic_exchange(&said, true))
		log_error("process %d (%s) uses a device that its parent opened before fork() or "
			  "daemon(): these calls fail (ENODEV); open the device after that",
			  (int)getpid(), program_invocation_short_name);
	return -ENODEV;
}

/* ---- what verbs.h calls ---- */

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	(void)n;
	(void)wc;
	errno = -vb_orphan_refuse();
	return -1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return vb_errno(vb_orphan_refuse());
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return vb_errno(vb_orphan_refuse());
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	*bad = wr;
	return vb_errno(vb_orphan_refuse());
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	*bad = wr;
	return vb_errno(vb_orphan_refuse());
}

/*
 * Async-signal-safe. Other threads may have held the locks, and the guarded data may be
 * inconsistent: the child uses only the port's attributes.
 */
void vb_context_orphaned(void *user)
{
	struct vb_context *c = user;
	struct ibv_context_ops *ops = &c->vctx.context.ops;

	c->orphan = true;
	atomic_store(&said, false);
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	mutex_init(&c->lock);
	mutex_init(&c->spread.lock);
	pthread_mutex_init(&c->handles.lock, NULL);
	mutex_init(&c->port.update);
	pthread_mutex_init(&c->port.lock, NULL);
}

/* ---- destruction ---- */

int vb_orphan_free(void *object)
{
	free(object);
	return 0;
}
