/* SPDX-License-Identifier: BSD-2-Clause */
#include "nldev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include "abi.h"
#include "base/util.h"

enum {
	NODE_CA = 1,
	PORT = 1, /* the only one */
	PHYS_LINK_UP = 5,
	PHYS_DISABLED = 3,
	NETNS_SHARED = 1,
};

#define HW_PREFIX "hw_counters/"

/** A request, checked. */
struct request {
	const struct nldev_world *w;
	struct nlout *o;
	uint16_t type;
	bool dump;
	bool has[NLDEV_ATTRS];
	uint32_t value[NLDEV_ATTRS]; /* of attributes of four bytes */
	unsigned dev;		     /* once find_device() has found it */
};

/* ---- a device's attributes ---- */

static void put_device(struct nlout *o, const struct nldev_world *w, unsigned dev)
{
	nlout_u32(o, NLDEV_DEV_INDEX, dev);
	nlout_text(o, NLDEV_DEV_NAME, w->devs[dev].name);
}

static void put_device_info(const struct request *r, unsigned dev)
{
	const struct netdev *d = &r->w->devs[dev];

	put_device(r->o, r->w, dev);
	nlout_u32(r->o, NLDEV_PORT_INDEX, PORT); /* here: how many there are */
	nlout_text(r->o, NLDEV_FW_VERSION, r->w->fw_ver);
	nlout_u64(r->o, NLDEV_NODE_GUID, d->guid);
	nlout_u64(r->o, NLDEV_SYS_IMAGE_GUID, d->guid);
	nlout_u8(r->o, NLDEV_NODE_TYPE, NODE_CA);
	nlout_text(r->o, NLDEV_DEV_PROTOCOL, "roce");
}

static void put_port_info(const struct request *r, unsigned dev)
{
	const struct netdev *d = &r->w->devs[dev];

	put_device(r->o, r->w, dev);
	nlout_u32(r->o, NLDEV_PORT_INDEX, PORT);
	nlout_u8(r->o, NLDEV_PORT_STATE, d->active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
	nlout_u8(r->o, NLDEV_PORT_PHYS_STATE, d->active ? PHYS_LINK_UP : PHYS_DISABLED);
	nlout_u32(r->o, NLDEV_NDEV_INDEX, d->ifindex);
	nlout_text(r->o, NLDEV_NDEV_NAME, d->ifname);
}

static void put_summary(const struct request *r, unsigned dev)
{
	static const char *const names[] = {
		[ROCEMU_OBJECT_PD] = "pd",   [ROCEMU_OBJECT_CQ] = "cq", [ROCEMU_OBJECT_QP] = "qp",
		[ROCEMU_OBJECT_SRQ] = "srq", [ROCEMU_OBJECT_MR] = "mr",
	};
	size_t table, entry;

	put_device(r->o, r->w, dev);
	table = nlout_nest(r->o, NLDEV_RES_SUMMARY);
	for (unsigned kind = 0; kind < ARRAY_LEN(names); kind++) {
		entry = nlout_nest(r->o, NLDEV_RES_SUMMARY_ENTRY);
		nlout_text(r->o, NLDEV_RES_SUMMARY_NAME, names[kind]);
		nlout_u64(r->o, NLDEV_RES_SUMMARY_CURR,
			  r->w->objects(r->w->user, dev, (enum rocemu_object)kind));
		nlout_nest_end(r->o, entry);
	}
	nlout_nest_end(r->o, table);
}

static void put_hw_counters(const struct request *r, unsigned dev)
{
	const struct countfile *f = r->w->counts(r->w->user, dev);
	size_t table, entry;

	put_device(r->o, r->w, dev);
	nlout_u32(r->o, NLDEV_PORT_INDEX, PORT);
	table = nlout_nest(r->o, NLDEV_STAT_HWCOUNTERS);
	for (unsigned i = 0; f && i < f->ncounters; i++) {
		const char *name = f->counter[i].name;

		/* lifespan is a file of sysfs, not a counter. */
		if (strncmp(name, HW_PREFIX, strlen(HW_PREFIX)) != 0 ||
		    !strcmp(name, HW_PREFIX "lifespan"))
			continue;
		entry = nlout_nest(r->o, NLDEV_STAT_HWCOUNTER);
		nlout_text(r->o, NLDEV_STAT_HWCOUNTER_NAME, name + strlen(HW_PREFIX));
		nlout_u64(r->o, NLDEV_STAT_HWCOUNTER_VALUE, countfile_get(f, i));
		nlout_nest_end(r->o, entry);
	}
	nlout_nest_end(r->o, table);
}

static void put_qp(struct nlout *o, const struct nldev_qp *qp)
{
	const struct rocemu_qp_info *q = &qp->info;
	const bool connected = q->type == IBV_QPT_RC || q->type == IBV_QPT_UC;
	const bool xrc = q->type == IBV_QPT_XRC_SEND || q->type == IBV_QPT_XRC_RECV;

	nlout_u32(o, NLDEV_PORT_INDEX, PORT);
	nlout_u32(o, NLDEV_RES_LQPN, q->qpn);
	if (connected) {
		nlout_u32(o, NLDEV_RES_RQPN, q->dest_qpn);
		nlout_u32(o, NLDEV_RES_RQ_PSN, q->rq_psn);
	}
	nlout_u32(o, NLDEV_RES_SQ_PSN, q->sq_psn);
	if (connected || xrc)
		nlout_u8(o, NLDEV_RES_PATH_MIG_STATE, q->mig_state);
	nlout_u8(o, NLDEV_RES_TYPE, q->type);
	nlout_u8(o, NLDEV_RES_STATE, q->state);
	nlout_u32(o, NLDEV_RES_PID, qp->pid);
}

/* ---- requests ---- */

static void begin(const struct request *r)
{
	nlout_begin(r->o, r->type, r->dump ? NLM_F_MULTI : 0);
}

/** @return 0, or -EINVAL as in the kernel. */
static int find_device(struct request *r, bool port)
{
	if (!r->has[NLDEV_DEV_INDEX] || r->value[NLDEV_DEV_INDEX] >= r->w->ndevs)
		return -EINVAL;
	r->dev = r->value[NLDEV_DEV_INDEX];
	if (port && !r->has[NLDEV_PORT_INDEX])
		return -EINVAL;
	if (r->has[NLDEV_PORT_INDEX] && r->value[NLDEV_PORT_INDEX] != PORT)
		return -EINVAL;
	return 0;
}

/** One message about a device, or in a dump one about each. */
static int each_device(struct request *r, void (*put)(const struct request *r, unsigned dev))
{
	unsigned first = 0, end = r->w->ndevs;

	if (!r->dump) {
		if (!r->has[NLDEV_DEV_INDEX] || r->value[NLDEV_DEV_INDEX] >= end)
			return -EINVAL;
		first = r->value[NLDEV_DEV_INDEX];
		end = first + 1;
	}
	for (unsigned dev = first; dev < end; dev++) {
		begin(r);
		put(r, dev);
		if (r->o->full) { /* of the datagram: it starts another one */
			nlout_cut(r->o, r->o->message);
			nlout_flush(r->o);
			begin(r);
			put(r, dev);
		}
		nlout_end(r->o);
	}
	return 0;
}

static int get_device(struct request *r)
{
	return each_device(r, put_device_info);
}

static int get_resources(struct request *r)
{
	return each_device(r, put_summary);
}

static int get_port(struct request *r)
{
	const int err = find_device(r, !r->dump);

	if (err)
		return err;
	nlout_flush(r->o);
	begin(r);
	put_port_info(r, r->dev);
	nlout_end(r->o);
	return 0;
}

static int get_system(struct request *r)
{
	begin(r);
	nlout_u8(r->o, NLDEV_NETNS_MODE, NETNS_SHARED);
	nlout_u8(r->o, NLDEV_COPY_ON_FORK, 1);
	nlout_end(r->o);
	return 0;
}

static int get_one_qp(struct request *r)
{
	struct nldev_qp qp;
	uint64_t cursor = 0;

	if (!r->has[NLDEV_RES_LQPN])
		return -EINVAL;
	while (r->w->next_qp(r->w->user, r->dev, &cursor, &qp)) {
		if (qp.info.qpn != r->value[NLDEV_RES_LQPN])
			continue;
		begin(r);
		put_device(r->o, r->w, r->dev);
		put_qp(r->o, &qp);
		nlout_end(r->o);
		return 0;
	}
	return -ENOENT;
}

/** As many QPs as a datagram takes in each message. */
static void dump_qps(struct request *r)
{
	struct nldev_qp qp;
	uint64_t cursor = 0;
	bool more = r->w->next_qp(r->w->user, r->dev, &cursor, &qp);

	while (more) {
		size_t table, entry;
		unsigned n = 0;

		nlout_flush(r->o);
		begin(r);
		put_device(r->o, r->w, r->dev);
		table = nlout_nest(r->o, NLDEV_RES_QP);
		while (more) {
			entry = nlout_nest(r->o, NLDEV_RES_QP_ENTRY);
			put_qp(r->o, &qp);
			if (r->o->full) {
				nlout_cut(r->o, entry);
				break;
			}
			nlout_nest_end(r->o, entry);
			n++;
			more = r->w->next_qp(r->w->user, r->dev, &cursor, &qp);
		}
		nlout_nest_end(r->o, table);
		nlout_end(r->o);
		if (!n)
			return; /* one alone has no room: not to be */
	}
}

static int get_qps(struct request *r)
{
	const int err = find_device(r, false);

	if (err)
		return err;
	if (!r->dump)
		return get_one_qp(r);
	dump_qps(r);
	return 0;
}

/** Objects that are counted, but not listed. */
static int get_none(struct request *r)
{
	const int err = find_device(r, false);

	return err ? err : r->dump ? 0 : -ENOENT;
}

/** Counters of the port; counters that QPs are bound to are not to be had. */
static int get_counters(struct request *r)
{
	const int err = find_device(r, true);

	if (err)
		return err;
	if (r->dump)
		return 0;
	nlout_flush(r->o);
	begin(r);
	if (r->has[NLDEV_STAT_MODE]) {
		put_device(r->o, r->w, r->dev);
		nlout_u32(r->o, NLDEV_PORT_INDEX, PORT);
		nlout_u32(r->o, NLDEV_STAT_MODE, 0);
	} else if (r->has[NLDEV_STAT_RES]) {
		nlout_cut(r->o, r->o->message);
		return -ENOENT;
	} else {
		put_hw_counters(r, r->dev);
	}
	nlout_end(r->o);
	return 0;
}

static int act(struct request *r)
{
	switch (r->type & NLDEV_OP_MASK) {
	case NLDEV_GET:
		return get_device(r);
	case NLDEV_PORT_GET:
		return get_port(r);
	case NLDEV_SYS_GET:
		return get_system(r);
	case NLDEV_RES_GET:
		return get_resources(r);
	case NLDEV_RES_QP_GET:
		return get_qps(r);
	case NLDEV_RES_CM_ID_GET:
	case NLDEV_RES_CQ_GET:
	case NLDEV_RES_MR_GET:
	case NLDEV_RES_PD_GET:
	case NLDEV_RES_CTX_GET:
	case NLDEV_RES_SRQ_GET:
		return get_none(r);
	case NLDEV_STAT_GET:
		return get_counters(r);
	default:
		return -EOPNOTSUPP;
	}
}

/* ---- messages ---- */

/** @return 0, -EINVAL: an attribute is not whole, or of another length than it should be. */
static int parse(struct request *r, const uint8_t *p, size_t len)
{
	while (len >= sizeof(struct nlattr)) {
		struct nlattr a;
		unsigned type;
		size_t step;

		memcpy(&a, p, sizeof(a));
		type = a.nla_type & (uint16_t)NLA_TYPE_MASK;
		if (a.nla_len < sizeof(a) || a.nla_len > len)
			return -EINVAL;
		if (type < NLDEV_ATTRS) {
			const size_t size = a.nla_len - sizeof(a);

			r->has[type] = true;
			if (size >= sizeof(uint32_t))
				memcpy(&r->value[type], p + sizeof(a), sizeof(uint32_t));
			else if (type == NLDEV_DEV_INDEX || type == NLDEV_PORT_INDEX ||
				 type == NLDEV_RES_LQPN)
				return -EINVAL;
		}
		step = MIN(nlout_align(a.nla_len), len);
		p += step;
		len -= step;
	}
	return 0;
}

/** An acknowledgement has the header that it is for; an error's whole message is not repeated. */
static void acknowledge(struct nlout *o, const struct nlmsghdr *h, int err)
{
	const struct nlmsgerr e = {.error = err, .msg = *h};

	nlout_flush(o);
	nlout_begin(o, NLMSG_ERROR, NLM_F_CAPPED);
	nlout_raw(o, &e, sizeof(e));
	nlout_end(o);
}

static void finish_dump(struct nlout *o, int err)
{
	nlout_flush(o);
	nlout_begin(o, NLMSG_DONE, NLM_F_MULTI);
	nlout_raw(o, &err, sizeof(err));
	nlout_end(o);
}

static void answer_one(const struct nldev_world *w, const struct nlmsghdr *h, const uint8_t *p,
		       struct nlout *o)
{
	struct request r = {
		.w = w,
		.o = o,
		.type = h->nlmsg_type,
		.dump = (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP,
	};
	int err;

	o->seq = h->nlmsg_seq;
	if (!(h->nlmsg_flags & NLM_F_REQUEST) || h->nlmsg_type < NLMSG_MIN_TYPE)
		err = 0, r.dump = false;
	else if (h->nlmsg_type >> NLDEV_CLIENT_SHIFT != NLDEV_CLIENT)
		err = -EINVAL, r.dump = false;
	else
		err = parse(&r, p + sizeof(*h), h->nlmsg_len - sizeof(*h));
	if (!err && h->nlmsg_type >= NLMSG_MIN_TYPE && (h->nlmsg_flags & NLM_F_REQUEST))
		err = act(&r);
	if (r.dump)
		finish_dump(o, err);
	else if (err || (h->nlmsg_flags & NLM_F_ACK))
		acknowledge(o, h, err);
	nlout_flush(o);
}

void nldev_answer(const struct nldev_world *w, const void *data, size_t len, struct nlout *o)
{
	const uint8_t *p = data;

	while (len >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr h;
		size_t step;

		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len)
			return;
		answer_one(w, &h, p, o);
		step = MIN(nlout_align(h.nlmsg_len), len);
		p += step;
		len -= step;
	}
}
