/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that the kernel gave to the wrong lane (GRO merged packets of two QPs that share a
 * source port), passed to the lane of their slot over a Unix socket, with their source addresses.
 * One message carries a run of equal segments, only the last may be shorter, as GRO merged them.
 *
 * The sockets are found by names that other users may take (forward-name.h). Both ends check by the
 * kernel's credentials that the other one is of the same user before anything is sent or taken.
 * Even so messages are parsed as hostile input.
 *
 * A lane also uses these sockets to offer another one a ring in shared memory (shm-ring.h). The
 * connection of the offer then belongs to the ring: it ends with the other process.
 */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rocemu/wire.h>

#include "engine/forward-name.h"

enum { FORWARD_HDR_LEN = 48 };

struct forward_hdr {
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint16_t seg_len; /* not 0 */
	uint16_t ip_id;	  /* guess for the first segment; the following count on */
	uint8_t tclass, hop_limit;
	uint32_t flow_label;
};

void forward_encode(const struct forward_hdr *h, uint8_t buf[FORWARD_HDR_LEN]);
/** @return 0, or -EBADMSG: not such a message. */
int forward_decode(struct forward_hdr *h, const uint8_t *buf, size_t len);

/** A lane's. Guarded by the lane's lock. */
struct forward;

/**
 * Receive datagrams for a slot. instance: the agent instance that the slot is of: other instances
 * have the same slot numbers.
 * @return 0 or -errno.
 */
int forward_new(struct forward **out, const char *instance, uint16_t slot);
/** NULL is allowed. */
void forward_free(struct forward *f);
/** Close all descriptors: in a forked child. Async-signal-safe. */
void forward_close(struct forward *f);

/** Readable when forward_recv() has something to do. */
int forward_fd(const struct forward *f);

/**
 * No fork() between these: a connection is being made, handed on or closed, and a child that does
 * not find it where it looks would keep it open. Taken last; by a lane's thread, which has no
 * signals, or where a lane ends. Nothing waits meanwhile.
 */
void forward_hold_forks(void);
void forward_let_fork(void);

/**
 * A connection could not be taken, for want of descriptors or memory: until forward_listen() no
 * more are, or forward_fd() would stay readable.
 */
bool forward_is_deaf(const struct forward *f);
/** Take connections again, those that wait too. */
void forward_listen(struct forward *f);

/**
 * Send data[0..len) to the lane of slot. Never waits.
 * @return 0 or -errno; those of a connection: forward_name_connect().
 */
int forward_send(struct forward *f, uint16_t slot, const struct forward_hdr *h, const uint8_t *data,
		 size_t len);

/**
 * Take one message: its header to *h, its data to buf, which has room for size bytes.
 * @return bytes of data (> 0), -EAGAIN: nothing is there, -EBADMSG: another kind of message was
 * handled, or one was discarded: call again.
 */
ssize_t forward_recv(struct forward *f, struct forward_hdr *h, uint8_t *buf, size_t size);

/** A ring for packets of one lane to another. */
struct forward_offer {
	struct rocemu_gid src, dst; /* of all packets */
	uint32_t scope_id;	    /* interface of dst, if that is link-local; else 0 */
	int ring;		    /* descriptor of the memory */
	int conn;		    /* connection that it is offered by */
};

/** Offers are taken from now on. Without this call they are refused. */
void forward_accept_offers(struct forward *f);
/** @return a connection to the lane of slot, owned by the caller; or -errno as forward_send(). */
int forward_connect(struct forward *f, uint16_t slot);
/** Send an offer by o->conn, to a lane that has just been connected to. @return 0 or -errno. */
int forward_offer(const struct forward_offer *o);
/**
 * The offer that the last forward_recv() received, in which case it returned -EBADMSG. The caller
 * owns both descriptors and checks the contents. @return false: there was none.
 */
bool forward_offered(struct forward *f, struct forward_offer *o);

#endif
