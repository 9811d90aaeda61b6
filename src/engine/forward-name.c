/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/forward-name.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/syssocket.h"
#include "base/unixnames.h"

enum {
	LISTEN_BACKLOG = 64,
	SUFFIX_LEN = 1 + 16, /* '+' and a random number */
	SEARCH_SHARE = 50,   /* a search takes this part of the time until the next one */
};
#define SLOT_PAUSE_NS NS_PER_S /* between searches for a slot that has no lane */

/* Abstract, so per network namespace as port 4791 is, and gone with its owner. */
static socklen_t name_of(struct sockaddr_un *un, const char *instance, uint16_t slot,
			 const char *suffix)
{
	int n;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rocemu-lane-v2:%u:%s:%u%s",
		     (unsigned)geteuid(), instance, (unsigned)slot, suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int new_socket(void)
{
	const int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

bool forward_is_same_user(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       (cred.uid == geteuid() || cred.uid == getuid());
}

static int listen_on(const char *instance, uint16_t slot, const char *suffix)
{
	struct sockaddr_un un;
	const socklen_t len = name_of(&un, instance, slot, suffix);
	const int fd = new_socket();
	int err;

	if (fd < 0 || (!bind(fd, (const struct sockaddr *)&un, len) && !listen(fd, LISTEN_BACKLOG)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int forward_name_listen(const char *instance, uint16_t slot)
{
	const int fd = listen_on(instance, slot, "");
	char suffix[SUFFIX_LEN + 1];
	uint64_t random;

	if (fd != -EADDRINUSE)
		return fd;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return fd;
	snprintf(suffix, sizeof(suffix), "+%016" PRIx64, random);
	return listen_on(instance, slot, suffix);
}

static int connect_to(const struct sockaddr_un *un, socklen_t len)
{
	const int fd = new_socket();
	int err = 0;

	if (fd < 0)
		return fd;
	if (connect(fd, (const struct sockaddr *)un, len))
		err = -errno;
	else if (!forward_is_same_user(fd))
		err = -EPERM;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* The slot's lane by its other names. @return as connect_to(); other: the error if there is none.
 */
static int search(const char *instance, uint16_t slot, int other)
{
	struct unix_names names;
	struct sockaddr_un un;
	char prefix[sizeof(un.sun_path)];
	const char *rest;
	int fd = other;

	(void)name_of(&un, instance, slot, "+");
	memcpy(prefix, un.sun_path + 1, sizeof(prefix) - 1);
	prefix[sizeof(prefix) - 1] = '\0';
	unix_names_open(&names);
	while (fd < 0 && (rest = unix_names_next(&names, prefix))) {
		char suffix[SUFFIX_LEN + 1] = "+";

		if (strlen(rest) != SUFFIX_LEN - 1)
			continue;
		memcpy(suffix + 1, rest, SUFFIX_LEN);
		fd = connect_to(&un, name_of(&un, instance, slot, suffix));
	}
	unix_names_close(&names);
	return fd < 0 ? other : fd;
}

int forward_name_connect(struct forward_finder *f, uint16_t slot)
{
	struct sockaddr_un un;
	const socklen_t len = name_of(&un, f->instance, slot, "");
	int fd = connect_to(&un, len);
	uint64_t begin, end;

	if ((fd != -ECONNREFUSED && fd != -EPERM && fd != -EAGAIN) || slot >= FORWARD_SLOTS)
		return fd;
	begin = monotonic_ns();
	if (begin < f->search_at || begin < f->slot_at[slot])
		return fd;
	fd = search(f->instance, slot, fd);
	end = monotonic_ns();
	f->search_at = end + (end - begin) * SEARCH_SHARE;
	if (fd < 0)
		f->slot_at[slot] = end + SLOT_PAUSE_NS;
	return fd;
}
