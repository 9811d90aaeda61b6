/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declares the lane: an endpoint with everything that moves its packets: a slot of port 4791, one
 * receive socket per address of its device, transmit sockets, a lock, a thread with a loop
 * (loop.h). One lane per opened device context; the transport inside does not depend on any of
 * this.
 *
 * Who makes progress: the caller's own thread, in lane_posted() (after posting) and lane_poll() (a
 * poll of an empty CQ); the lane's thread otherwise. See src/README.md, "Progress".
 *
 * Lock order: consumer locks of CQs (verbs) before the lane's lock. Nothing is taken under the
 * lane's lock but leaf locks of the verbs layer's event queues. Two lanes' locks are held at once
 * only by lanes_lock(); lane_join() is for endpoints that use each other's objects.
 */
#ifndef ENGINE_LANE_H
#define ENGINE_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

#include "base/util.h"

struct CAPABILITY("lane's lock") lane;

/** An address of the lane's device, one per GID table entry. */
struct lane_gid {
	unsigned index; /* in the GID table */
	struct rocemu_gid gid;
	uint32_t scope_id; /* interface index for link-local IPv6, else 0 */
};

struct lane_config {
	const char
		*device; /* device name, for messages and capture comments; borrowed for the call */
	struct rocemu_ep_config ep;
	const struct lane_gid *gids; /* borrowed for the call */
	unsigned ngids;
	unsigned ifindex; /* of the interface on which it joins multicast groups; 0: the kernel's
			     choice */
	/*
	 * Called with the lane's lock held after the endpoint was driven and has events: drain them
	 * with rocemu_ep_next_event(). On the thread that made progress.
	 */
	void (*on_events)(void *user, struct rocemu_ep *ep);
	/*
	 * Called in a forked child, or NULL: the lane is the parent's. Only async-signal-safe
	 * calls. The lane then does nothing any more, and lane_free() ignores it.
	 */
	void (*on_orphaned)(void *user);
	void *user;
	/* Not its context's first: it gets a slot only while few are in use (LANE_FURTHER_SLOTS).
	 */
	bool further;
};

/*
 * Lanes beyond each context's first take no other slots than those below: the lowest that are free
 * are given out, so most of the host's 1023, and of a user's share, remain for processes that have
 * none yet.
 */
enum { LANE_FURTHER_SLOTS = 128 };

/**
 * A lane without a slot yet: objects other than QPs can be made, no socket, no thread, no agent.
 * Reads ROCEMU_IMPAIR, ROCEMU_TIME_SCALE, ROCEMU_ECN, ROCEMU_WIRE and ROCEMU_PCAP (errors in them
 * are reported here: errbuf, -EINVAL or -errno of open()).
 */
int lane_new(struct lane **out, const struct lane_config *config, char *errbuf, size_t errlen);

/** Stop the thread, close the sockets, give the slot back, flush the capture, free the endpoint.
 * Lock not held. */
void lane_free(struct lane *l);

/**
 * Get slot and sockets from the agent and start the thread; at once done when that is so already.
 * To be called before the first QP is created. Takes the lock itself. Errors: as agent_client_new()
 * and _socket(), in errbuf.
 */
int lane_attach(struct lane *l, char *errbuf, size_t errlen);

void lane_lock(struct lane *l) ACQUIRE(l);
void lane_unlock(struct lane *l) RELEASE(l);
bool lane_trylock(struct lane *l) TRY_ACQUIRE(true, l);

/**
 * From now on a thread that holds the lock of any joined lane of the process may use the endpoints
 * of all of them. The lane that was driven delivers the events of the others. The lane is attached.
 * Once joined, always joined; calling it again does nothing.
 */
void lane_join(struct lane *l) EXCLUDES(l);

enum {
	LANES_MAX = 64,
	/* Unless ROCEMU_LANES is set. A lane takes 11 descriptors, and programs have 1024. */
	LANES_DEFAULT_MAX = 16,
};

/** A text as a number of lanes, 1 to LANES_MAX; 0: it is none. */
static inline unsigned lanes_parse(const char *text)
{
	unsigned n = 0;

	while (*text >= '0' && *text <= '9' && n <= LANES_MAX)
		n = 10 * n + (unsigned)(*text++ - '0');
	return *text || n > LANES_MAX ? 0 : n;
}

/** The lanes of a device context, whose endpoints have their domains in common (domains_of the
 * first's). */
struct CAPABILITY("lanes' locks") lanes {
	struct lane *lane[LANES_MAX]; /* owned by the struct's owner; the first always exists */
	atomic_uint n;		      /* never fewer */
};

/** Take the locks of all of them: to change what the endpoints have in common, or to move an
 * object. */
void lanes_lock(struct lanes *g) ACQUIRE(g);
void lanes_unlock(struct lanes *g) RELEASE(g);
/** Add one more, not in use yet. One caller at a time. */
void lanes_add(struct lanes *g, struct lane *l) EXCLUDES(g);

/** The endpoint; to be used with the lock held. Borrowed until the lane is freed. */
struct rocemu_ep *lane_ep(struct lane *l);

/** Monotonic nanoseconds, the endpoint's clock. */
rocemu_ns_t lane_now(void);

/**
 * Something was posted or changed (lock held): send what the endpoint has to send, deliver events,
 * keep the deadline. Acknowledgements that wait go out with it.
 */
void lane_kick(struct lane *l) REQUIRES(l);

/** Send requests that one call posted. */
struct lane_post {
	size_t bytes;	/* of the longest message; SIZE_MAX: it waits for no others */
	bool signaled;	/* one of them requests a completion */
	bool in_flight; /* earlier requests of the QP were sent and are not acknowledged */
};

/**
 * The time before send requests are posted. While posts are gathered, it is not read anew for each:
 * reading the clock takes a quarter of such a post.
 */
rocemu_ns_t lane_post_time(struct lane *l) REQUIRES(l);

/**
 * As lane_kick(), after posting send requests; now: lane_post_time(). Of posts that follow each
 * other quickly, some wait for each other (progress.h).
 */
void lane_posted(struct lane *l, rocemu_ns_t now, struct lane_post post) REQUIRES(l);

/** Deliver the endpoint's events, and those of the lanes that it is joined with (lock held). */
void lane_deliver(struct lane *l) REQUIRES(l);

/**
 * Receive pending packets and send everything that waits, held acknowledgements too (lock held). A
 * consumer that has seen a message complete may be about to end while the peer waits for the
 * acknowledgement; and requests that the peer has acknowledged must complete. To be called before a
 * QP stops or is destroyed; at exit the engine does so.
 */
void lane_flush(struct lane *l) REQUIRES(l);

/**
 * A consumer found its CQ empty (lock not held): if the lock is free, receive what is there without
 * blocking, let timers that are due act, send. When packets came in, acknowledgements may be left
 * for the next kick or poll, at most until the guard expires (progress.h): the caller is likely to
 * have something to send with them.
 * @return false: another thread has the lock, or waits for it, and makes progress (of joined lanes:
 * on one).
 */
bool lane_poll(struct lane *l) EXCLUDES(l);
/**
 * The same for a program that may poll several CQs in turn. A receive serves all CQs of the lane.
 * If one has just found nothing, the next poll of each other CQ makes none. turn: which receive was
 * the CQ's last one; 0 at first, changed here.
 */
bool lane_poll_in_turn(struct lane *l, uint32_t *turn) EXCLUDES(l);

/**
 * A consumer armed a CQ and may soon sleep (lock held): the lane's thread watches the sockets
 * again at once instead of after detecting that polling has stopped. Cheap when it does so already.
 * Gathered posts are sent; held acknowledgements wait on, for an answer before it sleeps.
 */
void lane_arm_hint(struct lane *l) REQUIRES(l);
/** A consumer sleeps now (lock held): as lane_arm_hint(), and held acknowledgements are sent. */
void lane_wait_hint(struct lane *l) REQUIRES(l);
/** A consumer armed a CQ and is about to poll (lane_look()); it calls lane_wait_hint() before it
 * sleeps. */
void lane_look_hint(struct lane *l) REQUIRES(l);

/**
 * The caller looks for packets by lane_poll() for a while instead of sleeping. @return false:
 * another thread does; one is enough. Else lane_look_end() ends it.
 */
bool lane_look(struct lane *l);
void lane_look_end(struct lane *l);

/**
 * The lane gets a UD QP: from now on datagrams are received with their hop limits, which are part
 * of the GRH. That costs the kernel 0.05 us for each, a hundredth of a small message. Lock held.
 */
void lane_want_hop_limits(struct lane *l) REQUIRES(l);

/** A QP has been created: from now on it is in the list of resources, where there is room for it.
 */
void lane_show_qp(struct lane *l, uint32_t qpn) REQUIRES(l);

/**
 * rocemu_qp_attach_mcast(), and with the group's first QP of this lane, attached to a slot, the
 * kernel joins the group on the device's interface. Lock held.
 *
 * @return 0 or -errno: that function's, or the kernel's, with a line in errbuf (else "").
 */
int lane_attach_mcast(struct lane *l, struct rocemu_qp *qp, const struct rocemu_gid *group,
		      char *errbuf, size_t errlen) REQUIRES(l);
/** rocemu_qp_detach_mcast(), and the kernel leaves with the last QP. Lock held. */
int lane_detach_mcast(struct lane *l, struct rocemu_qp *qp, const struct rocemu_gid *group)
	REQUIRES(l);

/**
 * An address of the device came (g) or went (NULL): the endpoint's GID table, and the address's
 * sockets. QPs that use one that went stay as they are and run into their timeouts, as on hardware.
 * May send a request to the agent and wait for it; lock not held, one caller at a time.
 */
void lane_set_gid(struct lane *l, unsigned index, const struct lane_gid *g) EXCLUDES(l);

/** The interface's MTU changed: the largest path MTU allowed from now on. Lock not held. */
void lane_set_mtu(struct lane *l, enum ibv_mtu mtu) EXCLUDES(l);

/** The device is gone permanently: rocemu_ep_fail(). Lock not held. */
void lane_fail(struct lane *l) EXCLUDES(l);

/** The context ends: rocemu_ep_clear(), before the first of its lanes is freed. Lock not held. */
void lane_clear(struct lane *l) EXCLUDES(l);

/** Are faults injected? They are counted, and their dice drawn, per lane. */
bool lane_is_impaired(const struct lane *l);

/**
 * Fault injection takes the port down, or up again: while down, it does not send or receive
 * packets. Lock not held.
 */
void lane_set_link(struct lane *l, bool up) EXCLUDES(l);

/**
 * Set path->own_interface: whether its packets leave by the device's interface. They do unless the
 * destination is an address of this host, or no route by the interface leads there. Lock held.
 * @return 0, -EINVAL: no packet reaches such a destination, with the reason given (base/why.h); or
 * -errno: no descriptor or memory to find it out.
 */
int lane_find_interface(struct lane *l, struct rocemu_path *path) REQUIRES(l);

/**
 * A QP's address vector was set: as lane_find_interface(), and opens the sockets for transmitting
 * on the path, so that posting need not. dqpn: of the peer's QP, or 0: not known. Lock held.
 */
int lane_prepare_path(struct lane *l, struct rocemu_path *path, uint32_t dqpn) REQUIRES(l);

/* clang-format off */
#define LANE_STATS(X)                                                            \
	X(rx_syscalls,    "receive calls that returned something")               \
	X(rx_datagrams,   "datagrams received for this slot (after splitting what GRO merged)") \
	X(rx_forwarded,   "datagrams for another slot, forwarded")               \
	X(rx_misrouted, "datagrams that could not be forwarded to their slot")    \
	X(rx_forbidden,   "dropped: IP options, extension headers, or fragments") \
	X(rx_sock_drops,  "datagrams the kernel dropped for lack of socket buffer") \
	X(rx_congested,   "datagrams received through a buffer that was filling up")  \
	X(rx_octets,      "bytes received for this slot, from the BTH to the ICRC")  \
	X(rx_rings,       "datagrams received by rings in shared memory")        \
	X(tx_syscalls,    "send calls")                                          \
	X(tx_datagrams,   "datagrams sent (each segment of a GSO burst counted)") \
	X(tx_rings,       "datagrams sent by rings in shared memory")            \
	X(tx_errors,      "datagrams the kernel refused, or a full ring")        \
	X(tx_backlogged,  "datagrams that waited for room in a transmit socket") \
	X(impair_lost,    "dropped on purpose")                                  \
	X(impair_dup,     "duplicated on purpose")                               \
	X(impair_reorder, "reordered on purpose")                                \
	X(impair_corrupt, "corrupted on purpose")                                \
	X(impair_delay,   "delayed on purpose")                                  \
	X(impair_marked,  "marked CE on purpose")                                \
	X(impair_down,    "not sent or not taken because the port was down on purpose") \
	X(impair_flaps,   "times the port went down on purpose")                 \
	X(thread_wakeups, "times the lane's thread woke up")                     \
	X(mode_changes,   "times continued polling by callers was assumed")      \
	X(stalls,         "times a packet waited because polling had stopped") \
	X(acks_held,      "times acknowledgements waited for an answer")         \
	X(lock_waits,     "times a caller found the lane's lock taken and waited for it") \
	X(caller_waits,   "of these times it was another caller that had the lock, not the lane's thread") \
	X(joins,          "times the lane began to share a lock with others")
/* clang-format on */

struct lane_stats {
#define X(name, text) uint64_t name;
	LANE_STATS(X)
#undef X
};

/** A copy of the counters. Takes the lock. */
void lane_get_stats(struct lane *l, struct lane_stats *out);

#endif
