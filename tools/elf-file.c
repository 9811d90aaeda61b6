/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf-file.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "base/util.h"

static const uint8_t own_class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
static const uint8_t own_order =
	__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

static void read_interp(const uint8_t *data, size_t len, const ElfW(Phdr) * p, struct elf *elf)
{
	elf->is_static = false;
	if (p->p_filesz >= sizeof(elf->interp) || p->p_offset > len ||
	    p->p_filesz > len - p->p_offset)
		return;
	memcpy(elf->interp, data + p->p_offset, p->p_filesz);
}

bool elf_read(const uint8_t *data, size_t len, struct elf *elf)
{
	ElfW(Ehdr) e;

	if (len < sizeof(Elf32_Ehdr) || memcmp(data, ELFMAG, SELFMAG) != 0 ||
	    data[EI_DATA] != own_order)
		return false;
	memset(elf, 0, sizeof(*elf));
	elf->class = data[EI_CLASS];
	/* At the same place in both classes. */
	memcpy(&elf->machine, data + offsetof(Elf32_Ehdr, e_machine), sizeof(elf->machine));
	if (elf->class != own_class || len < sizeof(e))
		return true;
	memcpy(&e, data, sizeof(e));
	elf->is_static = e.e_type == ET_EXEC || e.e_type == ET_DYN;
	for (size_t i = 0; i < e.e_phnum; i++) {
		ElfW(Phdr) p;

		if (e.e_phoff > len || len - e.e_phoff < (i + 1) * sizeof(p))
			break;
		memcpy(&p, data + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_INTERP)
			read_interp(data, len, &p, elf);
	}
	return true;
}

bool elf_names_rdma(const uint8_t *data, size_t len)
{
	static const char *const names[] = {"libibverbs", "librdmacm", "/class/infiniband",
					    "/dev/infiniband"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (memmem(data, len, names[i], strlen(names[i])))
			return true;
	return false;
}

bool elf_is_go(const uint8_t *data, size_t len)
{
	static const char build_info[] = "\xff Go buildinf:";

	return memmem(data, len, build_info, sizeof(build_info) - 1);
}
