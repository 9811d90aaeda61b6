/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds the requests of rdma_connect(): the REQ of a connection, the SIDR_REQ of a service lookup.
 */
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/core.h"
#include "rdmacm/id.h"
#include "rdmacm/request.h"

static uint64_t service_id(const struct rcm_id *id)
{
	return rcm_addr_service(id->base.ps, &id->base.route.addr.dst_addr);
}

/*
 * The private data of a REQ or SIDR_REQ: annex A11's header with the addresses (not for a service
 * outside the annex, which only AF_IB can specify), then the data of rdma_create_ep(), then the
 * program's.
 */
static int request_data(struct rcm_id *id, const struct rdma_conn_param *p, size_t max)
{
	const struct rdma_addr *a = &id->base.route.addr;
	struct rocemu_cma cma = {
		.ip_version = rocemu_gid_is_ipv4(&id->local.gid) ? 4 : 6,
		.sport = rcm_addr_port(&a->src_addr),
	};
	size_t header = rocemu_cm_service_is_ip(service_id(id)) ? ROCEMU_CMA_LEN : 0;
	size_t user = p->private_data_len;
	uint8_t *to = id->request_data;

	if (header + id->connect_len + user > max)
		return REFUSE(-EINVAL, 0,
			      "rdma_connect: private_data_len is %u: a request has room for %zu "
			      "bytes: shorten it",
			      p->private_data_len, max - header);
	rcm_addr_to_gid(&a->src_addr, &cma.src);
	rcm_addr_to_gid(&a->dst_addr, &cma.dst);
	if (header)
		to += rocemu_cma_encode(&cma, to);
	if (id->connect_len)
		memcpy(to, id->connect, id->connect_len);
	to += id->connect_len;
	if (user)
		memcpy(to, p->private_data, user);
	id->request_len = (size_t)(to - id->request_data) + user;
	return 0;
}

static struct cm_addr mad_addr(const struct rcm_id *id)
{
	struct cm_addr a = {
		.src = id->local.gid,
		.hop_limit = RCM_HOP_LIMIT,
		.tclass = id->tos,
		.sgid_index = id->local.sgid_index,
		.scope_id = id->local.scope_id,
	};

	rcm_addr_to_gid(&id->base.route.addr.dst_addr, &a.dst);
	return a;
}

/*
 * Derived from the ports as in the kernel's rdma_cm: both directions then have one UDP source port.
 */
static uint32_t flow_label(const struct rcm_id *id)
{
	const struct rdma_addr *a = &id->base.route.addr;

	return (rcm_addr_port(&a->src_addr) * 31u + rcm_addr_port(&a->dst_addr)) & 0xfffff;
}

static void fill_transport(const struct rcm_id *id, struct rocemu_cm_req *req)
{
	enum ibv_qp_type type = id->base.qp_type;

	req->transport = type == IBV_QPT_UC ? ROCEMU_CM_UC : ROCEMU_CM_RC;
	if (type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV) {
		req->transport = ROCEMU_CM_EXTENDED;
		req->extended_transport = ROCEMU_CM_EXTENDED_XRC;
	}
}

static void fill_req(struct rcm_id *id, const struct rdma_conn_param *p, struct rocemu_cm_req *req)
	REQUIRES(rcm_lock)
{
	cm_req_init(req);
	fill_transport(id, req);
	req->ece.vendor_id = id->local_ece.vendor_id;
	req->ece.options = id->local_ece.options;
	req->service_id = service_id(id);
	id->local_qpn = req->local_qpn = id->base.qp ? id->base.qp->qp_num : p->qp_num;
	req->srq = id->base.qp ? id->base.qp->srq != NULL : p->srq;
	req->responder_resources = id->responder_resources;
	req->initiator_depth = id->initiator_depth;
	req->flow_control = p->flow_control != 0;
	req->retry_count = id->retry_count;
	req->rnr_retry_count = id->rnr_retry_count;
	req->starting_psn = id->psn;
	req->path_mtu = id->path_rec.mtu;
	req->primary.local_gid = id->local.gid;
	rcm_addr_to_gid(&id->base.route.addr.dst_addr, &req->primary.remote_gid);
	req->primary.flow_label = flow_label(id);
	req->primary.tclass = id->tos;
	req->primary.hop_limit = RCM_HOP_LIMIT;
	req->primary.ack_timeout = id->ack_timeout_set
					   ? id->ack_timeout
					   : (uint8_t)(id->path_rec.packet_life_time + 1);
}

static int send_req(struct rcm_id *id, const struct rocemu_cm_req *req) REQUIRES(rcm_lock)
{
	struct cm_connect_param p = {
		.req = *req,
		.addr = mad_addr(id),
		.private_data = id->request_data,
		.private_data_len = id->request_len,
		.user = id,
	};

	return cm_connect(rcm_core_cm(), rcm_now(), &p, &id->conn);
}

static int connect_qp(struct rcm_id *id, const struct rdma_conn_param *p) REQUIRES(rcm_lock)
{
	const struct rcm_device *dev = id->local.dev;
	struct rocemu_cm_req req;
	int err = request_data(id, p, ROCEMU_CM_REQ_PRIVATE_LEN);

	if (err)
		return err;
	/* Greater than the device's is RDMA_MAX_* alone: as many as it can. */
	id->responder_resources = MIN(p->responder_resources, dev->max_responder_resources);
	id->initiator_depth = MIN(p->initiator_depth, dev->max_initiator_depth);
	id->retry_count = MIN(p->retry_count, 7);
	id->rnr_retry_count = MIN(p->rnr_retry_count, 7);
	id->psn = rcm_random() & ROCEMU_PSN_MASK;
	fill_req(id, p, &req);
	return send_req(id, &req);
}

static int send_sidr_req(struct rcm_id *id) REQUIRES(rcm_lock)
{
	struct cm_sidr_param p = {
		.service_id = service_id(id),
		.pkey = ROCEMU_PKEY_DEFAULT,
		.timeout = CM_DEFAULT_TIMEOUT,
		.retries = CM_DEFAULT_RETRIES,
		.addr = mad_addr(id),
		.private_data = id->request_data,
		.private_data_len = id->request_len,
		.user = id,
	};

	return cm_sidr_request(rcm_core_cm(), rcm_now(), &p, &id->sidr);
}

int rcm_request_send(struct rcm_id *id, const struct rdma_conn_param *p)
{
	int err;

	if (!rcm_id_is_ud(id))
		return connect_qp(id, p);
	err = request_data(id, p, ROCEMU_CM_SIDR_REQ_PRIVATE_LEN);
	return err ? err : send_sidr_req(id);
}

int rcm_request_send_again(struct rcm_id *id)
{
	struct rocemu_cm_req req;

	if (id->sidr) {
		cm_sidr_destroy(id->sidr, rcm_now());
		id->sidr = NULL;
		return send_sidr_req(id);
	}
	req = *cm_conn_req(id->conn);
	cm_conn_destroy(id->conn, rcm_now());
	id->conn = NULL;
	return send_req(id, &req);
}
