/* SPDX-License-Identifier: BSD-2-Clause */
/* What the bytes of a program's file show about it. Pure. */
#ifndef TOOLS_ELF_FILE_H
#define TOOLS_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ELF_INTERP_MAX = 256 };

struct elf {
	uint8_t class;	  /* ELFCLASS64 or ELFCLASS32 */
	uint16_t machine; /* EM_X86_64 for instance */
	/* The rest is read of files of this program's own class only. */
	bool is_static;
	char interp[ELF_INTERP_MAX]; /* the dynamic linker; "": static, or a name that is too long
				      */
};

/** @return false: not an ELF file of this machine's byte order. data: the whole file. */
bool elf_read(const uint8_t *data, size_t len, struct elf *elf);

/** Does it name the library of RDMA, or a place of its devices? */
bool elf_names_rdma(const uint8_t *data, size_t len);

/** Was it made by the Go compiler? */
bool elf_is_go(const uint8_t *data, size_t len);

#endif
