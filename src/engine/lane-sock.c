/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Manages the receive sockets of a lane: one per address of its device, from the agent, and one of
 * its own per multicast group that a QP is attached to.
 *
 * A packet to a group's address never reaches a socket that is bound to a unicast address. The
 * kernel gives a copy to each socket bound to the group, so every lane opens its own, no steering
 * is needed, and the membership (IGMP, MLD) is the kernel's and ends with the socket.
 *
 * The lane's thread has the sockets in its loop, so it closes those that go (lane_sock_reap()).
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/client.h"
#include "base/log.h"
#include "base/mutex.h"
#include "engine/agent-watch.h"
#include "engine/lane-shm.h"

static void sock_free(struct lane_sock *s)
{
	close(s->fd);
	free(s);
}

/*
 * READ responses come into any of the sockets: the smallest buffer limits how many may be in
 * flight. Half of it, since other packets come as well.
 */
static void fit_read_budget(struct lane *l) REQUIRES(l);
static void fit_read_budget(struct lane *l)
{
	uint32_t least = 0;

	for (unsigned i = 0; i < l->nsocks; i++) {
		int bytes = 0;
		socklen_t len = sizeof(bytes);

		if (l->socks[i]->group ||
		    getsockopt(l->socks[i]->fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) || bytes <= 0)
			continue;
		least = least ? MIN(least, (uint32_t)bytes) : (uint32_t)bytes;
	}
	/* A ring holds as much, and a little more. */
	if (least && l->shm)
		least = MIN(least, (uint32_t)LANE_SHM_READS);
	if (least)
		rocemu_ep_set_read_budget(l->ep, least / 2);
}

/* A kernel without the option delivers none. */
static void deliver_hop_limits(const struct lane_sock *s, int on)
{
	const bool v4 = rocemu_gid_is_ipv4(&s->gid);

	(void)setsockopt(s->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT,
			 &on, sizeof(on));
}

void lane_want_hop_limits(struct lane *l)
{
	if (l->hop_limits)
		return;
	l->hop_limits = true;
	for (unsigned i = 0; i < l->nsocks; i++)
		deliver_hop_limits(l->socks[i], true);
}

/* Takes fd over, on error too. */
static int sock_add(struct lane *l, int fd, const struct rocemu_gid *gid, bool group) REQUIRES(l);
static int sock_add(struct lane *l, int fd, const struct rocemu_gid *gid, bool group)
{
	struct lane_sock *s = l->nsocks < ARRAY_LEN(l->socks) ? calloc(1, sizeof(*s)) : NULL;

	if (!s) {
		close(fd);
		return -ENOMEM;
	}
	*s = (struct lane_sock){.lane = l, .fd = fd, .gid = *gid, .group = group};
	list_init(&s->retired);
	deliver_hop_limits(s, l->hop_limits || l->tap);
	l->socks[l->nsocks++] = s;
	fit_read_budget(l);
	if (l->thread.running)
		lane_thread_request(l, LANE_REQ_SOCKS);
	return 0;
}

static void sock_remove(struct lane *l, const struct rocemu_gid *gid) REQUIRES(l);
static void sock_remove(struct lane *l, const struct rocemu_gid *gid)
{
	for (unsigned i = 0; i < l->nsocks; i++) {
		struct lane_sock *s = l->socks[i];

		if (!rocemu_gid_equal(&s->gid, gid))
			continue;
		l->socks[i] = l->socks[--l->nsocks];
		lane_shm_forget(l, gid);
		list_append(&l->retired, &s->retired);
		fit_read_budget(l);
		if (l->thread.running)
			lane_thread_request(l, LANE_REQ_SOCKS);
		else
			lane_sock_reap(l);
		return;
	}
}

void lane_sock_reap(struct lane *l)
{
	list_for_each_safe (it, tmp, &l->retired) {
		struct lane_sock *s = list_entry(it, struct lane_sock, retired);

		/* Otherwise its events would continue: the agent has the same open file. */
		loop_unwatch(&l->thread.loop, &s->io);
		list_remove(it);
		sock_free(s);
	}
}

void lane_sock_close_all(struct lane *l)
{
	for (unsigned i = 0; i < l->nsocks; i++)
		sock_free(l->socks[i]);
	l->nsocks = 0;
	list_for_each_safe (it, tmp, &l->retired)
		sock_free(list_entry(it, struct lane_sock, retired));
	list_init(&l->retired);
}

void lane_sock_disown(struct lane *l)
{
	for (unsigned i = 0; i < l->nsocks; i++)
		close(l->socks[i]->fd);
	l->nsocks = 0;
	list_for_each (it, &l->retired)
		close(list_entry(it, struct lane_sock, retired)->fd);
}

/* Does another entry before the n-th have the n-th's address? One socket serves all of them. */
static bool is_repeated(const struct lane *l, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (rocemu_gid_equal(&l->gids[i].gid, &l->gids[n].gid))
			return true;
	return false;
}

/*
 * An address may be gone, or an IPv6 one may be tentative: the others suffice. All other errors are
 * reported to the user.
 */
int lane_sock_open_all(struct lane *l, char *errbuf, size_t errlen)
{
	int first = -EADDRNOTAVAIL;

	if (!l->ngids)
		snprintf(errbuf, errlen, "%s: the device has no address", l->device);
	for (unsigned i = 0; i < l->ngids; i++) {
		const struct lane_gid *g = &l->gids[i];
		int fd;

		if (is_repeated(l, i))
			continue;
		fd = agent_client_socket(l->agent, &g->gid, g->scope_id, errbuf, errlen);
		if (fd == -EADDRNOTAVAIL) {
			log_debug("%s: %s", l->device, errbuf);
			continue;
		}
		if (fd < 0)
			return fd;
		if (sock_add(l, fd, &g->gid, false)) {
			snprintf(errbuf, errlen, "%s: out of memory", l->device);
			return -ENOMEM;
		}
		first = 0;
	}
	return first;
}

/* ---- added and removed addresses ---- */

/* The entry of that index; a new one if there is none. NULL: no room. */
static struct lane_gid *gid_entry(struct lane *l, unsigned index) REQUIRES(l);
static struct lane_gid *gid_entry(struct lane *l, unsigned index)
{
	for (unsigned i = 0; i < l->ngids; i++)
		if (l->gids[i].index == index)
			return &l->gids[i];
	return l->ngids < ARRAY_LEN(l->gids) ? &l->gids[l->ngids++] : NULL;
}

static bool has_gid(const struct lane *l, const struct rocemu_gid *gid)
{
	for (unsigned i = 0; i < l->ngids; i++)
		if (rocemu_gid_equal(&l->gids[i].gid, gid))
			return true;
	return false;
}

static void gid_remove(struct lane *l, unsigned index) REQUIRES(l);
static void gid_remove(struct lane *l, unsigned index)
{
	struct rocemu_gid gid;

	rocemu_ep_set_gid(l->ep, index, NULL);
	for (unsigned i = 0; i < l->ngids; i++) {
		if (l->gids[i].index != index)
			continue;
		gid = l->gids[i].gid;
		l->gids[i] = l->gids[--l->ngids];
		if (!has_gid(l, &gid))
			sock_remove(l, &gid);
		return;
	}
}

/* @return whether it needs a socket now: else lane_attach() opens one. */
static bool gid_add(struct lane *l, const struct lane_gid *g) REQUIRES(l);
static bool gid_add(struct lane *l, const struct lane_gid *g)
{
	const bool shared = has_gid(l, &g->gid);
	struct lane_gid *entry = gid_entry(l, g->index);

	if (!entry || rocemu_ep_set_gid(l->ep, g->index, &g->gid))
		return false;
	*entry = *g;
	lane_tx_forget(l, g->index, &g->gid);
	return l->attached && !shared;
}

static void open_socket(struct lane *l, const struct lane_gid *g)
{
	char err[512];
	/* The agent may take long; the lane continues meanwhile. */
	const int fd = agent_client_socket(l->agent, &g->gid, g->scope_id, err, sizeof(err));

	if (l->watch)
		agent_watch_look(l->watch);
	if (fd < 0) {
		log_warn("%s: %s", l->device, err);
		return;
	}
	lane_lock(l);
	sock_add(l, fd, &g->gid, false);
	lane_unlock(l);
}

void lane_set_gid(struct lane *l, unsigned index, const struct lane_gid *g)
{
	bool wants_socket = false;

	lane_lock(l);
	if (!l->dead && g)
		wants_socket = gid_add(l, g);
	else if (!l->dead)
		gid_remove(l, index);
	lane_unlock(l);
	if (wants_socket)
		open_socket(l, g);
}

/* ---- multicast groups ---- */

int lane_attach_mcast(struct lane *l, struct rocemu_qp *qp, const struct rocemu_gid *group,
		      char *errbuf, size_t errlen)
{
	const struct rocemu_gid on_wire = rocemu_gid_on_wire(group);
	const bool joined = rocemu_ep_has_mcast(l->ep, &on_wire);
	UNCANCELLED;
	int r, fd;

	errbuf[0] = 0;
	if (l->dead)
		return -ENODEV;
	r = rocemu_qp_attach_mcast(qp, group);
	if (r || joined)
		return r;
	fd = agent_group_socket(&on_wire, l->ifindex, errbuf, errlen);
	r = fd < 0 ? fd : sock_add(l, fd, &on_wire, true);
	if (r)
		rocemu_qp_detach_mcast(qp, group);
	return r;
}

int lane_detach_mcast(struct lane *l, struct rocemu_qp *qp, const struct rocemu_gid *group)
{
	const struct rocemu_gid on_wire = rocemu_gid_on_wire(group);
	int r = l->dead ? -ENODEV : rocemu_qp_detach_mcast(qp, group);
	UNCANCELLED;

	if (!r && !rocemu_ep_has_mcast(l->ep, &on_wire))
		sock_remove(l, &on_wire);
	return r;
}
