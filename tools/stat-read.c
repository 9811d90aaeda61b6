/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queries the processes. The request is sent to all first, then the answers are read, so that the
 * time limit of silent ones is spent once. The listener must be the directory's owner
 * (SO_PEERCRED), and its answer is checked like any foreign input, because root queries the
 * processes of all users.
 */
#include "stat-show.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine/stat-dir.h"

enum {
	ANSWER_MS = 1500,
	PROCESSES_MAX = 4096,
	ALL_BYTES_MAX = 512 << 20,
	/* Of both, another user's when root queries all: one user cannot hide those of others. */
	USERS_SHARE = 4,
};

/* A process with a query under way. */
struct asked {
	int fd; /* -1: no more */
	struct stat_buf got;
	size_t bytes; /* of its answer */
};

struct reading {
	struct stat_list *list;
	struct asked *asked; /* owned; as many as list->process */
	pid_t only;
	size_t bytes; /* of all answers */
	bool no_memory;
};

static void copy_printable(char *out, const char *in, size_t size)
{
	size_t i = 0;

	for (; i + 1 < size && in[i]; i++)
		out[i] = (char)(isprint((unsigned char)in[i]) ? in[i] : '?');
	out[i] = 0;
}

/** The first line of a file of /proc/PID. */
static bool proc_text(pid_t pid, const char *file, char *out, size_t size)
{
	char path[64];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "re");
	ok = f && fgets(out, (int)size, f);
	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = 0;
	return ok;
}

/** Is it stopped, by a signal or a debugger? */
static bool is_stopped(pid_t pid)
{
	char text[512];
	const char *state;

	if (!proc_text(pid, "stat", text, sizeof(text)))
		return false;
	state = strrchr(text, ')');
	return state && state[1] && (state[2] == 'T' || state[2] == 't');
}

/* ---- queries ---- */

static struct stat_process *add(struct reading *r, struct asked **asked)
{
	const unsigned n = r->list->n;
	void *process, *more;

	if (n >= PROCESSES_MAX)
		return NULL;
	process = realloc(r->list->process, (n + 1) * sizeof(*r->list->process));
	if (process)
		r->list->process = process;
	more = process ? realloc(r->asked, (n + 1) * sizeof(*r->asked)) : NULL;
	if (!more) {
		r->no_memory = true;
		return NULL;
	}
	r->asked = more;
	r->list->n++;
	*asked = &r->asked[n];
	**asked = (struct asked){.fd = -1};
	r->list->process[n] = (struct stat_process){0};
	return &r->list->process[n];
}

/** Of PROCESSES_MAX or ALL_BYTES_MAX, what the processes of a user may have. */
static size_t share(uid_t uid, size_t all)
{
	return uid == geteuid() ? all : all / USERS_SHARE;
}

/** Has the user as many processes in the list as it may have? */
static bool has_all_its_places(const struct reading *r, uid_t uid)
{
	size_t n = 0;

	for (unsigned i = 0; i < r->list->n; i++)
		n += r->list->process[i].uid == uid;
	return n >= share(uid, PROCESSES_MAX);
}

/** Are the answers of the user's processes longer than they may be? */
static bool has_too_many_bytes(const struct reading *r, uid_t uid)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < r->list->n; i++)
		bytes += r->list->process[i].uid == uid ? r->asked[i].bytes : 0;
	return bytes > share(uid, ALL_BYTES_MAX);
}

/** What listens there is the owner's process; *pid: which. */
static bool is_owners(int fd, uid_t owner, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != owner)
		return false;
	if (cred.pid) /* 0: of another PID namespace */
		*pid = cred.pid;
	return true;
}

/** @return -ECONNREFUSED: no listener any more. */
static int query(struct reading *r, const char *path, pid_t pid, uid_t owner)
{
	const struct stat_request request = {.magic = STAT_MAGIC, .version = STAT_VERSION};
	const int fd = stat_connect(path);
	struct stat_process *p;
	struct asked *a;
	char comm[64];

	if (fd == -ECONNREFUSED || fd == -ENOENT)
		return fd;
	if (fd >= 0 && !is_owners(fd, owner, &pid)) {
		close(fd);
		return -EPERM;
	}
	p = r->only && r->only != pid ? NULL : add(r, &a);
	if (!p) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	p->pid = pid;
	p->uid = owner;
	if (proc_text(pid, "comm", comm, sizeof(comm)))
		copy_printable(p->comm, comm, sizeof(p->comm));
	if (is_stopped(pid))
		snprintf(p->problem, sizeof(p->problem),
			 "it is stopped (by a signal or a debugger)");
	else if (fd < 0)
		snprintf(p->problem, sizeof(p->problem), "query failed: %s", strerror(-fd));
	else if (send(fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT) !=
		 sizeof(request))
		snprintf(p->problem, sizeof(p->problem), "query failed: %s", strerror(errno));
	if (!*p->problem)
		a->fd = fd;
	else if (fd >= 0)
		close(fd);
	return 0;
}

/** All processes of a directory, if it is what it is to be. */
static void query_dir(struct reading *r, const char *dir, uid_t owner)
{
	const int fd = stat_dir_open(dir, owner, false);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char path[STAT_PATH_MAX];
	struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (!has_all_its_places(r, owner) && (e = readdir(d))) {
		struct stat st, now;

		/* By the descriptor: the directory's path may be another's by now. */
		if (!stat_name_pid(e->d_name) ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%.32s", fd, e->d_name);
		/* Left behind, unless a process has taken the name meanwhile. */
		if (query(r, path, stat_name_pid(e->d_name), owner) == -ECONNREFUSED &&
		    fstatat(fd, e->d_name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
		    now.st_ino == st.st_ino)
			unlinkat(fd, e->d_name, 0);
	}
	closedir(d);
}

/** Root: the directories of all users. */
static void query_all_users(struct reading *r)
{
	static const char *const patterns[] = {"/run/user/*/rocemu-stat", "/tmp/rocemu-stat-*",
					       "/dev/shm/rocemu-stat-*"};
	struct stat st;
	glob_t g;

	for (unsigned i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		if (glob(patterns[i], GLOB_NOSORT, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++)
			if (lstat(g.gl_pathv[k], &st) == 0 && S_ISDIR(st.st_mode))
				query_dir(r, g.gl_pathv[k], st.st_uid);
		globfree(&g);
	}
}

static void query_all(struct reading *r)
{
	const uid_t me = geteuid();
	char dir[STAT_PATH_MAX];

	stat_dir_env(dir);
	if (*dir)
		query_dir(r, dir, me);
	else if (!me)
		query_all_users(r);
	else
		for (unsigned i = 0; stat_dir_place(me, i, dir); i++)
			query_dir(r, dir, me);
}

/* ---- taking answers ---- */

static void take_answer(struct stat_process *p, struct asked *a)
{
	const int err = a->got.len ? stat_check(a->got.data, a->got.len) : -ENODATA;

	close(a->fd);
	a->fd = -1;
	if (err == 0) {
		p->answer = (struct stat_head *)(void *)a->got.data;
		a->got.data = NULL;
		copy_printable(p->comm, p->answer->comm, sizeof(p->comm));
		if (p->answer->err)
			snprintf(p->problem, sizeof(p->problem), "not all of it: %s",
				 strerror(p->answer->err));
	} else if (err == -EPROTONOSUPPORT) {
		snprintf(p->problem, sizeof(p->problem), "it runs with another version of rocemu");
	} else if (err == -EPROTO) {
		snprintf(p->problem, sizeof(p->problem), "its answer makes no sense");
	} else {
		snprintf(p->problem, sizeof(p->problem), "it has ended, or refuses the query");
	}
	free(a->got.data);
	a->got = (struct stat_buf){0};
}

/** Some of the answer. @return false: that was its end, or there is too much: then it is not a
 * whole one. */
static bool take_some(struct reading *r, unsigned i)
{
	enum { PIECE = 65536 };
	struct asked *a = &r->asked[i];
	void *at = stat_buf_reserve(&a->got, PIECE);
	const ssize_t n = at ? recv(a->fd, at, PIECE, MSG_DONTWAIT) : 0;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	a->got.len += (size_t)n;
	a->bytes += (size_t)n;
	r->bytes += (size_t)n;
	return n > 0 && r->bytes <= ALL_BYTES_MAX &&
	       (r->bytes <= ALL_BYTES_MAX / USERS_SHARE ||
		!has_too_many_bytes(r, r->list->process[i].uid));
}

static void take_all(struct reading *r)
{
	const uint64_t end = monotonic_ns() + ANSWER_MS * 1000000ull;
	struct pollfd *fds = calloc(r->list->n + 1, sizeof(*fds));

	for (bool left = fds; left;) {
		const uint64_t now = monotonic_ns();

		left = false;
		for (unsigned i = 0; i < r->list->n; i++) {
			fds[i] = (struct pollfd){.fd = r->asked[i].fd, .events = POLLIN};
			left |= fds[i].fd >= 0;
		}
		if (!left || now >= end ||
		    poll(fds, r->list->n, (int)((end - now) / 1000000) + 1) < 1)
			break;
		for (unsigned i = 0; i < r->list->n; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !take_some(r, i))
				take_answer(&r->list->process[i], &r->asked[i]);
	}
	for (unsigned i = 0; i < r->list->n; i++) {
		if (r->asked[i].fd < 0)
			continue;
		snprintf(r->list->process[i].problem, sizeof(r->list->process[i].problem),
			 "it does not answer");
		close(r->asked[i].fd);
		free(r->asked[i].got.data);
	}
	free(fds);
}

static int by_pid(const void *a, const void *b)
{
	const struct stat_process *p = a, *q = b;

	return (p->pid > q->pid) - (p->pid < q->pid);
}

/** One for each process that answers. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)2 * PROCESSES_MAX) {
		limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)2 * PROCESSES_MAX);
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int stat_read(struct stat_list *out, pid_t only)
{
	struct reading r = {.list = out, .only = only};

	allow_descriptors();

	*out = (struct stat_list){.now_ns = monotonic_ns()};
	query_all(&r);
	take_all(&r);
	free(r.asked);
	if (out->n)
		qsort(out->process, out->n, sizeof(*out->process), by_pid);
	if (!r.no_memory)
		return 0;
	stat_list_free(out);
	return -ENOMEM;
}

void stat_list_free(struct stat_list *l)
{
	for (unsigned i = 0; i < l->n; i++)
		free(l->process[i].answer);
	free(l->process);
	*l = (struct stat_list){0};
}
