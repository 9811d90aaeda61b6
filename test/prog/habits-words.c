/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A second thread looks at a word while messages change it, or changes one that messages carry. As
 * with an adapter, a word is one value or the other and no mixture.
 */
#include <unistd.h>

#include "habits.h"

enum {
	ENOUGH = 200,	 /* values that were seen to change */
	MOST = 20000,	 /* messages of a shape: a busy machine may show no change */
	OTHER = BUF / 2, /* where the other side of the messages is */
};

/* A message, and the word in it. Offsets are those of the side that the thread accesses. */
static const struct shape {
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint32_t at, len, word_at, word;
	bool changes; /* the thread changes the word */
} SHAPES[] = {
	{.opcode = IBV_WR_RDMA_WRITE, .at = 0, .len = 4, .word_at = 0, .word = 4},
	{.opcode = IBV_WR_RDMA_WRITE, .at = 2, .len = 2, .word_at = 2, .word = 2},
	{.opcode = IBV_WR_RDMA_WRITE, .at = 0, .len = 12, .word_at = 0, .word = 8},
	{.opcode = IBV_WR_RDMA_WRITE, .at = 0, .len = 100, .word_at = 96, .word = 4},
	{.opcode = IBV_WR_RDMA_WRITE, .at = 4, .len = 1100, .word_at = 1096, .word = 8},
	{.opcode = IBV_WR_SEND, .at = 4, .len = 4, .word_at = 4, .word = 4},
	{.opcode = IBV_WR_SEND, .at = 1, .len = 40, .word_at = 32, .word = 8},
	{.opcode = IBV_WR_RDMA_READ, .at = 4, .len = 28, .word_at = 24, .word = 8},
	{.opcode = IBV_WR_RDMA_WRITE, .at = 0, .len = 12, .word_at = 0, .word = 8, .changes = true},
	{.opcode = IBV_WR_RDMA_WRITE,
	 .at = 1,
	 .len = 4001,
	 .word_at = 2040,
	 .word = 8,
	 .changes = true},
	{.opcode = IBV_WR_RDMA_READ, .at = 0, .len = 12, .word_at = 0, .word = 8, .changes = true},
	{.opcode = IBV_WR_RDMA_READ,
	 .at = 4,
	 .len = 1000,
	 .word_at = 8,
	 .word = 4,
	 .changes = true},
};

struct watch {
	const struct shape *shape;
	char *word;
	atomic_bool stop;
	atomic_uint changed;
	uint64_t last;
};

static uint64_t ones(const struct watch *w)
{
	return UINT64_MAX >> (64 - 8 * w->shape->word);
}

static uint64_t get(const char *word, uint32_t size)
{
	return size == 8   ? *(const volatile uint64_t *)(const void *)word
	       : size == 4 ? *(const volatile uint32_t *)(const void *)word
			   : *(const volatile uint16_t *)(const void *)word;
}

static void put(char *word, uint32_t size, uint64_t value)
{
	if (size == 8)
		*(volatile uint64_t *)(void *)word = value;
	else if (size == 4)
		*(volatile uint32_t *)(void *)word = (uint32_t)value;
	else
		*(volatile uint16_t *)(void *)word = (uint16_t)value;
}

static void look(struct watch *w, const char *word)
{
	const uint64_t value = get(word, w->shape->word);

	if (value && value != ones(w)) {
		printf("opcode %d, %u bytes at %u: the word of %u at %u was %#jx\n",
		       w->shape->opcode, w->shape->len, w->shape->at, w->shape->word,
		       w->shape->word_at, (uintmax_t)value);
		_exit(1);
	}
	w->changed += value != w->last;
	w->last = value;
}

static void *watch(void *arg)
{
	struct watch *w = arg;

	for (uint64_t n = 0; !w->stop; n++) {
		if (w->shape->changes)
			put(w->word, w->shape->word, n & 1 ? ones(w) : 0);
		else
			look(w, w->word);
	}
	return NULL;
}

/* mine: the bytes that the thread accesses; others: the message's other side. */
static void exchange(struct end *e, const struct shape *s, char *mine, char *others)
{
	const bool reads = s->opcode == IBV_WR_RDMA_READ, mine_is_local = reads != s->changes;
	struct ibv_sge local = {.length = s->len, .lkey = e->mr->lkey}, remote = local;
	struct ibv_recv_wr *bad_recv, recv = {.sg_list = &remote, .num_sge = 1};
	struct ibv_send_wr *bad, wr = {.opcode = s->opcode, .sg_list = &local, .num_sge = 1};

	local.addr = (uintptr_t)(mine_is_local ? mine : others);
	remote.addr = (uintptr_t)(mine_is_local ? others : mine);
	wr.wr.rdma.remote_addr = remote.addr;
	wr.wr.rdma.rkey = e->mr->rkey;
	if (s->opcode == IBV_WR_SEND)
		CHECK(!ibv_post_recv(e->qp, &recv, &bad_recv));
	CHECK(!ibv_post_send(e->qp, &wr, &bad));
	end_wait(e);
	if (s->opcode == IBV_WR_SEND)
		end_wait(e);
}

static unsigned try(struct end *e, const struct shape *s)
{
	struct watch w = {.shape = s, .word = e->buf + s->word_at};
	char *const zeros = e->buf + OTHER, *const full = zeros + OTHER / 2;
	pthread_t thread;

	memset(e->buf, 0, BUF);
	memset(full, 0xff, OTHER / 2);
	CHECK(!pthread_create(&thread, NULL, watch, &w));
	for (unsigned i = 0; i < MOST && w.changed < ENOUGH; i++) {
		/* An odd address: its words are none of the other side's. */
		exchange(e, s, e->buf + s->at, (i & 1 && !s->changes ? full : zeros) + 1);
		if (s->changes)
			look(&w, zeros + 1 + s->word_at - s->at);
	}
	w.stop = true;
	CHECK(!pthread_join(thread, NULL));
	return w.changed;
}

int run_words(void)
{
	unsigned changed = 0;
	struct end e;

	end_open(&e);
	end_connect(&e, &e);
	for (size_t i = 0; i < sizeof(SHAPES) / sizeof(SHAPES[0]); i++)
		changed += try(&e, &SHAPES[i]);
	end_close(&e);
	printf("%u changes\n", changed);
	return changed ? 0 : 1;
}
