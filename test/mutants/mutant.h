/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The switch of a mutated source (points.py): mutant_is(N) is 1 if the environment's MUTANT is N.
 * Which calls were reached is a byte each in the file MUTANT_REACHED: mapped, so that the bytes are
 * there after a crash as well. MUTANTS is the number of mutants, defined before this header.
 */
#ifndef MUTANT_H
#define MUTANT_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* One of each in a program, whichever of its sources are mutated. */
#define MUTANT_ONCE __attribute__((weak, visibility("hidden")))

MUTANT_ONCE int mutant_on = -1;
MUTANT_ONCE char mutant_nowhere[MUTANTS];
MUTANT_ONCE char *mutant_reached = mutant_nowhere;

__attribute__((constructor(101))) MUTANT_ONCE void mutant_start(void)
{
	const char *on = getenv("MUTANT");
	const char *path = getenv("MUTANT_REACHED");
	int fd = path && mutant_reached == mutant_nowhere ? open(path, O_RDWR | O_CREAT, 0600) : -1;

	if (on)
		mutant_on = atoi(on);
	if (fd < 0)
		return;
	if (!ftruncate(fd, MUTANTS)) {
		char *p = mmap(NULL, MUTANTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p != MAP_FAILED)
			mutant_reached = p;
	}
	close(fd);
}

static inline int mutant_is(int id)
{
	mutant_reached[id] = 1;
	return id == mutant_on;
}

#endif
