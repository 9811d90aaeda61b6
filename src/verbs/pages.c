/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks that the program may read, or write, the memory that it registers. A kernel that pins the
 * pages touches each of them, and so does this file for a small region. For a large one that would
 * allocate memory that a sparse region never uses: only its mappings are checked, and the pages at
 * its ends are touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/odp.h"
#include "verbs/pages.h"

enum {
	TOUCHED_MAX = 65536, /* bytes of a region whose pages are all touched */
	LINE_MAX_BYTES =
		4352, /* of a mapping's text: the path is its last part, and PATH_MAX is 4096 */
};

/* PROCMAP_QUERY (Linux 6.11), of <linux/fs.h>, which may be older. */
struct map_query {
	uint64_t size, flags, addr;
	uint64_t start, end, vma_flags, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
enum { MAP_READABLE = 1 << 0, MAP_WRITABLE = 1 << 1 };

/* One call a mapping. @return 0, -EFAULT a mapping is missing or lacks a right; or 1: the kernel
 * has no such call. */
static int query_mappings(int fd, uintptr_t from, uintptr_t to, uint64_t need)
{
	bool any = false;

	while (from < to) {
		struct map_query q = {.size = sizeof(q), .addr = from};

		if (ioctl(fd, MAP_QUERY, &q) < 0)
			return any || errno == ENOENT ? -EFAULT : 1;
		if ((q.vma_flags & need) != need || q.end <= from)
			return -EFAULT;
		any = true;
		from = (uintptr_t)q.end;
	}
	return 0;
}

/* The same from the text, all of which the kernel writes from the lowest mapping on. */
static int read_mappings(FILE *f, uintptr_t from, uintptr_t to, uint64_t need)
{
	char line[LINE_MAX_BYTES];

	while (from < to && fgets(line, sizeof(line), f)) {
		unsigned long long start, end;
		char r, w;

		if (sscanf(line, "%llx-%llx %c%c", &start, &end, &r, &w) != 4)
			return 1;
		if (end <= from)
			continue;
		if (start > from || ((need & MAP_READABLE) && r != 'r') ||
		    ((need & MAP_WRITABLE) && w != 'w'))
			return -EFAULT;
		from = (uintptr_t)end;
	}
	if (ferror(f))
		return 1;
	return from < to ? -EFAULT : 0;
}

/* @return as query_mappings(); 1: not known, for instance without /proc. */
static int check_mappings(uintptr_t from, uintptr_t to, uint64_t need)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int ret;

	if (!f)
		return 1;
	ret = query_mappings(fileno(f), from, to, need);
	if (ret > 0)
		ret = read_mappings(f, from, to, need);
	fclose(f);
	return ret;
}

int vb_pages_check(const void *addr, size_t length, bool write)
{
	const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	const uintptr_t end = (uintptr_t)addr + length;
	const uintptr_t first = (uintptr_t)addr & ~(page_size - 1);
	const uintptr_t last = (end - 1) & ~(page_size - 1);
	int ret;

	if (end < (uintptr_t)addr)
		return REFUSE(-EINVAL, 0,
			      "ibv_reg_mr: address %p, length %zu: the range must not wrap around: "
			      "change them",
			      addr, length);
	if (length <= TOUCHED_MAX && vb_can_page_in())
		return vb_page_in((void *)first, end - first, write) ? 0 : -EFAULT;
	if (vb_can_page_in() &&
	    (!vb_page_in((void *)first, 1, write) || !vb_page_in((void *)last, 1, write)))
		return -EFAULT;
	ret = check_mappings(first, last, MAP_READABLE | (write ? MAP_WRITABLE : 0));
	/* With MS_ASYNC msync() on Linux only checks that the range is mapped. */
	if (ret > 0)
		ret = msync((void *)first, last - first + page_size, MS_ASYNC) < 0 &&
				      errno == ENOMEM
			      ? -EFAULT
			      : 0;
	return ret;
}
