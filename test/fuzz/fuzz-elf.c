/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that `rocemu run` is to execute: whatever they are, only their bytes are read. */
#include "driver.h"

#include <elf.h>
#include <string.h>

#include "elf-file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf elf;

	if (elf_read(data, size, &elf)) {
		FUZZ_CHECK(size >= sizeof(Elf32_Ehdr) && !memcmp(data, ELFMAG, SELFMAG));
		FUZZ_CHECK(memchr(elf.interp, 0, sizeof(elf.interp)));
		FUZZ_CHECK(!elf.is_static || !elf.interp[0]);
	}
	elf_names_rdma(data, size);
	elf_is_go(data, size);
	return 0;
}
