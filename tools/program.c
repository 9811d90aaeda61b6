/* SPDX-License-Identifier: BSD-2-Clause */
#include "program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/libname.h"
#include "base/log.h"
#include "elf-file.h"

/* The linker's name for this program's own header. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/** @return false: none, as execvp() will report. */
static bool find(const char *name, char path[static PATH_MAX])
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_program(path);
	for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir;) {
		const size_t n = strcspn(dir, ":");

		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)n, dir, n ? "/" : "", name) <
			    PATH_MAX &&
		    is_program(path))
			return true;
		dir = dir[n] ? dir + n + 1 : NULL;
	}
	return false;
}

/** What gives the program privilege that this process does not have (AT_SECURE); or NULL. */
static const char *privilege(int fd)
{
	struct statvfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || fstatvfs(fd, &fs) < 0 || (fs.f_flag & ST_NOSUID) ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return NULL;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return "is set-user-ID";
	if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid())
		return "is set-group-ID";
	if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "has file capabilities";
	return NULL;
}

static bool is_other_machine(const struct elf *elf)
{
	return elf->class != __ehdr_start.e_ident[EI_CLASS] ||
	       elf->machine != __ehdr_start.e_machine;
}

/** Of another C library, as far as its name shows it. */
static bool is_other_libc(const struct elf *elf)
{
#ifdef __GLIBC__
	return libname_after(libname_base(elf->interp), "ld-musl");
#else
	(void)elf;
	return false;
#endif
}

static void check_file(const char *path, const uint8_t *data, size_t len, bool has_sysfs)
{
	static const char none[] = "it finds no emulated device";
	struct elf elf;

	if (!elf_read(data, len, &elf) ||
	    !(is_other_machine(&elf) || is_other_libc(&elf) || (elf.is_static && !has_sysfs)) ||
	    !elf_names_rdma(data, len)) /* reads it all, so comes last */
		return;
	if (is_other_machine(&elf))
		log_warn("%s is a %d-bit program for machine %u, rocemu is %d-bit for machine %u: "
			 "%s; run it with a rocemu of its own architecture",
			 path, elf.class == ELFCLASS64 ? 64 : 32, elf.machine,
			 (int)sizeof(void *) * 8, __ehdr_start.e_machine, none);
	else if (is_other_libc(&elf))
		log_warn("%s is linked with musl (%s), and rocemu's libraries with the GNU C "
			 "library: %s; use a rocemu that was built with musl",
			 path, elf.interp, none);
	else if (elf_is_go(data, len))
		log_warn("%s is a static Go program, which loads no libraries: %s; build it with "
			 "cgo, or use --mount-paths if it only reads /sys/class/infiniband",
			 path, none);
	else
		log_warn("%s is statically linked, and so does not load rocemu's libibverbs: %s; "
			 "link it with the shared libibverbs",
			 path, none);
}

void program_check(const char *name, bool has_sysfs)
{
	char path[PATH_MAX];
	const char *why;
	struct stat st;
	void *data;
	int fd;

	if (!log_enabled(LOG_LVL_WARN) || !find(name, path))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return;
	why = privilege(fd);
	if (why)
		log_warn("%s %s, so the dynamic linker ignores LD_AUDIT, LD_LIBRARY_PATH and "
			 "LD_PRELOAD: it finds no emulated device; if it starts another program, "
			 "put rocemu run behind it (\"%s rocemu run ...\"), else run a copy of it "
			 "without privilege",
			 path, why, name);
	else if (fstat(fd, &st) == 0 && st.st_size > 0 &&
		 (data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) !=
			 MAP_FAILED) {
		check_file(path, data, (size_t)st.st_size, has_sysfs);
		munmap(data, (size_t)st.st_size);
	}
	close(fd);
}
