/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane with one of each object on it, in a network namespace of the test's own. Everything aborts
 * the test on failure.
 */
#ifndef TEST_ENGINE_NODE_H
#define TEST_ENGINE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lane.h"

/* ThreadSanitizer: no threads in the child of a process with threads, and all takes longer. */
#if defined(__SANITIZE_THREAD__)
#define HAVE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAVE_TSAN 1
#endif
#endif
#ifndef HAVE_TSAN
#define HAVE_TSAN 0
#endif

enum {
	NODE_MEM = 4 << 20,
	NODE_DEPTH = 512,
	NODE_PATIENCE_MS = 120000, /* a guard against hangs: others share the machine */
};

struct node {
	struct lane *lane;
	struct rocemu_gid gid;
	uint8_t tclass; /* of what its QP sends; to be set before node_connect() */
	struct rocemu_pd *pd;
	struct rocemu_mr *mr;
	struct rocemu_cq *cq;
	struct rocemu_qp *qp;
	uint8_t *mem;
	rocemu_ns_t post_time; /* all posts are made at this time; 0: at the time it is */
	int event_fd;	       /* readable: the armed CQ got a completion */
};

/** A lane on a loopback address ("127.0.0.2", "::1"), attached. */
void node_open(struct node *n, const char *address);
/** The same with a UD QP, in RTS; its send requests make no completions. */
void node_open_ud(struct node *n, const char *address, uint32_t qkey);
void node_close(struct node *n);

/** RC QPs of both, connected, ready to send. Both may be the same. */
void node_connect(struct node *a, struct node *b);

/** Post on the caller's thread, as verbs does. Offsets into both memories. */
void node_write(struct node *from, struct node *to, uint32_t offset, uint32_t len, bool signaled);
void node_read(struct node *to, struct node *from, uint32_t offset, uint32_t len);
/** n READs that leave together; a completion for the last. */
void node_read_together(struct node *to, struct node *from, unsigned n, uint32_t len);
void node_send(struct node *from, uint32_t offset, uint32_t len, bool signaled);
void node_recv(struct node *n, uint32_t offset, uint32_t len);

/** Poll until a completion came; it must be a success. Spins as verbs does. */
void node_poll(struct node *n);
/** One look, receiving if there is nothing yet. @return there was a (successful) completion. */
bool node_try(struct node *n);
/**
 * Arm the CQ, notify the lane, and sleep until a completion came, without polling the lane; take
 * it.
 */
void node_wait(struct node *n);

/** Two, connected; and away with both. */
void node_open_pair(struct node *a, struct node *b, const char *addr_a, const char *addr_b);
void node_close_pair(struct node *a, struct node *b);
struct lane_stats node_stats(struct node *n);
/** A message there and one back, both sides' calls on this thread. */
void node_ping_pong(struct node *a, struct node *b, unsigned rounds, uint32_t len);
/** Random bytes at the beginning of its memory. */
void node_fill(struct node *n, uint64_t seed, uint32_t len);
/** One wake-up for nothing is enough: its thread changes between modes as often as it can. */
void node_make_hasty(struct node *n);
/** A condition, looked at with the lane's lock; and waiting for one that the thread brings about.
 */
bool node_holds(bool (*condition)(struct node *n), struct node *n);
void node_until(bool (*condition)(struct node *n), struct node *n);

#endif
