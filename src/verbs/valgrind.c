/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Client requests for programs that run under valgrind, if its headers were present at build time.
 * A thread of rocemu accesses registered memory on behalf of peers. Messages order these accesses
 * with the program's own, which helgrind and drd cannot see, so registered memory is excluded from
 * their checks.
 */
#include "verbs/valgrind.h"

#if __has_include(<valgrind/helgrind.h>) && __has_include(<valgrind/drd.h>)
#include <valgrind/helgrind.h>
#include <valgrind/drd.h>

void vb_valgrind_shared(const void *addr, size_t length)
{
	/*
	 * Valgrind has state for each byte; a program that registers more does not use all of it.
	 */
	const size_t most = (size_t)1 << 30;

	if (!RUNNING_ON_VALGRIND || length > most)
		return;
	VALGRIND_HG_DISABLE_CHECKING(addr, length);
	VALGRIND_DO_CLIENT_REQUEST_STMT(VG_USERREQ__DRD_START_SUPPRESSION, addr, length, 0, 0, 0);
}
#else
void vb_valgrind_shared(const void *addr, size_t length)
{
	(void)addr;
	(void)length;
}
#endif
