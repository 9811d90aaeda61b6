/* SPDX-License-Identifier: BSD-2-Clause */
/* Another user who sits on the names by which root's lanes find each other. */
#ifndef TEST_ENGINE_SQUAT_H
#define TEST_ENGINE_SQUAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SQUATTER = 65534,
	SQUAT_SLOTS = 100, /* 1 and up */
};

struct squat {
	int fd[2 * SQUAT_SLOTS];
	unsigned n;
};

/** What the squatter does with a name besides having it. */
enum squat_how {
	SQUAT_BINDS,
	SQUAT_LISTENS,
	SQUAT_IMITATES, /* also listens on names like those of lanes whose name is taken */
};

/** Take one name of a slot. @return a descriptor, or -errno. */
int squat_on(const char *instance, uint16_t slot, const char *suffix, bool listens);
/** Take those names of the first SQUAT_SLOTS slots that are free. */
void squat_begin(struct squat *s, const char *instance, enum squat_how how);
void squat_end(struct squat *s);

#endif
