/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The internals of a lane, for the files lane*.c only.
 *
 * From the top; a file calls only those below it, and lane-lock.c:
 *
 *   lane.c           life: new, attach, free, fork; the device's changes
 *   lane-thread.c    the lane's own thread and its loop
 *   lane-sock.c      which receive sockets there are
 *   lane-shm.c       rings in shared memory: offered, attached, ended
 *   lane-progress.c  kick and poll: what is driven when, on whose thread
 *   lane-output.c    sends the endpoint's output: within credits, ECN marked, with faults
 *   lane-rx.c        sockets to endpoint
 *   lane-shm-rx.c    rings in shared memory to endpoint
 *   lane-input.c     a datagram that came in: captured, counted, to the endpoint
 *   lane-impair.c    the faults on the way out and in
 *   lane-held.c      the packets that they hold back
 *   lane-note.c      their effects: counts and log
 *   lane-tx.c        packets to sockets, in bursts
 *   lane-backlog.c   packets that a socket had no room for
 *   lane-send.c      which socket a path takes; one packet to it
 *   lane-path.c      which interface a path takes
 *   lane-shm-tx.c    packets to rings in shared memory
 *   lane-stat.c      its answer to `rocemu stat`
 *   lane-wake.c      the clock; setting the thread's timer, requests to the thread
 *   lane-count.c     the row of the device's file of counters
 *   lane-lock.c      the lock, joined lanes
 *
 * Everything in struct lane is guarded by the lane's lock, unless its comment states otherwise.
 */
#ifndef ENGINE_LANE_INTERNAL_H
#define ENGINE_LANE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/list.h"
#include "engine/ecn.h"
#include "engine/lane.h"
#include "engine/loop.h"
#include "engine/rcvbuf.h"
#include "engine/rcvbuf-query.h"
#include "engine/poller.h"
#include "engine/progress.h"
#include "engine/quickclock.h"
#include "engine/spin.h"
#include "engine/stat-msg.h"
#include "engine/tap.h"
#include "engine/txgroup.h"
#include "engine/txsock.h"
#include "fault/impair.h"
#include "netdev/addr.h"
#include "netdev/route.h"
#include "wire/bth.h"

struct agent_client;
struct lane_shm;

enum {
	LANE_RX_BATCH = 4, /* datagrams, each perhaps a GRO-merged one, per receive call */
	LANE_RX_BUF = 65536,
	LANE_RX_CONTROL = 256,
	LANE_LINEAR_MAX = 128, /* payload up to this is copied next to its headers: fewer iovecs */
};

/* A receive socket: one per address or multicast group. On the heap: the loop points to it. */
struct lane_sock {
	struct lane *lane;
	int fd;		       /* owned */
	struct rocemu_gid gid; /* its bound address: the destination of its packets */
	bool group;	       /* of a multicast group */
	struct list retired;   /* in lane.retired */
	/*
	 * Had traffic recently: callers poll it. A socket that is not hot is watched by the lane's
	 * thread in either mode, so that callers need not poll every address of the device each
	 * time.
	 */
	bool hot;
	/*
	 * Number of next calls that request several datagrams. Otherwise a poller requests one: the
	 * check for a second one would cost a message that comes alone, as answers do, a few
	 * percent of its time.
	 */
	uint8_t several;
	uint32_t ovfl; /* the kernel's drop counter as last seen */
	rocemu_ns_t last_rx;
	rocemu_ns_t fill_at; /* when the buffer's fill level was last read */
	bool full;	     /* it was filling up at that time */
	struct loop_io io;   /* the thread's own, changed with the lock held */
};

enum { LANE_RX_IDS = 16 };

struct lane_rx {
	uint32_t octets;  /* of the last receive */
	uint32_t fetches; /* READs and atomics of it, and one more when answers were sent early */
	uint64_t fetch_bytes; /* that its READs request */
	bool requests;	      /* it brought some */
	bool mid_message;     /* its last request packet leaves a message unfinished */
	/* By source port: the IPv4 identification of the next burst. A guess: with a wrong one, the
	 * ICRC check takes longer. */
	uint16_t next_id[LANE_RX_IDS];
	uint8_t *buf; /* LANE_RX_BATCH * LANE_RX_BUF, owned */
	struct mmsghdr msg[LANE_RX_BATCH];
	struct iovec iov[LANE_RX_BATCH];
	union addr from[LANE_RX_BATCH];
	_Alignas(struct cmsghdr) uint8_t control[LANE_RX_BATCH][LANE_RX_CONTROL];
};

/* How the RC and XRC packets of a path leave: kept, because most packets take few paths. */
struct lane_route {
	struct txsock *sock;	   /* of the lane's sets; NULL: the entry is empty */
	struct rocemu_path asked;  /* the endpoint's */
	struct rocemu_path packet; /* with the packets' ECN bits, source port and hop limit */
};

enum { LANE_ROUTES = 16 };

struct lane_tx {
	uint8_t *copy; /* ROCEMU_OUTPUT_BATCH * ROCEMU_MAX_MTU, owned: payload of what goes out
			  again */
	struct tx_batch *batch; /* behind copy, in the same mapping */
	struct list backlog;	/* of struct backlog_packet, see lane-backlog.c */
	unsigned nbacklog;
	rocemu_ns_t retry_at; /* the backlog is tried again then */
	/* By GID index: by the interface that the kernel chooses, then by the own. Owned. */
	struct txsock_set *set[2 * ROCEMU_MAX_GID];
	struct lane_route route[LANE_ROUTES]; /* by the sender's QPN */
	struct rocemu_tx desc[ROCEMU_OUTPUT_BATCH];
	struct rocemu_path
		alt[ROCEMU_OUTPUT_BATCH]; /* paths with another source port than requested */
	struct ecn ecn;
};

/* Requests of other threads to the lane's thread, bits. */
enum lane_request {
	LANE_REQ_STOP = 1,	    /* end */
	LANE_REQ_WATCH = 2,	    /* watch the polled sockets again */
	LANE_REQ_STOP_WATCHING = 4, /* do not watch them, callers poll */
	LANE_REQ_SOCKS = 8,	    /* sockets have come or gone */
	LANE_REQ_RCVBUFS = 16,	    /* rcvbuf_next_query() has something */
	LANE_REQ_RINGS = 32,	    /* rings in shared memory: to be offered, ended or looked at */
};

struct lane_thread {
	pthread_t id;
	bool running;
	atomic_uint tid;  /* 0: it has not begun to run */
	struct loop loop; /* the thread's own, as are the following */
	struct loop_io timer_io, guard_io, forward_io;
	struct loop_timer retry; /* sockets that could not be watched */
	struct rcvbuf_query rcvbuf_query;
	int timer_fd, guard_fd; /* owned */
	rocemu_ns_t armed;	/* what timer_fd is set to; ROCEMU_NEVER: not */
	struct spin bulk;      /* the thread's own: on polling for a bulk transfer's next packets */
	rocemu_ns_t peer_free; /* the thread's own: when a peer has received its last packets */
	rocemu_ns_t bulk_served; /* the thread's own: the same, of such packets */
	struct spin events;	 /* the thread's own: on polling after completion events */
	rocemu_ns_t event_at;	 /* the thread's own: when it raised the last one */
	bool event_spun;	 /* the thread's own: it polled after that */
	struct poller poller;	 /* the last one that moved the guard */
	atomic_uint requests;	 /* enum lane_request; then loop_wake() */
};

/* Conditions to check when taking the lock, bits; see lane-lock.c. */
enum lane_gate {
	LANE_JOINED = 1, /* the joint lock is held with it */
	LANE_WANTED = 2, /* pollers leave it to a thread that waits for it */
};

/** A row of the device's file of counters; owned. NULL: none. */
struct lane_count {
	struct countfile *file;
	struct countfile_row *row;
	struct rocemu_ep_shown *shown; /* mapped */
};

/* First what each message touches, side by side: a page costs time where the kernel flushes the
 * TLB. */
struct lane {
	pthread_mutex_t lock;
	_Atomic uint8_t gate; /* enum lane_gate; set without the lock, too */
	bool attached;
	bool further;	 /* see struct lane_config */
	bool dead;	 /* a forked child's copy: must not be used */
	bool down;	 /* the port, by fault injection */
	bool faulty_rx;	 /* fault injection applies to received packets */
	bool hop_limits; /* the sockets deliver them, see lane_want_hop_limits() */
	uint16_t slot;
	unsigned nsocks;
	struct rocemu_ep *ep; /* owned */
	void (*on_events)(void *user, struct rocemu_ep *ep);
	void (*on_orphaned)(void *user);
	void *user;
	struct lane_stats *stats; /* own_stats, or the row's */
	struct tap *tap;	  /* ref, or NULL */
	struct lane_impair *held; /* state of fault injection; owned, NULL when off */
	struct forward *forward;  /* owned, or NULL */
	struct lane_shm
		*shm; /* rings in shared memory, see lane-shm.h; owned, NULL: all goes by UDP */

	struct delayed_ack delayed_ack;
	struct gather gather;
	struct quickclock clock;
	unsigned spins;		/* calls of lane_poll() in a row that found nothing */
	rocemu_ns_t spun_since; /* the first of them */
	uint32_t turn;		/* counts receives of lane_poll_in_turn() */
	rocemu_ns_t vain_at;	/* of the last receive by a poll; 0: it found something */
	bool armed_now;		/* a CQ was armed, and none was polled in vain since then */
	unsigned brief_polls;	/* so many of the next ones need not read the clock */
	unsigned unsettled;	/* polls that received something since the last lane_settle() */
	rocemu_ns_t ack_due;  /* when held acknowledgements are sent; ROCEMU_NEVER: by the guard */
	rocemu_ns_t tap_due;  /* the capture is flushed then */
	rocemu_ns_t next_due; /* the earliest of all deadlines, as of the last drive */
	/* Written by any caller without the lock. */
	_Atomic uint64_t last_poll;	    /* time of the last lane_poll() */
	_Atomic struct poller_place poller; /* the thread of the last one that found nothing */
	_Atomic uint64_t last_active;	    /* time of the last lane_poll() or lane_kick() */
	_Atomic uint64_t
		busy_since; /* since when lane_poll() has found the lock taken; 0: it has not */
	atomic_bool looked; /* a thread is between lane_look() and lane_look_end() */
	struct progress progress;

	struct lane_thread thread;
	struct lane_rx rx;
	struct lane_sock *socks[ROCEMU_MAX_GID + ROCEMU_MAX_MCAST_GROUPS]; /* owned */
	struct lane_tx tx;

	struct rcvbuf rcvbuf;
	unsigned ngids;
	struct lane_gid gids[ROCEMU_MAX_GID];
	/* Owned. After attach the agent watch's (agent-watch.h), not guarded by the lock. */
	struct agent_client *agent;
	struct agent_watch *watch;
	unsigned ifindex;
	struct list retired;	 /* of lane_sock.retired: for the thread to close */
	struct list joined_node; /* in the list of lane-lock.c */
	struct list node;	 /* in the registry of lane.c, guarded by its lock */
	char device[64];
	struct lane_stats own_stats;
	struct lane_count count;
	struct impair impair;
	struct route_cache ways; /* to the destinations of paths */
};

/* ---- lane-lock.c ---- */

/** Not joined. Also in a forked child, where no thread holds it. */
void lane_lock_init(struct lane *l);
void lane_lock_fini(struct lane *l);
/** In a forked child: no lanes are joined. */
void lane_lock_forget(void);
/** A joined lane was attached: others drive it from now on. */
void lane_enter(struct lane *l) REQUIRES(l);
/** The lane ends: other threads no longer drive it. They may still use its endpoint. */
void lane_leave(struct lane *l) EXCLUDES(l);
/** Are other lanes' endpoints used with its lock? */
static inline bool lane_is_joined(const struct lane *l)
{
	return atomic_load_explicit(&l->gate, memory_order_relaxed) & LANE_JOINED;
}
/** Call fn for each other lane that l is joined with. */
void lane_each_joined(struct lane *l, void (*fn)(struct lane *, rocemu_ns_t), rocemu_ns_t now)
	REQUIRES(l);

/** As lane_lock(), but at most until a time of CLOCK_REALTIME. */
bool lane_lock_until(struct lane *l, const struct timespec *end) TRY_ACQUIRE(true, l);
/** The thread that holds the lock, or 0: none, or not known. Without the lock. */
uint32_t lane_lock_owner(const struct lane *l);

/* ---- lane-stat.c ---- */

/**
 * Append struct stat_lane and its QPs; marks it if the lock cannot be taken. -ENOMEM. Lock not
 * held.
 */
int lane_stat(struct lane *l, struct stat_buf *b, const atomic_bool *stop);

/* ---- lane-sock.c ---- */

/** A socket for each address of the device. -errno with errbuf. */
int lane_sock_open_all(struct lane *l, char *errbuf, size_t errlen) REQUIRES(l);
/** Close the sockets that have gone; on the lane's thread, or when there is none. */
void lane_sock_reap(struct lane *l) REQUIRES(l);
/** Close all; the thread has ended. */
void lane_sock_close_all(struct lane *l);
/** In a forked child: close the child's copies. */
void lane_sock_disown(struct lane *l);

/* ---- lane-count.c ---- */

/** Count in the device's file from now on, where there is one. */
void lane_count_start(struct lane *l);
/** The counts stay in the file, the lane no longer writes to it. The endpoint is freed. */
void lane_count_stop(struct lane *l);
/** In a forked child: release the row, which the parent owns. */
void lane_count_disown(struct lane *l);

/* ---- lane-input.c ---- */

/** The slot that a packet is for: its first ROCEMU_BTH_LEN bytes. */
static inline uint16_t lane_slot_of(const uint8_t *bth)
{
	return (uint16_t)(bth_dqpn(bth) >> ROCEMU_QPN_INDEX_BITS);
}
/** Is it for another slot? Too short to have a slot: the endpoint counts it among the truncated. */
static inline bool lane_is_misrouted(const struct lane *l, const uint8_t *packet, size_t len)
{
	return len >= ROCEMU_BTH_LEN && lane_slot_of(packet) != l->slot;
}
/** A datagram for this lane; d->data is in a buffer of the lane's. */
void lane_input(struct lane *l, rocemu_ns_t now, struct rocemu_dgram *d) REQUIRES(l);

/* ---- lane-rx.c ---- */

int lane_rx_init(struct lane *l);
void lane_rx_fini(struct lane *l);
/** Receive from a socket, and its datagrams into the endpoint: what one call returns, or a few if
 * that is short. @return messages taken (0: was empty). */
unsigned lane_rx_sock(struct lane *l, struct lane_sock *s, rocemu_ns_t now) REQUIRES(l);
/** As lane_rx_sock() on the rings in shared memory, if there are any. */
unsigned lane_rx_rings(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** lane_rx_sock() on each hot socket, and lane_rx_rings(). */
unsigned lane_rx_hot(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** Receive all datagrams in the sockets, hot or not, and in rings. */
void lane_rx_all(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** One message from another lane. @return false: nothing there. */
bool lane_rx_forwarded(struct lane *l, rocemu_ns_t now) REQUIRES(l);

/* ---- lane-path.c ---- */

/** Where the set of a path's sockets is. The path's sgid_index is one. */
static inline struct txsock_set **lane_tx_set(struct lane *l, const struct rocemu_path *path)
{
	return &l->tx.set[path->sgid_index + (path->own_interface ? ROCEMU_MAX_GID : 0)];
}

/* ---- lane-send.c ---- */

enum { LANE_TX_BATCH_BYTES = 96 << 10 }; /* of struct tx_batch at most, lane-tx.c */
enum { LANE_SEND_CONTROL = CMSG_SPACE(sizeof(uint16_t)) + 2 * CMSG_SPACE(sizeof(int)) };

int lane_tx_init(struct lane *l);
/** The backlog is gone. */
void lane_tx_fini(struct lane *l);
/** The index has this address now: sockets of the one it had before go. */
void lane_tx_forget(struct lane *l, unsigned index, const struct rocemu_gid *now) REQUIRES(l);
/** The socket for a path, which determines its source port. NULL: none; counted and logged. */
struct txsock *lane_tx_sock(struct lane *l, const struct rocemu_path *path) REQUIRES(l);
/** The path as the packets that leave by s have it: its source port, and a hop limit. */
void lane_tx_set_path(struct rocemu_path *path, const struct txsock *s);
/** The route of a QP's RC or XRC packets, borrowed until sockets go. NULL: as lane_tx_sock(). */
const struct lane_route *lane_tx_route(struct lane *l, const struct rocemu_path *path,
				       uint32_t lqpn) REQUIRES(l);
/** Start a message, but for its data: addressing and options. gso_size 0: one packet, of len bytes.
 */
void lane_send_begin(struct msghdr *m, struct iovec *iov, union addr *to,
		     uint8_t control[LANE_SEND_CONTROL], const struct txsock_set *set,
		     struct txsock *s, const struct rocemu_path *path, uint16_t gso_size,
		     size_t len);
/** Count packets that the kernel refused: lost packets to the transport. Reports the reason
 * (base/why.h). */
void lane_send_refused(struct lane *l, int err, const struct rocemu_path *path, unsigned packets);
/**
 * The kernel refused a message (EINVAL). @return true: because of its flow label, which s no longer
 * sets.
 */
bool lane_send_labels_refused(const struct lane *l, struct txsock *s,
			      const struct rocemu_path *path);
/**
 * Send one packet whose bytes are ready, ICRC included (identification 0). @return false: the
 * socket has no room (never when wait is true: then it blocks).
 */
bool lane_send_try(struct lane *l, const struct rocemu_path *path, const uint8_t *data, size_t len,
		   bool wait) REQUIRES(l);

/* ---- lane-tx.c ---- */

/** Send descriptors without impairment, as few system calls as possible. Changes their order and
 * their paths. */
void lane_tx_send(struct lane *l, struct rocemu_tx **pkt, unsigned n) REQUIRES(l);
/** The same of packets that all have this route; sets their paths. */
void lane_tx_send_on(struct lane *l, const struct lane_route *route, struct rocemu_tx **pkt,
		     unsigned n) REQUIRES(l);
/** As lane_send_try(), behind what the backlog keeps; it keeps what has no room. */
void lane_tx_send_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data,
		      size_t len) REQUIRES(l);

/* ---- lane-output.c ---- */

/** Send a batch, after what the backlog keeps. @return whether more may be sent now. */
bool lane_output(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** No more batches now: the receivers' fill levels must be read again next time. */
void lane_output_end(struct lane *l) REQUIRES(l);

/* ---- lane-backlog.c ---- */

/** Keep copies of packets, to be sent after all that is kept already. */
void lane_backlog_add(struct lane *l, struct rocemu_tx *const *pkt, unsigned n) REQUIRES(l);
void lane_backlog_add_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data,
			  size_t len) REQUIRES(l);
/** Send what is kept, if it is time to try. @return true: nothing is kept any more. */
bool lane_backlog_flush(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/**
 * The packet as it goes on the wire on its own, sealed: rocemu_tx_len(t) bytes. If its memory is
 * gone it gets a wrong ICRC: it is lost.
 */
void lane_tx_copy(struct lane *l, struct rocemu_tx *t, uint8_t *out) REQUIRES(l);
/** Make the ICRC of a sealed packet wrong. */
void lane_tx_invalidate(struct rocemu_tx *t);
/** Send what is kept, and wait for room: the lane or the process ends. */
void lane_backlog_drain(struct lane *l) REQUIRES(l);
void lane_backlog_fini(struct lane *l);

/* ---- lane-impair.c, lane-held.c, lane-note.c ---- */

/** -errno with errbuf. */
int lane_impair_init(struct lane *l, char *errbuf, size_t errlen);
void lane_impair_fini(struct lane *l);
/** As lane_tx_send(), with what rules and chance do to each packet. */
void lane_impair_send(struct lane *l, rocemu_ns_t now, struct rocemu_tx **pkt, unsigned n)
	REQUIRES(l);
/** When the next packet held back is due. */
rocemu_ns_t lane_impair_deadline(const struct lane *l) REQUIRES(l);
/** Send those that are due, and take those that came in and are. */
void lane_impair_expire(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** The lane ends: send all held packets now. */
void lane_impair_release(struct lane *l) REQUIRES(l);
/** As rocemu_ep_input(), and reports a simulated receiver-not-ready (rnr). */
void lane_impair_deliver(struct lane *l, rocemu_ns_t now, struct rocemu_dgram *d) REQUIRES(l);
/** As rocemu_ep_input(), with what rules do to the packet; d->data is in a buffer of the lane's. */
void lane_impair_input(struct lane *l, rocemu_ns_t now, struct rocemu_dgram *d) REQUIRES(l);

/* ---- lane-progress.c ---- */

/** As lane_now(), at half the cost. */
static inline rocemu_ns_t lane_quick_now(struct lane *l) REQUIRES(l);
static inline rocemu_ns_t lane_quick_now(struct lane *l)
{
	return quickclock_now(&l->clock);
}

/** Run due timers, send, deliver events, set the timer. Held acknowledgements stay until due. */
void lane_drive(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** The same, and send held acknowledgements now. */
void lane_drive_all(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** The same after the lane's thread received something: acknowledgements may be left to a caller's
 * answer. */
void lane_drive_received(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** Deliver the endpoint's events and set the next deadline. */
void lane_settle(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** Is a caller spinning in lane_poll()? */
bool lane_is_spun(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** Will a caller poll as soon as it has a processor? */
static inline bool lane_poller_is_displaced(const struct lane *l)
{
	return poller_is_displaced(atomic_load_explicit(&l->poller, memory_order_relaxed));
}
/** Something was written to the tap. */
static inline void lane_tap_dirty(struct lane *l, rocemu_ns_t now)
{
	enum { TAP_FLUSH_NS = 500000000 };

	if (l->tap_due == ROCEMU_NEVER)
		l->tap_due = now + TAP_FLUSH_NS;
}

/* ---- lane-thread.c ---- */

int lane_thread_start(struct lane *l) REQUIRES(l);
void lane_thread_stop(struct lane *l);

/* ---- lane-wake.c ---- */

/** Set guard_fd to the time at which the guard expires (progress.h). */
void lane_thread_guard(struct lane *l) REQUIRES(l);
/** Make timer_fd fire at due if it would later or not at all. */
void lane_thread_arm(struct lane *l, rocemu_ns_t due) REQUIRES(l);
/** Send the thread a request, handled in its loop. */
void lane_thread_request(struct lane *l, enum lane_request what);

#endif
