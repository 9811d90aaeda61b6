/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a program for which the kernel refuses socket options that choose an interface: all, as a
 * sandbox with a network stack of its own may, or SO_BINDTOIFINDEX, as kernels before 5.7 do
 * without privilege.
 *
 * usage: refuse-options all|bind PROGRAM [ARGUMENT ...]
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW 0
#else
#define LOW 4
#endif

enum { UNICAST_IF4 = 50, UNICAST_IF6 = 76 };

#define ARGUMENT(n) ((unsigned)offsetof(struct seccomp_data, args[n]) + LOW)
#define LOAD(at)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
/* Goes on, if what was loaded is k; else behind the instructions that follow. */
#define UNLESS(k, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, skip)
#define REFUSE(err)	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (err))
#define ALLOW		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv)
{
	const bool all = argc > 2 && !strcmp(argv[1], "all");
	struct sock_filter code[] = {
		LOAD((unsigned)offsetof(struct seccomp_data, nr)),
		UNLESS(SYS_setsockopt, 13),
		LOAD(ARGUMENT(1)),
		UNLESS(SOL_SOCKET, 3),
		LOAD(ARGUMENT(2)),
		UNLESS(SO_BINDTOIFINDEX, 9),
		REFUSE(EPERM),
		UNLESS(IPPROTO_IP, 3),
		LOAD(ARGUMENT(2)),
		UNLESS(all ? UNICAST_IF4 : UINT32_MAX, 5),
		REFUSE(ENOPROTOOPT),
		UNLESS(IPPROTO_IPV6, 3),
		LOAD(ARGUMENT(2)),
		UNLESS(all ? UNICAST_IF6 : UINT32_MAX, 1),
		REFUSE(ENOPROTOOPT),
		ALLOW,
	};
	const struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		perror("refuse-options");
		return 2;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
