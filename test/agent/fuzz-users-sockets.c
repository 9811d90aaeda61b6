/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and sockets of the three users: fuzz-users.c. */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/give.h"
#include "base/bytes.h"
#include "base/util.h"
#include "fuzz-users.h"
#include "peer.h"
#include "test.h"
#include "users.h"

enum { FLOOD_ADDRS = 600 };

struct rocemu_gid act_addr_of(unsigned i)
{
	return gid_v4(127, 5, (uint8_t)(i / 250), (uint8_t)(i % 250 + 1));
}

static void check_socket(int fd, unsigned slot, unsigned addr, unsigned user)
{
	struct sock_filter code[64];
	struct sockaddr_in sa = {0};
	socklen_t len = ARRAY_LEN(code), sa_len = sizeof(sa), cookie_len = sizeof(uint64_t);
	const struct rocemu_gid gid = act_addr_of(addr);
	uint64_t cookie;
	int locked = 0;
	socklen_t locked_len = sizeof(locked);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &cookie_len), 0);
	if (!model_give_socket(&fz.m, cookie, user))
		wrong("user %u gets another user's socket, of slot %u", user, slot);
	if (getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, code, &len) || len != 6 ||
	    code[3].k != slot || getsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &locked, &locked_len) ||
	    !locked)
		wrong("the socket of slot %u is not for that slot alone", slot);
	assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&sa, &sa_len), 0);
	if (memcmp(&sa.sin_addr, gid.raw + 12, 4) || ntohs(sa.sin_port) != AGENT_PORT)
		wrong("a socket of another address");
}

static bool lingers(void)
{
	for (unsigned i = 0; i < MODEL_ALL; i++)
		if (fz.m.lingering_most[i])
			return true;
	return false;
}

/* SOCKET or GSI_OPEN, by the client's kind. @return whether it may go on. */
static bool use_addr(struct party *p, unsigned addr)
{
	struct agent_msg m = {.type = p->kind == AGENT_LANE ? AGENT_SOCKET : AGENT_GSI_OPEN}, a;
	bool uses, others;
	const unsigned alone = model_alone(&fz.m, p->user, addr, &uses, &others);
	int r;

	m.u.socket.addr = act_addr_of(addr);
	r = request(p->fd, &m, &a);
	if (r && party_is_tokenless(p)) {
		if (r == -ECONNRESET)
			act_hung_up(p);
		return false;
	}
	if (party_is_tokenless(p))
		wrong("user %u gets an address for a place that it has given back", p->user);
	if (r && (r != ENOSPC ||
		  (alone < QUOTA_ADDRS && !strstr(a.u.error.text, "sockets at") && !lingers())))
		wrong("address %u is refused to user %u with %u: %d, %s", addr, p->user, alone, r,
		      r > 0 ? a.u.error.text : "");
	if (!r && !uses && !others && alone >= QUOTA_ADDRS && !lingers())
		wrong("user %u has %u addresses alone", p->user, alone + 1);
	if (r)
		return false;
	p->addrs[addr / 64] |= UINT64_C(1) << addr % 64;
	if (p->kind == AGENT_LANE) {
		check_socket(a.fds[0], p->place, addr, p->user);
		if (p->data >= 0)
			close(p->data);
		p->data = a.fds[0];
		p->data_addr = addr;
	}
	return true;
}

static void act_addr(void)
{
	struct party *p = act_pick(one_in(2) ? LANE | HERE : GSI | HERE);
	unsigned n = one_in(100) ? FLOOD_ADDRS : 1;
	const unsigned first = n > 1 || one_in(4) ? below(MODEL_ADDRS - n) : below(BUSY_ADDRS);

	if (!p)
		return;
	note("user %u: kind %u place %u uses %u addresses from %u", p->user, p->kind, p->place, n,
	     first);
	for (unsigned i = 0; i < n && use_addr(p, first + i); i++)
		;
}

static void act_wrong_addr(void)
{
	const struct rocemu_gid any4 = {.raw = {[10] = 0xff, [11] = 0xff}}, any6 = {0};
	struct rocemu_gid addrs[] = {any4,
				     any6,
				     gid_v4(224, 0, 0, 1),
				     gid_v4(127, 255, 255, 255),
				     gid_v4(10, 1, 2, 3),
				     {.raw = {0xff, 2, [15] = 1}}};
	struct party *p = act_pick(LANE | GSI | HERE);
	struct agent_msg m = {0}, a;
	int r;

	if (!p || party_is_tokenless(p))
		return;
	note("user %u: an address that no user may have", p->user);
	m.type = p->kind == AGENT_LANE ? AGENT_SOCKET : AGENT_GSI_OPEN;
	m.u.socket.addr = addrs[below(ARRAY_LEN(addrs))];
	m.u.socket.scope_id = one_in(2) ? 0 : below(1000);
	r = request(p->fd, &m, &a);
	if (r <= 0)
		wrong("a wrong address is given: %d", r);
}

static void act_peer(void)
{
	const struct party *of = one_in(4) ? NULL : act_pick(LANE);
	struct party *p = act_pick(PLACELESS | LANE | GSI | HERE);
	const unsigned addr = of && of->data >= 0 ? of->data_addr : below(BUSY_ADDRS);
	struct agent_msg m = {.type = AGENT_PEER}, a;

	if (!p)
		return;
	m.u.socket.addr = act_addr_of(addr);
	m.u.socket.slot = of ? of->place : below(AGENT_SLOTS);
	note("user %u: PEER slot %u", p->user, m.u.socket.slot);
	if (request(p->fd, &m, &a))
		return;
	if (fz.m.owner[AGENT_LANE][m.u.socket.slot] != p->user + 1)
		wrong("user %u gets the socket of slot %u", p->user, m.u.socket.slot);
	check_socket(a.fds[0], m.u.socket.slot, addr, p->user);
	agent_msg_close_fds(&a);
}

static void act_gsi_close(void)
{
	struct party *p = act_pick(GSI | HERE);
	const unsigned addr = below(BUSY_ADDRS);
	struct agent_msg m = {.type = AGENT_GSI_CLOSE}, a;

	if (!p || party_is_tokenless(p))
		return;
	note("user %u: number %u closes address %u", p->user, p->place, addr);
	m.u.socket.addr = act_addr_of(addr);
	if (request(p->fd, &m, &a))
		wrong("GSI_CLOSE is refused");
	p->addrs[addr / 64] &= ~(UINT64_C(1) << addr % 64);
}

/* A datagram for a slot arrives there, and nothing else does. */
static void act_datagram(void)
{
	struct party *p = act_pick(LANE);
	struct rocemu_gid gid;
	struct pollfd pfd;
	uint8_t buf[64];

	if (!p || p->data < 0 || !p->held)
		return;
	note("a datagram for slot %u of user %u", p->place, p->user);
	gid = act_addr_of(p->data_addr);
	send_to_qpn(&gid, QPN(p->place, below(AGENT_INDEXES)));
	pfd = (struct pollfd){.fd = p->data, .events = POLLIN};
	if (poll(&pfd, 1, 2000) != 1 || recv(p->data, buf, sizeof(buf), MSG_DONTWAIT) < 8)
		wrong("a datagram for slot %u of user %u is lost", p->place, p->user);
	if ((get_be32(buf + 4) & 0xffffff) / AGENT_INDEXES != p->place)
		wrong("slot %u gets another one's datagram", p->place);
}

const struct act acts_sockets[] = {
	{14, act_addr},	    {1, act_wrong_addr}, {5, act_peer},
	{3, act_gsi_close}, {4, act_datagram},	 {0, NULL},
};
