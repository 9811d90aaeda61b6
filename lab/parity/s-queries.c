/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios: a device's attributes, and the attributes of objects against those they were made
 * with.
 */
#include <string.h>

#include "parity.h"

/* ---- the device ---- */

static void run_flags(struct pair *p, const void *arg)
{
	static const struct {
		unsigned bit;
		const char *name;
	} caps[] = {
		{IBV_DEVICE_RESIZE_MAX_WR, "RESIZE_MAX_WR"},
		{IBV_DEVICE_BAD_PKEY_CNTR, "BAD_PKEY_CNTR"},
		{IBV_DEVICE_BAD_QKEY_CNTR, "BAD_QKEY_CNTR"},
		{IBV_DEVICE_RAW_MULTI, "RAW_MULTI"},
		{IBV_DEVICE_AUTO_PATH_MIG, "AUTO_PATH_MIG"},
		{IBV_DEVICE_CHANGE_PHY_PORT, "CHANGE_PHY_PORT"},
		{IBV_DEVICE_UD_AV_PORT_ENFORCE, "UD_AV_PORT_ENFORCE"},
		{IBV_DEVICE_CURR_QP_STATE_MOD, "CURR_QP_STATE_MOD"},
		{IBV_DEVICE_SHUTDOWN_PORT, "SHUTDOWN_PORT"},
		{IBV_DEVICE_PORT_ACTIVE_EVENT, "PORT_ACTIVE_EVENT"},
		{IBV_DEVICE_SYS_IMAGE_GUID, "SYS_IMAGE_GUID"},
		{IBV_DEVICE_RC_RNR_NAK_GEN, "RC_RNR_NAK_GEN"},
		{IBV_DEVICE_SRQ_RESIZE, "SRQ_RESIZE"},
		{IBV_DEVICE_N_NOTIFY_CQ, "N_NOTIFY_CQ"},
		{IBV_DEVICE_MEM_WINDOW, "MEM_WINDOW"},
		{IBV_DEVICE_UD_IP_CSUM, "UD_IP_CSUM"},
		{IBV_DEVICE_XRC, "XRC"},
		{IBV_DEVICE_MEM_MGT_EXTENSIONS, "MEM_MGT_EXTENSIONS"},
		{IBV_DEVICE_MEM_WINDOW_TYPE_2A, "MEM_WINDOW_TYPE_2A"},
		{IBV_DEVICE_MEM_WINDOW_TYPE_2B, "MEM_WINDOW_TYPE_2B"},
		{IBV_DEVICE_RC_IP_CSUM, "RC_IP_CSUM"},
		{IBV_DEVICE_MANAGED_FLOW_STEERING, "MANAGED_FLOW_STEERING"},
	};

	(void)arg;
	for (unsigned i = 0; i < COUNT(caps); i++)
		say(&p->req, "%s: %s", caps[i].name,
		    p->req.attr.device_cap_flags & caps[i].bit ? "yes" : "no");
	say(&p->req, "atomic_cap: %s",
	    p->req.attr.atomic_cap == IBV_ATOMIC_NONE  ? "none"
	    : p->req.attr.atomic_cap == IBV_ATOMIC_HCA ? "within the device"
						       : "with the CPU");
}

static void run_identity(struct pair *p, const void *arg)
{
	const struct ibv_device_attr *a = &p->req.attr;

	(void)arg;
	say(&p->req, "vendor_id %#x", a->vendor_id);
	say(&p->req, "vendor_part_id %#x", a->vendor_part_id);
	say(&p->req, "node_guid is %s", a->node_guid ? "there" : "0");
	say(&p->req, "transport_type %d, node_type %d", p->req.ctx->device->transport_type,
	    p->req.ctx->device->node_type);
	say(&p->req, "ports %u", a->phys_port_cnt);
}

static void run_limits(struct pair *p, const void *arg)
{
	const struct ibv_device_attr *a = &p->req.attr;
	const struct {
		const char *name;
		int64_t value;
	} all[] = {
		{"max_qp", a->max_qp},
		{"max_qp_wr", a->max_qp_wr},
		{"max_sge", a->max_sge},
		{"max_sge_rd", a->max_sge_rd},
		{"max_cq", a->max_cq},
		{"max_cqe", a->max_cqe},
		{"max_mr", a->max_mr},
		{"max_mw", a->max_mw},
		{"max_pd", a->max_pd},
		{"max_ah", a->max_ah},
		{"max_qp_rd_atom", a->max_qp_rd_atom},
		{"max_qp_init_rd_atom", a->max_qp_init_rd_atom},
		{"max_res_rd_atom", a->max_res_rd_atom},
		{"max_srq", a->max_srq},
		{"max_srq_wr", a->max_srq_wr},
		{"max_srq_sge", a->max_srq_sge},
		{"max_pkeys", a->max_pkeys},
		{"max_mcast_grp", a->max_mcast_grp},
		{"local_ca_ack_delay", a->local_ca_ack_delay},
		{"page_size_cap", (int64_t)a->page_size_cap},
	};

	(void)arg;
	for (unsigned i = 0; i < COUNT(all); i++)
		say(&p->req, "%s %lld", all[i].name, (long long)all[i].value);
}

static void run_port(struct pair *p, const void *arg)
{
	const struct ibv_port_attr *a = &p->req.port;

	(void)arg;
	say(&p->req, "link_layer %d, state %d, phys_state %d", a->link_layer, a->state,
	    a->phys_state);
	say(&p->req, "max_mtu %d", 128 << a->max_mtu);
	say(&p->req, "active_mtu %d", 128 << a->active_mtu);
	say(&p->req, "max_msg_sz %u", a->max_msg_sz);
	say(&p->req, "lid %u, sm_lid %u, lmc %u, subnet_timeout %u", a->lid, a->sm_lid, a->lmc,
	    a->subnet_timeout);
	say(&p->req, "max_vl_num %u", a->max_vl_num);
	say(&p->req, "pkey_tbl_len %u", a->pkey_tbl_len);
	say(&p->req, "GID table is %s", a->gid_tbl_len > 0 ? "there" : "empty");
	say(&p->req, "active_width %u, active_speed %u", a->active_width, a->active_speed);
	say(&p->req, "port_cap_flags %#x, flags %#x", a->port_cap_flags, a->flags);
}

static void run_tables(struct pair *p, const void *arg)
{
	struct end *e = &p->req;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey = 0;

	(void)arg;
	say_result(e, "ibv_query_pkey 0", ibv_query_pkey(e->ctx, 1, 0, &pkey) ? errno : 0);
	say(e, "P_Key %04x", (unsigned)((pkey & 0xff) << 8 | pkey >> 8));
	say(e, "ibv_get_pkey_index of it: %d", ibv_get_pkey_index(e->ctx, 1, pkey));
	say(e, "ibv_query_pkey 30000: %s",
	    ibv_query_pkey(e->ctx, 1, 30000, &pkey) ? "refused" : "ok");
	say(e, "ibv_query_gid 30000: %s", ibv_query_gid(e->ctx, 1, 30000, &gid) ? "refused" : "ok");
	say(e, "ibv_query_gid of port 200: %s",
	    ibv_query_gid(e->ctx, 200, 0, &gid) ? "refused" : "ok");
	say(e, "ibv_query_port 0: %s", ibv_query_port(e->ctx, 0, &port) ? "refused" : "ok");
	say(e, "ibv_query_port 200: %s", ibv_query_port(e->ctx, 200, &port) ? "refused" : "ok");
}

static void run_extended(struct pair *p, const void *arg)
{
	struct ibv_device_attr_ex a;
	struct ibv_query_device_ex_input bad = {.comp_mask = 1u << 31};
	int err = ibv_query_device_ex(p->req.ctx, NULL, &a);

	(void)arg;
	say_result(&p->req, "ibv_query_device_ex", err);
	if (err)
		return;
	say(&p->req, "agrees with ibv_query_device: %s",
	    a.orig_attr.max_qp == p->req.attr.max_qp &&
			    a.orig_attr.vendor_id == p->req.attr.vendor_id
		    ? "yes"
		    : "no");
	say(&p->req, "on-demand paging: %s",
	    a.odp_caps.general_caps & IBV_ODP_SUPPORT ? "yes" : "no");
	say(&p->req, "completion timestamps: %s", a.completion_timestamp_mask ? "yes" : "no");
	say(&p->req, "unknown comp_mask: %s",
	    ibv_query_device_ex(p->req.ctx, &bad, &a) ? "refused" : "ok");
}

/* ---- objects ---- */

/** The mask that libibverbs passes to a provider: it refuses attributes beyond IBV_QP_DEST_QPN. */
enum { ASK_ALL = (IBV_QP_DEST_QPN << 1) - 1 };

static void qp_say(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	memset(&a, 0, sizeof(a));
	if (say_result(e, "ibv_query_qp", ibv_query_qp(e->qp, &a, ASK_ALL, &init)))
		return;
	say(e, "%s, cur %s", text_state(a.qp_state), text_state(a.cur_qp_state));
	say(e, "path_mtu %d, sq_psn %06x, rq_psn %06x", a.path_mtu, a.sq_psn, a.rq_psn);
	say(e, "access %#x, qkey %#x, pkey_index %u, port %u", a.qp_access_flags, a.qkey,
	    a.pkey_index, a.port_num);
	say(e, "rd_atomic %u, dest %u", a.max_rd_atomic, a.max_dest_rd_atomic);
	say(e, "timeout %u, retry %u, rnr_retry %u, min_rnr_timer %u", a.timeout, a.retry_cnt,
	    a.rnr_retry, a.min_rnr_timer);
	say(e, "is_global %u, hop_limit %u, sl %u", a.ah_attr.is_global, a.ah_attr.grh.hop_limit,
	    a.ah_attr.sl);
	say(e, "capabilities at least as asked: %s",
	    init.cap.max_send_wr >= 32 && init.cap.max_send_sge >= 1 ? "yes" : "no");
	say(e, "init: CQs and SRQ %s, type %d, sq_sig_all %d",
	    init.send_cq == e->scq && init.recv_cq == e->rcq && init.srq == e->srq ? "as given"
										   : "others",
	    init.qp_type, init.sq_sig_all);
}

struct query_qp {
	const char *name;
	struct setup s;
};
static const struct query_qp query_qps[] = {
	{"rc/RESET", {.state = STAY_RESET}},
	{"rc/INIT", {.state = IBV_QPS_INIT}},
	{"rc/RTR", {.state = IBV_QPS_RTR}},
	{"rc/RTS", {.rd_atomic = 4, .timeout = 14, .retry = 3, .rnr_retry = 6, .rnr_timer = 12}},
	{"uc/RTS", {.type = IBV_QPT_UC}},
	{"ud/RTS", {.type = IBV_QPT_UD}},
	{"rc/srq-unsignaled", {.srq = true, .unsignaled = true}},
};

static void run_query_qp(struct pair *p, const void *arg)
{
	const struct query_qp *q = arg;

	pair_setup(p, &q->s);
	qp_say(&p->rsp);
}

static void run_query_srq(struct pair *p, const void *arg)
{
	struct ibv_srq_attr a;

	(void)arg;
	pair_setup(p, &(struct setup){.srq = true, .state = STAY_RESET});
	if (say_result(&p->rsp, "ibv_query_srq", ibv_query_srq(p->rsp.srq, &a)))
		return;
	say(&p->rsp, "at least as asked: %s, limit %u",
	    a.max_wr >= 32 && a.max_sge >= 1 ? "yes" : "no", a.srq_limit);
}

static void run_modify_srq(struct pair *p, const void *arg)
{
	struct ibv_srq_attr a = {.srq_limit = 10, .max_wr = 64};

	(void)arg;
	pair_setup(p, &(struct setup){.srq = true, .state = STAY_RESET});
	say_result(&p->rsp, "limit 10", ibv_modify_srq(p->rsp.srq, &a, IBV_SRQ_LIMIT));
	if (ibv_query_srq(p->rsp.srq, &a) == 0)
		say(&p->rsp, "limit %u", a.srq_limit);
	a.max_wr = 64;
	say_result(&p->rsp, "resize to 64", ibv_modify_srq(p->rsp.srq, &a, IBV_SRQ_MAX_WR));
	if (ibv_query_srq(p->rsp.srq, &a) == 0)
		say(&p->rsp, "at least 64: %s", a.max_wr >= 64 ? "yes" : "no");
	a.srq_limit = 1u << 30;
	say(&p->rsp, "limit above its size: %s",
	    ibv_modify_srq(p->rsp.srq, &a, IBV_SRQ_LIMIT) ? "refused" : "taken");
}

static void run_resize_cq(struct pair *p, const void *arg)
{
	int err;

	(void)arg;
	pair_setup(p, &(struct setup){0});
	for (uint32_t i = 0; i < 4; i++) {
		recv_post(&p->rsp, 20 + i, i * 64, 64);
		msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = i, .len = 64});
	}
	poll_send(&p->req, 4);
	err = ibv_resize_cq(p->rsp.rcq, 300);
	say_result(&p->rsp, "ibv_resize_cq to 300", err);
	if (!err)
		say(&p->rsp, "at least 300: %s", p->rsp.rcq->cqe >= 300 ? "yes" : "no");
	poll_recv(&p->rsp, 4);
	say(&p->rsp, "to -1: %s", ibv_resize_cq(p->rsp.rcq, -1) ? "refused" : "taken");
}

static void run_ah(struct pair *p, const void *arg)
{
	struct ibv_ah_attr a = {.port_num = 1, .is_global = 1};
	struct end *e = &p->req;

	(void)arg;
	end_setup(e, &(struct setup){0});
	a.grh.dgid = p->rsp.gid;
	a.grh.sgid_index = (uint8_t)e->gid_index;
	a.grh.hop_limit = 64;
	say_result(e, "ibv_create_ah", ibv_create_ah(e->pd, &a) ? 0 : errno);
	a.grh.sgid_index = 255;
	say(e, "sgid_index 255: %s", ibv_create_ah(e->pd, &a) ? "taken" : "refused");
	a.grh.sgid_index = (uint8_t)e->gid_index;
	a.port_num = 200;
	say(e, "port 200: %s", ibv_create_ah(e->pd, &a) ? "taken" : "refused");
	a.port_num = 1;
	a.is_global = 0;
	say(e, "without GRH: %s", ibv_create_ah(e->pd, &a) ? "taken" : "refused");
}

static void run_types(struct pair *p, const void *arg)
{
	static const struct {
		enum ibv_qp_type type;
		const char *name;
	} types[] = {{IBV_QPT_RC, "RC"},
		     {IBV_QPT_UC, "UC"},
		     {IBV_QPT_UD, "UD"},
		     {IBV_QPT_RAW_PACKET, "RAW_PACKET"},
		     {IBV_QPT_XRC_SEND, "XRC_SEND"},
		     {(enum ibv_qp_type)99, "99"}};
	struct end *e = &p->req;

	(void)arg;
	end_setup(e, &(struct setup){0});
	for (unsigned i = 0; i < COUNT(types); i++) {
		struct ibv_qp_init_attr a = {.send_cq = e->scq,
					     .recv_cq = e->rcq,
					     .cap = {.max_send_wr = 1,
						     .max_recv_wr = 1,
						     .max_send_sge = 1,
						     .max_recv_sge = 1},
					     .qp_type = types[i].type};

		say(e, "%s: %s", types[i].name, ibv_create_qp(e->pd, &a) ? "taken" : "refused");
	}
}

void scenarios_queries(void)
{
	registry_add(run_identity, NULL, ALONE, "query/identity");
	registry_add(run_flags, NULL, ALONE, "query/capabilities");
	registry_add(run_limits, NULL, ALONE, "query/limits");
	registry_add(run_port, NULL, ALONE, "query/port");
	registry_add(run_tables, NULL, ALONE, "query/tables");
	registry_add(run_extended, NULL, ALONE, "query/device-extended");
	for (unsigned i = 0; i < COUNT(query_qps); i++)
		registry_add(run_query_qp, &query_qps[i], ALONE, "query/qp/%s", query_qps[i].name);
	registry_add(run_query_srq, NULL, ALONE, "query/srq");
	registry_add(run_modify_srq, NULL, ALONE, "query/srq-modify");
	registry_add(run_resize_cq, NULL, ALONE, "query/cq-resize");
	registry_add(run_ah, NULL, ALONE, "query/address-handles");
	registry_add(run_types, NULL, ALONE, "query/qp-types");
}
