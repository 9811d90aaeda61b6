/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a section of calls again and again, while its first, second, third ... allocation or system
 * call fails, until it has no further one. After each run: failed calls printed the reason, all
 * objects were freed, and the section without faults works.
 */
#ifndef TEST_SHORTAGE_DRIVE_H
#define TEST_SHORTAGE_DRIVE_H

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fault.h"

struct drive;

/** A section: makes objects by TRY() until drive_stopped(), and frees all that it made. */
typedef void drive_section_fn(struct drive *d);

/**
 * Run it with every fault: once, where a call that failed is repeated and has to work then, and for
 * all calls of a kind from the n-th on, where the first call that fails ends the section. Fails the
 * test with a list of what was wrong.
 */
void drive_all(const char *name, drive_section_fn *section);

/**
 * The same with a new process for each fault, which then runs the section without: for what
 * is made once and lives as long as the process. Nothing of the libraries may have been called.
 */
void drive_fresh(const char *name, drive_section_fn *section);

/** A child of this process and a child of its, started anew for each fault. */
enum { DRIVE_OTHERS = 2 };
struct drive_others {
	void (*start)(pid_t pids[DRIVE_OTHERS]);
	void (*stop)(void);
};
/** Of drive_fresh(): the calls that fail are theirs. Of this process the errors may be others. */
void drive_control(struct fault_control *c, const struct drive_others *o);

/**
 * The same with k free descriptors, k = 0, 1, 2 ...: those that a program may have, and not a
 * fault.
 */
void drive_descriptors(const char *name, drive_section_fn *section);

/** Is the section to free what it has, and return? */
bool drive_stopped(const struct drive *d);
/** End it here: what it waits for will not come. */
void drive_give_up(struct drive *d, const char *why, int error);
enum { DRIVE_PATIENCE_MS = 100 };
/** What is waited for did not come for so long: end a fault that came, after which it has to. */
void drive_recover(struct drive *d);
/** Wait by poll() or rpoll(), and so end the fault if need be. @return as poll(); 0: nothing comes.
 */
typedef int drive_poll_fn(struct pollfd *p, nfds_t n, int timeout_ms);
int drive_poll(struct drive *d, drive_poll_fn *fn, struct pollfd *p, nfds_t n);

/** A call failed. @return true: repeat it, once. */
bool drive_call_failed(struct drive *d, const char *call, int error);
/** A call failed that cannot be repeated with the same object: the section ends. */
void drive_call_ended(struct drive *d, const char *call, int error);
/** What may never happen; the format's arguments follow. */
void drive_problem(struct drive *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define TRY(d, value, failed, error, call)                            \
	do {                                                          \
		if (drive_stopped(d))                                 \
			break;                                        \
		errno = 0;                                            \
		(value) = (call);                                     \
		if (!(failed) || !drive_call_failed(d, #call, error)) \
			break;                                        \
		errno = 0;                                            \
		(value) = (call);                                     \
		if (failed)                                           \
			drive_call_failed(d, "again: " #call, error); \
	} while (0)

/** pointer = call, which returns NULL with errno. */
#define TRY_NEW(d, pointer, call) TRY(d, pointer, !(pointer), errno, call)
/** ret = call, which returns an errno, as most calls of libibverbs do. */
#define TRY_ERR(d, call)                        \
	do {                                    \
		int err_ = 0;                   \
		TRY(d, err_, err_, err_, call); \
	} while (0)
/** A call that returns -1 with errno. */
#define TRY_RET(d, call)                             \
	do {                                         \
		long ret_ = 0;                       \
		TRY(d, ret_, ret_ < 0, errno, call); \
	} while (0)
/** A call that frees something: it may not fail, whatever runs out. */
#define FREE(d, call)                                                                  \
	do {                                                                           \
		const int ret_ = (call);                                               \
		if (ret_)                                                              \
			drive_problem(d, "%s: %d (%s)", #call, ret_, strerror(errno)); \
	} while (0)

#endif
