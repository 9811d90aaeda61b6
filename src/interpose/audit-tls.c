/* SPDX-License-Identifier: BSD-2-Clause */
#include "audit-tls.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/libname.h"
#include "rawcall.h"

#define VARIABLE "GLIBC_TUNABLES="
#define TUNABLE	 "glibc.rtld.optional_static_tls="

enum {
	ROOM = 512,	/* of glibc, without the tunable */
	RESERVE = 1024, /* for libraries that come later */
	ENVIRON_MAX = 4096,
	VALUE_MAX = 4096,
};

static char **args, **environment; /* NULL: the program runs, or is not to be executed again */
static size_t needed, room;

/** What follows text in a string, at its last place; or NULL. */
static const char *behind(const char *string, const char *text)
{
	const char *end = NULL;

	for (; *string; string++)
		end = libname_after(string, text) ? libname_after(string, text) : end;
	return end;
}

void audit_tls_begin(char **argv, char **envp)
{
	room = ROOM;
	for (char **e = envp; *e; e++) {
		const char *at = libname_after(*e, VARIABLE) ? behind(*e, TUNABLE) : NULL;

		/* valgrind does not follow the program through an execve(). */
		if (libname_after(*e, "LD_PRELOAD=") && behind(*e, "/vgpreload_"))
			return;
		if (at)
			for (room = 0; *at >= '0' && *at <= '9' && room < UINT32_MAX; at++)
				room = room * 10 + (size_t)(*at - '0');
	}
	args = argv;
	environment = envp;
}

void audit_tls_end(void)
{
	environment = NULL;
}

static bool is_mapped(const void *at)
{
	/* The kernel reads a path there. */
	return raw_call(__NR_faccessat, AT_FDCWD, (long)(uintptr_t)at, F_OK, 0) != -EFAULT;
}

/**
 * An object's program headers, *n of them. NULL: its file begins elsewhere than at its first
 * address, or the headers are not loaded.
 */
static const ElfW(Phdr) * program_headers(const struct link_map *map, unsigned *n)
{
	const ElfW(Ehdr) *e = (const void *)map->l_addr;
	const ElfW(Phdr) * p;

	if (!is_mapped(e) || !libname_after((const char *)e->e_ident, ELFMAG))
		return NULL;
	*n = e->e_phnum;
	p = (const void *)(map->l_addr + e->e_phoff);
	if (!*n || !is_mapped(p) || !is_mapped(p + *n - 1))
		return NULL;
	/* Are these the headers? One of them then loads them to this place. */
	for (unsigned i = 0; i < *n; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_offset == p[i].p_vaddr &&
		    p[i].p_offset <= e->e_phoff && e->e_phoff - p[i].p_offset < p[i].p_filesz)
			return p;
	return NULL;
}

/** Static thread-local memory of an object that has it and needs it at a fixed place. */
static size_t static_tls(const struct link_map *map)
{
	const ElfW(Phdr) * p;
	bool needs = false;
	unsigned n = 0;

	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
		needs = needs || (d->d_tag == DT_FLAGS && d->d_un.d_val & DF_STATIC_TLS);
	/* The C library's own part is always there. The program's was known before. */
	if (!needs || !map->l_addr || libname_is(libname_base(map->l_name), "libc"))
		return 0;
	p = program_headers(map, &n);
	for (unsigned i = 0; p && i < n; i++)
		if (p[i].p_type == PT_TLS)
			return p[i].p_memsz + p[i].p_align;
	return 0;
}

/** Append text; *at stays before end, where there is a 0 byte. */
static void append(char **at, const char *end, const char *text)
{
	while (*text && *at < end)
		*(*at)++ = *text++;
}

static void append_number(char **at, const char *end, size_t n)
{
	char digits[24] = "", *d = digits + sizeof(digits) - 1;

	do
		*--d = (char)('0' + n % 10);
	while (n /= 10);
	append(at, end, d);
}

/** The environment with the tunable behind all others: the last one counts. @return NULL: too
 * large. */
static char **make_environment(void)
{
	static char *env[ENVIRON_MAX], value[VALUE_MAX];
	const char *const end = value + sizeof(value) - 1;
	char *at = value;
	size_t n = 1;

	env[0] = value;
	append(&at, end, VARIABLE);
	for (char **e = environment; *e && n < ENVIRON_MAX - 1; e++) {
		const char *others = libname_after(*e, VARIABLE);

		if (!others) {
			env[n++] = *e;
		} else if (*others) {
			append(&at, end, others);
			append(&at, end, ":");
		}
	}
	append(&at, end, TUNABLE);
	append_number(&at, end, needed + RESERVE);
	return at < end && n < ENVIRON_MAX - 1 ? env : NULL;
}

void audit_tls_add(const struct link_map *map)
{
	static char program[PATH_MAX];
	static const char self[] = "/proc/self/exe";
	char **env;

	if (!environment)
		return;
	needed += static_tls(map);
	if (needed <= room)
		return;
	env = make_environment();
	/* What fails here leaves the dynamic linker to report that there is no room. */
	if (env && raw_call(__NR_readlinkat, AT_FDCWD, (long)self, (long)program, PATH_MAX - 1) > 0)
		raw_call(__NR_execve, (long)program, (long)args, (long)env, 0);
	environment = NULL;
}
