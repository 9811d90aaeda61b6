/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The servers ib_write_bw, ib_read_bw and ib_atomic_bw of perftest: they tell the key and the
 * address of a buffer, and then wait for the client's word, so that their queue pairs belong to the
 * tester. Each serves one connection and ends, so they run in a loop at the device.
 *
 * What both sides exchange by TCP, the client first: a version, the cycle buffer's and the cache
 * line's size, the MTU, then LID, READs, QPN, PSN, R_Key, address, GID and SRQN as text; and that
 * once more when the queue pairs are ready. Versions from 6.28 on exchange more with each other,
 * so the tester has an older one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "conform/session.h"

#define VERSION "6.06"

enum {
	VERSION_LEN = 16,
	MTU_LEN = 2,
	KEYS_LEN = 108,
	CYCLE_BUFFER = 4096,
	CACHE_LINE = 64,
	CONNECT_MS = 15000,
	AGAIN_MS = 5,
	TIMEOUT = 14,
	RETRIES = 7,
	RNR_TIMER = 12,
	BUFFER = 65536, /* bytes that the client may use: the default of -s */
};

/** What each side tells. */
struct told {
	unsigned lid, reads, qpn, psn, rkey, srqn;
	unsigned long long va;
	struct rocemu_gid gid;
};

/** Send len bytes, and get as many into answer. */
static int swap(int fd, const void *data, void *answer, size_t len)
{
	return write(fd, data, len) == (ssize_t)len ? tcp_read(fd, answer, len) : -EPIPE;
}

static int swap_number(int fd, uint32_t number)
{
	uint32_t answer;

	number = htonl(number);
	return swap(fd, &number, &answer, sizeof(answer));
}

static void write_told(const struct told *t, char text[KEYS_LEN])
{
	int n;

	memset(text, 0, KEYS_LEN);
	n = snprintf(text, KEYS_LEN, "%04x:%04x:%06x:%06x:%08x:%016llx", t->lid, t->reads, t->qpn,
		     t->psn, t->rkey, t->va);
	for (unsigned i = 0; i < sizeof(t->gid.raw); i++)
		n += snprintf(text + n, (size_t)(KEYS_LEN - n), ":%02x", t->gid.raw[i]);
	snprintf(text + n, (size_t)(KEYS_LEN - n), ":%08x:", t->srqn);
}

static bool read_told(const char *text, struct told *t)
{
	unsigned byte;
	int at = 0;

	if (sscanf(text, "%4x:%4x:%6x:%6x:%8x:%16llx%n", &t->lid, &t->reads, &t->qpn, &t->psn,
		   &t->rkey, &t->va, &at) != 6)
		return false;
	for (unsigned i = 0; i < sizeof(t->gid.raw); i++, at += 3) {
		if (sscanf(text + at, ":%2x", &byte) != 1)
			return false;
		t->gid.raw[i] = (uint8_t)byte;
	}
	return true;
}

static int swap_told(int fd, const struct told *own, struct told *other)
{
	char text[KEYS_LEN], answer[KEYS_LEN + 1] = "";
	int error;

	write_told(own, text);
	error = swap(fd, text, answer, sizeof(text));
	if (!error && !read_told(answer, other))
		error = -EPROTO;
	return error;
}

/** All that is exchanged. *mtu: what both sides can, as enum ibv_mtu. */
static int exchange(int fd, const struct told *own, struct told *other, unsigned *mtu)
{
	char version[VERSION_LEN] = VERSION, answer[VERSION_LEN];
	char size[MTU_LEN] = {(char)('0' + *mtu)}, other_size[MTU_LEN];
	int error = swap(fd, version, answer, sizeof(version));

	if (!error)
		error = swap_number(fd, CYCLE_BUFFER);
	if (!error)
		error = swap_number(fd, CACHE_LINE);
	if (!error)
		error = swap(fd, size, other_size, sizeof(size));
	if (!error && (other_size[0] < '1' || other_size[0] > '5'))
		error = -EPROTO;
	if (!error) {
		*mtu = MIN(*mtu, (unsigned)(other_size[0] - '0'));
		error = swap_told(fd, own, other);
	}
	return error ? error : swap_told(fd, own, other);
}

static void take_attributes(struct conform_world *w, const struct told *own,
			    const struct told *other, unsigned mtu)
{
	struct scenario_setup *u = &w->setup;

	u->mtu = 128u << mtu;
	u->timeout = TIMEOUT;
	u->retry_cnt = u->rnr_retry = RETRIES;
	u->min_rnr_timer = RNR_TIMER;
	u->sq_psn = other->psn & ROCEMU_PSN_MASK;
	u->rq_psn = own->psn;
	u->area = BUFFER;
	u->dest_rd_atomic = other->reads;
	w->peer.device_qpn = other->qpn & ROCEMU_QPN_MASK;
	w->peer.device_gid = other->gid;
	w->peer.device_rkey = other->rkey;
	w->peer.device_va[SCENARIO_MEM] = other->va;
}

static bool waits_for_next(int error)
{
	return error == -ECONNREFUSED || error == -ECONNRESET || error == -EPIPE;
}

int perftest_connect(struct conform_world *w)
{
	const uint64_t until = conform_now() + CONNECT_MS * (uint64_t)NS_PER_MS;
	const struct told own = {
		.reads = 1, .qpn = w->peer.qpn, .psn = w->setup.rq_psn, .gid = w->peer.gid};
	struct told other = {0};
	unsigned mtu = 1;
	int error;

	while (128u << mtu < w->s->o.mtu)
		mtu++;
	do {
		const int fd = tcp_connect(&w->s->o.target, w->s->o.port[w->s->kind]);

		error = fd < 0 ? fd : exchange(fd, &own, &other, &mtu);
		w->tcp = error ? -1 : fd;
		if (error && fd >= 0)
			close(fd);
		if (waits_for_next(error))
			poll(NULL, 0, AGAIN_MS);
	} while (waits_for_next(error) && conform_now() < until);
	if (!error)
		take_attributes(w, &own, &other, mtu);
	return error;
}

/** Without the client's word the server ends. */
void perftest_end(struct conform_world *w)
{
	close(w->tcp);
}

bool perftest_there(struct conform_session *s, enum scenario_peer_program kind, char *why,
		    size_t size)
{
	const int fd = tcp_connect(&s->o.target, s->o.port[kind]);

	if (fd < 0)
		snprintf(why, size, "TCP port %u: %s", s->o.port[kind], strerror(-fd));
	else
		close(fd);
	return fd >= 0;
}
