/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/stat-server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "engine/lane.h"
#include "engine/poller.h"
#include "engine/stat-dir.h"

enum {
	IO_MS = 200,	  /* of waiting for the other end, each time */
	CLIENT_MS = 2000, /* for a client in all */
	AGAIN_MS = 100,	  /* when there was no descriptor for a client */
};

static struct {
	struct mutex lock; /* guards users and whether it runs; a leaf */
	unsigned users;
	bool running;
	/* Set while it does not run. */
	int fd;
	ino_t inode; /* of fd */
	stat_fill_fn fill;
	char path[STAT_PATH_MAX];
	pthread_t thread;
	atomic_bool stop;
} server = {.lock = MUTEX_INITIALIZER};

/* ---- the thread ---- */

static bool may_query(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       (cred.uid == geteuid() || cred.uid == getuid() || cred.uid == 0);
}

static bool is_over(rocemu_ns_t end)
{
	return atomic_load(&server.stop) || lane_now() >= end;
}

static bool wait_for(int fd, short events, rocemu_ns_t end)
{
	struct pollfd p = {.fd = fd, .events = events};

	while (!is_over(end))
		if (poll(&p, 1, IO_MS) > 0)
			return true;
	return false;
}

static bool receive_request(int fd, rocemu_ns_t end)
{
	struct stat_request r;
	size_t len = 0;

	while (len < sizeof(r) && wait_for(fd, POLLIN, end)) {
		const ssize_t n = recv(fd, (uint8_t *)&r + len, sizeof(r) - len, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		len += n > 0 ? (size_t)n : 0;
	}
	return stat_request_is_valid(&r, len);
}

static void send_all(int fd, const uint8_t *data, size_t len, rocemu_ns_t end)
{
	while (len && wait_for(fd, POLLOUT, end)) {
		const ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

/* Of the process, which may have another name than this thread. */
static void get_comm(char comm[STAT_NAME])
{
	const int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, comm, STAT_NAME - 1);

	if (fd >= 0)
		close(fd);
	comm[n > 0 ? n : 0] = 0;
	comm[strcspn(comm, "\n")] = 0;
}

static void answer(int fd, rocemu_ns_t end)
{
	struct stat_head head = {
		.magic = STAT_MAGIC,
		.version = STAT_VERSION,
		.lane_size = sizeof(struct stat_lane),
		.qp_size = sizeof(struct rocemu_qp_report),
		.pid = (uint32_t)getpid(),
		.now_ns = lane_now(),
	};
	struct stat_buf b = {0};

	get_comm(head.comm);
	if (stat_buf_reserve(&b, sizeof(head))) {
		b.len = sizeof(head);
		head.err = -server.fill(&b, &head.nlanes, &server.stop);
		memcpy(b.data, &head, sizeof(head));
	}
	send_all(fd, b.data, b.len, end);
	free(b.data);
}

static void *thread_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&server.stop)) {
		struct pollfd p = {.fd = server.fd, .events = POLLIN};
		rocemu_ns_t end;
		int fd;

		/* The socket does not block: the client may be gone. */
		if (poll(&p, 1, -1) < 0 || p.revents & POLLNVAL)
			break;
		fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno == EINVAL || errno == ENOTSOCK)
				break;
			if (errno != EAGAIN && errno != ECONNABORTED)
				poll(NULL, 0, AGAIN_MS); /* no descriptor, no memory */
			continue;
		}
		end = lane_now() + CLIENT_MS * 1000000ull;
		if (may_query(fd) && receive_request(fd, end))
			answer(fd, end);
		close(fd);
	}
	return NULL;
}

/* ---- start and stop ---- */

static int listen_in(const char *dir)
{
	const int fd = stat_dir_open(dir, geteuid(), true);

	if (fd < 0)
		return fd;
	stat_dir_sweep(dir, fd);
	poller_share(fd);
	close(fd);
	return stat_dir_listen(dir, server.path);
}

static int listen_somewhere(void)
{
	char dir[STAT_PATH_MAX];
	int fd = -ENOENT;

	if (!stat_dir_env(dir))
		return -ECANCELED;
	if (!*dir && secure_getenv("ROCEMU_STAT") && *secure_getenv("ROCEMU_STAT"))
		log_info("ROCEMU_STAT: expected \"off\", or an absolute path of at most 87 "
			 "characters");
	if (*dir)
		return listen_in(dir);
	for (unsigned i = 0; fd < 0 && stat_dir_place(geteuid(), i, dir); i++)
		fd = listen_in(dir);
	return fd;
}

static void start(stat_fill_fn fill)
{
	struct stat st = {0};
	int err;

	server.fill = fill;
	atomic_store(&server.stop, false);
	server.fd = listen_somewhere();
	if (server.fd >= 0)
		fstat(server.fd, &st);
	server.inode = st.st_ino;
	err = server.fd < 0 ? server.fd
			    : thread_start(&server.thread, "rocemu-stat", thread_main, NULL);
	if (err && server.fd >= 0) {
		unlink(server.path);
		close(server.fd);
	}
	if (err && err != -ECANCELED)
		log_info("\"rocemu stat\" will not show this process: %s", strerror(-err));
	server.running = !err;
}

/* A program may close all descriptors, and this number be a file of its own since. */
static bool is_ours(void)
{
	struct stat st;

	return fstat(server.fd, &st) == 0 && st.st_ino == server.inode;
}

static void stop(void)
{
	server.running = false;
	unlink(server.path);
	atomic_store(&server.stop, true);
	if (!is_ours()) {
		pthread_detach(server.thread); /* which waits without a way to wake it */
		return;
	}
	shutdown(server.fd, SHUT_RDWR); /* ends its poll() */
	pthread_join(server.thread, NULL);
	close(server.fd);
}

void stat_server_use(stat_fill_fn fill)
{
	MUTEX_HELD(&server.lock);
	if (!server.users++)
		start(fill);
}

void stat_server_unuse(void)
{
	MUTEX_HELD(&server.lock);
	if (!--server.users && server.running)
		stop();
}

void stat_server_forget(void)
{
	mutex_init(&server.lock);
	server.users = 0;
	if (server.running && is_ours())
		close(server.fd);
	server.running = false;
}

void stat_server_exit(void)
{
	/* From a signal's handler, perhaps. */
	if (!mutex_trylock(&server.lock))
		return;
	if (server.running)
		unlink(server.path);
	mutex_unlock(&server.lock);
}
