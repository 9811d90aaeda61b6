/* SPDX-License-Identifier: BSD-2-Clause */
#include "hosts-net.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memfile.h"
#include "base/util.h"
#include "userns.h"

#define HOLDER_NAME "rocemu-host"

enum { BATCH_MAX = 4096, EXIT_NO_IP = 127 };

/** A line with errno's text, and with the setting that refuses namespaces where there is one. */
static int fail(char *errbuf, size_t errlen, const char *what)
{
	const int err = errno;

	snprintf(errbuf, errlen, "%s: %s%s", what, strerror(err),
		 err == EPERM || err == EACCES ? userns_refusal() : "");
	return -1;
}

/* What ip, tcpdump and tc need, and what setns() needs to go from one host to another. */
static const unsigned kept[] = {CAP_NET_ADMIN, CAP_NET_RAW, CAP_NET_BIND_SERVICE, CAP_SYS_ADMIN,
				CAP_SYS_CHROOT};

/**
 * Programs that are executed keep these capabilities and no others, whatever their user ID. Holders
 * have no others either: who enters a host must have all of its holder's.
 */
static int keep_capabilities(char *errbuf, size_t errlen)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	if (geteuid() == 0) /* keeps all without this */
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		data[CAP_TO_INDEX(kept[i])].permitted |= CAP_TO_MASK(kept[i]);
	for (size_t i = 0; i < ARRAY_LEN(data); i++)
		data[i].effective = data[i].inheritable = data[i].permitted;
	if (syscall(SYS_capset, &header, data) < 0)
		return fail(errbuf, errlen, "capabilities in the user namespace");
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, (unsigned long)kept[i], 0L, 0L) < 0)
			return fail(errbuf, errlen, "ambient capabilities in the user namespace");
	return 0;
}

/** ip(8) with these commands. errbuf is NULL: what fails is ignored, without a message. */
static int run_ip(const char *batch, char *errbuf, size_t errlen)
{
	const int fd = memfile_or_temporary("ip", MFD_CLOEXEC);
	int status = 0, null;
	pid_t pid;

	if (fd < 0 || write(fd, batch, strlen(batch)) != (ssize_t)strlen(batch) ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return errbuf ? fail(errbuf, errlen, "commands for ip") : -1;
	pid = fork();
	if (pid == 0) {
		dup2(fd, STDIN_FILENO);
		null = errbuf ? -1 : open("/dev/null", O_WRONLY);
		if (null >= 0)
			dup2(null, STDERR_FILENO);
		execlp("ip", "ip", "-batch", "-", (char *)NULL);
		_exit(EXIT_NO_IP);
	}
	close(fd);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && status == 0)
		return 0;
	if (!errbuf)
		return -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_IP)
		snprintf(errbuf, errlen, "ip: command not found: install iproute2");
	else
		snprintf(errbuf, errlen, "\"ip\" could not make the network, see above%s",
			 userns_refusal());
	return -1;
}

/* ---- in a host's holder ---- */

/** Mount the host's own /sys. Where that is refused (in a container), the caller's stays. */
static void mount_sys(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
		mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static int make_host(unsigned number, char *errbuf, size_t errlen)
{
	char name[16];

	if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS) < 0)
		return fail(errbuf, errlen, "namespaces of a host");
	snprintf(name, sizeof(name), "host%u", number);
	/* A container's seccomp filter may refuse what a namespace's owner may do: the name is not
	   needed. */
	if (sethostname(name, strlen(name)) < 0)
		errno = 0;
	mount_sys();
	return 0;
}

/** The interface is there. IPv6 is ignored where the kernel has none. */
static int set_up(unsigned number, char *errbuf, size_t errlen)
{
	char batch[256];
	int fd;

	/* Addresses must be usable at once, and are unique. */
	fd = open("/proc/sys/net/ipv6/conf/eth0/accept_dad", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (write(fd, "0", 1) < 0)
			errno = 0; /* a container's: link-local addresses come a second later */
		close(fd);
	}
	snprintf(batch, sizeof(batch),
		 "link set lo up\nlink set eth0 up\naddr add 10.77.0.%u/24 dev eth0\n"
		 "route add 224.0.0.0/4 dev eth0\n",
		 number);
	if (run_ip(batch, errbuf, errlen) < 0)
		return -1;
	snprintf(batch, sizeof(batch), "addr add fd77::%u/64 dev eth0 nodad\n", number);
	run_ip(batch, NULL, 0);
	return 0;
}

/** Both sides of setting up: empty is well. */
static void report(int fd, const char *text)
{
	if (write(fd, text, strlen(text) + 1) < 0)
		_exit(1);
}

/** A holder's life: sock is the maker's. */
__attribute__((noreturn)) static void hold(unsigned number, int sock, pid_t maker)
{
	char text[512] = "", go;
	sigset_t all;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), HOLDER_NAME "%u", number);
	prctl(PR_SET_NAME, text);
	sigfillset(&all); /* those of a terminal are for the program */
	sigprocmask(SIG_BLOCK, &all, NULL);
	text[0] = 0;
	if (getppid() != maker)
		_exit(1);
	make_host(number, text, sizeof(text));
	report(sock, text);
	if (read(sock, &go, 1) != 1)
		_exit(1);
	set_up(number, text, sizeof(text));
	report(sock, text);
	close(sock);
	for (;;)
		pause();
}

/* ---- in the process that makes them ---- */

static int wait_report(int sock, char *errbuf, size_t errlen)
{
	const ssize_t n = read(sock, errbuf, errlen);

	if (n <= 0)
		snprintf(errbuf, errlen, "the process of a host has ended");
	else
		errbuf[n - 1] = 0;
	return *errbuf ? -1 : 0;
}

static int make_bridge(const struct hosts_net *net, unsigned mtu, char *errbuf, size_t errlen)
{
	char batch[BATCH_MAX];
	int n = snprintf(batch, sizeof(batch),
			 "link add switch type bridge mcast_snooping 0\nlink set switch up\n");

	for (unsigned i = 0; i < net->n; i++)
		n += snprintf(batch + n, sizeof(batch) - (size_t)n,
			      "link add port%u mtu %u type veth peer name eth0 mtu %u netns %d\n"
			      "link set port%u master switch up\n",
			      i + 1, mtu, mtu, (int)net->holder[i], i + 1);
	return run_ip(batch, errbuf, errlen);
}

int hosts_net_make(struct hosts_net *net, unsigned n, unsigned mtu, char *errbuf, size_t errlen)
{
	const pid_t self = getpid();
	int pair[2], sock[HOSTS_MAX];

	if (userns_unshare(CLONE_NEWNET, errbuf, errlen) < 0 ||
	    keep_capabilities(errbuf, errlen) < 0)
		return -1;
	for (net->n = 0; net->n < n; net->n++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
			return fail(errbuf, errlen, "socketpair");
		net->holder[net->n] = fork();
		if (net->holder[net->n] < 0)
			return fail(errbuf, errlen, "fork");
		if (net->holder[net->n] == 0) {
			close(pair[0]);
			hold(net->n + 1, pair[1], self);
		}
		close(pair[1]);
		sock[net->n] = pair[0];
		if (wait_report(pair[0], errbuf, errlen) < 0)
			return -1;
	}
	if (make_bridge(net, mtu, errbuf, errlen) < 0)
		return -1;
	for (unsigned i = 0; i < n; i++) {
		if (write(sock[i], "", 1) != 1)
			return fail(errbuf, errlen, "a host's process");
		if (wait_report(sock[i], errbuf, errlen) < 0)
			return -1;
		close(sock[i]);
	}
	return 0;
}

void hosts_net_end(struct hosts_net *net)
{
	for (unsigned i = 0; i < net->n; i++) {
		kill(net->holder[i], SIGKILL);
		while (waitpid(net->holder[i], NULL, 0) < 0 && errno == EINTR)
			;
	}
	net->n = 0;
}

/* ---- in a process that enters a host ---- */

/** The first line of a process's file that begins with key, without it; "": none. */
static void read_line(int proc, const char *file, const char *key, char *text, size_t len)
{
	const int fd = openat(proc, file, O_RDONLY | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char line[256];

	*text = 0;
	while (f && !*text && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			snprintf(text, len, "%.*s", (int)len - 1, line + strlen(key));
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
}

/**
 * Its ID may be another process's by now, also that of another user, who would have this one run
 * programs in a mount namespace of that user's. In the own user namespace no other user made
 * mounts.
 */
static bool is_holder(int proc)
{
	char name[32], uid[64];
	struct stat self, other;
	unsigned real, effective;

	read_line(proc, "comm", "", name, sizeof(name));
	read_line(proc, "status", "Uid:", uid, sizeof(uid));
	return strncmp(name, HOLDER_NAME, strlen(HOLDER_NAME)) == 0 &&
	       sscanf(uid, "%u %u", &real, &effective) == 2 && real == geteuid() &&
	       effective == geteuid() && stat("/proc/self/ns/user", &self) == 0 &&
	       fstatat(proc, "ns/user", &other, 0) == 0 && self.st_dev == other.st_dev &&
	       self.st_ino == other.st_ino;
}

/** @return its directory in /proc, which is no other process's later; or -1. */
static int open_holder(pid_t pid)
{
	char path[64];
	int proc;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || is_holder(proc))
		return proc;
	close(proc);
	return -1;
}

/** @return 0, or -1 with errbuf. */
static int enter_one(int proc, const char *name, char *errbuf, size_t errlen)
{
	const int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
	const int ret =
		fd < 0 || setns(fd, 0) < 0 ? fail(errbuf, errlen, "the host's namespaces") : 0;

	if (fd >= 0)
		close(fd);
	return ret;
}

int hosts_net_enter(pid_t holder, char *errbuf, size_t errlen)
{
	/* Mounts come last: the others are found by the /proc of before. */
	static const char *const names[] = {"ns/net", "ns/uts", "ns/mnt"};
	const int proc = open_holder(holder);
	char cwd[PATH_MAX];
	int ret = 0;

	if (proc < 0) {
		snprintf(errbuf, errlen, "the hosts are gone: \"rocemu hosts\" has ended");
		return -1;
	}
	if (!getcwd(cwd, sizeof(cwd)))
		ret = fail(errbuf, errlen, "working directory");
	for (size_t i = 0; i < ARRAY_LEN(names) && ret == 0; i++)
		ret = enter_one(proc, names[i], errbuf, errlen);
	close(proc);
	if (ret == 0 && chdir(cwd) < 0)
		ret = fail(errbuf, errlen, cwd);
	return ret;
}
