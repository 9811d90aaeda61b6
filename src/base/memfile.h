/* SPDX-License-Identifier: BSD-2-Clause */
/* Files in memory, where the system restricts memfd_create(2). */
#ifndef BASE_MEMFILE_H
#define BASE_MEMFILE_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u /* Linux 6.3 */
#endif

/**
 * As memfd_create(2), and nothing can be executed from it: administrators may allow no other files
 * in memory (sysctl vm.memfd_noexec). Allocates nothing.
 */
static inline int memfile(const char *name, unsigned flags)
{
	const int fd = (int)syscall(SYS_memfd_create, name, flags | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? (int)syscall(SYS_memfd_create, name, flags) : fd;
}

/** For what need not be in memory: where a sandbox forbids memfd_create(), a file without a name.
 */
static inline int memfile_or_temporary(const char *name, unsigned flags)
{
	static const char *const places[] = {"/dev/shm", "/tmp", "/var/tmp"};
	const int cloexec = flags & MFD_CLOEXEC ? O_CLOEXEC : 0;
	int fd = memfile(name, flags);

	for (unsigned i = 0; i < sizeof(places) / sizeof(*places) && fd < 0; i++)
		fd = open(places[i], O_TMPFILE | O_RDWR | cloexec, 0600);
	return fd;
}

#endif
