/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * paths-check DEVICE: looks at the device's files by every function of the C library that takes a
 * path, each must see the same. Started with "child" behind, it is started again as a child.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char class_dir[] = "/sys/class/infiniband";
static char device_dir[256], file[300], missing[300], text[64];
static unsigned checks;

#define CHECK(condition)                                                           \
	do {                                                                       \
		checks++;                                                          \
		if (!(condition)) {                                                \
			printf("failed, line %d: %s (%s)\n", __LINE__, #condition, \
			       strerror(errno));                                   \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

static void same_text(int fd)
{
	char buf[64] = "";

	CHECK(fd >= 0);
	CHECK(read(fd, buf, sizeof(buf) - 1) > 0);
	CHECK(!strcmp(buf, text));
	close(fd);
}

static void check_open(void)
{
	int dir = open(class_dir, O_RDONLY | O_DIRECTORY), flags = O_RDONLY;
	char *volatile relative = device_dir + sizeof(class_dir);
	char buf[64];
	FILE *f = fopen(file, "r");

	CHECK(f && fgets(text, sizeof(text), f));
	fclose(f);
	CHECK(strlen(text) == 20); /* a GUID and a newline */
	same_text(open(file, flags));
	same_text(open64(file, flags));
	same_text(openat(AT_FDCWD, file, flags));
	same_text(openat64(dir, file, flags));
	f = fopen64(file, "r");
	CHECK(f && fgets(buf, sizeof(buf), f) && !strcmp(buf, text));
	f = freopen(file, "r", f);
	CHECK(f && fgets(buf, sizeof(buf), f) && !strcmp(buf, text));
	fclose(f);
	/* Relative to what was opened. */
	CHECK(faccessat(dir, relative, R_OK, 0) == 0);
	close(dir);
	errno = 0;
	CHECK(open(missing, flags) < 0 && errno == ENOENT);
	CHECK(open("/dev/infiniband/rdma_cm", O_RDWR) >= 0);
}

static void check_stat(void)
{
	struct stat st, by_link;
	struct stat64 st64;
	struct statx stx;

	CHECK(stat(file, &st) == 0 && S_ISREG(st.st_mode));
	CHECK(stat64(file, &st64) == 0 && st64.st_ino == st.st_ino);
	CHECK(fstatat(AT_FDCWD, file, &by_link, 0) == 0 && by_link.st_ino == st.st_ino);
	CHECK(fstatat64(AT_FDCWD, file, &st64, 0) == 0 && st64.st_ino == st.st_ino);
	CHECK(statx(AT_FDCWD, file, 0, STATX_INO, &stx) == 0 && stx.stx_ino == st.st_ino);
	CHECK(stat(device_dir, &st) == 0 && S_ISDIR(st.st_mode));
	CHECK(lstat(device_dir, &by_link) == 0 && S_ISLNK(by_link.st_mode));
	CHECK(lstat64(device_dir, &st64) == 0 && st64.st_ino == by_link.st_ino);
	CHECK(stat("/dev/infiniband/rdma_cm", &st) == 0 && S_ISCHR(st.st_mode));
	errno = 0;
	CHECK(stat(missing, &st) < 0 && errno == ENOENT);
	CHECK(access(file, R_OK) == 0 && eaccess(file, R_OK) == 0);
	CHECK(access("/dev/infiniband/rdma_cm", R_OK | W_OK) == 0);
	CHECK(faccessat(AT_FDCWD, file, F_OK, 0) == 0);
	CHECK(access(missing, F_OK) < 0);
}

static int is_device(const struct dirent *e)
{
	return !strcmp(e->d_name, device_dir + sizeof(class_dir));
}

static void check_directories(void)
{
	struct dirent **list;
	const struct dirent *e;
	unsigned found = 0;
	DIR *d = opendir(class_dir);

	CHECK(d != NULL);
	while ((e = readdir(d)))
		found += (unsigned)is_device(e);
	closedir(d);
	CHECK(found == 1);
	CHECK(scandir(class_dir, &list, is_device, alphasort) == 1);
	free(list[0]);
	free(list);
	CHECK(!opendir(missing));
}

static void check_names(void)
{
	char buf[4096], link[4096], *name;
	ssize_t n;

	CHECK(realpath(device_dir, buf) == buf);
	CHECK(!strncmp(buf, "/sys/devices/virtual/infiniband/", 32));
	name = realpath(buf, NULL);
	CHECK(name && !strcmp(name, buf)); /* leads to itself */
	free(name);
	name = canonicalize_file_name(device_dir);
	CHECK(name && !strcmp(name, buf));
	free(name);
	/* The parent's directory is the system's. */
	snprintf(link, sizeof(link), "%s/../..", device_dir);
	CHECK(realpath(link, buf) && !strcmp(buf, "/sys/devices/virtual"));
	n = readlink(device_dir, link, sizeof(link));
	CHECK(n > 0 && !strncmp(link, "../../devices/virtual/infiniband/", 33));
	CHECK(readlinkat(AT_FDCWD, device_dir, link, sizeof(link)) == n);
	CHECK(chdir(device_dir) == 0 && access("node_guid", R_OK) == 0);
	CHECK(chdir("/") == 0);
	/* Others are as ever. */
	CHECK(realpath("/proc/self/../self/root", buf) && !strcmp(buf, "/"));
}

static int in_child(const char *program, char *device)
{
	char *const args[] = {(char *)(size_t)program, device, NULL};
	int status = 1;
	pid_t pid = fork();

	if (pid == 0) {
		execv("/proc/self/exe", args);
		_exit(1);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (argc > 2)
		return in_child(argv[0], argv[1]);
	snprintf(device_dir, sizeof(device_dir), "%s/%s", class_dir, argv[1]);
	snprintf(file, sizeof(file), "%s/node_guid", device_dir);
	snprintf(missing, sizeof(missing), "%s/missing", device_dir);
	check_open();
	check_stat();
	check_directories();
	check_names();
	printf("%u checks ok\n", checks);
	return 0;
}
