/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the n-th call of an allocation or a system call fail, as it does when memory or descriptors
 * run out. The wrappers stand in front of libc's functions: linked into a test program (for the
 * libraries that it is linked to) or preloaded (for any program, ordered by a control file).
 *
 * Calls that are counted come from anywhere but the test program itself, on any thread, while
 * armed. A function of libc that makes several calls inside (getaddrinfo) counts as one call, plus
 * its allocations.
 */
#ifndef TEST_SHORTAGE_FAULT_H
#define TEST_SHORTAGE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

enum fault_mode {
	FAULT_ONCE,   /* that call alone */
	FAULT_ALWAYS, /* that call and all of its kind that follow (of FAULT_CALL: of that
		       * function), until disarmed */
};

enum fault_kind {
	FAULT_MEMORY,	  /* ENOMEM */
	FAULT_DESCRIPTOR, /* EMFILE */
	FAULT_CALL,	  /* others: what is given for each */
	FAULT_IO,	  /* sending and receiving; of FAULT_ALWAYS, too, that call alone */
};

/** Shared with a preloaded program: a file of this struct, named by FAULT_CONTROL. */
struct fault_control {
	atomic_bool armed;
	atomic_uint mode;    /* enum fault_mode */
	atomic_ulong nth;    /* 0: none fails */
	atomic_ulong count;  /* calls counted since armed */
	atomic_uint armings; /* counts them */
	atomic_uint failed;  /* calls that have failed since armed */
	atomic_uint kind;    /* of the first that failed, as are the following */
	atomic_int error;    /* its errno */
	char name[32];	     /* its function */
	char where[128];     /* its caller: object and offset */
};

/** In this process; the control file's, where there is one. */
struct fault_control *fault_control(void);

void fault_arm(struct fault_control *c, enum fault_mode mode, unsigned long nth);
void fault_disarm(struct fault_control *c);

/**
 * Memory that rocemu's libraries have allocated or mapped and not freed. Blocks that a function of
 * libc allocated for them are not among them.
 */
struct fault_live {
	long blocks, maps;
};

/** Count for objects whose path contains one of the names (NULL ends them), from now on. */
void fault_watch(const char *const *names);
struct fault_live fault_live(void);
/** Print the callers that have more live blocks than at the last fault_live_mark(). */
void fault_live_mark(void);
void fault_live_print(void);

#endif
