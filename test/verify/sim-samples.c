/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes captures of operations that no installed program uses, made by two endpoints in virtual
 * time: the same bytes at each run. For pcap-samples/regenerate.py.
 *
 *	sim-samples DIRECTORY
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/op.h"
#include "../sim/sim-capture.h"
#include "base/util.h"

enum { MEM = 16384, GRH = 40 };

static const char *directory;

static struct sim *new_sim(const char *name, bool ipv6)
{
	struct sim_config cfg = {
		.name = name, .seed = 1, .ipv6 = ipv6, .link = {.delay_ns = 5 * SIM_US}};

	return sim_new(&cfg);
}

/* Write what has passed, then check that the run was right. */
static void end(struct sim *s)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.pcap", directory, s->cfg.name);
	if (sim_capture_to(s, path) != 0)
		exit(1);
	sim_end(s);
}

/* ---- operations ---- */

static void operation(const char *name, bool ipv6, enum ibv_qp_type type, const struct op *ops,
		      size_t n)
{
	struct sim *s = new_sim(name, ipv6);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_pair p;
	struct op_way w;

	o.type = type;
	p = sim_connect(s, 0, 1, &o);
	op_way_init(&w, p.a, p.b, MEM);
	for (size_t i = 0; i < n; i++)
		sim_assert(s, op_post(&w, &ops[i]));
	op_post_recvs(&w, n);
	sim_run(s);
	op_way_fini(&w);
	end(s);
}

#define O(kind, len)                                 \
	{                                            \
		OP_##kind, len, 1, IBV_SEND_SIGNALED \
	}
static const struct op send_imm[] = {O(SEND_IMM, 0), O(SEND_IMM, 16), O(SEND_IMM, 700)};
static const struct op write_imm[] = {O(WRITE_IMM, 0), O(WRITE_IMM, 100), O(WRITE_IMM, 700)};
static const struct op sends[] = {O(SEND, 5), O(SEND, 700)};
static const struct op writes[] = {O(WRITE, 13), O(WRITE, 700)};
static const struct op reads[] = {O(READ, 10), O(READ, 700)};
static const struct op atomics[] = {O(CAS, 0), O(FAA, 0)};
static const struct op atomic_writes[] = {O(ATOMIC_WRITE, 0), O(ATOMIC_WRITE, 0)};
static const struct op flushes[] = {O(WRITE, 700), O(FLUSH, 700), O(FLUSH, 0)};

/* clang-format off */
static const struct {
	const char *name;
	bool ipv6;
	enum ibv_qp_type type;
	const struct op *ops;
	size_t n;
} operations[] = {
	{"rc_send_imm_ipv4",     false, IBV_QPT_RC,       send_imm,      ARRAY_LEN(send_imm)},
	{"rc_send_imm_ipv6",     true,  IBV_QPT_RC,       send_imm,      ARRAY_LEN(send_imm)},
	{"rc_write_imm_ipv4",    false, IBV_QPT_RC,       write_imm,     ARRAY_LEN(write_imm)},
	{"rc_write_imm_ipv6",    true,  IBV_QPT_RC,       write_imm,     ARRAY_LEN(write_imm)},
	{"rc_atomic_write_ipv4", false, IBV_QPT_RC,       atomic_writes, ARRAY_LEN(atomic_writes)},
	{"rc_atomic_write_ipv6", true,  IBV_QPT_RC,       atomic_writes, ARRAY_LEN(atomic_writes)},
	{"rc_flush_ipv4",        false, IBV_QPT_RC,       flushes,       ARRAY_LEN(flushes)},
	{"rc_flush_ipv6",        true,  IBV_QPT_RC,       flushes,       ARRAY_LEN(flushes)},
	{"xrc_send_ipv4",        false, IBV_QPT_XRC_SEND, sends,         ARRAY_LEN(sends)},
	{"xrc_send_imm_ipv6",    true,  IBV_QPT_XRC_SEND, send_imm,      ARRAY_LEN(send_imm)},
	{"xrc_write_ipv4",       false, IBV_QPT_XRC_SEND, writes,        ARRAY_LEN(writes)},
	{"xrc_write_imm_ipv6",   true,  IBV_QPT_XRC_SEND, write_imm,     ARRAY_LEN(write_imm)},
	{"xrc_read_ipv4",        false, IBV_QPT_XRC_SEND, reads,         ARRAY_LEN(reads)},
	{"xrc_read_ipv6",        true,  IBV_QPT_XRC_SEND, reads,         ARRAY_LEN(reads)},
	{"xrc_atomic_ipv4",      false, IBV_QPT_XRC_SEND, atomics,       ARRAY_LEN(atomics)},
	{"xrc_atomic_write_ipv6", true, IBV_QPT_XRC_SEND, atomic_writes, ARRAY_LEN(atomic_writes)},
	{"xrc_flush_ipv4",       false, IBV_QPT_XRC_SEND, flushes,       ARRAY_LEN(flushes)},
};
/* clang-format on */

/* ---- memory windows, SEND with invalidate ---- */

static void post_bind(struct sim_qp *q, struct rocemu_mw *mw, struct sim_mem *part)
{
	struct sim_wr w = sim_wr(IBV_WR_BIND_MW, IBV_SEND_SIGNALED);
	struct ibv_mw window = {.rkey = rocemu_mw_rkey(mw)};
	struct ibv_mr mr = {.lkey = rocemu_mr_lkey(part->mr)};

	w.wr.bind_mw.mw = &window;
	w.wr.bind_mw.rkey = window.rkey;
	w.wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){&mr, part->iova, MEM / 2, IBV_ACCESS_REMOTE_WRITE};
	sim_assert(q->sim, sim_post(q, &w) == 0);
}

static void window_write(struct sim_qp *q, struct sim_mem *m, struct sim_mem *part, uint32_t key)
{
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);

	sim_wr_local(&w, m, 0, 300);
	sim_wr_remote(&w, part, 0);
	w.wr.wr.rdma.rkey = key;
	sim_assert(q->sim, sim_post(q, &w) == 0);
}

/* A WRITE through a window, a SEND that takes it away; after it, where wanted, a WRITE too much. */
static void windows(const char *name, bool ipv6, bool too_much)
{
	struct sim *s = new_sim(name, ipv6);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_pair p = sim_connect(s, 0, 1, &o);
	struct sim_mem *ma = sim_mem_new(s, 0, MEM, SIM_ACCESS_ALL);
	struct sim_mem *mb = sim_mem_new(s, 1, MEM, SIM_ACCESS_ALL);
	struct sim_mem *part = sim_mem_new(s, 1, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct sim_wr w = sim_wr(IBV_WR_SEND_WITH_INV, IBV_SEND_SIGNALED);
	struct rocemu_mw *mw;
	uint32_t key;

	sim_assert(s, rocemu_mw_new(p.b->node->pd, IBV_MW_TYPE_2, &mw) == 0);
	post_bind(p.b, mw, part);
	sim_run(s);
	key = rocemu_mw_rkey(mw);
	window_write(p.a, ma, part, key);
	sim_want_copy(part, 0, ma, 0, 300);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t len = i == 0 ? 100 : 600;

		sim_recv(p.b, mb, i * 1024, len);
		sim_want_copy(mb, i * 1024, ma, 0, len);
		sim_run(s);
		w = sim_wr(IBV_WR_SEND_WITH_INV, IBV_SEND_SIGNALED);
		if (i == 0)
			w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);
		sim_wr_local(&w, ma, 0, len);
		if (i == 1)
			w.wr.invalidate_rkey = key;
		sim_assert(s, sim_post(p.a, &w) == 0);
	}
	sim_run(s);
	if (too_much) {
		window_write(p.a, ma, part, key);
		sim_run(s);
	}
	s->allowed_drops |= 1ull << ROCEMU_DROP_ACCESS | 1ull << ROCEMU_DROP_STATE;
	rocemu_mw_free(mw);
	end(s);
}

/* ---- receivers that are not ready ---- */

static void rnr(const char *name, bool ipv6)
{
	struct sim *s = new_sim(name, ipv6);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_mem *ma, *mb;
	struct sim_pair p;

	o.min_rnr_timer = 12; /* 0.64 ms */
	p = sim_connect(s, 0, 1, &o);
	ma = sim_mem_new(s, 0, MEM, SIM_ACCESS_ALL);
	mb = sim_mem_new(s, 1, MEM, SIM_ACCESS_ALL);
	sim_send(p.a, ma, 0, 300);
	sim_run_for(s, 100 * SIM_US);
	sim_recv(p.b, mb, 0, 300);
	sim_want_copy(mb, 0, ma, 0, 300);
	sim_run(s);
	s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV | 1ull << ROCEMU_DROP_PSN;
	end(s);
}

/* ---- datagrams ---- */

static void datagrams(const char *name, bool ipv6, bool group)
{
	struct rocemu_gid to = {{[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct sim *s = new_sim(name, ipv6);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct rocemu_path path;
	struct sim_mem *ma, *mb;
	struct sim_pair p;

	if (ipv6)
		to = (struct rocemu_gid){{0xff, 0x15, [15] = 9}};
	memcpy(ah.grh.dgid.raw, to.raw, sizeof(to.raw));
	o.type = IBV_QPT_UD;
	p = sim_connect(s, 0, 1, &o);
	ma = sim_mem_new(s, 0, MEM, SIM_ACCESS_ALL);
	mb = sim_mem_new(s, 1, MEM, SIM_ACCESS_ALL);
	sim_assert(s, rocemu_path_resolve(s->node[0].ep, &ah, &path) == 0);
	if (group)
		sim_assert(s, rocemu_qp_attach_mcast(p.b->qp, &to) == 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct sim_wr w =
			sim_wr(i == 1 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED);
		uint32_t len = 1 + 100 * i;

		sim_recv(p.b, mb, i * 1024, GRH + len);
		sim_want_any(mb, i * 1024, GRH);
		sim_want_copy(mb, i * 1024 + GRH, ma, 0, len);
		sim_wr_local(&w, ma, 0, len);
		w.wr.imm_data = 0x44332211;
		if (group) {
			w.ud_path = &path;
			w.wr.wr.ud.remote_qpn = ROCEMU_MCAST_QPN;
		}
		sim_assert(s, sim_post(p.a, &w) == 0);
	}
	sim_run(s);
	sim_want_any(mb, 0, GRH);
	for (uint32_t i = 0; i < 3; i++)
		sim_want_any(mb, i * 1024, GRH);
	if (group)
		sim_assert(s, rocemu_qp_detach_mcast(p.b->qp, &to) == 0);
	end(s);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: sim-samples DIRECTORY\n", stderr);
		return 2;
	}
	directory = argv[1];
	for (size_t i = 0; i < ARRAY_LEN(operations); i++)
		operation(operations[i].name, operations[i].ipv6, operations[i].type,
			  operations[i].ops, operations[i].n);
	windows("rc_send_inv_ipv4", false, false);
	windows("rc_send_inv_ipv6", true, false);
	windows("rc_window_gone_ipv4", false, true);
	rnr("rc_rnr_ipv6", true);
	datagrams("ud_send_imm_ipv4", false, false);
	datagrams("ud_send_imm_ipv6", true, false);
	datagrams("ud_multicast_ipv4", false, true);
	datagrams("ud_multicast_ipv6", true, true);
	return 0;
}
