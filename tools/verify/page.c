/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/report.h"
#include "verify/verify.h"
void verify_html(const struct verify *v, FILE *f, const char *name)
{
	verify_json(v, f, name);
}
