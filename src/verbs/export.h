/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exports the declarations of verbs.h. The version script selects symbols, but cannot make hidden
 * ones visible; and the first declaration of a function decides. So the compiler includes this file
 * before all others of the library (meson.build).
 */
#ifndef VERBS_EXPORT_H
#define VERBS_EXPORT_H

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

#endif
