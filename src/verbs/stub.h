/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bodies of exported functions that are not implemented: each fails by its convention. Used only by
 * the generated list (gen-symbols.py). They are defined without arguments: the C calling
 * conventions of all supported machines let a callee ignore its arguments.
 */
#ifndef VERBS_STUB_H
#define VERBS_STUB_H

#include <errno.h>
#include <stddef.h>

#include "base/why.h"

#define STUB_EXPORT __attribute__((visibility("default"), used))

#define STUB_WHY(name) REFUSE(EOPNOTSUPP, 0, "%s(): rocemu has no such call: do without it", #name)

/* Returns an errno, as most of verbs does. */
#define STUB_ERRNO(name)                \
	STUB_EXPORT int name(void);     \
	int name(void)                  \
	{                               \
		errno = STUB_WHY(name); \
		return errno;           \
	}

/* Returns -1 with errno set; an int, ssize_t or off_t, of which long has all bits. */
#define STUB_MINUS_ONE(name)            \
	STUB_EXPORT long name(void);    \
	long name(void)                 \
	{                               \
		errno = STUB_WHY(name); \
		return -1;              \
	}

/* Returns a count, or -errno. */
#define STUB_NEGATIVE(name)             \
	STUB_EXPORT long name(void);    \
	long name(void)                 \
	{                               \
		return -STUB_WHY(name); \
	}

/* Returns an object. */
#define STUB_NULL(name)                 \
	STUB_EXPORT void *name(void);   \
	void *name(void)                \
	{                               \
		errno = STUB_WHY(name); \
		return NULL;            \
	}

/* Cannot return an error, so it prints a message. */
#define STUB_VOID(name)                                    \
	STUB_EXPORT void name(void);                       \
	void name(void)                                    \
	{                                                  \
		errno = EOPNOTSUPP;                        \
		log_error("%s() is not supported", #name); \
	}

/* Called by other libraries' constructors; it has nothing to do. */
#define STUB_SILENT(name)           \
	STUB_EXPORT int name(void); \
	int name(void)              \
	{                           \
		return 0;           \
	}

#define STUB_DATA(name, size)                                          \
	extern __attribute__((visibility("default"))) char name[size]; \
	char name[size];

/* The versions of before rdma-core, which programs built since 2006 do not use. */
#define STUB_OLD(kind, alias, versioned) \
	STUB_##kind(alias) __asm__(".symver " #alias "," versioned);
#define STUB_OLD_ERRNO(alias, versioned)     STUB_OLD(ERRNO, alias, versioned)
#define STUB_OLD_MINUS_ONE(alias, versioned) STUB_OLD(MINUS_ONE, alias, versioned)
#define STUB_OLD_NEGATIVE(alias, versioned)  STUB_OLD(NEGATIVE, alias, versioned)
#define STUB_OLD_NULL(alias, versioned)	     STUB_OLD(NULL, alias, versioned)
#define STUB_OLD_VOID(alias, versioned)	     STUB_OLD(VOID, alias, versioned)
#define STUB_OLD_SILENT(alias, versioned)    STUB_OLD(SILENT, alias, versioned)

#endif
