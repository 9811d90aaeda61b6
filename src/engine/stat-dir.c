/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/stat-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/syssocket.h"

enum { NAMES_MAX = 8, SWEEP_MAX = 256, BACKLOG = 16, OTHERS = 077 };

_Static_assert(STAT_PATH_MAX < sizeof(((struct sockaddr_un *)0)->sun_path), "path too long");

/* The longest name: ".PID.new" */
#define NAME_ROOM 16

bool stat_dir_env(char dir[static STAT_PATH_MAX])
{
	const char *env = secure_getenv("ROCEMU_STAT");

	*dir = 0;
	if (env && *env == '/' && strlen(env) < STAT_PATH_MAX - NAME_ROOM)
		strcpy(dir, env);
	return !env || strcmp(env, "off") != 0;
}

bool stat_dir_place(uid_t uid, unsigned place, char dir[static STAT_PATH_MAX])
{
	static const char *const formats[] = {"/run/user/%u/rocemu-stat", "/tmp/rocemu-stat-%u",
					      "/dev/shm/rocemu-stat-%u"};

	if (place >= sizeof(formats) / sizeof(*formats))
		return false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(dir, STAT_PATH_MAX, formats[place], (unsigned)uid);
#pragma GCC diagnostic pop
	return true;
}

int stat_dir_open(const char *dir, uid_t uid, bool create)
{
	struct stat st;
	int fd;

	if (create && mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && st.st_uid == uid && !(st.st_mode & OTHERS))
		return fd;
	close(fd);
	return -EPERM;
}

pid_t stat_name_pid(const char *name)
{
	const size_t digits = strspn(name, "0123456789");
	const char *rest = name + digits;

	if (!digits || digits > 9 || *name == '0')
		return 0;
	if (*rest && (rest[0] != '.' || rest[1] < '1' || rest[1] > '9' || rest[2]))
		return 0;
	return (pid_t)strtol(name, NULL, 10);
}

static int new_socket(const char *path, struct sockaddr_un *un)
{
	int fd;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(un->sun_path))
		return -ENAMETOOLONG;
	strcpy(un->sun_path, path);
	fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 ? -errno : fd;
}

int stat_connect(const char *path)
{
	struct sockaddr_un un;
	const int fd = new_socket(path, &un);
	int err;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static bool has_no_listener(const char *path)
{
	const int fd = stat_connect(path);

	if (fd >= 0)
		close(fd);
	return fd == -ECONNREFUSED;
}

/** Of ".PID.new", too: a socket whose process was killed before it had its name. */
static pid_t maker(const char *name)
{
	pid_t pid = 0;
	int end = 0;

	if (sscanf(name, ".%9d.new%n", &pid, &end) == 1 && end && !name[end])
		return pid > 0 ? pid : 0;
	return stat_name_pid(name);
}

void stat_dir_sweep(const char *dir, int fd)
{
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	unsigned n = 0;
	struct dirent *e;

	if (!d && copy >= 0)
		close(copy);
	if (d)
		rewinddir(d); /* the position is fd's */
	while (d && n < SWEEP_MAX && (e = readdir(d))) {
		const pid_t pid = maker(e->d_name);
		char path[STAT_PATH_MAX];

		/*
		 * A process of another PID namespace does not exist here, either: check for a
		 * listener as well.
		 */
		if (!pid || (kill(pid, 0) == 0 || errno != ESRCH) ||
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		n++;
		if (has_no_listener(path))
			unlinkat(fd, e->d_name, 0);
	}
	if (d)
		closedir(d);
}

/* A free name, or that of a process that is gone. */
static bool find_name(const char *dir, char path[static STAT_PATH_MAX])
{
	for (unsigned i = 0; i < NAMES_MAX; i++) {
		char suffix[4] = "";
		int fd;

		if (i)
			snprintf(suffix, sizeof(suffix), ".%u", i);
		if (snprintf(path, STAT_PATH_MAX, "%s/%d%s", dir, (int)getpid(), suffix) >=
		    STAT_PATH_MAX)
			return false;
		fd = stat_connect(path);
		if (fd == -ENOENT || fd == -ECONNREFUSED)
			return true;
		if (fd >= 0)
			close(fd);
	}
	return false;
}

/*
 * It gets its name once it listens: a socket that refuses connections under such a name is stale.
 */
int stat_dir_listen(const char *dir, char path[static STAT_PATH_MAX])
{
	char fresh[STAT_PATH_MAX];
	struct sockaddr_un un;
	int fd, err = 0;

	if (snprintf(fresh, sizeof(fresh), "%s/.%d.new", dir, (int)getpid()) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	fd = new_socket(fresh, &un);
	if (fd < 0)
		return fd;
	unlink(fresh);
	/* The name gets this mode, less what the umask takes. */
	(void)fchmod(fd, 0600);
	if (bind(fd, (const struct sockaddr *)&un, sizeof(un)) < 0 || listen(fd, BACKLOG) < 0)
		err = -errno;
	else if (!find_name(dir, path))
		err = -EADDRINUSE;
	else if (rename(fresh, path) < 0)
		err = -errno;
	if (!err)
		return fd;
	unlink(fresh);
	close(fd);
	return err;
}
