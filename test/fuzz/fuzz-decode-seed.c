/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-decode starts from: the recorded packets, and the same with their IP headers. */
#include "driver.h"
#include "../wire/golden.h"

static void add(const char *file, const struct capture_rec *rec, void *user)
{
	size_t ip_len = rocemu_gid_is_ipv4(&rec->ip.src) ? IPV4_LEN + UDP_LEN : IPV6_LEN + UDP_LEN;

	(void)file;
	fuzz_corpus_add(user, rec->data, rec->len);
	if (rec->number == 1) /* the reader of IP headers needs no more than a few */
		fuzz_corpus_add(user, rec->data - ip_len, rec->len + ip_len);
}

void fuzz_seed(struct fuzz_corpus *c)
{
	golden_for_each(add, c);
}
