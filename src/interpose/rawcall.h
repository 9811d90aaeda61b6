/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls for code that has no C library. */
#ifndef INTERPOSE_RAWCALL_H
#define INTERPOSE_RAWCALL_H

#include <asm/unistd.h>
#include <errno.h>

/** @return the call's result, or -errno; -ENOSYS on machines that are not in this list. */
static inline long raw_call(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	long result = number;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
			 x2 __asm__("x2") = c, x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#elif defined(__riscv)
	register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b,
			 a2 __asm__("a2") = c, a3 __asm__("a3") = d;

	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3) : "memory");
	return a0;
#else
	(void)number, (void)a, (void)b, (void)c, (void)d;
	return -ENOSYS;
#endif
}

#endif
