/* SPDX-License-Identifier: BSD-2-Clause */
#include "mutants.h"

#include <stdio.h>
#include <string.h>

enum mutant mutant_chosen;

static const struct {
	const char *name, *kills, *text;
} mutants[MUTANTS] = {
#define X(id, name, kills, text) [id] = {name, kills, text},
	MUTANT_LIST(X)
#undef X
};

bool mutant_choose(const char *name)
{
	for (unsigned i = 1; i < MUTANTS; i++) {
		if (strcmp(mutants[i].name, name))
			continue;
		mutant_chosen = (enum mutant)i;
		return true;
	}
	return false;
}

void mutants_print(void)
{
	for (unsigned i = 1; i < MUTANTS; i++)
		printf("%s\t%s\t%s\n", mutants[i].name, mutants[i].kills, mutants[i].text);
}
