/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/seats.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/syssocket.h"

enum {
	/*
	 * How far numbering moves on each time a place is used again. Odd, so that all 2^14 starts
	 * come round, and well above the number of QPs of most programs, so that QPNs of the last
	 * users stay unused for long.
	 */
	INDEX_STRIDE = 509,
	READS_MAX = 64, /* of one token: more than its buffer holds of what a client should write */
};

void seats_init(struct seats *s)
{
	struct rng rng;
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock_ns(CLOCK_REALTIME) + (uint64_t)getpid();
	rng_init(&rng, seed);
	for (unsigned i = 0; i < AGENT_SEATS; i++)
		s->seat[i] = (struct seat){.token = -1,
					   .next_index = (uint16_t)rng_below(&rng, AGENT_INDEXES)};
}

void seats_fini(struct seats *s)
{
	for (unsigned i = 0; i < AGENT_SEATS; i++) {
		if (s->seat[i].token >= 0)
			close(s->seat[i].token);
		s->seat[i].token = -1;
	}
}

void seats_look(const struct seats *s, struct seats_used *used)
{
	struct pollfd pfd[AGENT_SEATS];
	uint16_t place[AGENT_SEATS];
	nfds_t n = 0;
	int r;

	/* In parts, since poll() is limited by the number of open files. */
	for (unsigned i = 0; i < AGENT_SEATS; i++) {
		used->is[i] = s->seat[i].token >= 0;
		if (!used->is[i])
			continue;
		pfd[n] = (struct pollfd){.fd = s->seat[i].token};
		place[n++] = (uint16_t)i;
	}
	do
		r = poll(pfd, n, 0);
	while (r < 0 && errno == EINTR);
	for (nfds_t i = 0; r > 0 && i < n; i++)
		if (pfd[i].revents & POLLHUP)
			used->is[place[i]] = false;
}

bool seats_is_used(const struct seats *s, unsigned place)
{
	struct pollfd pfd = {.fd = s->seat[place].token};

	return pfd.fd >= 0 && !(poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP);
}

unsigned seats_count(const struct seats *s, const struct seats_used *used, uint32_t uid)
{
	unsigned n = 0;

	for (unsigned i = 1; i < AGENT_SEATS; i++)
		n += used->is[i] && s->seat[i].uid == uid;
	return n;
}

unsigned seats_owned(const struct seats *s, uint32_t uid)
{
	unsigned n = 0;

	for (unsigned i = 1; i < AGENT_SEATS; i++)
		n += s->seat[i].token >= 0 && s->seat[i].uid == uid;
	return n;
}

int seats_pick_lowest(const struct seats *s, const struct seats_used *used, uint32_t uid)
{
	int fresh = -ENOSPC, other = -ENOSPC;

	for (int i = 1; i < AGENT_SEATS; i++) {
		const struct seat *seat = &s->seat[i];

		if (used->is[i])
			continue;
		if (seat->token >= 0 && seat->uid == uid)
			return i;
		if (seat->token < 0 && fresh < 0)
			fresh = i;
		else if (seat->token >= 0 && other < 0)
			other = i;
	}
	return fresh > 0 ? fresh : other;
}

uint16_t seats_following_index(const struct seats *s, unsigned place)
{
	return (uint16_t)((s->seat[place].next_index + INDEX_STRIDE) % AGENT_INDEXES);
}

bool seats_prove(struct seats *s, unsigned place, uint64_t nonce)
{
	struct seat *seat = &s->seat[place];
	bool proven;

	if (seat->token < 0)
		return false;
	/* An earlier one may be there, of a worker that died before it read it. */
	for (unsigned i = 0; i < READS_MAX; i++) {
		uint64_t read;

		if (recv(seat->token, &read, sizeof(read), MSG_DONTWAIT) != sizeof(read))
			break;
		seat->nonce = read;
	}
	proven = nonce != 0 && seat->nonce == nonce;
	if (proven)
		seat->nonce = 0;
	return proven;
}

int seats_new_token(int *ours, int *theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	*ours = pair[0];
	*theirs = pair[1];
	return 0;
}
