/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/setting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "base/mutex.h"

/* The lock guards the rest; it is a leaf. */
static struct mutex lock = MUTEX_INITIALIZER;
static char *text; /* owned: the parsed text; NULL: none, or an invalid one */
static struct impair parsed;
static unsigned changes;

static void fork_prepare(void)
{
	mutex_lock(&lock);
}

static void fork_end(void)
{
	mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_end, fork_end};

	forks_add(FORK_SETTING, &handlers);
}

/* Lock held. */
static int parse(const char *spec, char *errbuf, size_t errlen)
{
	int err;

	free(text);
	changes++;
	text = strdup(spec);
	if (text) {
		err = impair_parse(&parsed, spec, errbuf, errlen);
	} else {
		err = -ENOMEM;
		snprintf(errbuf, errlen, "impairment: out of memory");
	}
	if (!err)
		return 0;
	impair_init(&parsed);
	free(text);
	text = NULL;
	return err;
}

int setting_get(struct impair *im, unsigned *serial, char *errbuf, size_t errlen)
{
	const char *spec = secure_getenv("ROCEMU_IMPAIR");
	int err = 0;

	spec = spec ? spec : "";
	mutex_lock(&lock);
	/* The variable was unset and still is: no change. */
	if ((text || changes || *spec) && (!text || strcmp(text, spec) != 0))
		err = parse(spec, errbuf, errlen);
	*im = parsed;
	if (serial)
		*serial = changes;
	mutex_unlock(&lock);
	return err;
}
