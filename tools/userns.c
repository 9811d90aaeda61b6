/* SPDX-License-Identifier: BSD-2-Clause */
#include "userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

static bool write_file(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	const int err = errno;

	if (fd >= 0)
		close(fd);
	errno = err;
	return ok;
}

/** Is there a line in path that begins with text? */
static bool file_has(const char *path, const char *text)
{
	FILE *f = fopen(path, "re");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, text, strlen(text)) == 0;
	if (f)
		fclose(f);
	return found;
}

const char *userns_refusal(void)
{
	static const struct {
		const char *path, *line, *text;
	} settings[] = {
		{"/proc/sys/user/max_user_namespaces", "0\n",
		 ": user namespaces are off: as root, \"sysctl -w "
		 "user.max_user_namespaces=10000\""},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0\n",
		 ": user namespaces are root's alone: as root, "
		 "\"sysctl -w kernel.unprivileged_userns_clone=1\""},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n",
		 ": AppArmor restricts user namespaces: as root, "
		 "\"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0\""},
		{"/proc/self/status", "Seccomp:\t2\n",
		 ": a seccomp filter is in force, a container's perhaps, which may forbid "
		 "namespaces"},
	};

	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		if (file_has(settings[i].path, settings[i].line))
			return settings[i].text;
	return "";
}

static int fail(char *errbuf, size_t errlen, const char *what)
{
	const int err = errno;

	snprintf(errbuf, errlen, "%s: %s%s", what, strerror(err), userns_refusal());
	return -err;
}

int userns_unshare(int flags, char *errbuf, size_t errlen)
{
	const unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(flags) == 0)
		return 0;
	if (errno != EPERM || unshare(CLONE_NEWUSER | flags) < 0)
		return fail(errbuf, errlen, "no namespaces for this user");
	write_file("/proc/self/setgroups", "deny"); /* fails where it is not needed */
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if (!write_file("/proc/self/uid_map", map))
		return fail(errbuf, errlen, "/proc/self/uid_map");
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	if (!write_file("/proc/self/gid_map", map))
		return fail(errbuf, errlen, "/proc/self/gid_map");
	return 0;
}
