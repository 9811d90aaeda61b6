/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct verbs on an emulated device, with the system's own provider libraries beside the drop-in,
 * as in a program linked with -lmlx5 or -lefa: the device is not theirs, and each call returns an
 * error instead of following pointers of its own driver. DIRECT_DIR is the directory of the
 * system's libraries.
 */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "dev.h"

/* What a call is given; a number above these is itself, less NUMBER. */
enum arg { NONE, DEVICE, CTX, PD, CQ, SRQ, QP, AH, DM, BLOB, BLOB_SIZE, NUMBER };

enum answer {
	ERROR,	/* an int that is not 0 */
	NO_OBJ, /* NULL, and errno */
	FALSE,
};

struct call {
	const char *name;
	enum answer answer;
	int args[6];
};

/*
 * Attributes are all zeros, whatever the structure. mlx5dv_dr_domain_create() is left out: it makes
 * an empty domain for any device, and later calls are refused.
 */
static const struct call mlx5_calls[] = {
	{"mlx5dv_is_supported", FALSE, {DEVICE}},
	{"mlx5dv_open_device", NO_OBJ, {DEVICE, BLOB}},
	{"mlx5dv_query_device", ERROR, {CTX, BLOB}},
	{"_mlx5dv_query_port", ERROR, {CTX, NUMBER + 1, BLOB, BLOB_SIZE}},
	{"mlx5dv_set_context_attr", ERROR, {CTX, NUMBER + 1, BLOB}},
	{"mlx5dv_get_clock_info", ERROR, {CTX, BLOB}},
	{"mlx5dv_create_cq", NO_OBJ, {CTX, BLOB, BLOB}},
	{"mlx5dv_create_qp", NO_OBJ, {CTX, BLOB, BLOB}},
	{"mlx5dv_create_wq", NO_OBJ, {CTX, BLOB, BLOB}},
	{"mlx5dv_alloc_dm", NO_OBJ, {CTX, BLOB, BLOB}},
	{"mlx5dv_dm_map_op_addr", NO_OBJ, {DM, NUMBER + 0}},
	{"mlx5dv_map_ah_to_qp", ERROR, {AH, NUMBER + 1}},
	{"mlx5dv_query_qp_lag_port", ERROR, {QP, BLOB, BLOB}},
	{"mlx5dv_modify_qp_lag_port", ERROR, {QP, NUMBER + 1}},
	{"mlx5dv_modify_qp_udp_sport", ERROR, {QP, NUMBER + 0xc000}},
	{"mlx5dv_modify_qp_sched_elem", ERROR, {QP, BLOB, BLOB}},
	{"mlx5dv_dci_stream_id_reset", ERROR, {QP, NUMBER + 1}},
	{"mlx5dv_sched_node_create", NO_OBJ, {CTX, BLOB}},
	{"mlx5dv_sched_leaf_create", NO_OBJ, {CTX, BLOB}},
	{"mlx5dv_reserved_qpn_alloc", ERROR, {CTX, BLOB}},
	{"mlx5dv_reserved_qpn_dealloc", ERROR, {CTX, NUMBER + 1}},
	{"mlx5dv_create_flow_matcher", NO_OBJ, {CTX, BLOB}},
	{"mlx5dv_create_steering_anchor", NO_OBJ, {CTX, BLOB}},
	{"mlx5dv_create_flow_action_esp", NO_OBJ, {CTX, BLOB, BLOB}},
	{"mlx5dv_create_flow_action_modify_header", NO_OBJ, {CTX, NUMBER + 8, BLOB, NUMBER + 0}},
	{"mlx5dv_create_flow_action_packet_reformat",
	 NO_OBJ,
	 {CTX, NUMBER + 8, BLOB, NUMBER + 0, NUMBER + 0}},
	{"mlx5dv_dr_action_create_dest_ibv_qp", NO_OBJ, {QP}},
	{"mlx5dv_pp_alloc", NO_OBJ, {CTX, NUMBER + 8, BLOB, NUMBER + 0}},
	{"mlx5dv_alloc_var", NO_OBJ, {CTX, NUMBER + 0}},
	{"mlx5dv_crypto_login", ERROR, {CTX, BLOB}},
	{"mlx5dv_crypto_login_query_state", ERROR, {CTX, BLOB}},
	{"mlx5dv_crypto_logout", ERROR, {CTX}},
	{"mlx5dv_crypto_login_create", NO_OBJ, {CTX, BLOB}},
	{"mlx5dv_dek_create", NO_OBJ, {CTX, BLOB}},
	{"mlx5dv_vfio_get_events_fd", ERROR, {CTX}},
	{"mlx5dv_devx_general_cmd", ERROR, {CTX, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_obj_create", NO_OBJ, {CTX, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_umem_reg", NO_OBJ, {CTX, BLOB, NUMBER + 64, NUMBER + 0}},
	{"mlx5dv_devx_umem_reg_ex", NO_OBJ, {CTX, BLOB}},
	{"mlx5dv_devx_alloc_uar", NO_OBJ, {CTX, NUMBER + 0}},
	{"mlx5dv_devx_query_eqn", ERROR, {CTX, NUMBER + 0, BLOB}},
	{"mlx5dv_devx_cq_query", ERROR, {CQ, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_cq_modify", ERROR, {CQ, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_qp_query", ERROR, {QP, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_qp_modify", ERROR, {QP, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_srq_query", ERROR, {SRQ, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_srq_modify", ERROR, {SRQ, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
	{"mlx5dv_devx_create_cmd_comp", NO_OBJ, {CTX}},
	{"mlx5dv_devx_create_event_channel", NO_OBJ, {CTX, NUMBER + 0}},
	{"mlx5dv_devx_alloc_msi_vector", NO_OBJ, {CTX}},
	{"mlx5dv_devx_create_eq", NO_OBJ, {CTX, BLOB, NUMBER + 16, BLOB, NUMBER + 16}},
};

static const struct call efa_calls[] = {
	{"efadv_query_device", ERROR, {CTX, BLOB, BLOB_SIZE}},
	{"efadv_query_ah", ERROR, {AH, BLOB, BLOB_SIZE}},
	{"efadv_create_driver_qp", NO_OBJ, {PD, BLOB, NUMBER + 0}},
	{"efadv_create_qp_ex", NO_OBJ, {CTX, BLOB, BLOB, BLOB_SIZE}},
	{"efadv_create_cq", NO_OBJ, {CTX, BLOB, BLOB, BLOB_SIZE}},
};

struct bench {
	struct dev d;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_dm *dm;
	uint8_t blob[512];
};

static void setup(struct bench *t)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_alloc_dm_attr dm = {.length = 4096};

	memset(t->blob, 0, sizeof(t->blob));
	dev_open(&t->d);
	t->qp = dev_qp(&t->d, IBV_QPT_UD, 0);
	dev_connect(t->qp, NULL);
	t->srq = ibv_create_srq(t->d.pd, &srq);
	assert_non_null(t->srq);
	t->ah = dev_self_ah(&t->d);
	t->dm = ibv_alloc_dm(t->d.ctx, &dm);
	assert_non_null(t->dm);
}

static void teardown(struct bench *t)
{
	assert_int_equal(ibv_free_dm(t->dm), 0);
	assert_int_equal(ibv_destroy_ah(t->ah), 0);
	assert_int_equal(ibv_destroy_srq(t->srq), 0);
	assert_int_equal(ibv_destroy_qp(t->qp), 0);
	dev_close(&t->d);
}

static void *library(const char *name)
{
	char path[4096];
	void *lib;

	snprintf(path, sizeof(path), "%s/%s", DIRECT_DIR, name);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		print_message("%s\n", dlerror());
		skip(); /* not every system has every provider */
	}
	return lib;
}

static long value(struct bench *t, int arg)
{
	switch (arg) {
	case NONE:
		return 0;
	case DEVICE:
		return (long)t->d.ctx->device;
	case CTX:
		return (long)t->d.ctx;
	case PD:
		return (long)t->d.pd;
	case CQ:
		return (long)t->d.cq;
	case SRQ:
		return (long)t->srq;
	case QP:
		return (long)t->qp;
	case AH:
		return (long)t->ah;
	case DM:
		return (long)t->dm;
	case BLOB:
		memset(t->blob, 0, sizeof(t->blob));
		return (long)t->blob;
	case BLOB_SIZE:
		return sizeof(t->blob);
	default:
		return arg - NUMBER;
	}
}

/* @return whether the library has it. */
static bool expect_refused(struct bench *t, void *lib, const struct call *c)
{
	typedef long any(long, long, long, long, long, long);
	void *symbol = dlsym(lib, c->name);
	any *fn;
	long a[6], ret;

	if (!symbol)
		return false;
	memcpy(&fn, &symbol, sizeof(fn));
	for (unsigned i = 0; i < 6; i++)
		a[i] = value(t, c->args[i]);
	errno = 0;
	ret = fn(a[0], a[1], a[2], a[3], a[4], a[5]);
	if (c->answer == FALSE	  ? (ret & 0xff) != 0
	    : c->answer == NO_OBJ ? ret || !errno
				  : (int)ret == 0)
		fail_msg("%s: %ld, errno %d", c->name, ret, errno);
	return true;
}

/* All of them, then the device still works. */
static void expect_all_refused(const char *name, const struct call *calls, unsigned n)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	unsigned found = 0;
	struct bench t;
	void *lib;

	setup(&t);
	lib = library(name);
	for (unsigned i = 0; i < n; i++)
		found += expect_refused(&t, lib, &calls[i]);
	assert_true(found >= 3);
	assert_int_equal(ibv_query_qp(t.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	teardown(&t);
}

TEST(direct_verbs, mlx5__not_supported_and_all_refused)
{
	expect_all_refused("libmlx5.so.1", mlx5_calls, sizeof(mlx5_calls) / sizeof(mlx5_calls[0]));
}

TEST(direct_verbs, efa__all_refused)
{
	expect_all_refused("libefa.so.1", efa_calls, sizeof(efa_calls) / sizeof(efa_calls[0]));
}
