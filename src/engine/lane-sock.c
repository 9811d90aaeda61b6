/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive sockets of a lane: one per address of its device, from the agent, and one per
 * multicast group that a QP is attached to, its own.
 *
 * A packet to a group's address never reaches a socket that is bound to a unicast address. The
 * kernel gives a copy to each socket bound to the group, so every lane opens its own, no steering
 * is needed, and the membership (IGMP, MLD) is the kernel's and ends with the socket.
 *
 * The lane's thread has the sockets in its loop, so it closes those that go (lane_sock_reap()).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/client.h"
#include "base/log.h"
#include "engine/lane-internal.h"

static void sock_free(struct lane_sock *s)
{
	close(s->fd);
	free(s);
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
	lane_thread_init_sock(s);
	l->socks[l->nsocks++] = s;
	if (l->thread.running)
		lane_thread_ask(l, LANE_ASK_SOCKS);
	return 0;
}

static void sock_remove(struct lane *l, const struct rocemu_gid *gid) REQUIRES(l);
static void sock_remove(struct lane *l, const struct rocemu_gid *gid)
{
	for (unsigned i = 0; i < l->nsocks; i++) {
		struct lane_sock *s = l->socks[i];

		if (!addr_gid_equal(&s->gid, gid))
			continue;
		l->socks[i] = l->socks[--l->nsocks];
		list_append(&l->retired, &s->retired);
		if (l->thread.running)
			lane_thread_ask(l, LANE_ASK_SOCKS);
		else
			lane_sock_reap(l);
		return;
	}
}

void lane_sock_reap(struct lane *l)
{
	list_for_each_safe (it, tmp, &l->retired) {
		struct lane_sock *s = list_entry(it, struct lane_sock, retired);

		if (s->watched)
			ev_io_stop(l->thread.loop, &s->io);
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

void lane_sock_bury(struct lane *l)
{
	for (unsigned i = 0; i < l->nsocks; i++)
		close(l->socks[i]->fd);
	l->nsocks = 0;
	list_for_each (it, &l->retired)
		close(list_entry(it, struct lane_sock, retired)->fd);
}

/*
 * An address may have gone, or be an IPv6 one whose duplicate detection is not through: the others
 * will do. Everything else concerns the user.
 */
int lane_sock_open_all(struct lane *l, char *errbuf, size_t errlen)
{
	int first = -EADDRNOTAVAIL;

	if (!l->ngids)
		snprintf(errbuf, errlen, "%s: the device has no address", l->device);
	for (unsigned i = 0; i < l->ngids; i++) {
		const struct lane_gid *g = &l->gids[i];
		const int fd = agent_client_socket(l->agent, &g->gid, g->scope_id, errbuf, errlen);

		if (fd == -EADDRNOTAVAIL) {
			log_debug("%s: %s", l->device, errbuf);
			continue;
		}
		if (fd < 0)
			return fd;
		if (sock_add(l, fd, &g->gid, false))
			return -ENOMEM;
		first = 0;
	}
	return first;
}

/* ---- multicast groups ---- */

int lane_attach_mcast(struct lane *l, struct rocemu_qp *qp, const struct rocemu_gid *group,
		      char *errbuf, size_t errlen)
{
	const bool joined = rocemu_ep_has_mcast(l->ep, group);
	int r, fd;

	errbuf[0] = 0;
	if (l->dead)
		return -ENODEV;
	r = rocemu_qp_attach_mcast(qp, group);
	if (r || joined)
		return r;
	fd = agent_group_socket(group, l->ifindex, errbuf, errlen);
	r = fd < 0 ? fd : sock_add(l, fd, group, true);
	if (r)
		rocemu_qp_detach_mcast(qp, group);
	return r;
}

int lane_detach_mcast(struct lane *l, struct rocemu_qp *qp, const struct rocemu_gid *group)
{
	int r = l->dead ? -ENODEV : rocemu_qp_detach_mcast(qp, group);

	if (!r && !rocemu_ep_has_mcast(l->ep, group))
		sock_remove(l, group);
	return r;
}
