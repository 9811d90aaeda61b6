/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of findings, and looking up in it. */
#include "rules.h"

#include <stddef.h>
#include <string.h>

#include "advice.h"

const struct rule rules[RULE_COUNT] = {
#define X(name, id_, sev, clause_, line_, text_) \
	[RULE_##name] = {.id = id_,              \
			 .severity = SEV_##sev,  \
			 .clause = clause_,      \
			 .line = line_,          \
			 .text = text_},
	VERIFY_RULES(X)
#undef X
};

const struct advice advices[RULE_COUNT] = {
#define X(name, causes_, remedy_, counter_) \
	[RULE_##name] = {.causes = causes_, .remedy = remedy_, .counter = counter_},
	VERIFY_ADVICE(X)
#undef X
};

const char *const severity_names[SEV_COUNT] = {"note", "warning", "error"};

const struct rule *rule_find(const char *id)
{
	for (unsigned i = 0; i < RULE_COUNT; i++) {
		if (strcmp(rules[i].id, id) == 0)
			return &rules[i];
	}
	return NULL;
}
