/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that a run is written to. */
#ifndef CONFORM_OUTPUTS_H
#define CONFORM_OUTPUTS_H

#include "conform/report.h"

struct conform_output {
	const char *option; /* "--json" */
	void (*write)(FILE *f, const struct conform_report *p);
	const char *path; /* borrowed; "-": standard output; NULL: not asked for */
	FILE *f;	  /* owned, once it is open */
};

/**
 * Before a run, so that a file that cannot be written is told then. The last output has no option.
 * @return false, after a message of self's.
 */
bool conform_outputs_open(struct conform_output *o, const char *self);
/** Does one go to standard output? */
bool conform_outputs_to_stdout(const struct conform_output *o);
/** Write all, and close them. @return false, after a message for each that cannot be written. */
bool conform_outputs_write(struct conform_output *o, const char *self,
			   const struct conform_report *p);

#endif
