/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usage: refuse-call CALL ERRNO [ARGUMENT=VALUE]... -- PROGRAM [ARGUMENTS]
 *
 * Runs a program that gets an error from a system call, as under a container's seccomp profile.
 * ERRNO is a number. ARGUMENT=VALUE, as 1=16: only where the call's argument (0 to 5) is that
 * value. The filter is inherited by all that the program starts.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILTER_MAX = 32, EXIT_USAGE = 2, EXIT_CANNOT = 77 };

static const struct {
	const char *name;
	uint32_t nr;
} calls[] = {
	{"bind", SYS_bind},
	{"clone3", SYS_clone3},
	{"close_range", SYS_close_range},
	{"epoll_create1", SYS_epoll_create1},
	{"eventfd2", SYS_eventfd2},
	{"faccessat2", SYS_faccessat2},
	{"fallocate", SYS_fallocate},
	{"flock", SYS_flock},
	{"getrandom", SYS_getrandom},
	{"memfd_create", SYS_memfd_create},
	{"mknodat", SYS_mknodat},
	{"recvmmsg", SYS_recvmmsg},
	{"sched_setattr", SYS_sched_setattr},
	{"sendmmsg", SYS_sendmmsg},
	{"setsid", SYS_setsid},
	{"setsockopt", SYS_setsockopt},
	{"socket", SYS_socket},
	{"timerfd_create", SYS_timerfd_create},
};

struct filter {
	struct sock_filter code[FILTER_MAX];
	unsigned short n;
};

static void add(struct filter *f, uint16_t code, uint32_t k)
{
	f->code[f->n++] = (struct sock_filter){.code = code, .k = k};
}

/* Goes on where the word at that offset is the value; else to the end. */
static void match(struct filter *f, size_t offset, uint32_t value)
{
	add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
	add(f, BPF_JMP | BPF_JEQ | BPF_K, value);
}

static void finish(struct filter *f, uint32_t err)
{
	add(f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err);
	for (unsigned short i = 0; i < f->n; i++)
		if (f->code[i].code == (BPF_JMP | BPF_JEQ | BPF_K))
			f->code[i].jf = (uint8_t)(f->n - i - 1);
	add(f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

static int usage(void)
{
	fputs("usage: refuse-call CALL ERRNO [ARGUMENT=VALUE]... -- PROGRAM [ARGUMENTS]\n", stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct filter f = {.n = 0};
	struct sock_fprog prog = {.filter = f.code};
	unsigned i = 0;
	int at = 3;

	if (argc < 5)
		return usage();
	while (i < sizeof(calls) / sizeof(*calls) && strcmp(calls[i].name, argv[1]) != 0)
		i++;
	if (i == sizeof(calls) / sizeof(*calls))
		return usage();
	match(&f, offsetof(struct seccomp_data, nr), calls[i].nr);
	for (; at < argc && strcmp(argv[at], "--") != 0 && f.n < FILTER_MAX - 4; at++) {
		unsigned argument, value;

		if (sscanf(argv[at], "%u=%u", &argument, &value) != 2 || argument > 5)
			return usage();
		/* Its lower half. */
		match(&f,
		      offsetof(struct seccomp_data, args) + 8 * argument +
			      (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0),
		      value);
	}
	if (at + 1 >= argc)
		return usage();
	finish(&f, (uint32_t)atoi(argv[2]));
	prog.len = f.n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)) {
		fprintf(stderr, "no seccomp filter: %s\n", strerror(errno));
		return EXIT_CANNOT;
	}
	execvp(argv[at + 1], argv + at + 1);
	perror(argv[at + 1]);
	return EXIT_CANNOT;
}
