/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/setting.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lock guards the rest; it is a leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *text; /* owned: what was parsed; NULL: nothing, or it was wrong */
static struct impair parsed;
static unsigned changes;

/* Another thread of the parent may have been in here: then what it left is of no use. */
static void fork_child(void)
{
	if (pthread_mutex_trylock(&lock) == 0) {
		pthread_mutex_unlock(&lock);
		return;
	}
	pthread_mutex_init(&lock, NULL);
	text = NULL;
}

static void register_atfork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
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
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *spec = getenv("ROCEMU_IMPAIR");
	int err = 0;

	pthread_once(&once, register_atfork);
	spec = spec ? spec : "";
	pthread_mutex_lock(&lock);
	/* Nothing was said, and is not now: as it began. */
	if ((text || changes || *spec) && (!text || strcmp(text, spec) != 0))
		err = parse(spec, errbuf, errlen);
	*im = parsed;
	if (serial)
		*serial = changes;
	pthread_mutex_unlock(&lock);
	return err;
}
