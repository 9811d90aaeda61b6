/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of files of libibverbs and librdmacm, as programs and the dynamic linker write them. Uses
 * nothing of the C library: the auditor (interpose/audit.c) has none.
 */
#ifndef BASE_LIBNAME_H
#define BASE_LIBNAME_H

#include <stdbool.h>

/** What follows prefix in text, or NULL. */
static inline const char *libname_after(const char *text, const char *prefix)
{
	for (; *prefix; text++, prefix++)
		if (*text != *prefix)
			return 0;
	return text;
}

/** A path without its directories. */
static inline const char *libname_base(const char *path)
{
	const char *base = path;

	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

/**
 * Is base, a name without directories, one of the library stem ("libibverbs")? That is stem.so with
 * any version behind it, or stem-HASH.so, as tools that make Python wheels name their copy.
 */
static inline bool libname_is(const char *base, const char *stem)
{
	const char *at = libname_after(base, stem);

	if (at && *at == '-')
		do
			at++;
		while ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'));
	at = at ? libname_after(at, ".so") : 0;
	return at && (!*at || *at == '.');
}

#endif
