/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UD QPs of a datagram socket. A message on UD begins with the sender's UDP address:
 *
 *	0 IP version	1 length of this header	  2 UDP port
 *	4 IPv4 address | 4 IPv6 flow information  8 IPv6 address
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/bytes.h"
#include "base/log.h"
#include "rsocket/dgram.h"
#include "rsocket/setting.h"

enum {
	GRH = 40,
	VERSION = 0,
	LENGTH = 1,
	PORT = 2,
	ADDR4 = 4,
	HEADER4 = 8,
	FLOW = 4,
	ADDR6 = 8,
	HEADER6 = 24,
	SEND_SLOTS_MIN = 16,
	HOP_LIMIT = 64,
};

/* A work request's ID is its slot's number; this bit distinguishes sends from receives. */
#define WR_SEND (1ull << 32)

static size_t header_len(const struct dgram_qp *qp)
{
	return qp->local.sa.sa_family == AF_INET6 ? HEADER6 : HEADER4;
}

static void header_encode(const struct dgram_qp *qp, uint8_t *p)
{
	p[LENGTH] = (uint8_t)header_len(qp);
	if (qp->local.sa.sa_family == AF_INET6) {
		p[VERSION] = 6;
		memcpy(p + PORT, &qp->local.in6.sin6_port, sizeof(in_port_t));
		memcpy(p + FLOW, &qp->local.in6.sin6_flowinfo, sizeof(uint32_t));
		memcpy(p + ADDR6, &qp->local.in6.sin6_addr, sizeof(struct in6_addr));
	} else {
		p[VERSION] = 4;
		memcpy(p + PORT, &qp->local.in.sin_port, sizeof(in_port_t));
		memcpy(p + ADDR4, &qp->local.in.sin_addr, sizeof(struct in_addr));
	}
}

/** Bytes of the header, or 0: it is none. */
static size_t header_decode(const struct dgram_qp *qp, const uint8_t *p, size_t len,
			    union dgram_addr *from)
{
	const bool v6 = qp->local.sa.sa_family == AF_INET6;
	const size_t want = header_len(qp);

	if (len < want || p[LENGTH] != want || p[VERSION] != (v6 ? 6 : 4))
		return 0;
	memset(from, 0, sizeof(*from));
	from->sa.sa_family = qp->local.sa.sa_family;
	if (v6) {
		memcpy(&from->in6.sin6_port, p + PORT, sizeof(in_port_t));
		memcpy(&from->in6.sin6_addr, p + ADDR6, sizeof(struct in6_addr));
		if (IN6_IS_ADDR_LINKLOCAL(&from->in6.sin6_addr))
			from->in6.sin6_scope_id = qp->local.in6.sin6_scope_id;
	} else {
		memcpy(&from->in.sin_port, p + PORT, sizeof(in_port_t));
		memcpy(&from->in.sin_addr, p + ADDR4, sizeof(struct in_addr));
	}
	return want;
}

size_t dgram_qp_room(const struct dgram_qp *qp)
{
	return qp->mtu - header_len(qp);
}

/* ---- addresses ---- */

static void gid_of(const union dgram_addr *a, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (a->sa.sa_family == AF_INET6) {
		memcpy(gid->raw, &a->in6.sin6_addr, sizeof(gid->raw));
	} else {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &a->in.sin_addr, sizeof(struct in_addr));
	}
}

/** The GID index of the local address, RoCE v2. -ENODEV. */
static int find_sgid(struct dgram_qp *qp)
{
	const struct rdma_cm_id *id = qp->id;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return -ENODEV;
	qp->mtu = 128u << port.active_mtu;
	gid_of(&qp->local, &gid);
	for (int i = 0; i < port.gid_tbl_len && i <= UINT8_MAX; i++) {
		if (ibv_query_gid_ex(id->verbs, id->port_num, (uint32_t)i, &entry, 0) == 0 &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    memcmp(&entry.gid, &gid, sizeof(gid)) == 0) {
			qp->sgid_index = (uint8_t)i;
			return 0;
		}
	}
	return -ENODEV;
}

int dgram_qp_ah(struct dgram_qp *qp, const union dgram_addr *to, struct ibv_ah **out)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = qp->id->port_num,
		.grh = {.sgid_index = qp->sgid_index, .hop_limit = HOP_LIMIT},
	};

	gid_of(to, &attr.grh.dgid);
	*out = ibv_create_ah(qp->id->pd, &attr);
	return *out ? 0 : -errno;
}

/* ---- slots ---- */

static uint8_t *recv_slot(const struct dgram_qp *qp, uint32_t i)
{
	return qp->mem + i * qp->recv_size;
}

static uint8_t *send_slot(const struct dgram_qp *qp, uint32_t i)
{
	return qp->mem + qp->recv_count * qp->recv_size + i * qp->send_size;
}

static int post_recv(struct dgram_qp *qp, uint32_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)recv_slot(qp, i),
		.length = (uint32_t)(GRH + qp->mtu),
		.lkey = qp->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	return -ibv_post_recv(qp->id->qp, &wr, &bad);
}

void dgram_qp_repost(struct dgram_qp *qp, const struct dgram_msg *msg)
{
	post_recv(qp, (uint32_t)(msg - qp->msgs));
}

/**
 * As many of the longest messages as the socket's buffers hold; at least the queue's default number
 * of receives, for a burst of short ones. Unused slots take no memory.
 */
static int make_slots(struct dgram_qp *qp, const struct rs_settings *set)
{
	enum { ALIGN = 64 };
	size_t size;

	qp->recv_size = (GRH + qp->mtu + ALIGN - 1) / ALIGN * ALIGN;
	qp->send_size = (qp->mtu + ALIGN - 1) / ALIGN * ALIGN;
	qp->recv_count = rs_queue_size(MAX(set->rcvbuf / qp->mtu, set->rqsize));
	qp->send_count = MIN(MAX(set->sndbuf / qp->mtu, (uint32_t)SEND_SLOTS_MIN), set->sqsize);
	size = qp->recv_count * qp->recv_size + qp->send_count * qp->send_size;
	qp->mem = calloc(1, size);
	qp->msgs = calloc(qp->recv_count, sizeof(*qp->msgs));
	qp->free_send = calloc(qp->send_count, sizeof(*qp->free_send));
	if (!qp->mem || !qp->msgs || !qp->free_send)
		return -ENOMEM;
	qp->mr = ibv_reg_mr(qp->id->pd, qp->mem, size, IBV_ACCESS_LOCAL_WRITE);
	if (!qp->mr)
		return -errno;
	for (uint32_t i = 0; i < qp->send_count; i++)
		qp->free_send[qp->free_count++] = i;
	return 0;
}

/* ---- life ---- */

static int make_cq(struct dgram_qp *qp)
{
	qp->comp = ibv_create_comp_channel(qp->id->verbs);
	if (!qp->comp || fcntl(qp->comp->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	qp->cq = ibv_create_cq(qp->id->verbs, (int)(qp->recv_count + qp->send_count), NULL,
			       qp->comp, 0);
	return qp->cq ? 0 : -errno;
}

static int make_qp(struct dgram_qp *qp, const struct rs_settings *set)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = qp->cq,
		.recv_cq = qp->cq,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap =
			{
				.max_send_wr = qp->send_count,
				.max_recv_wr = qp->recv_count,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = set->inline_size,
			},
	};

	if (rdma_create_qp(qp->id, NULL, &attr))
		return -errno;
	qp->inline_max = attr.cap.max_inline_data;
	for (uint32_t i = 0; i < qp->recv_count; i++) {
		int ret = post_recv(qp, i);

		if (ret < 0)
			return ret;
	}
	return 0;
}

/** Bind an ID to the address, with any port: the given port belongs to the UDP socket. */
static int make_id(struct dgram_qp *qp)
{
	union dgram_addr at = qp->local;

	if (at.sa.sa_family == AF_INET6)
		at.in6.sin6_port = 0;
	else
		at.in.sin_port = 0;
	if (rdma_create_id(NULL, &qp->id, NULL, RDMA_PS_UDP)) {
		qp->id = NULL;
		return -errno;
	}
	if (rdma_bind_addr(qp->id, &at.sa))
		return -errno;
	return qp->id->verbs ? 0 : -ENODEV;
}

static int qp_new(struct dgram *d, const union dgram_addr *local, struct dgram_qp **out)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct dgram_qp *qp = calloc(1, sizeof(*qp));
	int ret;

	if (!qp)
		return -ENOMEM;
	list_init(&qp->node);
	qp->local = *local;
	ret = make_id(qp);
	if (ret == 0)
		ret = find_sgid(qp);
	if (ret == 0)
		ret = make_slots(qp, &d->rs.set);
	if (ret == 0)
		ret = make_cq(qp);
	if (ret == 0)
		ret = make_qp(qp, &d->rs.set);
	if (ret == 0 && epoll_ctl(d->epoll, EPOLL_CTL_ADD, qp->comp->fd, &ev) < 0)
		ret = -errno;
	if (ret == 0 && ibv_req_notify_cq(qp->cq, 0))
		ret = -EIO;
	if (ret < 0) {
		dgram_qp_free(qp);
		return ret;
	}
	list_append(&d->qps, &qp->node);
	d->rs.settled = true;
	/* Threads that sleep now do not poll this QP: wake them. */
	rs_wake(&d->rs);
	*out = qp;
	return 0;
}

int dgram_qp_get(struct dgram *d, const union dgram_addr *local, struct dgram_qp **out)
{
	union dgram_addr at = *local;
	union dgram_addr name;
	socklen_t len = sizeof(name);

	if (getsockname(d->rs.fd, &name.sa, &len) < 0)
		return -errno;
	if (at.sa.sa_family == AF_INET6)
		at.in6.sin6_port = name.in6.sin6_port;
	else
		at.in.sin_port = name.in.sin_port;
	list_for_each (it, &d->qps) {
		*out = list_entry(it, struct dgram_qp, node);
		if (dgram_addr_equal(&(*out)->local, &at))
			return 0;
	}
	return qp_new(d, &at, out);
}

void dgram_qp_free(struct dgram_qp *qp)
{
	if (list_linked(&qp->node))
		list_remove(&qp->node);
	if (qp->id && qp->id->qp)
		rdma_destroy_qp(qp->id);
	if (qp->cq) {
		if (qp->unacked)
			ibv_ack_cq_events(qp->cq, qp->unacked);
		ibv_destroy_cq(qp->cq);
	}
	if (qp->comp)
		ibv_destroy_comp_channel(qp->comp);
	if (qp->mr)
		ibv_dereg_mr(qp->mr);
	if (qp->id)
		rdma_destroy_id(qp->id);
	free(qp->mem);
	free(qp->msgs);
	free(qp->free_send);
	free(qp);
}

/* ---- messages ---- */

ssize_t dgram_qp_send(struct dgram_qp *qp, const struct dgram_peer *peer, const struct iovec *iov,
		      int n, size_t len)
{
	const uint32_t slot = qp->free_send[qp->free_count - 1];
	uint8_t *p = send_slot(qp, slot);
	const size_t header = header_len(qp);
	struct ibv_sge sge = {
		.addr = (uintptr_t)p,
		.length = (uint32_t)(header + len),
		.lkey = qp->mr->lkey,
	};
	struct ibv_send_wr wr =
				   {
					   .wr_id = WR_SEND | slot,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .send_flags = header + len <= qp->inline_max
								 ? IBV_SEND_INLINE
								 : 0,
					   .wr.ud = {.ah = peer->ah,
						     .remote_qpn = peer->qpn,
						     .remote_qkey = RDMA_UDP_QKEY},
				   },
			   *bad;
	int err;

	header_encode(qp, p);
	p += header;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len)
			memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	err = ibv_post_send(qp->id->qp, &wr, &bad);
	if (err)
		return -err;
	qp->free_count--;
	return (ssize_t)len;
}

static void received(struct dgram *d, struct dgram_qp *qp, const struct ibv_wc *wc)
{
	struct dgram_msg *msg = &qp->msgs[wc->wr_id];
	const uint8_t *p = recv_slot(qp, (uint32_t)wc->wr_id) + GRH;
	const size_t len = wc->byte_len > GRH ? wc->byte_len - GRH : 0;
	struct dgram_peer *peer;
	size_t header;

	header = wc->status == IBV_WC_SUCCESS ? header_decode(qp, p, len, &msg->from) : 0;
	if (header == 0 || (d->connected && !dgram_addr_equal(&msg->from, &d->peer))) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			dgram_qp_repost(qp, msg);
		return;
	}
	peer = dgram_peer_find(d, &msg->from);
	if (peer && peer->qpn == wc->src_qp)
		peer->requested_at = rs_now();
	msg->qp = qp;
	msg->data = p + header;
	msg->len = len - header;
	list_append(&d->inbox, &msg->node);
}

void dgram_qp_progress(struct dgram *d, struct dgram_qp *qp)
{
	enum { BATCH = 16 };
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(qp->cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id & WR_SEND)
				qp->free_send[qp->free_count++] = (uint32_t)wc[i].wr_id;
			else
				received(d, qp, &wc[i]);
		}
	} while (n == BATCH);
}
