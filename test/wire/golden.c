/* SPDX-License-Identifier: BSD-2-Clause */
#include "golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_pcap(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 5 && strcmp(e->d_name + n - 5, ".pcap") == 0;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "golden captures: %s: %s\n", what, why);
	abort();
}

static size_t one_file(const char *name, golden_fn *fn, void *user)
{
	char path[512], err[256];
	struct capture_reader *r;
	struct capture_rec rec;
	size_t n = 0;
	int more;

	snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, name);
	if (capture_reader_open(&r, path, err, sizeof(err)) != 0)
		die(name, err);
	for (; (more = capture_next(r, &rec)) == 1; n++)
		fn(name, &rec, user);
	if (more != 0)
		die(name, capture_reader_error(r));
	capture_reader_close(r);
	return n;
}

size_t golden_for_each(golden_fn *fn, void *user)
{
	struct dirent **list;
	int nfiles = scandir(GOLDEN_DIR, &list, is_pcap, alphasort);
	size_t n = 0;

	if (nfiles <= 0)
		die(GOLDEN_DIR, "no captures there");
	for (int i = 0; i < nfiles; i++) {
		n += one_file(list[i]->d_name, fn, user);
		free(list[i]);
	}
	free(list);
	return n;
}

struct rocemu_icrc_ctx golden_icrc_ctx(const struct ip_udp *ip)
{
	return (struct rocemu_icrc_ctx){
		.src = ip->src,
		.dst = ip->dst,
		.sport = ip->sport,
		.dport = ip->dport,
		.ip_id = ip->ip_id,
		.ip_frag = ip->ip_frag,
	};
}

uint8_t *exact_copy(const uint8_t *data, size_t len)
{
	/* malloc(0) may be NULL: a block whose end is the empty buffer will do. */
	uint8_t *p = malloc(len != 0 ? len : 1);

	if (p == NULL)
		abort();
	if (len == 0)
		return p;
	return memcpy(p, data, len);
}
