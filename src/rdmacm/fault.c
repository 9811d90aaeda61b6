/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that fail on purpose. The rules and what they have counted are our libibverbs', for the whole process. */
#include "rdmacm/objects.h"
#include "rdmacm/private.h"

static private_fault_fn *ask; /* NULL: under another libibverbs there are no such faults */

static void find(void)
{
	ask = (private_fault_fn *)rcm_private_function(PRIVATE_FAULT);
}

int rcm_fault(enum fault_verb verb)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return ask ? ask(verb) : 0;
}
