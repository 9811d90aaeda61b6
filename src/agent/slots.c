/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/slots.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/syssocket.h"

/*
 * How far numbering moves on each time a slot is used again. Odd, so that all 2^14 starts come
 * round, and well above the number of QPs of most programs, so that QPNs of the last users stay
 * unused for long.
 */
enum { INDEX_STRIDE = 509 };

static void slot_part(unsigned slot, char part[static 16])
{
	snprintf(part, 16, "slot-%u", slot);
}

void slots_init(struct slots *s, const struct agent_realm *realm)
{
	struct rng rng;
	uint64_t seed = 0;

	s->realm = realm;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
		struct timespec ts;

		clock_gettime(CLOCK_REALTIME, &ts);
		seed = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec +
		       (uint64_t)getpid();
	}
	rng_init(&rng, seed);
	for (unsigned i = 0; i < AGENT_SLOTS; i++)
		s->next_index[i] = (uint16_t)rng_below(&rng, AGENT_INDEXES);
}

int slots_take(struct slots *s, int *token, uint16_t *first_index)
{
	int fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		struct sockaddr_un sa;
		socklen_t len;
		char part[16];

		slot_part(slot, part);
		len = agent_realm_addr(s->realm, part, &sa);
		if (bind(fd, (struct sockaddr *)(void *)&sa, len) == 0) {
			*token = fd;
			*first_index = s->next_index[slot];
			s->next_index[slot] =
				(uint16_t)((*first_index + INDEX_STRIDE) % AGENT_INDEXES);
			return (int)slot;
		}
		if (errno != EADDRINUSE) {
			int err = errno;

			close(fd);
			return -err;
		}
	}
	close(fd);
	return -ENOSPC;
}

bool slots_is_token(const struct slots *s, int token, uint16_t slot)
{
	char part[16];

	slot_part(slot, part);
	return agent_realm_owns(s->realm, token, false, part);
}
