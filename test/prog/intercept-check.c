/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many devices there are, by whichever libibverbs the dynamic linker gives. cases_intercept.py
 * builds this file in many ways, as programs and as libraries that other programs load.
 */
#include <dlfcn.h>
#include <stdio.h>

struct ibv_device;
struct ibv_context;
struct ibv_device **ibv_get_device_list(int *n);
struct ibv_context **rdma_get_devices(int *n);
int devices(void);

int devices(void)
{
	int n = -1;

#ifdef VERBS
	if (!ibv_get_device_list(&n))
		return -1;
#endif
#ifdef RDMACM /* has the same devices */
	if (!rdma_get_devices(&n))
		return -1;
#endif
	return n;
}

/* A library with this function, or a libibverbs. */
static int devices_of(void *library)
{
	struct ibv_device **(*list)(int *n);
	int (*count)(void);
	int n = -1;

	*(void **)(void *)&count = dlsym(library, "devices");
	if (count)
		return count();
	*(void **)(void *)&list = dlsym(library, "ibv_get_device_list");
	return list && list(&n) ? n : -1;
}

/* Without arguments by its own libraries, else by those that it opens; "-FILE" is only opened. */
int main(int argc, char **argv)
{
	if (argc < 2)
		printf("%d\n", devices());
	for (int i = 1; i < argc; i++) {
		const int only_load = argv[i][0] == '-';
		void *library = dlopen(argv[i] + only_load, RTLD_NOW);

		if (!library)
			fprintf(stderr, "%s\n", dlerror());
		else if (!only_load)
			printf("%d\n", devices_of(library));
		fflush(stdout);
	}
	return 0;
}
