/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs-probe: what a device supports, found out by trying. Plain verbs, so it runs on whatever
 * libibverbs it finds: on the drop-in by "rocemu run", on the kernel's drivers without.
 *
 * usage: verbs-probe DEVICE
 *
 * Prints a line "NAME works" or "NAME refused ERRNO" for each call and flag that a device may or
 * may not support. docs/verbs.md has what is printed here, and a test compares.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEM = 65536 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t *mem;

static bool is_refusal(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS || err == ENOTSUP || err == EPROTONOSUPPORT;
}

/** err: what the call ended with; 0: well. An error of another kind means that the call is there.
 */
static void say(const char *name, int err)
{
	if (err == 0)
		printf("%s works\n", name);
	else
		printf("%s %s %s\n", name, is_refusal(err) ? "refused" : "fails", strerror(err));
}

/** The same for a flag, which is refused by any error. */
static void say_flag(const char *name, int err)
{
	printf("%s %s%s%s\n", name, err ? "refused" : "works", err ? " " : "",
	       err ? strerror(err) : "");
}

static int error_of(const void *object)
{
	return object ? 0 : errno ? errno : EIO;
}

/* ---- memory ---- */

static void probe_mr_flag(const char *name, unsigned flag)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr_iova2(pd, mem, MEM, flag == IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)mem,
			      IBV_ACCESS_LOCAL_WRITE | flag);
	say_flag(name, error_of(mr));
	if (mr)
		ibv_dereg_mr(mr);
}

static void probe_rereg(const char *name, int flag)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, MEM, IBV_ACCESS_LOCAL_WRITE);
	int ret;

	if (!mr)
		return;
	errno = 0;
	ret = ibv_rereg_mr(mr, flag, pd, mem, MEM / 2,
			   flag == IBV_REREG_MR_CHANGE_ACCESS ? IBV_ACCESS_LOCAL_WRITE : 0);
	say_flag(name, ret ? (errno ? errno : EIO) : 0);
	ibv_dereg_mr(mr);
}

static void probe_advise(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {.addr = (uintptr_t)mem, .length = 4096, .lkey = mr ? mr->lkey : 0};

	say("ibv_advise_mr", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	if (mr)
		ibv_dereg_mr(mr);
}

static void probe_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	int err;

	errno = 0;
	dm = ibv_alloc_dm(ctx, &attr);
	err = error_of(dm);
	say("ibv_alloc_dm", err);
	if (!dm) {
		say("ibv_reg_dm_mr", err);
		return;
	}
	errno = 0;
	mr = ibv_reg_dm_mr(pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED);
	say("ibv_reg_dm_mr", error_of(mr));
	if (mr)
		ibv_dereg_mr(mr);
	ibv_free_dm(dm);
}

/* With a file that is not a DMA-buf: a library with the call returns EINVAL. */
static void probe_dmabuf(void)
{
	const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	errno = 0;
	say("ibv_reg_dmabuf_mr",
	    error_of(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE)));
	close(fd);
}

static void probe_memory(void)
{
	struct ibv_mr *mr;

#define FLAG(name) probe_mr_flag(#name, name)
	FLAG(IBV_ACCESS_LOCAL_WRITE);
	FLAG(IBV_ACCESS_REMOTE_WRITE);
	FLAG(IBV_ACCESS_REMOTE_READ);
	FLAG(IBV_ACCESS_REMOTE_ATOMIC);
	FLAG(IBV_ACCESS_MW_BIND);
	FLAG(IBV_ACCESS_ZERO_BASED);
	FLAG(IBV_ACCESS_ON_DEMAND);
	FLAG(IBV_ACCESS_HUGETLB);
	FLAG(IBV_ACCESS_RELAXED_ORDERING);
#undef FLAG
#define FLAG(name) probe_rereg(#name, name)
	FLAG(IBV_REREG_MR_CHANGE_TRANSLATION);
	FLAG(IBV_REREG_MR_CHANGE_PD);
	FLAG(IBV_REREG_MR_CHANGE_ACCESS);
#undef FLAG
	probe_advise();
	probe_dm();
	errno = 0;
	mr = ibv_alloc_null_mr(pd);
	say("ibv_alloc_null_mr", error_of(mr));
	if (mr)
		ibv_dereg_mr(mr);
	probe_dmabuf();
}

static void probe_mw(const char *name, enum ibv_mw_type type)
{
	struct ibv_mw *mw;

	errno = 0;
	mw = ibv_alloc_mw(pd, type);
	say(name, error_of(mw));
	if (mw)
		ibv_dealloc_mw(mw);
}

/* ---- domains ---- */

static void probe_domains(void)
{
	struct ibv_xrcd_init_attr xattr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_td_init_attr tattr = {0};
	struct ibv_parent_domain_init_attr pattr = {.pd = pd};
	struct ibv_xrcd *xrcd;
	struct ibv_pd *parent;
	struct ibv_td *td;

	errno = 0;
	td = ibv_alloc_td(ctx, &tattr);
	say("ibv_alloc_td", error_of(td));
	pattr.td = td;
	errno = 0;
	parent = ibv_alloc_parent_domain(ctx, &pattr);
	say("ibv_alloc_parent_domain", error_of(parent));
	if (parent)
		ibv_dealloc_pd(parent);
	if (td)
		ibv_dealloc_td(td);
	errno = 0;
	xrcd = ibv_open_xrcd(ctx, &xattr);
	say("ibv_open_xrcd", error_of(xrcd));
	if (xrcd)
		ibv_close_xrcd(xrcd);
}

/* ---- completion queues ---- */

static void probe_wc_flag(const char *name, uint64_t flag)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = flag};
	struct ibv_cq_ex *ex;

	errno = 0;
	ex = ibv_create_cq_ex(ctx, &attr);
	say_flag(name, error_of(ex));
	if (ex)
		ibv_destroy_cq(ibv_cq_ex_to_cq(ex));
}

static void probe_cq_flag(const char *name, uint32_t flag)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16,
					   .wc_flags = IBV_WC_STANDARD_FLAGS,
					   .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					   .flags = flag};
	struct ibv_cq_ex *ex;

	errno = 0;
	ex = ibv_create_cq_ex(ctx, &attr);
	say_flag(name, error_of(ex));
	if (ex)
		ibv_destroy_cq(ibv_cq_ex_to_cq(ex));
}

static void probe_cqs(void)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 1, .cq_period = 1}};

#define FLAG(name) probe_wc_flag(#name, name)
	FLAG(IBV_WC_EX_WITH_BYTE_LEN);
	FLAG(IBV_WC_EX_WITH_IMM);
	FLAG(IBV_WC_EX_WITH_QP_NUM);
	FLAG(IBV_WC_EX_WITH_SRC_QP);
	FLAG(IBV_WC_EX_WITH_SLID);
	FLAG(IBV_WC_EX_WITH_SL);
	FLAG(IBV_WC_EX_WITH_DLID_PATH_BITS);
	FLAG(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	FLAG(IBV_WC_EX_WITH_CVLAN);
	FLAG(IBV_WC_EX_WITH_FLOW_TAG);
	FLAG(IBV_WC_EX_WITH_TM_INFO);
	FLAG(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
#undef FLAG
	probe_cq_flag("IBV_CREATE_CQ_ATTR_SINGLE_THREADED", IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	probe_cq_flag("IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN", IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	say("ibv_modify_cq", ibv_modify_cq(cq, &attr));
	say("ibv_resize_cq", ibv_resize_cq(cq, 32));
}

/* ---- queue pairs ---- */

static struct ibv_qp *new_qp(enum ibv_qp_type type, uint64_t send_ops, uint32_t create_flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.send_ops_flags = send_ops,
		.create_flags = create_flags,
	};

	if (send_ops)
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (create_flags)
		attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	if (create_flags & IBV_QP_CREATE_SOURCE_QPN)
		attr.source_qpn = 1;
	errno = 0;
	return ibv_create_qp_ex(ctx, &attr);
}

static void probe_qp(const char *name, enum ibv_qp_type type, uint64_t send_ops,
		     uint32_t create_flags)
{
	struct ibv_qp *qp = new_qp(type, send_ops, create_flags);

	say_flag(name, error_of(qp));
	if (qp)
		ibv_destroy_qp(qp);
}

static void probe_xrc(void)
{
	struct ibv_xrcd_init_attr xattr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ctx, &xattr);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_srq_init_attr_ex sattr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	if (!xrcd) {
		say_flag("IBV_QPT_XRC_RECV", EOPNOTSUPP);
		say_flag("IBV_SRQT_XRC", EOPNOTSUPP);
		return;
	}
	errno = 0;
	qp = ibv_create_qp_ex(ctx, &attr);
	say_flag("IBV_QPT_XRC_RECV", error_of(qp));
	if (qp)
		ibv_destroy_qp(qp);
	errno = 0;
	srq = ibv_create_srq_ex(ctx, &sattr);
	say_flag("IBV_SRQT_XRC", error_of(srq));
	if (srq)
		ibv_destroy_srq(srq);
	ibv_close_xrcd(xrcd);
}

static void probe_srq(const char *name, enum ibv_srq_type type)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = type,
		.pd = pd,
	};
	struct ibv_srq *srq;

	if (type == IBV_SRQT_TM) {
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
		attr.cq = cq;
		attr.tm_cap = (struct ibv_tm_cap){.max_num_tags = 4, .max_ops = 4};
	}
	errno = 0;
	srq = ibv_create_srq_ex(ctx, &attr);
	say_flag(name, error_of(srq));
	if (srq)
		ibv_destroy_srq(srq);
}

static void probe_qps(void)
{
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000};
	struct ibv_ece ece = {0};
	struct ibv_qp *qp;

#define TYPE(name) probe_qp(#name, name, 0, 0)
	TYPE(IBV_QPT_RC);
	TYPE(IBV_QPT_UC);
	TYPE(IBV_QPT_UD);
	TYPE(IBV_QPT_RAW_PACKET);
	TYPE(IBV_QPT_XRC_SEND);
	TYPE(IBV_QPT_DRIVER);
#undef TYPE
	probe_xrc();
	probe_srq("IBV_SRQT_BASIC", IBV_SRQT_BASIC);
	probe_srq("IBV_SRQT_TM", IBV_SRQT_TM);
#define OPS(name) probe_qp(#name, IBV_QPT_RC, name, 0)
	OPS(IBV_QP_EX_WITH_RDMA_WRITE);
	OPS(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	OPS(IBV_QP_EX_WITH_SEND);
	OPS(IBV_QP_EX_WITH_SEND_WITH_IMM);
	OPS(IBV_QP_EX_WITH_RDMA_READ);
	OPS(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
	OPS(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	OPS(IBV_QP_EX_WITH_LOCAL_INV);
	OPS(IBV_QP_EX_WITH_BIND_MW);
	OPS(IBV_QP_EX_WITH_SEND_WITH_INV);
	OPS(IBV_QP_EX_WITH_TSO);
#undef OPS
#define CREATE(name) probe_qp(#name, IBV_QPT_UD, 0, name)
	CREATE(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	CREATE(IBV_QP_CREATE_SCATTER_FCS);
	CREATE(IBV_QP_CREATE_CVLAN_STRIPPING);
	CREATE(IBV_QP_CREATE_SOURCE_QPN);
	CREATE(IBV_QP_CREATE_PCI_WRITE_END_PADDING);
#undef CREATE
	qp = new_qp(IBV_QPT_RC, 0, 0);
	if (!qp)
		return;
	say("ibv_query_ece", ibv_query_ece(qp, &ece));
	say("ibv_set_ece", ibv_set_ece(qp, &ece));
	say("ibv_modify_qp_rate_limit", ibv_modify_qp_rate_limit(qp, &rate));
	ibv_destroy_qp(qp);
}

/* ---- the rest ---- */

static void probe_queries(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr_ex attr;
	struct ibv_gid_entry entry, table[256];
	ssize_t n;

	say("ibv_query_device_ex", ibv_query_device_ex(ctx, NULL, &attr));
	say("ibv_query_rt_values_ex", ibv_query_rt_values_ex(ctx, &values));
	say("ibv_query_gid_ex", ibv_query_gid_ex(ctx, 1, 0, &entry, 0));
	n = ibv_query_gid_table(ctx, table, 256, 0);
	say("ibv_query_gid_table", n < 0 ? (int)-n : 0);
}

static void probe_flows(void)
{
	struct ibv_counters_init_attr counters = {0};
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_rwq_ind_table_init_attr ind = {0};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .port = 1};
	struct ibv_qp *qp = new_qp(IBV_QPT_UD, 0, 0);

	errno = 0;
	say("ibv_create_counters", error_of(ibv_create_counters(ctx, &counters)));
	errno = 0;
	say("ibv_create_wq", error_of(ibv_create_wq(ctx, &wq)));
	errno = 0;
	say("ibv_create_rwq_ind_table", error_of(ibv_create_rwq_ind_table(ctx, &ind)));
	errno = 0;
	say("ibv_create_flow_action_esp", error_of(ibv_create_flow_action_esp(ctx, &esp)));
	errno = 0;
	if (qp)
		say("ibv_create_flow", error_of(ibv_create_flow(qp, &flow)));
	if (qp)
		ibv_destroy_qp(qp);
}

static bool open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (unsigned i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx != NULL;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: verbs-probe DEVICE\n", stderr);
		return 2;
	}
	if (!open_named(argv[1])) {
		fprintf(stderr, "verbs-probe: no RDMA device %s\n", argv[1]);
		return 2;
	}
	pd = ibv_alloc_pd(ctx);
	cq = pd ? ibv_create_cq(ctx, 16, NULL, NULL, 0) : NULL;
	mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!cq || mem == MAP_FAILED) {
		perror("verbs-probe");
		return 1;
	}
	probe_queries();
	probe_memory();
	probe_mw("IBV_MW_TYPE_1", IBV_MW_TYPE_1);
	probe_mw("IBV_MW_TYPE_2", IBV_MW_TYPE_2);
	probe_domains();
	probe_cqs();
	probe_qps();
	probe_flows();
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	return 0;
}
