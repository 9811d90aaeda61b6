/* SPDX-License-Identifier: BSD-2-Clause */
/* Manages rings in shared memory: made, offered, attached and ended, on the lane's thread. */
#include "engine/lane-shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/syssocket.h"

/* ---- the setting ---- */

int lane_shm_init(struct lane *l, char *errbuf, size_t errlen)
{
	const char *wire = secure_getenv("ROCEMU_WIRE");

	if (!wire || !*wire || !strcmp(wire, "udp"))
		return 0;
	if (strcmp(wire, "shm") != 0) {
		snprintf(errbuf, errlen, "ROCEMU_WIRE=%s: expected \"udp\" or \"shm\"", wire);
		return -EINVAL;
	}
	l->shm = calloc(1, sizeof(*l->shm));
	if (l->shm)
		return 0;
	snprintf(errbuf, errlen, "%s: out of memory", l->device);
	return -ENOMEM;
}

void lane_shm_start(struct lane *l)
{
	if (l->shm && l->forward)
		forward_accept_offers(l->forward);
}

/* ---- rings to other lanes ---- */

/* Back to UDP, for a while. Not in the loop any more. */
static void tx_close(struct lane *l, struct shm_tx *t)
{
	struct lane_shm *s = l->shm;

	shm_ring_unmap(&t->ring);
	forward_hold_forks();
	for (unsigned i = 0; i < s->nopen; i++)
		if (s->open[i] == t)
			s->open[i--] = s->open[--s->nopen];
	if (t->io.fd >= 0) {
		shutdown(t->io.fd, SHUT_RDWR); /* a child may have it */
		close(t->io.fd);
	}
	t->io.fd = -1;
	forward_let_fork();
	t->state = SHM_TX_NONE;
	t->retry_at = lane_now() + SHM_RETRY_NS;
}

/* The receiver sends no data: it has closed, or refused the ring. */
static void on_tx(struct loop_io *io)
{
	struct shm_tx *t = io->data;
	struct lane *l = t->lane;
	char byte;

	if (recv(io->fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		return;
	lane_lock(l);
	log_info("%s: slot %u has closed its ring: packets go by UDP", l->device,
		 (unsigned)t->slot);
	loop_unwatch(&l->thread.loop, io);
	tx_close(l, t);
	lane_unlock(l);
}

/* An address of this host, in this network namespace. */
static bool is_local(const struct shm_tx *t)
{
	union addr a;
	const socklen_t len = addr_from_gid(&a, &t->dst, 0, t->scope_id);
	const int fd = sys_socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool local = fd >= 0 && !bind(fd, &a.sa, len);

	if (fd >= 0)
		close(fd);
	return local;
}

/* @return 0 or -errno. */
static int offer(struct lane *l, struct shm_tx *t) REQUIRES(l);
static int offer(struct lane *l, struct shm_tx *t)
{
	struct forward_offer o = {.src = t->src, .dst = t->dst, .scope_id = t->scope_id};
	int err;

	if (l->shm->nopen == SHM_RINGS)
		return -ENOSPC;
	if (!is_local(t))
		return -EADDRNOTAVAIL;
	t->io.fd = o.conn = forward_connect(l->forward, t->slot);
	if (o.conn < 0)
		return o.conn;
	o.ring = shm_ring_create();
	if (o.ring < 0)
		return o.ring;
	err = shm_ring_map(&t->ring, o.ring);
	if (!err)
		err = forward_offer(&o);
	close(o.ring);
	loop_io_init(&t->io, o.conn, on_tx, t);
	return err ? err : loop_watch(&l->thread.loop, &t->io);
}

void lane_shm_offer(struct lane *l)
{
	struct lane_shm *s = l->shm;

	if (!s->wanted)
		return;
	s->wanted = false;
	for (unsigned i = 0; i < SHM_SLOTS; i++) {
		struct shm_tx *t = s->tx[i];
		int err;

		if (!t || t->state != SHM_TX_WANTED)
			continue;
		forward_hold_forks();
		err = offer(l, t);
		if (!err) {
			t->state = SHM_TX_OFFERED;
			s->open[s->nopen++] = t;
		}
		forward_let_fork();
		if (err) {
			log_info("%s: no shared memory with slot %u: %s; packets go by UDP",
				 l->device, (unsigned)t->slot, strerror(-err));
			tx_close(l, t);
		}
		if (err == -EADDRNOTAVAIL) {
			lane_shm_set_remote(l, &t->dst);
			t->retry_at = 0;
		}
	}
}

/* ---- rings from other lanes ---- */

/* Not in the loop any more. */
static void rx_free(struct lane *l, struct shm_rx *r)
{
	struct lane_shm *s = l->shm;

	shm_ring_unmap(&r->ring);
	forward_hold_forks();
	for (unsigned i = 0; i < s->nrx; i++)
		if (s->rx[i] == r)
			s->rx[i--] = s->rx[--s->nrx];
	shutdown(r->io.fd, SHUT_RDWR);
	close(r->io.fd);
	forward_let_fork();
	s->fresh -= !r->started;
	free(r);
}

/* Does this lane receive packets to the address? */
static bool has_address(const struct lane *l, const struct forward_offer *o)
{
	bool has = false;

	for (unsigned i = 0; i < l->ngids; i++)
		has |= rocemu_gid_equal(&l->gids[i].gid, &o->dst) &&
		       l->gids[i].scope_id == o->scope_id;
	for (unsigned i = 0; has && i < l->nsocks; i++)
		if (!l->socks[i]->group && rocemu_gid_equal(&l->socks[i]->gid, &o->dst))
			return true;
	return false;
}

/* -errno. The ring's descriptor stays the caller's, the connection is taken over unless it fails.
 */
static int attach(struct lane *l, const struct forward_offer *o, void (*woken)(struct loop_io *io))
	REQUIRES(l);
static int attach(struct lane *l, const struct forward_offer *o, void (*woken)(struct loop_io *io))
{
	struct lane_shm *s = l->shm;
	struct shm_rx *r;
	int err;

	if (s->nrx == SHM_RINGS)
		return -ENOSPC;
	if (!has_address(l, o))
		return -EADDRNOTAVAIL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->lane = l;
	r->src = o->src;
	r->dst = o->dst;
	err = shm_ring_map(&r->ring, o->ring);
	loop_io_init(&r->io, o->conn, woken, r);
	if (!err)
		err = loop_watch(&l->thread.loop, &r->io);
	if (err) {
		shm_ring_unmap(&r->ring);
		free(r);
		return err;
	}
	s->rx[s->nrx++] = r;
	s->fresh++;
	if (l->progress.mode == PROGRESS_ARMED)
		shm_ring_sleep(&r->ring);
	shm_ring_attach(&r->ring);
	return 0;
}

void lane_shm_take_offer(struct lane *l, void (*woken)(struct loop_io *io))
{
	struct forward_offer o;
	int err;

	forward_hold_forks();
	if (!forward_offered(l->forward, &o)) {
		forward_let_fork();
		return;
	}
	err = attach(l, &o, woken);
	if (err)
		close(o.conn);
	close(o.ring);
	forward_let_fork();
	if (err)
		log_info("%s: a ring that was offered is refused: %s", l->device, strerror(-err));
}

bool lane_shm_woken(struct shm_rx *r)
{
	char byte;
	const ssize_t n = recv(r->io.fd, &byte, 1, MSG_DONTWAIT);

	/* Usually there is one; more make it readable again. */
	return n > 0 || (n < 0 && errno == EAGAIN);
}

void lane_shm_end(struct lane *l, struct shm_rx *r, rocemu_ns_t now)
{
	log_info("%s: the other end of a ring has gone", l->device);
	if (!r->dead)
		lane_shm_rx_all(l, r, now);
	loop_unwatch(&l->thread.loop, &r->io);
	rx_free(l, r);
}

void lane_shm_forget(struct lane *l, const struct rocemu_gid *dst)
{
	if (!l->shm)
		return;
	for (unsigned i = 0; i < l->shm->nrx; i++)
		if (rocemu_gid_equal(&l->shm->rx[i]->dst, dst))
			l->shm->rx[i]->dead = true;
	if (l->thread.running)
		lane_thread_request(l, LANE_REQ_RINGS);
}

void lane_shm_reap(struct lane *l)
{
	struct lane_shm *s = l->shm;

	for (unsigned i = 0; i < s->nrx;) {
		struct shm_rx *r = s->rx[i];

		if (!r->dead) {
			i++;
			continue;
		}
		loop_unwatch(&l->thread.loop, &r->io);
		rx_free(l, r);
	}
}

bool lane_shm_sleep(struct lane *l)
{
	bool empty = true;

	for (unsigned i = 0; i < l->shm->nrx; i++)
		if (!l->shm->rx[i]->dead)
			empty &= shm_ring_sleep(&l->shm->rx[i]->ring);
	return empty;
}

void lane_shm_awake(struct lane *l)
{
	for (unsigned i = 0; i < l->shm->nrx; i++)
		shm_ring_awake(&l->shm->rx[i]->ring);
}

/* ---- the end ---- */

void lane_shm_close(struct lane *l)
{
	struct lane_shm *s = l->shm;

	if (!s)
		return;
	while (s->nrx)
		rx_free(l, s->rx[0]);
	for (unsigned i = 0; i < SHM_SLOTS; i++)
		if (s->tx[i])
			tx_close(l, s->tx[i]);
}

void lane_shm_fini(struct lane *l)
{
	if (!l->shm)
		return;
	for (unsigned i = 0; i < SHM_SLOTS; i++)
		free(l->shm->tx[i]);
	free(l->shm);
	l->shm = NULL;
}

void lane_shm_disown(struct lane *l)
{
	struct lane_shm *s = l->shm;

	if (!s)
		return;
	for (unsigned i = 0; i < s->nrx; i++)
		close(s->rx[i]->io.fd);
	for (unsigned i = 0; i < s->nopen; i++)
		close(s->open[i]->io.fd);
}
