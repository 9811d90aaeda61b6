/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-annotate starts from: the shorter recorded captures, and the same as pcapng. */
#include "driver.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { MOST = 8000, PCAP_HEADER = 24, PCAP_RECORD = 16, PCAP_LINK = 20 };

static size_t put32(uint8_t *p, size_t n, uint32_t v)
{
	put_le32(p + n, v);
	return n + 4;
}

/* A pcap file's frames as pcapng, of two interfaces in turn. */
static size_t to_pcapng(const uint8_t *in, size_t size, uint8_t *p)
{
	static const uint32_t section[] = {0x0a0d0d0a, 28,	   0x1a2b3c4d, 1,
					   UINT32_MAX, UINT32_MAX, 28};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(section) / sizeof(section[0]); i++)
		n = put32(p, n, section[i]);
	for (unsigned i = 0; i < 2; i++) {
		n = put32(p, n, 1);
		n = put32(p, n, 20);
		n = put32(p, n, in[PCAP_LINK]);
		n = put32(p, n, 0);
		n = put32(p, n, 20);
	}
	for (size_t at = PCAP_HEADER, k = 0; at + PCAP_RECORD <= size; k++) {
		uint32_t len = get_le32(in + at + 8), padded = (len + 3) & ~3u;

		n = put32(p, n, 6);
		n = put32(p, n, 32 + padded);
		n = put32(p, n, k & 1);
		n = put32(p, n, 0);
		n = put32(p, n, (uint32_t)k);
		n = put32(p, n, len);
		n = put32(p, n, len);
		memset(p + n, 0, padded);
		memcpy(p + n, in + at + PCAP_RECORD, len);
		n = put32(p, n + padded, 32 + padded);
		at += PCAP_RECORD + len;
	}
	return n;
}

void fuzz_seed(struct fuzz_corpus *c)
{
	static uint8_t in[MOST + 1], out[4 * MOST];
	struct dirent **e = NULL;
	int entries = scandir(GOLDEN_DIR, &e, NULL, alphasort);
	char path[512];
	FILE *f;

	for (int i = 0; i < entries; i++) {
		size_t n;

		snprintf(path, sizeof(path), "%s/%.200s", GOLDEN_DIR, e[i]->d_name);
		f = strstr(path, ".pcap") != NULL ? fopen(path, "re") : NULL;
		free(e[i]);
		if (f == NULL)
			continue;
		n = fread(in, 1, sizeof(in), f);
		fclose(f);
		if (n > MOST)
			continue;
		fuzz_corpus_add(c, in, n);
		fuzz_corpus_add(c, out, to_pcapng(in, n, out));
	}
	free(e);
}
