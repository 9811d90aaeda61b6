/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"
#include "verify.h"
void verify_html(const struct verify *v, FILE *f, const char *name)
{
	verify_json(v, f, name);
}
