/* SPDX-License-Identifier: BSD-2-Clause */
#include "foreign.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/libname.h"

/* The name of a version that only rocemu's libraries define (verbs/gen-symbols.py). */
static const char mark[] = "ROCEMU_PRIVATE";

/* As the process was started; NULL: no messages. */
static const char *remedy;

__attribute__((constructor)) static void find_remedy(void)
{
	const char *audit = secure_getenv("ROCEMU_AUDIT"), *log = secure_getenv("ROCEMU_LOG");
	const char *auditors = secure_getenv("LD_AUDIT");

	if (log && !strcmp(log, "error"))
		return;
	if (auditors && strstr(auditors, "librocemu-audit.so"))
		remedy = "the program needs newer versions of its symbols than rocemu's has: build "
			 "rocemu with a newer rdma-core";
	else if (audit && *audit == '/')
		remedy = "LD_AUDIT does not name librocemu-audit.so, which replaces it: leave "
			 "LD_AUDIT as rocemu run sets it";
	else if (audit && !strcmp(audit, "off"))
		remedy = "ROCEMU_AUDIT is off: unset it, and rocemu run replaces this file";
	else
		remedy = "have the program load the libibverbs.so.1 and librdmacm.so.1 of rocemu";
}

/** An object's dynamic section has addresses, or on some machines offsets. */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) at)
{
	return (const void *)(at < info->dlpi_addr ? at + info->dlpi_addr : at);
}

static bool is_ours(const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *d = NULL;
	const void *strings = NULL;
	size_t len = 0;

	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = address(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRSZ)
			len = d->d_un.d_val;
	return strings && memmem(strings, len, mark, sizeof(mark));
}

struct search {
	const char *found;
	unsigned long long loads; /* of the process so far */
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	static unsigned long long seen; /* the same for all threads sooner or later */
	struct search *s = arg;
	const char *base;

	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) && !s->loads) {
		s->loads = info->dlpi_adds;
		if (__atomic_exchange_n(&seen, s->loads, __ATOMIC_RELAXED) == s->loads)
			return 1;
	}
	base = libname_base(info->dlpi_name);
	if ((libname_is(base, "libibverbs") || libname_is(base, "librdmacm")) && !is_ours(info))
		s->found = info->dlpi_name;
	return s->found != NULL;
}

static void print(const char *file)
{
	const char *const parts[] = {
		"rocemu: ", file, " is not rocemu's and has no emulated devices: ", remedy, "\n"};
	struct iovec line[sizeof(parts) / sizeof(parts[0])];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		line[i] = (struct iovec){(void *)(uintptr_t)parts[i], strlen(parts[i])};
	syscall(SYS_writev, STDERR_FILENO, line, sizeof(parts) / sizeof(parts[0]));
}

void foreign_check(void)
{
	static bool done;
	const int saved = errno;
	struct search s = {0};

	if (!remedy || __atomic_load_n(&done, __ATOMIC_RELAXED))
		return;
	dl_iterate_phdr(look, &s);
	if (s.found && !__atomic_exchange_n(&done, true, __ATOMIC_RELAXED))
		print(s.found);
	errno = saved;
}
