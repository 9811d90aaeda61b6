/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs that run under valgrind, where its headers were there when this was built. What a
 * peer does to registered memory a thread of ours does on its behalf. What orders it with the
 * program's accesses is a message, which helgrind and drd cannot see, so they are to leave
 * registered memory alone.
 */
#include "verbs/valgrind.h"

#if __has_include(<valgrind/helgrind.h>) && __has_include(<valgrind/drd.h>)
#include <valgrind/helgrind.h>
#include <valgrind/drd.h>

void vb_valgrind_shared(const void *addr, size_t length)
{
	/* Valgrind notes each byte; a program with more registers what it never uses. */
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
