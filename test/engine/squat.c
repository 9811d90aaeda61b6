/* SPDX-License-Identifier: BSD-2-Clause */
#include "squat.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "test.h"
#include "user.h"

int squat_on(const char *instance, uint16_t slot, const char *suffix, bool listens)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	const int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "rocemu-lane-v2:0:%s:%u%s",
			       instance, (unsigned)slot, suffix);
	const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd >= 0 && !bind(fd, (struct sockaddr *)&un, len) && (!listens || !listen(fd, 8)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

void squat_begin(struct squat *s, const char *instance, enum squat_how how)
{
	s->n = 0;
	user_act_as(SQUATTER);
	for (uint16_t slot = 1; slot <= SQUAT_SLOTS; slot++) {
		int fd = squat_on(instance, slot, "", how != SQUAT_BINDS);

		if (fd >= 0)
			s->fd[s->n++] = fd;
		else
			assert_int_equal(fd, -EADDRINUSE);
		if (how != SQUAT_IMITATES)
			continue;
		fd = squat_on(instance, slot, "+0123456789abcdef", true);
		assert_true(fd >= 0);
		s->fd[s->n++] = fd;
	}
	user_return();
}

void squat_end(struct squat *s)
{
	while (s->n)
		close(s->fd[--s->n]);
}
