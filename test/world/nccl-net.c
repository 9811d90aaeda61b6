/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives a network plugin of NCCL (libnccl-net.so) as NCCL does, without a GPU: two processes
 * connect, register host memory, exchange messages by isend and irecv, and compare each byte.
 *
 *	nccl-net PLUGIN [DEVICE]
 *
 * The plugin has the symbol ncclNetPlugin_v9, which plugins keep beside newer ones.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	HANDLE_SIZE = 128,
	PTR_HOST = 1,
	GUARD_S = 60,
	BUFFER_SIZE = 1 << 22,
	GROUP = 2, /* receives that are posted as one, where the plugin takes several */
};

/* Version 9 of the plugin interface; results are 0 or an error. */
struct net_properties {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, force_flush, speed_mbps, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
	int virtual_devices, parts[4];
	size_t max_p2p_size, max_coll_size;
};

typedef void net_log(int level, unsigned long flags, const char *file, int line, const char *format,
		     ...);

struct net {
	const char *name;
	int (*init)(net_log *log);
	int (*devices)(int *count);
	int (*get_properties)(int device, struct net_properties *properties);
	int (*listen)(int device, void *handle, void **listener);
	int (*connect)(int device, void *handle, void **sender, void **offload);
	int (*accept)(void *listener, void **receiver, void **offload);
	int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mr);
	int (*reg_mr_dmabuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
			     void **mr);
	int (*dereg_mr)(void *comm, void *mr);
	int (*isend)(void *sender, void *data, size_t size, int tag, void *mr, void **request);
	int (*irecv)(void *receiver, int n, void **data, size_t *sizes, int *tags, void **mrs,
		     void **request);
	int (*iflush)(void *receiver, int n, void **data, int *sizes, void **mrs, void **request);
	int (*test)(void *request, int *done, int *sizes);
	int (*close_sender)(void *sender);
	int (*close_receiver)(void *receiver);
	int (*close_listener)(void *listener);
};

static const int sizes[] = {0, 1, 8, 4096, 65536, 1000001, BUFFER_SIZE};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), MESSAGES = SIZES * GROUP * 4 };

static const char *role;

static void fail(const char *what, int result)
{
	fprintf(stderr, "%s: %s: %d\n", role, what, result);
	exit(1);
}

static void check(const char *what, int result)
{
	if (result)
		fail(what, result);
}

/* Warnings, and with NCCL_DEBUG all else. */
__attribute__((format(printf, 5, 6))) static void
print_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	if (level > 2 && !getenv("NCCL_DEBUG"))
		return;
	fprintf(stderr, "%s: ", role);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* One step of a wait; a hang ends the program. */
static void still_waiting(time_t since, const char *what)
{
	if (time(NULL) - since > GUARD_S)
		fail(what, -ETIMEDOUT);
}

static uint8_t byte_of(int message, int at)
{
	return (uint8_t)(message * 31 + at * 7 + (at >> 8));
}

/* Sizes of the messages of a group, as received. */
static void finish(const struct net *net, void *request, int *received)
{
	time_t since = time(NULL);
	int done = 0;

	while (!done) {
		check("test", net->test(request, &done, received));
		still_waiting(since, "a request does not complete");
	}
}

static void take_memory(const struct net *net, void *comm, uint8_t **data, void **mrs)
{
	for (int i = 0; i < GROUP; i++) {
		data[i] = malloc(BUFFER_SIZE);
		if (!data[i])
			fail("memory", ENOMEM);
		check("regMr", net->reg_mr(comm, data[i], BUFFER_SIZE, PTR_HOST, &mrs[i]));
	}
}

static void give_memory(const struct net *net, void *comm, uint8_t **data, void **mrs)
{
	for (int i = 0; i < GROUP; i++) {
		check("deregMr", net->dereg_mr(comm, mrs[i]));
		free(data[i]);
	}
}

static void transfer(int fd, void *data, size_t size, int send_it)
{
	ssize_t n = send_it ? write(fd, data, size) : read(fd, data, size);

	if (n != (ssize_t)size)
		fail("the other process has ended", errno);
}

/* ---- the sender ---- */

/* n messages, which the receiver has posted as one group, from the first on. */
static void send_group(const struct net *net, void *sender, uint8_t **data, int first, int n,
		       void **mrs)
{
	void *requests[GROUP] = {NULL};
	time_t since = time(NULL);

	for (int i = 0; i < n; i++) {
		const int size = sizes[(first + i) % SIZES];

		for (int at = 0; at < size; at++)
			data[i][at] = byte_of(first + i, at);
		while (!requests[i]) {
			check("isend", net->isend(sender, data[i], (size_t)size,
						  (first + i) % GROUP, mrs[i], &requests[i]));
			still_waiting(since, "the receiver posts nothing");
		}
	}
	for (int i = 0; i < n; i++)
		finish(net, requests[i], NULL);
}

static void run_sender(const struct net *net, int device, int fd, int group)
{
	void *sender = NULL, *offload = NULL, *mrs[GROUP];
	uint8_t handle[HANDLE_SIZE], *data[GROUP];
	time_t since = time(NULL);

	transfer(fd, handle, sizeof(handle), 0);
	while (!sender) {
		check("connect", net->connect(device, handle, &sender, &offload));
		still_waiting(since, "no connection");
	}
	take_memory(net, sender, data, mrs);
	for (int i = 0; i < MESSAGES; i += group)
		send_group(net, sender, data, i, group, mrs);
	give_memory(net, sender, data, mrs);
	check("closeSend", net->close_sender(sender));
}

/* ---- the receiver ---- */

/* n messages, posted as one group, from the first on. */
static void receive(const struct net *net, void *receiver, uint8_t **data, int first, int n,
		    void **mrs)
{
	int tags[GROUP], received[GROUP] = {-1, -1};
	size_t room[GROUP];
	time_t since = time(NULL);
	void *request = NULL;

	for (int i = 0; i < n; i++) {
		room[i] = BUFFER_SIZE;
		tags[i] = (first + i) % GROUP;
		memset(data[i], 0, BUFFER_SIZE);
	}
	while (!request) {
		check("irecv", net->irecv(receiver, n, (void **)data, room, tags, mrs, &request));
		still_waiting(since, "no receive can be posted");
	}
	finish(net, request, received);
	for (int i = 0; i < n; i++) {
		if (received[i] != sizes[(first + i) % SIZES])
			fail("a message has another size", received[i]);
		for (int at = 0; at < received[i]; at++)
			if (data[i][at] != byte_of(first + i, at))
				fail("a byte is another, at", at);
	}
}

static void run_receiver(const struct net *net, int device, int fd, int group)
{
	void *listener, *receiver = NULL, *offload = NULL, *mrs[GROUP];
	uint8_t handle[HANDLE_SIZE] = {0}, *data[GROUP];
	time_t since = time(NULL);

	check("listen", net->listen(device, handle, &listener));
	transfer(fd, handle, sizeof(handle), 1);
	while (!receiver) {
		check("accept", net->accept(listener, &receiver, &offload));
		still_waiting(since, "no connection");
	}
	take_memory(net, receiver, data, mrs);
	for (int i = 0; i < MESSAGES; i += group)
		receive(net, receiver, data, i, group, mrs);
	give_memory(net, receiver, data, mrs);
	check("closeRecv", net->close_receiver(receiver));
	check("closeListen", net->close_listener(listener));
	printf("%d messages of up to %d bytes, in groups of %d: as sent\n", MESSAGES, BUFFER_SIZE,
	       group);
}

static int run(const char *path, int device, int fd, int receives)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct net *net = library ? dlsym(library, "ncclNetPlugin_v9") : NULL;
	struct net_properties properties = {0};
	int devices = 0, group;

	if (!net) {
		fprintf(stderr, "%s: %s\n", role, dlerror());
		return 1;
	}
	check("init", net->init(print_log));
	check("devices", net->devices(&devices));
	if (device >= devices)
		fail("devices", devices);
	check("getProperties", net->get_properties(device, &properties));
	group = properties.max_recvs < GROUP ? 1 : GROUP;
	if (!receives) {
		run_sender(net, device, fd, group);
		return 0;
	}
	printf("%s: %d devices; %d is %s, port %d, %d Mbit/s\n", net->name, devices, device,
	       properties.name, properties.port, properties.speed_mbps);
	run_receiver(net, device, fd, group);
	return 0;
}

int main(int argc, char **argv)
{
	int fds[2], status = 0, device = argc > 2 ? atoi(argv[2]) : 0, ret;
	pid_t child;

	if (argc < 2) {
		fprintf(stderr, "usage: nccl-net PLUGIN [DEVICE]\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		fail("socketpair", errno);
	child = fork();
	role = child ? "receiver" : "sender";
	close(fds[child == 0]);
	ret = run(argv[1], device, fds[child != 0], child != 0);
	if (child)
		waitpid(child, &status, 0);
	return ret ? ret : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
