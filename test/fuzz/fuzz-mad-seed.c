/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-mad starts from: the recorded MADs, CMA headers among them, and a GRH of each kind. */
#include "driver.h"
#include "../wire/golden.h"

#include <rocemu/cm.h>

static void add(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_cm_msg m;
	struct rocemu_packet p;

	(void)file;
	if (rocemu_packet_decode(&p, rec->data, rec->len) != ROCEMU_DROP_NONE ||
	    rocemu_cm_decode(&m, p.payload, p.payload_len) != ROCEMU_MAD_OK)
		return;
	fuzz_corpus_add(user, p.payload, p.payload_len);
	if (m.attr_id == ROCEMU_CM_REQ)
		fuzz_corpus_add(user, m.req.private_data, ROCEMU_CMA_LEN);
}

static void add_grh(struct fuzz_corpus *c, uint8_t ipver)
{
	struct rocemu_grh g = {
		.ipver = ipver,
		.paylen = 300,
		.nxthdr = 17,
		.hop_limit = 64,
		.sgid.raw = {0xfd, [15] = 1},
		.dgid.raw = {0xfd, [15] = 2},
	};
	uint8_t buf[ROCEMU_GRH_LEN];

	rocemu_grh_encode(&g, buf);
	fuzz_corpus_add(c, buf, sizeof(buf));
}

void fuzz_seed(struct fuzz_corpus *c)
{
	golden_for_each(add, c);
	add_grh(c, 4);
	add_grh(c, 6);
}
