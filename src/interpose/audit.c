/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librocemu-audit.so: an auditor of the dynamic linker (rtld-audit(7)), which `rocemu run` names in
 * LD_AUDIT. Whichever libibverbs or librdmacm a program loads, by whichever path, it gets rocemu's.
 *
 * The dynamic linker loads an auditor and all that it needs into a link-map namespace of its own.
 * This one needs nothing, not even the C library: so it has no thread-local memory, and no second
 * C library is loaded. The dynamic linker calls it with its lock held, but for la_version().
 */
#include <elf.h>
#include <link.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit-tls.h"
#include "base/libname.h"

#define HOOK __attribute__((visibility("default"), used))

enum {
	LIBRARIES = 2,
	NAMESPACES = 32, /* glibc has 16 */
};

static const char *const verbs_versions[] = {
#include "interpose/libibverbs-versions.inc"
	NULL};
static const char *const rdmacm_versions[] = {
#include "interpose/librdmacm-versions.inc"
	NULL};

static struct library {
	const char *stem;
	const char *const *versions; /* that rocemu's file defines, and those of providers */
	const char *providers;	     /* what their versions begin with, all of which it defines */
	char path[PATH_MAX];	     /* rocemu's file; "": there is none */
	uint32_t loaded;	     /* link-map namespaces that have it, a bit for each */
} libraries[LIBRARIES] = {
	{.stem = "libibverbs", .versions = verbs_versions, .providers = "IBVERBS_PRIVATE_"},
	{.stem = "librdmacm", .versions = rdmacm_versions, .providers = "RDMACM_PRIVATE_"},
};

/*
 * The cookie of a loaded object: its namespace, and for each library whether the object
 * - needs a version that rocemu's file does not have, and so gets its own file;
 * - records versions for a file with directories in its name;
 * - is rocemu's file.
 */
#define NEWER(i)    (1u << (i))
#define ABSOLUTE(i) (1u << (LIBRARIES + (i)))
#define OURS(i)	    (1u << (2 * LIBRARIES + (i)))
enum {
	NAMESPACE_SHIFT = 3 * LIBRARIES,
	COOKIE_MAX = NAMESPACES << NAMESPACE_SHIFT, /* a larger one is not of la_objopen() */
};

static bool is_same(const char *a, const char *b)
{
	const char *end = libname_after(a, b);

	return end && !*end;
}

/** ROCEMU_AUDIT: the paths of both, with a colon between. The C library passes the environment. */
__attribute__((constructor)) static void read_environment(int argc, char **argv, char **envp)
{
	const char *at = NULL;

	(void)argc;
	audit_tls_begin(argv, envp);
	for (; *envp; envp++)
		if (libname_after(*envp, "ROCEMU_AUDIT="))
			at = libname_after(*envp, "ROCEMU_AUDIT=");
	for (unsigned i = 0; at && i < LIBRARIES; i++) {
		struct library *l = &libraries[i];
		size_t n = 0;

		while (*at && *at != ':' && n < sizeof(l->path) - 1)
			l->path[n++] = *at++;
		/* Too long, or no path: the library is not replaced. */
		l->path[l->path[0] == '/' && (!*at || *at == ':') ? n : 0] = 0;
		at = *at == ':' ? at + 1 : NULL;
	}
}

/* Any version will do: the two calls below are as old as the interface. */
HOOK unsigned la_version(unsigned version);
unsigned la_version(unsigned version)
{
	return version;
}

/** The library that a file of this name, without directories, is; or LIBRARIES. */
static unsigned library_of(const char *base)
{
	unsigned i = 0;

	while (i < LIBRARIES && !libname_is(base, libraries[i].stem))
		i++;
	return i;
}

/** Some machines' dynamic linkers leave addresses in the dynamic section relative to the object. */
static const void *address(const struct link_map *map, ElfW(Addr) at)
{
	return (const void *)(at < map->l_addr ? at + map->l_addr : at);
}

static bool has_version(const struct library *l, const char *name)
{
	if (libname_after(name, l->providers))
		return true;
	for (const char *const *v = l->versions; *v; v++)
		if (is_same(*v, name))
			return true;
	return false;
}

/** The flags for one file that an object needs versions of. */
static unsigned flags_of_file(const ElfW(Verneed) * need, const char *strings)
{
	const char *at = (const char *)need + need->vn_aux, *file = strings + need->vn_file;
	const char *base = libname_base(file);
	const unsigned i = library_of(base);
	unsigned flags = 0;

	if (i == LIBRARIES)
		return 0;
	if (base != file)
		flags |= ABSOLUTE(i);
	for (unsigned n = need->vn_cnt; n; n--) {
		const ElfW(Vernaux) *aux = (const void *)at;

		if (!(aux->vna_flags & VER_FLG_WEAK) &&
		    !has_version(&libraries[i], strings + aux->vna_name))
			flags |= NEWER(i);
		at += aux->vna_next;
	}
	return flags;
}

static unsigned flags_of(const struct link_map *map)
{
	const char *strings = NULL, *at = NULL;
	ElfW(Xword) n = 0;
	unsigned flags = 0;

	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = address(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERNEED)
			at = address(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERNEEDNUM)
			n = d->d_un.d_val;
	for (; strings && at && n; n--) {
		const ElfW(Verneed) *need = (const void *)at;

		flags |= flags_of_file(need, strings);
		at += need->vn_next;
	}
	return flags;
}

HOOK unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie);
unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie)
{
	const unsigned namespace = id >= 0 && id < NAMESPACES ? (unsigned)id : 0;
	unsigned flags = flags_of(map);

	audit_tls_add(map);
	for (unsigned i = 0; i < LIBRARIES; i++)
		if (libraries[i].path[0] && is_same(map->l_name, libraries[i].path)) {
			libraries[i].loaded |= 1u << namespace;
			flags |= OURS(i);
		}
	*cookie = namespace << NAMESPACE_SHIFT | flags;
	return 0; /* no calls between objects are audited */
}

HOOK void la_preinit(uintptr_t *cookie);
void la_preinit(uintptr_t *cookie)
{
	(void)cookie;
	audit_tls_end();
}

HOOK unsigned la_objclose(uintptr_t *cookie);
unsigned la_objclose(uintptr_t *cookie)
{
	for (unsigned i = 0; i < LIBRARIES; i++)
		if (*cookie & OURS(i))
			libraries[i].loaded &= ~(1u << (*cookie >> NAMESPACE_SHIFT));
	return 0;
}

/*
 * The dynamic linker checks versions by the file's name, so it must record the name for rocemu's
 * file. It does so for a name that was replaced, if the file is not loaded yet. If it is, it
 * records the name that it searches directories for: so not that is replaced, but the first path
 * that it tries. It does not call here for a path that dlmopen() is to load into another namespace,
 * as verbs/real.c loads the system's libibverbs.
 */
HOOK char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
	static char nowhere[] = "";
	const char *base = libname_base(name);
	const unsigned i = library_of(base);
	struct library *l = &libraries[i];
	char *const as_it_is = (char *)(uintptr_t)name;
	const uintptr_t by = *cookie < COOKIE_MAX ? *cookie : 0;

	if (i == LIBRARIES || !l->path[0])
		return as_it_is;
	if (by & NEWER(i)) /* another file of that name, wherever it is */
		return flag != LA_SER_ORIG && is_same(name, l->path) ? nowhere : as_it_is;
	if (!(l->loaded & 1u << (by >> NAMESPACE_SHIFT)))
		return l->path;
	if (flag == LA_SER_ORIG && (base == name || by & ABSOLUTE(i)))
		return as_it_is;
	return l->path;
}
