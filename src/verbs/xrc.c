/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains, and further handles of a target queue pair. A domain that is opened by file belongs
 * to the file's inode: a process that opens the file again on this device gets the same one.
 *
 * Each context has a part of the domain, in its own endpoint; the lanes of the second context and
 * of all that follow are joined (lane_join()), so that a thread with the lock of one may use the
 * domain's other parts. A target QP lives in the lane of the context that made it, its home, also
 * when that one is closed: a context is freed after the last handle of its QPs.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mutex.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/device.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/orphan.h"
#include "verbs/qp.h"
#include "verbs/xrc.h"

/** A domain. Guarded by the lock. */
struct vb_xrc_domain {
	struct hash_node node; /* in named, by st_ino */
	bool is_named;
	struct list parts;     /* of vb_xrc_part.of_domain */
	unsigned handles;      /* of all parts */
	struct vb_device *dev; /* borrowed from the parts' contexts */
	int fd;		       /* owned: keeps the inode's number in use; -1: no file */
	dev_t st_dev;
	ino_t st_ino;
};

/** A context's part of a domain, for all its handles. Guarded by the lock. */
struct vb_xrc_part {
	struct list of_domain, of_context;
	struct vb_xrc_domain *domain; /* ref */
	struct vb_context *c;	      /* borrowed */
	struct rocemu_xrcd *rx;	      /* owned */
	unsigned handles; /* handles from ibv_open_xrcd(); 0: other contexts' QPs may still need it
			   */
};

/* Guards all domains and vb_context.xrc. Before contexts' locks and lanes'. */
static struct mutex lock = MUTEX_INITIALIZER;
/* of vb_xrc_domain.node: those of files */
static struct hash named;

static void before_fork(void)
{
	mutex_lock(&lock);
}

static void after_fork(void)
{
	mutex_unlock(&lock);
}

/** The parent's lanes do not work here: no call finds their domains any more. */
static void after_fork_child(void)
{
	hash_for_all (d, struct vb_xrc_domain, node, &named) {
		d->is_named = false;
		hash_remove(&named, &d->node);
	}
	mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {before_fork, after_fork, after_fork_child};

	forks_add(FORK_DOMAINS, &handlers);
}

/** Domains, SRQs and target QPs are on a context's first lane. */
static struct lane *first_lane(struct vb_context *c)
{
	return c->lanes.lane[0];
}

/* ---- domains and parts; the lock held ---- */

static struct vb_xrc_domain *domain_find(const struct vb_device *dev, const struct stat *st)
{
	hash_for_each (d, struct vb_xrc_domain, node, &named, st->st_ino)
		if (d->dev == dev && d->st_dev == st->st_dev && d->st_ino == st->st_ino)
			return d;
	return NULL;
}

/** fd: -1 or the file that st is of. */
static int domain_new(struct vb_device *dev, int fd, const struct stat *st,
		      struct vb_xrc_domain **out)
{
	struct vb_xrc_domain *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->fd = -1;
	d->dev = dev;
	d->st_dev = st->st_dev;
	d->st_ino = st->st_ino;
	if (fd >= 0) {
		d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (d->fd < 0) {
			const int err = errno;

			free(d);
			return -err;
		}
	}
	list_init(&d->parts);
	d->is_named = fd >= 0;
	if (d->is_named)
		hash_add(&named, &d->node, st->st_ino);
	*out = d;
	return 0;
}

static void part_unlink(struct vb_xrc_part *part)
{
	part->domain->handles -= part->handles;
	list_remove(&part->of_domain);
	list_remove(&part->of_context);
	free(part);
}

/** No handle is left. What a closed context left in its part is freed with the context. */
static void domain_free(struct vb_xrc_domain *d)
{
	list_for_each_safe (n, next, &d->parts) {
		struct vb_xrc_part *part = list_entry(n, struct vb_xrc_part, of_domain);

		lane_lock(first_lane(part->c));
		rocemu_xrcd_free(part->rx);
		lane_unlock(first_lane(part->c));
		part_unlink(part);
	}
	if (d->is_named)
		hash_remove(&named, &d->node);
	if (d->fd >= 0)
		close(d->fd);
	free(d);
}

static struct vb_xrc_part *part_find(struct vb_xrc_domain *d, const struct vb_context *c)
{
	list_for_each (n, &d->parts) {
		struct vb_xrc_part *part = list_entry(n, struct vb_xrc_part, of_domain);

		if (part->c == c)
			return part;
	}
	return NULL;
}

/** The endpoint's part, of a new domain or of one that has parts already, whose lanes it joins. */
static struct rocemu_xrcd *part_in_lane(struct vb_xrc_domain *d, struct vb_context *c)
{
	struct lane *lane = first_lane(c);
	struct rocemu_xrcd *rx, *of = NULL;

	list_for_each (n, &d->parts) {
		struct vb_xrc_part *other = list_entry(n, struct vb_xrc_part, of_domain);

		lane_join(first_lane(other->c));
		of = other->rx;
	}
	if (of)
		lane_join(lane);
	lane_lock(lane);
	rx = of ? rocemu_xrcd_part_new(lane_ep(lane), of) : rocemu_xrcd_new(lane_ep(lane));
	lane_unlock(lane);
	return rx;
}

static int part_new(struct vb_xrc_domain *d, struct vb_context *c, struct vb_xrc_part **out)
{
	struct vb_xrc_part *part = calloc(1, sizeof(*part));

	if (!part)
		return -ENOMEM;
	part->rx = part_in_lane(d, c);
	if (!part->rx) {
		free(part);
		return -ENOMEM;
	}
	part->domain = d;
	part->c = c;
	list_append(&d->parts, &part->of_domain);
	list_append(&c->xrc.parts, &part->of_context);
	*out = part;
	return 0;
}

/** A context's part of the domain of a file, by the rules of open(2) as the kernel's drivers have
 * them. */
static int part_of_file(struct vb_context *c, int fd, const struct stat *st, int oflags,
			struct vb_xrc_part **out)
{
	struct vb_xrc_domain *d = fd >= 0 ? domain_find(c->dev, st) : NULL;
	int ret;

	if (d && oflags & O_EXCL)
		return REFUSE(
			-EINVAL, 0,
			"ibv_open_xrcd: oflags is 0x%x: the file's domain exists: remove O_EXCL",
			(unsigned)oflags);
	if (!d && fd >= 0 && !(oflags & O_CREAT))
		return -EAGAIN;
	if (!d) {
		ret = domain_new(c->dev, fd, st, &d);
		if (ret < 0)
			return ret;
	}
	*out = part_find(d, c);
	ret = *out ? 0 : part_new(d, c, out);
	if (ret < 0 && d->handles == 0)
		domain_free(d);
	return ret;
}

/* ---- handles ---- */

static int open_part(struct vb_context *c, struct vb_xrcd *xrcd, int fd, int oflags)
{
	struct stat st = {0};
	int ret = 0;

	if (fd >= 0 && fstat(fd, &st) < 0)
		return -errno;
	/* Joined lanes have their threads. Not under the lock: it may start the agent. */
	if (fd >= 0)
		ret = vb_context_attach(c);
	if (ret < 0)
		return ret;
	mutex_lock(&lock);
	ret = part_of_file(c, fd, &st, oflags, &xrcd->part);
	if (ret == 0) {
		xrcd->part->handles++;
		xrcd->part->domain->handles++;
		xrcd->rx = xrcd->part->rx;
	}
	mutex_unlock(&lock);
	return ret;
}

struct ibv_xrcd *vb_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr)
{
	enum { NEEDED = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };
	struct vb_context *c = vb_context_of(ctx);
	struct vb_xrcd *xrcd;
	int ret;

	if (attr->comp_mask & ~(uint32_t)NEEDED)
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_open_xrcd: comp_mask is 0x%x: FD and OFLAGS are "
				      "supported: remove the rest",
				      attr->comp_mask));
	if (attr->comp_mask != NEEDED || attr->fd < -1 || attr->oflags & ~(O_CREAT | O_EXCL))
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_open_xrcd: comp_mask is 0x%x, fd %d, oflags 0x%x: FD "
				      "and OFLAGS are required, fd must be a descriptor or -1, "
				      "oflags only O_CREAT and O_EXCL: set them",
				      attr->comp_mask, attr->fd, (unsigned)attr->oflags));
	ret = vb_fault(c, NULL, FAULT_VERB_OPEN_XRCD);
	if (ret < 0)
		return vb_null(-ret);
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return vb_null(ENOMEM);
	xrcd->base.context = ctx;
	ret = open_part(c, xrcd, attr->fd, attr->oflags);
	if (ret < 0) {
		free(xrcd);
		return vb_null(-ret);
	}
	return &xrcd->base;
}

int vb_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct vb_xrcd *xrcd = vb_xrcd_of(ibxrcd);
	struct vb_xrc_part *part = xrcd->part;

	if (vb_context_of(ibxrcd->context)->orphan)
		return vb_orphan_free(xrcd);
	if (atomic_load(&xrcd->refs) > 0)
		return vb_errno(-EBUSY);
	mutex_lock(&lock);
	part->handles--;
	if (--part->domain->handles == 0)
		domain_free(part->domain);
	mutex_unlock(&lock);
	free(xrcd);
	return 0;
}

/* ---- contexts ---- */

void vb_xrc_init(struct vb_context *c)
{
	list_init(&c->xrc.parts);
	list_init(&c->xrc.guests);
}

/** Freeing a context frees its parts; only closing it frees its handles. */
static void leave_domains(struct vb_context *c, bool goes)
{
	list_for_each_safe (n, next, &c->xrc.parts) {
		struct vb_xrc_part *part = list_entry(n, struct vb_xrc_part, of_context);
		struct vb_xrc_domain *d = part->domain;

		d->handles -= part->handles;
		part->handles = 0;
		if (goes)
			part_unlink(part); /* the endpoint frees part->rx */
		if (d->handles == 0)
			domain_free(d);
	}
}

static struct vb_qp *first_guest(struct vb_context *c)
{
	struct list *n;

	mutex_lock(&lock);
	n = list_first(&c->xrc.guests);
	mutex_unlock(&lock);
	return n ? list_entry(n, struct vb_qp, guest) : NULL;
}

bool vb_xrc_fini(struct vb_context *c)
{
	struct vb_qp *guest;
	bool goes;

	while ((guest = first_guest(c))) {
		lane_lock(guest->lane);
		vb_qp_unshare(guest);
		lane_unlock(guest->lane);
		vb_qp_leave_home(guest);
	}
	mutex_lock(&lock);
	goes = c->xrc.lent == 0;
	c->xrc.closed = !goes;
	leave_domains(c, goes);
	mutex_unlock(&lock);
	return goes;
}

/* ---- further handles of a target QP ---- */

/**
 * Make qp, whose number is not known yet, a handle of the domain's target of that number. The lock
 * and the lane's of the part's context held, which is joined with the other parts'. -EINVAL.
 */
static int share_target(struct vb_qp *qp, uint32_t qpn, const struct vb_xrc_part *part,
			const struct ibv_qp_init_attr_ex *init)
{
	list_for_each (n, &part->domain->parts) {
		struct vb_xrc_part *at = list_entry(n, struct vb_xrc_part, of_domain);
		struct rocemu_qp *rqp = rocemu_qp_find(lane_ep(first_lane(at->c)), qpn);
		struct vb_qp *first;

		if (!rqp || rocemu_qp_xrcd(rqp) != at->rx)
			continue;
		first = rocemu_qp_user(rqp);
		qp->rqp = rqp;
		qp->home = at->c;
		qp->lane = first_lane(at->c);
		vb_qp_show(qp, &part->c->vctx.context, init);
		qp->base.qp_base.state = rocemu_qp_state(rqp);
		list_append(&first->sharing, &qp->sharing);
		if (at->c != part->c) {
			list_append(&part->c->xrc.guests, &qp->guest);
			at->c->xrc.lent++;
		}
		return 0;
	}
	return REFUSE(-EINVAL, qpn,
		      "ibv_open_qp QP 0x%x: no XRC target QP of the domain has that number: take "
		      "the qp_num of one that another process or "
		      "context created",
		      qpn);
}

struct ibv_qp *vb_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr)
{
	enum {
		NEEDED = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		KNOWN = NEEDED | IBV_QP_OPEN_ATTR_CONTEXT,
	};
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV};
	struct vb_context *c = vb_context_of(ctx);
	struct vb_xrc_part *part;
	struct lane *lane;
	struct vb_qp *qp;
	int ret;

	if (attr->comp_mask & ~(uint32_t)KNOWN)
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_open_qp: comp_mask is 0x%x: NUM, XRCD, TYPE and CONTEXT "
				      "are supported: remove the rest",
				      attr->comp_mask));
	if ((attr->comp_mask & NEEDED) != NEEDED || attr->qp_type != IBV_QPT_XRC_RECV ||
	    !attr->xrcd || attr->xrcd->context != ctx)
		return vb_null(REFUSE(
			EINVAL, 0,
			"ibv_open_qp: comp_mask is 0x%x, qp_type %d: NUM, XRCD and TYPE are "
			"required, the type must be XRC_RECV, the domain of this context: set them",
			attr->comp_mask, (int)attr->qp_type));
	qp = calloc(1, sizeof(*qp));
	if (!qp || vb_handle_new(c, qp, &qp->base.qp_base.handle)) {
		free(qp);
		return vb_null(ENOMEM);
	}
	init.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	init.xrcd = attr->xrcd;
	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	vb_qp_events_init(qp);
	part = vb_xrcd_of(attr->xrcd)->part;
	lane = first_lane(c);
	mutex_lock(&lock);
	lane_lock(lane);
	ret = share_target(qp, attr->qp_num, part, &init);
	lane_unlock(lane);
	mutex_unlock(&lock);
	if (ret < 0) {
		vb_handle_free(c, qp->base.qp_base.handle, qp);
		free(qp);
		return vb_null(-ret);
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

void vb_qp_leave_home(struct vb_qp *qp)
{
	struct vb_context *home = qp->home;
	bool last;

	if (home == vb_context_of(qp->base.qp_base.context))
		return;
	mutex_lock(&lock);
	list_remove(&qp->guest);
	last = --home->xrc.lent == 0 && home->xrc.closed;
	if (last)
		leave_domains(home, true);
	mutex_unlock(&lock);
	if (last)
		vb_context_free(home);
}
