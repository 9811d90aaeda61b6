/* SPDX-License-Identifier: BSD-2-Clause */
/* What pages have in common. */
#ifndef CONFORM_PAGE_H
#define CONFORM_PAGE_H

#include "conform/report.h"

/** A page's begin, up to its heading; nothing outside of it is loaded. */
void conform_page_begin(FILE *f, const char *title);
void conform_page_end(FILE *f);

#endif
