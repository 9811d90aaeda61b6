/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/private.h"

#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "verbs/fault.h"
#include "verbs/objects.h"

/* Guards the two; the tap's own lock is taken under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tap *tap; /* ref, or NULL */
static pid_t owner;	/* the process that asked for it; another one's is its own */

static struct tap *get_tap(void)
{
	char text[512];

	if (owner == getpid())
		return tap;
	owner = getpid();
	if (tap_get(&tap, text, sizeof(text)) < 0) {
		log_error("%s", text);
		tap = NULL;
	}
	return tap;
}

#define EXPORT __attribute__((visibility("default")))
EXPORT private_capture_fn rocemu_private_capture;
EXPORT private_emulates_fn rocemu_private_emulates;
EXPORT private_fault_fn rocemu_private_fault;

int rocemu_private_fault(enum fault_verb verb)
{
	vb_faults_load();
	return vb_fault(NULL, NULL, verb);
}

bool rocemu_private_emulates(struct ibv_device *device)
{
	return vb_device_of(device) != NULL;
}

void rocemu_private_capture(const struct tap_addr *a, const void *packet, size_t len)
{
	struct tap *t;

	pthread_mutex_lock(&lock);
	t = get_tap();
	if (t) {
		struct iovec iov = {.iov_len = len};
		struct tap_addr now = *a;

		/* An iovec has no const; it is only read. */
		iov.iov_base = (void *)(uintptr_t)packet;
		now.when_ns = tap_now();
		tap_write(t, &now, &iov, 1);
		tap_flush(t);
	}
	pthread_mutex_unlock(&lock);
}
