/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lane's lock, and lanes that are joined.
 *
 * The endpoints of joined lanes use each other's objects. A thread that takes such a lane's own
 * lock takes the joint lock after it. So the joint lock guards all of every joined lane, and a
 * thread that holds one of them may use the others. A lane is joined with its own lock held, while
 * no other thread is in it. No thread takes two lanes' own locks, but all of one context's, in
 * their order (lanes_lock()); and no thread takes an own lock under the joint one.
 *
 * A thread that is cancelled while it has the lock would leave it taken. Unlike struct mutex this
 * lock does not disable cancellation, which would cost each post and poll tens of nanoseconds.
 * Instead, the data path does not make system calls by the C library's functions, which are
 * cancellation points (base/syssocket.h), and other code that makes system calls with the lock held
 * is UNCANCELLED.
 *
 * Completion events make their channels readable after the lock is released (evq_flush()): the
 * thread that they wake takes the lock next.
 */
#include "base/evq.h"
#include "engine/lane-internal.h"

static pthread_mutex_t joint = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
/* of lane.joined_node; guarded by joint */
static struct list joined_lanes = {&joined_lanes, &joined_lanes};
/*
 * Threads that wait for the joint lock. A poller, which takes the lock again at once, leaves it to
 * them.
 */
static atomic_uint joint_waiting;

/* Held for about a microsecond: spinning briefly is faster than sleeping. */
static void mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

void lane_lock_init(struct lane *l)
{
	mutex_init(&l->lock);
	atomic_store_explicit(&l->gate, 0, memory_order_relaxed);
	list_init(&l->joined_node);
}

void lane_lock_fini(struct lane *l)
{
	pthread_mutex_destroy(&l->lock);
}

void lane_lock_forget(void)
{
	mutex_init(&joint);
	list_init(&joined_lanes);
	atomic_store(&joint_waiting, 0);
}

static void joint_lock(void)
{
	if (pthread_mutex_trylock(&joint) == 0)
		return;
	atomic_fetch_add_explicit(&joint_waiting, 1, memory_order_relaxed);
	pthread_mutex_lock(&joint);
	atomic_fetch_sub_explicit(&joint_waiting, 1, memory_order_relaxed);
}

static bool joint_trylock(void)
{
	return atomic_load_explicit(&joint_waiting, memory_order_relaxed) == 0 &&
	       pthread_mutex_trylock(&joint) == 0;
}

/* The thread that has the lane's own lock; 0: none, or not known. */
static uint32_t own_owner(const struct lane *l)
{
#ifdef __GLIBC__
	return (uint32_t)__atomic_load_n(&l->lock.__data.__owner, __ATOMIC_RELAXED);
#else
	(void)l;
	return 0;
#endif
}

/* The mutex alone; counts callers that find it taken. */
static void lock_own(struct lane *l)
{
	uint32_t owner;

	if (likely(pthread_mutex_trylock(&l->lock) == 0))
		return;
	owner = own_owner(l);
	pthread_mutex_lock(&l->lock);
	if (l->thread.running && pthread_equal(l->thread.id, pthread_self()))
		return;
	l->stats->lock_waits++;
	if (owner && owner != atomic_load_explicit(&l->thread.tid, memory_order_relaxed))
		l->stats->caller_waits++;
}

void lane_lock(struct lane *l) NO_THREAD_SAFETY_ANALYSIS
{
	lock_own(l);
	if (unlikely(lane_is_joined(l)))
		joint_lock();
}

void lane_unlock(struct lane *l) NO_THREAD_SAFETY_ANALYSIS
{
	if (unlikely(lane_is_joined(l)))
		pthread_mutex_unlock(&joint);
	pthread_mutex_unlock(&l->lock);
	evq_flush();
}

/* Lanes are added with the first one's lock held, so their number does not change meanwhile.
 */
static unsigned lanes_count(const struct lanes *g)
{
	return atomic_load_explicit(&g->n, memory_order_relaxed);
}

/* All own locks held. */
static bool any_joined(const struct lanes *g)
{
	for (unsigned i = 0; i < lanes_count(g); i++)
		if (lane_is_joined(g->lane[i]))
			return true;
	return false;
}

void lanes_lock(struct lanes *g) NO_THREAD_SAFETY_ANALYSIS
{
	lock_own(g->lane[0]);
	for (unsigned i = 1; i < lanes_count(g); i++)
		lock_own(g->lane[i]);
	if (unlikely(any_joined(g)))
		joint_lock();
}

void lanes_unlock(struct lanes *g) NO_THREAD_SAFETY_ANALYSIS
{
	if (unlikely(any_joined(g)))
		pthread_mutex_unlock(&joint);
	for (unsigned i = lanes_count(g); i > 0; i--)
		pthread_mutex_unlock(&g->lane[i - 1]->lock);
	evq_flush();
}

void lanes_add(struct lanes *g, struct lane *l)
{
	unsigned n;

	lane_lock(g->lane[0]);
	n = lanes_count(g);
	g->lane[n] = l;
	atomic_store_explicit(&g->n, n + 1, memory_order_release);
	lane_unlock(g->lane[0]);
}

bool lane_trylock(struct lane *l) NO_THREAD_SAFETY_ANALYSIS
{
	uint8_t gate;

	if (pthread_mutex_trylock(&l->lock))
		return false;
	gate = atomic_load_explicit(&l->gate, memory_order_relaxed);
	if (likely(!gate) || (gate == LANE_JOINED && joint_trylock()))
		return true;
	pthread_mutex_unlock(&l->lock);
	return false;
}

void lane_join(struct lane *l) NO_THREAD_SAFETY_ANALYSIS
{
	lane_lock(l);
	if (!lane_is_joined(l)) {
		joint_lock();
		atomic_fetch_or_explicit(&l->gate, LANE_JOINED, memory_order_relaxed);
		l->stats->joins++;
		if (l->attached && !l->dead)
			lane_enter(l);
	}
	lane_unlock(l);
}

void lane_enter(struct lane *l)
{
	if (lane_is_joined(l) && !list_linked(&l->joined_node))
		list_append(&joined_lanes, &l->joined_node);
}

void lane_leave(struct lane *l)
{
	lane_lock(l);
	list_remove(&l->joined_node);
	lane_unlock(l);
}

static bool lock_both_until(struct lane *l, const struct timespec *end) NO_THREAD_SAFETY_ANALYSIS
{
	bool taken;

	if (pthread_mutex_timedlock(&l->lock, end))
		return false;
	if (likely(!lane_is_joined(l)))
		return true;
	atomic_fetch_add_explicit(&joint_waiting, 1, memory_order_relaxed);
	taken = pthread_mutex_timedlock(&joint, end) == 0;
	atomic_fetch_sub_explicit(&joint_waiting, 1, memory_order_relaxed);
	if (!taken)
		pthread_mutex_unlock(&l->lock);
	return taken;
}

/*
 * A poller holds the lock nearly all the time: a thread that has to be woken first would never get
 * it.
 */
bool lane_lock_until(struct lane *l, const struct timespec *end)
{
	bool taken;

	atomic_fetch_or_explicit(&l->gate, LANE_WANTED, memory_order_relaxed);
	taken = lock_both_until(l, end);
	atomic_fetch_and_explicit(&l->gate, (uint8_t)~LANE_WANTED, memory_order_relaxed);
	return taken;
}

uint32_t lane_lock_owner(const struct lane *l)
{
	const uint32_t own = own_owner(l);

	if (own || !lane_is_joined(l))
		return own;
#ifdef __GLIBC__
	return (uint32_t)__atomic_load_n(&joint.__data.__owner, __ATOMIC_RELAXED);
#else
	return 0;
#endif
}

/* The joint lock is held: l is joined, and some joined lane's lock is held. */
static void assume_held(struct lane *l) ASSERT_HELD(l);
static void assume_held(struct lane *l)
{
	(void)l;
}

void lane_each_joined(struct lane *l, void (*fn)(struct lane *, rocemu_ns_t), rocemu_ns_t now)
{
	list_for_each (n, &joined_lanes) {
		struct lane *other = list_entry(n, struct lane, joined_node);

		if (other == l)
			continue;
		assume_held(other);
		fn(other, now);
	}
}
