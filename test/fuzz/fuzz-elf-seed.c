/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-elf starts from: small programs, dynamic and static, of both classes. */
#include "driver.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

struct file {
	ElfW(Ehdr) e;
	ElfW(Phdr) p[2];
	char interp[32], text[32];
};

void fuzz_seed(struct fuzz_corpus *c)
{
	struct file f = {
		.e = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
				  sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32,
				  __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB
									    : ELFDATA2MSB},
		      .e_type = ET_DYN,
		      .e_phoff = offsetof(struct file, p),
		      .e_phnum = 2},
		.p = {{.p_type = PT_LOAD, .p_filesz = sizeof(f)},
		      {.p_type = PT_INTERP,
		       .p_offset = offsetof(struct file, interp),
		       .p_filesz = sizeof(f.interp)}},
		.interp = "/lib64/ld-linux-x86-64.so.2",
		.text = "/sys/class/infiniband",
	};

	fuzz_corpus_add(c, &f, sizeof(f));
	f.e.e_phnum = 1;
	fuzz_corpus_add(c, &f, sizeof(f));
	f.e.e_ident[EI_CLASS] = ELFCLASS32 + ELFCLASS64 - f.e.e_ident[EI_CLASS];
	fuzz_corpus_add(c, &f, sizeof(f));
}
