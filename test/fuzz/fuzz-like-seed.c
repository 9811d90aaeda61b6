/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-like starts from: a line for each trait that is emulated, and for each kind of value.
 */
#include "driver.h"

#include <string.h>

static const char *const texts[] = {
	"name some-nic\nstatus measured\n# a comment\n\nrecovery keeps | a source",
	"recovery goes_back | a.c:7\nprobes no\nmigreq 0\nack_credits 0..30\nnak_cnp yes",
	"extra_repetitions 4..11\nack_timeout_floor 530ms..545ms\nrnr_wait_floor 1.5ms",
	"nak_delay 40us\ncnp_interval 50us..60us\nmax_sge 4\nmax_inline_data 0x40",
	"max_qp_wr 100\r\nmax_qp_rd_atom 4294967295\npartial_write begun |",
};

void fuzz_seed(struct fuzz_corpus *c)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		fuzz_corpus_add(c, texts[i], strlen(texts[i]));
}
