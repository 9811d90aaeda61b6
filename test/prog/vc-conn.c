/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs-check: the TCP connection between the two sides, the device, queue pairs. See vc.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "vc.h"

/* ---- the side channel ---- */

enum { MSG_STEP = 'S', MSG_END = 'E' };

/** Everything on the TCP connection is a record of this one size, so that a side that has left a
 * case can skip what the other one still sent in it. */
struct msg {
	char type;
	char ok;
	char data[200];
};

static void set_socket(int sock)
{
	struct timeval guard = {.tv_sec = VC_WAIT_S + 30};
	int one = 1;

	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard)) < 0 ||
	    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		vc_die("setsockopt: %s", strerror(errno));
}

void vc_connect_peer(struct vc *vc)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai = NULL;
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)vc->opt.port)};
	char service[16];
	int one = 1, s, rc;

	if (vc->opt.server) {
		s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		    bind(s, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(s, 1) < 0)
			vc_die("TCP port %u: %s", vc->opt.port, strerror(errno));
		vc->sock = accept(s, NULL, NULL);
		close(s);
		if (vc->sock < 0)
			vc_die("accept: %s", strerror(errno));
		set_socket(vc->sock);
		return;
	}
	snprintf(service, sizeof(service), "%u", vc->opt.port);
	rc = getaddrinfo(vc->opt.host, service, &hints, &ai);
	if (rc)
		vc_die("%s: %s", vc->opt.host, gai_strerror(rc));
	vc->sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (vc->sock < 0 || connect(vc->sock, ai->ai_addr, ai->ai_addrlen) < 0)
		vc_die("connect to %s port %u: %s", vc->opt.host, vc->opt.port, strerror(errno));
	freeaddrinfo(ai);
	set_socket(vc->sock);
}

static void msg_send(struct vc *vc, const struct msg *m)
{
	if (send(vc->sock, m, sizeof(*m), MSG_NOSIGNAL) != (ssize_t)sizeof(*m))
		vc_die("the peer is gone: %s", strerror(errno));
}

static void msg_recv(struct vc *vc, struct msg *m)
{
	ssize_t n = recv(vc->sock, m, sizeof(*m), MSG_WAITALL);

	if (n != (ssize_t)sizeof(*m))
		vc_die("the peer is gone: %s%s%s", n < 0 ? strerror(errno) : "connection closed",
		       vc->why[0] ? "; here: " : "", vc->why);
}

static void take_end(struct vc *vc, const struct msg *m)
{
	vc->peer_ended = true;
	vc->peer_ok = m->ok;
	memcpy(vc->peer_why, m->data, sizeof(vc->peer_why));
	vc->peer_why[sizeof(vc->peer_why) - 1] = 0;
}

bool vc_swap(struct vc *vc, const void *mine, void *theirs, size_t len)
{
	struct msg m = {.type = MSG_STEP};

	if (len > 0)
		memcpy(m.data, mine, len);
	msg_send(vc, &m);
	msg_recv(vc, &m);
	if (m.type == MSG_END) {
		take_end(vc, &m);
		return false;
	}
	if (len > 0)
		memcpy(theirs, m.data, len);
	return true;
}

bool vc_sync(struct vc *vc)
{
	return vc_swap(vc, NULL, NULL, 0);
}

void vc_end(struct vc *vc, bool ok)
{
	struct msg m = {.type = MSG_END, .ok = ok};

	memcpy(m.data, vc->why, sizeof(m.data));
	msg_send(vc, &m);
	while (!vc->peer_ended) {
		msg_recv(vc, &m);
		if (m.type == MSG_END)
			take_end(vc, &m);
	}
}

/* ---- device ---- */

static void open_device(struct vc *vc)
{
	struct ibv_device **list;
	int n = 0, i;

	list = ibv_get_device_list(&n);
	if (!list || n == 0)
		vc_die("no RDMA device");
	for (i = 0; i < n; i++)
		if (!vc->opt.device || strcmp(ibv_get_device_name(list[i]), vc->opt.device) == 0)
			break;
	if (i == n)
		vc_die("no device '%s'", vc->opt.device);
	vc->ctx = ibv_open_device(list[i]);
	if (!vc->ctx)
		vc_die("ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
}

static void find_gid(struct vc *vc, int table_len)
{
	union ibv_gid want = {0};

	if (vc->opt.address && inet_pton(AF_INET, vc->opt.address, want.raw + 12) == 1)
		want.raw[10] = want.raw[11] = 0xff;
	else if (vc->opt.address && inet_pton(AF_INET6, vc->opt.address, want.raw) != 1)
		vc_die("--address: an IPv4 or IPv6 address expected, not '%s'", vc->opt.address);
	for (int i = 0; i < table_len; i++) {
		if (ibv_query_gid(vc->ctx, 1, i, &vc->gid))
			continue;
		vc->gid_index = (uint8_t)i;
		if (!vc->opt.address || memcmp(&want, &vc->gid, sizeof(want)) == 0)
			return;
	}
	vc_die("no GID for %s", vc->opt.address ? vc->opt.address : "index 0");
}

enum {
	ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
};

static void buf_new(struct vc *vc, struct vc_buf *b, size_t len)
{
	b->len = len;
	b->base = mmap(NULL, len + 2 * VC_GUARD, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->base == MAP_FAILED)
		vc_die("%zu bytes of memory: %s", len, strerror(errno));
	b->data = b->base + VC_GUARD;
	b->mr = ibv_reg_mr(vc->pd, b->data, len, ACCESS_ALL);
	if (!b->mr)
		vc_die("ibv_reg_mr of %zu bytes: %s", len, strerror(errno));
}

static void buf_free(struct vc_buf *b)
{
	int rc = ibv_dereg_mr(b->mr);

	if (rc)
		vc_die("ibv_dereg_mr: %s", strerror(rc));
	munmap(b->base, b->len + 2 * VC_GUARD);
}

void vc_open(struct vc *vc)
{
	size_t len = vc->opt.huge ? 0x80001000u : vc->opt.big ? 16u << 20 : 2u << 20;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;

	open_device(vc);
	if (ibv_query_device(vc->ctx, &dev))
		vc_die("ibv_query_device: %s", strerror(errno));
	if (vc->opt.xrc && !(dev.device_cap_flags & IBV_DEVICE_XRC))
		vc_die("the device has no XRC");
	/* A type 2 window is for the QP that bound it, which a target cannot. */
	vc->windows = !vc->opt.xrc && (dev.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	vc->pd = ibv_alloc_pd(vc->ctx);
	if (!vc->pd)
		vc_die("ibv_alloc_pd: %s", strerror(errno));
	if (ibv_query_port(vc->ctx, 1, &port))
		vc_die("ibv_query_port: %s", strerror(errno));
	if (port.state != IBV_PORT_ACTIVE)
		vc_die("the port is not active");
	find_gid(vc, port.gid_tbl_len);
	vc->path_mtu = port.active_mtu;
	if (vc->opt.mtu) {
		enum ibv_mtu m = IBV_MTU_256;

		while (m < IBV_MTU_4096 && 128u << m != vc->opt.mtu)
			m++;
		if (128u << m != vc->opt.mtu || m > port.active_mtu)
			vc_die("--mtu %u: not an MTU, or more than the port's %u", vc->opt.mtu,
			       128u << port.active_mtu);
		vc->path_mtu = m;
	}
	vc->mtu = 128u << vc->path_mtu;
	buf_new(vc, &vc->out, len);
	buf_new(vc, &vc->in, len);
}

void vc_close(struct vc *vc)
{
	int rc;

	buf_free(&vc->out);
	buf_free(&vc->in);
	rc = ibv_dealloc_pd(vc->pd);
	if (rc)
		vc_die("ibv_dealloc_pd: %s (something was left over)", strerror(rc));
	if (ibv_close_device(vc->ctx))
		vc_die("ibv_close_device failed");
	close(vc->sock);
}

/* ---- queue pairs ---- */

static bool new_cqs(struct vc_conn *c)
{
	struct ibv_cq_init_attr_ex a = {
		.cqe = 2 * VC_DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	struct ibv_comp_channel **channels[] = {&c->schannel, &c->rchannel};
	struct ibv_cq **cqs[] = {&c->scq, &c->rcq};
	struct vc *vc = c->vc;

	for (int i = 0; i < 2; i++) {
		*channels[i] = ibv_create_comp_channel(vc->ctx);
		VC_CHECK(vc, *channels[i], "ibv_create_comp_channel: %s", strerror(errno));
		a.channel = *channels[i];
		if (vc->opt.cq_ex) {
			struct ibv_cq_ex *x = ibv_create_cq_ex(vc->ctx, &a);

			VC_CHECK(vc, x, "ibv_create_cq_ex: %s", strerror(errno));
			*cqs[i] = ibv_cq_ex_to_cq(x);
		} else {
			*cqs[i] = ibv_create_cq(vc->ctx, 2 * VC_DEPTH, NULL, *channels[i], 0);
			VC_CHECK(vc, *cqs[i], "ibv_create_cq: %s", strerror(errno));
		}
	}
	return true;
}

static bool new_qp(struct vc_conn *c)
{
	struct vc *vc = c->vc;
	struct ibv_srq *srq = vc->opt.xrc ? NULL : c->srq;
	struct ibv_qp_init_attr_ex a = {
		.send_cq = c->scq,
		.recv_cq = vc->opt.xrc ? NULL : c->rcq,
		.srq = srq,
		.cap =
			{
				.max_send_wr = VC_DEPTH,
				.max_recv_wr = c->srq ? 0 : VC_DEPTH,
				.max_send_sge = VC_MAX_SGE,
				.max_recv_sge = c->srq ? 0 : VC_MAX_SGE,
				.max_inline_data = VC_INLINE,
			},
		.qp_type = vc->opt.xrc ? IBV_QPT_XRC_SEND : vc->opt.type,
		.pd = vc->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	if (vc->opt.wr_api) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
		if (vc->opt.type != IBV_QPT_UD)
			a.send_ops_flags |=
				IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
		if (vc->opt.type == IBV_QPT_RC)
			a.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ |
					    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
					    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
		if (vc->opt.type == IBV_QPT_RC && vc->windows)
			a.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |
					    IBV_QP_EX_WITH_LOCAL_INV;
		c->qp = ibv_create_qp_ex(vc->ctx, &a);
		VC_CHECK(vc, c->qp, "ibv_create_qp_ex: %s", strerror(errno));
		c->qpx = ibv_qp_to_qp_ex(c->qp);
		VC_CHECK(vc, c->qpx, "ibv_qp_to_qp_ex: %s", strerror(errno));
	} else {
		struct ibv_qp_init_attr old = {
			.send_cq = a.send_cq,
			.recv_cq = a.recv_cq,
			.srq = a.srq,
			.cap = a.cap,
			.qp_type = a.qp_type,
		};

		c->qp = ibv_create_qp(vc->pd, &old);
		VC_CHECK(vc, c->qp, "ibv_create_qp: %s", strerror(errno));
		VC_CHECK(vc, old.cap.max_inline_data >= VC_INLINE, "max_inline_data %u",
			 old.cap.max_inline_data);
	}
	return true;
}

static bool to_init(struct vc_conn *c, struct ibv_qp *qp, const struct vc_attr *attr)
{
	struct vc *vc = c->vc;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = VC_QKEY};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT, rc;

	if (vc->opt.type == IBV_QPT_UD) {
		mask |= IBV_QP_QKEY;
	} else {
		mask |= IBV_QP_ACCESS_FLAGS;
		/* UC has only the remote WRITE. */
		a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (vc->opt.type == IBV_QPT_RC)
			a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		if (attr->qp_access)
			a.qp_access_flags = (unsigned)attr->qp_access;
	}
	rc = ibv_modify_qp(qp, &a, mask);
	VC_CHECK(vc, rc == 0, "modify to INIT: %s", strerror(rc));
	return true;
}

static struct ibv_ah_attr address(struct vc_conn *c)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = c->peer.gid, .sgid_index = c->vc->gid_index, .hop_limit = 64},
	};
}

/** dqpn: the peer's QP for this one. */
static bool to_rtr(struct vc_conn *c, struct ibv_qp *qp, uint32_t dqpn, const struct vc_attr *attr)
{
	struct vc *vc = c->vc;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};
	int mask = IBV_QP_STATE, rc;

	if (vc->opt.type != IBV_QPT_UD) {
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		a.ah_attr = address(c);
		a.path_mtu = vc->path_mtu;
		a.dest_qp_num = attr->wrong_qpn ? attr->wrong_qpn : dqpn;
		a.rq_psn = c->peer.psn;
	}
	if (vc->opt.type == IBV_QPT_RC) {
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a.max_dest_rd_atomic = VC_RD_ATOMIC;
		a.min_rnr_timer = attr->min_rnr_timer ? attr->min_rnr_timer : 1;
	}
	rc = ibv_modify_qp(qp, &a, mask);
	VC_CHECK(vc, rc == 0, "modify to RTR: %s", strerror(rc));
	return true;
}

static bool to_rts(struct vc_conn *c, struct ibv_qp *qp, const struct vc_attr *attr)
{
	struct vc *vc = c->vc;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .sq_psn = vc->opt.psn};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN, rc;

	if (vc->opt.type == IBV_QPT_RC) {
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
		a.timeout = attr->timeout ? attr->timeout : vc->opt.timeout;
		a.retry_cnt = attr->retry_cnt ? attr->retry_cnt : 7;
		a.rnr_retry = attr->rnr_retry == VC_ZERO ? 0
			      : attr->rnr_retry		 ? attr->rnr_retry
							 : 7;
		a.max_rd_atomic = VC_RD_ATOMIC;
	}
	rc = ibv_modify_qp(qp, &a, mask);
	VC_CHECK(vc, rc == 0, "modify to RTS: %s", strerror(rc));
	return true;
}

bool vc_conn_new(struct vc *vc, struct vc_conn *c, const struct vc_attr *attr)
{
	static const struct vc_attr defaults;
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = VC_DEPTH, .max_sge = VC_MAX_SGE}};
	struct vc_remote mine = {
		.psn = vc->opt.psn,
		.in_rkey = vc->in.mr->rkey,
		.out_rkey = vc->out.mr->rkey,
		.in_addr = (uintptr_t)vc->in.data,
		.out_addr = (uintptr_t)vc->out.data,
		.in_len = vc->in.len,
		.gid = vc->gid,
	};

	if (!attr)
		attr = &defaults;
	*c = (struct vc_conn){.vc = vc};
	VC_TRY(new_cqs(c));
	if (vc->opt.xrc) {
		VC_TRY(vc_xrc_new(c));
		mine.target_qpn = c->target->qp_num;
		VC_CHECK(vc, ibv_get_srq_num(c->srq, &mine.srqn) == 0, "ibv_get_srq_num");
	} else if (vc->opt.srq) {
		c->srq = ibv_create_srq(vc->pd, &sa);
		VC_CHECK(vc, c->srq, "ibv_create_srq: %s", strerror(errno));
	}
	VC_TRY(new_qp(c));
	VC_TRY(to_init(c, c->qp, attr));
	if (c->target)
		VC_TRY(to_init(c, c->target, attr));
	mine.qpn = c->qp->qp_num;
	VC_TRY(vc_swap(vc, &mine, &c->peer, sizeof(mine)));
	if (attr->stay_init)
		return true;
	if (vc->opt.type == IBV_QPT_UD) {
		struct ibv_ah_attr aa = address(c);

		c->ah = ibv_create_ah(vc->pd, &aa);
		VC_CHECK(vc, c->ah, "ibv_create_ah: %s", strerror(errno));
	}
	VC_TRY(to_rtr(c, c->qp, c->target ? c->peer.target_qpn : c->peer.qpn, attr));
	VC_TRY(to_rts(c, c->qp, attr));
	if (c->target) {
		VC_TRY(to_rtr(c, c->target, c->peer.qpn, attr));
		VC_TRY(to_rts(c, c->target, attr));
	}
	return vc_sync(vc);
}

static void must(const char *what, int rc)
{
	if (rc)
		vc_die("%s: %s", what, strerror(rc));
}

void vc_conn_free(struct vc_conn *c)
{
	if (c->qp)
		must("ibv_destroy_qp", ibv_destroy_qp(c->qp));
	if (c->ah)
		must("ibv_destroy_ah", ibv_destroy_ah(c->ah));
	if (c->xrcd)
		vc_xrc_free(c);
	if (c->srq)
		must("ibv_destroy_srq", ibv_destroy_srq(c->srq));
	if (c->scq)
		must("ibv_destroy_cq", ibv_destroy_cq(c->scq));
	if (c->rcq)
		must("ibv_destroy_cq", ibv_destroy_cq(c->rcq));
	if (c->schannel)
		must("ibv_destroy_comp_channel", ibv_destroy_comp_channel(c->schannel));
	if (c->rchannel)
		must("ibv_destroy_comp_channel", ibv_destroy_comp_channel(c->rchannel));
	*c = (struct vc_conn){.vc = c->vc};
}

enum ibv_qp_state vc_qp_state(struct vc_conn *c)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (ibv_query_qp(vc_qp_here(c), &a, IBV_QP_STATE, &init))
		return IBV_QPS_UNKNOWN;
	return a.qp_state;
}

bool vc_qp_to_error(struct vc_conn *c)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	int rc = ibv_modify_qp(c->qp, &a, IBV_QP_STATE);

	VC_CHECK(c->vc, rc == 0, "modify to ERR: %s", strerror(rc));
	return true;
}
