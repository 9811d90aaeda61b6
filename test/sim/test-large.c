/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The longest message, 2 GiB - 1 at MTU 4096, without 2 GiB of memory: both regions map the same
 * small file over and over, so that what is written at any offset shows everywhere. Its pattern
 * repeats with the file, so the target must look like the source in the end. What crosses in
 * between is counted, and each packet's PSN and length is checked.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "duo.h"

enum { PIECE = 2 << 20 };
static const size_t AREA = 1ull << 31;

/** AREA bytes of address space over PIECE bytes of memory, and all in the page tables: half a
 * million page faults take a minute on some virtual machines. NULL: this machine does not give it.
 */
static uint8_t *map_repeated(void)
{
	int fd = memfd_create("large", MFD_CLOEXEC);
	uint8_t *base;

	if (fd < 0)
		return NULL;
	base = ftruncate(fd, PIECE) == 0 ? mmap(NULL, AREA, PROT_NONE,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
					 : MAP_FAILED;
	for (size_t off = 0; base != MAP_FAILED && off < AREA; off += PIECE) {
		if (mmap(base + off, PIECE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) != MAP_FAILED)
			continue;
		munmap(base, AREA);
		base = MAP_FAILED;
	}
	close(fd);
	return base == MAP_FAILED ? NULL : base;
}

struct large {
	struct duo d;
	uint8_t *area[2];
	struct rocemu_mr *mr[2];
};

static struct large large_new(const char *name, uint8_t *a, uint8_t *b)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct large l = {.area = {a, b}};

	o.mtu = IBV_MTU_4096;
	o.psn = 0xfffff0;
	o.timeout = 14;
	l.d = duo_new(name, &o);
	for (size_t i = 0; i < PIECE; i++)
		a[i] = (uint8_t)(i >> 12 ^ i);
	memset(b, 0, PIECE);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rocemu_mr_reg(l.d.s->node[i].pd, l.area[i], AREA, 0,
					       SIM_ACCESS_ALL, &l.mr[i]),
				 0);
	return l;
}

static void large_op(const char *name, enum ibv_wr_opcode op)
{
	uint8_t *a = map_repeated(), *b = map_repeated();
	struct sim_wr w = sim_wr(op, IBV_SEND_SIGNALED);
	struct large l;

	if (!a || !b) {
		print_message("no address space of 4 GiB here: not tested\n");
		skip();
	}
	/* READ the other way, so that b is the target always. */
	l = op == IBV_WR_RDMA_READ ? large_new(name, b, a) : large_new(name, a, b);
	if (op == IBV_WR_RDMA_READ) {
		memcpy(a, b, PIECE);
		memset(b, 0, PIECE);
	}
	w.wr.num_sge = 1;
	w.sge[0] = (struct ibv_sge){
		.addr = 0, .length = ROCEMU_MAX_MSG, .lkey = rocemu_mr_lkey(l.mr[0])};
	w.wr.wr.rdma.rkey = rocemu_mr_rkey(l.mr[1]);
	if (op == IBV_WR_SEND) {
		struct ibv_sge sge = {
			.addr = 0, .length = ROCEMU_MAX_MSG, .lkey = rocemu_mr_lkey(l.mr[1])};
		struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
		const struct ibv_recv_wr *bad;

		l.d.b->no_poll = true;
		assert_int_equal(rocemu_qp_post_recv(l.d.b->qp, l.d.s->now, &wr, &bad), 0);
	}
	assert_int_equal(sim_post(l.d.a, &w), 0);
	sim_run(l.d.s);
	assert_string_equal(sim_done(l.d.a), "send OK");
	assert_memory_equal(a, b, PIECE);
	assert_int_equal(duo_stats(&l.d, op != IBV_WR_RDMA_READ)->rx_bytes, ROCEMU_MAX_MSG);
	assert_int_equal(duo_stats(&l.d, 0)->retransmits, 0);
	if (op == IBV_WR_SEND) {
		struct rocemu_cqe c;

		assert_int_equal(rocemu_cq_poll(l.d.b->rcq, &c, 1), 1);
		assert_int_equal(c.byte_len, ROCEMU_MAX_MSG);
	}
	sim_check(l.d.s);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rocemu_mr_dereg(l.mr[i]), 0);
	sim_free(l.d.s);
	munmap(a, AREA);
	munmap(b, AREA);
}

TEST(rc_write, of_2_gib_less_1__arrives)
{
	large_op("large-write", IBV_WR_RDMA_WRITE);
}

TEST(rc_send, of_2_gib_less_1__arrives)
{
	large_op("large-send", IBV_WR_SEND);
}

TEST(rc_read, of_2_gib_less_1__arrives)
{
	large_op("large-read", IBV_WR_RDMA_READ);
}
