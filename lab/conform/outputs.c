/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/outputs.h"

#include <errno.h>
#include <string.h>

#include "base/cli.h"

static bool is_stdout(const struct conform_output *o)
{
	return o->path && strcmp(o->path, "-") == 0;
}

static bool failed(const struct conform_output *o, const char *self, int error)
{
	fprintf(stderr, "%s: %s: cannot write %s: %s\n", self, o->option,
		is_stdout(o) ? "standard output" : o->path, strerror(error));
	return false;
}

static void close_one(struct conform_output *o)
{
	if (o->f && o->f != stdout)
		fclose(o->f);
	o->f = NULL;
}

static void close_all(struct conform_output *o)
{
	for (; o->option; o++)
		close_one(o);
}

bool conform_outputs_open(struct conform_output *o, const char *self)
{
	const char *first = NULL;

	for (struct conform_output *i = o; i->option; i++) {
		if (!i->path)
			continue;
		if (is_stdout(i) && first) {
			fprintf(stderr, "%s: %s and %s: only one can be standard output\n", self,
				first, i->option);
			close_all(o);
			return false;
		}
		if (is_stdout(i))
			first = i->option;
		i->f = is_stdout(i) ? stdout : fopen(i->path, "we");
		if (!i->f) {
			failed(i, self, errno);
			close_all(o);
			return false;
		}
	}
	return true;
}

bool conform_outputs_to_stdout(const struct conform_output *o)
{
	for (; o->option; o++)
		if (is_stdout(o))
			return true;
	return false;
}

static bool write_one(struct conform_output *o, const char *self, const struct conform_report *p)
{
	int error;

	o->write(o->f, p);
	error = -cli_flush(o->f);
	if (o->f != stdout && fclose(o->f) != 0 && !error)
		error = errno;
	o->f = NULL;
	return !error || failed(o, self, error);
}

bool conform_outputs_write(struct conform_output *o, const char *self,
			   const struct conform_report *p)
{
	bool good = true;

	for (; o->option; o++)
		if (o->f && !write_one(o, self, p))
			good = false;
	return good;
}
