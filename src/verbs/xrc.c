/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains, and further handles of a target queue pair. A domain that is opened by file belongs
 * to the file's inode: whoever opens it again, in this context, gets the same one. Other contexts
 * and processes have domains of their own, because a domain's queues live in one lane.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/fault.h"
#include "verbs/objects.h"

/** What the handles that ibv_open_xrcd() gives have in common. Guarded by vb_context.lock. */
struct vb_xrc_domain {
	struct list node;	/* in vb_context.xrc_domains */
	struct rocemu_xrcd *rx; /* owned */
	unsigned handles;
	int fd; /* owned: so that nobody else gets the inode's number; -1: of no file */
	dev_t dev;
	ino_t ino;
};

static struct vb_xrc_domain *find(struct vb_context *c, const struct stat *st)
{
	list_for_each (n, &c->xrc_domains) {
		struct vb_xrc_domain *d = list_entry(n, struct vb_xrc_domain, node);

		if (d->fd >= 0 && d->dev == st->st_dev && d->ino == st->st_ino)
			return d;
	}
	return NULL;
}

/** fd: -1 or the file that st is of. */
static int domain_new(struct vb_context *c, int fd, const struct stat *st,
		      struct vb_xrc_domain **out)
{
	struct vb_xrc_domain *d = calloc(1, sizeof(*d));
	int err = ENOMEM;

	if (!d)
		return -ENOMEM;
	d->fd = -1;
	d->dev = st->st_dev;
	d->ino = st->st_ino;
	if (fd >= 0) {
		d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		err = d->fd < 0 ? errno : ENOMEM;
	}
	if (fd < 0 || d->fd >= 0) {
		lane_lock(c->lane);
		d->rx = rocemu_xrcd_new(lane_ep(c->lane));
		lane_unlock(c->lane);
	}
	if (!d->rx) {
		if (d->fd >= 0)
			close(d->fd);
		free(d);
		return -err;
	}
	list_append(&c->xrc_domains, &d->node);
	*out = d;
	return 0;
}

/** The last handle is gone, or the context goes with all that is left in it. */
static void domain_free(struct vb_xrc_domain *d)
{
	list_remove(&d->node);
	if (d->fd >= 0)
		close(d->fd);
	free(d);
}

/** The domain of a file, by the rules of open(2) as the kernel's drivers have them. */
static int domain_of_file(struct vb_context *c, int fd, int oflags, struct vb_xrc_domain **out)
{
	struct stat st = {0};

	if (fd == -1)
		return domain_new(c, -1, &st, out);
	if (fstat(fd, &st) < 0)
		return -errno;
	*out = find(c, &st);
	if (*out)
		return oflags & O_EXCL ? -EINVAL : 0;
	return oflags & O_CREAT ? domain_new(c, fd, &st, out) : -EAGAIN;
}

struct ibv_xrcd *vb_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr)
{
	enum { NEEDED = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };
	struct vb_context *c = vb_context_of(ctx);
	struct vb_xrcd *xrcd;
	int ret;

	if (attr->comp_mask & ~(uint32_t)NEEDED)
		return vb_null(EOPNOTSUPP);
	if (attr->comp_mask != NEEDED || attr->fd < -1 || attr->oflags & ~(O_CREAT | O_EXCL))
		return vb_null(EINVAL);
	ret = vb_fault(c, NULL, FAULT_VERB_OPEN_XRCD);
	if (ret < 0)
		return vb_null(-ret);
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return vb_null(ENOMEM);
	xrcd->base.context = ctx;
	pthread_mutex_lock(&c->lock);
	ret = domain_of_file(c, attr->fd, attr->oflags, &xrcd->domain);
	if (ret == 0) {
		xrcd->domain->handles++;
		xrcd->rx = xrcd->domain->rx;
	}
	pthread_mutex_unlock(&c->lock);
	if (ret < 0) {
		free(xrcd);
		return vb_null(-ret);
	}
	return &xrcd->base;
}

int vb_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct vb_context *c = vb_context_of(ibxrcd->context);
	struct vb_xrcd *xrcd = vb_xrcd_of(ibxrcd);
	struct vb_xrc_domain *d = xrcd->domain;

	if (atomic_load(&xrcd->refs) > 0)
		return vb_errno(-EBUSY);
	pthread_mutex_lock(&c->lock);
	if (--d->handles == 0) {
		lane_lock(c->lane);
		rocemu_xrcd_free(d->rx); /* what was in it had a handle */
		lane_unlock(c->lane);
		domain_free(d);
	}
	pthread_mutex_unlock(&c->lock);
	free(xrcd);
	return 0;
}

void vb_xrc_fini(struct vb_context *c)
{
	list_for_each_safe (n, next, &c->xrc_domains)
		domain_free(list_entry(n, struct vb_xrc_domain, node));
}

/* ---- further handles of a target QP ---- */

struct ibv_qp *vb_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr)
{
	enum {
		NEEDED = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		KNOWN = NEEDED | IBV_QP_OPEN_ATTR_CONTEXT,
	};
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV};
	struct vb_context *c = vb_context_of(ctx);
	struct rocemu_qp *rqp;
	struct vb_qp *qp;

	if (attr->comp_mask & ~(uint32_t)KNOWN)
		return vb_null(EOPNOTSUPP);
	if ((attr->comp_mask & NEEDED) != NEEDED || attr->qp_type != IBV_QPT_XRC_RECV ||
	    !attr->xrcd || attr->xrcd->context != ctx)
		return vb_null(EINVAL);
	qp = calloc(1, sizeof(*qp));
	if (!qp || vb_handle_new(c, qp, &qp->base.qp_base.handle)) {
		free(qp);
		return vb_null(ENOMEM);
	}
	init.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	init.xrcd = attr->xrcd;
	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	vb_qp_events_init(qp);
	lane_lock(c->lane);
	rqp = rocemu_qp_find(lane_ep(c->lane), attr->qp_num);
	if (rqp && rocemu_qp_xrcd(rqp) == vb_xrcd_of(attr->xrcd)->rx) {
		struct vb_qp *first = rocemu_qp_user(rqp);

		qp->rqp = rqp;
		vb_qp_show(qp, ctx, &init);
		qp->base.qp_base.state = rocemu_qp_state(rqp);
		list_append(&first->sharing, &qp->sharing);
	}
	lane_unlock(c->lane);
	if (!qp->rqp) {
		vb_handle_free(c, qp->base.qp_base.handle, qp);
		free(qp);
		return vb_null(EINVAL);
	}
	return &qp->base.qp_base;
}

int vb_qp_unshare(struct vb_qp *qp)
{
	struct rocemu_qp *rqp = qp->rqp;

	if (!list_linked(&qp->sharing))
		return rocemu_qp_destroy(rqp);
	if (rocemu_qp_user(rqp) == qp)
		rocemu_qp_set_user(rqp, list_entry(qp->sharing.next, struct vb_qp, sharing));
	list_remove(&qp->sharing);
	return 0;
}
