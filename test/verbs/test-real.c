/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real-NIC backend with a fake real library (fake-nic.h), through the drop-in as programs load
 * it: what belongs to the fake devices reaches the fake library, each symbol of it, and errno comes
 * back.
 */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dev.h"
#include "fake-nic.h"
#include "verbs/real-table.h"

/* Not in every version's verbs.h, or in none. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index, void *type);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static struct ibv_device *find_device(struct ibv_device **list, const char *name)
{
	for (unsigned i = 0; list[i]; i++)
		if (!strcmp(list[i]->name, name))
			return list[i];
	return NULL;
}

/** A fake device, opened, with objects of it: they need nothing but their context. */
struct fake {
	struct fake_notes *notes;
	struct ibv_device *device;
	struct ibv_context *ctx;
	struct ibv_comp_channel channel;
	struct ibv_pd pd;
	struct ibv_mr mr;
	struct ibv_cq cq;
	struct ibv_srq srq;
	struct ibv_qp qp;
	struct ibv_ah ah;
	struct ibv_dm dm;
	struct ibv_mw mw;
	struct ibv_xrcd xrcd;
};

static void fake_open(struct fake *f)
{
	struct ibv_device **list;

	dev_namespace();
	memset(f, 0, sizeof(*f));
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	f->device = find_device(list, FAKE_NAME "1");
	assert_non_null(f->device);
	f->notes = fake_notes(f->device);
	f->ctx = ibv_open_device(f->device);
	ibv_free_device_list(list);
	assert_non_null(f->ctx);
	f->channel.context = f->pd.context = f->mr.context = f->cq.context = f->ctx;
	f->srq.context = f->qp.context = f->ah.context = f->dm.context = f->ctx;
	f->mw.context = f->xrcd.context = f->ctx;
}

/** From now on all of the fake library's functions return this, with that errno. */
static void fake_answer(struct fake *f, long answer, int err)
{
	f->notes->answering = 1;
	f->notes->answer = answer;
	f->notes->err = err;
}

static void fake_close(struct fake *f)
{
	f->notes->answering = 0;
	assert_int_equal(ibv_close_device(f->ctx), 0);
	assert_int_equal(f->notes->opened, 0);
}

/* ---- the list ---- */

/* The first of the file: nothing is loaded yet. */
TEST(real_fork, init_before_loading__passed_on)
{
	struct ibv_device **list;
	struct fake_notes *notes;
	int n;

	dev_namespace();
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	assert_int_equal(ibv_fork_init(), 0);
	list = ibv_get_device_list(&n);
	assert_non_null(list);
	notes = fake_notes(list[n - 1]);
	assert_int_equal(notes->fork_inits, 1);
	ibv_free_device_list(list);
}

TEST(real_list, both_kinds__ours_first)
{
	struct ibv_device **a, **b;
	struct fake_notes *notes;
	int n = 0;

	dev_namespace();
	a = ibv_get_device_list(&n);
	assert_non_null(a);
	assert_string_equal(a[0]->name, "rocemu_lo");
	assert_int_equal(n, 1 + FAKE_DEVICES);
	assert_string_equal(a[n - 1]->name, FAKE_NAME "1");
	assert_null(a[n]);
	notes = fake_notes(a[n - 1]);
	assert_int_equal(notes->lists, 1);
	b = ibv_get_device_list(NULL);
	assert_ptr_equal(a[0], b[0]);
	assert_ptr_equal(a[n - 1], b[n - 1]);
	assert_int_equal(notes->lists, 2);
	/* Programs sort their lists. */
	a[0] = b[n - 1];
	a[n - 1] = b[0];
	ibv_free_device_list(a);
	assert_int_equal(notes->lists, 1);
	ibv_free_device_list(b);
	assert_int_equal(notes->lists, 0);
}

TEST(real_list, switched_off__ours_only)
{
	struct ibv_device **list;
	int n;

	dev_namespace();
	setenv("ROCEMU_REAL", "off", 1);
	list = ibv_get_device_list(&n);
	unsetenv("ROCEMU_REAL");
	assert_non_null(list);
	assert_int_equal(n, 1);
	ibv_free_device_list(list);
}

/* ---- every symbol ---- */

enum { WORDS = FAKE_ARGS };

/* How a function's return value compares with the word that the fake library returned. */
enum returns { INT, WORD, NOTHING };

struct call {
	const char *name;
	void (*fn)(void); /* NULL: no object decides whose it is */
	enum returns returns;
	unsigned nargs;
	long args[WORDS];
};

static long call(const struct call *c)
{
	const long *a = c->args;

	/* As in fake-nic.c: words are words. */
	return ((long (*)(long, long, long, long, long, long))c->fn)(a[0], a[1], a[2], a[3], a[4],
								     a[5]);
}

static void expect_forwarded(struct fake *f, const struct call *c, long answer, int err)
{
	const struct fake_notes *notes = f->notes;
	unsigned before = notes->calls;
	long ret;

	fake_answer(f, answer, err);
	errno = E2BIG;
	ret = call(c);
	if (notes->calls != before + 1 || strcmp(notes->last, c->name))
		fail_msg("%s did not reach the real library", c->name);
	for (unsigned i = 0; i < c->nargs; i++)
		if (notes->args[i] != c->args[i])
			fail_msg("%s: argument %u arrived as %lx, not %lx", c->name, i,
				 notes->args[i], c->args[i]);
	if (c->returns == INT ? (int)ret != (int)answer : c->returns == WORD && ret != answer)
		fail_msg("%s returned %lx, not %lx", c->name, ret, answer);
	assert_int_equal(notes->err_seen, E2BIG);
	assert_int_equal(errno, err);
	errno = 0;
}

/* To be called with these words, a real object first. */
/* clang-format off */
#define FORWARDED(name, returns, ...) \
	{#name, (void (*)(void))name, returns, sizeof((const long[]){__VA_ARGS__}) / sizeof(long), {__VA_ARGS__}}
#define FORWARDED_BARE(name) {#name, (void (*)(void))name, INT, 0, {0}}
/* No object shows the library: answered by rocemu, or (tested elsewhere) by both. */
#define NOT_FORWARDED(symbol) {.name = #symbol}
/* clang-format on */

static const struct call *find_call(const struct call *calls, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(calls[i].name, name))
			return &calls[i];
	return NULL;
}

TEST(real_symbols, all_of_the_system_library__forwarded_or_known_not_to_be)
{
	static const char *const names[] = {
#define NAME(name, version, kind) #name,
		REAL_TABLE(NAME)
#undef NAME
	};
	struct ibv_qp_init_attr qp_init = {0};
	struct ibv_async_event event = {.event_type = IBV_EVENT_QP_FATAL};
#ifdef HAVE_IBV_REG_MR_EX
	struct ibv_mr_init_attr mr_init = {.comp_mask = IBV_REG_MR_MASK_ADDR};
#endif
	struct fake f;

	fake_open(&f);
	event.element.qp = &f.qp;
	qp_init.send_cq = qp_init.recv_cq = &f.cq;
	qp_init.srq = &f.srq;
	const long dev = (long)f.device, ctx = (long)f.ctx, pd = (long)&f.pd, mr = (long)&f.mr,
		   cq = (long)&f.cq, srq = (long)&f.srq, qp = (long)&f.qp, ah = (long)&f.ah,
		   dm = (long)&f.dm, channel = (long)&f.channel;
	const struct call calls[] = {
		FORWARDED(_ibv_query_gid_ex, INT, ctx, 1, 2, 3, 4, 5),
		FORWARDED(_ibv_query_gid_table, WORD, ctx, 1, 2, 3, 4),
		FORWARDED(ibv_ack_async_event, NOTHING, (long)&event),
		FORWARDED(ibv_ack_cq_events, NOTHING, cq, 1),
		FORWARDED(ibv_alloc_pd, WORD, ctx),
		FORWARDED(ibv_attach_mcast, INT, qp, 1, 2),
		FORWARDED(ibv_create_ah, WORD, pd, 1),
		FORWARDED(ibv_create_ah_from_wc, WORD, pd, 1, 2, 3),
		FORWARDED(ibv_create_comp_channel, WORD, ctx),
		FORWARDED(ibv_create_cq, WORD, ctx, 1, 2, channel, 4),
		FORWARDED(ibv_create_qp, WORD, pd, (long)&qp_init),
		FORWARDED(ibv_create_srq, WORD, pd, 1),
		FORWARDED(ibv_dealloc_pd, INT, pd),
		FORWARDED(ibv_dereg_mr, INT, mr),
		FORWARDED(ibv_destroy_ah, INT, ah),
		FORWARDED(ibv_destroy_comp_channel, INT, channel),
		FORWARDED(ibv_destroy_cq, INT, cq),
		FORWARDED(ibv_destroy_qp, INT, qp),
		FORWARDED(ibv_destroy_srq, INT, srq),
		FORWARDED(ibv_detach_mcast, INT, qp, 1, 2),
		FORWARDED(ibv_dofork_range, INT, 1, 2),
		FORWARDED(ibv_dontfork_range, INT, 1, 2),
		FORWARDED_BARE(ibv_fork_init),
		FORWARDED(ibv_get_async_event, INT, ctx, 1),
		FORWARDED(ibv_get_cq_event, INT, channel, 1, 2),
		FORWARDED(ibv_get_device_guid, WORD, dev),
		FORWARDED(ibv_get_device_index, INT, dev),
		FORWARDED(ibv_get_device_name, WORD, dev),
		FORWARDED(ibv_get_pkey_index, INT, ctx, 1, 2),
		FORWARDED(ibv_import_dm, WORD, ctx, 1),
		FORWARDED(ibv_import_mr, WORD, pd, 1),
		FORWARDED(ibv_import_pd, WORD, ctx, 1),
		FORWARDED(ibv_init_ah_from_wc, INT, ctx, 1, 2, 3, 4),
		FORWARDED_BARE(ibv_is_fork_initialized),
		FORWARDED(ibv_modify_qp, INT, qp, 1, 2),
		FORWARDED(ibv_modify_srq, INT, srq, 1, 2),
		FORWARDED(ibv_qp_to_qp_ex, WORD, qp),
		FORWARDED(ibv_query_device, INT, ctx, 1),
		FORWARDED(ibv_query_ece, INT, qp, 1),
		FORWARDED(ibv_query_gid, INT, ctx, 1, 2, 3),
		FORWARDED(ibv_query_gid_type, INT, ctx, 1, 2, 3),
		FORWARDED(ibv_query_pkey, INT, ctx, 1, 2, 3),
		FORWARDED(ibv_query_port, INT, ctx, 1, 2),
		FORWARDED(ibv_query_qp, INT, qp, 1, 2, 3),
		FORWARDED(ibv_query_qp_data_in_order, INT, qp, 1, 2),
		FORWARDED(ibv_query_srq, INT, srq, 1),
		FORWARDED(ibv_reg_dmabuf_mr, WORD, pd, 1, 2, 3, 4, 5),
		FORWARDED(ibv_reg_mr, WORD, pd, 1, 2, 3),
		FORWARDED(ibv_reg_mr_iova, WORD, pd, 1, 2, 3, 4),
		FORWARDED(ibv_reg_mr_iova2, WORD, pd, 1, 2, 3, 4),
		FORWARDED(ibv_rereg_mr, INT, mr, 1, 0, 3, 4, 5),
		FORWARDED(ibv_resize_cq, INT, cq, 1),
		FORWARDED(ibv_resolve_eth_l2_from_gid, INT, ctx, 1, 2, 3),
		FORWARDED(ibv_set_ece, INT, qp, 1),
		FORWARDED(ibv_unimport_dm, NOTHING, dm),
		FORWARDED(ibv_unimport_mr, NOTHING, mr),
		FORWARDED(ibv_unimport_pd, NOTHING, pd),
		/* Tests of their own. */
		NOT_FORWARDED(ibv_close_device),
		NOT_FORWARDED(ibv_free_device_list),
		NOT_FORWARDED(ibv_get_device_list),
		NOT_FORWARDED(ibv_import_device),
		NOT_FORWARDED(ibv_open_device),
#ifdef HAVE_IBV_QUERY_PORT_SPEED
		FORWARDED(ibv_query_port_speed, INT, ctx, 1, 2),
#endif
#ifdef HAVE_IBV_REG_MR_EX
		FORWARDED(ibv_reg_mr_ex, WORD, pd, (long)&mr_init),
#endif
		/* They have no object. */
		NOT_FORWARDED(ibv_copy_ah_attr_from_kern),
		NOT_FORWARDED(ibv_copy_path_rec_from_kern),
		NOT_FORWARDED(ibv_copy_path_rec_to_kern),
		NOT_FORWARDED(ibv_copy_qp_attr_from_kern),
		NOT_FORWARDED(ibv_event_type_str),
		NOT_FORWARDED(ibv_get_sysfs_path),
		NOT_FORWARDED(ibv_node_type_str),
		NOT_FORWARDED(ibv_port_state_str),
		NOT_FORWARDED(ibv_rate_to_mbps),
		NOT_FORWARDED(ibv_rate_to_mult),
		NOT_FORWARDED(ibv_read_sysfs_file),
		NOT_FORWARDED(ibv_wc_status_str),
		NOT_FORWARDED(ibv_wr_opcode_str),
		NOT_FORWARDED(mbps_to_ibv_rate),
		NOT_FORWARDED(mult_to_ibv_rate),
		/* Memory of the process for any device. */
		NOT_FORWARDED(ibv_alloc_buf),
		NOT_FORWARDED(ibv_export_buf_dmabuf_fd),
		NOT_FORWARDED(ibv_free_buf),
		NOT_FORWARDED(ibv_reg_buf_mr),
		/* Newer than what the drop-in forwards: refused. */
		NOT_FORWARDED(_ibv_query_comp_cntr_caps),
		NOT_FORWARDED(ibv_alloc_dmah),
		NOT_FORWARDED(ibv_create_comp_cntr),
		NOT_FORWARDED(ibv_dealloc_dmah),
		NOT_FORWARDED(ibv_destroy_comp_cntr),
		NOT_FORWARDED(ibv_dm_export_dmabuf_fd),
		NOT_FORWARDED(ibv_inc_comp_cntr),
		NOT_FORWARDED(ibv_inc_err_comp_cntr),
		NOT_FORWARDED(ibv_qp_attach_comp_cntr),
		NOT_FORWARDED(ibv_read_comp_cntr),
		NOT_FORWARDED(ibv_read_err_comp_cntr),
		NOT_FORWARDED(ibv_set_comp_cntr),
		NOT_FORWARDED(ibv_set_err_comp_cntr),
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct call *c = find_call(calls, sizeof(calls) / sizeof(calls[0]), names[i]);

		if (!c)
			fail_msg("%s: decide whether it is forwarded to the real library, and "
				 "list it here",
				 names[i]);
		if (!c->fn)
			continue;
		expect_forwarded(&f, c, 0x7ead0b1e7, ENOTTY);
		expect_forwarded(&f, c, 0, EOWNERDEAD);
	}
	fake_close(&f);
}

TEST(real_import, device__by_the_real_library)
{
	struct fake f;

	fake_open(&f);
	fake_answer(&f, 0, EBADF);
	assert_null(ibv_import_device(77));
	assert_int_equal(errno, EBADF);
	assert_string_equal(f.notes->last, "ibv_import_device");
	assert_int_equal(f.notes->args[0], 77);
	fake_close(&f);
}

TEST(real_import, device_of_ours__eopnotsupp)
{
	struct fake f;
	struct dev d;

	dev_open(&d);
	fake_open(&f);
	assert_true(d.ctx->cmd_fd >= 0);
	assert_null(ibv_import_device(d.ctx->cmd_fd));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_string_not_equal(f.notes->last, "ibv_import_device");
	fake_close(&f);
	dev_close(&d);
}

/* ---- inline functions of verbs.h ---- */

/** The op of that name was called last, and its errno was copied. */
static void expect_op(struct fake *f, const char *op, const void *ret)
{
	assert_null(ret);
	assert_int_equal(errno, EDOM);
	assert_string_equal(f->notes->last, op);
	errno = 0;
}

TEST(real_inline, failed__errno_of_the_real_library)
{
	struct ibv_qp_init_attr_ex qp = {.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS};
	struct ibv_srq_init_attr_ex srq = {.comp_mask = IBV_SRQ_INIT_ATTR_XRCD};
	struct ibv_parent_domain_init_attr domain = {0};
	struct ibv_rwq_ind_table_init_attr table = {0};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_qp_open_attr open = {0};
	struct ibv_cq_init_attr_ex cq = {0};
	struct ibv_xrcd_init_attr xrcd = {0};
	struct ibv_td_init_attr td = {0};
	struct ibv_wq_init_attr wq = {0};
	struct ibv_alloc_dm_attr dm = {0};
	struct ibv_flow_attr flow = {0};
	struct fake f;

	fake_open(&f);
	fake_answer(&f, 0, EDOM);
	expect_op(&f, "create_qp_ex", ibv_create_qp_ex(f.ctx, &qp));
	expect_op(&f, "open_qp", ibv_open_qp(f.ctx, &open));
	expect_op(&f, "create_cq_ex", ibv_create_cq_ex(f.ctx, &cq));
	expect_op(&f, "create_srq_ex", ibv_create_srq_ex(f.ctx, &srq));
	expect_op(&f, "create_wq", ibv_create_wq(f.ctx, &wq));
	expect_op(&f, "alloc_parent_domain", ibv_alloc_parent_domain(f.ctx, &domain));
	expect_op(&f, "open_xrcd", ibv_open_xrcd(f.ctx, &xrcd));
	expect_op(&f, "alloc_td", ibv_alloc_td(f.ctx, &td));
	expect_op(&f, "alloc_dm", ibv_alloc_dm(f.ctx, &dm));
	expect_op(&f, "create_counters", ibv_create_counters(f.ctx, &counters));
	expect_op(&f, "create_flow_action_esp", ibv_create_flow_action_esp(f.ctx, &esp));
	expect_op(&f, "create_rwq_ind_table", ibv_create_rwq_ind_table(f.ctx, &table));
	expect_op(&f, "alloc_null_mr", ibv_alloc_null_mr(&f.pd));
	expect_op(&f, "reg_dm_mr", ibv_reg_dm_mr(&f.pd, &f.dm, 0, 1, 0));
	expect_op(&f, "ibv_create_flow", ibv_create_flow(&f.qp, &flow));
	expect_op(&f, "alloc_mw", ibv_alloc_mw(&f.pd, IBV_MW_TYPE_2));
	assert_int_equal(f.notes->args[1], IBV_MW_TYPE_2);
	fake_close(&f);
}

/* ---- both kinds in one process ---- */

/** Nothing reached the fake library since, and it was EINVAL. */
#define EXPECT_MIXED(expression)                           \
	do {                                               \
		unsigned before_ = f.notes->calls;         \
                                                           \
		errno = 0;                                 \
		assert_null(expression);                   \
		assert_int_equal(errno, EINVAL);           \
		assert_int_equal(f.notes->calls, before_); \
	} while (0)

TEST(mixed_objects, real_first__einval)
{
	struct ibv_qp_init_attr_ex qp = {.qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr plain = {.qp_type = IBV_QPT_RC};
	struct ibv_parent_domain_init_attr domain = {0};
	struct ibv_srq_init_attr_ex srq = {0};
	struct ibv_cq_init_attr_ex cq = {0};
	struct ibv_wq_init_attr wq = {0};
	struct ibv_mw_bind bind = {0};
	struct fake f;
	struct dev d;

	dev_open(&d);
	fake_open(&f);
	plain.send_cq = plain.recv_cq = d.cq;
	EXPECT_MIXED(ibv_create_qp(&f.pd, &plain));
	plain.send_cq = &f.cq;
	EXPECT_MIXED(ibv_create_qp(&f.pd, &plain));
	EXPECT_MIXED(ibv_create_cq(f.ctx, 1, NULL, d.channel, 0));
	assert_int_equal(ibv_rereg_mr(&f.mr, IBV_REREG_MR_CHANGE_PD, d.pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);

	qp.send_cq = qp.recv_cq = &f.cq;
	qp.pd = d.pd;
	qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	EXPECT_MIXED(ibv_create_qp_ex(f.ctx, &qp));
	cq.channel = d.channel;
	EXPECT_MIXED(ibv_create_cq_ex(f.ctx, &cq));
	srq.comp_mask = IBV_SRQ_INIT_ATTR_CQ;
	srq.cq = d.cq;
	EXPECT_MIXED(ibv_create_srq_ex(f.ctx, &srq));
	wq.pd = &f.pd;
	wq.cq = d.cq;
	EXPECT_MIXED(ibv_create_wq(f.ctx, &wq));
	domain.pd = d.pd;
	EXPECT_MIXED(ibv_alloc_parent_domain(f.ctx, &domain));
	bind.bind_info.mr = d.mr;
	bind.bind_info.length = 1;
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	f.mw.type = IBV_MW_TYPE_1;
	f.mw.pd = d.pd; /* verbs.h looks at no more than this */
	assert_int_equal(ibv_bind_mw(&f.qp, &f.mw, &bind), EINVAL);
	fake_close(&f);
	dev_close(&d);
}

TEST(mixed_objects, ours_first__einval)
{
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_qp *ud;
	struct fake f;
	struct dev d;

	dev_open(&d);
	fake_open(&f);
	qp.send_cq = d.cq;
	qp.recv_cq = &f.cq;
	EXPECT_MIXED(ibv_create_qp(d.pd, &qp));
	qp.recv_cq = d.cq;
	qp.srq = &f.srq;
	EXPECT_MIXED(ibv_create_qp(d.pd, &qp));
	EXPECT_MIXED(ibv_create_cq(d.ctx, 1, NULL, &f.channel, 0));
	assert_int_equal(ibv_rereg_mr(d.mr, IBV_REREG_MR_CHANGE_PD, &f.pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	ud = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(ud, NULL);
	wr.wr.ud.ah = &f.ah;
	assert_int_equal(ibv_post_send(ud, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_destroy_qp(ud), 0);
	fake_close(&f);
	dev_close(&d);
}

TEST(both_kinds, open_together__ours_work_as_alone)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 7,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;
	struct ibv_qp *a, *b;
	struct ibv_wc wc;
	struct fake f;
	struct dev d;

	dev_open(&d);
	fake_open(&f);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	dev_post_recv(&d, b, 1, 1024, 64);
	sge = dev_sge(&d, 0, 64);
	assert_int_equal(ibv_post_send(a, &wr, &bad), 0);
	for (unsigned i = 0; i < 2; i++) {
		wc = dev_poll(d.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	fake_answer(&f, 3, 0);
	assert_int_equal(ibv_poll_cq(&f.cq, 1, &wc), 3);
	assert_string_equal(f.notes->last, "poll_cq");
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	fake_close(&f);
	dev_close(&d);
}
