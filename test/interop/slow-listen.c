/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For LD_PRELOAD: a server that is held up for half a second before it listens for the second time,
 * as one is that has to wait for a processor.
 */
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <time.h>

__attribute__((visibility("default"))) int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	static const struct timespec half_a_second = {.tv_nsec = 500000000};
	static int calls;
	union {
		void *object;
		int (*function)(struct rdma_cm_id *id, int backlog);
	} real = {.object = dlsym(RTLD_NEXT, "rdma_listen")};

	if (calls++ == 1)
		nanosleep(&half_a_second, NULL);
	return real.function(id, backlog);
}
