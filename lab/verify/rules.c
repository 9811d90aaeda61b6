/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of findings, and looking up in it. */
#include "rules.h"

#include <stddef.h>
#include <stdio.h>
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

/* @return whether the len characters at word name any. */
static bool select_named(bool set[RULE_COUNT], const char *word, size_t len)
{
	bool any = false;

	for (unsigned i = 0; len != 0 && i < RULE_COUNT; i++) {
		const char *id = rules[i].id;

		if (strncmp(id, word, len) == 0 && (id[len] == 0 || id[len] == '-'))
			any = set[i] = true;
	}
	return any;
}

bool rules_ignore(bool set[RULE_COUNT], const char *list, const char *self)
{
	for (const char *word = list;; word += strcspn(word, ",") + 1) {
		size_t len = strcspn(word, ",");

		if (!select_named(set, word, len)) {
			fprintf(stderr,
				"%s: --ignore %s: no finding has the ID \"%.*s\"; rocemu verify "
				"--list has all\n",
				self, list, (int)len, word);
			return false;
		}
		if (word[len] == 0)
			return true;
	}
}
